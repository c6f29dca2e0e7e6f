"""What is wrong with BoTorch's ``PairwiseGP`` 0.18.1, and that ``PreferenceGP`` has none of it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood
from botorch.models.pairwise_gp import PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import RBFKernel
from gpytorch.means import ConstantMean
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.data import Comparisons
from botorch_pref.exceptions import (
    ComparisonDataError,
)
from botorch_pref.inference import DualSystem, PrimalSystem
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from tests.models.common import (
    LinearMean,
    assert_moments,
    assert_same_posterior,
    differences,
    make_duels,
    make_kernel,
    make_model,
    numerical_gradient,
    parameter_gradients,
    rand,
)
from tests.models.mixed import oracle

QUICK = settings(max_examples=15, deadline=None, database=None, derandomize=True)
links = pytest.mark.parametrize(
    "likelihood", [LogitLikelihood(), ProbitLikelihood(2**-0.5)], ids=["logit", "probit"]
)
variances = pytest.mark.parametrize("variance", ["laplace", 4.0])


# ----------------------------------------------------------------- wrong answers


@links
@pytest.mark.parametrize("outputscale", [0.1, 1.0, 10.0, 100.0])
@pytest.mark.parametrize("consistent", [False, True], ids=["noisy", "consistent"])
@pytest.mark.parametrize("num_duels", [6, 40])
def test_evidence_gradient_is_right_even_if_the_judge_is_consistent(
    likelihood: BernoulliLikelihood, outputscale: float, consistent: bool, num_duels: int
) -> None:
    options = {"likelihood": likelihood, "covar_module": make_kernel(2, outputscale=outputscale)}
    model = make_model(10, num_duels, consistent=consistent, **options)
    for name, exact, numerical in parameter_gradients(model, model.log_evidence, 1e-3):
        torch.testing.assert_close(exact, numerical, atol=1e-7, rtol=1e-6, msg=name)


@links
def test_evidence_gradient_vanishes_at_a_converged_fit(likelihood: BernoulliLikelihood) -> None:
    model = make_model(20, 60, consistent=True, likelihood=likelihood, covar_module=None)
    mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"ftol": 0.0, "gtol": 1e-7}})
    model.zero_grad()
    model.compute_custom_loss(mll).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().max() < 1e-4, name


def test_surprise_is_not_capped() -> None:
    model = make_model(
        2, 1, likelihood=ProbitLikelihood(2**-0.5), covar_module=make_kernel(2, outputscale=1e-4)
    )
    loser, winner = model.datapoints[model.comparisons[0].flip(0)]
    slope = -20.0 / (winner - loser).sum().item()  # a prior sure that the loser is 20 better
    model.mean_module = LinearMean(slope)
    assert model.log_evidence().item() == pytest.approx(-103.6, abs=0.1)


@variances
@pytest.mark.parametrize(
    ("num_items", "num_duels", "side"), [(8, 3, DualSystem), (5, 40, PrimalSystem)]
)
def test_gradients_flow_through_conditioning(
    variance: str | float, num_items: int, num_duels: int, side: type
) -> None:
    model = make_model(num_items, num_duels, variance=variance)
    new, rows = rand(3, 2, seed=3), torch.tensor([[0, 1], [2, 1]])
    Z = rand(4, 2, seed=4)
    conditioned = model.condition_on_observations(new, rows)
    assert isinstance(conditioned.laplace_posterior()[1].system, side)

    def outputs(X: Tensor) -> Tensor:
        posterior = model.condition_on_observations(X, rows).posterior(Z)
        return torch.cat([posterior.mean.flatten(), posterior.variance.flatten()])

    inputs = new.clone().requires_grad_()
    for value, numerical in zip(
        outputs(inputs), numerical_gradient(outputs, new, 1e-3), strict=True
    ):
        (exact,) = torch.autograd.grad(value, inputs, retain_graph=True)
        torch.testing.assert_close(exact, numerical, atol=1e-6, rtol=1e-6)


def test_a_constant_prior_mean_changes_no_comparison() -> None:
    found = []
    for constant in (0.0, 3.0):
        mean = ConstantMean().double()
        mean.constant.data.fill_(constant)
        model = make_model(mean_module=mean)
        found.append((model.log_evidence(), *differences(model.posterior(rand(5, 2, seed=1)))))
    for first, second in zip(*found, strict=True):
        torch.testing.assert_close(first, second, atol=1e-10, rtol=1e-10)


def test_self_comparisons_are_refused() -> None:
    X = rand(4, 2)
    with pytest.raises(ComparisonDataError, match="`Y` row 0"):
        make_model().condition_on_observations(X, torch.tensor([[1, 1]]))
    for add in (make_model().condition_on_pairs, PreferenceGP.from_pairs):
        with pytest.raises(ComparisonDataError, match="`pairs` row 0"):
            add(X[[0, 0]].unsqueeze(0), torch.ones(1).double())


def test_self_comparisons_do_not_arise_from_deduplication() -> None:
    X = torch.tensor([[0.5], [0.50005], [0.9]]).double()
    model = PreferenceGP(X, torch.tensor([[0, 1], [1, 2]]), covar_module=make_kernel(1, 1e-4))
    assert torch.equal(model.datapoints, X)
    mean = model.posterior(X).mean.flatten()
    assert mean[0] > mean[1] > mean[2]


@links
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
def test_utility_gaps_of_a_thousand_overflow_nothing(
    likelihood: BernoulliLikelihood, dtype: torch.dtype
) -> None:
    X = torch.linspace(0, 1, 5, dtype=dtype).unsqueeze(-1)
    rows = torch.tensor([[4, 0], [0, 4], [3, 1], [1, 2]])
    for slope in (1e3, -1e3):
        options = {"mean_module": LinearMean(slope), "likelihood": likelihood}
        model = PreferenceGP(X, rows, covar_module=make_kernel(1).to(dtype), **options)
        posterior = model.posterior(X)
        assert posterior.mean.isfinite().all()
        assert (posterior.variance > 0).all()
        evidence = model.log_evidence()
        assert evidence.isfinite()
        gradients = torch.autograd.grad(evidence, list(model.parameters()))
        assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_huge_outputscale_overflows_nothing() -> None:
    for outputscale in (1e4, 1e6):
        model = make_model(10, 20, covar_module=make_kernel(2, outputscale=outputscale))
        mean, covariance, evidence = oracle(model, model.datapoints)
        posterior = model.posterior(model.datapoints)
        torch.testing.assert_close(posterior.mean.squeeze(-1).detach(), mean, atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(
            posterior.covariance_matrix.detach(), covariance, atol=1e-8 * outputscale, rtol=1e-6
        )
        assert model.log_evidence().item() == pytest.approx(evidence, rel=1e-7)


def test_a_singular_covariance_needs_no_jitter() -> None:
    X, comparisons = make_duels(5, 12, 2)
    twice = torch.cat([X, X])
    rows = comparisons + 5 * torch.tensor([[0, 1]] * 12)  # each loser is the item's twin
    twins = PreferenceGP(twice, rows, covar_module=make_kernel(2))
    single = PreferenceGP(X, comparisons, covar_module=make_kernel(2))
    Z = rand(4, 2, seed=1)
    assert_same_posterior(twins.posterior(Z), single.posterior(Z), atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(twins.log_evidence(), single.log_evidence(), atol=1e-8, rtol=1e-8)


def test_set_train_data_never_ignores_the_data() -> None:
    model = make_model()
    with pytest.raises(ComparisonDataError, match="`datapoints` has 3 columns"):
        model.set_train_data(rand(4, 3), torch.tensor([[0, 1]]))
    # As PairwiseGP documents it; its own keeps the former data without a word.
    model.set_train_data(rand(4, 2), None)
    assert (model.posterior(rand(3, 2)).mean == 0.0).all()


ROW = torch.tensor([[0, 1]])
BAD_DATA: dict[str, tuple[Tensor | None, Tensor, str]] = {
    "no items": (None, ROW, "`datapoints` is None"),
    "float index": (rand(4, 2), torch.tensor([[0.9, 1.0]]), "`comparisons` must be .* integer"),
    "boolean index": (rand(4, 2), torch.tensor([[False, True]]), "`comparisons` .* integer"),
    "out of range": (rand(4, 2), torch.tensor([[0, 1], [2, 4]]), "`comparisons` row 1"),
    "negative": (rand(4, 2), torch.tensor([[0, 1], [2, 1], [3, -1]]), "`comparisons` row 2"),
    "self": (rand(4, 2), torch.tensor([[0, 1], [3, 3]]), "`comparisons` row 1"),
    "three columns": (rand(4, 2), torch.tensor([[0, 1, 2]]), "`comparisons` .* shape"),
    "one row": (rand(4, 2), torch.tensor([0, 1]), "`comparisons` .* shape"),
    "flat items": (rand(4), ROW, "`datapoints` .* shape"),
    "nan": (rand(4, 2).index_fill(0, ROW[0, 1:], torch.nan), ROW, "`datapoints` row 1"),
    "inf": (rand(4, 2).index_fill(0, ROW[0, 1:], torch.inf), ROW, "`datapoints` row 1"),
    "integer items": (torch.ones(4, 2, dtype=torch.long), ROW, "`datapoints`"),
    "no dimensions": (rand(4, 0), ROW, "`datapoints`"),
    "batch shapes": (rand(3, 4, 2), ROW.expand(2, 1, 2), "broadcast"),
    "batched": (rand(2, 4, 2), torch.tensor([[[0, 1]], [[1, 1]]]), r"batch \(1,\) row 0"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data_are_refused_by_argument_and_row(case: str) -> None:
    X, comparisons, message = BAD_DATA[case]
    with pytest.raises(ComparisonDataError, match=message):
        PreferenceGP(X, comparisons)
    model = make_model()
    kept, before = model.datapoints, model.posterior(model.datapoints)
    with pytest.raises(ComparisonDataError, match=message):
        model.set_train_data(X, comparisons)
    assert model.datapoints is kept
    assert_same_posterior(model.posterior(kept), before, atol=0, rtol=0)


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
def test_a_model_moved_to_single_precision_can_be_fitted() -> None:
    model = make_model(10, 20, covar_module=None).to(torch.float32)
    before = model.log_evidence().item()
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    assert model.log_evidence().item() != before
    assert model.posterior(rand(3, 2).float()).mean.isfinite().all()


# ------------------------------------------------------------- fragile numerics


@links
@pytest.mark.parametrize("outputscale", [1.0, 100.0])
def test_the_mode_is_found_every_time(likelihood: BernoulliLikelihood, outputscale: float) -> None:
    kernel = make_kernel(2, outputscale=outputscale)
    for seed in range(6):
        model = make_model(60, 300, seed=seed, likelihood=likelihood, covar_module=kernel)
        mode = model.laplace_posterior()[1].mode
        assert bool(mode.converged)
        assert mode.num_steps <= 20
        # The mode is where f = K H^T score(H f): a residual without K^-1.
        rows = model.comparisons
        with torch.no_grad():
            f = model.posterior(model.datapoints).mean.squeeze(-1)
            h = f[rows[:, 0]] - f[rows[:, 1]]
            score, _, _ = likelihood.derivatives(h, torch.ones_like(h))
            pull = torch.zeros_like(f).index_add(0, rows[:, 0], score)
            pull = pull.index_add(0, rows[:, 1], -score)
            fixed_point = model.covar_module(model.datapoints).to_dense() @ pull
        assert (f - fixed_point).abs().max() < 1e-8 * outputscale


def test_no_global_random_state_is_read_or_moved() -> None:
    found = []
    for seed in (0, 1):
        np.random.seed(seed)  # noqa: NPY002 (the state whose effect is tested)
        torch.manual_seed(seed)
        numpy_before = np.random.get_state()[1].copy()  # noqa: NPY002
        torch_before = torch.get_rng_state()
        model = make_model(covar_module=make_kernel(2, outputscale=100.0))
        found.append(model.posterior(model.datapoints))
        model.win_probability(rand(3, 2, 2))
        model.log_evidence().backward()
        assert np.array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002
        assert torch.equal(torch.get_rng_state(), torch_before)
    assert_same_posterior(*found, atol=0, rtol=0)


# ------------------------------------------------------------ shape of the code


def test_any_kernel_will_do() -> None:
    kernel = RBFKernel(ard_num_dims=2).double()
    model = make_model(covar_module=kernel)
    mean, covariance, _ = oracle(model, model.datapoints)
    assert_moments(model.posterior(model.datapoints), mean, covariance)


def test_evaluation_and_training_mode_share_one_model() -> None:
    model = make_model(input_transform=Normalize(d=2))
    X, evidence = model.datapoints, model.log_evidence()
    for mode in (True, False, True):
        model.train(mode)
        assert torch.equal(model.datapoints, X)
        assert torch.equal(model.train_inputs[0], X)
        # Each mode is looked for from the last one, so the last digit may differ.
        torch.testing.assert_close(model.log_evidence(), evidence, atol=0, rtol=1e-13)


def test_a_broken_transform_is_not_skipped() -> None:
    class Broken(Normalize):
        def transform(self, X: Tensor) -> Tensor:
            raise AttributeError("broken")

    with pytest.raises(AttributeError, match="broken"):
        make_model(input_transform=Broken(d=2)).posterior(rand(3, 2))


# -------------------------------------------------------------- bars: invariances


@st.composite
def duel_sets(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    seed = draw(st.integers(0, 10_000))
    num_items, num_duels = draw(st.integers(2, 8)), draw(st.integers(1, 16))
    return make_duels(num_items, num_duels, 2, seed)


def _views(model: PreferenceGP) -> tuple[Tensor, ...]:
    evidence = model.log_evidence()
    gradients = torch.autograd.grad(evidence, list(model.covar_module.parameters()))
    posterior = model.posterior(rand(4, 2, seed=77))
    return (
        evidence.detach(),
        torch.cat([gradient.flatten() for gradient in gradients]),
        posterior.mean.detach(),
        posterior.covariance_matrix.detach(),
    )


@QUICK
@given(data=duel_sets(), variance=st.sampled_from(["laplace", 2.0]), seed=st.integers(0, 100))
def test_order_orientation_and_repeats_are_immaterial(
    data: tuple[Tensor, Tensor], variance: str | float, seed: int
) -> None:
    """Of items and duels, of the items of a duel, and of equal rows beside one of their weight."""
    X, comparisons = data
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(comparisons), generator=generator)
    items = torch.randperm(len(X), generator=generator)
    ones = torch.ones(len(comparisons)).double()
    options = {"covar_module": make_kernel(2), "variance": variance}

    def same(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
        views = (_views(PreferenceGP(*given, **options)) for given in (first, second))
        for one, other in zip(*views, strict=True):
            torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-9)

    same(data, (X[items], items.argsort()[comparisons[rows]]))
    same(data, (X, Comparisons(X, comparisons.flip(-1), 0 * ones, ones)))
    weighted = Comparisons(X, comparisons, 2 * ones, 2 * ones)
    same((X, comparisons.repeat(2, 1)), (X, weighted))


# -------------------------------------------------------------------- bars: speed


def _seconds(*functions: Callable[[], Any], repeats: int = 15) -> list[float]:
    """The best time of each, taken in turns so that a busy moment hits all alike."""
    times: list[list[float]] = [[] for _ in functions]
    for _, (function, found) in itertools.product(
        range(repeats), zip(functions, times, strict=True)
    ):
        start = time.perf_counter()
        function()
        found.append(time.perf_counter() - start)
    return [min(found) for found in times]


@pytest.mark.slow
def test_evidence_posterior_and_batches_are_faster() -> None:
    X, comparisons = make_duels(400, 200, 6)
    mine = PreferenceGP(X, comparisons, covar_module=make_kernel(6))
    likelihood = PairwiseLogitLikelihood()
    theirs = PairwiseGP(X, comparisons, covar_module=make_kernel(6), likelihood=likelihood)
    theirs.train()
    mll = PairwiseLaplaceMarginalLogLikelihood(likelihood, theirs)
    ours, others = _seconds(
        lambda: mine.log_evidence().backward(),
        lambda: mll(theirs(*theirs.train_inputs), theirs.train_targets).backward(),
    )
    assert others > 8 * ours
    pairs = rand(500, 2, 6, seed=1)
    with torch.no_grad():
        ours, others = _seconds(
            lambda: mine.posterior(pairs).covariance_matrix,
            lambda: theirs.posterior(pairs).covariance_matrix,
            repeats=4,
        )
    assert others > 20 * ours
    data = [make_duels(20, 25, 4, seed=seed) for seed in range(16)]
    batch = tuple(torch.stack(parts) for parts in zip(*data, strict=True))

    def solved(X: Tensor, rows: Tensor) -> Callable[[], Any]:
        return lambda: PreferenceGP(X, rows, covar_module=make_kernel(4)).posterior(X)

    one, all_of_them = _seconds(solved(*data[0]), solved(*batch))
    assert all_of_them <= 3 * one
