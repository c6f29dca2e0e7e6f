"""Who is eliminated: on a finite set by brute force, on a box against witnesses."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.models.transforms.input import Normalize
from hypothesis import given, settings
from hypothesis import strategies as st

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models import PreferenceGP
from botorch_pref.strategies.mr_lpf.elimination import Elimination, checked_scale, survivors
from tests.models.common import make_kernel, numerical_gradient, rand

scales = pytest.mark.parametrize("ci_scale", ["probability", "latent"])


def make_case(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    root = rand(n, n, seed=seed)
    covariance = 0.02 * root @ root.T
    own = covariance.diagonal()
    sigma = (own[:, None] + own - 2 * covariance).clamp_min(0.0).sqrt()
    return 3 * rand(n, seed=seed + 1), sigma


@scales
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), beta=st.floats(0.0, 3.0))
def test_survivors_by_brute_force(ci_scale: str, seed: int, beta: float) -> None:
    mean, sigma = make_case(9, seed)
    keep = survivors(mean, sigma, beta, ci_scale)
    for i in range(9):
        expected = True
        for j in range(9):
            h = float(mean[i] - mean[j])
            if ci_scale == "probability":
                expected &= 1 / (1 + math.exp(-h)) + beta * float(sigma[i, j]) >= 0.5 - 1e-12
            else:
                expected &= h + 4 * beta * float(sigma[i, j]) >= -1e-12
        assert bool(keep[i]) == expected
    assert keep[mean.argmax()]
    wider = survivors(mean, sigma, beta + 0.3, ci_scale)
    assert (wider | ~keep).all()
    latent, chance = (survivors(mean, sigma, beta, scale) for scale in ("latent", "probability"))
    assert (chance | ~latent).all()


@scales
@pytest.mark.parametrize("beta", [0.0, 0.1, 1.0])
def test_a_perfect_predictor_keeps_the_best(ci_scale: str, beta: float) -> None:
    truth, sigma = make_case(30, seed=5)
    keep = survivors(truth, sigma, beta, ci_scale)
    assert keep[truth.argmax()]
    if beta == 0.0:
        assert keep.nonzero().flatten().tolist() == [int(truth.argmax())]


def make_rule(ci_scale: str, beta: float = 0.3) -> tuple[Elimination, PreferenceGP]:
    pairs = rand(12, 2, 2, seed=3) * 4.0
    answers = (pairs[:, 0].sum(-1) > pairs[:, 1].sum(-1)).double()
    bounds = torch.tensor([[0.0, 0.0], [4.0, 4.0]], dtype=torch.float64)
    model = PreferenceGP.from_pairs(
        pairs,
        answers,
        covar_module=make_kernel(2).requires_grad_(False),
        input_transform=Normalize(2, bounds=bounds),
        variance=6.0,
    )
    return Elimination(model, pairs.flatten(end_dim=1), beta, ci_scale), model


@scales
def test_slack_on_a_box_by_brute_force(ci_scale: str) -> None:
    rule, model = make_rule(ci_scale)
    items = 4.0 * rand(3, 5, 2, seed=4)
    slack = rule.slack(items)
    assert slack.shape == (3, 5)
    for index in torch.cartesian_prod(torch.arange(3), torch.arange(5)).tolist():
        x = items[tuple(index)]
        pairs = torch.stack([x.expand_as(rule.witnesses), rule.witnesses], dim=-2)
        posterior = model.pair_posterior(pairs)
        h, sd = posterior.mean.flatten(), posterior.variance.flatten().sqrt()
        bound = h + 4 * 0.3 * sd if ci_scale == "latent" else torch.sigmoid(h) + 0.3 * sd - 0.5
        assert float(slack[tuple(index)]) == pytest.approx(float(bound.min()), abs=1e-6)
    best = rule.witnesses[model.posterior(rule.witnesses).mean.argmax()]
    assert float(rule.slack(best)) == pytest.approx(0.0, abs=1e-6)


@scales
def test_gradient_of_the_slack(ci_scale: str) -> None:
    rule, _ = make_rule(ci_scale)
    at = torch.tensor([1.3, 2.9], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(rule.slack(at), at)
    expected = numerical_gradient(rule.slack, at)
    torch.testing.assert_close(gradient, expected, atol=1e-6, rtol=1e-6)


def test_names_of_scales() -> None:
    assert checked_scale("latent") == "latent"
    with pytest.raises(ComparisonDataError, match="`ci_scale`"):
        checked_scale("logit")
