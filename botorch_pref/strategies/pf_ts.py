r"""PF-TS: two independent Thompson samples of the utility, one for each arm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import torch
from torch import Tensor

from botorch_pref.acquisition import DuelingThompsonSampling
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.finite import Regularizer, argmax_with_random_ties
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.schedules import Schedule, as_schedule
from botorch_pref.strategies.utility import ArmPath, Pair, UtilityStrategy, masked

MAX_RESAMPLES = 10
MAX_PATH_RESAMPLES = 3
MAX_SKIPPED_ROUNDS = 100
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
        seed: int = 0,
        hyperparameters: Literal["evidence"] | Mapping[str, Any] = "evidence",
        kappa: Literal["laplace"] | float = "laplace",
        schedule: str | float | Schedule | Mapping[str, Any] = TEMPERED,
        on_identical: Literal["keep", "resample", "skip_query"] = "resample",
        regularizer: Regularizer = "rkhs",
        inducing_points: int | None = None,
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
            regularizer: See :class:`~botorch_pref.inference.finite.FiniteEngine`; choices only.
            inducing_points: Of so many items inference goes through on a box, for very many duels.

        Raises:
            ComparisonDataError: If an option is none of these.
            SearchSpaceError: If the domain cannot be used.
            UnsupportedError: If an option is not for this kind of domain.
        """
        model: dict[str, Any] = {"hyperparameters": hyperparameters, "kappa": kappa}
        model |= {"regularizer": regularizer, "inducing_points": inducing_points}
        super().__init__(bounds, choices, space, seed=seed, **model)
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
        if self.space.choices is not None:
            return self._rows(*self._draw_rows(annotator))
        for attempt in range(MAX_SKIPPED_ROUNDS):
            self.round += attempt > 0
            first, second = self._draw_paths(annotator, 0)
            if self.on_identical == "keep":
                return torch.stack([first, second]), None
            taken = self._taken(first)
            if not self._same(second, taken).any():
                return torch.stack([first, second]), None
            if self.on_identical == "resample":
                break
        return torch.stack([first, self._another(taken, annotator)]), None

    def _another(self, taken: Tensor, annotator: str | None) -> Tensor:
        for attempt in range(1, MAX_PATH_RESAMPLES + 1):
            second = self._draw_paths(annotator, attempt)[1]
            if not self._same(second, taken).any():
                return second
        return self._draw_paths(annotator, MAX_PATH_RESAMPLES + 1, avoid=taken)[1]

    def _draw_rows(self, annotator: str | None) -> tuple[int, int]:
        """The maximisers of two draws over choices, as ``on_identical`` wants them."""
        # One batch: where the posterior is narrow, all the spare draws are needed.
        spare = 0 if self.on_identical == "keep" else MAX_RESAMPLES + 1
        for attempt in range(MAX_SKIPPED_ROUNDS):
            self.round += attempt > 0
            draws, ties = self._draw(self._seed("pair", annotator), 2 + spare)
            if spare and self._barred_duels():  # who has met all others leads nobody
                own = torch.eye(draws.shape[-1], dtype=torch.bool, device=draws.device)
                draws[0] = masked(draws[0], (self._barred_table() | own).all(-1))
            first, second, *others = argmax_with_random_ties(draws, ties).tolist()
            if self.on_identical == "keep":
                return first, second
            values = draws[-1].clone()
            values[first] = -torch.inf
            values = self._unbarred(values, first)
            if values[second] > -torch.inf:
                return first, second
            if self.on_identical == "resample":
                break
        others[-1] = int(argmax_with_random_ties(values, ties[-1]))
        return first, next(row for row in others if values[row] > -torch.inf)

    def _draw(self, seed: int, num: int) -> tuple[Tensor, Tensor]:
        """So many draws over choices, and noise that breaks ties, both ``num x n``-dim."""
        posterior = self._posterior()
        generator = torch.Generator().manual_seed(seed)
        items, answers = posterior.mean.shape[-1], posterior.curvature.shape[-1]

        def noise(size: int) -> Tensor:
            normal = torch.randn(num, size, generator=generator, dtype=torch.double)
            return normal.to(posterior.mean)

        scale = self._scale(posterior.factor.log_det)
        draws = posterior.sample(noise(items), noise(answers), scale)
        return draws, torch.rand(num, items, generator=generator, dtype=torch.double)

    def _draw_paths(
        self, annotator: str | None, attempt: int, avoid: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The maximisers of two paths, of which later attempts need the second alone."""
        seed = self._seed(f"pair {attempt}" if attempt else "pair", annotator)
        model, gain = self.learner.model(), torch.zeros(())
        weight = model.variance_weight()
        if weight is not None and model.num_observations:
            gain = model.representer()[1].system.factor(weight).log_det
        rule = DuelingThompsonSampling(model, scale=self._scale(gain), seed=seed)
        best = [
            self._best_item(ArmPath(rule, arm), derive_seed(seed, "optimizer", arm), avoid)
            for arm in ((1,) if attempt else (0, 1))
        ]
        return best[0], best[-1]

    def _scale(self, log_det: Tensor) -> float:
        """What the model's own standard deviation is multiplied by."""
        penalty, kappa = self.learner.penalty, self.learner.kappa
        width = 0.0 if kappa == "laplace" else kappa
        return penalty**0.5 * self.schedule.scale(self.round, penalty, width, 0.5 * float(log_det))

    def _options(self) -> dict[str, Any]:
        own = {"schedule": self.schedule._asdict(), "on_identical": self.on_identical}
        return {**super()._options(), **own}
