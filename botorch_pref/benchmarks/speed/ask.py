r"""A suggestion of every preference strategy, in a loop of its own."""

from __future__ import annotations

import torch

from botorch_pref.benchmarks.loop import StandardisedProblem
from botorch_pref.benchmarks.speed.duels import DIM
from botorch_pref.benchmarks.speed.timing import Case, Run, Side
from botorch_pref.problems import LogisticJudge, get_problem
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.base import Strategy
from botorch_pref.strategies.registry import get_strategy

STRATEGIES = (
    "pf-ts",
    "mr-lpf",
    "max-min-lcb",
    "pop-bo",
    "eubo",
    "dts",
    "sgp",
    "comp-gp-ucb",
    "cost-aware-kg",
    "borda-ucb",
    "self-sparring",
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
        cases.append(Case(section, "one suggestion (ask)", data, size, ours))
    return cases


class Loop:
    r"""A strategy in a closed loop with a judge.

    Args:
        name: The strategy's, of :func:`~botorch_pref.strategies.registry.get_strategy`.
        size: How many answers it has had when it is first timed.
        device: Where it computes.
    """

    def __init__(self, name: str, size: int, device: torch.device) -> None:
        self.name, self.size, self.device = name, size, device
        self.strategy: Strategy | None = None

    def prepare(self) -> Run:
        """Plays up to the next suggestion, which it returns."""
        strategy, problem = self.strategy, StandardisedProblem(get_problem("hartmann6"))
        judge = LogisticJudge(problem)
        if strategy is None:
            space = SearchSpace(problem.bounds.to(self.device))
            horizon = self.size + _REPEATS
            strategy = self.strategy = get_strategy(self.name, space, seed=0, horizon=horizon)
            for step in range(self.size):
                strategy.tell(query := strategy.ask(), judge(query, step))
        else:  # the open query is the one that was timed last
            strategy.tell(query := strategy.ask(), judge(query, len(strategy.history)))
        return strategy.ask
