"""Pathwise draws: their moments, their gradients, and BoTorch's own entry points."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.acquisition.thompson_sampling import PathwiseThompsonSampling
from botorch.models.transforms.input import Normalize, Warp
from botorch.optim import optimize_acqf
from botorch.sampling.pathwise import (
    draw_kernel_feature_paths,
    draw_matheron_paths,
)
from botorch.sampling.pathwise.features import KernelEvaluationMap
from botorch.sampling.pathwise.paths import GeneralizedLinearPath
from botorch.sampling.pathwise.posterior_samplers import MatheronPath
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, RQKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor

from botorch_pref.exceptions import PathwiseResidualWarning
from botorch_pref.inference.finite import FinitePosterior
from botorch_pref.kernels import ComparisonBiasKernel, DuelingKernel
from botorch_pref.models import BernoulliGP, PreferenceGP
from botorch_pref.models.base import LaplaceGP
from botorch_pref.models.pathwise import draw_posterior_paths
from botorch_pref.randomness import seeded
from tests.models.common import LinearMean, make_duels, make_kernel, numerical_gradient, rand
from tests.models.mixed import make_mixed

variances = pytest.mark.parametrize("variance", ["laplace", 2.0])


POINTS = rand(5, 2, seed=4)


def make_model(num_duels: int = 12, dim: int = 2, seed: int = 0, **kwargs: object) -> PreferenceGP:
    items, duels = make_duels(8, num_duels, dim, seed=seed)
    return PreferenceGP(items, duels, **{"covar_module": make_kernel(dim), **kwargs})


def exact_prior(points: Tensor):
    """A sampler of prior paths whose covariance is the prior's, at ``points`` and the items."""

    def draw(model: LaplaceGP, sample_shape: Size) -> GeneralizedLinearPath:
        everything = torch.cat([model.transformed_items(), points])
        covariance = model.covar_module(everything).to_dense().detach()
        values, vectors = torch.linalg.eigh(covariance)
        keep = values > 1e-12 * values[-1]
        root = vectors[:, keep] / values[keep].sqrt()
        weight = torch.randn(*sample_shape, int(keep.sum()), dtype=points.dtype) @ root.T
        features = KernelEvaluationMap(model.covar_module, everything)
        return GeneralizedLinearPath(features, weight, bias_module=model.mean_module)

    return draw


def contrasts(covariance: Tensor) -> Tensor:
    """Variances of all differences."""
    variance = covariance.diagonal(dim1=-2, dim2=-1)
    return variance[..., :, None] + variance[..., None, :] - 2 * covariance


def largest_error(draws: Tensor, covariance: Tensor) -> float:
    """Relative error of the largest variance of a difference, from ``S x q`` draws."""
    expected = contrasts(covariance)
    found = contrasts(torch.cov(draws.T))
    worst = int(expected.argmax())
    return float((found.flatten()[worst] / expected.flatten()[worst] - 1).abs())


def assert_mean(draws: Tensor, mean: Tensor, covariance: Tensor) -> None:
    bound = 5 * covariance.diagonal(dim1=-2, dim2=-1).sqrt() / math.sqrt(len(draws))
    assert ((draws.mean(0) - mean).abs() <= bound).all()


# Moments.


@variances
@pytest.mark.parametrize(
    ("num_duels", "options"),
    [(6, {}), (40, {}), (40, {"inducing_points": 4}), (6, None)],
    ids=["answers", "items", "inducing items", "values"],
)
@torch.no_grad()
def test_the_update_is_exact(
    variance: str | float, num_duels: int, options: dict[str, int] | None
) -> None:
    """Given prior paths of the prior's covariance, only the number of draws limits."""
    if options is None:
        model = make_mixed(variance=variance, known=False)
    else:
        model = make_model(num_duels, variance=variance, mean_module=LinearMean(2.0), **options)
    points, num = rand(6, 2, seed=9), 20_000
    with seeded(0):
        draws = draw_posterior_paths(model, Size([num]), exact_prior(points))(points)
    posterior = model.posterior(points)
    mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
    assert_mean(draws, mean, covariance)
    spread = contrasts(torch.cov(draws.T)) / contrasts(covariance)
    spread = spread[~torch.eye(6, dtype=torch.bool)]
    assert (spread - 1).abs().max() <= 5 * math.sqrt(2 / num)


