r"""MR-LPF: rounds of duels of largest variance, and elimination between them.

Kayal, Vakili, Toni, Shiu and Bernacchia, *Bayesian Optimization from Human Feedback:
Near-Optimal Regret Bounds* (2025). All in their units: a kernel ``k <= 1``, penalty ``lambda``,
ridge ``rho = lambda kappa``.
"""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Self, cast, get_args

import torch
from botorch.acquisition import PosteriorMean
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.data.checks import check_word, checked_positive, is_positive
from botorch_pref.exceptions import (
    ComparisonDataError,
    ConfidenceWarning,
    StaleQueryError,
    UnsupportedError,
)
from botorch_pref.inference.finite import (
    FinitePosterior,
    PairVarianceTable,
    Regularizer,
    argmax_with_random_ties,
)
from botorch_pref.kernels.evaluation import safe_deviation
from botorch_pref.likelihoods import BernoulliLikelihood
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.queries import Answered, Duel, Query
from botorch_pref.randomness import derive_seed, derive_uniform
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Pair, UtilityStrategy
from botorch_pref.strategies.utility import UtilityLearner, difference_table, masked

Scale = Literal["probability", "latent"]
"""Where the intervals of MR-LPF live."""

PRACTICAL_KAPPA = 12.0  # measured beside 6 on test functions
LATER_KAPPA = 6.0  # pairs that survive a good first round have mu(h) in [1/4, 3/4]
_ROUNDING = 1e-12
_SAMPLE = 2048  # quasi-random items of a box, of which the active ones are kept
_POOL = 256  # active items that pairs are looked for among, and that are witnesses
_THIN = 64  # fewer active items than that are not enough
_SHRINK = (0.3, 0.1, 0.03, 0.01, 0.003)  # steps around them, as shares of the box
_MEAN_STARTS, _MEAN_OPTIONS = 2, {"maxiter": 20}


# Widths and sizes.


class Width(NamedTuple):
    r"""``beta_(r)``, what ``sigma`` is multiplied by on the scale of probabilities.

    Attributes:
        kind: ``"bayes"``, ``"constant"`` or ``"theory"``.
        value: The constant of ``"constant"``; for ``"bayes"`` how many posterior standard
            deviations of the difference of utilities the interval has on either side.
        norm_bound: ``B`` of ``"theory"``, a bound on the norm of the utility.
        delta: The failure probability of ``"theory"``.
    """

    kind: str = "bayes"
    value: float = 1.0
    norm_bound: float = 1.0
    delta: float = 0.05

    def beta(
        self, penalty: float, kappa: float, num_rounds: int, log_size: float, slope: float = 0.25
    ) -> float:
        r"""``beta_(r)`` for the unit kernel.

        Args:
            penalty: ``lambda``.
            kappa: ``kappa_r``.
            num_rounds: ``R``.
            log_size: ``log |X|``.
            slope: ``L``, the largest slope of the link.

        Returns:
            ``L value lambda ** -0.5`` for ``"bayes"``; the constant; or eq. (14),
            ``L (B + sqrt(kappa_r / lambda log(2 R |X| / delta)))``.
        """
        if self.kind == "bayes":
            return slope * self.value * penalty**-0.5
        if self.kind == "constant":
            return self.value
        log = math.log(2 * num_rounds / self.delta) + log_size
        return slope * (self.norm_bound + math.sqrt(kappa / penalty * log))


def as_width(beta: float | Width | Mapping[str, Any]) -> Width:
    r"""A width from a constant, or its fields.

    Raises:
        ComparisonDataError: If it is neither, or not positive and finite.
    """
    found = Width("")  # names none
    if isinstance(beta, Width):
        found = beta
    elif isinstance(beta, Mapping) and not set(beta) - set(Width._fields):
        found = Width(**beta)
    elif isinstance(beta, int | float) and not isinstance(beta, bool):
        found = Width("constant", float(beta))
    numbers = [found.norm_bound, found.delta]
    if found.kind != "constant" or found.value != 0:
        numbers.append(found.value)
    if found.kind not in ("bayes", "constant", "theory") or not all(map(is_positive, numbers)):
        raise ComparisonDataError(
            "`beta` must be a finite number, at least 0, or a Width of kind bayes, constant or "
            f"theory whose numbers are positive, got {beta!r}."
        )
    if found.delta > 1:
        raise ComparisonDataError(f"`beta` has delta {found.delta!r}, which is no probability.")
    return found


