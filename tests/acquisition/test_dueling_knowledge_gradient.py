"""The knowledge gradient of a duel: conditioning by brute force, limits, symmetry, units."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from botorch.models.model import Model
from scipy import special, stats
from torch import Tensor

from botorch_pref.acquisition import DiscreteKnowledgeGradient, DuelingKnowledgeGradient
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import PreferenceGP
from tests.acquisition.common import make_batched_model
from tests.acquisition.knowledge import (
    REFERENCE,
    Array,
    biased_model,
    joint,
    model,
    project,
    seen,
)
from tests.contracts.acquisition import PairAcquisitionContract
from tests.models.common import make_duels, make_kernel, rand

LINKS = {LogitLikelihood: special.expit, ProbitLikelihood: stats.norm.cdf}


def make(of: Model | None = None, **kwargs: object) -> DuelingKnowledgeGradient:
    return DuelingKnowledgeGradient(of or model(), **{"reference": REFERENCE, **kwargs})


class TestContract(PairAcquisitionContract):
    def make(self) -> DuelingKnowledgeGradient:
        return make(repeats=(1, 8))


class TestContractOfOneAnswer(PairAcquisitionContract):
    def make(self) -> DuelingKnowledgeGradient:
        return make(repeats=(1,), likelihood=LogitLikelihood(3.0))


def moments(pair: Tensor) -> tuple[Array, Array, float, float]:
    """Means, covariances with the difference, and the difference's mean and deviation."""
    mean, covariance = joint(model(), torch.cat([REFERENCE, pair]))
    cross = covariance[:, -2] - covariance[:, -1]
    return mean, cross, mean[-2] - mean[-1], float(np.sqrt(cross[-2] - cross[-1]))


@torch.no_grad()
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("scale", "number"), [(0.3, 1), (1.0, 1), (1.0, 5), (4.0, 2), (20.0, 1)])
def test_value_is_that_of_conditioning(link: type, scale: float, number: int) -> None:
    """Answers averaged over a fine grid of the difference, by SciPy's binomial law."""
    X = rand(5, 2, 2, seed=3)
    found = make(likelihood=link(scale), repeats=(number,))(X)
    z = np.linspace(-9, 9, 20001)
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    for pair, value in zip(X, found, strict=True):
        mean, cross, center, deviation = moments(pair)
        wins = LINKS[link](scale * (center + deviation * z))
        expected = -mean.max()
        for k in range(number + 1):
            likely = weight * stats.binom.pmf(k, number, wins)
            told = mean + cross / deviation * (likely @ z) / likely.sum()
            expected += likely.sum() * told.max()
        tolerance = 1e-8 if scale * deviation < 5 else 0.03 * deviation
        assert float(value) == pytest.approx(expected / number, abs=tolerance)


@torch.no_grad()
def test_value_is_that_of_simulated_answers() -> None:
    """Utilities are drawn jointly, three duels answered, and averaged by the number of wins."""
    pair, number, rng = rand(2, 2, seed=6), 3, np.random.default_rng(0)
    mean, covariance = joint(model(), torch.cat([REFERENCE, pair]))
    f = rng.multivariate_normal(mean, covariance, 400_000, method="eigh")
    wins = rng.binomial(number, special.expit(2.0 * (f[:, -2] - f[:, -1])))
    gain = -mean.max()
    for k in range(number + 1):
        told = f[wins == k]
        gain += len(told) / len(f) * told.mean(0).max()
    value = make(likelihood=LogitLikelihood(2.0), repeats=(number,))(pair.unsqueeze(0))
    assert float(value) * number == pytest.approx(gain, abs=0.006)
    assert gain > 0.1


@torch.no_grad()
def test_swapping_the_items_changes_nothing() -> None:
    X = rand(12, 2, 2, seed=2)
    torch.testing.assert_close(make()(X.flip(-2)), make()(X), atol=1e-12, rtol=0)


def test_an_item_against_itself() -> None:
    X = rand(3, 1, 2, seed=2).expand(3, 2, 2).clone().requires_grad_()
    values = make()(X)
    assert values.abs().max() < 1e-7
    (gradient,) = torch.autograd.grad(values.sum(), X)
    assert gradient.isfinite().all()
    apart = X.detach() + torch.tensor([[[1e-5, 0.0], [0.0, 0.0]]]).double()
    with torch.no_grad():
        assert make()(apart).max() < 1e-4


@torch.no_grad()
def test_links() -> None:
    """A blunt link tells nothing; a steep one no more than the difference itself."""
    X = rand(30, 2, 2, seed=3)
    links = [LogitLikelihood(scale) for scale in (1e-6, 0.3, 3.0, 1e3, 1e6)]
    gains = [make(likelihood=link, repeats=(1,))(X) for link in links]
    assert gains[0].max() < 1e-5
    for less, more in zip(gains[:-1], gains[1:-1], strict=True):
        assert (more >= less - 1e-3).all()
    torch.testing.assert_close(gains[-1], gains[-2], atol=1e-12, rtol=0)
    known = X[:, :1], X[:, 1:]
    bound = sum(DiscreteKnowledgeGradient(model(), REFERENCE, noise=0.0)(x) for x in known)
    assert (gains[-1] <= 2 * bound + 1e-9).all()


@torch.no_grad()
def test_several_answers_may_be_worth_more_each() -> None:
    """The first answer of a noisy judge changes nothing, so it is worth nothing."""
    X = rand(200, 2, 2, seed=3)
    link = LogitLikelihood(0.4)
    one, many = (make(likelihood=link, repeats=r)(X) for r in ((1,), (1, 2, 4, 8, 16)))
    assert (many >= one).all()
    assert (one.abs() < 1e-12).any()
    assert ((one.abs() < 1e-12) & (many > 1e-3)).any()


@torch.no_grad()
def test_unit_is_that_of_the_utility() -> None:
    items, duels = make_duels(8, 12, 2)
    kernel = make_kernel(2, outputscale=4.0 / 100)
    small = PreferenceGP(items, duels, covar_module=kernel, link_scale=10.0)
    X = rand(9, 2, 2, seed=4)
    torch.testing.assert_close(10 * make(small)(X), make()(X), atol=1e-9, rtol=1e-7)


@torch.no_grad()
def test_bias_takes_from_what_duels_tell() -> None:
    X, reference = seen(rand(30, 2, 2, seed=3), 1.0), seen(REFERENCE, 0.0)
    trusting, biased = (
        make(biased_model(bias), reference=reference, project=project)(X) for bias in (0.0, 5.0)
    )
    torch.testing.assert_close(trusting, make()(X[..., :-1]), atol=1e-9, rtol=1e-7)
    assert float(biased.max()) < 0.7 * float(trusting.max())


def test_pending_pairs_and_bad_models() -> None:
    rule = make()
    rule.set_pending_pairs(None)
    with pytest.raises(UnsupportedError, match="condition_on_pairs"):
        rule.set_pending_pairs(rand(1, 2, 2))
    with pytest.raises(UnsupportedError, match="`model`"):
        make(make_batched_model()[0])
