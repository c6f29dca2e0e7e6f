"""The Borda model: dense algebra, merged duels, what is fixed, and what is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models import BordaGP
from tests.models.common import rand

X, AT = rand(12, 2), rand(30, 2, seed=5)
WON = (rand(12, seed=2) > 0.4).double()
ROWS = [0, 1, 2, 0, 0, 1, 3, 4, 4, 4, 4, 2]


def kernel(scale: float = 0.3, variance: float = 0.1) -> ScaleKernel:
    made = ScaleKernel(RBFKernel()).double()
    made.base_kernel.lengthscale, made.outputscale = scale, variance
    return made


def by_algebra(items: Tensor, answers: Tensor, at: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance by the formula (2) of the paper, around the prior mean."""

    def covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        gap = ((a[:, None] - b[None]) ** 2).sum(-1)
        return 0.1 * np.exp(-0.5 * gap / 0.3**2)

    a, b = items.numpy(), at.numpy()
    noisy = covariance(a, a) + 0.25 * np.eye(len(a))
    solved = np.linalg.solve(noisy, covariance(a, b))
    mean = 0.5 + solved.T @ (answers.numpy() - 0.5)
    return mean, 0.1 - (covariance(a, b) * solved).sum(0)


@pytest.mark.parametrize("rows", [range(12), ROWS])
@torch.no_grad()
def test_posterior_is_the_papers(rows: Sequence[int]) -> None:
    """Also where items that were chosen several times have one row."""
    chosen = X[list(rows)]
    model = BordaGP.from_duels(chosen, WON, covar_module=kernel())
    assert len(model.items) == len(set(rows))
    mean, variance = by_algebra(chosen, WON, AT)
    lower, upper = model.interval(AT, 2.0)
    np.testing.assert_allclose((lower + upper) / 2, mean, atol=1e-8)
    np.testing.assert_allclose(((upper - lower) / 4) ** 2, variance, atol=1e-8)


@torch.no_grad()
def test_duels_never_widen_the_bounds() -> None:
    """At fixed hyperparameters the variance does not depend on who won, and only shrinks."""
    before = torch.full((30,), torch.inf, dtype=torch.float64)
    for number in range(1, 13):
        model = BordaGP(X[:number], WON[:number].unsqueeze(-1), covar_module=kernel())
        lower, upper = model.interval(AT, 1.0)
        assert (upper - lower <= before + 1e-10).all()
        before = upper - lower


def test_evidence_of_merged_duels_differs_by_a_constant() -> None:
    gaps = []
    for scale, variance in ((0.3, 0.1), (0.7, 0.04)):
        values = []
        made = BordaGP.from_duels(X[ROWS], WON, covar_module=kernel(scale, variance))
        plain = BordaGP(X[ROWS], WON.unsqueeze(-1), covar_module=kernel(scale, variance))
        for model in (made, plain):
            model.train()
            log_likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
            found = log_likelihood(model(*model.train_inputs), model.train_targets)
            values.append(float(found.detach()) * len(model.train_targets))
        gaps.append(values[0] - values[1])
    assert gaps[0] == pytest.approx(gaps[1], abs=1e-8)


def test_fitting_leaves_mean_and_noise() -> None:
    model = BordaGP.from_duels(X, WON)
    before = copy.deepcopy(model.covar_module.state_dict())
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    after = model.covar_module.state_dict()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert float(model.mean_module.constant) == 0.5
    assert torch.equal(model.likelihood.noise, torch.full((12,), 0.25).double())


@torch.no_grad()
def test_transforms_copies_and_batches() -> None:
    wide = BordaGP(10.0 * X, WON.unsqueeze(-1), covar_module=kernel(), input_transform=Normalize(2))
    wide.input_transform.eval()
    bounds = torch.stack([X.amin(0), X.amax(0)])
    unit = BordaGP(
        (X - bounds[0]) / (bounds[1] - bounds[0]), WON.unsqueeze(-1), covar_module=kernel()
    )
    inside = (AT - bounds[0]) / (bounds[1] - bounds[0])
    expected = unit.interval(inside, 1.0)
    for model in (wide, copy.deepcopy(wide), pickle.loads(pickle.dumps(wide))):
        torch.testing.assert_close(model.interval(10.0 * AT, 1.0), expected, atol=1e-8, rtol=0)
        assert torch.equal(model.items, 10.0 * X)
    both = torch.stack([WON, 1.0 - WON]).unsqueeze(-1)
    batch = BordaGP(X.expand(2, -1, -1), both)
    alone = BordaGP(X, both[1])
    upper = batch.interval(AT.unsqueeze(1), 1.0)[1]
    torch.testing.assert_close(upper[:, 1], alone.interval(AT, 1.0)[1], atol=1e-8, rtol=0)
    # The complement of every answer mirrors the posterior at a half.
    lower = batch.interval(AT.unsqueeze(1), 1.0)[0]
    torch.testing.assert_close(lower[:, 0], 1.0 - upper[:, 1], atol=1e-8, rtol=0)


def test_bounds_have_gradients() -> None:
    model = BordaGP(X, WON.unsqueeze(-1), covar_module=kernel())
    at = AT[:4].clone().requires_grad_()
    assert torch.autograd.gradcheck(
        lambda points: model.interval(points, 1.5), (at,), atol=1e-6, rtol=1e-6
    )


def test_bounds_have_gradients_where_nothing_is_left_to_learn() -> None:
    """At items that were asked without noise, in the corners among them, nothing is NaN."""
    items = torch.cat([X, torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])])
    won = (items.sum(-1, keepdim=True) > 1).double()
    model = BordaGP(items, won, noise=1e-6, covar_module=kernel())
    at = items.clone().requires_grad_()
    lower, upper = model.interval(at, 2.0)
    assert float((upper - lower).detach().min()) < 1e-2
    (gradient,) = torch.autograd.grad((upper - 0.3 * lower).sum(), at)
    assert gradient.isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((X, WON), r"`train_Y`"),
        ((X, 2.0 * WON.unsqueeze(-1)), r"`train_Y` row \d+.*between 0 and 1"),
        ((torch.full_like(X, torch.nan), WON.unsqueeze(-1)), r"`train_X` row 0"),
        ((X.long(), WON.unsqueeze(-1)), r"`train_X` must be floating"),
    ],
)
def test_bad_data(arguments: Any, match: str) -> None:
    with pytest.raises(ComparisonDataError, match=match):
        BordaGP(*arguments)
