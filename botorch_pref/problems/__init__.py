r"""Problems with a known utility, on which strategies are measured."""

from botorch_pref.problems.base import ItemError, PreferenceProblem
from botorch_pref.problems.beliefs import MVNExpert, belief_mean
from botorch_pref.problems.borda import BordaFunction, uniform_items
from botorch_pref.problems.catalyst import Catalyst
from botorch_pref.problems.classics import CrossInTray, Levy13
from botorch_pref.problems.duel_links import BordaConstants, DuelLink
from botorch_pref.problems.dueling_choice import DuelingChoiceJudge
from botorch_pref.problems.electrolyte import ElectrolyteStandIn
from botorch_pref.problems.expert_benchmarks import EXPERT_BENCHMARKS, ExpertBenchmark
from botorch_pref.problems.experts import Expert
from botorch_pref.problems.fidelities import (
    Borehole,
    CurrinExp,
    FidelityFacts,
    FidelityProblem,
)
from botorch_pref.problems.gp_sample import GPSample
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.problems.magic_gamma import MagicGammaSVM, SplitSizes
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
from botorch_pref.problems.utility_experts import (
    AccuracySchedule,
    SyntheticExpert,
    TimeVaryingExpert,
)

__all__ = [
    "EXPERT_BENCHMARKS",
    "STANDARDISED_FUNCTIONS",
    "AccuracySchedule",
    "Ackley",
    "BordaConstants",
    "BordaFunction",
    "Borehole",
    "Catalyst",
    "CrossInTray",
    "CurrinExp",
    "DigitsTuning",
    "DuelLink",
    "DuelingChoiceJudge",
    "ElectrolyteStandIn",
    "Expert",
    "ExpertBenchmark",
    "FidelityFacts",
    "FidelityProblem",
    "GPSample",
    "ItemError",
    "Levy13",
    "LogisticJudge",
    "MVNExpert",
    "MagicGammaSVM",
    "PreferenceProblem",
    "RKHSFunction",
    "Ratings",
    "RatingsTable",
    "SplitSizes",
    "StandardisedFunction",
    "StandardisedSettings",
    "SyntheticExpert",
    "SyntheticProblem",
    "TableProblem",
    "ThermalComfort",
    "TimeVaryingExpert",
    "belief_mean",
    "dueling_regret",
    "get_problem",
    "predicted_dissatisfied",
    "predicted_mean_vote",
    "problem_names",
    "random_play_regret",
    "scalar_regret",
    "simple_regret",
    "uniform_items",
    "utility_regret",
]
