"""The preference model: data, posterior, duels, conditioning, copies and caches."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.acquisition import PosteriorMean
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.models import PairwiseGP
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood, PairwiseProbitLikelihood
from botorch.models.pairwise_gp import PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize, Round
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from scipy import integrate, stats
from torch import Size, Tensor

from botorch_pref.data import Comparisons
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.models import BernoulliGP, PreferenceGP, base
from tests.models.common import (
    COPIES,
    LinearMean,
    assert_moments,
    assert_same_posterior,
    differences,
    duplicates,
    make_duels,
    make_kernel,
    make_model,
    rand,
)
from tests.models.mixed import oracle

LINKS: list[tuple[type[BernoulliLikelihood], str, float]] = [
    (LogitLikelihood, "logit", 1.0),
    (LogitLikelihood, "logit", 2.5),
    (ProbitLikelihood, "probit", 2**-0.5),
]
links = pytest.mark.parametrize(("link", "name", "scale"), LINKS)
# Fewer duels than items, and more: the answer side and the item side.
sizes = pytest.mark.parametrize(("num_items", "num_duels"), [(8, 5), (5, 30)])
variances = pytest.mark.parametrize("variance", ["laplace", 4.0])


PAIRS = torch.tensor([[0, 1], [2, 1], [3, 0], [2, 4]])


# --------------------------------------------------------------------- posterior


@pytest.mark.parametrize("batch_shape", [(), (2,), (3, 2)])
@pytest.mark.parametrize("t_batch", [(), (2,), (5, 1, 1), (4, 3, 2)])
@pytest.mark.parametrize("q", [1, 3])
def test_shapes(batch_shape: tuple[int, ...], t_batch: tuple[int, ...], q: int) -> None:
    _, comparisons = make_duels(5, 7, 2)
    model = PreferenceGP(rand(*batch_shape, 5, 2), comparisons.expand(*batch_shape, 7, 2))
    shape = torch.broadcast_shapes(t_batch, batch_shape)
    X = rand(*t_batch, q, 2, seed=1)
    posterior = model.posterior(X)
    assert torch.equal(model.posterior_mean(X), posterior.mean.squeeze(-1))
    assert model.batch_shape == Size(batch_shape)
    assert posterior.mean.shape == (*shape, q, 1)
    assert posterior.variance.shape == (*shape, q, 1)
    assert posterior.rsample(Size([6])).shape == (6, *shape, q, 1)
    pairs = rand(*t_batch, 2, 2, seed=2)
    assert model.pair_posterior(pairs).mean.shape == (*shape, 1, 1)
    assert model.pair_posterior(pairs).variance.shape == (*shape, 1, 1)
    assert model.win_probability(pairs).shape == shape


@pytest.mark.parametrize("options", [{}, {"inference": "ep"}, {"inducing_points": 3}])
def test_the_mean_alone_is_that_of_the_posterior(options: dict[str, Any]) -> None:
    options = options | {"input_transform": Normalize(d=2), "mean_module": LinearMean(1.0)}
    model, rule = make_model(**options), PosteriorMean(make_model(**options))
    X, Y = (rand(4, 1, 2, seed=1).requires_grad_() for _ in range(2))
    value, expected = model.posterior_mean(X).squeeze(-1), rule(Y)
    torch.testing.assert_close(value, expected)
    value.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(X.grad, Y.grad)
    with pytest.raises(ComparisonDataError, match="`X` has 3 columns"):
        model.posterior_mean(rand(1, 3))
    kernel = make_kernel(2, batch_shape=(3,))
    empty = PreferenceGP(None, None, covar_module=kernel, mean_module=LinearMean(1.0))
    assert torch.equal(empty.posterior_mean(rand(4, 2)), rand(4, 2).sum(-1).expand(3, 4))


@links
@sizes
@variances
@pytest.mark.parametrize("slope", [0.0, 3.0])
def test_posterior_and_evidence_against_brute_force(
    link: type[BernoulliLikelihood],
    name: str,
    scale: float,
    num_items: int,
    num_duels: int,
    variance: str | float,
    slope: float,
) -> None:
    options = {"mean_module": LinearMean(slope), "variance": variance}
    model = make_model(num_items, num_duels, likelihood=link(scale), **options)
    Z = torch.cat([model.datapoints[:2], rand(4, 2, seed=1)])
    mean, covariance, evidence = oracle(model, Z, name, scale)
    posterior = model.posterior(Z)
    assert_moments(posterior, mean, covariance)
    assert model.log_evidence().item() == pytest.approx(evidence, abs=1e-8)


@variances
def test_ties_and_repeats_against_brute_force(variance: str | float) -> None:
    X = rand(5, 2)
    pairs = torch.tensor([[0, 1], [1, 0], [2, 3], [0, 1], [4, 2], [3, 2]])
    answers = torch.tensor([1.0, 0.5, 0.5, 0.0, 0.5, 1.0]).double()
    data = Comparisons(X, pairs, answers, torch.ones(6).double())
    model = PreferenceGP(X, data, covar_module=make_kernel(2), variance=variance)
    mean, covariance, evidence = oracle(model, X)
    posterior = model.posterior(X)
    assert_moments(posterior, mean, covariance)
    assert model.log_evidence().item() == pytest.approx(evidence, abs=1e-8)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_rules_of_botorch_find_the_posterior_once(
    inference: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though they call ``to`` at every evaluation; a move to another type finds it again."""
    model, solved = make_model(6, 9, inference=inference), []
    solve = PreferenceGP._solve
    monkeypatch.setattr(PreferenceGP, "_solve", lambda self: solved.append(1) or solve(self))
    for rule in (PosteriorMean(model), AnalyticExpectedUtilityOfBestOption(model)):
        for _ in range(3):
            X = rand(4, 2, 2).requires_grad_()
            rule(X[:, :1] if isinstance(rule, PosteriorMean) else X).sum().backward()
    assert len(solved) == 1
    model.to(torch.float64).posterior(rand(3, 2))
    assert len(solved) == 1
    model.float().double().posterior(rand(3, 2))
    assert len(solved) == 2