def practical_width(first_size: int, dim: int) -> Width:
    r"""An interval as wide as the horizon affords; what eliminates nothing finds nothing.

    ``(N_1 / 7 d)^2`` posterior standard deviations, within ``[1/4, 1]``: one where the first
    round has seven duels a dimension. A heuristic, tried on Branin and Hartmann's function.

    Args:
        first_size: ``N_1``.
        dim: The dimension ``d`` of an item.
    """
    return Width("bayes", min(1.0, max(0.25, (first_size / (7 * dim)) ** 2)))


def steepness_bound(norm_bound: float) -> float:
    r"""``kappa = sup 1 / mu'(h)`` of the sigmoid where only the norm of the utility is bounded.

    Args:
        norm_bound: ``B``.

    Returns:
        ``2 + 2 cosh(sqrt(2) B)``, as ``|h| <= sqrt(2) B`` for a kernel of unit variance that
        is nowhere negative.
    """
    return 2.0 + 2.0 * math.cosh(math.sqrt(2.0) * norm_bound)


def round_sizes(horizon: int) -> tuple[int, ...]:
    r"""The numbers of duels of MR-LPF's rounds (Kayal et al. 2025, sec. 3).

    ``N_r = ceil(sqrt(N_{r-1} T))`` with ``N_0 = 1``; the last round gets what is left.
    Whole numbers throughout, so no rounding decides a size.

    Args:
        horizon: ``T``, the number of duels in all.

    Returns:
        The sizes, whose sum is ``horizon``; at most ``ceil(log2(log2(T))) + 1`` of them.

    Raises:
        ComparisonDataError: If ``horizon`` is no whole number, or less than 1.
    """
    total = _checked_horizon(horizon)
    sizes: list[int] = []
    while left := total - sum(sizes):
        sizes.append(min(_full_size(len(sizes) + 1, total), left))
    return tuple(sizes)


def _full_size(number: int, horizon: int) -> int:
    """``N_r = ceil(sqrt(N_{r-1} T))``, the size of a round, from 1, that is not cut short."""
    size = 1
    for _ in range(number):
        size = math.isqrt(size * horizon - 1) + 1
    return size


def _checked_horizon(horizon: int) -> int:
    try:
        total = operator.index(horizon)
    except TypeError:
        total = 0
    if total < 1 or isinstance(horizon, bool):
        raise ComparisonDataError(f"`horizon` must be a whole number, at least 1, not {horizon!r}.")
    return total


class Interval(NamedTuple):
    r"""The confidence interval of a duel, of which an elimination needs the upper end.

    Attributes:
        ci_scale: ``"probability"`` for eq. (12) of Kayal et al. (2025), ``mu(h) + beta sigma``;
            ``"latent"`` for ``h + beta sigma / L``, where ``L`` is the largest slope of the link:
            valid with the same probability, and never weaker.
        link: ``mu``.
    """

    ci_scale: Scale
    link: BernoulliLikelihood

    @property
    def slope(self) -> float:
        """``L``, the slope of the link at 0; 1/4 for the sigmoid."""
        return 1.0 / self.steepness(torch.zeros(1, dtype=torch.double))

    def steepness(self, difference: Tensor) -> float:
        """The largest ``1 / mu'(h)`` of ``n``-dim differences; its least value without any."""
        difference = difference if len(difference) else difference.new_zeros(1)
        first, _, _ = self.link.log_cdf_derivatives(difference)
        return float((1.0 / (self.link(difference) * first)).max())

    def slack(self, difference: Tensor, sigma: Tensor, beta: float) -> Tensor:
        """At least 0 where ``x`` may be as good as ``x'``, given ``h_t`` and ``sigma_t`` of both.

        ``beta`` multiplies ``sigma`` on the scale of probabilities.
        """
        if self.ci_scale == "latent":
            return difference + beta / self.slope * sigma
        return self.link(difference) + beta * sigma - 0.5

    def survivors(self, mean: Tensor, sigma: Tensor, beta: float) -> Tensor:
        """Which of ``n`` items no other one has beaten for sure; that of largest mean is one.

        ``mean`` has their ``n`` predicted utilities, ``sigma`` the ``n x n`` of their pairs.
        """
        slack = self.slack(mean.unsqueeze(-1) - mean, sigma, beta)
        return (slack >= -_ROUNDING).all(dim=-1)


