"""The default prior, and the modes that a fit starts from."""

import copy
import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.optim.utils import sample_all_priors
from gpytorch.constraints import Interval
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from scipy.stats import lognorm
from torch import Size, Tensor

from botorch_pref.kernels.items import (
    DEFAULT_MODES,
    ScalesPrior,
    default_covar_module,
    read_scales,
    write_scales,
)
from botorch_pref.models import BernoulliGP, LaplaceMarginalLogLikelihood, PreferenceGP
from tests.models.common import make_duels, rand

MODES = ((0.21, 1.5), (0.7, 4.0))
WIDTHS = (0.8, 1.0)


def at_mode(mode: tuple[float, float], dim: int = 2) -> Tensor:
    return torch.tensor([[mode[0]] * dim + [mode[1]]], dtype=torch.double)


def height(x: Tensor, mode: tuple[float, float]) -> float:
    """The log density of independent log-normals with that mode, by SciPy, less that at it."""
    value = 0.0
    parts = zip((x[..., :-1], x[..., -1:]), mode, WIDTHS, strict=True)
    for part, at, width in parts:
        law = lognorm(s=width, scale=at * math.exp(width**2))
        value += float((law.logpdf(part.numpy()) - law.logpdf(at)).sum())
    return value


def log_objective(model: PreferenceGP | BernoulliGP, mode: tuple[float, float]) -> Tensor:
    """Evidence and prior at a mode, of a copy."""
    other = copy.deepcopy(model)
    kernel = other.covar_module
    kernel.base_kernel.lengthscale, kernel.outputscale = mode
    with torch.no_grad():
        return other.log_evidence() + kernel.scales_prior.log_prob(read_scales(kernel)).squeeze(-1)


def duels(mode: tuple[float, float], seed: int = 0, m: int = 150) -> tuple[Tensor, Tensor]:
    """Logistic answers by a draw of the default process with those scales."""
    X = rand(60, 2, seed=seed)
    kernel = default_covar_module(2, Size(), modes=[mode]).double()
    with torch.no_grad():
        root = torch.linalg.cholesky(kernel(X).to_dense() + 1e-8 * torch.eye(60))
    generator = torch.Generator().manual_seed(seed)
    utility = root @ torch.randn(60, generator=generator, dtype=torch.double)
    rows = torch.stack([torch.randperm(60, generator=generator)[:2] for _ in range(m)])
    gap = utility[rows[:, 0]] - utility[rows[:, 1]]
    wins = torch.rand(m, generator=generator, dtype=torch.double) < gap.sigmoid()
    return X, torch.where(wins.unsqueeze(-1), rows, rows.flip(-1))


