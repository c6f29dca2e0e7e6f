"""The knowledge gradient of a duel: conditioning by brute force, limits, symmetry, units."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from botorch.models.model import Model
from scipy import special, stats
from torch import Tensor

from botorch_pref.acquisition import DuelingKnowledgeGradient
from botorch_pref.acquisition.knowledge_gradient import SeenTable, gains_of_pairs
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.kernels import ComparisonBiasKernel
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.models import PreferenceGP
from tests.acquisition.common import (
    REFERENCE,
    Array,
    biased_model,
    joint,
    make_batched_model,
    make_botorch_model,
    make_model,
    project,
    seen,
)
from tests.contracts.acquisition import PairAcquisitionContract
from tests.models.common import make_duels, make_kernel, rand

LINKS = {LogitLikelihood: special.expit, ProbitLikelihood: stats.norm.cdf}
NODES = 0.25 * torch.arange(-32, 33).double()
Z = np.linspace(-9, 9, 20001)
# At kinks a line search fails; see MaxMinLCB.
FEW = {
    "num_restarts": 1,
    "raw_samples": 32,
    "options": {"maxiter": 10},
    "retry_on_optimization_warning": False,
}


def make(
    of: Model | None = None,
    repeats: tuple[int, ...] | None = None,
    likelihood: BernoulliLikelihood | None = None,
    **kwargs: object,
) -> DuelingKnowledgeGradient:
    rule = DuelingKnowledgeGradient(of or make_model(), **{"reference": REFERENCE, **kwargs})
    rule.repeats, rule.likelihood = repeats or rule.repeats, likelihood or rule.likelihood
    return rule


class TestContract(PairAcquisitionContract):
    options = FEW

    def make(self) -> DuelingKnowledgeGradient:
        return make(repeats=(1, 8))


def moments(items: Tensor) -> tuple[Array, Array, float, float]:
    """Means and covariances with the last two items' difference; its mean and deviation."""
    mean, covariance = joint(make_model(), items)
    cross = covariance[:, -2] - covariance[:, -1]
    return mean, cross, mean[-2] - mean[-1], float(np.sqrt(cross[-2] - cross[-1]))


@torch.no_grad()
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("scale", "number"), [(0.3, 1), (1.0, 5), (20.0, 1)])
def test_value_is_that_of_conditioning(link: type, scale: float, number: int) -> None:
    """Answers averaged over a fine grid of the difference, by the binomial law."""
    X = rand(4, 2, 2, seed=3)
    rule = make(likelihood=link(scale), repeats=(number,))
    found = rule(X)
    torch.testing.assert_close(rule(X.flip(-2)), found, atol=1e-12, rtol=0)
    for pair, value in zip(X, found, strict=True):
        mean, cross, center, deviation = moments(torch.cat([REFERENCE, pair]))
        wins = LINKS[link](scale * (center + deviation * Z))
        weight = stats.norm.pdf(Z) * (Z[1] - Z[0])
        expected = -(mean + cross / deviation * (weight @ Z)).max()
        for k in range(number + 1):
            likely = weight * special.comb(number, k) * wins**k * (1 - wins) ** (number - k)
            expected += (likely.sum() * mean + cross / deviation * (likely @ Z)).max()
        tolerance = 1e-7 if scale * deviation < 5 else 0.04 * deviation
        assert float(value) == pytest.approx(expected / number, abs=tolerance)


@torch.no_grad()
def test_links() -> None:
    """A blunt link tells nothing; a steep one no more than the difference itself."""
    X = rand(200, 2, 2, seed=3)
    links = [LogitLikelihood(scale) for scale in (1e-6, 0.4, 3.0, 1e3, 1e6)]
    gains = [make(likelihood=link, repeats=(1,))(X) for link in links]
    assert gains[0].max() < 1e-5
    for less, more in itertools.pairwise(gains[:-1]):
        assert (more >= less - 1e-3)[:30].all()  # to what the grid resolves
    torch.testing.assert_close(gains[-1], gains[-2], atol=1e-12, rtol=0)
    # The first answer of a noisy judge may change nothing, where several do.
    one, many = gains[1], make(likelihood=links[1])(X)
    assert (many >= one).all()
    assert ((one.abs() < 1e-12) & (many > 1e-3)).any()
    itself = X[:3, :1].expand(3, 2, 2)
    assert make()(itself).abs().max() < 1e-7
    assert make()(itself + torch.tensor([[1e-5, 0.0], [0.0, 0.0]]).double()).max() < 1e-4


