"""The expected maximum of lines: brute force, ties, gradients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from botorch_pref.acquisition.expected_gain import expected_gain
from tests.models.common import numerical_gradient


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
def test_equals_quadrature(size: int) -> None:
    a, b = 0.5 * randn(4, size), randn(4, size, seed=1)
    gains = expected_gain(a.view(2, 2, size), b.view(2, 2, size)).flatten()
    expected = [brute_force(*lines) for lines in zip(a, b, strict=True)]
    np.testing.assert_allclose(gains.numpy(), expected, rtol=0, atol=1e-9)


def test_two_lines_are_expected_improvement() -> None:
    gap, slope = torch.tensor([0.1, 1.0, 4.0, 30.0]).double(), 0.7
    a = torch.stack([torch.zeros(4).double(), -gap], dim=-1)
    b = torch.stack([torch.zeros(4).double(), torch.full((4,), slope, dtype=torch.double)], dim=-1)
    z = -gap.numpy() / slope
    expected = slope * (stats.norm.pdf(z) + z * stats.norm.cdf(z))
    np.testing.assert_allclose(expected_gain(a, b).numpy(), expected, rtol=1e-9, atol=1e-30)


def test_ties_parallels_and_copies() -> None:
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


def test_gradient() -> None:
    lines = torch.stack([0.3 * randn(3, 7), randn(3, 7, seed=1)]).requires_grad_()
    (gradient,) = torch.autograd.grad(expected_gain(*lines).sum(), lines)
    numerical = numerical_gradient(lambda ab: expected_gain(*ab).sum(), lines, 1e-5)
    torch.testing.assert_close(gradient, numerical, atol=1e-8, rtol=1e-7)
