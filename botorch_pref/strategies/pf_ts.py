r"""PF-TS: two independent Thompson samples of the utility, one for each arm.

Lazzaro et al., *A Finite Time Analysis of Thompson Sampling for Bayesian Optimization with
Preferential Feedback* (2026).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, Self

import torch
from torch import Tensor

from botorch_pref.acquisition.dueling_thompson import ArmPath, DuelingThompsonSampling
from botorch_pref.data.checks import check_word, checked_positive
from botorch_pref.inference.finite import argmax_with_random_ties
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
    box they are differentiable paths. For the other arguments see
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

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_word("on_identical", self.on_identical, OnIdentical)
        if self.scale != "paper":
            self.scale = checked_positive("scale", self.scale)

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        r"""The setting of the paper's experiments; the arguments are those of the constructor.

        The model is ``PAPER_MODEL``, ``v_t = (t + 1 + log 40) ** 0.25``, and identical pairs are
        kept. ``kappa = 1`` reproduces the paper's ordering; below 4 it is over-confident.
        """
        setting = {"hyperparameters": PAPER_MODEL, "kappa": 1.0, "scale": "paper"}
        return cls(**{**setting, "on_identical": "keep", **kwargs})

    def _pair(self, annotator: str | None) -> Pair:
        if self.space.choices is not None:
            return self._rows(*self._draw_rows(annotator))
        first, second = self._draw_paths(annotator, 0)
        if self.on_identical == "keep":
            return torch.stack([first, second]), None
        taken = self._taken(first)
        for attempt in range(1, MAX_PATH_RESAMPLES + 1):
            if not self._same(second, taken).any():
                return torch.stack([first, second]), None
            second = self._draw_paths(annotator, attempt)[1]
        if self._same(second, taken).any():
            second = self._draw_paths(annotator, MAX_PATH_RESAMPLES + 1, avoid=taken)[1]
        return torch.stack([first, second]), None

    def _draw_rows(self, annotator: str | None) -> tuple[int, int]:
        """The maximisers of two draws over choices, as ``on_identical`` wants them."""
        # One batch: where the posterior is narrow, all the spare draws are needed.
        spare = 0 if self.on_identical == "keep" else MAX_RESAMPLES + 1
        posterior, num = self.learner.posterior(), 2 + spare
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
        if self.on_identical == "keep":
            return first, second
        values = draws[-1].clone()
        values[first] = -torch.inf
        values = self._unbarred(values, first)
        others[-1] = int(argmax_with_random_ties(values, ties[-1]))
        return first, next(row for row in (second, *others) if values[row] > -torch.inf)

    def _draw_paths(
        self, annotator: str | None, attempt: int, avoid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The maximisers of two paths, of which later attempts need the second alone."""
        seed = self._seed(f"pair {attempt}" if attempt else "pair", annotator)
        best: list[Tensor] = []
        rule: DuelingThompsonSampling | None = None
        for arm in (1,) if attempt else (0, 1):
            model = self.learner.drawn_model(derive_seed(seed, "sample", arm))
            if rule is None or rule.model is not model:
                rule = DuelingThompsonSampling(model, scale=self._scale(), seed=seed)
            own = derive_seed(seed, "optimizer", arm)
            best.append(self._best_item(ArmPath(rule, arm), own, avoid))
        return best[0], best[-1]

    def _scale(self) -> float:
        """What the model's own standard deviation is multiplied by, in this round."""
        if self.scale == "paper":
            return float(self.learner.penalty**0.5 * paper_scale(self.round))
        return float(self.scale)
