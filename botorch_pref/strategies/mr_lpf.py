r"""MR-LPF: rounds of duels of largest variance, and elimination between them.

Kayal, Vakili, Toni, Shiu and Bernacchia, *Bayesian Optimization from Human Feedback:
Near-Optimal Regret Bounds* (2025). All in their units: a kernel ``k <= 1``, penalty ``lambda``,
ridge ``rho = lambda kappa``.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Literal, NamedTuple, Self, cast

import torch
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.acquisition.utils import mean_rule, moments_between
from botorch_pref.data.checks import check_count, check_word, checked_nonnegative, checked_positive
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference.finite import (
    FinitePosterior,
    PairVarianceTable,
    Regularizer,
    argmax_with_random_ties,
)
from botorch_pref.kernels.items import safe_deviation
from botorch_pref.likelihoods import BernoulliLikelihood
from botorch_pref.models.preference_gp import PreferenceGP
from botorch_pref.queries import Answer, Answered, Query
from botorch_pref.randomness import derive_seed, derive_uniform
from botorch_pref.space.search_space import MOST_PAIRED
from botorch_pref.strategies.base import Pair, UtilityStrategy
from botorch_pref.strategies.state import Entry, listed
from botorch_pref.strategies.utility import (
    HYPERPARAMETERS,
    PAPER_MODEL,
    UtilityLearner,
    difference_table,
    masked,
)

Scale = Literal["probability", "latent"]
Recommendation = Literal["pooled", "last_round"]

PRACTICAL_KAPPA = 12.0  # measured beside 6 on test functions
_ROUNDING = 1e-12
_SAMPLE = 2048  # quasi-random items of a box, of which the active ones are kept
_POOL = 256  # active items that pairs are chosen among, and that are witnesses
_THIN = 64  # fewer active items than that are not enough
_SHRINK = (0.3, 0.1, 0.03, 0.01, 0.003)  # steps around them, as shares of the box
_MEAN_STARTS, _MEAN_OPTIONS = 2, {"maxiter": 20}


def round_sizes(horizon: int) -> tuple[int, ...]:
    r"""The numbers of duels of MR-LPF's rounds (Kayal et al. 2025, sec. 3).

    ``N_r = ceil(sqrt(N_{r-1} T))`` with ``N_0 = 1``, in whole numbers throughout; the last round
    gets what is left.

    Args:
        horizon: ``T``, the number of duels in all.

    Returns:
        The sizes, whose sum is ``horizon``; at most ``ceil(log2(log2(T))) + 1`` of them.

    Raises:
        ComparisonDataError: If ``horizon`` is no whole number, or less than 1.
    """
    total = check_count("horizon", horizon, 1)
    sizes: list[int] = []
    size = 1
    while left := total - sum(sizes):
        size = math.isqrt(size * total - 1) + 1
        sizes.append(min(size, left))
    return tuple(sizes)


class Interval(NamedTuple):
    """The confidence interval of a duel, of which an elimination needs the upper end.

    On the scale ``"probability"`` it is eq. (12) of Kayal et al. (2025), ``mu(h) + beta sigma``; on
    ``"latent"`` ``h + beta sigma / L``, where ``L`` is the largest slope of the link ``mu``: valid
    with the same probability, and never weaker.
    """

    ci_scale: Scale
    link: BernoulliLikelihood

    @property
    def slope(self) -> float:
        """``L``, the slope of the link at 0; 1/4 for the sigmoid."""
        zero = torch.zeros((), dtype=torch.double)
        return float(self.link(zero) * self.link.log_cdf_derivatives(zero)[0])

    def slack(self, difference: Tensor, sigma: Tensor, beta: float) -> Tensor:
        """At least 0 where ``x`` may be as good as ``x'``, by ``h_t`` and ``sigma_t`` of both."""
        if self.ci_scale == "latent":
            return difference + beta / self.slope * sigma
        return self.link(difference) + beta * sigma - 0.5

    def survivors(self, mean: Tensor, sigma: Tensor, beta: float) -> Tensor:
        """Which items of ``n`` means and ``n x n`` deviations no other one has beaten for sure."""
        slack = self.slack(mean.unsqueeze(-1) - mean, sigma, beta)
        return (slack >= -_ROUNDING).all(dim=-1)


