"""The set behind a model: options, when it is solved again, and coefficients at points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihood_ratio.slack import ConstantSlack, SqrtSlack
from botorch_pref.models import LikelihoodRatioModel
from tests.inference.common import matern
from tests.models.common import make_kernel, rand
from tests.models.confidence_sets import JITTER, lengthscales, make_set, unit_kernel

POINTS = rand(6, 2, seed=9)


def scaled(outputscale: float) -> ScaleKernel:
    kernel = ScaleKernel(unit_kernel(2)).double()
    kernel.outputscale = torch.tensor(
        outputscale, dtype=torch.float64
    )  # a float passes through float32
    return kernel


def test_the_slack_depends_on_the_bound_on_values() -> None:
    slack = SqrtSlack(0.5, 4.0, times_bound=True)
    found = make_set(slack=slack, covar_module=scaled(4.0), norm_bound=1.5)
    assert found.slack == pytest.approx(0.5 * 4.0 * 3.0)


def test_it_is_solved_once() -> None:
    solve = LikelihoodRatioModel._solve
    with patch.object(LikelihoodRatioModel, "_solve", autospec=True, side_effect=solve) as counted:
        model = make_set()
        assert counted.call_count == 0
        for _ in range(2):
            model.lower(POINTS), model.upper(POINTS), model.mle(POINTS), model.slack
            model.advantage(POINTS[:4].view(2, 2, 2))
        assert counted.call_count == 1


CHANGES: dict[str, Callable[[LikelihoodRatioModel], Any]] = {
    "setter": lambda model: setattr(model.covar_module, "lengthscale", 0.2),
    "in place": lambda model: model.covar_module.raw_lengthscale.data.sub_(1.0),
    "by name": lambda model: model.covar_module.initialize(lengthscale=0.2),
    "kernel": lambda model: setattr(model, "covar_module", unit_kernel(2, 0.2)),
    "norm bound": lambda model: setattr(model, "norm_bound", 1.5),
    "slack": lambda model: setattr(model, "slack_rule", ConstantSlack(0.1)),
    "jitter": lambda model: setattr(model, "jitter", 0.1),
    "box": lambda model: setattr(model, "box", 0.3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(change: Any) -> None:
    model, fresh = make_set(), make_set()
    before = model.upper(POINTS), model.mle(POINTS)
    change(model)
    change(fresh)
    assert torch.equal(model.upper(POINTS), fresh.upper(POINTS))
    assert torch.equal(model.mle(POINTS), fresh.mle(POINTS))
    assert float((model.upper(POINTS) - before[0]).abs().max()) > 1e-3


@pytest.mark.parametrize("factor", [0.1, 7.0])
def test_the_scale_of_the_kernel_is_that_of_the_norm(factor: float) -> None:
    """Kernel, squared norm and jitter have one unit."""
    base = make_set(covar_module=scaled(1.0))
    other = make_set(
        covar_module=scaled(factor**2), norm_bound=3.0 / factor, jitter=1e-6 * factor**2
    )
    pairs = POINTS[:4].view(2, 2, 2)
    for name, X in (("lower", POINTS), ("upper", POINTS), ("mle", POINTS), ("advantage", pairs)):
        found, expected = getattr(other, name)(X), getattr(base, name)(X)
        torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)
    found, expected = (m.maximum_likelihood.log_likelihood for m in (other, base))
    torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)


def test_no_jitter_at_all() -> None:
    """An item listed among others to rounding: the rank of the items is not their number."""
    items = torch.cat([rand(6, 2), rand(6, 2) + 1e-9])
    duels = torch.tensor([[0, 1], [2, 7], [8, 3], [4, 11]])
    model = LikelihoodRatioModel.from_comparisons(
        items, duels, covar_module=unit_kernel(2), norm_bound=3.0, jitter=0.0
    )
    assert model.confidence_set.root.shape[-1] < 12
    torch.testing.assert_close(model.mle(items[:6]), model.mle(items[6:]), atol=1e-6, rtol=0)
    torch.testing.assert_close(model.upper(items[:6]), model.upper(items[6:]), atol=1e-5, rtol=0)


def test_bad_options_are_named() -> None:
    cases: list[tuple[str, Any]] = [
        *[("norm_bound", value) for value in (0.0, -1.0, math.nan, math.inf, None, True)],
        *[("box", value) for value in (0.0, -1.0, math.nan)],
        *[("jitter", value) for value in (-1e-6, math.nan, math.inf, "a")],
        *[("slack", value) for value in (-1.0, "most", None)],
    ]
    for name, value in cases:
        with pytest.raises(ComparisonDataError, match=f"`{name}`"):
            make_set(**{name: value})
    with pytest.raises(UnsupportedError, match=r"`covar_module` must not be batched.*\(3,\)"):
        make_set(covar_module=make_kernel(2, batch_shape=(3,)))


# ------------------------------------------------------- coefficients at points


def covariance(X: Tensor, Z: Tensor) -> Tensor:
    return matern(X, Z, lengthscale=lengthscales(X.shape[-1]), outputscale=1.0)


def found(appended: bool, num_items: int = 8) -> tuple[LikelihoodRatioModel, Tensor]:
    model = make_set(num_items, 0, jitter_points=appended)
    return model, model.items


@pytest.mark.parametrize("appended", [True, False])
def test_a_value_is_kriging_and_what_is_left(appended: bool) -> None:
    model, items = found(appended)
    a, s = model._value(POINTS)
    K = covariance(items, items) + JITTER * torch.eye(8, dtype=torch.float64)
    cross = covariance(POINTS, items)
    weights = torch.linalg.solve(K, cross.T).T
    torch.testing.assert_close(a @ model._solved().whitening.root.T, weights @ K, atol=1e-9, rtol=0)
    left = 1.0 + appended * JITTER - (weights * cross).sum(-1)
    torch.testing.assert_close(s.square(), left, atol=1e-9, rtol=0)
    torch.testing.assert_close((a.square().sum(-1) + s.square()), left + (weights * cross).sum(-1))


@pytest.mark.parametrize("appended", [True, False])
def test_the_norm_of_a_difference_is_its_prior_deviation(appended: bool) -> None:
    model, _ = found(appended)
    pairs = torch.stack([POINTS[:3], POINTS[3:]], dim=-2)
    g, beyond = model._difference(pairs)
    cross = covariance(POINTS[:3], POINTS[3:]).diagonal()
    expected = 2.0 + 2.0 * appended * JITTER - 2.0 * cross
    torch.testing.assert_close(g.square().sum(-1) + beyond.square(), expected, atol=1e-9, rtol=0)
    a, _ = model._value(pairs)
    assert torch.equal(g, a[:, 0] - a[:, 1])


def test_digits_of_near_identical_points() -> None:
    """Without jitter, ``|f(x) - f(x')|`` is at most the distance times the slope."""
    model, _ = found(False)
    near = torch.stack([POINTS, POINTS + 1e-5], dim=-2)
    g, beyond = model._difference(near)
    prior = 5.0 / 3.0 * 1e-10 * lengthscales(2).pow(-2).sum()
    total = g.square().sum(-1) + beyond.square()
    torch.testing.assert_close(total, prior.expand(6), rtol=1e-2, atol=2e-12)


def test_gradient_at_a_node_is_that_beside_it() -> None:
    model, items = found(True)

    def gradient(X: Tensor) -> Tensor:
        X = X.clone().requires_grad_()
        a, _ = model._value(X)
        return torch.autograd.grad((a @ rand(8, seed=4)).sum(), X)[0]

    at, beside = gradient(items), gradient(items + 1e-7)
    assert float(at.abs().amin()) > 0
    torch.testing.assert_close(at, beside, atol=1e-4, rtol=1e-4)