class RoundSetting(NamedTuple):
    r"""What a round is played with.

    Attributes:
        number: The round ``r``, from 1.
        size: The number ``N_r`` of its duels.
        full: Whether it is not cut short by the horizon.
        penalty: ``lambda``.
        kappa: ``kappa_r``, the inverse curvature that the variance assumes.
        beta: ``beta_(r)``, what ``sigma`` is multiplied by on the scale of probabilities.
    """

    number: int
    size: int
    full: bool
    penalty: float
    kappa: float
    beta: float

    @property
    def ridge(self) -> float:
        """``rho_r = lambda kappa_r``."""
        return self.penalty * self.kappa


class RoundRecord(NamedTuple):
    r"""A completed round. On a box, maxima over the active set are taken over a sample of it.

    Attributes:
        setting: What it was closed with: hyperparameters that are learnt were fitted at its end.
        max_sigma: The largest ``sigma_(N_r, r)(x, x')`` on the active set of the round.
        width: The largest over what is left of ``max_x' sigma_(N_r, r)(x, x')``, where ``x'``
            is any item of the active set of the round.
        steepness: The largest ``1 / mu'(h_t(z_i))`` of its duels, which theory takes to be
            ``kappa_r`` at most; 4 without answers.
        share: The share of all choices, or of a sample of the box, that is left.
        num_left: The number of choices that are left; ``None`` on a box, unless it is one.
    """

    setting: RoundSetting
    max_sigma: float
    width: float
    steepness: float
    share: float
    num_left: int | None

    @property
    def certificate(self) -> float:
        r"""A bound on ``P(x* beats x) - 1/2`` for every item ``x`` that is left.

        ``min{1/2, 2 beta_(r) max_x' sigma_(N_r, r)(x, x')}``; Kayal et al. (2025), eq. (31).
        As good as ``beta`` is: it holds with the probability of the confidence interval.
        """
        return min(0.5, 2.0 * self.setting.beta * self.width)


# The items that are still in the running.


class ActiveChoices:
    r"""The choices that are still in the running, and the round that is played on them.

    Attributes:
        rows: The active rows of the choices, ascending.
        mean: ``n``-dim utilities that the last full round predicts; ``None`` before its end.
    """

    def __init__(
        self, learner: UtilityLearner, regularizer: Regularizer, interval: Interval
    ) -> None:
        self.learner, self.regularizer, self.interval = learner, regularizer, interval
        self.choices = learner.space.table
        self.rows = torch.arange(len(self.choices), device=self.choices.device)
        self.mean: Tensor | None = None

    @property
    def num_items(self) -> int:
        """The number of active choices."""
        return len(self.rows)

    @property
    def mask(self) -> Tensor:
        """Which of all choices are active."""
        mask = torch.zeros(len(self.choices), dtype=torch.bool, device=self.rows.device)
        mask[self.rows] = True
        return mask

    def begin(self, setting: RoundSetting) -> None:
        """Begin a round under the kernel of now."""
        unit = self._unit_covariance()
        self.table = PairVarianceTable(unit[self.rows][:, self.rows], setting.ridge)

    def select(self, seed: int) -> Pair:
        """The pair of largest variance, ties at random; a single item that is left meets itself."""
        size = self.num_items
        if size == 1:
            return self._pair(0, 0)
        first, second = torch.triu_indices(size, size, 1, device=self.rows.device)
        noise = torch.rand(len(first), generator=torch.Generator().manual_seed(seed))
        values = self.table.variance[first, second]
        best = int(argmax_with_random_ties(values, noise.to(values)))
        return self._pair(int(first[best]), int(second[best]))

    def append(self, pair: Pair) -> None:
        """Take a pair of this round into account, whatever its answer."""
        rows = torch.tensor(pair[1], device=self.rows.device)
        self.table.append(torch.searchsorted(self.rows, rows))

    def close(self, setting: RoundSetting, answered: list[Answered], seed: int) -> RoundRecord:
        """Eliminate what the answers rule out, under the kernel of now, which may be a new one."""
        self.begin(setting)
        unit = self._unit_covariance()
        posterior = FinitePosterior(
            unit,
            penalty=setting.penalty,
            regularizer=self.regularizer,
            likelihood=self.interval.link,
        )
        for query, answer in answered:
            posterior.append(query.indices, cast(float, answer))
            rows = torch.tensor(query.indices, device=unit.device)
            self.table.append(torch.searchsorted(self.rows, rows))
        sigma, mean, pairs = self.table.variance.sqrt(), posterior.mean, posterior.pairs
        if setting.full:
            self.mean = mean
        keep = self.interval.survivors(mean[self.rows], sigma, setting.beta)
        self.rows = self.rows[keep]
        return RoundRecord(
            setting,
            max_sigma=float(sigma.max()),
            width=float(sigma[keep].max()),
            steepness=self.interval.steepness(mean[pairs[:, 0]] - mean[pairs[:, 1]]),
            share=self.num_items / len(self.choices),
            num_left=self.num_items,
        )

    def _unit_covariance(self) -> Tensor:
        with torch.no_grad():
            items = self.learner.space.normalize(self.choices)
            return to_dense(self.learner.unit_kernel()(items))

    def _pair(self, first: int, second: int) -> Pair:
        rows = int(self.rows[first]), int(self.rows[second])
        return self.choices[list(rows)], rows


