"""What BoTorch's own tests ask of ``PairwiseGP``, asked of ``PreferenceGP``."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.exceptions.warnings import InputDataWarning, _get_single_precision_warning
from botorch.fit import fit_gpytorch_mll
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling import SobolQMCNormalSampler
from botorch.sampling.pairwise_samplers import PairwiseSobolQMCNormalSampler
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import ScaleKernel
from gpytorch.models import GP
from torch import Size, Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.models import PreferenceGP
from tests.models.common import assert_same_posterior, make_duels, make_kernel, rand

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
batches = pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
likelihoods = pytest.mark.parametrize("likelihood", [LogitLikelihood(), ProbitLikelihood()])


def make_data(
    batch_shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float64, n: int = 6, m: int = 9
) -> tuple[Tensor, Tensor]:
    """Items of their own in every batch element, and the answers that go with them."""
    count = Size(batch_shape).numel()
    data = [make_duels(n, m, 2, seed=seed) for seed in range(count)]
    X, comparisons = (torch.stack(parts) for parts in zip(*data, strict=True))
    return X.view(*batch_shape, n, 2).to(dtype), comparisons.view(*batch_shape, m, 2)


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@batches
@dtypes
@likelihoods
def test_a_model_of_any_batch_shape_type_and_link(
    batch_shape: tuple[int, ...], dtype: torch.dtype, likelihood: BernoulliLikelihood
) -> None:
    X, comparisons = make_data(batch_shape, dtype)
    model = PreferenceGP(X, comparisons, likelihood=likelihood)
    assert isinstance(model, Model)
    assert isinstance(model, GP)
    assert isinstance(model.covar_module, ScaleKernel)
    assert model.likelihood is likelihood
    assert model.num_outputs == 1
    assert model.batch_shape == Size(batch_shape)
    assert torch.equal(model.datapoints, X)
    assert torch.equal(model.comparisons, comparisons)
    assert torch.equal(model.train_inputs[0], X)
    assert torch.equal(model.train_targets, comparisons)
    base = model.covar_module.base_kernel
    assert base.lengthscale.shape == (*batch_shape, 1, 2)
    assert model.covar_module.outputscale.shape == batch_shape
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert isinstance(model(X), MultivariateNormal)
    posterior = model.posterior(X)
    assert isinstance(posterior, GPyTorchPosterior)
    assert posterior.mean.dtype == dtype
    assert (posterior.variance > 0).all()


@batches
@likelihoods
def test_a_few_steps_of_fitting(
    batch_shape: tuple[int, ...], likelihood: BernoulliLikelihood
) -> None:
    model = PreferenceGP(*make_data(batch_shape), likelihood=likelihood)
    before = {name: value.clone() for name, value in model.named_parameters()}
    mll = PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 2}})
    assert all(not torch.equal(v, before[name]) for name, v in model.named_parameters())
    assert all(value.requires_grad for value in model.parameters())
    assert not model.training


def test_the_prior_with_its_default_kernel() -> None:
    prior = PreferenceGP(None, None)
    posterior = prior.posterior(rand(3, 4, 2).float())
    assert posterior.mean.shape == (3, 4, 1)
    assert (posterior.mean == 0).all()
    assert prior.datapoints is None
    assert prior.comparisons is None


@batches
def test_conditioning_adds_items_and_comparisons(batch_shape: tuple[int, ...]) -> None:
    X, comparisons = make_data(batch_shape)
    model = PreferenceGP(X, comparisons, covar_module=make_kernel(2))
    new, rows = make_data(batch_shape, n=4, m=3)
    conditioned = model.condition_on_observations(new, rows)
    assert isinstance(conditioned, PreferenceGP)
    assert conditioned.datapoints.shape == (*batch_shape, 10, 2)
    assert conditioned.comparisons.shape == (*batch_shape, 12, 2)
    assert torch.equal(conditioned.comparisons[..., 9:, :], rows + 6)
    assert model.datapoints.shape == (*batch_shape, 6, 2)
    posterior = conditioned.posterior(rand(3, 2))
    assert posterior.mean.shape == (*batch_shape, 3, 1)
    twice = conditioned.condition_on_observations(new, rows)
    assert twice.datapoints.shape == (*batch_shape, 14, 2)


@pytest.mark.parametrize("new_batch", [(2,), (3, 2)])
def test_conditioning_broadcasts_batch_shapes(new_batch: tuple[int, ...]) -> None:
    model = PreferenceGP(*make_data(), covar_module=make_kernel(2))
    conditioned = model.condition_on_observations(*make_data(new_batch, n=3, m=2))
    assert conditioned.batch_shape == Size(new_batch)
    assert conditioned.posterior(rand(5, 2)).mean.shape == (*new_batch, 5, 1)
    shared = model.condition_on_observations(
        rand(3, 2), make_data(new_batch, n=3, m=2)[1]
    )  # the same new items, answered differently
    assert shared.batch_shape == Size(new_batch)


def test_conditioning_on_values_is_refused() -> None:
    model = PreferenceGP(*make_data())
    with pytest.raises(ComparisonDataError):
        model.condition_on_observations(rand(3, 2), rand(3, 1))
    with pytest.raises(ComparisonDataError):
        model.condition_on_observations(rand(3, 2), rand(3, 2))


@batches
def test_fantasising_returns_a_model(batch_shape: tuple[int, ...]) -> None:
    model = PreferenceGP(*make_data(batch_shape))
    sampler = SobolQMCNormalSampler(Size([3]))
    fantasies = model.fantasize(rand(*batch_shape, 2, 2), sampler)
    assert isinstance(fantasies, PreferenceGP)
    assert fantasies.batch_shape == Size([3, *batch_shape])
    assert fantasies.datapoints.shape == (3, *batch_shape, 8, 2)


def test_equal_items_given_twice_are_as_good_as_one() -> None:
    X, comparisons = make_data()
    twice = torch.cat([X, X[:3]])
    rows = torch.where(comparisons < 3, comparisons + 6, comparisons)
    rows = torch.cat([comparisons[:4], rows[4:]])  # now one, now the other
    Z = rand(4, 2)
    doubled = PreferenceGP(twice, rows, covar_module=make_kernel(2))
    plain = PreferenceGP(X, comparisons, covar_module=make_kernel(2))
    assert_same_posterior(doubled.posterior(Z), plain.posterior(Z), atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(doubled.log_evidence(), plain.log_evidence())
    utility = doubled.posterior(twice).mean
    torch.testing.assert_close(utility[:3], utility[6:])


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_a_winner_has_the_higher_utility(shift: float) -> None:
    X = torch.tensor([[0.1], [0.5], [0.9]]).double() + shift
    comparisons = torch.tensor([[2, 1], [1, 0], [2, 0]])
    model = PreferenceGP(X, comparisons, input_transform=Normalize(d=1))
    low, middle, high = model.posterior(X).mean.flatten()
    assert low < middle < high


@batches
def test_dimension_and_utility_are_there(batch_shape: tuple[int, ...]) -> None:
    X, comparisons = make_data(batch_shape)
    model = PreferenceGP(X, comparisons, input_transform=Normalize(d=2))
    assert model.dim == 2
    assert model.utility is not None
    assert model.utility.shape == X.shape[:-1]
    mean = model.posterior(X).mean.squeeze(-1)
    assert torch.equal(model.utility, mean)
    prior = PreferenceGP(None, None)
    assert prior.dim is None
    assert prior.utility is None
    values = PreferenceGP(None, None, values=(rand(4, 3), rand(4, 1)))
    assert values.dim == 3
    assert values.utility is None


@batches
def test_items_without_comparisons_are_the_prior(batch_shape: tuple[int, ...]) -> None:
    X, comparisons = make_data(batch_shape)
    prior, model = PreferenceGP(X, None), PreferenceGP(X, comparisons)
    assert prior.covar_module.base_kernel.ard_num_dims == 2
    posterior = prior.posterior(X)
    assert (posterior.mean == 0.0).all()
    torch.testing.assert_close(
        posterior.distribution.covariance_matrix, prior.covar_module(X).to_dense()
    )
    model.set_train_data(X, None)
    assert_same_posterior(model.posterior(X), posterior)
    model.set_train_data(X, comparisons)
    assert_same_posterior(model.posterior(X), PreferenceGP(X, comparisons).posterior(X))
    with pytest.raises(ComparisonDataError, match="`datapoints` must have shape"):
        PreferenceGP(X.flatten()[0], None)


def test_arguments_of_set_train_data() -> None:
    X, comparisons = make_data()
    model = PreferenceGP(X, comparisons)
    model.set_train_data(X, comparisons.flip(-1), strict=True, update_model=False)
    assert_same_posterior(model.posterior(X), PreferenceGP(X, comparisons.flip(-1)).posterior(X))
    for items, rows in ((X[:-1], comparisons[:1]), (X, comparisons[:1]), (X.float(), comparisons)):
        with pytest.raises(RuntimeError, match=r"Cannot modify (shape|dtype)"):
            model.set_train_data(items, rows, strict=True)
    assert torch.equal(model.datapoints, X)
    assert torch.equal(model.comparisons, comparisons.flip(-1))


def test_arguments_of_the_solver_are_accepted() -> None:
    X, comparisons = make_data()
    options = {
        "jitter": 1e-3,
        "xtol": 1e-2,
        "consolidate_rtol": 0.1,
        "consolidate_atol": 0.1,
        "maxfev": 3,
    }
    PairwiseGP(X, comparisons, **options)
    assert_same_posterior(
        PreferenceGP(X, comparisons, **options).posterior(X),
        PreferenceGP(X, comparisons).posterior(X),
    )
    with pytest.raises(TypeError, match="xtoll"):
        PreferenceGP(X, comparisons, xtoll=1e-2)


def test_an_empty_state_loads_nothing() -> None:
    """Ax's cross-validation hands one to the model of an auxiliary experiment."""
    model = PreferenceGP(*make_data())
    before = copy.deepcopy(model.state_dict())
    model.load_state_dict({})
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    with pytest.raises(RuntimeError, match="Missing key"):
        model.load_state_dict({"mean_module.constant": torch.zeros(())})


