r"""Knowledge gradients: what a measured value or a duel lets the largest posterior mean grow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.probability.utils import ndtr, phi
from botorch.utils.sampling import draw_sobol_normal_samples
from botorch.utils.transforms import t_batch_mode_transform
from torch import Tensor

from botorch_pref.acquisition.base import ItemAcquisitionFunction, PairAcquisitionFunction
from botorch_pref.acquisition.utils import difference_moments
from botorch_pref.data.blocks import Block
from botorch_pref.data.checks import checked_nonnegative
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import BernoulliLikelihood, link_of

_NO_VARIANCE = 1e-16  # of an item or a difference: below it, an answer has no effect
_NO_SHARE = 1e-10  # of the largest variance of a combination of items: likewise
_DRAWS, _SEQUENCES = 2048, 512  # of the items of a question; of several answers to it
_CELLS, _FEWEST = 1 << 20, 128  # of a table of draws and answers; pairs of draws
_CHUNK = 256  # rows of a joint posterior beside the reference
_PAIRS = 128  # of a table at once; a thousand at once take twice as long
_REACH, _STEP = 8.0, 0.25  # of the grid, in standard deviations of the difference
_SHARPEST = 12.0  # a link's scale in standard deviations, which the grid resolves

Project = Callable[[Tensor], Tensor]


class Moments(NamedTuple):
    """The joint posterior of ``q`` items that are asked, and of ``M + q`` candidates."""

    mean: Tensor  # of the candidates, the reference first, ``b x (M + q)``
    asked_mean: Tensor  # of the items asked, ``b x q``
    asked: Tensor  # covariance of the items asked, ``b x q x q``
    cross: Tensor  # covariance of candidates and items asked, ``b x (M + q) x q``


class KnowledgeGradient(AcquisitionFunction):
    r"""Expected growth of the largest posterior mean, per answer, at the best number of answers.

    ``max_n gain(n) / n``, with ``gain(n) = E[max_j E[f_j | n answers]] - max_j E[f_j]`` over a
    table of items ``j`` and those that are asked. One answer may have no value where it takes
    several to change which item is best: the KG(*) policy of Frazier and Powell, *Paradoxes in
    Learning and the Marginal Value of Information* (2010). The unit is that of the utility, for
    values and duels alike, so that the query with the larger gain per cost is the better one.
    """

    reference: Tensor
    repeats: tuple[int, ...] = (1, 2, 4, 8, 16)  # the numbers of answers that are tried

    def __init__(self, model: Model, reference: Tensor, *, project: Project | None = None) -> None:
        r"""Set the candidates for the best item.

        Args:
            model: A model of the utility with a Gaussian joint ``posterior`` and one output.
            reference: ``M x d``-dim items among which the best is sought, such as maximisers
                of draws from the posterior.
            project: Maps ``... x d``-dim items as they are asked to the same items as their
                utility counts, and these to themselves; see
                :class:`~botorch_pref.kernels.ComparisonBiasKernel`. By default they are the same.

        Raises:
            ComparisonDataError: If ``reference`` is no table.
            UnsupportedError: If the model is batched, or has several outputs.
        """
        super().__init__(model=model)
        if model.num_outputs != 1 or len(model.batch_shape):
            raise UnsupportedError("`model` must have one output and no batch shape.")
        if reference.dim() != 2 or not len(reference):
            raise ComparisonDataError(
                f"`reference` must be M x d with M at least 1, got {tuple(reference.shape)}."
            )
        self.conditioned = model  # on what is pending
        self.project = project
        reference = reference if project is None else project(reference)
        self.register_buffer("reference", reference.detach().clone())

    @abstractmethod
    def _gains(self, X: Tensor, moments: Moments) -> list[Tensor]:
        """The ``b``-dim gain of so many answers, one for each of ``repeats``."""

    def _per_answer(self, X: Tensor) -> Tensor:
        """The ``...``-dim gain per answer of ``... x q x d``-dim items."""
        repeats = torch.tensor(self.repeats).to(X)
        values = [X.new_zeros(0)]
        flat = X.reshape(-1, *X.shape[-2:])
        for part in flat.split(max(1, _CHUNK // (2 * X.shape[-2]))) if len(flat) else ():
            gains = torch.stack(self._gains(part, self._moments(part)), dim=-1)
            values.append((gains / repeats).amax(-1))
        return torch.cat(values).view(X.shape[:-2])

    def _moments(self, X: Tensor) -> Moments:
        """Moments of a batch from one joint posterior of all its items and the reference."""
        b, q, _ = X.shape
        asked = X.flatten(end_dim=1)
        own = asked[:0] if self.project is None else self.project(asked)
        parts = [asked, own, self.reference.to(asked)]
        joint = cast(GPyTorchPosterior, self.conditioned.posterior(torch.cat(parts)))
        sizes = [len(part) for part in parts]
        mean, own_mean, reference_mean = joint.mean.squeeze(-1).split(sizes)
        covariance, own_covariance, reference = joint.covariance_matrix[:, : b * q].split(sizes)
        if self.project is None:
            own_mean, own_covariance = mean, covariance
        reference = reference.view(-1, b, q).movedim(1, 0)
        return Moments(
            torch.cat([reference_mean.expand(b, -1), own_mean.view(b, q)], dim=-1),
            mean.view(b, q),
            _diagonal_blocks(covariance, b, q),
            torch.cat([reference, _diagonal_blocks(own_covariance, b, q)], dim=-2),
        )


class DiscreteKnowledgeGradient(KnowledgeGradient, ItemAcquisitionFunction):
    r"""Expected growth of the largest posterior mean by a value of ``x``.

    With ``n`` values of noise ``s^2``, posterior means move along one direction,

        ``mean_j + cov(f_j, f(x)) / sqrt(var f(x) + s^2 / n) Z``,

    so the gain over the reference and ``x`` itself is exact (Frazier, Powell and Dayanik 2009;
    with ``x`` free: Scott, Frazier and Powell 2011). The same unit as
    :class:`~botorch_pref.acquisition.DuelingKnowledgeGradient`, with which it is compared at equal
    cost.

    Example:
        >>> rule = DiscreteKnowledgeGradient(model, reference, noise=1e-4)
        >>> item, gain = optimize_acqf(rule, bounds, q=1, num_restarts=4, raw_samples=128)
    """

    def __init__(self, model: Model, reference: Tensor, *, noise: float = 0.0) -> None:
        r"""Set the candidates for the best item, and the noise.

        Args:
            model: As of :class:`~botorch_pref.acquisition.knowledge_gradient.KnowledgeGradient`.
            reference: ``M x d``-dim items.
            noise: ``s^2``, the variance of the noise of one value, in squared units of the
                utility; at least 0.

        Raises:
            ComparisonDataError: If ``reference`` is no table or ``noise`` is out of range.
            UnsupportedError: If the model is batched, or has several outputs.
        """
        super().__init__(model, reference)
        self.noise = checked_nonnegative("noise", noise)

    @t_batch_mode_transform(expected_q=1)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim gains per value of ``b x 1 x d``-dim items, in units of the utility."""
        return self._per_answer(X)

    def _gains(self, X: Tensor, moments: Moments) -> list[Tensor]:
        variance, cross = moments.asked[..., 0], moments.cross[..., 0]
        gains = []
        for number in self.repeats:
            observed = (variance + self.noise / number).clamp_min(_NO_VARIANCE)
            gains.append(expected_gain(moments.mean, cross / observed.sqrt()))
        return gains


