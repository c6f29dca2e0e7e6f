"""The preference model inside BoTorch: fitting, acquisitions, transforms, data sets, lists."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gpytorch
import pytest
import torch
from botorch.acquisition import qKnowledgeGradient, qSimpleRegret
from botorch.acquisition.logei import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.objective import GenericMCObjective, LearnedObjective
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import ModelList, PairwiseGP, SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.pairwise_gp import PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import ChainedInputTransform, Normalize, Round, Warp
from botorch.optim import optimize_acqf, optimize_acqf_discrete, optimize_acqf_mixed
from botorch.posteriors import PosteriorList
from botorch.sampling import IIDNormalSampler, SobolQMCNormalSampler
from botorch.sampling.get_sampler import get_sampler
from botorch.utils.containers import SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor

from botorch_pref.acquisition import PairAsPoint
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.models.fitting import read_scales
from tests.common import same
from tests.models.common import (
    assert_same_posterior,
    first_won,
    make_duels,
    make_kernel,
    make_model,
    numerical_gradient,
    parameter_gradients,
    rand,
    utility,
)

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
        transform = lambda d: Warp(  # noqa: E731
            d,
            [0, 1],
            concentration0_prior=LogNormalPrior(0.0, 0.5),
            concentration1_prior=LogNormalPrior(0.0, 0.5),
            bounds=BOUNDS,
        )
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
    priors = kernel.scales_prior.log_prob(read_scales(kernel)).sum()
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


@pytest.mark.parametrize("likelihood", [LogitLikelihood, ProbitLikelihood])
@pytest.mark.parametrize("num", [2, 30])
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


@pytest.mark.slow
def test_closed_loops_never_fail_to_fit() -> None:
    for seed in range(20):
        pairs = rand(2, 2, 2, seed=seed)
        judge = torch.Generator().manual_seed(seed)
        answers = (utility(pairs[:, 0]) > utility(pairs[:, 1])).double()
        model = PreferenceGP.from_pairs(pairs, answers)
        for step in range(20):
            fit(model)
            candidates = rand(256, 2, seed=1000 * seed + step)
            best = model.posterior(candidates).mean.argmax()
            near = (candidates[best] + 1e-3 * torch.randn(2, generator=judge)).clamp(0, 1)
            pair = torch.stack([candidates[best], near]).unsqueeze(0)
            answer = (utility(pair[:, 0]) > utility(pair[:, 1])).double()
            model = model.condition_on_pairs(pair, answer)
            assert model.posterior(candidates).variance.isfinite().all()


# ------------------------------------------------------------------ acquisitions


def test_eubo_is_the_expected_larger_utility() -> None:
    model = make_model()
    pairs = rand(5, 2, 2, seed=1)
    analytic = AnalyticExpectedUtilityOfBestOption(pref_model=model)(pairs)
    sampler = SobolQMCNormalSampler(Size([8192]), seed=0)
    sampled = qExpectedUtilityOfBestOption(pref_model=model, sampler=sampler)(pairs)
    torch.testing.assert_close(analytic, sampled, atol=5e-3, rtol=5e-3)


def test_eubo_with_a_previous_winner() -> None:
    model = make_model()
    winner, X = rand(1, 2, seed=4), rand(5, 1, 2, seed=5)
    rule = AnalyticExpectedUtilityOfBestOption(pref_model=model, previous_winner=winner)
    plain = AnalyticExpectedUtilityOfBestOption(pref_model=model)
    pairs = torch.cat([X, winner.expand(5, 1, 2)], dim=-2)
    offset = model.posterior(winner).mean.squeeze()  # BoTorch leaves out the winner's mean
    torch.testing.assert_close(rule(X) + offset, plain(pairs))
    point, _ = optimize_acqf(rule, BOUNDS, q=1, num_restarts=2, raw_samples=32)
    assert point.shape == (1, 2)
    assert (rule(point) >= rule(X).max() - 1e-6).all()


def test_eubo_with_an_outcome_model() -> None:
    outcome = GenericDeterministicModel(lambda X: torch.cat([X.square(), X], -1)[..., 1:3], 2)
    model = make_model()
    rules = [
        AnalyticExpectedUtilityOfBestOption(pref_model=model, outcome_model=outcome),
        qExpectedUtilityOfBestOption(pref_model=model, outcome_model=outcome),
    ]
    X = rand(4, 2, 2, seed=5)
    direct = AnalyticExpectedUtilityOfBestOption(pref_model=model)
    torch.testing.assert_close(rules[0](X), direct(outcome(X)))
    for rule in rules:
        pair, _ = optimize_acqf(rule, BOUNDS, q=2, num_restarts=2, raw_samples=16)
        assert pair.shape == (2, 2)


@pytest.mark.parametrize(
    "rule", [AnalyticExpectedUtilityOfBestOption, qExpectedUtilityOfBestOption]
)
def test_eubo_is_optimised_over_a_box(rule: Any) -> None:
    torch.manual_seed(0)
    acquisition = rule(pref_model=make_model())
    pair, value = optimize_acqf(acquisition, BOUNDS, q=2, num_restarts=3, raw_samples=64)
    assert pair.shape == (2, 2)
    assert value >= acquisition(rand(256, 2, 2, seed=1)).max() - 1e-6
    assert ((pair >= 0) & (pair <= 1)).all()


def test_eubo_gradient_against_finite_differences() -> None:
    acquisition = AnalyticExpectedUtilityOfBestOption(pref_model=make_model())
    X = rand(1, 2, 2, seed=3).requires_grad_()
    (exact,) = torch.autograd.grad(acquisition(X).sum(), X)
    numerical = numerical_gradient(lambda x: acquisition(x).sum(), X)
    torch.testing.assert_close(exact, numerical, atol=1e-7, rtol=1e-6)


def test_pairs_over_mixed_and_discrete_domains() -> None:
    torch.manual_seed(0)
    acquisition = PairAsPoint(AnalyticExpectedUtilityOfBestOption(pref_model=make_model()))
    box = BOUNDS.repeat(1, 2)
    mixed, _ = optimize_acqf_mixed(
        acquisition,
        box,
        q=1,
        num_restarts=2,
        raw_samples=16,
        fixed_features_list=[{0: 0.0, 2: 1.0}, {0: 1.0, 2: 0.0}],
    )
    assert sorted(mixed[0, [0, 2]].tolist()) == [0.0, 1.0]
    items = rand(6, 2, seed=8)
    first, second = torch.triu_indices(6, 6, offset=1)
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


def test_a_learned_objective_draws_from_the_preference_posterior() -> None:
    model = make_model()
    outcomes = rand(1, 3, 2, seed=3)
    objective = LearnedObjective(pref_model=model, sample_shape=Size([4096]), seed=0)
    draws = objective(outcomes.unsqueeze(1)).squeeze(1)
    posterior = model.posterior(outcomes[0])
    error = posterior.variance.sqrt().squeeze(-1) / 64
    assert ((draws.mean(0) - posterior.mean.squeeze(-1)).abs() < 5 * error).all()


def test_knowledge_gradient_of_a_duel() -> None:
    torch.manual_seed(0)
    model = make_model()
    rule = qKnowledgeGradient(model, num_fantasies=4)
    value = rule(rand(3, 6, 2, seed=3))
    assert value.shape == (3,)
    assert value.isfinite().all()
    pair, found = optimize_acqf(
        rule, BOUNDS, q=2, num_restarts=2, raw_samples=4, options={"maxiter": 5}
    )
    assert pair.shape == (2, 2)
    assert found.isfinite()


# ------------------------------------------------------------------- fantasising


@pytest.mark.parametrize("likelihood", [LogitLikelihood(), ProbitLikelihood()])
def test_fantasised_answers_have_the_predicted_frequency(likelihood: Any) -> None:
    model = make_model(likelihood=likelihood)
    pairs = rand(6, 2, 2, seed=3)
    expected = model.win_probability(pairs)
    fantasies = model.fantasize(pairs, IIDNormalSampler(Size([4000]), seed=0))
    answers = first_won(fantasies)
    assert answers.shape == (4000, 6)
    error = (expected * (1 - expected) / 4000).sqrt()
    assert ((answers.mean(0) - expected).abs() < 4.5 * error).all()
    sobol = model.fantasize(pairs, SobolQMCNormalSampler(Size([4096]), seed=0))
    torch.testing.assert_close(first_won(sobol).mean(0), expected, atol=2e-3, rtol=0)


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


@pytest.mark.parametrize("num_duels", [3, 40])
@pytest.mark.parametrize("variance", ["laplace", 4.0])
def test_gradients_of_a_fantasised_posterior(num_duels: int, variance: str | float) -> None:
    model = make_model(6, num_duels, variance=variance)
    Z = rand(3, 2, seed=1)
    sampler = SobolQMCNormalSampler(Size([4]), seed=0)

    def outputs(X: Tensor) -> Tensor:
        posterior = model.fantasize(X, sampler).posterior(Z)
        weights = rand(*posterior.mean.shape, seed=2)
        return (weights * posterior.mean).sum() + (weights * posterior.variance).sum()

    pair = rand(2, 2, seed=3)
    inputs = pair.clone().requires_grad_()
    (exact,) = torch.autograd.grad(outputs(inputs), inputs)
    torch.testing.assert_close(exact, numerical_gradient(outputs, pair, 1e-3), atol=1e-6, rtol=1e-6)


def test_the_prior_fantasises() -> None:
    prior = PreferenceGP(None, None, covar_module=make_kernel(2))
    fantasies = prior.fantasize(rand(2, 2), SobolQMCNormalSampler(Size([8]), seed=0))
    assert first_won(fantasies).mean() == 0.5
    assert fantasies.posterior(rand(3, 2)).mean.shape == (8, 3, 1)


# -------------------------------------------------------------- input transforms


def test_normalize_is_the_model_on_the_unit_cube() -> None:
    X, comparisons = make_duels(8, 12, 2)
    low, span = torch.tensor([-5.0, 100.0]).double(), torch.tensor([10.0, 3.0]).double()
    bounds = torch.stack([low, low + span])
    model = PreferenceGP(
        low + span * X,
        comparisons,
        covar_module=make_kernel(2),
        input_transform=Normalize(2, bounds=bounds),
    )
    plain = PreferenceGP(X, comparisons, covar_module=make_kernel(2))
    Z = rand(4, 2, seed=1)
    assert_same_posterior(model.posterior(low + span * Z), plain.posterior(Z), 1e-8, 1e-8)
    torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
    pairs = rand(4, 2, 2, seed=2)
    torch.testing.assert_close(
        model.win_probability(low + span * pairs), plain.win_probability(pairs)
    )
    new = rand(1, 2, 2, seed=3)
    answer = torch.ones(1).double()
    assert_same_posterior(
        model.condition_on_pairs(low + span * new, answer).posterior(low + span * Z),
        plain.condition_on_pairs(new, answer).posterior(Z),
        1e-8,
        1e-8,
    )


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
def test_the_evidence_has_gradients_of_a_warp(num_duels: int) -> None:
    model = make_model(num_duels=num_duels, input_transform=make_warp())
    found = parameter_gradients(model, model.log_evidence)
    names = [name for name, _, _ in found]
    assert {"input_transform.concentration0", "input_transform.concentration1"} <= set(names)
    for name, exact, numerical in found:
        assert exact.abs().max() > 1e-3, name
        torch.testing.assert_close(exact, numerical, atol=1e-7, rtol=1e-6, msg=name)


@pytest.mark.parametrize("num_duels", [5, 40])
@pytest.mark.parametrize("variance", ["laplace", 4.0])
def test_a_fantasised_posterior_has_gradients_of_a_warp(
    num_duels: int, variance: str | float
) -> None:
    model = make_model(num_duels=num_duels, input_transform=make_warp(), variance=variance)
    new = rand(2, 2, seed=3).requires_grad_()
    fantasies = model.fantasize(new, SobolQMCNormalSampler(Size([4]), seed=0))
    Z = rand(3, 2, seed=1)

    def output() -> Tensor:
        posterior = fantasies.posterior(Z)
        return posterior.mean.square().sum() + posterior.variance.sum()

    for name, exact, numerical in parameter_gradients(fantasies, output):
        torch.testing.assert_close(exact, numerical, atol=1e-6, rtol=1e-6, msg=name)


def test_a_posterior_has_gradients_of_hyperparameters_if_asked() -> None:
    model = make_model(input_transform=make_warp())
    Z = rand(3, 2, seed=1)

    def output() -> Tensor:
        return model.posterior(Z).mean.square().sum()

    # GPyTorch's own switch: by default its caches, too, carry no graph.
    with gpytorch.settings.detach_test_caches(False):
        found = parameter_gradients(model, output)
    for name, exact, numerical in found:
        torch.testing.assert_close(exact, numerical, atol=1e-6, rtol=1e-6, msg=name)


def test_round_makes_items_equal() -> None:
    X = torch.tensor([[0.2, 1.9], [2.6, 0.1], [0.9, 1.2]]).double()
    comparisons = torch.tensor([[0, 1], [2, 1]])
    kernel = make_kernel(2, lengthscale=1.0)
    rounded = PreferenceGP(
        X,
        comparisons,
        covar_module=kernel,
        input_transform=Round(integer_indices=[0, 1], approximate=False),
    )
    plain = PreferenceGP(X.round(), comparisons, covar_module=kernel)
    Z = 3 * rand(5, 2)
    assert_same_posterior(rounded.posterior(Z), plain.posterior(Z.round()))
    assert torch.equal(rounded.datapoints, X)
    torch.testing.assert_close(rounded.log_evidence(), plain.log_evidence())


def test_transforms_in_a_chain() -> None:
    X, comparisons = make_duels(8, 12, 2)
    chain = ChainedInputTransform(
        scale=Normalize(2, bounds=10 * BOUNDS), round=Round(integer_indices=[1], approximate=True)
    )
    model = PreferenceGP(10 * X, comparisons, input_transform=chain)
    fit(model)
    assert model.posterior(10 * X).mean.isfinite().all()


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


def test_data_sets_that_are_no_pairs_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="ranks 3"):
        PreferenceGP.construct_inputs(ranking([[0, 1, 2]], [[0, 1, 2]]))
    with pytest.raises(UnsupportedError, match="ties"):
        PreferenceGP.construct_inputs(ranking([[0, 1], [1, 2]], [[0, 1], [0, 0]]))
    values = SupervisedDataset(
        X=rand(3, 2), Y=rand(3, 1), feature_names=["a", "b"], outcome_names=["y"]
    )
    with pytest.raises(UnsupportedError, match="SupervisedDataset"):
        PreferenceGP.construct_inputs(values)


# ------------------------------------------------------------------- model lists


def test_a_list_with_a_value_model() -> None:
    X = rand(6, 2, seed=2)
    value, preference = SingleTaskGP(X, X.sum(-1, keepdim=True)), make_model()
    models = ModelList(value, preference)
    Z = rand(4, 3, 2, seed=1)
    posterior = models.posterior(Z)
    assert isinstance(posterior, PosteriorList)
    assert models.num_outputs == 2
    assert posterior.mean.shape == (4, 3, 2)
    torch.testing.assert_close(posterior.mean[..., 1:], preference.posterior(Z).mean)
    assert posterior.rsample(Size([5])).shape == (5, 4, 3, 2)


@pytest.mark.parametrize("rule", [qSimpleRegret, qLogExpectedImprovement])
def test_an_acquisition_of_a_list(rule: Any) -> None:
    torch.manual_seed(0)
    X = rand(6, 2, seed=2)
    models = ModelList(SingleTaskGP(X, X.sum(-1, keepdim=True)), make_model())
    extra = {"best_f": 0.5} if rule is qLogExpectedImprovement else {}
    acquisition = rule(
        model=models,
        objective=GenericMCObjective(lambda samples, X: samples.sum(-1)),
        sampler=get_sampler(models.posterior(X), Size([16]), seed=0),
        **extra,
    )
    point, value = optimize_acqf(
        acquisition, BOUNDS, q=1, num_restarts=2, raw_samples=16, options={"maxiter": 10}
    )
    assert point.shape == (1, 2)
    assert value.isfinite()
    subset = models.subset_output([1])
    assert subset.posterior(X).mean.shape == (6, 1)


# ----------------------------------------------------------- BoTorch's own loop


def _loop(model_class: type[PairwiseGP | PreferenceGP]) -> tuple[Tensor, list[float]]:
    """BoTorch's ``preference_bo`` tutorial; the class of the model is the line that changes."""
    torch.manual_seed(1)
    X = rand(4, 2, seed=1)
    y = utility(X)
    comparisons = torch.tensor([[0, 1], [2, 3]])
    wrong = y[comparisons[:, 0]] < y[comparisons[:, 1]]
    comparisons[wrong] = comparisons[wrong].flip(-1)
    best = [y.max().item()]
    for _ in range(3):
        model = model_class(X, comparisons, input_transform=Normalize(d=2))
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
    return X, best


def test_the_tutorial_loop_runs_with_one_line_changed() -> None:
    X, best = _loop(PreferenceGP)
    assert X.shape == (10, 2)
    assert ((X >= 0) & (X <= 1)).all()
    assert best[-1] >= best[0]


# ------------------------------------------------------------------------ device


def test_fitting_and_acquisition_on_a_device(device: torch.device) -> None:
    torch.manual_seed(0)
    model = copy.deepcopy(make_model(15, 40, covar_module=None)).to(device)
    fit(model)
    rule = AnalyticExpectedUtilityOfBestOption(pref_model=model)
    pair, value = optimize_acqf(rule, BOUNDS.to(device), q=2, num_restarts=2, raw_samples=32)
    assert pair.device == device
    here = AnalyticExpectedUtilityOfBestOption(pref_model=copy.deepcopy(model).cpu())
    same(value, here(pair.cpu()).squeeze())
