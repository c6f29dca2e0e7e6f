"""The preference model inside BoTorch, and what BoTorch's own tests ask of ``PairwiseGP``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import gpytorch
import pytest
import torch
from botorch.acquisition import qKnowledgeGradient
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.max_value_entropy_search import qMaxValueEntropy
from botorch.acquisition.objective import GenericMCObjective, LearnedObjective
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelList, SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.model import Model
from botorch.models.pairwise_gp import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize, Warp
from botorch.optim import optimize_acqf, optimize_acqf_discrete, optimize_acqf_mixed
from botorch.posteriors import GPyTorchPosterior
from botorch.sampling import SobolQMCNormalSampler
from botorch.sampling.get_sampler import get_sampler
from botorch.sampling.pairwise_samplers import PairwiseSobolQMCNormalSampler
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from gpytorch.distributions import MultivariateNormal
from gpytorch.kernels import MaternKernel
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.models import GP
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor

from botorch_pref.acquisition import PairAsPoint
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from tests.models.common import (
    assert_same_posterior,
    first_won,
    make_duels,
    make_kernel,
    make_model,
    parameter_gradients,
    rand,
    utility,
)

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
MLLS = [LaplaceMarginalLogLikelihood, PairwiseLaplaceMarginalLogLikelihood]


def fit(
    model: PreferenceGP, mll: type[MarginalLogLikelihood] = LaplaceMarginalLogLikelihood
) -> None:
    fit_gpytorch_mll(mll(model.likelihood, model))


# ----------------------------------------------------------------------- fitting


@pytest.mark.parametrize("transform", [None, Normalize, "warp"])
def test_both_marginal_likelihoods_fit_the_same_model(transform: Any) -> None:
    if transform == "warp":
        names = ("concentration0_prior", "concentration1_prior")
        priors = {name: LogNormalPrior(0.0, 0.5) for name in names}
        transform = partial(Warp, indices=[0, 1], bounds=BOUNDS, **priors)
    found = []
    for mll in MLLS:
        own = None if transform is None else transform(d=2)
        model = make_model(15, 40, covar_module=None, input_transform=own)
        before = model.log_evidence().item()
        fit(model, mll)
        assert model.log_evidence().item() > before
        found.append(model)
    for one, other in zip(*(m.parameters() for m in found), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("mll", MLLS)
def test_the_loss_includes_the_priors(mll: type[MarginalLogLikelihood]) -> None:
    model = make_model(covar_module=None)
    kernel = model.covar_module
    parts = ((kernel, "outputscale"), (kernel.base_kernel, "lengthscale"))
    priors = sum(
        getattr(owner, f"{name}_prior").log_prob(getattr(owner, name)).sum()
        for owner, name in parts
    )
    loss = model.compute_custom_loss(mll(model.likelihood, model))
    torch.testing.assert_close(loss, -(model.log_evidence() + priors))


def _agreeing(num: int) -> tuple[Tensor, Tensor]:
    X = rand(num + 1, 2)
    order = utility(X).argsort(descending=True)
    return X, torch.stack([order[:-1], order[1:]], dim=-1)


def _contradictory(num: int) -> tuple[Tensor, Tensor]:
    X, comparisons = make_duels(6, num, 2)
    return X, torch.cat([comparisons, comparisons.flip(-1)])


def _cyclic(num: int) -> tuple[Tensor, Tensor]:
    return rand(3, 2), torch.tensor([[0, 1], [1, 2], [2, 0]]).repeat(num, 1)


def _clustered(num: int) -> tuple[Tensor, Tensor]:
    """Duels as at the end of a closed loop: all items within 1e-6 of each other but one."""
    X = 0.5 + 1e-6 * rand(num, 2)
    X[0] = 0.1
    return X, torch.stack([torch.arange(1, num), torch.arange(num - 1)], dim=-1)


def _identical(num: int) -> tuple[Tensor, Tensor]:
    return torch.full((num, 2), 0.3).double(), torch.tensor([[i, i + 1] for i in range(num - 1)])


@pytest.mark.parametrize(
    ("num", "likelihood"), [(2, LogitLikelihood), (30, LogitLikelihood), (30, ProbitLikelihood)]
)
@pytest.mark.parametrize("data", [_agreeing, _contradictory, _cyclic, _clustered, _identical])
def test_every_kind_of_duels_can_be_fitted(
    data: Callable[[int], tuple[Tensor, Tensor]], num: int, likelihood: Any
) -> None:
    X, comparisons = data(num)
    model = PreferenceGP(X, comparisons, likelihood=likelihood())
    fit(model)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    posterior = model.posterior(rand(5, 2, seed=1))
    assert posterior.mean.isfinite().all()
    assert (posterior.variance > 0).all()


# ------------------------------------------------------------------ acquisitions


def test_eubo_with_a_previous_winner_and_over_outcomes() -> None:
    model = make_model()
    winner, X = rand(1, 2, seed=4), rand(5, 1, 2, seed=5)
    rule = AnalyticExpectedUtilityOfBestOption(pref_model=model, previous_winner=winner)
    plain = AnalyticExpectedUtilityOfBestOption(pref_model=model)
    pairs = torch.cat([X, winner.expand(5, 1, 2)], dim=-2)
    offset = model.posterior(winner).mean.squeeze()  # BoTorch leaves out the winner's mean
    torch.testing.assert_close(rule(X) + offset, plain(pairs))
    outcome = GenericDeterministicModel(lambda X: torch.cat([X.square(), X], -1)[..., 1:3], 2)
    for kind in (AnalyticExpectedUtilityOfBestOption, qExpectedUtilityOfBestOption):
        arguments = get_acqf_input_constructor(kind)(model=outcome, pref_model=model)
        torch.manual_seed(0)
        found = kind(**arguments)(pairs)
        tolerance = 1e-3 if kind is AnalyticExpectedUtilityOfBestOption else 0.1
        torch.testing.assert_close(found, plain(outcome(pairs)), atol=tolerance, rtol=tolerance)


def test_pairs_over_mixed_and_discrete_domains() -> None:
    torch.manual_seed(0)
    acquisition = PairAsPoint(AnalyticExpectedUtilityOfBestOption(pref_model=make_model()))
    fixed = [{0: 0.0, 2: 1.0}, {0: 1.0, 2: 0.0}]
    options = {"q": 1, "num_restarts": 2, "raw_samples": 16, "fixed_features_list": fixed}
    mixed, _ = optimize_acqf_mixed(acquisition, BOUNDS.repeat(1, 2), **options)
    assert sorted(mixed[0, [0, 2]].tolist()) == [0.0, 1.0]
    first, second = torch.triu_indices(6, 6, offset=1)
    items = rand(6, 2, seed=8)
    choices = torch.cat([items[first], items[second]], dim=-1)
    best, value = optimize_acqf_discrete(acquisition, q=1, choices=choices)
    assert best.shape == (1, 4)
    torch.testing.assert_close(value, acquisition(choices.unsqueeze(-2)).max())


# linear_operator warns so of its own sparse matrices, under SingleTaskGP.
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
def test_preference_over_outcomes() -> None:
    torch.manual_seed(0)
    X = rand(8, 2, seed=2)
    outcomes = torch.stack([X.sum(-1) / 2, X[:, 0] * X[:, 1]], dim=-1)
    outcome_model = SingleTaskGP(X, outcomes)
    preference = make_model()
    objective = LearnedObjective(pref_model=preference, sample_shape=Size([4]), seed=0)
    rule = qLogNoisyExpectedImprovement(
        model=outcome_model,
        X_baseline=X,
        sampler=SobolQMCNormalSampler(Size([8]), seed=0),
        objective=objective,
        prune_baseline=False,
    )
    samples = outcome_model.posterior(rand(3, 1, 2)).rsample(Size([5]))
    assert objective(samples).shape == (20, 3, 1)
    point, value = optimize_acqf(
        rule, BOUNDS, q=1, num_restarts=2, raw_samples=16, options={"maxiter": 10}
    )
    assert point.shape == (1, 2)
    assert value.isfinite()


def test_knowledge_gradient_of_a_duel() -> None:
    torch.manual_seed(0)
    model = make_model()
    rule = qKnowledgeGradient(model, num_fantasies=4)
    value = rule(rand(3, 6, 2, seed=3))
    assert value.shape == (3,)
    assert value.isfinite().all()
    options = {"num_restarts": 2, "raw_samples": 4, "options": {"maxiter": 5}}
    pair, found = optimize_acqf(rule, BOUNDS, q=2, **options)
    assert pair.shape == (2, 2)
    assert found.isfinite()


# ------------------------------------------------------------------- fantasising


def test_fantasised_answers_come_from_the_base_samples() -> None:
    model = make_model()
    pairs = rand(3, 2, 2, seed=3)
    sampler = SobolQMCNormalSampler(Size([16]), seed=0)
    first = first_won(model.fantasize(pairs, sampler))
    again = first_won(model.fantasize(pairs, sampler))
    assert torch.equal(first, again)
    uniform = torch.special.ndtr(sampler.base_samples.reshape(16, 1))
    expected = (uniform < model.win_probability(pairs)).double()
    assert torch.equal(first, expected)
    other = model.fantasize(pairs, SobolQMCNormalSampler(Size([16]), seed=1))
    assert not torch.equal(first, first_won(other))


def test_a_fantasy_is_the_model_conditioned_on_that_answer() -> None:
    model = make_model()
    pair, Z = rand(2, 2, seed=3), rand(5, 2, seed=1)
    fantasies = model.fantasize(pair, SobolQMCNormalSampler(Size([8]), seed=0))
    posterior, answers = fantasies.posterior(Z), first_won(fantasies)
    assert set(answers.tolist()) == {0.0, 1.0}
    for i, answer in enumerate(answers):
        rows = torch.tensor([[0, 1] if answer == 1 else [1, 0]])
        expected = model.condition_on_observations(pair, rows).posterior(Z)
        torch.testing.assert_close(posterior.mean[i], expected.mean)
        torch.testing.assert_close(posterior.covariance_matrix[i], expected.covariance_matrix)


# -------------------------------------------------------------- input transforms


def test_normalize_is_the_model_on_the_unit_cube() -> None:
    X, comparisons = make_duels(8, 12, 2)
    low, span = torch.tensor([-5.0, 100.0]).double(), torch.tensor([10.0, 3.0]).double()
    bounds = torch.stack([low, low + span])
    options = {"covar_module": make_kernel(2), "input_transform": Normalize(2, bounds=bounds)}
    model = PreferenceGP(low + span * X, comparisons, **options)
    plain = PreferenceGP(X, comparisons, covar_module=make_kernel(2))
    Z = rand(4, 2, seed=1)
    assert_same_posterior(model.posterior(low + span * Z), plain.posterior(Z), 1e-8, 1e-8)
    torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
    pairs = rand(4, 2, 2, seed=2)
    chances = model.win_probability(low + span * pairs), plain.win_probability(pairs)
    torch.testing.assert_close(*chances)
    new, answer = rand(1, 2, 2, seed=3), torch.ones(1).double()
    later = model.condition_on_pairs(low + span * new, answer).posterior(low + span * Z)
    wanted = plain.condition_on_pairs(new, answer).posterior(Z)
    assert_same_posterior(later, wanted, 1e-8, 1e-8)


def test_learnt_bounds_stay_through_conditioning_and_are_relearnt_with_new_data() -> None:
    model = make_model(input_transform=Normalize(2))
    bounds = model.input_transform.bounds.clone()
    torch.testing.assert_close(bounds[0], model.datapoints.amin(0))
    far = 10 * rand(2, 2, seed=3)
    conditioned = model.condition_on_observations(far, torch.tensor([[0, 1]]))
    torch.testing.assert_close(conditioned.input_transform.bounds, bounds)
    model.posterior(far)
    torch.testing.assert_close(model.input_transform.bounds, bounds)
    model.set_train_data(far, torch.tensor([[0, 1]]))
    torch.testing.assert_close(model.input_transform.bounds[1], far.amax(0))
    model.posterior(10 * far)
    torch.testing.assert_close(model.input_transform.bounds[1], far.amax(0))


def make_warp() -> Warp:
    transform = Warp(d=2, indices=[0, 1], bounds=BOUNDS).double()
    transform.concentration0.data.copy_(torch.tensor([0.7, 1.6]))
    transform.concentration1.data.copy_(torch.tensor([1.4, 0.8]))
    return transform


@pytest.mark.parametrize("num_duels", [5, 40])
@pytest.mark.parametrize("variance", ["laplace", 4.0])
def test_evidence_posterior_and_fantasies_have_gradients_of_a_warp(
    num_duels: int, variance: str | float
) -> None:
    model = make_model(num_duels=num_duels, input_transform=make_warp(), variance=variance)
    found = parameter_gradients(model, model.log_evidence)
    names = [name for name, _, _ in found]
    assert {"input_transform.concentration0", "input_transform.concentration1"} <= set(names)
    for name, exact, numerical in found:
        assert exact.abs().max() > 1e-3, name
        torch.testing.assert_close(exact, numerical, atol=1e-7, rtol=1e-6, msg=name)
    new, Z = rand(2, 2, seed=3).requires_grad_(), rand(3, 2, seed=1)
    fantasies = model.fantasize(new, SobolQMCNormalSampler(Size([4]), seed=0))
    for one in (model, fantasies):

        def output(one: PreferenceGP = one) -> Tensor:
            posterior = one.posterior(Z)
            return posterior.mean.square().sum() + posterior.variance.sum()

        # GPyTorch's own switch: by default caches carry no graph.
        with gpytorch.settings.detach_test_caches(one is fantasies):
            gradients = parameter_gradients(one, output)
        for name, exact, numerical in gradients:
            torch.testing.assert_close(exact, numerical, atol=1e-6, rtol=1e-6, msg=name)


# --------------------------------------------------------------------- data sets


def ranking(indices: list[list[int]], ranks: list[list[int]]) -> RankingDataset:
    rows = torch.tensor(indices)
    return RankingDataset(
        X=SliceContainer(values=rand(4, 2), indices=rows, event_shape=Size([2 * rows.shape[-1]])),
        Y=torch.tensor(ranks),
        feature_names=["a", "b"],
        outcome_names=["utility"],
    )


def test_a_ranking_of_pairs_constructs_a_model() -> None:
    inputs = PreferenceGP.construct_inputs(
        ranking([[0, 1], [1, 2], [3, 0]], [[0, 1], [1, 0], [1, 0]])
    )
    assert set(inputs) == {"datapoints", "comparisons"}
    assert inputs["comparisons"].tolist() == [[0, 1], [2, 1], [0, 3]]  # rank 0 is best
    model = PreferenceGP(**inputs)
    fit(model)
    assert model.win_probability(model.datapoints[[0, 1]]) > 0.5


def test_rankings_of_any_arity_and_with_ties_are_read() -> None:
    inputs = PreferenceGP.construct_inputs(ranking([[0, 1], [1, 2]], [[0, 1], [0, 0]]))
    assert inputs["comparisons"].wins.tolist() == [1.0, 0.5]
    inputs = PreferenceGP.construct_inputs(ranking([[0, 1, 2], [2, 1, 0]], [[2, 0, 1], [1, 0, 2]]))
    assert inputs["choices"].items.tolist() == [[1, 2, 0], [1, 2, 0]]
    assert inputs["choices"].tied is None
    inputs = PreferenceGP.construct_inputs(ranking([[0, 1, 2], [2, 1, 0]], [[2, 0, 0], [0, 1, 1]]))
    assert inputs["choices"].tied.tolist() == [[True, False], [False, True]]
    assert PreferenceGP(**inputs).posterior(rand(2, 2)).mean.isfinite().all()


def test_data_sets_of_something_else_are_refused() -> None:
    values = SupervisedDataset(
        X=rand(3, 2), Y=rand(3, 1), feature_names=["a", "b"], outcome_names=["y"]
    )
    with pytest.raises(UnsupportedError, match="SupervisedDataset"):
        PreferenceGP.construct_inputs(values)


# ------------------------------------------------------------------- model lists


def test_an_acquisition_of_a_list() -> None:
    torch.manual_seed(0)
    X = rand(6, 2, seed=2)
    preference = make_model()
    models = ModelList(SingleTaskGP(X, X.sum(-1, keepdim=True)), preference)
    posterior = models.posterior(X)
    assert posterior.mean.shape == (6, 2)
    torch.testing.assert_close(posterior.mean[..., 1:], preference.posterior(X).mean)
    acquisition = qLogExpectedImprovement(
        model=models,
        best_f=0.5,
        objective=GenericMCObjective(lambda samples, X: samples.sum(-1)),
        sampler=get_sampler(posterior, Size([16]), seed=0),
    )
    point, value = optimize_acqf(
        acquisition, BOUNDS, q=1, num_restarts=2, raw_samples=16, options={"maxiter": 10}
    )
    assert point.shape == (1, 2)
    assert value.isfinite()
    assert models.subset_output([1]).posterior(X).mean.shape == (6, 1)


# ----------------------------------------------------------- BoTorch's own loop


def test_the_tutorial_loop_runs_with_one_line_changed() -> None:
    """BoTorch's ``preference_bo`` tutorial; the class of the model is the line that changes."""
    torch.manual_seed(1)
    X = rand(4, 2, seed=1)
    y = utility(X)
    comparisons = torch.tensor([[0, 1], [2, 3]])
    wrong = y[comparisons[:, 0]] < y[comparisons[:, 1]]
    comparisons[wrong] = comparisons[wrong].flip(-1)
    best = [y.max().item()]
    for _ in range(3):
        model = PreferenceGP(X, comparisons, input_transform=Normalize(d=2))
        mll = PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model)
        mll = fit_gpytorch_mll(mll)
        rule = AnalyticExpectedUtilityOfBestOption(pref_model=model)
        pair, _ = optimize_acqf(rule, bounds=BOUNDS, q=2, num_restarts=3, raw_samples=64)
        X = torch.cat([X, pair])
        y = utility(X)
        n = len(X)
        row = torch.tensor([[n - 2, n - 1]])
        comparisons = torch.cat([comparisons, row if y[-2] > y[-1] else row.flip(-1)])
        best.append(y.max().item())
    assert X.shape == (10, 2)
    assert ((X >= 0) & (X <= 1)).all()
    assert best[-1] >= best[0]