def expected_gain(intercepts: Tensor, slopes: Tensor) -> Tensor:
    r"""``E[max_j (a_j + b_j Z)] - max_j a_j`` for a standard normal ``Z``, exactly.

    The upper envelope of Frazier, Powell and Dayanik, *The Knowledge-Gradient Policy for
    Correlated Normal Beliefs* (2009), without their sequential search: line ``j`` is the largest
    between the last crossing with a flatter line and the first one with a steeper line. The
    gradient is exact: by the envelope theorem the ends of that interval need none.

    Args:
        intercepts: ``... x M``-dim ``a``.
        slopes: ``... x M``-dim ``b``.

    Returns:
        ``...``-dim gains, not negative.
    """
    a, b = relative_to_best(intercepts, slopes)
    with torch.no_grad():
        lower, upper = _intervals(a, b)
        # In an interval beyond 0 the probabilities of the other tail keep their digits.
        flip = lower > 0
        near, far = torch.where(flip, -upper, lower), torch.where(flip, -lower, upper)
        probability = (ndtr(far) - ndtr(near)).clamp_min(0.0)
        density = torch.where(upper > lower, phi(lower) - phi(upper), 0.0)
    return (probability * a + density * b).sum(-1).clamp_min(0.0)


def _intervals(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The interval in which each line is above all others; ``(0, 0)`` if there is none."""
    fall = a.unsqueeze(-2) - a.unsqueeze(-1)  # a_k - a_j at [j, k]
    rise = b.unsqueeze(-1) - b.unsqueeze(-2)  # b_j - b_k
    crossing = fall / torch.where(rise == 0, 1.0, rise)
    lower = torch.where(rise > 0, crossing, -torch.inf).amax(-1)
    upper = torch.where(rise < 0, crossing, torch.inf).amin(-1)
    # Of parallel lines the highest one counts, of equal ones the first.
    index = torch.arange(a.shape[-1], device=a.device)
    earlier = index < index.unsqueeze(-1)  # k before j
    below = (rise == 0) & ((fall > 0) | ((fall == 0) & earlier))
    empty = below.any(-1) | (upper <= lower)
    return lower.masked_fill(empty, 0.0), upper.masked_fill(empty, 0.0)


class DuelingKnowledgeGradient(KnowledgeGradient, PairAcquisitionFunction):
    r"""Expected growth of the largest posterior mean by the answer of a duel.

    An answer depends on the difference ``d = f(x) - f(x')`` alone, so the posterior means after
    ``k`` wins in ``n`` duels are

        ``mean_j + cov(f_j, d) / sd(d) E[z | k]``,  ``d = mean(d) + sd(d) z``,

    with ``P(k)`` and ``E[z | k]`` from one-dimensional averages over ``z``. The gain over the
    reference and both items, per duel at the best ``n``.

    Swapping both items changes nothing, and an item against itself has no value. The value is
    continuous with kinks, and 0 where no answer would change which item is best.

    Example:
        >>> rule = DuelingKnowledgeGradient(model, reference)
        >>> pair, gain = optimize_acqf(rule, bounds, q=2, num_restarts=4, raw_samples=128)
    """

    def __init__(self, model: Model, reference: Tensor, *, project: Project | None = None) -> None:
        r"""Arguments are those of ``KnowledgeGradient``, with a model whose link is known.

        Raises:
            ComparisonDataError: If ``reference`` is no table.
            UnsupportedError: If the model is batched, has several outputs, or its link is unknown.
        """
        super().__init__(model, reference, project=project)
        self.likelihood = link_of(model)

    def set_pending_pairs(self, pairs: Tensor | None) -> None:
        """Condition the model on open pairs, with the answers that it expects."""

        def expected(pairs: Tensor) -> Tensor:
            mean, _ = difference_moments(self.model, pairs)
            return 0.5 * (1.0 + mean.detach().sign())

        self.conditioned = self.model_after(pairs, expected)

    @t_batch_mode_transform(expected_q=2)  # type: ignore[arg-type]
    def forward(self, X: Tensor) -> Tensor:
        """The ``b``-dim gains per duel of ``b x 2 x d``-dim pairs, in units of the utility."""
        return self._per_answer(X)

    def _gains(self, X: Tensor, moments: Moments) -> list[Tensor]:
        own = moments.asked
        return _gains_of_duels(
            moments.mean,
            moments.cross[..., 0] - moments.cross[..., 1],
            moments.asked_mean[..., 0] - moments.asked_mean[..., 1],
            own[..., 0, 0] + own[..., 1, 1] - 2 * own[..., 0, 1],
            self.likelihood,
            self.repeats,
        )


class SeenTable(NamedTuple):
    """The posterior of ``n`` items, and of the same as someone who answers sees them."""

    mean: Tensor  # shape: n
    covariance: Tensor  # shape: n x n
    seen_mean: Tensor  # shape: n
    seen_covariance: Tensor  # shape: n x n
    cross: Tensor  # of items as seen, in rows, and as they are; shape: n x n

    @classmethod
    def of_one(cls, mean: Tensor, covariance: Tensor) -> Self:
        """Where items are seen as they are."""
        return cls(mean, covariance, mean, covariance, covariance)

    def times(self, factor: float) -> Self:
        """The same, with what is seen in other units."""
        return self._replace(
            seen_mean=factor * self.seen_mean,
            seen_covariance=factor**2 * self.seen_covariance,
            cross=factor * self.cross,
        )

    @classmethod
    def of_both(cls, mean: Tensor, covariance: Tensor) -> Self:
        """From the ``2 n``-dim posterior of the items as they are, and as they are seen."""
        size = len(mean) // 2
        (own, _), (cross, seen) = (part.split(size, -1) for part in covariance.split(size, -2))
        return cls(mean[:size], own, mean[size:], seen, cross)


def gains_of_pairs(
    table: SeenTable, pairs: Tensor, likelihood: BernoulliLikelihood, repeats: int
) -> Tensor:
    r"""Expected growth of the largest posterior mean of a table by answers to one pair each.

    What :class:`DuelingKnowledgeGradient` computes, for all pairs of a table at once.

    Args:
        table: The posterior of the items.
        pairs: ``P x 2``-dim rows of items.
        likelihood: The link of answers.
        repeats: The number of answers to the same pair.

    Returns:
        ``P``-dim gains, in units of the utility.
    """
    parts = pairs.split(_PAIRS)
    return torch.cat([_gains_of_some(table, part, likelihood, repeats) for part in parts])


def _gains_of_some(
    table: SeenTable, pairs: Tensor, likelihood: BernoulliLikelihood, repeats: int
) -> Tensor:
    first, second = pairs.unbind(-1)
    cross = table.cross[first] - table.cross[second]  # shape: P x n
    seen = table.seen_covariance
    ends = seen[first.unsqueeze(-1), pairs] - seen[second.unsqueeze(-1), pairs]
    variance = ends[:, 0] - ends[:, 1]
    difference = table.seen_mean[first] - table.seen_mean[second]
    return _gains_of_duels(table.mean, cross, difference, variance, likelihood, (repeats,))[0]


@torch.no_grad()
def gain_of_question(
    table: SeenTable,
    rows: Sequence[int],
    answers: Sequence[Block],
    repeats: Sequence[int] = KnowledgeGradient.repeats,
) -> list[float]:
    r"""Expected growth of the largest posterior mean of a table by answers to one question.

    For any kind of question: an answer ``a`` of the items asked, ``f_Q = mean + R z`` with a
    standard normal ``z``, moves the posterior means to

        ``mean_j + cov(f_j, f_Q) R^-T E[z | a]``,

    where draws of ``z`` are weighted by the likelihood of ``a``. For two items and one answer it is
    what ``gains_of_pairs`` computes, but for the error of 2,048 draws, always the same.

    Args:
        table: The posterior of the items.
        rows: Those of the ``k`` items that are asked about.
        answers: Blocks with all ``A`` answers that there are, a row each, of items ``0`` to
            ``k - 1``; an answer's probability is the product of its rows'.
        repeats: The numbers of answers to the same question that are tried.

    Returns:
        For each of these the gain of so many answers together, in units of the utility; not
        negative.
    """
    asked = table.seen_covariance[rows][:, rows]
    variance, root = torch.linalg.eigh(0.5 * (asked + asked.mT))
    is_fixed = variance <= (_NO_SHARE * variance[-1]).clamp_min(_NO_VARIANCE)
    deviation = variance.masked_fill(is_fixed, torch.inf).sqrt()
    slopes = table.cross[rows].mT @ (root / deviation)  # shape: n x k
    best = table.mean.argmax()  # see `relative_to_best`
    a, slopes = table.mean - table.mean[best], slopes - slopes[best]
    # Of a ranking of seven there are 5,040 answers.
    half = max(_FEWEST, min(_DRAWS, _CELLS // answers[0].weight.shape[-1]) // 2)
    z = draw_sobol_normal_samples(len(rows), half, dtype=asked.dtype, seed=0).to(asked)
    z = torch.stack([z, -z], dim=1).flatten(end_dim=1)  # each beside its opposite
    latent = table.seen_mean[rows] + (deviation.masked_fill(is_fixed, 0.0) * z) @ root.mT
    part = max(1, _CELLS // (len(rows) * answers[0].weight.shape[-1]))
    log = torch.cat([_log_prob(answers, some) for some in latent.split(part)])  # shape: S x A
    gains = []
    for number in repeats:
        if number == 1:
            tilt = log.mT.softmax(-1) @ z  # shape: A x k
            gains.append(float(log.exp().mean(0) @ (a + tilt @ slopes.mT).amax(-1)))
            continue
        # So many answers to some of the draws, counted.
        some, generator = log[:_SEQUENCES].exp(), torch.Generator().manual_seed(0)
        drawn = some.cpu().multinomial(number, True, generator=generator).to(log.device)
        count = torch.zeros_like(some).scatter_add(1, drawn, some.new_ones(()).expand_as(drawn))
        tilt = (count @ log.mT).softmax(-1) @ z
        largest = (a + tilt @ slopes.mT).amax(-1, keepdim=True)
        # The mean tilt is 0, so what is linear in it is only an error of the sample.
        design = torch.cat([torch.ones_like(largest), tilt], dim=-1)
        found = torch.linalg.lstsq(design.cpu(), largest.cpu()).solution[0]
        gains.append(max(float(found), 0.0))
    return gains


def _log_prob(answers: Sequence[Block], utilities: Tensor) -> Tensor:
    """The ``S x A``-dim log probabilities of ``A`` answers, of ``S x k``-dim utilities."""
    total = utilities.new_zeros(())
    for block in answers:
        latent = utilities[:, block.items] @ utilities.new_tensor(block.design).mT
        latent = latent.squeeze(-1) if block.latent_dim == 1 else latent
        total = total + block.likelihood.log_prob(latent, block.answer, block.weight)
    return total


def _gains_of_duels(
    candidates: Tensor,
    cross: Tensor,
    mean: Tensor,
    variance: Tensor,
    likelihood: BernoulliLikelihood,
    repeats: tuple[int, ...],
) -> list[Tensor]:
    """The ``b``-dim gains of so many duels of each pair, one for each of ``repeats``.

    Args:
        candidates: ``b x M``-dim means of the candidates, or ``M``-dim ones.
        cross: ``b x M``-dim covariance of the candidates with the difference of the pair.
        mean: ``b``-dim mean of the difference.
        variance: ``b``-dim variance of the difference.
        likelihood: The link of answers.
        repeats: The numbers of answers.
    """
    deviation = variance.clamp_min(_NO_VARIANCE).sqrt()
    slopes = cross / deviation.unsqueeze(-1)
    z = torch.arange(-_REACH, _REACH + _STEP, _STEP, dtype=mean.dtype, device=mean.device)
    # Of a link that is a step on the grid, the gain is that of the steepest smooth one.
    steepness = likelihood.scale * deviation
    factor = (_SHARPEST / steepness.clamp_min(_SHARPEST)).detach().unsqueeze(-1)
    difference = factor * (mean.unsqueeze(-1) + deviation.unsqueeze(-1) * z)
    # Log probabilities that either item wins at the nodes, b x Q x 1.
    won, lost = (likelihood.log_cdf(d.unsqueeze(-1)) for d in (difference, -difference))
    weights = (-0.5 * z.square()).softmax(-1).unsqueeze(-1)  # shape: Q x 1
    gains = []
    for number in repeats:
        likely = weights * _likelihoods(won, lost, number)  # shape: b x Q x (n + 1)
        tilt = (z.unsqueeze(-1) * likely).sum(-2)
        gains.append(_gain(candidates, slopes, likely.sum(-2), tilt))
    return gains


def _likelihoods(won: Tensor, lost: Tensor, number: int) -> Tensor:
    """``b x Q x (n + 1)``-dim probabilities of ``k`` wins in ``n`` duels at the nodes."""
    wins = torch.arange(number + 1, dtype=won.dtype, device=won.device)
    ways = torch.lgamma(wins.new_tensor(number + 1.0)) - torch.lgamma(wins + 1)
    ways = ways - torch.lgamma(number - wins + 1)
    return (ways + wins * won + (number - wins) * lost).exp()


def _gain(mean: Tensor, slopes: Tensor, probability: Tensor, tilt: Tensor) -> Tensor:
    """``sum_k P(k) max_j (mean_j + slope_j E[z | k]) - max_j (mean_j + slope_j E[z])``."""
    now = mean + slopes * tilt.sum(-1, keepdim=True)
    a, c = relative_to_best(now, slopes)
    tilt = tilt - probability * tilt.sum(-1, keepdim=True)
    # Candidates come last: a maximum over another dimension takes six times as long.
    reached = probability.unsqueeze(-1) * a.unsqueeze(-2)  # shape: b x (n + 1) x (M + 2)
    return (reached + tilt.unsqueeze(-1) * c.unsqueeze(-2)).amax(-1).sum(-1)


def relative_to_best(intercepts: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    r"""Lines minus the line with the largest intercept: no gain is lost, and no digits."""
    best = intercepts.argmax(dim=-1, keepdim=True)
    return intercepts - intercepts.gather(-1, best), slopes - slopes.gather(-1, best)


def _diagonal_blocks(covariance: Tensor, b: int, q: int) -> Tensor:
    """The ``b x q x q`` blocks on the diagonal of a ``bq x bq`` matrix."""
    return covariance.view(b, q, b, q).diagonal(dim1=0, dim2=2).movedim(-1, 0)
