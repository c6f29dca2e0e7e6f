r"""PF-TS: two independent Thompson samples of the utility, one for each arm.

Lazzaro et al., *A Finite Time Analysis of Thompson Sampling for Bayesian Optimization with
Preferential Feedback* (2026).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, Self, Unpack

import torch
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.acquisition.dueling_thompson import DuelingThompsonSampling
from botorch_pref.data.checks import is_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.finite import argmax_with_random_ties
from botorch_pref.kernels.pairs import DuelingKernel
from botorch_pref.randomness import derive_seed
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.utility import ArmPath, ModelOptions, Pair, UtilityStrategy, masked

MAX_RESAMPLES = 10
MAX_PATH_RESAMPLES = 3


class Schedule(NamedTuple):
    r"""How far PF-TS explores: what multiplies the standard deviation of its draws.

    It is stated for the unit kernel, as in Lazzaro et al. (2026): ``v_t`` with penalty ``lambda``.
    A model's own standard deviation is ``lambda ** -0.5`` times the unit one.

    Attributes:
        kind: ``"bayes"``, ``"paper"``, ``"theory"`` or ``"constant"``.
        value: The constant of ``"constant"``; for ``"bayes"`` what the posterior standard
            deviation is multiplied by.
        norm_bound: ``B`` of ``"theory"``, a bound on the norm of the utility.
        delta: The failure probability of ``"theory"``.
    """

    kind: str = "bayes"
    value: float = 1.0
    norm_bound: float = 1.0
    delta: float = 0.05

    def scale(self, step: int, penalty: float, kappa: float, gain: float) -> float:
        r"""``v_t`` for the unit kernel.

        Args:
            step: The round ``t``, from 1.
            penalty: ``lambda``.
            kappa: The inverse curvature of the covariance, for ``"theory"``.
            gain: Realised information gain of the data so far, for ``"theory"``.

        Returns:
            ``value lambda ** -0.5`` for ``"bayes"``; ``(t + 1 + log 40) ** 0.25`` for
            ``"paper"`` (sec. F.1); ``4 B + 2 sqrt(2 kappa / lambda (gain + log 1/delta))``
            for ``"theory"`` (eq. 12); the constant.
        """
        if self.kind == "bayes":
            return self.value * penalty**-0.5
        if self.kind == "paper":
            return (step + 1 + math.log(40)) ** 0.25
        if self.kind == "theory":
            width = 2 * kappa / penalty * (gain + math.log(1 / self.delta))
            return 4 * self.norm_bound + 2 * math.sqrt(width)
        return self.value


TEMPERED = Schedule("bayes", value=0.5)


class PFTS(UtilityStrategy):
    r"""Thompson sampling for pairs (Lazzaro et al. 2026, Algorithm 1).

    Both arms maximise an independent draw of the utility, whose standard deviation is
    multiplied by a schedule. On choices the draws are exact; on a box they are
    differentiable paths.

    Example:
        >>> strategy = PFTS(choices=table, seed=0)
        >>> query = strategy.ask()
        >>> strategy.tell(query, 1.0)  # the first of the two was better
        >>> strategy.recommend()
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        schedule: str | float | Schedule | Mapping[str, Any] = TEMPERED,
        on_identical: Literal["keep", "resample"] = "resample",
        **model: Unpack[ModelOptions],
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            schedule: ``"bayes"``, ``"paper"``, ``"theory"``, a constant for the unit kernel,
                or a :class:`Schedule`. By default half the posterior standard deviation.
            on_identical: What to do when both draws have the same maximiser: ``"keep"``
                asks that pair, as the paper does; ``"resample"`` draws the second arm
                again.
            **model: See :class:`~botorch_pref.strategies.utility.LearningStrategy`.

        Raises:
            ComparisonDataError: If an option is none of these.
            SearchSpaceError: If the domain cannot be used.
            UnsupportedError: If an option is not for this kind of domain.
        """
        super().__init__(bounds, choices, space, **model)
        if on_identical not in ("keep", "resample"):
            raise ComparisonDataError(
                f"`on_identical` must be keep or resample, got {on_identical!r}."
            )
        self.on_identical = on_identical
        self.schedule = as_schedule(schedule)
        if self.schedule.kind == "theory" and self.kappa == "laplace":
            raise ComparisonDataError('`schedule` "theory" needs a number for `kappa`.')

    @classmethod
    def paper(cls, *, kappa: float = 1.0, penalty: float = 0.05, **kwargs: Any) -> Self:
        r"""The setting of the paper's experiments.

        Matern-5/2 with lengthscale 0.1 on the unit cube, ``lambda = 0.05``, ridge
        ``rho = lambda kappa``, ``v_t = (t + 1 + log 40) ** 0.25``, identical pairs kept.

        Args:
            kappa: 1 reproduces the paper's ordering; below 4 it is over-confident.
            penalty: ``lambda``.
            **kwargs: Passed to the constructor.

        Returns:
            The strategy.
        """
        fixed = {"kernel": "matern", "lengthscale": 0.1, "penalty": penalty}
        options = {"schedule": "paper", "on_identical": "keep", "hyperparameters": fixed}
        return cls(**{"kappa": kappa, **options, **kwargs})

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
        draws, ties = self._draw(self._seed("pair", annotator), 2 + spare)
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

    def _draw(self, seed: int, num: int) -> tuple[Tensor, Tensor]:
        """So many draws over choices, and noise that breaks ties, both ``num x n``-dim."""
        posterior = self.learner.posterior()
        generator = torch.Generator().manual_seed(seed)
        items, answers = posterior.mean.shape[-1], posterior.num_pairs

        def noise(size: int) -> Tensor:
            normal = torch.randn(num, size, generator=generator, dtype=torch.double)
            return normal.to(posterior.mean)

        draws = posterior.sample(noise(items), noise(answers), self._scale())
        return draws, torch.rand(num, items, generator=generator, dtype=torch.double)

    def _draw_paths(
        self, annotator: str | None, attempt: int, avoid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The maximisers of two paths, of which later attempts need the second alone."""
        seed = self._seed(f"pair {attempt}" if attempt else "pair", annotator)
        rule = DuelingThompsonSampling(self.learner.model(), scale=self._scale(), seed=seed)
        best = [
            self._best_item(ArmPath(rule, arm), derive_seed(seed, "optimizer", arm), avoid)
            for arm in ((1,) if attempt else (0, 1))
        ]
        return best[0], best[-1]

    def _scale(self) -> float:
        """What the model's own standard deviation is multiplied by."""
        penalty, kappa, gain = self.learner.penalty, 0.0, 0.0
        if self.schedule.kind == "theory":
            kappa, gain = float(self.kappa), self._information_gain()
        return penalty**0.5 * self.schedule.scale(self.round, penalty, kappa, gain)

    @torch.no_grad()
    def _information_gain(self) -> float:
        """``log det(I + K_h / kappa) / 2``, that of the duels so far."""
        data = self.learner.data
        pairs = self.space.normalize(data.datapoints)[data.pairs].flatten(start_dim=-2)
        gram = to_dense(DuelingKernel(self.learner.covar_module())(pairs)) / float(self.kappa)
        gram.diagonal().add_(1.0)
        return 0.5 * float(torch.logdet(gram))


