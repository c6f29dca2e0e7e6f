r"""Problems with a known utility, on which strategies are measured."""

from botorch_pref.problems.base import ItemError, PreferenceProblem, TableProblem
from botorch_pref.problems.catalyst import Catalyst
from botorch_pref.problems.electrolyte import ElectrolyteStandIn
from botorch_pref.problems.experts import Expert, SyntheticExpert
from botorch_pref.problems.fidelities import (
    CurrinExp,
    FidelityFacts,
    FidelityProblem,
)
from botorch_pref.problems.judges import (
    DuelingChoiceJudge,
    DuelLink,
    LogisticJudge,
)
from botorch_pref.problems.registry import get_problem, problem_names
from botorch_pref.problems.regret import (
    dueling_regret,
    random_play_regret,
    scalar_regret,
    simple_regret,
)
from botorch_pref.problems.rkhs import RKHSFunction
from botorch_pref.problems.synthetic import Ackley, SyntheticProblem
from botorch_pref.problems.thermal_comfort import (
    ThermalComfort,
    predicted_dissatisfied,
    predicted_mean_vote,
)

__all__ = [
    "Ackley",
    "Catalyst",
    "CurrinExp",
    "DuelLink",
    "DuelingChoiceJudge",
    "ElectrolyteStandIn",
    "Expert",
    "FidelityFacts",
    "FidelityProblem",
    "ItemError",
    "LogisticJudge",
    "PreferenceProblem",
    "RKHSFunction",
    "SyntheticExpert",
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
]
