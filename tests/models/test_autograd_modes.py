"""What a model keeps from inference mode, which refuses most, serves where gradients are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from torch import Size, Tensor

from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.models.pathwise import draw_posterior_paths
from tests.models.common import make_duels, rand

POINTS = rand(4, 2, seed=1)


def single(**options: Any) -> PreferenceGP:
    return PreferenceGP(*make_duels(15, 20, 2), **options)


def batch() -> PreferenceGP:
    X, comparisons = make_duels(15, 20, 2)
    return PreferenceGP(torch.stack([X, X**2]), comparisons.expand(2, -1, -1))


def slope(model: PreferenceGP) -> Tensor:
    points = POINTS.clone().requires_grad_()
    mean = model.posterior(points).mean.sum() + model.posterior(points).variance.sum()
    (found,) = torch.autograd.grad(mean, points)
    return found


@pytest.mark.parametrize("options", [{}, {"inducing_points": 8}, {"variance": 4.0}])
def test_posteriors(options: dict[str, Any]) -> None:
    model = single(**options)
    with torch.inference_mode():
        model.posterior(POINTS)
    assert torch.equal(slope(model), slope(single(**options)))
    grown = model.condition_on_pairs(POINTS[None, :2], torch.ones(1))
    assert slope(grown).isfinite().all()
    path = draw_posterior_paths(model, Size([2]))(POINTS.clone().requires_grad_())
    assert path.requires_grad


@pytest.mark.parametrize("make", [single, batch, lambda: single(inducing_points=8)])
def test_fits(make: Callable[[], PreferenceGP]) -> None:
    model, other = make(), make()
    with torch.inference_mode():
        model.log_evidence()
        model.posterior(POINTS)
    for gp in (model, other):
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(gp.likelihood, gp))
    found, expected = (gp.covar_module.outputscale for gp in (model, other))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0.0)