def as_schedule(schedule: str | float | Schedule | Mapping[str, Any]) -> Schedule:
    r"""A schedule from its name, a constant, or its fields.

    Raises:
        ComparisonDataError: If ``schedule`` names none, or is not positive and finite.
    """
    found = Schedule("")  # names none
    if isinstance(schedule, Schedule):
        found = schedule
    elif isinstance(schedule, Mapping):
        if set(schedule) - set(Schedule._fields):
            raise ComparisonDataError(f"`schedule` has unknown fields: {dict(schedule)!r}.")
        found = Schedule(**schedule)
    elif isinstance(schedule, str):
        found = Schedule(schedule)
    elif isinstance(schedule, int | float) and not isinstance(schedule, bool):
        found = Schedule("constant", value=float(schedule))
    if found.kind not in ("bayes", "paper", "theory", "constant"):
        raise ComparisonDataError(
            "`schedule` must be bayes, paper, theory, a positive number or a Schedule, got "
            f"{schedule!r}."
        )
    for name, value in zip(Schedule._fields[1:], found[1:], strict=True):
        if not is_positive(value) or (name == "delta" and value > 1):
            raise ComparisonDataError(
                f"`schedule` has {name} {value!r}; all its numbers are positive and finite, and "
                "delta is a probability."
            )
    return found
