"""Answers that are added to a posterior: equal to finding it anew, and how much is left undone."""

from __future__ import annotations

import copy
import itertools
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.models.transforms.input import Normalize
from gpytorch import settings as gpytorch_settings
from gpytorch.kernels import RBFKernel, ScaleKernel
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.data import Comparisons
from botorch_pref.inference import DualSystem, PrimalSystem, System, extension
from botorch_pref.models import PreferenceGP, solved
from tests.common import same
from tests.models.common import Costs, assert_same_posterior, make_duels, make_kernel, rand
from tests.models.mixed import make_mixed, measure, variances

Z = rand(5, 2, seed=9)
both_variances = pytest.mark.parametrize("variance", ["laplace", 0.7])
# Fewer duels than items, and more: the answer side and the item side.
sizes = pytest.mark.parametrize(
    ("num_items", "num_duels", "side"), [(16, 8, DualSystem), (8, 40, PrimalSystem)]
)


def make_model(num_items: int = 16, num_duels: int = 8, **options: Any) -> PreferenceGP:
    X, comparisons = make_duels(num_items, num_duels, 2)
    model = PreferenceGP(X, comparisons, **{"covar_module": make_kernel(2), **options})
    model.posterior(Z)
    return model


def side_of(model: PreferenceGP) -> System:
    return model.representer()[1].system


def anew(model: PreferenceGP) -> PreferenceGP:
    """The same model, which knows of no former posterior."""
    twin = pickle.loads(pickle.dumps(model))
    assert twin._posterior_cache._value is None
    return twin