class Elimination:
    r"""A round's rule on a box: what is left are the items of slack 0 at least.

    The opponents are finitely many witnesses instead of the whole active set, so the slack
    is too large rather than too small, and nothing is eliminated that should not be.

    Args:
        model: ``PreferenceGP(variance=kappa)`` of the round's answers.
        witnesses: ``w x d``-dim active items; the one of largest predicted utility has slack 0.
        beta: Multiplies the model's own standard deviation of a difference, on the scale of
            probabilities: ``sqrt(lambda)`` times that of Kayal et al. (2025).
        interval: The interval that eliminates.
    """

    def __init__(
        self, model: PreferenceGP, witnesses: Tensor, beta: float, interval: Interval
    ) -> None:
        self.model, self.witnesses, self.beta, self.interval = model, witnesses, beta, interval

    def slack(self, X: Tensor) -> Tensor:
        """The smallest slack of ``... x d`` items against all witnesses; differentiable."""
        parts = [self._slack(part) for part in X.reshape(-1, X.shape[-1]).split(_POOL)]
        return torch.cat(parts).view(X.shape[:-1])

    def _slack(self, items: Tensor) -> Tensor:
        size, joint = len(items), self.model.posterior(torch.cat([items, self.witnesses]))
        mean, covariance = joint.mean.squeeze(-1), joint.covariance_matrix
        own = covariance.diagonal()
        variance = own[:size, None] + own[size:] - 2.0 * covariance[:size, size:]
        deviation = safe_deviation(variance.clamp_min(0.0))
        return self.interval.slack(mean[:size, None] - mean[size:], deviation, self.beta).amin(-1)


