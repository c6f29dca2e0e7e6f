r"""The items that are still in the running: what is the same on choices and on a box."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import torch
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_pref.randomness import derive_seed, derive_uniform
from botorch_pref.strategies.base import Answered
from botorch_pref.strategies.mr_lpf.elimination import Scale
from botorch_pref.strategies.mr_lpf.rounds import Outcome, RoundSetting
from botorch_pref.strategies.utility import Pair


class AnsweredPair(NamedTuple):
    r"""A duel of two different items, and its answer.

    Attributes:
        items: ``2 x d``-dim items.
        indices: Their rows in the choices, where there are choices.
        answer: 1, 0 or 0.5.
    """

    items: Tensor
    indices: tuple[int, int] | None
    answer: float


def answered_pairs(history: Iterable[Answered], like: Tensor) -> list[AnsweredPair]:
    r"""What was learnt: neither skipped duels nor those of an item with itself.

    Args:
        history: Duels and what came of them.
        like: A tensor whose type and device the items get.
    """
    return [
        AnsweredPair(query.items.to(like), query.indices, answer)
        for query, answer in history
        if answer is not None and not torch.equal(query.items[0], query.items[1])
    ]


class ActiveSet(ABC):
    r"""The active items of MR-LPF, and the round that is being played on them.

    Args:
        ci_scale: See :func:`~botorch_pref.strategies.mr_lpf.elimination.upper_slack`.
    """

    def __init__(self, ci_scale: Scale) -> None:
        self.ci_scale = ci_scale

    @property
    @abstractmethod
    def share(self) -> float:
        """The share of all items, or of a sample of the box, that is active."""

    @property
    @abstractmethod
    def num_items(self) -> int | None:
        """The number of active choices; ``None`` on a box."""

    @abstractmethod
    def begin(self, kernel: ScaleKernel, setting: RoundSetting, past: list[AnsweredPair]) -> None:
        r"""Begin a round.

        Args:
            kernel: The prior covariance, for items in the unit cube.
            setting: The round's setting.
            past: Duels that the round's variance and predictor take into account.
        """

    @abstractmethod
    def select(self, seed: int) -> Pair:
        """The pair of different active items whose variance is largest, ties at random."""

    @abstractmethod
    def append(self, pair: Pair) -> None:
        """Take a pair of this round into account, whatever its answer."""

    @abstractmethod
    def close(
        self,
        kernel: ScaleKernel,
        setting: RoundSetting,
        answered: list[AnsweredPair],
        seed: int,
    ) -> Outcome:
        r"""Eliminate what the answers of a round rule out.

        Args:
            kernel: As in :meth:`begin`; its hyperparameters may have been learnt since.
            setting: The round's setting under that kernel.
            answered: Answered duels, those of the past included.
            seed: Of everything random.
        """


class Plan:
    r"""The pairs of a round, in their order, as far as they have been chosen.

    Args:
        active: The active set that is asked for them.
        seed: The seed of the strategy.
        offset: The number of duels in the rounds before.

    Attributes:
        pairs: The pairs as they are shown; which item comes first is random.
    """

    def __init__(self, active: ActiveSet, seed: int, offset: int) -> None:
        self.active, self.seed, self.offset = active, seed, offset
        self.pairs: list[Pair] = []

    def extend(self, count: int) -> None:
        """Choose pairs until there are so many."""
        while len(self.pairs) < count:
            step = self.offset + len(self.pairs) + 1
            items, rows = self.active.select(derive_seed(self.seed, "pair", step))
            if derive_uniform(self.seed, "orientation", step) < 0.5:
                items, rows = items.flip(0), None if rows is None else (rows[1], rows[0])
            self.put((items, rows))

    def put(self, pair: Pair) -> None:
        """Add a pair that was chosen before."""
        self.pairs.append(pair)
        self.active.append(pair)
