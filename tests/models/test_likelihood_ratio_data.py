"""The data side of a confidence set: building, conditioning, copying, moving, refusing."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.transforms.input import Normalize
from torch import Tensor

from botorch_pref.data import Comparisons
from botorch_pref.data.blocks import match_items
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import LikelihoodRatioModel
from tests.common import same
from tests.models.common import duplicates, make_duels, rand
from tests.models.confidence_sets import make_set, unit_kernel

POINTS = rand(5, 2, seed=9)
X, DUELS = make_duels(8, 12, 2)


def make(items: Tensor, duels: Tensor | Comparisons, **options: Any) -> LikelihoodRatioModel:
    defaults: dict[str, Any] = {"covar_module": unit_kernel(2), "norm_bound": 3.0}
    return LikelihoodRatioModel.from_comparisons(items, duels, **{**defaults, **options})


def labelled(items: Tensor, accept: Tensor, **options: Any) -> LikelihoodRatioModel:
    defaults: dict[str, Any] = {"covar_module": unit_kernel(2), "norm_bound": 3.0, "slack": 0.3}
    return LikelihoodRatioModel.from_labels(items, accept, **{**defaults, **options})


@torch.no_grad()
def everything(model: LikelihoodRatioModel) -> Tensor:
    """All that can be asked, of points and of pairs, some of them items."""
    pairs = torch.stack([POINTS[:4].to(model.items), POINTS[1:5].to(model.items)], dim=-2)
    pairs[0, 0] = model.items[0] if len(model.items) else pairs[0, 0]
    X = POINTS.to(model.items)
    parts = [model.lower(X), model.upper(X), model.mle(X), model.advantage(pairs)]
    return torch.cat([part.double() for part in (*parts, model.duel_sigma(pairs))])


def assert_same(first: LikelihoodRatioModel, second: LikelihoodRatioModel) -> None:
    torch.testing.assert_close(everything(first), everything(second), atol=1e-7, rtol=0)
    assert first.num_answers == second.num_answers
    assert first.slack == pytest.approx(second.slack)


# ------------------------------------------------------------------ data as such


def test_comparisons_of_any_form() -> None:
    """Loser-first rows, repeated rows and counts are the same answers."""
    base = make(X, DUELS)
    shown = DUELS.clone()
    shown[::2] = DUELS[::2].flip(-1)
    wins = torch.ones(12).double()
    wins[::2] = 0.0
    data = Comparisons(X, shown, wins, torch.ones(12).double())
    other = make(X, data)
    for name in ("lower", "upper", "mle"):
        found, expected = (getattr(m, name)(POINTS) for m in (other, base))
        torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)
    many = make(X, DUELS.repeat(3, 1))
    counts = torch.full((12,), 3.0).double()
    assert_same(many, make(X, Comparisons(X, DUELS, counts, counts)))


def test_order_of_items_and_answers() -> None:
    base = make(X, DUELS)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    assert_same(make(X, DUELS[order]), base)
    places = torch.randperm(8, generator=torch.Generator().manual_seed(2))
    other = make(X[places], places.argsort()[DUELS])
    for name in ("lower", "upper", "mle"):
        found, expected = (getattr(m, name)(POINTS) for m in (other, base))
        torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)


def test_an_item_listed_twice_is_one_item() -> None:
    base = make(X, DUELS)
    twice = torch.cat([X, X])
    spread = DUELS.clone()
    spread[::2, 0] += 8
    spread[::3, 1] += 8
    model = make(twice, spread)
    assert torch.equal(model.items, X)
    assert_same(model, base)


# ----------------------------------------------------------------- conditioning


def test_conditioning_on_duels_is_building_from_all() -> None:
    pairs = torch.stack([torch.stack([X[3], POINTS[0]]), torch.stack([POINTS[0], X[1]])])
    answers = torch.tensor([1.0, 0.5]).double()
    first = make(X, DUELS)
    before = everything(first)
    model = first.condition_on_pairs(pairs, answers)
    items = torch.cat([X, POINTS[:1]])
    rows = torch.cat([DUELS, torch.tensor([[3, 8], [8, 1]])])
    wins = torch.cat([torch.ones(12), torch.tensor([1.0, 0.5])]).double()
    expected = make(items, Comparisons(items, rows, wins, torch.ones(14).double()))
    assert torch.equal(model.items, items)
    assert_same(model, expected)
    torch.testing.assert_close(model.asked_duel_sigma(), expected.asked_duel_sigma())
    # The first model is as it was, in what it knows and in what it says.
    assert torch.equal(first.items, X)
    assert torch.equal(everything(first), before)


def test_labels_beside_duels_are_rows_more() -> None:
    accept = torch.tensor([1.0, 0.0]).double()
    model = labelled(X[:2], accept, slack=0.5, jitter_points=True)
    both = model.condition_on_pairs(X[DUELS], torch.ones(12).double())
    assert both.num_answers == 14
    items = torch.cat([X[:2], X[DUELS].flatten(end_dim=1)])
    assert torch.equal(both.items, items[match_items(items[:0], items)[1]])
    values = both.mle(X)
    duels = values[DUELS[:, 0]] - values[DUELS[:, 1]]
    total = torch.nn.functional.logsigmoid(torch.cat([duels, values[:1], -values[1:2]])).sum()
    best = both.maximum_likelihood.log_likelihood
    torch.testing.assert_close(total, best, atol=1e-5, rtol=0)


@pytest.mark.parametrize("likelihood", [LogitLikelihood(2.5), ProbitLikelihood(0.7)])
def test_further_answers_have_the_same_link(likelihood: Any) -> None:
    """Also where there were none before."""
    whole = make(X, DUELS, likelihood=likelihood)
    assert whole.likelihood is likelihood
    answers = torch.ones(6).double()
    for start in (0, 6):
        model = make(X, DUELS[:start], likelihood=likelihood)
        for part in (DUELS[start : start + 6], DUELS[start + 6 :]):
            model = model.condition_on_pairs(X[part], answers[: len(part)])
        assert_same(model, whole)


# ------------------------------------------------------------------------ empty


def empties() -> list[LikelihoodRatioModel]:
    none = torch.empty(0, 2).long()
    return [
        make(X[:0], none),
        make(X, none),
        make(
            X[:0], none, input_transform=Normalize(2, bounds=torch.tensor([[0.0] * 2, [2.0] * 2]))
        ),
        LikelihoodRatioModel(X[:0], [], covar_module=unit_kernel(2), norm_bound=3.0),
    ]


@pytest.mark.parametrize("model", empties())
def test_without_answers_there_is_the_ball(model: LikelihoodRatioModel) -> None:
    size = 3.0 * (1 + 1e-6) ** 0.5 * torch.ones(5).double()
    torch.testing.assert_close(model.upper(POINTS), size, atol=1e-9, rtol=0)
    torch.testing.assert_close(model.lower(POINTS), -size, atol=1e-9, rtol=0)
    assert not model.mle(POINTS).any()
    assert model.num_answers == 0
    assert model.slack == float("inf")
    assert float(model.maximum_likelihood.log_likelihood) == 0.0
    assert model.adapt_norm_bound() is model
    assert model.asked_duel_sigma().shape == (0,)
    pairs = torch.stack([POINTS[:2], POINTS[2:4]], dim=-2)
    nodes = model.transform_inputs(pairs)
    gap = [
        unit_kernel(2)(a, diag=True) - unit_kernel(2)(*a.unsqueeze(1)).to_dense().flatten()
        for a in nodes
    ]
    expected = 3.0 * (2.0 * torch.stack([g[0] for g in gap]) + 2e-6).sqrt()
    torch.testing.assert_close(model.advantage(pairs), expected, atol=1e-8, rtol=0)
    assert model.condition_on_pairs(pairs, torch.ones(2).double()).num_answers == 2


def test_no_points() -> None:
    for model in (make_set(), make_set(0, 0)):
        for name in ("lower", "upper", "mle"):
            assert getattr(model, name)(POINTS[:0]).shape == (0,)
        assert model.advantage(POINTS[:0].view(0, 2, 2)).shape == (0,)
        assert model.duel_sigma(POINTS[:0].view(0, 2, 2)).shape == (0,)


# ------------------------------------------------------------- transforms, types


def test_input_transform() -> None:
    lower, upper = torch.tensor([-5.0, 10.0]).double(), torch.tensor([5.0, 14.0]).double()
    box = torch.stack([lower, upper])
    model = make(lower + (upper - lower) * X, DUELS, input_transform=Normalize(2, bounds=box))
    base, points = make(X, DUELS), lower + (upper - lower) * POINTS
    torch.testing.assert_close(model.lower(points), base.lower(POINTS), atol=1e-8, rtol=0)
    torch.testing.assert_close(model.mle(points), base.mle(POINTS), atol=1e-8, rtol=0)
    pairs = torch.stack([POINTS[:2], POINTS[2:4]], dim=-2)
    there = lower + (upper - lower) * pairs
    torch.testing.assert_close(model.advantage(there), base.advantage(pairs), atol=1e-8, rtol=0)
    torch.testing.assert_close(model.duel_sigma(there), base.duel_sigma(pairs))
    # Items are those that were given, and the gradient is in their units.
    itself = model.items[:1].unsqueeze(-2).expand(1, 2, 2)
    assert model.advantage(itself) == 0
    at, other = points.clone().requires_grad_(), POINTS.clone().requires_grad_()
    gradient = torch.autograd.grad(model.upper(at).sum(), at)[0]
    expected = torch.autograd.grad(base.upper(other).sum(), other)[0]
    torch.testing.assert_close(gradient * (upper - lower), expected, atol=1e-6, rtol=0)


def test_bounds_of_a_transform_are_learnt_once() -> None:
    transform = Normalize(2)
    model = make(10 * X, DUELS, input_transform=transform)
    learnt = model.input_transform.bounds.clone()
    torch.testing.assert_close(learnt, torch.stack([10 * X.amin(0), 10 * X.amax(0)]))
    assert model.input_transform is not transform
    model.lower(20 * POINTS)
    more = model.condition_on_pairs(
        30 * torch.stack([POINTS[:1], POINTS[1:2]], dim=-2), torch.ones(1).double()
    )
    more.lower(20 * POINTS)
    for one in (model, more):
        assert torch.equal(one.input_transform.bounds, learnt)


def test_single_precision() -> None:
    with pytest.warns(InputDataWarning, match="double precision"):
        model = make(X.float(), DUELS, covar_module=unit_kernel(2).float())
    assert model.items.dtype == torch.float32
    with pytest.warns(InputDataWarning, match="double precision"):
        labelled(X.float(), torch.ones(8))
    single, double = everything(model), everything(make(X, DUELS))
    torch.testing.assert_close(single, double, atol=5e-3, rtol=0)
    assert model.lower(POINTS.float()).dtype == torch.float64


@pytest.mark.parametrize(
    "derive",
    [
        lambda m: m.condition_on_pairs(X[DUELS[:1]], torch.ones(1).double()),
        copy.deepcopy,
    ],
)
def test_a_derived_model_is_apart(
    derive: Callable[[LikelihoodRatioModel], LikelihoodRatioModel],
) -> None:
    """Moving it, or changing its kernel, leaves the first one alone; and the other way round."""
    model = make(X, DUELS)
    expected = everything(model)
    other = derive(model)
    before = everything(other)
    other.float()
    other.covar_module.lengthscale = 0.1
    assert model.items.dtype == torch.float64
    torch.testing.assert_close(everything(model), expected, atol=1e-12, rtol=0)
    again = derive(model)
    model.covar_module.lengthscale = 0.2
    torch.testing.assert_close(everything(again), before, atol=1e-12, rtol=0)


@duplicates
@pytest.mark.parametrize("solved", [False, True])
def test_copies(
    duplicate: Callable[[LikelihoodRatioModel], LikelihoodRatioModel], solved: bool
) -> None:
    bounds = torch.tensor([[0.0, 0.0], [1.0, 2.0]]).double()
    model = make(X, DUELS, input_transform=Normalize(2, bounds=bounds), box=2.0, slack="sqrt")
    if solved:
        everything(model)
    twin = duplicate(model)
    torch.testing.assert_close(everything(twin), everything(model), atol=1e-12, rtol=0)
    assert (twin.norm_bound, twin.slack_rule, twin.box) == (3.0, model.slack_rule, 2.0)


# ------------------------------------------------------------------------ errors


def test_batched_data_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="`datapoints` must not be batched"):
        make(X.expand(3, 8, 2), DUELS.expand(3, 12, 2))
    with pytest.raises(UnsupportedError, match="`X` must not be batched"):
        labelled(X.expand(3, 8, 2), torch.ones(3, 8))


def test_on_a_device(device: torch.device) -> None:
    model = make(X, DUELS)
    expected = everything(model)
    moved = copy.deepcopy(model).to(device)
    assert moved.lower(POINTS.to(device)).device == device
    same(everything(moved), expected)
    built = make(X.to(device), DUELS.to(device), covar_module=unit_kernel(2))
    same(everything(built), expected)
    more = built.condition_on_pairs(X[None, :2].to(device), torch.ones(1).to(device))
    assert more.items.device == device
    wanted = model.condition_on_pairs(X[None, :2], torch.ones(1)).lower(POINTS)
    same(more.lower(POINTS.to(device)), wanted)
    same(more.cpu().lower(POINTS), wanted)