class ActiveChoices:
    """The choices that are not eliminated, and the current round on them."""

    def __init__(
        self, learner: UtilityLearner, kappa: float, interval: Interval, regularizer: Regularizer
    ) -> None:
        self.learner, self.kappa, self.interval = learner, kappa, interval
        self.regularizer: Regularizer = regularizer
        self.choices = learner.space.table
        self.rows = torch.arange(len(self.choices), device=self.choices.device)  # that are active
        self.mean: Tensor | None = None  # as the last full round predicts it

    @property
    def num_items(self) -> int:
        """The number of active choices."""
        return len(self.rows)

    def begin(self) -> None:
        """Begin a round under the current kernel."""
        with torch.no_grad():
            items = self.learner.space.normalize(self.choices)
            self._unit = to_dense(self.learner.unit_kernel()(items))
        ridge = self.learner.penalty * self.kappa
        self.table = PairVarianceTable(self._unit[self.rows][:, self.rows], ridge)

    def select(self, seed: int) -> Pair:
        """The pair of largest variance, ties at random; a single item that is left meets itself."""
        first, second = _largest_pair(self.table.variance, seed)
        rows = int(self.rows[first]), int(self.rows[second])
        return self.choices[list(rows)], rows

    def append(self, pair: Pair) -> None:
        """Take a pair of this round into account, whatever its answer."""
        rows = torch.tensor(pair[1], device=self.rows.device)
        self.table.append(torch.searchsorted(self.rows, rows))

    def close(self, answered: list[Answered], beta: float, full: bool, seed: int) -> float:
        """Eliminate what answers rule out under ``beta_(r)`` and the current, maybe new, kernel.

        A round is full unless the horizon cuts it short. Returns ``max_x max_x' sigma_(N_r, r)``
        over the items ``x`` that are left and those that were active in the round; on a box, over
        samples of both.
        """
        self.begin()
        posterior = FinitePosterior(
            self._unit,
            penalty=self.learner.penalty,
            regularizer=self.regularizer,
            likelihood=self.interval.link,
        )
        for query, answer in answered:
            posterior.append(query.indices, cast(float, answer))
            self.append((query.items, query.indices))
        sigma, mean = self.table.variance.sqrt(), posterior.mean
        if full:
            self.mean = mean
        keep = self.interval.survivors(mean[self.rows], sigma, beta)
        self.rows = self.rows[keep]
        return float(sigma[keep].max())


class Elimination(NamedTuple):
    """The rule by which a round on a box eliminates: what is left are the items of slack >= 0.

    The opponents are ``w x d``-dim witnesses instead of the whole active set, so the slack
    is too large rather than too small, and nothing is eliminated that should not be. ``beta``
    multiplies the model's own deviations: it is ``sqrt(lambda)`` times that of the paper.
    """

    model: PreferenceGP
    witnesses: Tensor
    beta: float
    interval: Interval

    def slack(self, X: Tensor) -> Tensor:
        """The smallest slack of ``... x d`` items against all witnesses; differentiable."""
        parts = []
        for items in X.reshape(-1, X.shape[-1]).split(_POOL):
            mean, variance = moments_between(self.model, items, self.witnesses)
            parts.append(self.interval.slack(mean, safe_deviation(variance), self.beta).amin(-1))
        return torch.cat(parts).view(X.shape[:-1])