def test_the_prior_is_a_mixture_of_log_normals_of_equal_height() -> None:
    prior = ScalesPrior(MODES)
    for x in (
        [0.21, 0.21, 0.21, 1.5],
        [0.7, 0.7, 0.7, 4.0],
        [0.3, 2.0, 0.7, 0.1],
        [1e-3, 50.0, 1.0, 1e3],
    ):
        scales = torch.tensor([x], dtype=torch.double)
        parts = [height(scales, mode) for mode in MODES]
        wanted = max(parts) + math.log(sum(math.exp(part - max(parts)) for part in parts))
        found = prior.log_prob(scales)
        assert found.shape == (1,)
        assert found.item() == pytest.approx(wanted, rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("batch_shape", [(), (3,), (2, 3)])
def test_the_gradient_of_the_prior(batch_shape: tuple[int, ...]) -> None:
    prior = ScalesPrior(MODES)
    x = 0.1 + 2 * rand(*batch_shape, 1, 4)
    assert prior.log_prob(x).shape == (*batch_shape, 1)
    assert torch.autograd.gradcheck(prior.log_prob, x.requires_grad_())


@pytest.mark.parametrize("batch_shape", [(), (3,), (2, 3)])
def test_scales_are_read_and_written(batch_shape: tuple[int, ...]) -> None:
    kernel = default_covar_module(3, Size(batch_shape)).double()
    wanted = 0.1 + rand(*batch_shape, 1, 4)
    write_scales(kernel, wanted)
    torch.testing.assert_close(read_scales(kernel), wanted)
    torch.testing.assert_close(kernel.outputscale, wanted[..., 0, -1])


def test_the_default_prior_is_at_its_first_mode() -> None:
    kernel = default_covar_module(3, Size()).double()
    assert kernel.scales_prior.modes == MODES == DEFAULT_MODES
    torch.testing.assert_close(read_scales(kernel), at_mode(MODES[0], 3))
    # The 90 % ranges of the docstring.
    ranges = ((0.11, 1.5), (0.79, 21.0)), ((0.36, 4.9), (2.1, 56.0))
    for mode, wanted in zip(MODES, ranges, strict=True):
        for at, width, ends in zip(mode, WIDTHS, wanted, strict=True):
            law = lognorm(s=width, scale=at * math.exp(width**2))
            assert law.ppf([0.05, 0.95]) == pytest.approx(ends, rel=0.04)


def test_a_fit_without_answers_that_tell_stays_at_a_mode() -> None:
    X = torch.tensor([[0.2, 0.5], [0.8, 0.1]], dtype=torch.double)
    model = PreferenceGP(X, torch.tensor([[0, 1]]))
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    found = read_scales(model.covar_module).detach()
    # Beyond the mode by what one answer says.
    assert min(float((found / at_mode(mode)).log().abs().max()) for mode in MODES) < 0.5


@pytest.mark.parametrize("mode", MODES)
def test_answers_choose_the_start(mode: tuple[float, float]) -> None:
    right = 0
    for seed in range(4):
        model = PreferenceGP(*duels(mode, seed))
        values = torch.stack([log_objective(model, one) for one in MODES])
        model._start_at_best_mode()
        torch.testing.assert_close(
            read_scales(model.covar_module), at_mode(MODES[int(values.argmax())])
        )
        assert model.covar_module.base_kernel.raw_lengthscale.requires_grad
        right += int(values.argmax()) == MODES.index(mode)
    assert right >= 3


def test_each_model_of_a_batch_has_its_own_start() -> None:
    data = [duels(mode, seed) for mode in ((0.1, 1.5), (2.0, 16.0)) for seed in (0, 1)]
    batch = PreferenceGP(*(torch.stack(parts) for parts in zip(*data, strict=True)))
    batch._start_at_best_mode()
    starts = torch.stack([at_mode(MODES[number]) for number in (0, 0, 1, 1)])
    torch.testing.assert_close(read_scales(batch.covar_module), starts)


def test_what_is_not_learnt_not_allowed_or_has_another_prior_is_left_alone() -> None:
    model = PreferenceGP(*duels(MODES[1]))
    model.covar_module.base_kernel.raw_lengthscale.requires_grad_(False)
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    found = read_scales(model.covar_module)[0].tolist()
    assert found[:2] == pytest.approx([0.21, 0.21])
    assert found[2] != pytest.approx(1.5, rel=1e-3)
    narrow = PreferenceGP(*duels(MODES[1]))
    base = narrow.covar_module.base_kernel
    base.register_constraint("raw_lengthscale", Interval(0.1, 0.3))
    base.lengthscale = 0.25
    narrow._start_at_best_mode()
    assert float(base.lengthscale.detach().max()) < 0.3
    base = RBFKernel(ard_num_dims=2, lengthscale_prior=LogNormalPrior(0.0, 1.0))
    other = PreferenceGP(*make_duels(6, 9, 2), covar_module=ScaleKernel(base).double())
    base.lengthscale = 0.123
    other._start_at_best_mode()
    assert torch.allclose(base.lengthscale, torch.tensor(0.123).double())


def test_priors_can_be_sampled_copied_and_moved() -> None:
    model = PreferenceGP(*make_duels(6, 9, 2))
    torch.manual_seed(0)
    sample_all_priors(model)  # as BoTorch does after a fit that failed
    assert read_scales(model.covar_module).unique().numel() == 3
    other = copy.deepcopy(model).float()
    prior = other.covar_module.scales_prior
    assert prior.modes == MODES
    assert prior.log_prob(read_scales(other.covar_module)).dtype == torch.float32
