r"""MR-LPF's rounds on a finite set of items, exactly."""

from __future__ import annotations

import torch
from gpytorch.kernels import ScaleKernel
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.inference.finite import (
    FiniteEngine,
    PairVarianceTable,
    Regularizer,
    argmax_with_random_ties,
)
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.mr_lpf.active_set import ActiveSet, AnsweredPair
from botorch_pref.strategies.mr_lpf.bounds import MAX_SLOPE
from botorch_pref.strategies.mr_lpf.elimination import Scale, survivors
from botorch_pref.strategies.mr_lpf.rounds import Outcome, RoundSetting
from botorch_pref.strategies.utility import Pair


class ActiveChoices(ActiveSet):
    r"""The choices that are still in the running.

    Args:
        space: A space with choices.
        regularizer: The penalty of the predictor; see
            :class:`~botorch_pref.inference.finite.FiniteEngine`.
        ci_scale: See :func:`~botorch_pref.strategies.mr_lpf.elimination.upper_slack`.

    Attributes:
        rows: The active rows of the choices, ascending.
        mean: ``n``-dim utilities that the last full round predicts; ``None`` before its end.
    """

    def __init__(self, space: SearchSpace, regularizer: Regularizer, ci_scale: Scale) -> None:
        super().__init__(ci_scale)
        self.space, self.regularizer = space, regularizer
        self.rows = torch.arange(len(space.table), device=space.table.device)
        self.mean: Tensor | None = None

    @property
    def share(self) -> float:
        """See the base class."""
        return len(self.rows) / len(self.space.table)

    @property
    def num_items(self) -> int:
        """See the base class."""
        return len(self.rows)

    @property
    def mask(self) -> Tensor:
        """Which of all choices are active."""
        mask = torch.zeros(len(self.space.table), dtype=torch.bool, device=self.rows.device)
        mask[self.rows] = True
        return mask

    def begin(self, kernel: ScaleKernel, setting: RoundSetting, past: list[AnsweredPair]) -> None:
        """See the base class."""
        self.table = self._table(self._unit(kernel), setting, past)

    def select(self, seed: int) -> Pair:
        """See the base class; a single item that is left meets itself."""
        size = len(self.rows)
        if size == 1:
            return self._pair(0, 0)
        first, second = torch.triu_indices(size, size, 1, device=self.rows.device)
        noise = torch.rand(len(first), generator=torch.Generator().manual_seed(seed))
        values = self.table.variance[first, second]
        best = int(argmax_with_random_ties(values, noise.to(values)))
        return self._pair(int(first[best]), int(second[best]))

    def append(self, pair: Pair) -> None:
        """See the base class; an identical pair changes nothing."""
        rows = torch.tensor(pair[1], device=self.rows.device)
        self.table.append(torch.searchsorted(self.rows, rows))

    def close(
        self,
        kernel: ScaleKernel,
        setting: RoundSetting,
        answered: list[AnsweredPair],
        seed: int,
    ) -> Outcome:
        """See the base class."""
        unit = self._unit(kernel)
        sigma = self._table(unit, setting, answered).variance.sqrt()
        engine = FiniteEngine(unit, penalty=setting.penalty, regularizer=self.regularizer)
        for duel in answered:
            pair = torch.tensor(duel.indices, device=unit.device)
            engine.append(pair, unit.new_tensor(duel.answer))
        mean = engine.posterior().mean
        if setting.full:
            self.mean = mean
        keep = survivors(mean[self.rows], sigma, setting.beta, self.ci_scale)
        difference = mean[engine.pairs[:, 0]] - mean[engine.pairs[:, 1]]
        self.rows = self.rows[keep]
        return Outcome(
            max_sigma=float(sigma.max()),
            left_sigma=float(sigma[keep][:, keep].max()),
            width=float(sigma[keep].max()),
            steepness=steepness(difference),
            share=self.share,
            num_left=self.num_items,
        )

    def _unit(self, kernel: ScaleKernel) -> Tensor:
        with torch.no_grad():
            return to_dense(kernel.base_kernel(self.space.normalize(self.space.table)))

    def _table(
        self, unit: Tensor, setting: RoundSetting, duels: list[AnsweredPair]
    ) -> PairVarianceTable:
        """The variances of the active pairs after some duels."""
        table = PairVarianceTable(unit, setting.ridge)
        for duel in duels:
            table.append(torch.tensor(duel.indices, device=unit.device))
        return PairVarianceTable(table.covariance[self.rows][:, self.rows], setting.ridge)

    def _pair(self, first: int, second: int) -> Pair:
        rows = int(self.rows[first]), int(self.rows[second])
        return self.space.table[list(rows)], rows


def steepness(difference: Tensor) -> float:
    """The largest ``1 / mu'(h)`` of ``n``-dim differences; its least value without any."""
    if not len(difference):
        return 1.0 / MAX_SLOPE
    return float(2.0 + 2.0 * torch.cosh(difference).max())
