"""The default priors, near whose modes a fit stays while answers say little; and the search."""

import copy
import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.optim.fit import fit_gpytorch_mll_scipy, fit_gpytorch_mll_torch
from botorch.optim.utils import sample_all_priors
from scipy.stats import lognorm
from torch import Size

from botorch_pref.data import Comparisons
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


@pytest.mark.parametrize("dim", [1, 8, 9, 64, 768])
def test_the_lengthscale_grows_as_distances_do(dim: int) -> None:
    """No jump beyond eight dimensions, and neighbours of 8 and of 768 columns are as alike."""
    mode = default_covar_module(dim, Size()).base_kernel.lengthscale
    assert mode.shape == (1, dim)
    expected = DEFAULT_LENGTHSCALE * max(1.0, dim / 8) ** 0.5
    torch.testing.assert_close(mode, torch.full_like(mode, expected))


def test_rows_of_many_columns_teach_of_each_other() -> None:
    """Of 60 duels of 40 rows, each a mixture of three factors, other rows' order is learnt."""
    columns, factors = rand(3, 400, seed=1) - 0.5, rand(80, 3, seed=2)
    X = factors @ columns
    X = (X - X.amin(0)) / (X.amax(0) - X.amin(0))
    utility = factors @ torch.tensor([4.0, 2.0, -3.0], dtype=torch.double)
    generator = torch.Generator().manual_seed(0)
    rows = torch.stack([torch.randperm(40, generator=generator)[:2] for _ in range(60)])
    order = utility[rows].argsort(dim=-1, descending=True)
    model = PreferenceGP(X[:40], rows.gather(1, order))
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    with torch.no_grad():
        mean = model.posterior(X[40:]).mean.squeeze(-1)
    assert torch.corrcoef(torch.stack([mean, utility[40:]]))[0, 1] > 0.9


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


# ------------------------------------------------------------------- with annotators


def answers_of_people(number: int, people: int = 8, seed: int = 0) -> Comparisons:
    """Duels of people of different reliability, who prefer the first; one answers most of them."""
    generator = torch.Generator().manual_seed(seed)
    X = rand(20, 3, seed=seed)
    rows = torch.rand(number, 20, generator=generator).argsort(-1)[:, :2]
    who = (people * torch.rand(number, generator=generator) ** 3).long()
    value = 4.0 * (torch.sin(5.0 * X[:, 0]) + X[:, 1])
    size = torch.linspace(-1.0, 1.0, people).exp().double()[who]
    latent = size * (value[rows[:, 0]] - value[rows[:, 1]]) + 1.0
    chance = torch.rand(number, generator=generator, dtype=torch.double)
    wins = (chance < latent.sigmoid()).double()
    return Comparisons(X, rows, wins, torch.ones_like(wins), who)


def searched(data: Comparisons, **kwargs: object) -> tuple[PreferenceGP, float, int]:
    """A fitted model, the objective there, and the number of its evaluations."""
    model, number = PreferenceGP(data.datapoints, data), 0

    def evaluated(mll: object) -> torch.Tensor:
        nonlocal number
        number += 1
        return PreferenceGP.compute_custom_loss(model, mll)

    model.compute_custom_loss = evaluated
    mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, **kwargs)
    found = number
    return model, float(mll(None, None).detach()), found


@pytest.mark.parametrize("number", [60, 300, 3000])
def test_annotators_cost_few_more_evaluations(number: int) -> None:
    data = answers_of_people(number)
    model, best, evaluations = searched(data)
    plain, same, unscaled = searched(data, optimizer=fit_gpytorch_mll_scipy)
    assert best == pytest.approx(same, abs=1e-3)
    assert evaluations <= 0.9 * unscaled
    assert evaluations <= 2.5 * searched(data.pooled())[2]
    for (name, one), other in zip(model.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=2e-2, rtol=2e-2, msg=name)


def test_what_is_not_to_be_learnt_of_annotators_stays() -> None:
    data = answers_of_people(200)
    model = PreferenceGP(data.datapoints, data)
    effects = model.learnt["annotators"]
    with torch.no_grad():
        effects.typical_offset.fill_(0.25)
    for name in ("typical_offset", "logit_lapse", "typical_logit_lapse"):
        getattr(effects, name).requires_grad_(False)
    mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
    before = float(mll(None, None).detach())
    fit_gpytorch_mll(mll)
    assert float(mll(None, None).detach()) > before + 1.0
    assert effects.typical_offset.item() == 0.25
    assert not effects.logit_lapse.any()
    assert effects.offset.abs().max() > 0.05


def test_annotators_of_a_batch_are_searched_together() -> None:
    data = answers_of_people(80, 3)
    expanded = data.expand(Size([2]))
    both = PreferenceGP(expanded.datapoints, expanded)
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(both.likelihood, both))
    _, best, _ = searched(data)
    mll = LaplaceMarginalLogLikelihood(both.likelihood, both)
    assert float(mll(None, None).detach()) == pytest.approx(2.0 * best, abs=1e-3)


def test_another_search_is_the_callers() -> None:
    data = answers_of_people(60)
    model = PreferenceGP(data.datapoints, data)
    mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
    before = float(mll(None, None).detach())
    fit_gpytorch_mll(mll, optimizer=fit_gpytorch_mll_torch, optimizer_kwargs={"step_limit": 3})
    assert float(mll(None, None).detach()) > before
    start = copy.deepcopy(model.state_dict())
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 1}})
    assert any(not torch.equal(value, start[name]) for name, value in model.state_dict().items())
    after = float(mll(None, None).detach())
    fit_gpytorch_mll(mll)
    assert float(mll(None, None).detach()) > after