class ActiveBox:
    r"""The part of a box that is still in the running, and the round that is played on it.

    Attributes:
        eliminations: The rules of the rounds that were closed; what satisfies all is active.
        pool: ``p x d``-dim active items, the best one by the last prediction among them.
        predictor: The model of the last full round; ``None`` before its end.
    """

    def __init__(self, learner: UtilityLearner, interval: Interval, seed: int) -> None:
        self.learner, self.interval, self.space = learner, interval, learner.space
        self.eliminations: list[Elimination] = []
        self.predictor: PreferenceGP | None = None
        self._sample = self.space.sample(_SAMPLE, seed)
        self.pool = self._sample[:_POOL]

    @property
    def num_items(self) -> int | None:
        """One where whole numbers and categories leave a single item; else ``None``."""
        few = not self.space.parameters.real
        return 1 if few and len(self.pool.unique(dim=0)) == 1 else None

    def slack(self, X: Tensor) -> Tensor:
        r"""The ``...``-dim slack of ``... x d`` items; those of 0 at least are active."""
        if not self.eliminations:
            return torch.ones_like(X[..., 0])
        return torch.stack([rule.slack(X) for rule in self.eliminations]).amin(0)

    def maximise_mean(self, model: PreferenceGP, seed: int, starts: Tensor) -> Tensor:
        """The active item of largest posterior mean, searched from the pool and other items."""
        items = torch.cat([self.pool, self._active(starts)])
        if not model.num_observations:  # all was skipped, and nothing is known
            return self.pool[0]
        best = self.space.maximize(
            PosteriorMean(model),
            seed=seed,
            starts=items.unsqueeze(-2),
            raw_samples=0,
            num_restarts=_MEAN_STARTS,
            options=_MEAN_OPTIONS,
            feasible=self.slack if self.eliminations else None,
        )
        return best.items[0]

    def begin(self, setting: RoundSetting) -> None:
        """See :class:`ActiveChoices`."""
        self._kernel, self._kappa = self.learner.covar_module().requires_grad_(False), setting.kappa
        self._pairs: list[Tensor] = []

    def select(self, seed: int) -> Pair:
        """The pair of the pool of largest variance; a single item that is left meets itself."""
        size = len(self.pool)
        if size == 1 or self.num_items == 1:
            return self.pool[:1].expand(2, -1), None
        # Any answers would do: the variance does not depend on them.
        model = self._model(self._pairs, [0.5] * len(self._pairs))
        first, second = torch.triu_indices(size, size, 1, device=self.pool.device)
        values = self._deviations(model, self.pool)[first, second]
        noise = torch.rand(len(values), generator=torch.Generator().manual_seed(seed))
        best = argmax_with_random_ties(values, noise.to(values))
        return self.pool[[int(first[best]), int(second[best])]], None

    def append(self, pair: Pair) -> None:
        """See :class:`ActiveChoices`; an identical pair changes nothing."""
        items = pair[0]
        if not torch.equal(items[0], items[1]):
            self._pairs.append(items)

    def close(self, setting: RoundSetting, answered: list[Answered], seed: int) -> RoundRecord:
        """See :class:`ActiveChoices`."""
        self.begin(setting)
        pairs = [query.items.to(self.pool) for query, _ in answered]
        model = self._model(pairs, [float(answer or 0.0) for _, answer in answered])
        before, difference = self.pool, self.pool.new_zeros(0)
        if pairs:
            if setting.full:
                self.predictor = model
            asked = self._active(torch.cat(pairs))
            best = self.maximise_mean(model, derive_seed(seed, "optimizer", 0), asked).unsqueeze(0)
            beta = setting.beta * setting.penalty**0.5
            witnesses = torch.cat([best, before, asked])
            self.eliminations.append(Elimination(model, witnesses, beta, self.interval))
            self._sample = self._active(self._sample)
            self.pool = self._refilled(best, self._active(asked), seed)
            with torch.no_grad():
                difference = model.pair_posterior(torch.stack(pairs)).mean.flatten()
        sigma = setting.penalty**0.5 * self._deviations(model, torch.cat([before, self.pool]))
        size = len(before)
        return RoundRecord(
            setting,
            max_sigma=float(sigma[:size, :size].max()),
            width=float(sigma[size:].max()),
            steepness=self.interval.steepness(difference),
            share=len(self._sample) / _SAMPLE,
            num_left=self.num_items,
        )

    def _active(self, items: Tensor) -> Tensor:
        with torch.no_grad():
            return items[self.slack(items) >= 0]

    def _refilled(self, best: Tensor, asked: Tensor, seed: int) -> Tensor:
        """A pool of active items; where few are known, by ever smaller steps around them."""
        half = _POOL // 2
        pool = torch.cat([best, self._sample[:half], asked[:half], self._sample[half:]])
        generator = torch.Generator().manual_seed(derive_seed(seed, "witness", 0))
        for scale in _SHRINK:
            if len(pool) >= _THIN:
                break
            noise = torch.randn(_SAMPLE, self.space.dim, generator=generator, dtype=torch.double)
            around = pool[torch.arange(_SAMPLE) % len(pool)]
            pool = torch.cat([pool, self._active(self.space.near(around, noise, scale))])
        return pool[:_POOL]

    @torch.no_grad()
    def _deviations(self, model: PreferenceGP, items: Tensor) -> Tensor:
        """The ``p x p``-dim standard deviations of differences of ``p x d``-dim items."""
        joint = model.posterior(items)
        return difference_table(joint.mean.squeeze(-1), joint.covariance_matrix)[1]

    def _model(self, pairs: list[Tensor], answers: list[float]) -> PreferenceGP:
        options: dict[str, Any] = {
            "covar_module": self._kernel,
            "likelihood": self.interval.link,
            "input_transform": self.space.input_transform(),
            "variance": self._kappa,
        }
        if not pairs:
            return PreferenceGP(None, None, **options)
        shown = torch.stack(pairs)
        return PreferenceGP.from_pairs(shown, shown.new_tensor(answers), **options)


# The strategy.


