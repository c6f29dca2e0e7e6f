r"""Problems with a known utility, on which strategies are measured."""

from botorch_pref.problems.base import ItemError, PreferenceProblem
from botorch_pref.problems.catalyst import Catalyst
from botorch_pref.problems.classics import CrossInTray, Levy13
from botorch_pref.problems.gp_sample import GPSample
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.problems.ratings import Ratings, RatingsTable
from botorch_pref.problems.registry import get_problem, problem_names
from botorch_pref.problems.regret import (
    dueling_regret,
    random_play_regret,
    scalar_regret,
    simple_regret,
    utility_regret,
)
from botorch_pref.problems.rkhs import RKHSFunction
from botorch_pref.problems.standardised import (
    STANDARDISED_FUNCTIONS,
    StandardisedFunction,
    StandardisedSettings,
)
from botorch_pref.problems.synthetic import Ackley, SyntheticProblem
from botorch_pref.problems.table import TableProblem
from botorch_pref.problems.thermal_comfort import (
    ThermalComfort,
    predicted_dissatisfied,
    predicted_mean_vote,
)
from botorch_pref.problems.tuning import DigitsTuning

__all__ = [
    "STANDARDISED_FUNCTIONS",
    "Ackley",
    "Catalyst",
    "CrossInTray",
    "DigitsTuning",
    "GPSample",
    "ItemError",
    "Levy13",
    "LogisticJudge",
    "PreferenceProblem",
    "RKHSFunction",
    "Ratings",
    "RatingsTable",
    "StandardisedFunction",
    "StandardisedSettings",
    "SyntheticProblem",
    "TableProblem",
    "ThermalComfort",
    "dueling_regret",
    "get_problem",
    "predicted_dissatisfied",
    "predicted_mean_vote",
    "problem_names",
    "random_play_regret",
    "scalar_regret",
    "simple_regret",
    "utility_regret",
]
