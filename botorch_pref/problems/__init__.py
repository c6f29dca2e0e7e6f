r"""Problems with a known utility, on which strategies are measured."""

from botorch_pref.problems.base import ItemError, PreferenceProblem, TableProblem
from botorch_pref.problems.catalyst import Catalyst
from botorch_pref.problems.electrolyte import ElectrolyteStandIn
from botorch_pref.problems.judges import LogisticJudge, SyntheticExpert
from botorch_pref.problems.registry import get_problem, problem_names
from botorch_pref.problems.rkhs import RKHSFunction
from botorch_pref.problems.synthetic import Ackley, SyntheticProblem
from botorch_pref.problems.thermal_comfort import ThermalComfort

__all__ = [
    "Ackley",
    "Catalyst",
    "ElectrolyteStandIn",
    "ItemError",
    "LogisticJudge",
    "PreferenceProblem",
    "RKHSFunction",
    "SyntheticExpert",
    "SyntheticProblem",
    "TableProblem",
    "ThermalComfort",
    "get_problem",
    "problem_names",
]