@pytest.mark.parametrize(
    "kernel",
    [
        ScaleKernel(RBFKernel()),
        MaternKernel(nu=0.5, ard_num_dims=2),
        ScaleKernel(MaternKernel(nu=1.5, active_dims=(1,))),
    ],
    ids=["rbf", "matern12", "active dims"],
)
@torch.no_grad()
def test_kernels_with_random_features(kernel: Kernel) -> None:
    model, points = make_model(covar_module=kernel.double()), rand(6, 2, seed=7)
    with seeded(0):
        draws = draw_matheron_paths(model, Size([2000]))(points)
    posterior = model.posterior(points)
    # The features are one draw, whose error the mean of the paths does not have.
    assert_mean(draws, posterior.mean.squeeze(-1), 1.15 * posterior.covariance_matrix)
    assert largest_error(draws, posterior.covariance_matrix) < 0.15


@pytest.mark.parametrize("bias", [0.4, None])
@torch.no_grad()
def test_paths_of_a_utility_and_of_views_of_it(bias: float | None) -> None:
    """Of the utility, in the first three rows, and of what two people see."""
    kernel = ComparisonBiasKernel(make_kernel(2), bias=bias, number=2)
    if bias is None:
        kernel.bias = torch.tensor([0.1, 0.8])
    items, duels = make_duels(8, 12, 2)
    items = torch.cat([items, torch.arange(8).remainder(2).double().unsqueeze(-1) + 1.0], -1)
    model = PreferenceGP(items, duels, covar_module=kernel)
    view = torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0], [2.0], [2.0]]).double()
    points = torch.cat([rand(7, 2, seed=7), view], -1)
    points[5, :2] = points[3, :2] = points[0, :2]
    with seeded(0):
        path = draw_matheron_paths(model, Size([3000]))
    draws, posterior = path(points), model.posterior(points)
    assert_mean(draws, posterior.mean.squeeze(-1), 1.15 * posterior.covariance_matrix)
    expected = contrasts(posterior.covariance_matrix)
    found = contrasts(torch.cov(draws.T))
    torch.testing.assert_close(found, expected, atol=0.12 * float(expected.max()), rtol=0)
    one = draw_matheron_paths(model, Size())
    batch = one(torch.stack([points, points.flip(0)]))
    torch.testing.assert_close(batch, torch.stack([one(points), one(points.flip(0))]))


@variances
@torch.no_grad()
def test_paths_agree_with_the_finite_set(variance: str | float) -> None:
    """Property 19: on the grid, mean ``g_t`` and covariance ``k_t`` of the exact engine."""
    grid = torch.linspace(0, 1, 9, dtype=torch.float64).unsqueeze(-1)
    kernel = make_kernel(1, lengthscale=0.3, outputscale=5.0)
    exact = FinitePosterior(kernel.base_kernel(grid).to_dense(), penalty=0.2, kappa=variance)
    generator = torch.Generator().manual_seed(0)
    first = torch.randint(9, (14,), generator=generator)
    pairs = torch.stack([first, (first + 1 + first % 7) % 9], -1)
    answers = torch.randint(2, (14,), generator=generator).double()
    for pair, answer in zip(pairs, answers, strict=True):
        exact.append(pair.tolist(), float(answer))
    model = PreferenceGP.from_pairs(grid[pairs], answers, covar_module=kernel, variance=variance)
    with seeded(0):
        draws = draw_matheron_paths(model, Size([2000]))(grid)
    assert_mean(draws, exact.mean, 1.15 * exact.covariance)
    assert largest_error(draws, exact.covariance) < 0.15


