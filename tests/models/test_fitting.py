"""The default priors, near whose modes a fit stays while answers say little."""

import copy
import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.optim.utils import sample_all_priors
from scipy.stats import lognorm
from torch import Size

from botorch_pref.kernels.items import (
    DEFAULT_LENGTHSCALE,
    DEFAULT_OUTPUT_SCALE,
    LENGTHSCALE_WIDTH,
    OUTPUT_SCALE_WIDTH,
    PriorAround,
    default_covar_module,
)
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from tests.models.common import make_duels, rand

PRIORS = ((DEFAULT_LENGTHSCALE, LENGTHSCALE_WIDTH), (DEFAULT_OUTPUT_SCALE, OUTPUT_SCALE_WIDTH))


@pytest.mark.parametrize(("mode", "width"), [*PRIORS, (0.2, 0.5)])
def test_a_PriorAround_a_mode(mode: float, width: float) -> None:
    law, prior = lognorm(s=width, scale=mode * math.exp(width**2)), PriorAround(mode, width)
    places = mode * torch.logspace(-1.5, 1.5, 31, dtype=torch.double)
    heights = prior.log_prob(places)
    assert heights.numpy() == pytest.approx(law.logpdf(places.numpy()), abs=1e-5)
    assert float(places[heights.argmax()]) == pytest.approx(mode)


@pytest.mark.parametrize("batch_shape", [(), (3,), (2, 3)])
def test_the_default_kernel_is_at_its_modes(batch_shape: tuple[int, ...]) -> None:
    kernel = default_covar_module(3, Size(batch_shape)).double()
    lengthscale = kernel.base_kernel.lengthscale
    assert lengthscale.shape == (*batch_shape, 1, 3)
    torch.testing.assert_close(lengthscale, torch.full_like(lengthscale, DEFAULT_LENGTHSCALE))
    assert kernel.outputscale.shape == batch_shape
    assert kernel.outputscale.mean().item() == pytest.approx(DEFAULT_OUTPUT_SCALE)
    assert len(list(kernel.named_priors())) == 2


def test_the_ranges_that_the_docstring_tells() -> None:
    ends = [end for mode, width in PRIORS for end in interval(mode, width)]
    text = default_covar_module.__doc__ or ""
    assert f"of {DEFAULT_LENGTHSCALE:g} (90 % between {ends[0]:.2g} and {ends[1]:.2g})" in text
    assert f"of {DEFAULT_OUTPUT_SCALE:g} squared" in text
    assert f"({ends[2]:.2g} and {ends[3]:.2g})" in text


def interval(mode: float, width: float) -> tuple[float, float]:
    low, high = lognorm(s=width, scale=mode * math.exp(width**2)).ppf([0.05, 0.95])
    return float(low), float(high)


def test_a_fit_to_answers_that_say_little_stays_at_the_modes() -> None:
    X = torch.tensor([[0.2, 0.5], [0.8, 0.1]], dtype=torch.double)
    model = PreferenceGP(X, torch.tensor([[0, 1]]))
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    kernel = model.covar_module
    # Beyond the mode by what one answer says.
    assert (
        float((kernel.base_kernel.lengthscale.detach() / DEFAULT_LENGTHSCALE).log().abs().max())
        < 0.5
    )
    assert abs(math.log(kernel.outputscale.item() / DEFAULT_OUTPUT_SCALE)) < 0.5


@pytest.mark.parametrize(("lengthscale", "outputscale"), [(0.15, 8.0), (0.4, 30.0)])
def test_many_answers_decide(lengthscale: float, outputscale: float) -> None:
    """The scales of a process are found from 800 of its answers, far from the modes."""
    X = rand(80, 2)
    kernel = default_covar_module(2, Size()).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = lengthscale, outputscale
    with torch.no_grad():
        root = torch.linalg.cholesky(kernel(X).to_dense() + 1e-8 * torch.eye(80))
    generator = torch.Generator().manual_seed(0)
    utility = root @ torch.randn(80, generator=generator, dtype=torch.double)
    rows = torch.stack([torch.randperm(80, generator=generator)[:2] for _ in range(800)])
    gap = utility[rows[:, 0]] - utility[rows[:, 1]]
    wins = torch.rand(800, generator=generator, dtype=torch.double) < gap.sigmoid()
    model = PreferenceGP(X, torch.where(wins.unsqueeze(-1), rows, rows.flip(-1)))
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    found = model.covar_module.base_kernel.lengthscale.detach().log().mean().exp().item()
    assert found == pytest.approx(lengthscale, rel=0.5)


def test_priors_can_be_sampled_copied_and_moved() -> None:
    model = PreferenceGP(*make_duels(6, 9, 2))
    torch.manual_seed(0)
    sample_all_priors(model)  # as BoTorch does after a fit that failed
    kernel = model.covar_module
    assert kernel.base_kernel.lengthscale.unique().numel() == 2
    assert kernel.outputscale.item() != pytest.approx(DEFAULT_OUTPUT_SCALE)
    other = copy.deepcopy(model).float().covar_module
    heights = other.outputscale_prior.log_prob(other.outputscale)
    assert heights.dtype == torch.float32
