r"""PF-TS: two independent Thompson samples of the utility, one for each arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition import DuelingThompsonSampling
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.finite import FinitePosterior, Regularizer, argmax_with_random_ties
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.schedules import Schedule, as_schedule
from botorch_pref.strategies.utility import Pair, UtilityStrategy

MAX_RESAMPLES = 10
MAX_PATH_RESAMPLES = 3
MAX_SKIPPED_ROUNDS = 100
TEMPERED = Schedule("bayes", value=0.5)
_APART_SAMPLE = 1024

Choice = tuple[Tensor, int | None]


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
        seed: int = 0,
        hyperparameters: Literal["evidence"] | Mapping[str, Any] = "evidence",
        kappa: Literal["laplace"] | float = "laplace",
        schedule: str | float | Schedule | Mapping[str, Any] = TEMPERED,
        on_identical: Literal["keep", "resample", "skip_query"] = "resample",
        regularizer: Regularizer = "rkhs",
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            seed: The seed of all draws.
            hyperparameters: ``"evidence"`` to learn them, or fixed values; see
                :class:`~botorch_pref.strategies.learner.UtilityLearner`.
            kappa: ``"laplace"``, or the papers' answer-free curvature ``1 / kappa``.
            schedule: ``"bayes"``, ``"paper"``, ``"theory"``, a constant for the unit kernel,
                or a :class:`Schedule`. By default half the posterior standard deviation.
            on_identical: What to do when both draws have the same maximiser: ``"keep"``
                asks that pair, as the paper does; ``"resample"`` draws the second arm
                anew; ``"skip_query"`` goes on to the next round.
            regularizer: See :class:`~botorch_pref.finite.FiniteEngine`; choices only.

        Raises:
            ComparisonDataError: If an option is none of these.
            SearchSpaceError: If the domain cannot be used.
        """
        model: dict[str, Any] = {"hyperparameters": hyperparameters, "kappa": kappa}
        super().__init__(bounds, choices, space, seed=seed, regularizer=regularizer, **model)
        if on_identical not in ("keep", "resample", "skip_query"):
            raise ComparisonDataError(
                f"`on_identical` must be keep, resample or skip_query, got {on_identical!r}."
            )
        self.schedule = as_schedule(schedule)
        if self.schedule.kind == "theory" and kappa == "laplace":
            raise ComparisonDataError('`schedule` "theory" needs a number for `kappa`.')
        self.on_identical = on_identical

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
        for attempt in range(MAX_SKIPPED_ROUNDS):
            self.round += attempt > 0
            first, second = self._draw(annotator, 0)
            if not self._identical(first, second) or self.on_identical != "skip_query":
                break
        if self.on_identical != "keep" and self._identical(first, second):
            second = self._another(first, annotator)
        items = torch.stack([first[0], second[0]])
        if first[1] is None or second[1] is None:
            return items, None
        return items, (first[1], second[1])

    def _another(self, first: Choice, annotator: str | None) -> Choice:
        attempts = MAX_PATH_RESAMPLES if self.space.choices is None else MAX_RESAMPLES
        for attempt in range(1, attempts + 1):
            second = self._draw(annotator, attempt)[1]
            if not self._identical(first, second):
                return second
        return self._draw(annotator, attempts + 1, avoid=first)[1]

    def _identical(self, first: Choice, second: Choice) -> bool:
        if first[1] is not None:
            return first[1] == second[1]
        return bool(self._same(first[0], second[0]))

    def _draw(
        self, annotator: str | None, attempt: int, avoid: Choice | None = None
    ) -> tuple[Choice, Choice]:
        """The maximisers of two draws, of which later attempts need the second alone."""
        stream = f"pair {attempt}" if attempt else "pair"
        seed = derive_seed(self.seed, stream, self.round, annotator)
        if self.space.choices is None:
            return self._draw_paths(seed, (1,) if attempt else (0, 1), avoid)
        posterior = self._posterior()
        scale = self._scale(posterior.factor.log_det)
        rows = _maximisers(posterior, scale, seed, None if avoid is None else avoid[1])
        first, second = ((self.space.table[row], row) for row in rows)
        return first, second

    def _draw_paths(
        self, seed: int, arms: tuple[int, ...], avoid: Choice | None
    ) -> tuple[Choice, Choice]:
        model, gain = self.learner.model(), torch.zeros(())
        weight = model.variance_weight()
        if weight is not None and model.num_observations:
            gain = model.representer()[1].side.factor(weight).log_det
        rule = DuelingThompsonSampling(model, scale=self._scale(gain), seed=seed)
        asked, away = self.asked_items(), None if avoid is None else avoid[0]
        best: list[Choice] = [
            (self._best_item(_Path(rule, arm), asked, seed, away), None) for arm in arms
        ]
        return best[0], best[-1]

    def _scale(self, log_det: Tensor) -> float:
        """What the model's own standard deviation is multiplied by."""
        penalty, kappa = self.learner.penalty, self.learner.kappa
        width = 0.0 if kappa == "laplace" else kappa
        return penalty**0.5 * self.schedule.scale(self.round, penalty, width, 0.5 * float(log_det))

    def _best_item(self, path: _Path, asked: Tensor, seed: int, avoid: Tensor | None) -> Tensor:
        """Where a path over a box is largest; away from an item, the best of a sample."""
        seed = derive_seed(seed, "optimizer", path.arm)
        if avoid is None:
            return self.space.maximize(path, seed=seed, starts=asked.unsqueeze(-2)).items[0]
        items = torch.cat([self.space.sample(_APART_SAMPLE, seed), asked])
        with torch.no_grad():
            values = path(items.unsqueeze(-2))
        return items[int(values.masked_fill(self._same(items, avoid), -torch.inf).argmax())]

    def _options(self) -> dict[str, Any]:
        own = {"schedule": self.schedule._asdict(), "on_identical": self.on_identical}
        return {**super()._options(), **own}


class _Path(AcquisitionFunction):
    """One arm's path as a rule for single items."""

    def __init__(self, rule: DuelingThompsonSampling, arm: int) -> None:
        super().__init__(rule.model)
        self.rule, self.arm = rule, arm

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The path at ``b x 1 x d``-dim items."""
        return self.rule.arm(self.arm, X.squeeze(-2))


def _maximisers(
    posterior: FinitePosterior, scale: float, seed: int, avoid: int | None
) -> list[int]:
    """The best items of two draws; the second one's with an item left out."""
    generator = torch.Generator().manual_seed(seed)
    items, rows = posterior.mean.shape[-1], posterior.curvature.shape[-1]

    def noise(size: int) -> Tensor:
        normal = torch.randn(2, size, generator=generator, dtype=torch.double)
        return normal.to(posterior.mean)

    draws = posterior.sample(noise(items), noise(rows), scale)
    if avoid is not None:
        draws[1, avoid] = -torch.inf
    ties = torch.rand(2, items, generator=generator, dtype=torch.double)
    best: list[int] = argmax_with_random_ties(draws, ties).tolist()
    return best
