"""The knowledge gradient of a value: conditioning by brute force, limits, units."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from botorch_pref.acquisition import DiscreteKnowledgeGradient
from botorch_pref.acquisition.knowledge_gradient import expected_gain
from tests.acquisition.common import REFERENCE, joint, make_model
from tests.contracts.acquisition import ItemAcquisitionContract
from tests.models.common import numerical_gradient, rand


def make(repeats: tuple[int, ...] | None = None, **kwargs: object) -> DiscreteKnowledgeGradient:
    options = {"model": make_model(), "reference": REFERENCE, "noise": 0.1, **kwargs}
    rule = DiscreteKnowledgeGradient(**options)
    rule.repeats = repeats or rule.repeats
    return rule


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
        mean, covariance = joint(make_model(), torch.cat([REFERENCE, row]))
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
def test_many_at_once() -> None:
    """More than one joint posterior holds, in the same order."""
    X = rand(300, 1, 2)
    torch.testing.assert_close(make()(X)[270:], make()(X[270:]))


def randn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _top(lines: list[tuple[float, float]], z: float) -> float:
    return max(top + slope * z for top, slope in lines)


def brute_force(a: Tensor, b: Tensor) -> float:
    """Piecewise between all crossings, each piece by quadrature."""
    lines = list(zip(a.tolist(), b.tolist(), strict=True))
    ends = {-12.0, 12.0}
    for i, (a1, b1) in enumerate(lines):
        ends |= {(a1 - a2) / (b2 - b1) for a2, b2 in lines[:i] if b1 != b2}
    knots = sorted(end for end in ends if -12 <= end <= 12)
    total = 0.0
    for low, high in itertools.pairwise(knots):
        total += integrate.quad(lambda z: _top(lines, z) * stats.norm.pdf(z), low, high)[0]
    return total - max(top for top, _ in lines)


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_gain_of_lines_equals_quadrature(size: int) -> None:
    a, b = 0.5 * randn(4, size), randn(4, size, seed=1)
    gains = expected_gain(a.view(2, 2, size), b.view(2, 2, size)).flatten()
    expected = [brute_force(*lines) for lines in zip(a, b, strict=True)]
    np.testing.assert_allclose(gains.numpy(), expected, rtol=0, atol=1e-9)


def test_gain_of_ties_parallels_and_copies() -> None:
    a, b = randn(6), randn(6, seed=1)
    gain = expected_gain(a, b)
    lower = torch.cat([a, a - 0.1]), torch.cat([b, b])
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(expected_gain(*(line[order] for line in lower)), gain)
    torch.testing.assert_close(expected_gain(a.repeat(3), b.repeat(3)), gain)
    near = a.repeat(2) + 1e-15 * randn(12, seed=2), b.repeat(2) + 1e-15 * randn(12, seed=3)
    torch.testing.assert_close(expected_gain(*near), gain)
    assert expected_gain(a, torch.zeros(6).double()) == 0
    assert expected_gain(a[:1], b[:1]) == 0
    shifted = expected_gain(a + 1e3, b + 5)  # what all lines share is no gain
    torch.testing.assert_close(shifted, gain, atol=1e-11, rtol=0)
    torch.testing.assert_close(expected_gain(3 * a, -3 * b), 3 * gain)


def test_gradient_of_the_gain_of_lines() -> None:
    lines = torch.stack([0.3 * randn(3, 7), randn(3, 7, seed=1)]).requires_grad_()
    (gradient,) = torch.autograd.grad(expected_gain(*lines).sum(), lines)
    numerical = numerical_gradient(lambda ab: expected_gain(*ab).sum(), lines, 1e-5)
    torch.testing.assert_close(gradient, numerical, atol=1e-8, rtol=1e-7)
