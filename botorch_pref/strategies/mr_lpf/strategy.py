r"""MR-LPF: rounds of duels of largest variance, and elimination between them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, Literal, Self

from torch import Tensor

from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import ComparisonDataError, ConfidenceWarning
from botorch_pref.inference.finite import Regularizer, checked_regularizer
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.mr_lpf.bounds import (
    Width,
    as_width,
    next_kappa,
    practical_width,
    steepness_bound,
)
from botorch_pref.strategies.mr_lpf.choices import ActiveChoices
from botorch_pref.strategies.mr_lpf.elimination import Scale, checked_scale
from botorch_pref.strategies.mr_lpf.play import RoundStrategy
from botorch_pref.strategies.mr_lpf.rounds import (
    RoundSetting,
    checked_horizon,
    full_size,
    round_sizes,
)
from botorch_pref.strategies.utility import masked

PRACTICAL_KAPPA = 12.0  # measured beside 6 on test functions
LATER_KAPPA = 6.0  # pairs that survive a good first round have mu(h) in [1/4, 3/4]


def _paper_options(
    *, kernel: str = "matern", lengthscale: float = 0.1, penalty: float = 0.05, **kwargs: Any
) -> dict[str, Any]:
    """The arguments of :meth:`MRLPF.paper`."""
    return {
        "hyperparameters": {"kernel": kernel, "lengthscale": lengthscale, "penalty": penalty},
        "kappa": 1.0,
        "beta": 1.0,
        "ci_scale": "probability",
        "regularizer": "theta_mean",
        "recommendation": "last_round",
        "refine": True,
        **kwargs,
    }


class MRLPF(RoundStrategy):
    r"""Multi-round learning from preference-based feedback (Kayal et al. 2025).

    The horizon is cut into few rounds. In each the pairs of largest variance are asked,
    which no answer of the round can change, so that a whole round can be asked at once
    (:meth:`plan_round`). At its end items are eliminated that some other item has beaten
    for sure, and the next round is played on what is left. On a box the active set is
    described by witnesses, and pairs are found by constrained maximisation.

    Exactly ``horizon`` duels are asked, skipped ones included, unless ``epsilon`` ends it
    earlier; one more is an ``UnsupportedError``. Without it a single choice that is left meets
    itself up to the horizon. For other defaults see :meth:`paper` and :meth:`theory`.

    Args:
        bounds: ``2 x d``-dim box, or
        choices: ``n x d``-dim table of items, or
        space: a search space.
        horizon: ``T``, the number of duels.
        seed: The seed of all draws.
        hyperparameters: ``"evidence"`` to learn them from all answers at the end of each
            round, or fixed values; see ``UtilityLearner``.
        kappa: ``kappa_1``: the variance takes a duel's curvature for ``1 / kappa``.
        later_kappa: That of later rounds: a number, ``"adaptive"`` to derive it from the
            widest interval that is left, or ``None`` for the same.
        beta: ``beta_(r)``, what the papers' ``sigma`` is multiplied by on the scale of
            probabilities: a number or a :class:`~botorch_pref.strategies.mr_lpf.Width`; ``None``
            for :func:`~botorch_pref.strategies.mr_lpf.bounds.practical_width`.
        ci_scale: ``"probability"`` as in the paper, or ``"latent"``, which eliminates more
            with the same confidence.
        regularizer: The penalty of a round's predictor; see ``FiniteEngine``; choices only.
        reuse_data: Whether a round also uses the answers of those before, against theory.
        refine: Whether pairs on a box are refined by constrained maximisation, instead of the
            best of a quasi-random sample; that leads to corners, where little is learnt.
        recommendation: The active item of largest utility: ``"pooled"``, by one model of all
            answers, or ``"last_round"``, by the prediction of the last full round.
        epsilon: Finish once :meth:`certificate` is no more than this, or a single item is left.
        merge_last: Whether a tiny last round joins the one before.

    Raises:
        ComparisonDataError: If an option is none of these.
        SearchSpaceError: If the domain cannot be used.
        UnsupportedError: If ``regularizer`` needs choices.

    Example:
        >>> strategy = MRLPF(choices=table, horizon=200, seed=0)
        >>> while not strategy.finished:
        ...     strategy.complete_round(judge_all(strategy.plan_round()))
        >>> strategy.recommend(), strategy.certificate()
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        horizon: int,
        seed: int = 0,
        hyperparameters: Literal["evidence"] | Mapping[str, Any] = "evidence",
        kappa: float = PRACTICAL_KAPPA,
        later_kappa: Literal["adaptive"] | float | None = None,
        beta: float | Width | Mapping[str, Any] | None = None,
        ci_scale: Scale = "latent",
        regularizer: Regularizer = "rkhs",
        reuse_data: bool = False,
        refine: bool = False,
        recommendation: Literal["pooled", "last_round"] = "pooled",
        epsilon: float | None = None,
        merge_last: bool = False,
    ) -> None:
        _check_recommendation(recommendation)
        if later_kappa is not None and later_kappa != "adaptive":
            later_kappa = checked_positive("later_kappa", later_kappa)
        self.recommendation, self.later_kappa = recommendation, later_kappa
        self.kappa = checked_positive("kappa", kappa)
        self.beta = None if beta is None else as_width(beta)
        self.epsilon = None if epsilon is None else checked_positive("epsilon", epsilon)
        self.horizon, self.merge_last = checked_horizon(horizon), bool(merge_last)
        self.refine, self.ci_scale = bool(refine), checked_scale(ci_scale)
        super().__init__(
            bounds,
            choices,
            space,
            sizes=round_sizes(horizon, merge_last=self.merge_last),
            ci_scale=self.ci_scale,
            regularizer=checked_regularizer(regularizer),
            reuse_data=bool(reuse_data),
            refine=self.refine,
            seed=seed,
            hyperparameters=hyperparameters,
            kappa=self.kappa,
        )

    @classmethod
    def paper(cls, *args: Any, **kwargs: Any) -> Self:
        r"""The setting of the paper's experiments, on choices.

        Matern-5/2 of lengthscale 0.1, ``lambda = rho = 0.05``, ``beta = 1`` and the predictor
        that was actually used, of dual coefficients beside a mean log likelihood. ``kappa =
        1`` is over-confident: the sigmoid has ``kappa >= 4``.

        Args:
            *args: Passed to the constructor.
            **kwargs: Likewise; and ``kernel``, ``lengthscale``, ``penalty``.
        """
        return cls(*args, **_paper_options(**kwargs))

    @classmethod
    def theory(
        cls, *args: Any, norm_bound: float, delta: float = 0.05, kappa: float = 0.0, **kwargs: Any
    ) -> Self:
        r"""The setting of the paper's theorems; at usual horizons it eliminates nothing.

        ``beta_(r)`` of eq. (14), and ``kappa_r = 6`` from the second round on. On a box
        ``|X|`` is ``T ** d``. Warns if a round's prediction is steeper than ``kappa_r`` allows.

        Args:
            *args: Passed to the constructor.
            norm_bound: ``B``, a bound on the norm of the utility under the unit kernel.
            delta: The failure probability.
            kappa: ``kappa_1``; by default what ``norm_bound`` implies.
            **kwargs: Passed to the constructor: ``horizon`` and fixed ``hyperparameters``,
                whose penalty is ``lambda``, at least.
        """
        width = Width("theory", norm_bound=norm_bound, delta=delta)
        kappas = {"kappa": kappa or steepness_bound(norm_bound), "later_kappa": LATER_KAPPA}
        return cls(
            *args, **{**kappas, "beta": width, "ci_scale": "probability", "refine": True, **kwargs}
        )

    @property
    def width(self) -> Width:
        """What ``beta_(r)`` follows from."""
        return self.beta or practical_width(self.sizes[0], self.space.dim)

    @property
    def finished(self) -> bool:
        """Whether all rounds are completed, or the certificate is small enough."""
        if super().finished or self.epsilon is None:
            return super().finished
        return self.active.num_items == 1 or self.certificate() <= self.epsilon

    def certificate(self) -> float:
        r"""A bound on ``P(x* beats x) - 1/2`` for every active item ``x``.

        The least of the completed rounds' own, see ``RoundRecord``; 1/2 before the first.
        """
        return min((record.certificate for record in self.records), default=0.5)

    def recommend(self) -> Tensor:
        r"""The best active item; see ``recommendation``.

        Raises:
            ComparisonDataError: On a box, if nothing was asked yet.
        """
        if isinstance(self.active, ActiveChoices):
            return self.space.table[self.recommend_index()]
        asked = self.asked_items()
        if not len(asked):
            raise ComparisonDataError("Nothing was answered yet, so nothing is recommended.")
        model = self.active.predictor if self.recommendation == "last_round" else None
        seed = derive_seed(self.seed, "recommend", self.num_answers)
        return self.active.maximise_mean(model or self.learner.model(), seed, asked)

    def recommend_index(self) -> int:
        """The row of the recommended item in the choices."""
        if not isinstance(self.active, ActiveChoices):
            return super().recommend_index()
        mean = self.active.mean if self.recommendation == "last_round" else None
        if mean is None:
            mean = self.learner.posterior().mean
        return self._best_row(masked(mean, ~self.active.mask))

    def _setting(self) -> RoundSetting:
        number = len(self.records) + 1
        size = self.sizes[number - 1]
        full = size >= full_size(number, self.horizon)
        penalty, kappa = self.learner.penalty, self._kappa()
        beta = self.width.beta(penalty, kappa, len(self.sizes), _log_size(self.space, self.horizon))
        return RoundSetting(number, size, full, penalty, kappa, beta)

    def _kappa(self) -> float:
        if not self.records or self.later_kappa is None:
            return self.kappa
        if self.later_kappa != "adaptive":
            return self.later_kappa
        last = self.records[-1]
        return next_kappa(last.closing.kappa, last.closing.beta, last.outcome.left_sigma)

    def _close(self) -> None:
        super()._close()
        closing, outcome = self.records[-1].closing, self.records[-1].outcome
        if self.width.kind == "theory" and outcome.steepness > closing.kappa:
            text = f"1 / mu' reaches {outcome.steepness:.3g} but kappa is {closing.kappa:.3g}."
            warnings.warn(f"Round {closing.number}: {text}", ConfidenceWarning, stacklevel=4)


def _check_recommendation(name: str) -> None:
    if name not in ("pooled", "last_round"):
        raise ComparisonDataError(f"`recommendation` must be pooled or last_round, got {name!r}.")


def _log_size(space: SearchSpace, horizon: int) -> float:
    """``log |X|``, on a box that of a grid of ``T`` points a dimension."""
    return space.dim * math.log(horizon) if space.choices is None else math.log(len(space.choices))
