"""Answers that are added to a model with inducing items: what is found, kept and left undone."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
import torch
from botorch.models.transforms.input import Normalize
from torch import Tensor

from botorch_pref.models import PreferenceGP, inducing_model
from tests.common import same
from tests.models.common import Costs, assert_same_posterior, make_duels, make_kernel, rand
from tests.models.mixed import make_mixed, measure, variances

POINTS = rand(5, 2, seed=3)
GIVEN = rand(9, 2, seed=9)
both_variances = pytest.mark.parametrize("variance", ["laplace", 4.0])
both_kinds = pytest.mark.parametrize("points", [GIVEN, 9])


def make_model(**options: Any) -> PreferenceGP:
    X, comparisons = make_duels(40, 80, 2)
    options = {"covar_module": make_kernel(2), "inducing_points": GIVEN, **options}
    model = PreferenceGP(X, comparisons, **options)
    model.posterior(POINTS)
    return model


def tell(model: PreferenceGP, pairs: Tensor, *answers: float) -> PreferenceGP:
    return model.condition_on_pairs(pairs.view(-1, 2, 2), torch.tensor(answers).double())


def anew(model: PreferenceGP) -> PreferenceGP:
    """The same model and inducing items, which knows of no former posterior."""
    return copy.deepcopy(model)


def assert_as_anew(model: PreferenceGP, atol: float = 1e-9) -> None:
    found = model.posterior(POINTS)
    assert_same_posterior(found, anew(model).posterior(POINTS), atol, atol)


@pytest.fixture
def extended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that grows whenever a posterior is added to."""
    calls: list[int] = []
    extend = inducing_model.extend_through_inducing_items

    def watched(*args: Any) -> Any:
        calls.append(1)
        return extend(*args)

    monkeypatch.setattr(inducing_model, "extend_through_inducing_items", watched)
    return calls


@both_variances
@both_kinds
@pytest.mark.parametrize("transform", [True, False])
def test_every_kind_of_answer(
    variance: str | float, points: Tensor | int, transform: bool, extended: list[int]
) -> None:
    own = Normalize(2, bounds=torch.tensor([[0.0, -1.0], [2.0, 1.0]]).double())
    model = make_model(
        variance=variance, inducing_points=points, input_transform=own if transform else None
    )
    X, new = model.datapoints, rand(8, 2, seed=3)
    first = X[model.merged_data.pairs[0]]
    for pairs, *answers in (
        (new[:2], 1.0),
        (torch.stack([X[3], new[2]]), 0.0),
        (X[[1, 5]], 1.0),
        (first, 0.0),
        (first.flip(0), 0.5),
        (torch.cat([new[3:5], X[[2, 0]], first, new[[5, 3]]]), 1.0, 0.0, 1.0, 1.0),
    ):
        inducing = model.inducing_points
        model = tell(model, pairs, *answers)
        torch.testing.assert_close(model.inducing_points, inducing, rtol=0, atol=0)
        assert_as_anew(model)
    assert len(extended) == 6


@both_variances
@pytest.mark.parametrize("known", [True, False])
def test_comparisons_and_values(variance: str | float, known: bool, extended: list[int]) -> None:
    model = make_mixed(12, 30, 6, known=known, variance=variance, inducing_points=GIVEN)
    model.posterior(POINTS)
    for seed in range(3):
        X, Y = measure(1, seed=seed)
        model = model.condition_on_values(X, Y, variances(Y) if known else None)
        assert_as_anew(model)
        model = tell(model, torch.stack([model.datapoints[seed], rand(2, seed=20 + seed)]), 1.0)
        assert_as_anew(model)
    assert len(extended) == 6


# ------------------------------------------------------------------ what is not done


@both_variances
@both_kinds
@pytest.mark.parametrize("outputscale", [4.0, 40.0, 100.0])
def test_what_an_answer_costs(
    variance: str | float, points: Tensor | int, outputscale: float, costs: Costs
) -> None:
    kernel = make_kernel(2, outputscale=outputscale)
    model = make_model(covar_module=kernel, variance=variance, inducing_points=points)
    new = rand(6, 2, seed=3)
    for pairs, fresh in ((new[:2], 2), (model.datapoints[:2], 0), (new[2:4], 2)):
        for answer in (0.0, 1.0):
            told = tell(model, pairs, answer)
            costs.read()
            told.representer()
            entries, factorisations = costs.read()
            assert entries == fresh * len(GIVEN)
            # Newton's, the first of them by a few ranks more, and that of the covariance.
            assert 1 <= factorisations <= 4
        model = told


