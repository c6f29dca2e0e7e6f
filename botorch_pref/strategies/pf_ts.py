r"""PF-TS: two independent Thompson samples of the utility, one for each arm.

Lazzaro et al., *A Finite Time Analysis of Thompson Sampling for Bayesian Optimization with
Preferential Feedback* (2026).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor

from botorch_pref.acquisition.dueling_thompson import ArmPath, DuelingThompsonSampling
from botorch_pref.data.checks import check_word, checked_positive
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference.finite import argmax_with_random_ties
from botorch_pref.queries import Choice, Duel, Grade, Ranking
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies.base import Pair, UtilityStrategy
from botorch_pref.strategies.utility import PAPER_MODEL, masked

TEMPERED = 0.5
MAX_RESAMPLES = 10
MAX_PATH_RESAMPLES = 3
OnIdentical = Literal["keep", "resample"]


def paper_scale(step: int) -> float:
    """``v_t = (t + 1 + log 40) ** 0.25`` of sec. F.1, for the unit kernel and rounds from 1."""
    return (step + 1 + math.log(40)) ** 0.25


@dataclass(kw_only=True, eq=False, repr=False)
class PFTS(UtilityStrategy):
    r"""Thompson sampling for pairs (Lazzaro et al. 2026, Algorithm 1).

    Both arms maximise an independent draw of the utility. On choices the draws are exact; on a
    box they are differentiable paths. Further items of a larger question maximise further draws
    away from those before. For the other arguments see
    :class:`~botorch_pref.strategies.UtilityStrategy`.

    Args:
        scale: What the posterior standard deviation of the draws is multiplied by; ``"paper"``
            for that of the paper, ``(t + 1 + log 40) ** 0.25`` in round ``t`` (sec. F.1).
        on_identical: What to do when both draws have the same maximiser: ``"keep"`` asks that
            pair, as the paper does; ``"resample"`` draws the second arm again.

    Example:
        >>> strategy = PFTS(choices=table, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)  # the first of the two was better
        >>> strategy.recommend()
    """

    scale: float | Literal["paper"] = TEMPERED
    on_identical: OnIdentical = "resample"

    _asks: ClassVar = (Duel, Choice, Ranking, Grade)

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_word("on_identical", self.on_identical, OnIdentical)
        if self.on_identical == "keep" and self.asked.num_items > 2:
            raise UnsupportedError('`on_identical` "keep" is of duels and grades.')
        if self.scale != "paper":
            self.scale = checked_positive("scale", self.scale)

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        r"""The setting of the paper's experiments; the arguments are those of the constructor.

        The model is ``PAPER_MODEL`` with the predictor of eq. (6), and identical pairs are kept;
        ``v_t = (t + 1 + log 40) ** 0.25``. The paper does not state ``kappa``, here 1; below 4 it
        is over-confident.
        """
        setting = {"hyperparameters": PAPER_MODEL, "kappa": 1.0, "scale": "paper"}
        return cls(**{**setting, "on_identical": "keep", **kwargs})

    def _pair(self, annotator: str | None) -> Pair:
        if self.space.choices is not None:
            return self._rows(*self._draw_rows(annotator))
        items = torch.stack(self._draw_pair(annotator))
        for arm in range(2, self.asked.num_items):
            (item,) = self._draw_paths(self._seed(f"arm {arm}", annotator), (0,), items)
            items = torch.cat([items, item.unsqueeze(0)])
        return items, None

    def _draw_pair(self, annotator: str | None) -> list[Tensor]:
        """The maximisers of two paths over a box, as ``on_identical`` wants them."""
        first, second = self._draw_paths(self._seed("pair", annotator), (0, 1))
        if self.on_identical == "keep":
            return [first, second]
        taken = self._taken(first)
        for attempt in range(1, MAX_PATH_RESAMPLES + 2):
            if not self._same(second, taken).any():
                break
            avoid = taken if attempt > MAX_PATH_RESAMPLES else None
            (second,) = self._draw_paths(self._seed(f"pair {attempt}", annotator), (1,), avoid)
        return [first, second]

    def _draw_rows(self, annotator: str | None) -> list[int]:
        """The maximisers of draws over choices, as ``on_identical`` wants them."""
        # One batch: where the posterior is narrow, all the spare draws are needed.
        spare = 0 if self.on_identical == "keep" else MAX_RESAMPLES + 1
        posterior, more = self._posterior(pending=False), self.asked.num_items - 2
        num = 2 + spare + more
        generator = torch.Generator().manual_seed(self._seed("pair", annotator))
        items = posterior.mean.shape[-1]
        prior, answers = (
            torch.randn(num, size, generator=generator, dtype=torch.double).to(posterior.mean)
            for size in (items, posterior.num_pairs)
        )
        draws = posterior.sample(prior, answers, self._scale())
        ties = torch.rand(num, items, generator=generator, dtype=torch.double)
        if spare and self._barred_duels():  # the first arm needs an opponent that is left
            own = torch.eye(draws.shape[-1], dtype=torch.bool, device=draws.device)
            draws[0] = masked(draws[0], (self._barred_table() | own).all(-1))
        first, second, *others = argmax_with_random_ties(draws, ties).tolist()
        rows = [first, second]
        if self.on_identical == "resample":
            last = 1 + spare
            values = draws[last].clone()
            values[self._equal_rows(first)] = -torch.inf
            values = self._unbarred(values, first)
            others[spare - 1] = int(argmax_with_random_ties(values, ties[last]))
            rows = [first, next(row for row in (second, *others) if values[row] > -torch.inf)]
        for arm in range(num - more, num):
            draws[arm, torch.stack([*map(self._equal_rows, rows)]).any(0)] = -torch.inf
            rows.append(int(argmax_with_random_ties(draws[arm], ties[arm])))
        return rows

    def _draw_paths(
        self, seed: int, arms: tuple[int, ...], avoid: Tensor | None = None
    ) -> list[Tensor]:
        """The maximisers of a path over a box for each arm."""
        best: list[Tensor] = []
        rule: DuelingThompsonSampling | None = None
        for arm in arms:
            model = self.learner.drawn_model(derive_seed(seed, "sample", arm))
            if rule is None or rule.model is not model:
                rule = DuelingThompsonSampling(model, scale=self._scale(), seed=seed)
            own = derive_seed(seed, "optimizer", arm)
            best.append(self._best_item(ArmPath(rule, arm), own, avoid))
        return best

    def _scale(self) -> float:
        """What the model's own standard deviation is multiplied by, in this round."""
        if self.scale == "paper":
            return float(self.learner.penalty**0.5 * paper_scale(self.round))
        return float(self.scale)