def test_posterior_options() -> None:
    model = make_model()
    Z = rand(3, 2, seed=1)
    plain = model.posterior(Z)
    assert_same_posterior(plain, model.posterior(Z, output_indices=[0]), atol=0, rtol=0)
    doubled = ScalarizedPosteriorTransform(torch.tensor([2.0]).double(), offset=1.0)
    transformed = model.posterior(Z, posterior_transform=doubled)
    torch.testing.assert_close(transformed.mean, 1 + 2 * plain.mean)
    torch.testing.assert_close(transformed.variance, 4 * plain.variance)
    with pytest.raises(UnsupportedError, match="output_indices"):
        model.posterior(Z, output_indices=[1])
    assert_same_posterior(plain, model.posterior(Z, observation_noise=True), atol=0, rtol=0)
    with pytest.raises(UnsupportedError, match="observation_noise"):
        model.posterior(Z, observation_noise=torch.ones(3, 1).double())


@pytest.mark.parametrize(("variance", "expected"), [(1.0, 0.48614), ("laplace", 5.88105)])
def test_fixture_of_the_answer_free_variance(variance: str | float, expected: float) -> None:
    kernel = ScaleKernel(MaternKernel(nu=2.5)).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = 0.1, 20.0
    X = torch.tensor([[0.0], [0.1], [0.3]]).double()
    comparisons = torch.tensor([[0, 1], [2, 1], [0, 1]])
    model = PreferenceGP(X, comparisons, covar_module=kernel, variance=variance)
    pair = model.pair_posterior(X[:2])
    assert pair.variance.item() == pytest.approx(expected, abs=5e-6)
    if variance == 1.0:
        assert model.posterior(X[:1]).variance.item() == pytest.approx(9.807, abs=5e-4)


def test_answer_free_variance_ignores_answers_and_the_mean_ignores_kappa() -> None:
    X, comparisons = make_duels(6, 10, 2)
    Z = rand(5, 2, seed=1)

    def posterior(rows: Tensor, kappa: str | float) -> Any:
        model = PreferenceGP(X, rows, covar_module=make_kernel(2), variance=kappa)
        return model.posterior(Z)

    kept, turned = posterior(comparisons, 3.0), posterior(comparisons.flip(-1), 3.0)
    torch.testing.assert_close(kept.covariance_matrix, turned.covariance_matrix)
    torch.testing.assert_close(kept.mean, -turned.mean)
    laplace = posterior(comparisons, "laplace")
    torch.testing.assert_close(kept.mean, laplace.mean, atol=0, rtol=0)
    # At the logit's own bound on 1 / curvature the answer-free variance is a lower one.
    bound = posterior(comparisons, 4.0)
    assert (bound.variance <= laplace.variance + 1e-10).all()


def test_positions_are_those_of_pairwise_gp() -> None:
    # Ax, too, asks this signature which parts a model may be given.
    theirs = inspect.getfullargspec(PairwiseGP).args
    assert inspect.getfullargspec(PreferenceGP).args == theirs


