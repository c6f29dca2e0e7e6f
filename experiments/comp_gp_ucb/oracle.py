r"""GP-UCB that knows where duels leave hope: what a filter could do at best.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.strategies.base import Candidate, Chosen
from botorch_pref.strategies.comp_gp_ucb import RAW_SAMPLES
from experiments.baselines import GPUCB
from experiments.problems import (
    BordaFunction,
    Borehole,
    CurrinExp,
    DuelingChoiceJudge,
    FidelityProblem,
)

_PROBLEMS: dict[str, type[FidelityProblem]] = {"currinexp": CurrinExp, "borehole": Borehole}
_STARTS = 64


class OracleGPUCB(GPUCB):
    r"""GP-UCB on ``H = {x: f_r(x) >= max f_r - L_2 zeta}`` of [Xu2020], known from the start.

    It asks for values alone, after the initial design only inside. It is a control, not a
    strategy, as the Borda function is not known in practice. Duels decided for certain order items
    as ``f_c`` does, so ``H`` is where ``f_c`` is large enough, which is exact and differentiable.

    Args:
        problem: The name of a problem with two fidelities; the item with the larger low one
            wins a duel for certain.
        borda_slack: ``L_2 zeta``, as of :class:`~botorch_pref.strategies.CompGPUCB`.

    Raises:
        UnsupportedError: If the problem has no second fidelity.
    """

    def __init__(
        self, *args: Any, problem: str = "currinexp", borda_slack: float = 0.0, **options: Any
    ) -> None:
        super().__init__(*args, **options)
        self.problem, self.borda_slack = problem, borda_slack
        if problem not in _PROBLEMS:
            raise UnsupportedError(f"{problem!r} is none of {', '.join(_PROBLEMS)}.")
        self._problem = _PROBLEMS[problem]()
        borda = BordaFunction(DuelingChoiceJudge(self._problem))
        values, rows = self._problem.low_fidelity(borda.opponents).sort(descending=True)
        inside = borda.scores(values) >= borda.best - borda_slack
        inside[0] = True  # as good as a set of points can tell
        self._least = float(values[inside][-1])
        starts = borda.opponents[rows[inside]]
        self._starts = starts[:: max(1, len(starts) // _STARTS)].unsqueeze(-2)

    def _margin(self, items: Tensor) -> Tensor:
        """By how much ``f_c`` exceeds the least in ``H``."""
        return self._problem.low_fidelity(items) - self._least

    def _next(self) -> Chosen:
        if not self.values.answers:
            return super()._next()
        step = self._step()
        with torch.enable_grad():
            found = self.space.maximize(
                step.of_values(),
                seed=step.seed,
                starts=self._starts,
                raw_samples=RAW_SAMPLES,
                feasible=self._margin,
            )
        return Chosen(self.record_type("value", "values"), Candidate.of(found))
