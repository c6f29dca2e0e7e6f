"""Rough bounds: they rank points nearly as the exact ones do."""

from __future__ import annotations

import math

import pytest
import torch
from gpytorch.kernels import RBFKernel
from scipy.stats import spearmanr

from botorch_pref.acquisition import OptimisticAcceptance
from botorch_pref.models import LikelihoodRatioModel
from tests.models.common import rand


def model_of(
    size: int, lengthscale: float, norm_bound: float, slack: float, limit: float = 1.0
) -> LikelihoodRatioModel:
    """Labels that accept where the sum of the coordinates is below a limit."""
    X = rand(size, 2)
    kernel = RBFKernel().double()
    kernel.lengthscale = lengthscale
    return LikelihoodRatioModel.from_labels(
        X,
        (X.sum(-1) < limit).double(),
        covar_module=kernel,
        norm_bound=norm_bound,
        slack=slack,
    )


CASES = [(5, 0.3, 2.0, 0.3, 1.0), (20, 0.3, 16.0, 0.5, 1.0), (40, 0.5, 16.0, 0.2, 0.0)]


@pytest.mark.parametrize("case", CASES)
def test_the_order_is_nearly_that_of_the_bounds(
    case: tuple[int, float, float, float, float],
) -> None:
    model, points = model_of(*case), rand(256, 2, seed=7)
    exact, rough = model.upper(points, tolerance=1e-3), model.rough_upper(points)
    assert spearmanr(exact, rough).statistic > 0.9
    kept = rough.topk(32).indices
    assert exact[kept].amax() >= exact.amax() - 0.01 * (exact.amax() - exact.amin())


def test_an_ellipsoid_is_around_the_set_of_a_quadratic() -> None:
    """With next to no slack the set is small, and the log likelihood a quadratic on it."""
    model, points = model_of(12, 0.4, 3.0, 1e-4), rand(20, 2, seed=7)
    exact, rough = model.upper(points), model.rough_upper(points)
    assert (rough >= exact - 1e-6).all()


def test_shapes_references_and_boxes() -> None:
    model = model_of(8, 0.3, 2.0, 0.3)
    points = rand(3, 4, 2, seed=7)
    found = model.rough_upper(points)
    assert found.shape == (3, 4)
    torch.testing.assert_close(found[1, 2], model.rough_upper(points[1, 2]))
    assert not found.requires_grad
    reference = rand(2, seed=9)
    assert model.rough_upper(reference, reference) == 0.0
    boxed = LikelihoodRatioModel.from_labels(
        model.items,
        torch.ones(8).double(),
        covar_module=model.covar_module,
        norm_bound=9.0,
        box=0.5,
    )
    assert boxed.rough_upper(points).abs().amax() <= 0.5


def test_a_rule_with_an_infinite_tolerance_solves_nothing() -> None:
    model, points = model_of(8, 0.3, 2.0, 0.3), rand(6, 1, 2, seed=7)
    rule = OptimisticAcceptance(model, tolerance=math.inf)
    assert torch.equal(rule(points), model.rough_upper(points.squeeze(-2)))
    assert model.status is None
    reference = rand(2, seed=9)
    compared = OptimisticAcceptance(model, tolerance=math.inf, x_ref=reference)
    assert torch.equal(compared(points), model.rough_upper(points.squeeze(-2), reference))