@sizes
@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (LogitLikelihood(), PairwiseLogitLikelihood()),
        (ProbitLikelihood(2**-0.5), PairwiseProbitLikelihood()),
    ],
    ids=["logit", "probit"],
)
def test_equality_with_pairwise_gp(
    num_items: int, num_duels: int, mine: BernoulliLikelihood, theirs: Any
) -> None:
    X, comparisons = make_duels(num_items, num_duels, 2)
    model = PreferenceGP(X, comparisons, covar_module=make_kernel(2), likelihood=mine)
    taken = PreferenceGP(X, comparisons, covar_module=make_kernel(2), likelihood=theirs)
    assert_same_posterior(taken.posterior(X), model.posterior(X))  # their link is taken for ours
    other = PairwiseGP(X, comparisons, covar_module=make_kernel(2), likelihood=theirs)
    at_items = model.posterior(X).mean
    assert at_items.max() - at_items.min() < 3  # nothing is clamped there
    Z = rand(10, 2, seed=1)
    mean, covariance = differences(model.posterior(Z))
    other_mean, other_covariance = differences(other.posterior(Z))
    torch.testing.assert_close(mean, other_mean, atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(covariance, other_covariance, atol=1e-6, rtol=1e-6)
    other.train()
    evidence = PairwiseLaplaceMarginalLogLikelihood(theirs, other)(
        other(*other.train_inputs), other.train_targets
    )
    assert model.log_evidence().item() == pytest.approx(evidence.item(), abs=1e-6)


# ------------------------------------------------------------------------- duels


@variances
def test_a_pair_is_a_difference_of_utilities(variance: str | float) -> None:
    model = make_model(variance=variance, mean_module=LinearMean(2.0))
    pairs = rand(6, 2, 2, seed=1)
    joint, pair = model.posterior(pairs), model.pair_posterior(pairs)
    mean, covariance = differences(joint)
    torch.testing.assert_close(pair.mean.detach().squeeze(-1), -mean)
    torch.testing.assert_close(pair.variance.detach().squeeze(-1), covariance.squeeze(-1))
    swapped = model.pair_posterior(pairs.flip(-2))
    torch.testing.assert_close(swapped.mean, -pair.mean)
    torch.testing.assert_close(swapped.variance, pair.variance)


def test_an_item_against_itself_or_nearly_so() -> None:
    model = make_model(covar_module=make_kernel(2, outputscale=100.0))
    x = torch.tensor([[0.3, 0.4]]).double()
    itself = torch.stack([x, x], dim=-2)
    assert model.win_probability(itself).item() == pytest.approx(0.5, abs=1e-9)
    for gap in (1e-2, 1e-3, 1e-4):
        posterior = model.pair_posterior(torch.stack([x, x + gap], dim=-2))
        assert 0 < posterior.variance.item() < 3e3 * gap**2
    posterior = model.pair_posterior(itself)
    assert posterior.mean.item() == 0.0
    assert 0 <= posterior.variance.item() <= 1e-9


@links
def test_win_probability_against_quadrature(
    link: type[BernoulliLikelihood], name: str, scale: float
) -> None:
    likelihood = link(scale)
    model = make_model(likelihood=likelihood, covar_module=make_kernel(2, outputscale=9.0))
    pairs = rand(5, 2, 2, seed=1)
    posterior, found = model.pair_posterior(pairs), model.win_probability(pairs)
    cdf = stats.logistic.cdf if name == "logit" else stats.norm.cdf
    for i in range(len(pairs)):
        mean = posterior.mean[i].item()
        deviation = posterior.variance[i].sqrt().item()
        density = stats.norm(mean, deviation).pdf
        expected, _ = integrate.quad(
            lambda h, pdf=density: cdf(scale * h) * pdf(h),
            mean - 12 * deviation,
            mean + 12 * deviation,
            epsabs=1e-12,
        )
        assert found[i].item() == pytest.approx(expected, abs=1e-8)
    torch.testing.assert_close(
        found + model.win_probability(pairs.flip(-2)), torch.ones(5).double()
    )


# ------------------------------------------------------------------ conditioning


def test_conditioning_on_pairs_is_having_seen_them_all() -> None:
    model = make_model()
    X, comparisons = model.datapoints, model.comparisons
    new = rand(2, 2, seed=3)
    pairs = torch.stack([X[[0, 3]], torch.stack([X[5], new[0]]), torch.stack([new[1], new[0]])])
    answers = torch.tensor([0.0, 1.0, 1.0]).double()
    conditioned = model.condition_on_pairs(pairs, answers)
    everything = torch.cat([X, new])
    rows = torch.cat([comparisons, torch.tensor([[3, 0], [5, 8], [9, 8]])])
    expected = PreferenceGP(everything, rows, covar_module=make_kernel(2))
    assert torch.equal(conditioned.datapoints, everything)  # stored items are recognised
    told = model.condition_on_observations(new, torch.tensor([[1, 0]]))
    seen = torch.cat([comparisons, torch.tensor([[9, 8]])])
    alone = PreferenceGP(everything, seen, covar_module=make_kernel(2))
    assert_same_posterior(told.posterior(X), alone.posterior(X))
    assert torch.equal(conditioned.comparisons, rows)
    assert_same_posterior(conditioned.posterior(X), expected.posterior(X))
    assert torch.equal(model.datapoints, X)
    assert torch.equal(model.comparisons, comparisons)


# ---------------------------------------------------------------- prior, batches


def test_the_prior_takes_data_later() -> None:
    X, comparisons = make_duels(5, 6, 2)
    expected = PreferenceGP(X, comparisons, covar_module=make_kernel(2)).posterior(X)
    prior = PreferenceGP(None, None, covar_module=make_kernel(2))
    assert_same_posterior(prior.condition_on_observations(X, comparisons).posterior(X), expected)
    answers = torch.ones(6).double()
    assert_same_posterior(prior.condition_on_pairs(X[comparisons], answers).posterior(X), expected)
    assert prior.datapoints is None
    prior.set_train_data(X, comparisons)
    assert_same_posterior(prior.posterior(X), expected)


@links
@sizes
@variances
def test_batched_is_looped(
    link: type[BernoulliLikelihood],
    name: str,
    scale: float,
    num_items: int,
    num_duels: int,
    variance: str | float,
) -> None:
    data = [make_duels(num_items, num_duels, 2, seed=seed) for seed in range(3)]
    kernel = make_kernel(2, batch_shape=(3,))
    kernel.outputscale = torch.tensor([0.5, 4.0, 60.0]).double()
    X, comparisons = (torch.stack(parts) for parts in zip(*data, strict=True))
    kwargs: dict[str, Any] = {"likelihood": link(scale), "variance": variance}
    batch = PreferenceGP(X, comparisons, covar_module=kernel, **kwargs)
    Z = rand(6, 2, seed=9)
    posterior, evidence = batch.posterior(Z), batch.log_evidence()
    (gradient,) = torch.autograd.grad(evidence.sum(), kernel.raw_outputscale)
    assert evidence.shape == (3,)
    for i, (items, rows) in enumerate(data):
        own = make_kernel(2, outputscale=kernel.outputscale[i].item())
        one = PreferenceGP(items, rows, covar_module=own, **kwargs)
        expected = one.posterior(Z)
        torch.testing.assert_close(posterior.mean[i], expected.mean, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(
            posterior.covariance_matrix[i], expected.covariance_matrix, atol=1e-9, rtol=1e-9
        )
        torch.testing.assert_close(evidence[i], one.log_evidence(), atol=1e-9, rtol=1e-9)
        (alone,) = torch.autograd.grad(one.log_evidence(), own.raw_outputscale)
        torch.testing.assert_close(gradient[i], alone, atol=1e-8, rtol=1e-8)


# ------------------------------------------------------------------------ copies


@pytest.fixture
def learnt() -> PreferenceGP:
    model = make_model(covar_module=None, input_transform=Normalize(d=2))
    model.covar_module.outputscale = 7.0
    model.covar_module.base_kernel.lengthscale = torch.tensor([0.2, 0.9]).double()
    return model


@duplicates
def test_copies_carry_data_and_posterior(learnt: PreferenceGP, duplicate: Any) -> None:
    Z = rand(4, 2, seed=1)
    early, expected = duplicate(learnt), learnt.posterior(Z)
    twin = duplicate(learnt)
    assert_same_posterior(early.posterior(Z), expected, atol=0, rtol=0)
    assert_same_posterior(twin.posterior(Z), expected, atol=0, rtol=0)
    assert torch.equal(twin.comparisons, learnt.comparisons)
    twin.covar_module.outputscale = 1.0  # the twin is another model
    assert not torch.allclose(twin.posterior(Z).mean, expected.mean)
    assert_same_posterior(learnt.posterior(Z), expected, atol=0, rtol=0)


def test_a_model_with_a_graph_behind_its_items_can_be_copied() -> None:
    model = make_model()
    new = rand(2, 2, seed=3).requires_grad_()
    conditioned = model.condition_on_observations(new, torch.tensor([[0, 1]]))
    Z = rand(4, 2, seed=1)
    expected = conditioned.posterior(Z)
    assert expected.mean.requires_grad
    for duplicate in COPIES.values():
        torch.testing.assert_close(duplicate(conditioned).posterior(Z).mean, expected.mean)


def test_the_state_is_hyperparameters_and_transforms_alone(learnt: PreferenceGP) -> None:
    state = learnt.state_dict()
    assert all(key.startswith(("covar_module.", "input_transform.")) for key in state)
    assert sum(value.numel() for value in state.values()) < 30
    data = make_duels(20, 40, 2, seed=3)
    other = PreferenceGP(*data, input_transform=Normalize(d=2))
    Z = rand(4, 2, seed=1)
    before = other.posterior(Z)
    result = other.load_state_dict(state, strict=True)
    assert result.missing_keys == []
    assert result.unexpected_keys == []
    assert len(other.datapoints) == 20
    assert not torch.allclose(other.posterior(Z).mean, before.mean)
    fresh = PreferenceGP(*data, input_transform=Normalize(d=2))
    fresh.load_state_dict(state)
    assert_same_posterior(other.posterior(Z), fresh.posterior(Z), atol=0, rtol=0)
    with pytest.raises(RuntimeError, match="Unexpected key"):
        other.load_state_dict({**state, "utility": torch.zeros(3)}, strict=True)


# ------------------------------------------------------------------------ caches


def _step(model: PreferenceGP) -> None:
    (-model.log_evidence()).backward()
    torch.optim.SGD(model.parameters(), lr=0.5).step()


def _set_base_kernel(model: PreferenceGP) -> None:
    kernel = RBFKernel(ard_num_dims=2).double()
    kernel.raw_lengthscale = model.covar_module.base_kernel.raw_lengthscale
    model.covar_module.base_kernel = kernel


ROUND = Round(integer_indices=[0, 1], approximate=False)
CHANGES: dict[str, Callable[[PreferenceGP], Any]] = {
    "outputscale": lambda model: setattr(model.covar_module, "outputscale", 9.0),
    "step": _step,
    "state": lambda model: model.load_state_dict(
        {name: value + 0.5 for name, value in model.state_dict().items()}
    ),
    "kernel": lambda model: setattr(model, "covar_module", make_kernel(2, nu=0.5)),
    "base kernel": _set_base_kernel,
    "mean": lambda model: setattr(model, "mean_module", LinearMean(4.0)),
    "likelihood": lambda model: setattr(model, "likelihood", ProbitLikelihood()),
    "scale": lambda model: setattr(model.likelihood, "scale", 3.0),
    "variance": lambda model: setattr(model, "variance", 0.1),
    "transform": lambda model: setattr(model, "input_transform", ROUND),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_no_change_leaves_a_stale_posterior(change: Any) -> None:
    model = make_model()
    Z = rand(4, 2, seed=1)
    before = model.posterior(Z)
    change(model)
    after = model.posterior(Z)
    uncached = copy.deepcopy(model).posterior(Z)  # a copy carries no cache
    moments = [(p.mean, p.covariance_matrix) for p in (before, after)]
    assert not all(torch.allclose(*parts) for parts in zip(*moments, strict=True))
    assert_same_posterior(after, uncached)


def test_the_posterior_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    calls, find = [], base.laplace_posterior
    monkeypatch.setattr(base, "laplace_posterior", lambda *args: calls.append(1) or find(*args))
    for seed in range(3):
        model.posterior(rand(4, 2, seed=seed))
        model.win_probability(rand(4, 2, 2, seed=seed))
    assert len(calls) == 1


def test_win_probability_where_the_mean_alone_is_batched() -> None:
    comparisons = torch.tensor([[0, 1], [2, 3]]).expand(3, -1, -1)
    kernel = ScaleKernel(RBFKernel()).double()
    model = PreferenceGP(rand(3, 4, 2), comparisons, covar_module=kernel)
    assert model.win_probability(rand(2, 2)).shape == (3,)


def test_others_are_refused_at_once() -> None:
    labels = torch.tensor([[1.0], [0.0], [1.0]]).double()
    with pytest.raises(UnsupportedError, match=r"`likelihood` must be .* GaussianLikelihood"):
        PreferenceGP(rand(5, 2), PAIRS, GaussianLikelihood())
    with pytest.raises(UnsupportedError, match="`likelihood`"):
        BernoulliGP(rand(3, 2), labels, likelihood=GaussianLikelihood())