@both_variances
def test_the_least_likely_answers(variance: str | float, costs: Costs) -> None:
    model = make_model(covar_module=make_kernel(2, outputscale=40.0), variance=variance)
    items = rand(60, 2, seed=4)
    with torch.no_grad():
        order = model.posterior(items).mean.squeeze(-1).argsort()
    for loser, winner in ((-1, 0), (-2, 1), (-3, 0)):
        told = tell(model, items[order[[winner, loser]]], 1.0)
        costs.read()
        told.representer()
        assert costs.read()[1] <= 4
        assert_as_anew(told)


# ------------------------------------------------------------------- what is chosen


def test_a_choice_stays_while_it_explains_what_is_added(extended: list[int]) -> None:
    model = make_model(inducing_points=9)
    chosen = model.inducing_points
    inside = tell(model, rand(2, 2, seed=8), 1.0)
    assert inside.inducing_points is chosen
    far = torch.tensor([[5.0, 5.0], [-5.0, 5.0]], dtype=torch.float64)
    outside = tell(inside, far, 1.0)
    assert (outside.inducing_points == far[0]).all(-1).any()
    assert model.inducing_points is chosen
    assert_as_anew(outside)
    assert not extended


def test_a_new_choice_starts_from_what_was_known(costs: Costs) -> None:
    model = make_model(inducing_points=9)
    far = torch.tensor([[5.0, 5.0], [-5.0, 5.0]], dtype=torch.float64)
    told = tell(model, far, 1.0)
    assert told.inducing_points is not None
    costs.read()
    told.representer()
    assert costs.read()[1] <= 1 + 4  # the prior's, and Newton's
    assert_as_anew(told)


def test_after_other_hyperparameters_a_choice_is_made_again(extended: list[int]) -> None:
    model = make_model(inducing_points=9)
    model.covar_module.base_kernel.lengthscale = 0.1
    chosen = model.inducing_points  # for these data
    pair = rand(2, 2, seed=8)
    told = tell(model, pair, 1.0)
    assert not torch.equal(told.inducing_points, chosen)
    X, comparisons = told.datapoints, told.comparisons
    kernel = make_kernel(2, lengthscale=0.1)
    kernel.load_state_dict(model.covar_module.state_dict())
    fresh = PreferenceGP(X, comparisons, covar_module=kernel, inducing_points=9)
    assert torch.equal(told.inducing_points, fresh.inducing_points)
    assert_same_posterior(told.posterior(POINTS), fresh.posterior(POINTS), 1e-9, 1e-9)
    assert not extended


@pytest.mark.filterwarnings("ignore::botorch.exceptions.warnings.InputDataWarning")
def test_another_type_is_chosen_for_again() -> None:
    model = make_model(inducing_points=9)
    assert model.inducing_points is not None
    single = copy.deepcopy(model).float()
    pair = rand(1, 2, 2, seed=8).float()
    told = single.condition_on_pairs(pair, torch.ones(1))
    assert told.inducing_points.dtype == torch.float32
    assert bool(told.posterior(POINTS.float()).mean.isfinite().all())


def test_other_data_are_chosen_from_afresh() -> None:
    model = make_model(inducing_points=9)
    model.set_train_data(*make_duels(30, 40, 2, seed=4))
    chosen = model.inducing_points
    assert (chosen.unsqueeze(1) == model.items).all(-1).any(-1).all()


def test_from_all_items_to_some(extended: list[int]) -> None:
    """While there are no more items than inducing ones the model is exact."""
    X, comparisons = make_duels(6, 9, 2)
    model = PreferenceGP(X, comparisons, covar_module=make_kernel(2), inducing_points=8)
    new = rand(8, 2, seed=3)
    for i, j in itertools.pairwise(range(0, 8, 2)):
        model.posterior(POINTS)
        assert (model.inducing_points is None) is (len(model.items) <= 8)
        model = tell(model, torch.stack([new[i], new[j + 1]]), 1.0)
        assert_as_anew(model)
    assert len(model.items) == 12
    assert len(model.inducing_points) == 8


def test_gradients_go_through_nothing_that_was_kept() -> None:
    told = tell(make_model(), rand(2, 2, seed=3), 1.0)
    told.posterior(POINTS)
    found = [torch.autograd.grad(m.log_evidence(), m.parameters()) for m in (told, anew(told))]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


@both_variances
@both_kinds
def test_on_a_device(variance: str | float, points: Tensor | int, device: torch.device) -> None:
    pair, answer = rand(1, 2, 2, seed=3), torch.ones(1).double()
    model = make_model(variance=variance, inducing_points=points)
    moved = make_model(variance=variance, inducing_points=points).to(device)
    moved.posterior(POINTS.to(device))
    expected = model.condition_on_pairs(pair, answer).posterior(POINTS)
    found = moved.condition_on_pairs(pair.to(device), answer.to(device)).posterior(
        POINTS.to(device)
    )
    same(found.mean, expected.mean)
    same(found.variance, expected.variance)
