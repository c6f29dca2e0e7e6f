"""Values and differences at points, against dense formulas."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from botorch_pref.models.functionals import Functionals
from tests.inference.common import matern
from tests.models.common import numerical_gradient, rand
from tests.models.judged import JITTER, lengthscales, make_set

POINTS = rand(6, 2, seed=9)


def covariance(X: Tensor, Z: Tensor) -> Tensor:
    return matern(X, Z, lengthscale=lengthscales(X.shape[-1]), outputscale=1.0)


def found(appended: bool, num_items: int = 8) -> tuple[Functionals, Tensor]:
    model = make_set(num_items, 0, jitter_points=appended)
    return model.functionals(), model.items


@pytest.mark.parametrize("appended", [True, False])
def test_a_value_is_kriging_and_what_is_left(appended: bool) -> None:
    functionals, items = found(appended)
    a, s = functionals.value(POINTS, POINTS)
    K = covariance(items, items) + JITTER * torch.eye(8, dtype=torch.float64)
    cross = covariance(POINTS, items)
    weights = torch.linalg.solve(K, cross.T).T
    torch.testing.assert_close(a @ functionals.whitening.root.T, weights @ K, atol=1e-9, rtol=0)
    left = 1.0 + appended * JITTER - (weights * cross).sum(-1)
    torch.testing.assert_close(s.square(), left, atol=1e-9, rtol=0)
    torch.testing.assert_close((a.square().sum(-1) + s.square()), left + (weights * cross).sum(-1))


@pytest.mark.parametrize("appended", [True, False])
def test_the_norm_of_a_difference_is_its_prior_deviation(appended: bool) -> None:
    functionals, _ = found(appended)
    pairs = torch.stack([POINTS[:3], POINTS[3:]], dim=-2)
    g, beyond = functionals.difference(pairs, pairs)
    cross = covariance(POINTS[:3], POINTS[3:]).diagonal()
    expected = 2.0 + 2.0 * appended * JITTER - 2.0 * cross
    torch.testing.assert_close(g.square().sum(-1) + beyond.square(), expected, atol=1e-9, rtol=0)
    a, _ = functionals.value(pairs, pairs)
    assert torch.equal(g, a[:, 0] - a[:, 1])


def test_an_item_is_its_node() -> None:
    functionals, items = found(True)
    a, s = functionals.value(items, items)
    assert torch.equal(a, functionals.whitening.root)
    assert not s.any()
    pairs = torch.stack([items[:4], items[4:]], dim=-2)
    g, beyond = functionals.difference(pairs, pairs)
    assert torch.equal(g, a[:4] - a[4:])
    assert not beyond.any()
    # With a point, what is left is the point's.
    _, s = functionals.value(POINTS[:4], POINTS[:4])
    for arms in ((items[:4], POINTS[:4]), (POINTS[:4], items[:4])):
        mixed = torch.stack(arms, dim=-2)
        torch.testing.assert_close(functionals.difference(mixed, mixed)[1], s)


def test_without_jitter_at_points_an_item_is_no_node() -> None:
    functionals, items = found(False)
    a, s = functionals.value(items, items)
    assert float((a - functionals.whitening.root).abs().max()) > 1e-8
    torch.testing.assert_close(s, math.sqrt(JITTER) * torch.ones_like(s), atol=1e-5, rtol=0)


@pytest.mark.parametrize("appended", [True, False])
def test_an_item_against_itself(appended: bool) -> None:
    functionals, items = found(appended)
    for X in (items, POINTS):
        pairs = X.unsqueeze(-2).expand(-1, 2, -1)
        g, beyond = functionals.difference(pairs, pairs)
        assert not g.any()
        assert not beyond.any()


def test_digits_of_near_identical_points() -> None:
    """Without jitter, ``|f(x) - f(x')|`` is at most the distance times the slope."""
    functionals, _ = found(False)
    near = torch.stack([POINTS, POINTS + 1e-5], dim=-2)
    g, beyond = functionals.difference(near, near)
    prior = 5.0 / 3.0 * 1e-10 * lengthscales(2).pow(-2).sum()
    total = g.square().sum(-1) + beyond.square()
    torch.testing.assert_close(total, prior.expand(6), rtol=1e-2, atol=2e-12)


@pytest.mark.parametrize("appended", [True, False])
@pytest.mark.parametrize("what", ["value", "difference"])
def test_gradient(appended: bool, what: str) -> None:
    functionals, _ = found(appended)
    weight = rand(8, seed=4)

    def total(X: Tensor) -> Tensor:
        X = X if what == "value" else X.view(3, 2, 2)
        g, s = getattr(functionals, what)(X, X)
        return (g @ weight).sum() + (s * torch.arange(1.0, 1.0 + len(s))).sum()

    at = POINTS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(total(at), at)
    torch.testing.assert_close(gradient, numerical_gradient(total, at), atol=1e-6, rtol=1e-6)


def test_gradient_at_a_node_is_that_beside_it() -> None:
    functionals, items = found(True)

    def gradient(X: Tensor) -> Tensor:
        X = X.clone().requires_grad_()
        a, _ = functionals.value(X, X)
        return torch.autograd.grad((a @ rand(8, seed=4)).sum(), X)[0]

    at, beside = gradient(items), gradient(items + 1e-7)
    assert float(at.abs().amin()) > 0
    torch.testing.assert_close(at, beside, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("appended", [True, False])
def test_batches(appended: bool) -> None:
    functionals, items = found(appended)
    X = torch.cat([POINTS, items[:2]])
    a, s = functionals.value(X, X)
    shaped = functionals.value(X.view(2, 2, 2, 2), X.view(2, 2, 2, 2))
    torch.testing.assert_close(shaped[0], a.view(2, 2, 2, -1))
    torch.testing.assert_close(shaped[1], s.view(2, 2, 2))
    g, beyond = functionals.difference(X.view(2, 2, 2, 2), X.view(2, 2, 2, 2))
    assert (g.shape, beyond.shape) == ((2, 2, 8), (2, 2))
    alone = [functionals.difference(pair, pair) for pair in X.view(4, 2, 2)]
    torch.testing.assert_close(g.view(4, 8), torch.stack([one[0] for one in alone]))
    torch.testing.assert_close(beyond.view(4), torch.stack([one[1] for one in alone]))
    none = functionals.difference(X[:0].view(0, 2, 2), X[:0].view(0, 2, 2))
    assert (none[0].shape, none[1].shape) == ((0, 8), (0,))


@pytest.mark.parametrize("appended", [True, False])
def test_without_items(appended: bool) -> None:
    functionals, _ = found(appended, 0)
    a, s = functionals.value(POINTS, POINTS)
    assert a.shape == (6, 0)
    torch.testing.assert_close(s.square(), torch.full_like(s, 1.0 + appended * JITTER))
    assert functionals.scale == 1.0


def test_scale_is_the_largest_prior_deviation() -> None:
    functionals, _ = found(True)
    assert functionals.scale == pytest.approx(math.sqrt(1.0 + JITTER))