# ------------------------------------------------------------------------ device


# ------------------------------------------------- BoTorch's tests of PairwiseGP


batches = pytest.mark.parametrize("batch_shape", [(), (2,), (2, 3)])
dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32])


def make_data(
    batch_shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float64, n: int = 6, m: int = 9
) -> tuple[Tensor, Tensor]:
    """Items of their own in every batch element, and the answers that go with them."""
    count = Size(batch_shape).numel()
    data = [make_duels(n, m, 2, seed=seed) for seed in range(count)]
    X, comparisons = (torch.stack(parts) for parts in zip(*data, strict=True))
    return X.view(*batch_shape, n, 2).to(dtype), comparisons.view(*batch_shape, m, 2)


@batches
@dtypes
@pytest.mark.parametrize("likelihood", [LogitLikelihood(), ProbitLikelihood()])
def test_a_model_of_any_batch_shape_type_and_link(
    batch_shape: tuple[int, ...], dtype: torch.dtype, likelihood: BernoulliLikelihood
) -> None:
    X, comparisons = make_data(batch_shape, dtype)
    model = PreferenceGP(X, comparisons, likelihood=likelihood)
    assert isinstance(model, Model)
    assert isinstance(model, GP)
    assert isinstance(model.covar_module.base_kernel, MaternKernel)
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