@torch.no_grad()
def test_bias_takes_from_what_duels_tell() -> None:
    X, reference = seen(rand(30, 2, 2, seed=3), 1.0), seen(REFERENCE, 0.0)
    trusting, biased = (
        make(biased_model(bias), reference=reference, project=project)(X) for bias in (0.0, 5.0)
    )
    torch.testing.assert_close(trusting, make()(X[..., :-1]), atol=1e-9, rtol=1e-7)
    assert float(biased.max()) < 0.7 * float(trusting.max())


@torch.no_grad()
def test_pending_pairs() -> None:
    """They count as answered as expected."""
    rule, X, pending = make(), rand(9, 2, 2), rand(2, 2, 2, seed=4)
    before = rule(X)
    rule.set_pending_pairs(pending)
    answers = (make_model().pair_posterior(pending).mean.flatten() > 0).double()
    torch.testing.assert_close(rule(X), make(make_model().condition_on_pairs(pending, answers))(X))
    rule.set_pending_pairs(pending[:, :1].expand(2, 2, 2))  # told of nothing
    assert torch.equal(rule(X), before)
    rule.set_pending_pairs(None)
    assert torch.equal(rule(X), before)
    rule = make(make_botorch_model())
    with pytest.raises(UnsupportedError, match="condition_on_pairs"):
        rule.set_pending_pairs(pending)


@torch.no_grad()
def test_pending_pairs_are_answered_by_whom_they_are_put_to() -> None:
    """Of a person's view, who answers otherwise than the utility of all would."""
    items, rows = make_duels(8, 12, 2)
    both = torch.cat([seen(items, 1.0), seen(items, 2.0)])
    rows = torch.cat([rows, rows, rows[:8].flip(-1) + 8])  # the second is of another opinion
    kernel = ComparisonBiasKernel(make_kernel(2), bias=3.0, number=2)
    model, X = PreferenceGP(both, rows, covar_module=kernel), seen(rand(9, 2, 2), 2.0)
    pairs = rand(60, 2, 2, seed=4)
    shared, own = (model.pair_posterior(seen(pairs, z)).mean.flatten() > 0 for z in (0.0, 2.0))
    pending = seen(pairs[shared != own][:2], 2.0)
    assert len(pending) == 2
    answers = own[shared != own][:2].double()
    rule = make(model, reference=seen(REFERENCE, 0.0), project=project)
    rule.set_pending_pairs(pending)
    by_hand, turned = (
        make(
            model.condition_on_pairs(pending, told),
            reference=seen(REFERENCE, 0.0),
            project=project,
        )(X)
        for told in (answers, 1.0 - answers)
    )
    torch.testing.assert_close(rule(X), by_hand)
    assert (by_hand - turned).abs().max() > 1e-4


@torch.no_grad()
def test_models() -> None:
    """Any with a joint posterior; the same posterior has the same value."""
    X = rand(9, 2, 2)
    torch.testing.assert_close(make(make_botorch_model())(X), make()(X), atol=1e-5, rtol=0)
    with pytest.raises(UnsupportedError, match="`model`"):
        make(make_batched_model()[0])


@pytest.mark.parametrize("kind", LINKS)
@pytest.mark.parametrize("seen", [False, True])
def test_gains_of_pairs_of_a_table(kind: type[BernoulliLikelihood], seen: bool) -> None:
    """By quadrature over the difference as it is seen, on a fine grid that shares no code."""
    generator = torch.Generator().manual_seed(3)
    root = torch.randn(14, 18, generator=generator, dtype=torch.double)
    mean = torch.randn(14, generator=generator, dtype=torch.double)
    covariance = root @ root.mT / 5
    table = SeenTable.of_both(mean, covariance)
    if not seen:
        mean, covariance = mean[:7], covariance[:7, :7]
        table = SeenTable.of_one(mean, covariance)
    pairs = torch.tensor([[0, 1], [4, 2], [6, 5], [3, 3]])
    weight = stats.norm.pdf(Z) * (Z[1] - Z[0])
    everything, c = mean.numpy(), covariance.numpy()
    m, shift = everything[:7], 7 if seen else 0
    for number in (1, 3):
        found = gains_of_pairs(table, pairs.repeat(50, 1), kind(0.7), number)[-4:]  # in parts
        for (i, j), gain in zip((pairs + shift).tolist(), found.tolist(), strict=True):
            slope = c[i] - c[j]
            deviation = math.sqrt(max(slope[i] - slope[j], 0.0))
            slope = slope[:7]
            total = -m.max()
            for wins in range(number + 1):
                difference = everything[i] - everything[j]
                chance = LINKS[kind](0.7 * (difference + deviation * Z))
                likely = math.comb(number, wins) * chance**wins * (1 - chance) ** (number - wins)
                moved = slope / deviation * (likely * Z @ weight) if deviation else 0.0
                total += (m * (likely @ weight) + moved).max()
            assert gain == pytest.approx(total, abs=1e-6)
