"""The knowledge gradient of a value: conditioning by brute force, limits, units."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from botorch_pref.acquisition import DiscreteKnowledgeGradient
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.models import PreferenceGP
from tests.acquisition.common import make_batched_model
from tests.acquisition.knowledge import REFERENCE, biased_model, joint, model, project, seen
from tests.contracts.acquisition import ItemAcquisitionContract
from tests.models.common import make_duels, make_kernel, rand


def make(**kwargs: object) -> DiscreteKnowledgeGradient:
    options = {"model": model(), "reference": REFERENCE, "noise": 0.1, **kwargs}
    return DiscreteKnowledgeGradient(**options)


class TestContract(ItemAcquisitionContract):
    def make(self) -> DiscreteKnowledgeGradient:
        return make()


@torch.no_grad()
@pytest.mark.parametrize("number", [1, 4])
def test_value_is_that_of_conditioning(number: int) -> None:
    """All posterior means after each of many values, computed one by one."""
    X, noise = rand(5, 1, 2, seed=3), 0.5
    z = np.linspace(-8, 8, 4001)
    weight = stats.norm.pdf(z) * (z[1] - z[0])
    found = make(noise=noise, repeats=(number,))(X)
    for row, value in zip(X, found, strict=True):
        mean, covariance = joint(model(), torch.cat([REFERENCE, row]))
        spread = covariance[-1, -1] + noise / number
        observed = mean[-1] + np.sqrt(spread) * z  # the average of the values
        after = mean[:, None] + covariance[:, -1:] / spread * (observed - mean[-1])
        expected = (weight * (after.max(0) - mean.max())).sum() / number
        assert float(value) == pytest.approx(expected, rel=1e-5)


@torch.no_grad()
def test_noise() -> None:
    X = rand(20, 1, 2, seed=3)
    gains = [make(noise=noise, repeats=(1,))(X) for noise in (0.0, 1e-3, 1.0, 1e8)]
    for more, less in itertools.pairwise(gains):
        assert (more >= less).all()
    assert gains[-1].max() < 1e-3
    # Repeated answers pay only where they are noisy.
    assert torch.equal(make(noise=0.0)(X), gains[0])
    noisy = make(noise=50.0, repeats=(1,))(X)
    assert (make(noise=50.0)(X) >= noisy).all()
    assert (make(noise=50.0)(X) > 1.1 * noisy).any()


@torch.no_grad()
def test_unit_is_that_of_the_utility() -> None:
    items, duels = make_duels(8, 12, 2)
    small = PreferenceGP(
        items, duels, covar_module=make_kernel(2, outputscale=4.0 / 100), link_scale=10.0
    )
    X = rand(9, 1, 2, seed=4)
    tenth = make(model=small, noise=0.1 / 100)(X)
    torch.testing.assert_close(10 * tenth, make()(X), atol=1e-9, rtol=1e-7)


@torch.no_grad()
def test_of_a_biased_view_less_is_learnt() -> None:
    X = rand(20, 1, 2, seed=3)
    options = {"model": biased_model(), "reference": seen(REFERENCE, 0.0), "project": project}
    utility, judged = (make(**options)(seen(X, marker)) for marker in (0.0, 1.0))
    assert (judged <= utility + 1e-12).all()
    assert (judged < 0.95 * utility).any()
    plain = make(model=biased_model(), reference=seen(REFERENCE, 0.0))(seen(X, 0.0))
    torch.testing.assert_close(utility, plain)


@torch.no_grad()
def test_many_at_once() -> None:
    """More than one joint posterior holds, in the same order."""
    X = rand(300, 1, 2)
    torch.testing.assert_close(make()(X)[270:], make()(X[270:]))


def test_bad_arguments() -> None:
    with pytest.raises(ComparisonDataError, match="`reference`"):
        make(reference=REFERENCE[0])
    with pytest.raises(ComparisonDataError, match="`reference`"):
        make(reference=REFERENCE[:0])
    for noise in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ComparisonDataError, match="`noise`"):
            make(noise=noise)
    for repeats in ((), (0,), (1.5,)):
        with pytest.raises(ComparisonDataError, match="`repeats`"):
            make(repeats=repeats)
    with pytest.raises(UnsupportedError, match="`model`"):
        make(model=make_batched_model()[0])