@torch.no_grad()
def test_two_draws_are_independent() -> None:
    model, points, num = make_model(), rand(4, 2, seed=6), 2000
    with seeded(0):
        draws = draw_matheron_paths(model, Size([2, num]))(points)
    assert draws.shape == (2, num, 4)
    spread = draws.std(1)
    centred = draws - draws.mean(1, keepdim=True)
    cross = centred[0].T @ centred[1] / num
    assert (cross.abs() <= 5 * spread[0][:, None] * spread[1] / math.sqrt(num)).all()


# Gradients and transforms.


@pytest.mark.parametrize("transform", [None, "normalize", "warp"])
def test_gradient(transform: str | None) -> None:
    made = {
        None: lambda: None,
        "normalize": lambda: Normalize(2, bounds=torch.tensor([[-1.0, 0.0], [2.0, 3.0]]).double()),
        "warp": lambda: Warp(
            d=2,
            indices=[0, 1],
            concentration0_prior=LogNormalPrior(0.5, 0.5),
            concentration1_prior=LogNormalPrior(0.0, 0.5),
        ).double(),
    }[transform]()
    if transform == "warp":
        made.concentration0.data.fill_(1.7)
    model = make_model(input_transform=made, mean_module=LinearMean(0.5))
    with seeded(0):
        path = draw_matheron_paths(model, Size())
    if transform == "normalize":
        plain = make_model(mean_module=LinearMean(0.5))  # of items in these units
        inside = made.transform(model.datapoints)
        plain.set_train_data(inside, model.comparisons)
        with seeded(0):
            expected = draw_matheron_paths(plain, Size())(made.transform(POINTS))
        torch.testing.assert_close(path(POINTS), expected, atol=1e-9, rtol=0.0)
    at = (0.1 + 0.8 * rand(3, 2, seed=5)).requires_grad_()
    (gradient,) = torch.autograd.grad(path(at).sum(), at)
    numerical = numerical_gradient(lambda X: path(X).sum(), at)
    torch.testing.assert_close(gradient, numerical, atol=1e-6, rtol=1e-6)


# Batches, priors, other models.


@pytest.mark.parametrize("batch_kernel", [True, False])
@torch.no_grad()
def test_batched_model(batch_kernel: bool) -> None:
    data = [make_duels(6, 9, 2, seed=seed) for seed in range(2)]
    items, duels = (torch.stack(parts) for parts in zip(*data, strict=True))
    kernel = make_kernel(2, batch_shape=(2,) if batch_kernel else ())
    model, points = PreferenceGP(items, duels, covar_module=kernel), rand(4, 2, seed=3)
    with seeded(0):
        draws = draw_matheron_paths(model, Size([1000]))(points)
    assert draws.shape == (1000, 2, 4)
    posterior = model.posterior(points)
    assert_mean(draws, posterior.mean.squeeze(-1), 1.15 * posterior.covariance_matrix)
    for i in range(2):
        assert largest_error(draws[:, i], posterior.covariance_matrix[i]) < 0.15
    correlation = torch.corrcoef(draws.flatten(1).T)[:4, 4:]
    assert correlation.abs().max() < 5 / math.sqrt(1000)


@torch.no_grad()
def test_prior_only_model() -> None:
    model, points = PreferenceGP(None, None, covar_module=make_kernel(2)), rand(5, 2, seed=2)
    with seeded(0):
        draws = draw_matheron_paths(model, Size([2000]))(points)
    covariance = model.covar_module(points).to_dense()
    assert_mean(draws, torch.zeros(5, dtype=torch.float64), 1.15 * covariance)
    assert largest_error(draws, covariance) < 0.15


# Kernels without random features.


