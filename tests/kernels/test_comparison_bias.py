"""The kernel of a utility and of what duels see of it: brute force and limits."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels import ComparisonBiasKernel
from botorch_pref.models import PreferenceGP
from tests.models.common import make_kernel, rand

BIAS = 0.3


def make(bias: float | None = BIAS, batch_shape: tuple[int, ...] = ()) -> ComparisonBiasKernel:
    kernel = ComparisonBiasKernel(make_kernel(2, batch_shape=batch_shape)).double()
    if bias is not None:
        kernel.bias = bias
    return kernel


def seen(items: Tensor, marker: float) -> Tensor:
    return torch.cat([items, torch.full_like(items[..., :1], marker)], dim=-1)


def base(x: Tensor, w: Tensor) -> np.ndarray:
    return make_kernel(2)(x, w).to_dense().detach().numpy()


@torch.no_grad()
def test_is_the_covariance_of_a_biased_view() -> None:
    """``A (k, b k) A^T`` for ``f = [1, 0]`` and ``f_c = [1, 1]`` of ``(f, delta)``."""
    x, w = rand(4, 2), rand(5, 2, seed=1)
    views = {0.0: np.array([1.0, 0.0]), 1.0: np.array([1.0, 1.0])}
    for z, a in views.items():
        for z_, a_ in views.items():
            expected = base(x, w) * (a[0] * a_[0] + BIAS * a[1] * a_[1])
            found = make()(seen(x, z), seen(w, z_)).to_dense()
            np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-13)


@torch.no_grad()
def test_diagonal_batches_and_copies() -> None:
    batched = make(batch_shape=(3,))
    batched.bias = torch.tensor([[0.1], [0.2], [0.3]], dtype=torch.double)
    points = rand(3, 4, 3)
    whole = batched(points).to_dense()
    assert whole.shape == (3, 4, 4)
    torch.testing.assert_close(batched(points, diag=True), whole.diagonal(dim1=-2, dim2=-1))
    torch.testing.assert_close(copy.deepcopy(batched)(points).to_dense(), whole)
    for row in range(3):
        alone = make(0.1 * (row + 1))(points[row]).to_dense()
        torch.testing.assert_close(whole[row], alone)
        torch.testing.assert_close(batched[row](points[row]).to_dense(), alone)
    grown = make().expand_batch(torch.Size([3]))
    assert grown.batch_shape == grown.bias.shape[:-1] == (3,)
    torch.testing.assert_close(grown(points[0]).to_dense()[1], make()(points[0]).to_dense())
    assert torch.linalg.eigvalsh(whole).min() > -1e-12
    assert not batched.is_stationary


def test_gradients() -> None:
    kernel, others = make(), seen(rand(4, 2, seed=1), 1.0)
    x = rand(3, 2).requires_grad_()
    torch.autograd.gradcheck(lambda a: kernel(seen(a, 1.0), others).to_dense(), x)
    marker = torch.tensor([[0.0], [1.0], [1.0]], dtype=torch.double)
    whole = kernel(torch.cat([x, marker], dim=-1)).to_dense()
    (gradient,) = torch.autograd.grad(whole.sum(), kernel.raw_bias)
    z = marker.squeeze(-1).numpy()
    expected = (base(x.detach(), x.detach()) * np.outer(z, z)).sum()
    assert float(gradient) == pytest.approx(BIAS * expected)  # the parameter is its logarithm


@torch.no_grad()
def test_views_of_several_are_a_coregionalization() -> None:
    """``k (1 1^T + diag(0, b_1, ..., b_A))``, each with a bias of their own."""
    kernel = ComparisonBiasKernel(make_kernel(2), number=3, mode=0.1).double()
    assert kernel.bias.tolist() == pytest.approx(3 * [0.1])
    own = torch.tensor([0.2, 0.5, 1.5], dtype=torch.double)
    kernel.bias = own
    x, w = rand(6, 2), rand(5, 2, seed=1)
    views, others = torch.tensor([0, 1, 2, 3, 3, 0]), torch.tensor([3, 3, 1, 0, 2])
    B = np.ones((4, 4)) + np.diag([0.0, *own.tolist()])
    expected = base(x, w) * B[np.ix_(views.numpy(), others.numpy())]
    points, opposite = (
        torch.cat([items, z.double().unsqueeze(-1)], -1) for items, z in ((x, views), (w, others))
    )
    found = kernel(points, opposite).to_dense()
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-13)
    whole = kernel(points).to_dense()
    torch.testing.assert_close(kernel(points, diag=True), whole.diagonal())
    assert torch.linalg.eigvalsh(whole).min() > -1e-12
    batched = kernel.expand_batch(torch.Size([2]))
    torch.testing.assert_close(batched(points).to_dense()[1], whole)
    fixed = ComparisonBiasKernel(make_kernel(2), bias=0.4, number=3)(points).to_dense()
    kernel.bias = 0.4
    torch.testing.assert_close(fixed, kernel(points).to_dense())


def test_a_bias_is_learnt_or_fixed() -> None:
    learnt = make(None)
    assert float(learnt.bias.detach()) == pytest.approx(0.01)
    density = learnt.bias_prior.log_prob(torch.tensor([0.009, 0.01, 0.011]))
    assert density.argmax() == 1  # the mode
    for value in (0.0, 0.25):
        fixed = ComparisonBiasKernel(make_kernel(2), bias=value)
        assert float(fixed.bias) == value
        assert not [name for name, _ in fixed.named_parameters() if "bias" in name]
        with pytest.raises(ComparisonDataError, match="`bias`"):
            fixed.bias = 1.0
    points = rand(4, 3)
    trusting = ComparisonBiasKernel(make_kernel(2), bias=0.0)(points).to_dense()
    torch.testing.assert_close(trusting, make_kernel(2)(points[:, :-1]).to_dense())
    for wrong in (-1.0, math.nan):
        with pytest.raises(ComparisonDataError, match="`bias`"):
            ComparisonBiasKernel(make_kernel(2), bias=wrong)


@torch.no_grad()
def test_biased_duels_never_settle_the_utility() -> None:
    """However often is duelled, a difference keeps the variance of its bias."""
    pair = seen(torch.tensor([[0.2, 0.5], [0.8, 0.5]]).double(), 1.0)
    answers = torch.cat([torch.ones(600), torch.zeros(400)]).double()
    model = PreferenceGP.from_pairs(pair.expand(1000, 2, 3), answers, covar_module=make())
    judged = model.pair_posterior(pair).variance
    utility = model.pair_posterior(seen(pair[:, :-1], 0.0)).variance
    assert float(judged) < 0.01
    kernel = make()
    assert isinstance(kernel.base_kernel, ScaleKernel)
    prior = make_kernel(2)(pair[:, :-1]).to_dense()
    difference = float(prior[0, 0] + prior[1, 1] - 2 * prior[0, 1])
    assert float(utility) == pytest.approx(difference * BIAS / (1 + BIAS), rel=0.02)