class ActiveBox:
    """The part of a box that is not eliminated, and the current round on it.

    Active are the items that satisfy the ``eliminations`` of all closed rounds. Of these the
    ``pool`` has ``p``, among them the best one by the last prediction.
    """

    def __init__(
        self, learner: UtilityLearner, kappa: float, interval: Interval, seed: int
    ) -> None:
        self.learner, self.kappa, self.interval = learner, kappa, interval
        self.space = learner.space
        self.eliminations: list[Elimination] = []
        self.predictor: PreferenceGP | None = None  # of the last full round
        self._sample = self.space.sample(_SAMPLE, seed)
        self.pool = self._sample[:_POOL]

    @property
    def num_items(self) -> int | None:
        """One where whole numbers and categories leave a single item; else ``None``."""
        few = not self.space.parameters.real
        return 1 if few and len(self.pool.unique(dim=0)) == 1 else None

    def slack(self, X: Tensor) -> Tensor:
        """The ``...``-dim slack of ``... x d`` items; those of 0 at least are active."""
        if not self.eliminations:
            return torch.ones_like(X[..., 0])
        return torch.stack([rule.slack(X) for rule in self.eliminations]).amin(0)

    def maximise_mean(self, model: PreferenceGP, seed: int, starts: Tensor) -> Tensor:
        """The active item of largest posterior mean, searched from the pool and other items."""
        items = torch.cat([self.pool, self._active(starts)])
        if not model.num_observations:  # all was skipped, and nothing is known
            return self.pool[0]
        best = self.space.maximize(
            mean_rule(model.posterior_mean),
            seed=seed,
            starts=items.unsqueeze(-2),
            raw_samples=0,
            num_restarts=_MEAN_STARTS,
            options=_MEAN_OPTIONS,
            feasible=self.slack if self.eliminations else None,
        )
        return best.items[0]

    def begin(self) -> None:
        """See :class:`ActiveChoices`."""
        self._kernel = self.learner.covar_module().requires_grad_(False)
        self._pairs: list[Tensor] = []

    def select(self, seed: int) -> Pair:
        """The pair of the pool of largest variance; a single item that is left meets itself."""
        if self.num_items == 1:
            return self.pool[:1].expand(2, -1), None
        # Any answers would do: the variance does not depend on them.
        model = self._model(self._pairs, [0.5] * len(self._pairs))
        return self.pool[list(_largest_pair(self._deviations(model, self.pool), seed))], None

    def append(self, pair: Pair) -> None:
        """See :class:`ActiveChoices`; an identical pair changes nothing."""
        items = pair[0]
        if not torch.equal(items[0], items[1]):
            self._pairs.append(items)

    def close(self, answered: list[Answered], beta: float, full: bool, seed: int) -> float:
        """See :class:`ActiveChoices`."""
        self.begin()
        pairs = [query.items.to(self.pool) for query, _ in answered]
        model = self._model(pairs, [done.number for done in answered])
        before, unit = self.pool, self.learner.penalty**0.5
        if pairs:
            if full:
                self.predictor = model
            asked = self._active(torch.cat(pairs))
            best = self.maximise_mean(model, derive_seed(seed, "optimizer", 0), asked).unsqueeze(0)
            witnesses = torch.cat([best, before, asked])
            self.eliminations.append(Elimination(model, witnesses, beta * unit, self.interval))
            self._sample = self._active(self._sample)
            self.pool = self._refilled(best, self._active(asked), seed)
        sigma = self._deviations(model, torch.cat([before, self.pool]))[len(before) :]
        return unit * float(sigma.max())

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
            "variance": self.kappa,
        }
        if not pairs:
            return PreferenceGP(None, None, **options)
        shown = torch.stack(pairs)
        return PreferenceGP.from_pairs(shown, shown.new_tensor(answers), **options)


