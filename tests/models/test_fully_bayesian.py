"""The preference model over samples of its hyperparameters."""

import copy
import math

import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.utils.transforms import is_ensemble, is_fully_bayesian
from gpytorch.kernels import MaternKernel
from gpytorch.priors import GammaPrior

from botorch_pref.data import Choices
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.kernels import NuggetKernel
from botorch_pref.kernels.items import (
    DEFAULT_LENGTHSCALE,
    DEFAULT_OUTPUT_SCALE,
    default_covar_module,
)
from botorch_pref.models import (
    FullyBayesianPreferenceGP,
    LaplaceMarginalLogLikelihood,
    PreferenceGP,
)
from botorch_pref.models.fully_bayesian import MomentMatchedPreferenceGP


def data(dim, num_duels=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    items = torch.rand(2 * num_duels, dim, generator=generator, dtype=torch.double)
    pairs = torch.arange(2 * num_duels).view(-1, 2)
    utility = torch.sin(5.0 * items).sum(-1)
    is_first = (utility[pairs[:, :1]] > utility[pairs[:, 1:]]).expand(-1, 2)
    return items, torch.where(is_first, pairs, pairs.flip(-1))


def fit(model, seed=0):
    torch.manual_seed(seed)
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    return model


def test_samples_have_the_posterior_of_the_scales():
    """Against a grid of both logarithms, under the log-normal prior written out."""
    items, comparisons = data(1)
    model = fit(FullyBayesianPreferenceGP(items, comparisons, num_samples=400, num_steps=12))
    grid = torch.linspace(-4.5, 4.5, 46, dtype=torch.double)
    lengthscale, outputscale = torch.meshgrid(grid, grid, indexing="ij")
    rest = PreferenceGP(items.expand(46, -1, -1), comparisons.expand(46, -1, -1))
    kernel, logs = rest.covar_module, []
    for row in range(46):
        kernel.base_kernel.lengthscale = lengthscale[row].exp().view(46, 1, 1)
        kernel.outputscale = outputscale[row].exp()
        logs.append(rest.log_evidence().detach())
    prior = -0.5 * ((lengthscale - math.log(DEFAULT_LENGTHSCALE) - 0.64) / 0.8) ** 2
    prior = prior - 0.5 * (outputscale - math.log(DEFAULT_OUTPUT_SCALE) - 1.0) ** 2
    weight = (torch.stack(logs) + prior).flatten().softmax(0)
    found = torch.stack(
        [
            model.covar_module.base_kernel.lengthscale.flatten().log(),
            model.covar_module.outputscale.log(),
        ]
    ).detach()
    for sample, values in zip(found, (lengthscale.flatten(), outputscale.flatten()), strict=True):
        mean = weight @ values
        deviation = (weight @ (values - mean) ** 2).sqrt()
        assert abs(sample.mean() - mean) < 4.0 * deviation / 400**0.5
        assert sample.std() == pytest.approx(float(deviation), rel=0.15)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_predictions_are_means_of_models(inference):
    items, comparisons = data(2)
    model = FullyBayesianPreferenceGP(
        items, comparisons, num_samples=3, num_steps=2, inference=inference
    )
    fit(model)
    X = torch.rand(5, 2, 2, dtype=torch.double)
    found, means, chances = model.posterior(X), [], []
    for i in range(3):
        single = PreferenceGP(items, comparisons, inference=inference)
        single.covar_module.base_kernel.lengthscale = model.covar_module.base_kernel.lengthscale[i]
        single.covar_module.outputscale = model.covar_module.outputscale[i]
        means.append(single.posterior(X).mean)
        chances.append(single.win_probability(X))
        torch.testing.assert_close(found.mean[:, i], means[-1], rtol=1e-6, atol=1e-6)
    chance, mean = torch.stack(chances).mean(0), torch.stack(means).mean(0)
    torch.testing.assert_close(model.win_probability(X), chance, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(found.mixture_mean, mean, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(model.posterior_mean(X), found.mixture_mean.squeeze(-1))
    gap, variance = model.difference_moments(X)
    torch.testing.assert_close(gap, mean[:, 0, 0] - mean[:, 1, 0], rtol=1e-6, atol=1e-6)
    covariance = found.mixture_covariance_matrix
    expected = covariance[:, 0, 0] + covariance[:, 1, 1] - 2.0 * covariance[:, 0, 1]
    torch.testing.assert_close(variance, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.filterwarnings("ignore:A not p.d.")  # of points that an optimizer has joined
def test_acquisition_functions_average_over_samples():
    items, comparisons = data(2)
    model = fit(FullyBayesianPreferenceGP(items, comparisons, num_samples=4, num_steps=4))
    assert is_ensemble(model)
    assert is_fully_bayesian(model)
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    rules = {
        AnalyticExpectedUtilityOfBestOption(model): 2,
        qExpectedUtilityOfBestOption(model): 3,
        LogExpectedImprovement(model, best_f=0.0): 1,
    }
    for rule, q in rules.items():
        X, value = optimize_acqf(rule, bounds, q=q, num_restarts=2, raw_samples=8)
        assert X.shape == (q, 2)
        assert bool(value.isfinite())


def test_data_and_transforms_are_those_of_the_base():
    items, comparisons = data(2)
    choices = Choices(items, torch.tensor([[0, 3, 5], [2, 4, 6]]), torch.tensor([1, 2]))
    model = FullyBayesianPreferenceGP(
        10.0 * items,
        comparisons,
        input_transform=Normalize(2),
        choices=choices.__class__(10.0 * items, choices.items, choices.favourite),
        num_samples=2,
        num_steps=1,
    )
    fit(model)
    again = copy.deepcopy(model)
    X = 10.0 * torch.rand(3, 2, 2, dtype=torch.double)
    torch.testing.assert_close(again.win_probability(X), model.win_probability(X))
    new = FullyBayesianPreferenceGP(items, comparisons, num_samples=2)
    new.load_state_dict({k: v for k, v in model.state_dict().items() if "input_transform" not in k})
    assert torch.equal(new.covar_module.outputscale, model.covar_module.outputscale)


def test_scales_may_be_large_and_the_inference_has_been_used():
    """Nearly noiseless answers want output scales far beyond the longest lengthscale."""
    items = torch.linspace(0, 1, 40, dtype=torch.double).unsqueeze(-1)
    pairs = torch.combinations(torch.arange(40))[::5]
    model = FullyBayesianPreferenceGP(
        items, pairs.flip(-1), inference="ep", num_samples=8, num_steps=16
    )
    model.log_evidence()
    fit(model)
    assert model.inference == "ep"
    assert float(model.covar_module.outputscale.detach().max()) > 99.0


def test_moments_are_those_of_the_mixture():
    items, comparisons = data(2)
    options = {"num_samples": 3, "num_steps": 2}
    mixture = fit(FullyBayesianPreferenceGP(items, comparisons, **options))
    single = MomentMatchedPreferenceGP(items, comparisons, **options)
    single.load_state_dict(mixture.state_dict())
    X = torch.rand(4, 3, 2, dtype=torch.double)
    found, means, covariances = single.posterior(X), [], []
    for i in range(3):
        one = PreferenceGP(items, comparisons)
        one.covar_module.base_kernel.lengthscale = mixture.covar_module.base_kernel.lengthscale[i]
        one.covar_module.outputscale = mixture.covar_module.outputscale[i]
        joint = one.posterior(X)
        means.append(joint.mean.squeeze(-1))
        covariances.append(joint.covariance_matrix)
    means, covariances = torch.stack(means), torch.stack(covariances)
    mean = means.mean(0)
    between = (means - mean).unsqueeze(-1) * (means - mean).unsqueeze(-2)
    torch.testing.assert_close(found.mean.squeeze(-1), mean, rtol=1e-6, atol=1e-6)
    expected = (covariances + between).mean(0)
    torch.testing.assert_close(found.covariance_matrix, expected, rtol=1e-6, atol=1e-6)
    assert not is_ensemble(single)
    value = AnalyticExpectedUtilityOfBestOption(single)(X[:, :2])
    assert value.shape == (4,)


def test_other_kernels_are_sampled_as_their_priors_are():
    """Without data the samples are draws from the priors: of a share, of a log-normal scale."""
    kernel = default_covar_module(2, torch.Size([400]), lengthscale=0.3, outputscale=2.0)
    kernel.base_kernel = NuggetKernel(kernel.base_kernel)
    items, _ = data(2)
    model = FullyBayesianPreferenceGP(items, None, covar_module=kernel, num_steps=4)
    fit(model)
    base = kernel.base_kernel
    assert base.nugget.shape == (400, 1)
    share = base.raw_nugget.detach()
    assert float(share.mean()) == pytest.approx(math.log(0.3 / 0.7), abs=0.2)
    assert float(share.std()) == pytest.approx(1.0, rel=0.15)
    logs = base.base_kernel.lengthscale.detach().log()
    assert float(logs.mean()) == pytest.approx(math.log(0.3) + 0.64, abs=0.1)
    assert float(logs.std()) == pytest.approx(0.8, rel=0.15)
    logs = kernel.outputscale.detach().log()
    assert float(logs.mean()) == pytest.approx(math.log(2.0) + 1.0, abs=0.2)


def test_what_it_cannot_do_is_said():
    items, comparisons = data(2)
    with pytest.raises(ComparisonDataError, match="datapoints"):
        FullyBayesianPreferenceGP(items.expand(2, -1, -1), comparisons.expand(2, -1, -1))
    model = FullyBayesianPreferenceGP(items, comparisons, num_samples=2)
    mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
    with pytest.raises(UnsupportedError, match="fantasies"):
        model.fantasize(items[:2], SobolQMCNormalSampler(torch.Size([2])))
    with pytest.raises(UnsupportedError, match="optimizer"):
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 3}})
    kernel = default_covar_module(2, torch.Size())
    with pytest.raises(UnsupportedError, match="batch shape"):
        FullyBayesianPreferenceGP(items, comparisons, covar_module=kernel)
    kernel = MaternKernel(batch_shape=torch.Size([3]))
    with pytest.raises(UnsupportedError, match="no priors"):
        FullyBayesianPreferenceGP(items, comparisons, covar_module=kernel)
    kernel = default_covar_module(2, torch.Size([3]))
    kernel.register_prior("outputscale_prior", GammaPrior(2.0, 1.0), "outputscale")
    with pytest.raises(UnsupportedError, match="outputscale_prior"):
        FullyBayesianPreferenceGP(items, comparisons, covar_module=kernel)
