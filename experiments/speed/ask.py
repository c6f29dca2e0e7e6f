r"""A suggestion of every strategy, in a loop of its own."""

from __future__ import annotations

import torch

from botorch_pref.problems import LogisticJudge, get_problem
from botorch_pref.problems.judges import item_utility
from botorch_pref.queries import Label, Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import COBOL
from botorch_pref.strategies.base import Strategy
from botorch_pref.strategies.registry import get_strategy
from experiments.baselines import BASELINES
from experiments.defaults.loop import StandardisedProblem
from experiments.speed.duels import DIM
from experiments.speed.timing import Case, Run, Side

COBOL_NAME = "cobol"
STRATEGIES = (
    "pf-ts",
    "mr-lpf",
    "max-min-lcb",
    "pop-bo",
    "eubo",
    "dts",
    "sgp",
    COBOL_NAME,
    "comp-gp-ucb",
    "cost-aware-kg",
    "gp-ucb",
    "mf-gp-ucb",
    "borda-ucb",
    "self-sparring",
    "gp-ts",
)
_REPEATS = 11  # of which one comes with new hyperparameters, after 100 answers


def ask_cases(section: str, size: int, device: torch.device) -> list[Case]:
    r"""The rows of the strategies.

    Args:
        section: The part of the table.
        size: The number of answers before the first suggestion that is timed.
        device: Where they compute.

    Returns:
        A case a strategy.
    """
    data = f"{{m}} answers, d={DIM}, a box"
    cases = []
    for name in STRATEGIES:
        ours = Side(name, Loop(name, size, device).prepare, _REPEATS)
        cases.append(Case(section, "an answer and a suggestion (tell, ask)", data, size, ours))
    return cases


class Loop:
    r"""A strategy in a closed loop with a judge.

    Args:
        name: The strategy's, of :func:`~botorch_pref.strategies.registry.get_strategy`; or COBOL's,
            whose expert accepts what is better than an average item.
        size: How many answers it has when it is first timed, the last of them told then.
        device: Where it computes.
    """

    def __init__(self, name: str, size: int, device: torch.device) -> None:
        self.name, self.size, self.device = name, size, device
        self.strategy: Strategy | None = None

    def prepare(self) -> Run:
        """Plays up to an answer; to tell it and to ask on is what is returned."""
        problem = StandardisedProblem(get_problem("hartmann6"))
        judge = LogisticJudge(problem)

        def answer(query: Query, number: int) -> float:
            if isinstance(query, Label):
                return float(item_utility(problem, query) > 0.0)
            return judge(query, number)

        if self.strategy is None:
            self.strategy = self._made(SearchSpace(problem.bounds.to(self.device)))
            for number in range(self.size - 1):
                query = self.strategy.ask()
                self.strategy.tell(query, answer(query, number))
        strategy = self.strategy
        query = strategy.ask()  # if it was timed, it is open
        told = answer(query, len(strategy.history))

        def run() -> Query:
            strategy.tell(query, told)  # what some learn, and plan, then
            return strategy.ask()

        return run

    def _made(self, space: SearchSpace) -> Strategy:
        if self.name == COBOL_NAME:
            return COBOL(space=space, seed=0)
        if self.name in BASELINES:
            return BASELINES[self.name](space=space, seed=0)
        return get_strategy(self.name, space, seed=0, horizon=self.size + _REPEATS)