@dataclass(kw_only=True, eq=False, repr=False)
class MRLPF(UtilityStrategy):
    r"""Multi-round learning from preference-based feedback (Kayal et al. 2025).

    The horizon is cut into few rounds. In each the pairs of largest variance are asked, which no
    answer of the round can change, so that all of a round may be shown at once, see
    :meth:`plan_round`. At its end items are eliminated that some other item has beaten for
    sure, and the next round is on what is left. On a box the active set is described by
    witnesses, and pairs are chosen from a sample of it. Hyperparameters that are learnt are fitted
    to all answers at the end of each round.

    Exactly ``horizon`` duels are asked, skipped ones included, unless ``epsilon`` ends it
    earlier; one more is an ``UnsupportedError``. Without it a single choice that is left meets
    itself up to the horizon. For the published setting see :meth:`paper`, for the other arguments
    :class:`~botorch_pref.strategies.UtilityStrategy`.

    Example:
        >>> strategy = MRLPF(choices=table, horizon=200, seed=0)
        >>> while not strategy.finished:
        ...     query = strategy.ask()
        ...     strategy.tell(query, judge(query))
        >>> strategy.recommend(), strategy.certificate()

    Args:
        horizon: ``T``, the number of duels.
        kappa: The variance takes a duel's curvature for ``1 / kappa``.
        beta: ``beta_(r)``, what the papers' ``sigma`` is multiplied by on the scale of
            probabilities. ``None`` for ``(N_1 / 7 d)^2`` posterior standard deviations of the
            difference, within ``[1/4, 1]``: one where the first round has seven duels a dimension,
            as wide intervals eliminate nothing in a short horizon. A heuristic, tried on Branin
            and Hartmann's function.
        ci_scale: ``"probability"`` as in the paper, or ``"latent"``, which eliminates more with
            the same confidence.
        regularizer: The penalty of a round's predictor; see ``FinitePosterior``; choices only.
        recommendation: The active item of largest utility: ``"pooled"``, by one model of all
            answers, or ``"last_round"``, by the prediction of the last full round.
        epsilon: Finish once :meth:`certificate` is no more than this, or a single item is left.

    Attributes:
        sizes: The numbers of duels of all rounds.
        active: The items that are not eliminated.
        certificates: Of every completed round the bound ``min{1/2, 2 beta_(r) sigma}`` on
            ``P(x* beats x) - 1/2`` of all items ``x`` that it left, Kayal et al. (2025), eq. (31),
            with the largest ``sigma`` of such an item and one that was active in the round. It
            holds with the probability of the confidence interval.
    """

    horizon: int
    kappa: float = PRACTICAL_KAPPA
    beta: float | None = None
    ci_scale: Scale = "latent"
    recommendation: Recommendation = "pooled"
    epsilon: float | None = None

    _has_one_posterior: ClassVar[bool] = False
    _most_choices: ClassVar[int | None] = MOST_PAIRED
    _entries = UtilityStrategy._entries | {
        "rounds": Entry("_values", listed(HYPERPARAMETERS, most="_num_complete"))
    }

    def __post_init__(self) -> None:
        """Check the options, and begin the first round."""
        super().__post_init__()
        self.learner.regularizer = "rkhs"  # of the model of all answers
        check_word("recommendation", self.recommendation, Recommendation)
        check_word("ci_scale", self.ci_scale, Scale)
        self.kappa = checked_positive("kappa", self.kappa)
        self.sizes = round_sizes(self.horizon)
        self.horizon = sum(self.sizes)
        self.beta = None if self.beta is None else checked_nonnegative("beta", self.beta)
        self.epsilon = None if self.epsilon is None else checked_positive("epsilon", self.epsilon)
        interval = Interval(self.ci_scale, self.learner.likelihood)
        self.active: ActiveChoices | ActiveBox
        if self.space.choices is not None:
            self.active = ActiveChoices(self.learner, self.kappa, interval, self.regularizer)
        else:
            seed = derive_seed(self.seed, "witness", 0)
            self.active = ActiveBox(self.learner, self.kappa, interval, seed)
        self.certificates: list[float] = []
        self._values: list[dict[str, Any]] = []  # hyperparameters at the end of each round
        self.active.begin()

    @classmethod
    def paper(cls, **kwargs: Any) -> Self:
        """The setting of the paper's experiments; the arguments are those of the constructor.

        The predictor is that of eq. (7), which penalises the norm of ``h`` in the kernel's space;
        eq. (9), by which the paper computes it, and the authors' code have other penalties, see
        ``regularizer``. ``kappa = 1`` is over-confident: the sigmoid has ``kappa >= 4``.
        """
        setting: dict[str, Any] = {
            "hyperparameters": PAPER_MODEL,
            "kappa": 1.0,
            "beta": 1.0,
            "ci_scale": "probability",
            "recommendation": "last_round",
        }
        return cls(**setting | kwargs)

    @property
    def finished(self) -> bool:
        """Whether all rounds are completed, or the certificate is small enough."""
        if len(self.certificates) == len(self.sizes) or self.epsilon is None:
            return len(self.certificates) == len(self.sizes)
        return self.active.num_items == 1 or self.certificate() <= self.epsilon

    def certificate(self) -> float:
        """The least of ``certificates``, which holds for all active items; 1/2 at first."""
        return min(self.certificates, default=0.5)

    def recommend_index(self) -> int:
        if not isinstance(self.active, ActiveChoices):
            return super().recommend_index()
        mean = self.active.mean if self.recommendation == "last_round" else None
        if mean is None:
            mean = self.learner.mean()
        eliminated = torch.ones_like(mean, dtype=torch.bool)
        eliminated[self.active.rows] = False
        return self._best_row(masked(mean, eliminated))

    def _recommend_on_a_box(self) -> Tensor:
        assert isinstance(self.active, ActiveBox)
        model = self.active.predictor if self.recommendation == "last_round" else None
        seed = derive_seed(self.seed, "recommend", self.num_answers)
        return self.active.maximise_mean(model or self.learner.model(), seed, self.asked_items())

    def tell(self, query: Query, answer: Answer | None) -> None:
        """See the base class; the last answer of a round eliminates items."""
        super().tell(query, answer)
        self._close_if_complete()

    def plan_round(self) -> Tensor:
        r"""All pairs of the current round that nobody was asked yet, in their order.

        They are what :meth:`ask` returns one after the other, whatever the answers.

        Returns:
            ``k x 2 x d``-dim pairs.

        Raises:
            UnsupportedError: If no duel is left to be asked before others are answered.
        """
        self._check_open()
        planned, left = copy.deepcopy(self), self._end - self.round
        queries = [planned.ask(f"planned {number}") for number in range(left)]
        return torch.stack([query.items for query in queries])

    @property
    def _num_complete(self) -> int:
        """The number of rounds of which all duels are answered."""
        return sum(end <= len(self.history) for end in accumulate(self.sizes))

    @property
    def _end(self) -> int:
        """The number of duels until the end of the current round."""
        return sum(self.sizes[: len(self.certificates) + 1])

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self._check_open()
        return super()._choose(query_id, annotator)

    def _refit(self) -> None:
        """Hyperparameters are learnt between rounds alone, so that no answer moves a pair."""

    def _pair(self, annotator: str | None) -> Pair:
        items, rows = self.active.select(derive_seed(self.seed, "pair", self.round))
        if derive_uniform(self.seed, "orientation", self.round) < 0.5:
            items, rows = items.flip(0), None if rows is None else (rows[1], rows[0])
        self.active.append((items, rows))
        return items, rows

    def _check_open(self) -> None:
        """Raise unless there is a duel to be asked."""
        self._close_if_complete()
        answered = len(self.history)
        if self.finished:
            why = f"All {answered} duels are answered"
            if answered < self.horizon:
                single = self.active.num_items == 1
                why = "A single item is left" if single else "`epsilon` is reached"
                why += f" after {answered} of {self.horizon} duels"
            raise UnsupportedError(f"{why}: nothing is left to ask.")
        if self.round == self._end:
            raise UnsupportedError(
                f"Round {len(self.certificates) + 1} waits for the answers to the queries "
                f"{[query.id for query in self._open.values()]}, on which the next one depends."
            )

    def _close_if_complete(self) -> None:
        if not self.finished and len(self.history) == self._end:
            self.learner.refit()
            self._close()

    def _close(self) -> None:
        """Eliminate, and begin the next round, if there is one."""
        number, end = len(self.certificates), self._end
        size, before = self.sizes[number], self.sizes[number - 1] if number else 1
        duels = sorted(self.history, key=lambda answered: answered.query.id)
        told = [done for done in duels[end - size : end] if done.answer is not None]
        told = [done for done in told if not torch.equal(*done.query.items)]
        beta = self.beta
        if beta is None:
            width = min(1.0, max(0.25, (self.sizes[0] / (7 * self.space.dim)) ** 2))
            beta = self.active.interval.slope * width * self.learner.penalty**-0.5
        full = size > math.isqrt(before * self.horizon - 1)
        seed = derive_seed(self.seed, "elimination", number + 1)
        sigma = self.active.close(told, beta, full, seed)
        self._values.append(dict(self.learner.values))
        self.certificates.append(min(0.5, 2.0 * beta * sigma))
        if not self.finished:
            self.active.begin()

    def _restore(self, progress: dict[str, Any]) -> None:
        super()._restore(progress)
        rounds, self._values = self._values, []
        chosen = [answered.query for answered in self.history] + [*self._open.values()]
        duels = sorted(chosen, key=lambda query: query.id)
        for values in rounds:
            self.learner.values = values
            self._close()
        if not self.finished and max(self.round, len(self.history)) > self._end:
            raise ComparisonDataError(f"`rounds` are {len(rounds)}, but more are complete.")
        for query in duels[sum(self.sizes[: len(self.certificates)]) :]:
            self.active.append((query.items.to(self.space.bounds), query.indices))


def _largest_pair(values: Tensor, seed: int) -> tuple[int, int]:
    """The two different rows of the largest of ``n x n``-dim values, ties at random; or (0, 0)."""
    size = len(values)
    if size == 1:
        return 0, 0
    first, second = torch.triu_indices(size, size, 1, device=values.device)
    values = values[first, second]
    noise = torch.rand(len(values), generator=torch.Generator().manual_seed(seed))
    best = int(argmax_with_random_ties(values, noise.to(values)))
    return int(first[best]), int(second[best])