@torch.no_grad()
def test_nystrom_path() -> None:
    model = make_model(covar_module=ScaleKernel(RQKernel(ard_num_dims=2)).double())
    points = rand(6, 2, seed=1)
    with seeded(0), pytest.warns(PathwiseResidualWarning, match="RQKernel|ScaleKernel"):
        paths = draw_matheron_paths(model, Size([20_000]))
    draws, posterior = paths(points), model.posterior(points)
    assert_mean(draws, posterior.mean.squeeze(-1), posterior.covariance_matrix)
    # Smooth kernels leave no residual worth the name, so the moments are exact.
    assert largest_error(draws, posterior.covariance_matrix) < 5 * math.sqrt(2 / 20_000)


def test_nystrom_path_states_what_it_lacks() -> None:
    """Rough paths in many dimensions are not spanned by a few hundred points."""
    items, duels = make_duels(8, 12, 5)
    kernel = (MaternKernel(nu=0.5) * RQKernel()).double()
    model = PreferenceGP(items, duels, covar_module=kernel)
    with seeded(0), pytest.warns(PathwiseResidualWarning) as caught:
        paths = draw_matheron_paths(model, Size([2000]))
    words = str(caught[0].message).split()
    mean, largest = float(words[words.index("lacks") + 1]), float(words[words.index("and") + 1])
    assert 0.05 < mean <= largest <= 1.0
    points = rand(200, 5, seed=11)
    with torch.no_grad():
        prior = paths["prior_paths"](points).var(0)
        expected = kernel(points, diag=True)
    assert float(1 - (prior / expected).mean()) == pytest.approx(mean, abs=0.05)


# BoTorch's entry points.


def seeded_paths(model: PreferenceGP, seed: int) -> MatheronPath:
    with seeded(seed):
        return draw_matheron_paths(model, Size([3]))


def test_registered_with_botorch() -> None:
    model, points = make_model(), rand(5, 2)
    paths, again, other = (seeded_paths(model, seed) for seed in (1, 1, 2))
    assert isinstance(paths, MatheronPath)
    assert torch.equal(paths(points), again(points))
    assert not torch.allclose(paths(points), other(points), atol=1e-2)
    assert paths(points).shape == (3, 5)
    assert paths(points.expand(4, 1, 5, 2)).shape == (4, 3, 5)
    prior = draw_kernel_feature_paths(model, sample_shape=Size([3]))
    assert prior(points).shape == (3, 5)
    assert prior.weight.shape == (3, 4096)
    chosen = draw_matheron_paths(model, Size([2]), prior_sampler=exact_prior(points))
    assert chosen["prior_paths"].weight.shape[-1] <= 13


def test_pathwise_thompson_sampling() -> None:
    model = make_model(num_duels=6)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    with seeded(0):
        rule = PathwiseThompsonSampling(model)
        points, value = optimize_acqf(rule, bounds, q=2, num_restarts=2, raw_samples=64)
    assert points.shape == (2, 2)
    grid = torch.cartesian_prod(*[torch.linspace(0, 1, 41, dtype=torch.float64)] * 2)
    with torch.no_grad():
        best = rule(torch.stack([grid, grid], dim=-2))
    assert float(value.sum()) >= float(best.max()) - 1e-6


def test_paths_of_a_kernel_over_pairs() -> None:
    """The dueling kernel has no features of its own, so pairs fall back to Nystrom."""
    pairs, answers = rand(6, 4), torch.tensor([[1.0], [0.0]] * 3, dtype=torch.float64)
    model = BernoulliGP(pairs, answers, covar_module=DuelingKernel(make_kernel(2)))
    with seeded(0), pytest.warns(PathwiseResidualWarning, match="DuelingKernel"):
        path = draw_matheron_paths(model, Size([3]))
    points = rand(5, 4, seed=1)
    flipped = torch.cat([points[:, 2:], points[:, :2]], dim=-1)
    torch.testing.assert_close(path(points), -path(flipped), atol=1e-8, rtol=0.0)