class MRLPF(UtilityStrategy):
    r"""Multi-round learning from preference-based feedback (Kayal et al. 2025).

    The horizon is cut into few rounds. In each the pairs of largest variance are asked,
    which no answer of the round can change, so that a whole round can be asked at once
    (:meth:`plan_round`). At its end items are eliminated that some other item has beaten
    for sure, and the next round is played on what is left. On a box the active set is
    described by witnesses, and pairs are chosen from a sample of it.

    Exactly ``horizon`` duels are asked, skipped ones included, unless ``epsilon`` ends it
    earlier; one more is an ``UnsupportedError``. Without it a single choice that is left meets
    itself up to the horizon. For other defaults see :meth:`paper` and :meth:`theory`.

    Example:
        >>> strategy = MRLPF(choices=table, horizon=200, seed=0)
        >>> while not strategy.finished:
        ...     strategy.complete_round(judge_all(strategy.plan_round()))
        >>> strategy.recommend(), strategy.certificate()

    Attributes:
        sizes: The numbers of duels of all rounds.
        active: The items that are still in the running.
        records: One record for every completed round.
    """

    def __init__(
        self,
        bounds: Tensor | None = None,
        choices: Tensor | None = None,
        space: SearchSpace | None = None,
        *,
        horizon: int,
        kappa: float = PRACTICAL_KAPPA,
        later_kappa: float | None = None,
        beta: float | Width | Mapping[str, Any] | None = None,
        ci_scale: Scale = "latent",
        regularizer: Regularizer = "rkhs",
        recommendation: Literal["pooled", "last_round"] = "pooled",
        epsilon: float | None = None,
        **model: Any,
    ) -> None:
        r"""Set up a strategy without data.

        Args:
            bounds: ``2 x d``-dim box, or
            choices: ``n x d``-dim table of items, or
            space: a search space.
            horizon: ``T``, the number of duels.
            kappa: ``kappa_1``: the variance takes a duel's curvature for ``1 / kappa``.
            later_kappa: That of later rounds, or ``None`` for the same.
            beta: ``beta_(r)``, what the papers' ``sigma`` is multiplied by on the scale of
                probabilities: a number or a ``Width``; ``None`` for
                ``practical_width``.
            ci_scale: ``"probability"`` as in the paper, or ``"latent"``, which eliminates more
                with the same confidence.
            regularizer: The penalty of a round's predictor; see ``FinitePosterior``; choices only.
            recommendation: The active item of largest utility: ``"pooled"``, by one model of all
                answers, or ``"last_round"``, by the prediction of the last full round.
            epsilon: Finish once :meth:`certificate` is no more than this, or a single item is
                left.
            **model: ``seed``, ``hyperparameters``, which are learnt from all answers at the end
                of each round, ``likelihood`` and ``covar_module``; see
                :class:`~botorch_pref.strategies.UtilityStrategy`.

        Raises:
            ComparisonDataError: If an option is none of these.
            SearchSpaceError: If the domain cannot be used.
            UnsupportedError: If ``regularizer`` needs choices.
        """
        if recommendation not in ("pooled", "last_round"):
            raise ComparisonDataError(
                f"`recommendation` must be pooled or last_round, got {recommendation!r}."
            )
        if ci_scale not in get_args(Scale):
            raise ComparisonDataError(
                f"`ci_scale` must be probability or latent, got {ci_scale!r}."
            )
        domain: dict[str, Any] = {"bounds": bounds, "choices": choices, "space": space}
        super().__init__(**domain, kappa=checked_positive("kappa", kappa), **model)
        check_word("regularizer", regularizer, Regularizer)
        self.regularizer = regularizer
        if self.space.choices is None and regularizer != "rkhs":
            raise UnsupportedError(f"`regularizer` {regularizer!r} needs `choices`.")
        self.horizon, self.sizes = _checked_horizon(horizon), round_sizes(horizon)
        self.later_kappa = later_kappa
        if later_kappa is not None:
            self.later_kappa = checked_positive("later_kappa", later_kappa)
        self.beta = None if beta is None else as_width(beta)
        self.epsilon = None if epsilon is None else checked_positive("epsilon", epsilon)
        self.recommendation, self.ci_scale = recommendation, ci_scale
        interval = Interval(ci_scale, self.learner.likelihood)
        self.active: ActiveChoices | ActiveBox
        if self.space.choices is not None:
            self.active = ActiveChoices(self.learner, self.regularizer, interval)
        else:
            self.active = ActiveBox(self.learner, interval, derive_seed(self.seed, "witness", 0))
        self.records: list[RoundRecord] = []
        self._values: list[dict[str, Any]] = []  # hyperparameters at the end of each round
        self._shown: int | None = None  # duels chosen when plan_round() was last called
        self._begin()

    @classmethod
    def paper(
        cls,
        *args: Any,
        kernel: str = "matern",
        lengthscale: float = 0.1,
        penalty: float = 0.05,
        **kwargs: Any,
    ) -> Self:
        r"""The setting of the paper's experiments, on choices.

        Matern-5/2 of lengthscale 0.1, ``lambda = rho = 0.05``, ``beta = 1`` and the predictor
        that was actually used, of dual coefficients beside a mean log likelihood. ``kappa =
        1`` is over-confident: the sigmoid has ``kappa >= 4``.

        Args:
            *args: Passed to the constructor.
            kernel: ``"rbf"``, ``"matern"`` or ``"matern15"``.
            lengthscale: On the unit cube.
            penalty: ``lambda``.
            **kwargs: Passed to the constructor.
        """
        fixed = {"kernel": kernel, "lengthscale": lengthscale, "penalty": penalty}
        setting = {
            "hyperparameters": fixed,
            "kappa": 1.0,
            "beta": 1.0,
            "ci_scale": "probability",
            "regularizer": "theta_mean",
            "recommendation": "last_round",
        }
        return cls(*args, **{**setting, **kwargs})

    @classmethod
    def theory(
        cls, *args: Any, norm_bound: float, delta: float = 0.05, kappa: float = 0.0, **kwargs: Any
    ) -> Self:
        r"""The setting of the paper's theorems; at usual horizons it eliminates nothing.

        ``beta_(r)`` of eq. (14), and ``kappa_r = 6`` from the second round on, for the sigmoid.
        On a box ``|X|`` is ``T ** d``. Warns if a round's prediction is steeper than ``kappa_r``
        allows.

        Args:
            *args: Passed to the constructor.
            norm_bound: ``B``, a bound on the norm of the utility under the unit kernel.
            delta: The failure probability.
            kappa: ``kappa_1``; by default what ``norm_bound`` implies.
            **kwargs: Passed to the constructor: ``horizon`` and fixed ``hyperparameters``,
                whose penalty is ``lambda``, at least.
        """
        setting = {
            "kappa": kappa or steepness_bound(norm_bound),
            "later_kappa": LATER_KAPPA,
            "beta": Width("theory", norm_bound=norm_bound, delta=delta),
            "ci_scale": "probability",
        }
        return cls(*args, **{**setting, **kwargs})

    @property
    def width(self) -> Width:
        """What ``beta_(r)`` follows from."""
        return self.beta or practical_width(self.sizes[0], self.space.dim)

    @property
    def finished(self) -> bool:
        """Whether all rounds are completed, or the certificate is small enough."""
        if len(self.records) == len(self.sizes) or self.epsilon is None:
            return len(self.records) == len(self.sizes)
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

    def tell(self, query: Query, answer: float | None) -> None:
        """See the base class; the last answer of a round eliminates items."""
        super().tell(query, answer)
        self._close_if_complete()

    def plan_round(self) -> Tensor:
        r"""All pairs of the current round that nobody was asked yet, in their order.

        They are what :meth:`ask` would return one after the other, whatever the answers.

        Returns:
            ``k x 2 x d``-dim pairs, as they are to be shown; all ``N_r`` of the round unless
            some were asked by :meth:`ask`.

        Raises:
            UnsupportedError: If no duel is left to be asked before others are answered.
        """
        self._check_open()
        self._plan(self._setting.size)
        self._shown = self.round
        return torch.stack([items for items, _ in self._planned[self.round - self._offset :]])

    def complete_round(self, answers: Tensor | Sequence[float | None]) -> None:
        r"""Answer the whole plan; the same as asking and telling its pairs one by one.

        Args:
            answers: One for each pair of :meth:`plan_round`, for the pair as shown: 1 the
                first won, 0 the second, 0.5 no preference, ``None`` skipped.

        Raises:
            StaleQueryError: If there is no plan, :meth:`ask` overtook it, or a query is open.
            ComparisonDataError: If there are more or fewer answers than pairs, or one is no
                answer; names the row, and nothing is recorded.
        """
        if self._shown != self.round:
            raise StaleQueryError("There is no current plan: call plan_round() first.")
        if self._open:
            raise StaleQueryError(f"Queries {self._waiting()} are open: tell their answers first.")
        planned = self._planned[self.round - self._offset :]
        told = answers.tolist() if isinstance(answers, Tensor) else answers
        if not isinstance(told, list | tuple) or len(told) != len(planned):
            raise ComparisonDataError(
                f"`answers` must be a list or a tensor of {len(planned)} answers, not {answers!r}."
            )
        for row, ((items, _), answer) in enumerate(zip(planned, told, strict=True)):
            Duel(row, items).checked(answer)
        for answer in told:
            self.tell(self.ask(), answer)

    @property
    def _offset(self) -> int:
        """The number of duels in all completed rounds."""
        return sum(self.sizes[: len(self.records)])

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self._check_open()
        return super()._choose(query_id, annotator)

    def _refit(self) -> None:
        """Hyperparameters are learnt between rounds alone, so that no answer moves a pair."""

    def _pair(self, annotator: str | None) -> Pair:
        position = self.round - self._offset
        self._plan(position)
        return self._planned[position - 1]

    def _plan(self, count: int) -> None:
        """Choose pairs of this round until there are so many; which item is first is random."""
        while len(self._planned) < count:
            step = self._offset + len(self._planned) + 1
            items, rows = self.active.select(derive_seed(self.seed, "pair", step))
            if derive_uniform(self.seed, "orientation", step) < 0.5:
                items, rows = items.flip(0), None if rows is None else (rows[1], rows[0])
            self._put((items, rows))

    def _put(self, pair: Pair) -> None:
        self._planned.append(pair)
        self.active.append(pair)

    def _begin(self) -> None:
        """Begin the next round, if there is one."""
        self._planned: list[Pair] = []
        if not self.finished:
            self._setting = self._next_setting()
            self.active.begin(self._setting)

    def _next_setting(self) -> RoundSetting:
        """What the current round is played with, under the hyperparameters of now."""
        number = len(self.records) + 1
        size = self.sizes[number - 1]
        kappa = float(self.kappa)
        if self.records and self.later_kappa is not None:
            kappa = self.later_kappa
        log_size = self.space.dim * math.log(self.horizon)  # of a grid of T points a dimension
        if self.space.choices is not None:
            log_size = math.log(len(self.space.choices))
        penalty, slope = self.learner.penalty, self.active.interval.slope
        beta = self.width.beta(penalty, kappa, len(self.sizes), log_size, slope)
        full = size >= _full_size(number, self.horizon)
        return RoundSetting(number, size, full, penalty, kappa, beta)

    def _check_open(self) -> None:
        """Raise unless there is a duel to be asked."""
        self._close_if_complete()
        answered = len(self.history)
        if self.finished and answered == self.horizon:
            raise UnsupportedError(f"All {answered} duels are answered: nothing is left to ask.")
        if self.finished:
            why = "A single item is left" if self.active.num_items == 1 else "`epsilon` is reached"
            raise UnsupportedError(
                f"{why} after {answered} of {self.horizon} duels: nothing is left to ask."
            )
        if self.round == self._offset + self._setting.size:
            raise UnsupportedError(
                f"Round {self._setting.number} waits for the answers to the queries "
                f"{self._waiting()}, on which the next one depends."
            )

    def _waiting(self) -> list[int]:
        return [query.id for query in self._open.values()]

    def _close_if_complete(self) -> None:
        if not self.finished and len(self.history) == self._offset + self._setting.size:
            self.learner.refit()
            self._close()

    def _close(self) -> None:
        """Eliminate, and begin the next round."""
        setting, start = self._next_setting(), self._offset
        duels = sorted(self.history, key=lambda answered: answered.query.id)
        told = [done for done in duels[start : start + setting.size] if done.answer is not None]
        told = [done for done in told if not torch.equal(*done.query.items)]
        seed = derive_seed(self.seed, "elimination", setting.number)
        record = self.active.close(setting, told, seed)
        self._values.append(dict(self.learner.values))
        self.records.append(record)
        self._begin()
        if self.width.kind == "theory" and record.steepness > setting.kappa:
            text = f"1 / mu' reaches {record.steepness:.3g} but kappa is {setting.kappa:.3g}."
            warnings.warn(f"Round {setting.number}: {text}", ConfidenceWarning, stacklevel=4)

    def _progress(self) -> dict[str, Any]:
        planned = self._planned[self.round - self._offset :]
        return {
            **super()._progress(),
            "rounds": [dict(values) for values in self._values],
            "plan": [[items.tolist(), rows] for items, rows in planned],
            "shown": self._shown,
        }

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        self._shown = progress["shown"]
        chosen = [answered.query for answered in self.history] + [*self._open.values()]
        duels = sorted(chosen, key=lambda query: query.id)
        pairs = [(query.items.to(self.space.bounds), query.indices) for query in duels]
        for values in progress["rounds"]:
            self.learner.values = dict(values)
            self._close()
        for items, rows in progress["plan"]:
            shown = torch.tensor(items, dtype=torch.double).to(self.space.bounds)
            pairs.append((shown, None if rows is None else (rows[0], rows[1])))
        for pair in pairs[self._offset :]:
            self._put(pair)