def test_dimension_and_utility_are_there() -> None:
    X, comparisons = make_data((2,))
    model, prior = PreferenceGP(X, comparisons), PreferenceGP(None, None)
    values = PreferenceGP(None, None, values=(rand(4, 3), rand(4, 1)))
    assert torch.equal(model.utility, model.posterior(X).mean.squeeze(-1))
    assert [one.dim for one in (model, prior, values)] == [2, None, 3]
    assert prior.utility is values.utility is prior.datapoints is prior.comparisons is None
    assert (prior.posterior(rand(3, 4, 2).float()).mean == torch.zeros(3, 4, 1)).all()


def test_items_without_comparisons_are_the_prior() -> None:
    X, comparisons = make_data((2,))
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
    options = {"jitter": 1e-3, "xtol": 1e-2, "consolidate_rtol": 0.1, "consolidate_atol": 0.1}
    PairwiseGP(X, comparisons, maxfev=3, **options)
    model = PreferenceGP(X, comparisons, maxfev=3, **options)
    assert_same_posterior(model.posterior(X), PreferenceGP(X, comparisons).posterior(X))
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


@pytest.mark.filterwarnings("ignore:__array_wrap__ must:DeprecationWarning")  # BoTorch's sampler
@batches
@pytest.mark.parametrize("q", [2, 4])
def test_pairwise_samplers_fantasise(batch_shape: tuple[int, ...], q: int) -> None:
    model = PreferenceGP(*make_data(batch_shape))
    sampler = PairwiseSobolQMCNormalSampler(sample_shape=Size([3]), seed=0)
    X = rand(*batch_shape, q, 2, seed=4)
    fantasies = model.fantasize(X, sampler)
    assert fantasies.batch_shape == Size([3, *batch_shape])
    Z = rand(5, 2)
    assert fantasies.posterior(Z).mean.shape == Size([3, *batch_shape, 5, 1])
    # All pairs of the drawn items, each answered as the draw has it.
    draws = sampler(model.posterior(X))
    added = fantasies.comparisons[..., -(q * (q - 1) // 2) :, :] - 6
    assert torch.equal(added.cpu(), draws)


def test_max_value_entropy_search() -> None:
    torch.manual_seed(0)
    model = PreferenceGP(*make_data())
    candidates = rand(20, 2)
    # It asks for the posterior of observations, and it fantasises values that nobody measures.
    rule = qMaxValueEntropy(model, candidates, num_mv_samples=4)
    values = rule(rand(3, 1, 2, seed=1))
    assert values.shape == Size([3])
    assert values.isfinite().all()
