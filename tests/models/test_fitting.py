"""The default priors, and the modes that a fit starts from."""

import copy
import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.optim.utils import sample_all_priors
from gpytorch.kernels import RBFKernel
from gpytorch.priors import LogNormalPrior
from scipy.stats import lognorm
from torch import Size, Tensor

from botorch_pref.models import BernoulliGP, LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.models.fitting import (
    LengthscalePrior,
    default_covar_module,
    start_at_best_mode,
)
from tests.models.common import make_duels, rand

MODES = (0.3, 0.7)


def density(x: Tensor, mode: float, width: float) -> float:
    """The log density of independent log-normals, by SciPy, less that at their mode."""
    law = lognorm(s=width, scale=mode * math.exp(width**2))
    return float((law.logpdf(x.numpy()) - law.logpdf(mode)).sum())


def log_objective(model: PreferenceGP | BernoulliGP, lengthscale: float) -> Tensor:
    """Evidence and prior of the lengthscale, of a copy."""
    other = copy.deepcopy(model)
    other.covar_module.base_kernel.lengthscale = lengthscale
    with torch.no_grad():
        prior = other.covar_module.base_kernel.lengthscale_prior
        log_prior = prior.log_prob(other.covar_module.base_kernel.lengthscale)
        return other.log_evidence() + log_prior.squeeze(-1)


def duels(lengthscale: float, seed: int = 0, m: int = 150) -> tuple[Tensor, Tensor]:
    """Logistic answers by a draw of the default process with that lengthscale."""
    X = rand(60, 2, seed=seed)
    kernel = default_covar_module(2, Size(), lengthscales=(lengthscale,)).double()
    with torch.no_grad():
        root = torch.linalg.cholesky(kernel(X).to_dense() + 1e-8 * torch.eye(60))
    generator = torch.Generator().manual_seed(seed)
    utility = root @ torch.randn(60, generator=generator, dtype=torch.double)
    rows = torch.stack([torch.randperm(60, generator=generator)[:2] for _ in range(m)])
    gap = utility[rows[:, 0]] - utility[rows[:, 1]]
    wins = torch.rand(m, generator=generator, dtype=torch.double) < gap.sigmoid()
    return X, torch.where(wins.unsqueeze(-1), rows, rows.flip(-1))


def test_the_prior_is_a_mixture_of_log_normals_of_equal_height() -> None:
    prior = LengthscalePrior((0.2, 1.5), 0.6)
    for x in ([0.2, 0.2, 0.2], [1.5, 1.5, 1.5], [0.3, 2.0, 0.7], [1e-3, 50.0, 1.0]):
        at = torch.tensor([x], dtype=torch.double)
        parts = [density(at, mode, 0.6) for mode in (0.2, 1.5)]
        wanted = max(parts) + math.log(sum(math.exp(part - max(parts)) for part in parts))
        found = prior.log_prob(at)
        assert found.shape == (1,)
        assert found.item() == pytest.approx(wanted, rel=1e-10, abs=1e-10)


def test_one_mode_is_the_log_normal_prior() -> None:
    prior = LengthscalePrior((0.4,), 0.8)
    x = torch.tensor([[0.1, 0.5, 3.0]], dtype=torch.double)
    assert prior.log_prob(x).item() == pytest.approx(density(x, 0.4, 0.8))
    assert prior.mode.item() == pytest.approx(0.4)


@pytest.mark.parametrize("batch_shape", [(), (3,), (2, 3)])
def test_the_gradient_of_the_prior(batch_shape: tuple[int, ...]) -> None:
    prior = LengthscalePrior(MODES, 0.8)
    x = 0.1 + 2 * rand(*batch_shape, 1, 4)
    assert prior.log_prob(x).shape == (*batch_shape, 1)
    assert torch.autograd.gradcheck(prior.log_prob, x.requires_grad_())


def test_the_default_priors_are_at_their_modes() -> None:
    kernel = default_covar_module(3, Size())
    base = kernel.base_kernel
    assert base.lengthscale_prior.modes == MODES
    assert torch.allclose(base.lengthscale, torch.full((1, 3), MODES[0]))
    assert kernel.outputscale.item() == pytest.approx(4.0)
    assert kernel.outputscale_prior.mode.item() == pytest.approx(4.0)
    # The 90 % ranges of the docstring.
    for mode, low, high in ((0.3, 0.15, 2.1), (0.7, 0.36, 4.9)):
        law = lognorm(s=0.8, scale=mode * math.exp(0.64))
        assert law.ppf([0.05, 0.95]) == pytest.approx([low, high], rel=0.02)
    assert lognorm(s=1.0, scale=4 * math.e).ppf([0.05, 0.95]) == pytest.approx([2.1, 56], rel=0.02)


