r"""Problems with a known utility, on which strategies are measured."""

from botorch_pref.problems.base import ItemError, PreferenceProblem
from botorch_pref.problems.catalyst import Catalyst
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
from botorch_pref.problems.synthetic import Ackley, SyntheticProblem
from botorch_pref.problems.table import TableProblem
from botorch_pref.problems.tuning import DigitsTuning

__all__ = [
    "Ackley",
    "Catalyst",
    "DigitsTuning",
    "ItemError",
    "LogisticJudge",
    "PreferenceProblem",
    "RKHSFunction",
    "Ratings",
    "RatingsTable",
    "SyntheticProblem",
    "TableProblem",
    "dueling_regret",
    "get_problem",
    "problem_names",
    "random_play_regret",
    "scalar_regret",
    "simple_regret",
    "utility_regret",
]