def test_the_warning_of_single_precision_is_botorchs() -> None:
    X, comparisons = make_data(dtype=torch.float32)
    message = _get_single_precision_warning(str(torch.float32))
    with pytest.warns(InputDataWarning) as caught:
        PreferenceGP(X, comparisons)
    assert [str(one.message) for one in caught] == [message]


@pytest.mark.filterwarnings("ignore:__array_wrap__ must:DeprecationWarning")  # BoTorch's sampler
@batches
@pytest.mark.parametrize("q", [2, 4])
def test_pairwise_samplers_fantasise(batch_shape: tuple[int, ...], q: int) -> None:
    model = PreferenceGP(*make_data(batch_shape))
    sampler = PairwiseSobolQMCNormalSampler(sample_shape=Size([3]), seed=0)
    X = torch.rand(*batch_shape, q, 2, dtype=torch.float64)
    fantasies = model.fantasize(X, sampler)
    assert fantasies.batch_shape == Size([3, *batch_shape])
    Z = rand(5, 2)
    assert fantasies.posterior(Z).mean.shape == Size([3, *batch_shape, 5, 1])
    # All pairs of the drawn items, each answered as the draw has it.
    draws = sampler(model.posterior(X))
    added = fantasies.comparisons[..., -(q * (q - 1) // 2) :, :] - 6
    assert torch.equal(added.cpu(), draws)


def test_max_value_entropy_search() -> None:
    model = PreferenceGP(*make_data())
    candidates = torch.rand(20, 2, dtype=torch.float64)
    # It asks for the posterior of observations, and it fantasises values that nobody measures.
    rule = qMaxValueEntropy(model, candidates, num_mv_samples=4)
    values = rule(torch.rand(3, 1, 2, dtype=torch.float64))
    assert values.shape == Size([3])
    assert values.isfinite().all()


def test_input_constructors_of_eubo_over_outcomes() -> None:
    outcomes, comparisons = make_data()
    preferences = PreferenceGP(outcomes, comparisons)
    design = GenericDeterministicModel(lambda X: X[..., :2] + X[..., 2:], num_outputs=2)
    for rule in (AnalyticExpectedUtilityOfBestOption, qExpectedUtilityOfBestOption):
        options = {"model": design, "pref_model": preferences}
        arguments = get_acqf_input_constructor(rule)(**options)
        value = rule(**arguments)(torch.rand(2, 4, dtype=torch.float64))
        assert value.isfinite().all()