def test_a_fit_without_answers_that_tell_stays_at_a_mode() -> None:
    X = torch.tensor([[0.2, 0.5], [0.8, 0.1]], dtype=torch.double)
    model = PreferenceGP(X, torch.tensor([[0, 1]]))
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    lengthscale = model.covar_module.base_kernel.lengthscale.detach()
    # Beyond the mode by what one answer says of either dimension.
    assert min(float((lengthscale / mode).log().abs().max()) for mode in MODES) < 0.5


@pytest.mark.parametrize("mode", MODES)
def test_answers_choose_the_start(mode: float) -> None:
    right = 0
    for seed in range(8):
        model = PreferenceGP(*duels(mode, seed))
        values = torch.stack([log_objective(model, one) for one in MODES])
        start_at_best_mode(model, model.log_evidence)
        found = model.covar_module.base_kernel.lengthscale
        assert torch.allclose(found, torch.full_like(found, MODES[int(values.argmax())]))
        assert found.requires_grad
        right += int(values.argmax()) == MODES.index(mode)
    assert right >= 6


def test_values_that_are_better_than_all_modes_stay() -> None:
    model = PreferenceGP(*duels(0.5))
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    fitted = model.covar_module.base_kernel.lengthscale.clone()
    start_at_best_mode(model, model.log_evidence)
    assert torch.equal(model.covar_module.base_kernel.lengthscale, fitted)


def test_each_model_of_a_batch_has_its_own_start() -> None:
    data = [duels(lengthscale, seed) for lengthscale in (0.1, 2.0) for seed in (0, 1)]
    batch = PreferenceGP(*(torch.stack(parts) for parts in zip(*data, strict=True)))
    start_at_best_mode(batch, batch.log_evidence)
    found = batch.covar_module.base_kernel.lengthscale
    starts = torch.tensor([0.3, 0.3, 0.7, 0.7], dtype=torch.double)
    assert torch.allclose(found, starts.view(4, 1, 1).expand(4, 1, 2))
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(batch.likelihood, batch))
    for row, (X, rows) in enumerate(data):
        alone = PreferenceGP(X, rows)
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(alone.likelihood, alone))
        torch.testing.assert_close(
            batch.covar_module.base_kernel.lengthscale[row],
            alone.covar_module.base_kernel.lengthscale,
            rtol=1e-2,
            atol=0.0,
        )


def test_shared_hyperparameters_have_one_start() -> None:
    data = [duels(lengthscale) for lengthscale in MODES]
    parts = [torch.stack(part) for part in zip(*data, strict=True)]
    batch = PreferenceGP(*parts, covar_module=default_covar_module(2, Size()).double())
    values = torch.stack([log_objective(batch, mode).sum() for mode in MODES])
    start_at_best_mode(batch, batch.log_evidence)
    found = batch.covar_module.base_kernel.lengthscale
    assert torch.allclose(found, torch.full_like(found, MODES[int(values.argmax())]))


def test_labels_are_fitted_from_the_best_start_too() -> None:
    X = rand(40, 2)
    model = BernoulliGP(X, (X.sum(-1, keepdim=True) > 1.0).double())
    values = torch.stack([log_objective(model, mode) for mode in MODES])
    start_at_best_mode(model, model.log_evidence)
    found = model.covar_module.base_kernel.lengthscale
    assert torch.allclose(found, torch.full_like(found, MODES[int(values.argmax())]))


def test_kernels_with_other_priors_are_left_alone() -> None:
    kernel = RBFKernel(ard_num_dims=2, lengthscale_prior=LogNormalPrior(0.0, 1.0)).double()
    kernel.lengthscale = 0.123
    model = PreferenceGP(*make_duels(6, 9, 2), covar_module=kernel)
    start_at_best_mode(model, model.log_evidence)
    assert torch.allclose(kernel.lengthscale, torch.tensor(0.123).double())


def test_priors_can_be_sampled_copied_and_moved() -> None:
    model = PreferenceGP(*make_duels(6, 9, 2))
    torch.manual_seed(0)
    sample_all_priors(model)  # as BoTorch does after a fit that failed
    assert model.covar_module.base_kernel.lengthscale.unique().numel() == 2
    other = copy.deepcopy(model).float()
    prior = other.covar_module.base_kernel.lengthscale_prior
    assert prior.modes == MODES
    assert prior.log_prob(other.covar_module.base_kernel.lengthscale).dtype == torch.float32