def assert_as_anew(model: PreferenceGP, atol: float = 1e-9) -> None:
    """Within rounding, where a posterior was added to; else with ``atol=0`` to the last bit."""
    assert_same_posterior(model.posterior(Z), anew(model).posterior(Z), atol, atol)


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows whenever a posterior is added to."""
    calls: list[int] = []

    def extend(*args: Any) -> Any:
        calls.append(1)
        return extension.extend(*args)

    monkeypatch.setattr(solved, "extend", extend)
    return calls


def tell(model: PreferenceGP, pairs: Tensor, *answers: float) -> PreferenceGP:
    return model.condition_on_pairs(pairs.view(-1, 2, 2), torch.tensor(answers).double())


# ------------------------------------------------------------------- what is found


@both_variances
@sizes
def test_every_kind_of_answer(
    num_items: int, num_duels: int, side: type[System], variance: str | float, extended: list[int]
) -> None:
    model = make_model(num_items, num_duels, variance=variance)
    X, new = model.datapoints, rand(20, 2, seed=3)
    first = X[model.merged_data.pairs[0]]
    for pairs, *answers in (
        (new[:2], 1.0),  # new items
        (torch.stack([X[3], new[2]]), 0.0),  # one that is stored
        (X[[1, 5]], 1.0),  # two
        (first, 0.0),  # a repeated pair
        (first.flip(0), 0.5),  # the other way round, without preference
        (torch.cat([new[3:5], X[[2, 0]], first, new[[5, 3]]]), 1.0, 0.0, 1.0, 1.0),
    ):
        model = tell(model, pairs, *answers)
        assert isinstance(side_of(model), side)
        assert_as_anew(model)
    model = model.condition_on_observations(new[6:9], torch.tensor([[2, 0], [1, 2]]))
    assert_as_anew(model)
    assert len(extended) == 7


@both_variances
def test_many_answers_and_other_sides(variance: str | float, extended: list[int]) -> None:
    model = make_model(6, 5, variance=variance)
    for number in (1, 12, 2):  # more than are worth it, among them
        pairs = torch.stack([model.datapoints[[i % 6, (i + 1) % 6]] for i in range(number)])
        model = tell(model, pairs, *[float(i % 3 > 0) for i in range(number)])
        assert_as_anew(model)
    model = tell(model, rand(36, 2, seed=5), *[1.0] * 18)
    assert isinstance(side_of(model), DualSystem)
    assert_as_anew(model)
    for i, j in itertools.combinations(range(6), 2):
        model = tell(model, model.datapoints[[i, j]], 1.0)
        model.representer()
    assert_as_anew(model)
    assert len(extended) == 4 + 15


@both_variances
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("num_duels", [3, 25])
def test_comparisons_and_values(
    known: bool, num_duels: int, variance: str | float, extended: list[int]
) -> None:
    model = make_mixed(num_duels=num_duels, known=known, variance=variance)
    model.posterior(Z)
    for seed in range(4):
        X, Y = measure(1, seed=seed)
        model = model.condition_on_values(X, Y, variances(Y) if known else None)
        assert_as_anew(model)
        model = tell(model, torch.stack([model.datapoints[seed], rand(2, seed=20 + seed)]), 1.0)
        assert_as_anew(model)
    assert len(extended) == 8


@pytest.mark.parametrize("variance", [1e-6, 1e-8, 1e-10])
def test_a_precise_value_beside_others(variance: float, extended: list[int]) -> None:
    """What is left of its variance is less than the rounding of what it is the difference of."""
    X, Y = measure(5, noise=0.0)
    known = torch.full_like(Y, variance)
    model = PreferenceGP(
        *make_duels(6, 5, 2), values=(X, Y, known), covar_module=make_kernel(2), link_scale=1.5
    )
    model.representer()
    for shift in (0.0, 1e-3):
        more = model.condition_on_values(X[:1] + shift, Y[:1], known[:1])
        assert more.representer()[1].mode.converged
        # Of the prior's variance, divided by that of the noise, as many digits are lost.
        assert_as_anew(more, atol=max(1e-9, 1e-14 / variance))
    assert extended


def test_values_alone_and_then_a_comparison(extended: list[int]) -> None:
    X, Y = measure(5)
    model = PreferenceGP(None, None, values=(X, Y), covar_module=make_kernel(2), link_scale=1.5)
    model.posterior(Z)
    model = tell(model, rand(2, 2), 1.0)
    assert_as_anew(model)
    assert extended


@both_variances
def test_an_item_that_is_there_twice(variance: str | float) -> None:
    model = make_model(6, 20, variance=variance)  # the covariance of its items becomes singular
    for row in (0, 3):
        twice = torch.stack([model.datapoints[row], rand(2, seed=20 + row)])
        model = model.condition_on_observations(twice, torch.tensor([[0, 1]]))
        assert isinstance(side_of(model), PrimalSystem)
        assert_as_anew(model)


@both_variances
@pytest.mark.parametrize("lengthscale", [0.25, 3.0])
def test_items_beside_the_last(variance: str | float, lengthscale: float) -> None:
    """Where a search ends, a smooth kernel does not tell items apart."""
    items = rand(11, 2, seed=1)
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = lengthscale, 10.0
    pairs = torch.combinations(torch.arange(11))
    model = PreferenceGP(items, pairs, covar_module=kernel, variance=variance)
    model.posterior(Z)
    last, new = items[-1], rand(12, 2, seed=3)
    for number in range(12):
        last = last + 1e-7 * (new[number] - 0.5) if number % 2 else new[number]
        model = tell(model, torch.stack([last, items[number % 11]]), float(number % 3 > 0))
        assert isinstance(side_of(model), PrimalSystem)
        assert_as_anew(model)


@pytest.mark.slow
@settings(max_examples=8, deadline=None, database=None, derandomize=True)
@given(
    st.sampled_from(["laplace", 0.3]),
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(1, 9), st.sampled_from([0.0, 0.5, 1.0])),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 3),
)
def test_any_order_of_answers(variance: str | float, duels: list[Any], step: int) -> None:
    items = rand(10, 2, seed=6)
    model = tell(make_model(4, 3, variance=variance), items[:2], 1.0)
    for first in range(0, len(duels), step):
        part = duels[first : first + step]
        pairs = torch.stack([items[[i, (i + shift) % 10]] for i, shift, _ in part])
        model = tell(model, pairs, *[answer for _, _, answer in part])
        model.representer()
    assert_as_anew(model)


# ------------------------------------------------------------------ what is not done


@both_variances
@sizes
@pytest.mark.parametrize("outputscale", [4.0, 40.0, 100.0])
def test_what_an_answer_costs(
    num_items: int,
    num_duels: int,
    side: type[System],
    variance: str | float,
    outputscale: float,
    costs: Costs,
) -> None:
    kernel = make_kernel(2, outputscale=outputscale)
    model = make_model(num_items, num_duels, covar_module=kernel, variance=variance)
    stored, new = model.datapoints, rand(6, 2, seed=3)
    for pair, fresh in (
        (new[:2], 2),
        (stored[[0, 1]], 0),
        (torch.stack([stored[2], new[2]]), 1),
        (stored[[0, 1]], 0),
    ):
        for answer in (1.0, 0.0):
            before = len(model.items)
            costs.read()
            told = tell(model, pair, answer)
            told.representer()
            entries, factorisations = costs.read()
            assert entries == fresh * before + fresh**2
            # Newton's, and for the curvature at the mode that of the covariance.
            assert 1 <= factorisations <= 4
        model = told
    assert isinstance(side_of(model), side)


@both_variances
def test_what_an_answer_costs_where_the_prior_is_singular(
    variance: str | float, costs: Costs
) -> None:
    """A smooth kernel: beyond the first dozen items each is determined by others."""
    X, comparisons = make_duels(30, 120, 2)
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = 3.0, 40.0
    assert torch.linalg.cholesky_ex(kernel(X).to_dense()).info > 0
    model = PreferenceGP(X, comparisons, covar_module=kernel, variance=variance)
    model.posterior(Z)
    new = rand(9, 2, seed=3)
    for number, pair in enumerate(itertools.pairwise(new)):
        model = tell(model, torch.stack(pair), float(number % 3 > 0))
        costs.read()
        model.representer()
        assert 1 <= costs.read()[1] <= 4
        assert isinstance(side_of(model), PrimalSystem)
        assert_as_anew(model)
    assert side_of(model).root.shape[-1] < 30


@both_variances
@pytest.mark.parametrize("fresh", [True, False])
@pytest.mark.parametrize("outputscale", [4.0, 40.0])
def test_what_a_surprising_answer_costs(
    variance: str | float, fresh: bool, outputscale: float, costs: Costs
) -> None:
    """The item wins of which that was the least likely."""
    items, at = rand(60, 2), rand(60, 2, seed=4)
    pairs = torch.arange(60).view(-1, 2)
    utility = 2.0 * outputscale**0.5 * (items.sin().sum(-1) - items[:, 0].square())
    better = utility[pairs[:, 0]] > utility[pairs[:, 1]]
    comparisons = torch.where(better.unsqueeze(-1), pairs, pairs.flip(-1))
    kernel = make_kernel(2, outputscale=outputscale)
    model = PreferenceGP(items, comparisons, covar_module=kernel, variance=variance)
    where = at if fresh else items
    with torch.no_grad():
        order = model.posterior(where).mean.squeeze(-1).argsort()
    for loser, winner in ((-1, 0), (-2, 1), (-3, 0)):
        costs.read()
        tell(model, where[order[[winner, loser]]], 1.0).representer()
        assert 1 <= costs.read()[1] <= 4


@both_variances
def test_the_covariance_for_kappa_is_not_factorised(
    variance: str | float, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, found = make_model(variance=variance), []
    for side in (DualSystem, PrimalSystem):
        factor = side.factor

        def watched(self: Any, curvature: Tensor, factor: Any = factor) -> Any:
            found.append(curvature)
            return factor(self, curvature)

        monkeypatch.setattr(side, "factor", watched)
    model = tell(model, rand(2, 2, seed=3), 1.0)
    model.representer()
    weight = model.variance_weight()
    if weight is not None:
        assert not any(torch.equal(curvature, weight) for curvature in found)


# ---------------------------------------------------------------- nothing is stale


def _outputscale(model: PreferenceGP) -> None:
    model.covar_module.outputscale = 9.0


def _load(model: PreferenceGP) -> None:
    model.load_state_dict({k: v + 0.5 for k, v in model.state_dict().items()})


def _kernel(model: PreferenceGP) -> None:
    kernel = make_kernel(2, nu=0.5)
    kernel.load_state_dict(model.covar_module.state_dict())
    model.covar_module = kernel


def _scale(model: PreferenceGP) -> None:
    model.likelihood.scale = 3.0


def _variance(model: PreferenceGP) -> None:
    model.variance = 0.1


def _transform(model: PreferenceGP) -> None:
    model.input_transform = Normalize(d=2, bounds=torch.tensor([[0.0, -1.0], [2.0, 1.0]]).double())


def _data(model: PreferenceGP) -> None:
    model.set_train_data(*make_duels(9, 7, 2, seed=4))


@pytest.mark.parametrize("change", [_outputscale, _load, _kernel, _scale, _variance, _transform])
@pytest.mark.parametrize("late", [True, False])
def test_after_a_change_nothing_is_added_to(
    change: Callable[[PreferenceGP], None], late: bool, extended: list[int]
) -> None:
    model = make_model()
    if not late:
        change(model)
    told = tell(model, rand(2, 2, seed=3), 1.0)
    if late:
        change(told)
    assert_as_anew(told, atol=0.0)
    assert not extended


def test_other_data_are_not_more_data(extended: list[int]) -> None:
    model = make_model()
    X, comparisons = model.datapoints, model.comparisons
    for other in (
        Comparisons.from_comparisons(X, comparisons[1:]),
        Comparisons.from_comparisons(X, comparisons.flip(-1)),
        Comparisons.from_comparisons(X + 0.1, comparisons),
    ):
        assert_as_anew(model.with_data(other), atol=0.0)
    told = tell(model, rand(2, 2, seed=3), 1.0)
    _data(told)
    assert_as_anew(told, atol=0.0)
    assert not extended
    measured = make_mixed()
    measured.posterior(Z)
    assert_as_anew(measured.with_data(measured.data), atol=0.0)
    assert not extended


def test_another_type_is_found_anew(extended: list[int]) -> None:
    told = tell(make_model(), rand(2, 2, seed=3), 1.0)
    expected = anew(told).posterior(Z)
    single = told.to(torch.float32).posterior(Z.float())
    torch.testing.assert_close(single.mean.double(), expected.mean, atol=1e-3, rtol=1e-3)
    assert not extended


def test_a_chain_is_added_to_at_once_and_leaves_the_first_as_it_was(extended: list[int]) -> None:
    model = make_model()
    before, pairs = model.posterior(Z), rand(6, 2, seed=3)
    told = tell(tell(tell(model, pairs[:2], 1.0), pairs[2:4], 0.0), pairs[4:], 1.0)
    assert not extended
    assert_as_anew(told)
    assert len(extended) == 1
    assert_same_posterior(model.posterior(Z), before, 0.0, 0.0)
    assert_same_posterior(copy.deepcopy(told).posterior(Z), told.posterior(Z), 1e-9, 1e-9)
    _outputscale(model)
    assert_as_anew(told)


def test_gradients_go_through_nothing_that_was_kept(extended: list[int]) -> None:
    model = make_model()
    told = tell(model, rand(2, 2, seed=3), 1.0)
    told.posterior(Z)
    found = [torch.autograd.grad(m.log_evidence(), m.parameters()) for m in (told, anew(told))]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
    new = rand(2, 2, seed=4).requires_grad_()
    with gpytorch_settings.detach_test_caches(False):
        (slope,) = torch.autograd.grad(
            told.posterior(Z).mean.sum(), [told.covar_module.raw_outputscale]
        )
    assert slope.abs() > 0
    grown = told.condition_on_observations(new, torch.tensor([[0, 1]]))
    assert torch.autograd.grad(grown.posterior(Z).mean.sum(), new)[0].abs().max() > 0
    batch = told.condition_on_observations(rand(3, 2, 2, seed=5), torch.tensor([[0, 1]]))
    assert batch.posterior(Z).mean.shape == (3, 5, 1)
    assert len(extended) == 1


@both_variances
@sizes
def test_on_a_device(
    num_items: int,
    num_duels: int,
    side: type[System],
    variance: str | float,
    device: torch.device,
) -> None:
    model = make_model(num_items, num_duels, variance=variance)
    moved = copy.deepcopy(model).to(device)
    moved.posterior(Z.to(device))
    pair, answer = rand(1, 2, 2, seed=3), torch.ones(1).double()
    moved = moved.condition_on_pairs(pair.to(device), answer.to(device))
    found = moved.posterior(Z.to(device))
    expected = anew(model.condition_on_pairs(pair, answer)).posterior(Z)
    same(found.mean, expected.mean)
    same(found.variance, expected.variance)
    assert isinstance(side_of(moved), side)


# Gamma, whose entries grow to 1 / kappa, rounds by as much; a covariance found anew does as well.
@pytest.mark.parametrize(
    ("dtype", "kappa", "error"),
    [
        (torch.float64, 1e-4, 1e-8),
        (torch.float64, 1e-6, 1e-6),
        (torch.float64, 1e-9, 1e-3),
        (torch.float32, 1e-1, 1e-2),
        (torch.float32, 1e-3, math.inf),  # it is to be there at all
    ],
)
@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
def test_answers_far_more_precise_than_the_prior(
    dtype: torch.dtype, kappa: float, error: float
) -> None:
    """Updates of the covariance would lose its digits, one answer after another."""
    items, pick = rand(12, 2).to(dtype), torch.Generator().manual_seed(0)
    rows = torch.stack([torch.randperm(12, generator=pick)[:2] for _ in range(60)])
    answers = torch.ones(60, dtype=dtype)
    kernel = make_kernel(2).to(dtype)
    model = PreferenceGP.from_pairs(
        items[rows[:1]], answers[:1], covar_module=kernel, variance=kappa
    )
    with torch.no_grad():
        for number in range(1, 60):
            model.posterior(items)
            model = model.condition_on_pairs(items[rows[number : number + 1]], answers[:1])
        found = model.posterior(items).covariance_matrix
        anew = PreferenceGP.from_pairs(items[rows], answers, covar_module=kernel, variance=kappa)
        expected = anew.posterior(items).covariance_matrix
    assert bool(found.isfinite().all())
    assert float((found - expected).abs().max()) <= error
