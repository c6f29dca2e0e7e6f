r"""MF-GP-UCB: duels as the low fidelity of the objective."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Unpack

from torch import Tensor

from botorch_pref.data.checks import checked_positive
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.budgeted import (
    Chosen,
    Kind,
    TwoModelStrategy,
    WidthOptions,
    WidthRecord,
    WidthSettings,
)
from botorch_pref.strategies.budgeted.step import OptimisticStep, row_of
from experiments.baselines.multi_fidelity_ucb import MultiFidelityUCB


class MFGPUCBOptions(WidthOptions, total=False):
    r"""The options of :class:`~botorch_pref.strategies.MFGPUCB`; see :class:`MFSettings`."""

    zeta: float


@dataclass(frozen=True)
class MFSettings(WidthSettings):
    r"""Settings of MF-GP-UCB; for the others see the bases.

    Attributes:
        zeta: By how much the objective may exceed how often an item wins, both taken as they are,
            at least 0. It is the disagreement that the default ``gamma`` is a quarter of.
    """

    zeta: float = 0.08

    def _disagreement(self) -> float:
        return self.zeta

    def _check(self) -> None:
        super()._check()
        if self.zeta != 0:
            checked_positive("zeta", self.zeta)


class MFGPUCB(TwoModelStrategy):
    r"""Takes the smaller of both bounds for the objective's; duels what duels know little of.

    Kandasamy, Dasarathy, Oliva, Schneider and Poczos (2016), Algorithm 1 with two fidelities, as
    Xu, Joshi, Singh and Dubrawski (2020) adapt it: a duel against a random item is a cheap look at
    the objective. The item has the largest ``min(mean_r + beta sd_r + zeta, mean + beta sd)``; it
    is duelled where ``beta sd_r`` is at least ``gamma``, else measured. ``gamma`` is multiplied
    after many duels in a row, an addition of their experiments. The bias must be known, and how
    often an item wins lies between 0 and 1: on an objective of another scale the rule maximises
    one of the two bounds alone.

    Example:
        >>> strategy = MFGPUCB(bounds=bounds, duel_cost=0.1, value_cost=1, budget=100, zeta=0.25)
        >>> query = strategy.ask()

    Attributes:
        gamma: Below which width an item is measured now.
        streak: How many duels there were in a row since ``gamma`` was multiplied.
    """

    settings_type = MFSettings
    record_type = WidthRecord
    settings: MFSettings

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        seed: int = 0,
        **options: Unpack[MFGPUCBOptions],
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            seed: The seed of all draws.
            **options: See :class:`~experiments.baselines.mf_gp_ucb.MFSettings`.

        Raises:
            ComparisonDataError: If an option is unknown or out of range; names it.
            SearchSpaceError: If the domain cannot be used.
        """
        super().__init__(bounds, choices, space, seed=seed, **options)
        self.gamma, self.streak = self.settings.first_gamma, 0

    def _next(self) -> Chosen:
        step, beliefs, gamma = self._step(), self.beliefs, self.gamma
        if beliefs.duels:
            rule = self._rule(step) if beliefs.values else step.of_duels()
            found = step.maximum(rule)
            width, item, row = step.width(found.items[0]), found.items[0], row_of(found)
        else:
            width = step.first_width
            item, row = self._uniform("first", len(self.records))
        kind: Kind = "duel" if width >= gamma else "value"
        if kind == "duel":
            self.gamma, self.streak = self.settings.after_duel(gamma, self.streak)
        else:
            self.streak = 0
        record = WidthRecord(kind, "multi-fidelity", width, gamma)
        return Chosen(record, item, row)

    def _rule(self, step: OptimisticStep) -> MultiFidelityUCB:
        beliefs, zeta = step.beliefs, self.settings.zeta
        return MultiFidelityUCB(beliefs.objective(), beliefs.borda(), step.beta, zeta=zeta)

    def _progress(self) -> dict[str, Any]:
        gamma = None if math.isinf(self.gamma) else self.gamma
        return super()._progress() | {"gamma": gamma, "streak": self.streak}

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        gamma = progress["gamma"]
        self.gamma, self.streak = math.inf if gamma is None else gamma, progress["streak"]
