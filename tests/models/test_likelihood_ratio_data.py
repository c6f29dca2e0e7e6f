"""What a confidence set is built from: data, options, coefficients of points, copies, devices."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import ScaleKernel
from torch import Tensor

from botorch_pref.data import Comparisons
from botorch_pref.data.blocks import match_items
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihood_ratio import ConstantSlack, SqrtSlack
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import LikelihoodRatioModel
from tests.common import same
from tests.models.common import duplicates, make_duels, make_kernel, rand
from tests.models.confidence_sets import lengthscales, make_set, unit_kernel

POINTS = rand(6, 2, seed=9)
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
    assert first.confidence_set.slack == pytest.approx(second.confidence_set.slack)


# ------------------------------------------------------------------ data as such


def forms() -> dict[str, tuple[Tensor, Tensor | Comparisons]]:
    """The same answers once more."""
    shown, wins, one = DUELS.clone(), torch.ones(12).double(), torch.ones(12).double()
    shown[::2], wins[::2] = DUELS[::2].flip(-1), 0.0
    spread = DUELS.clone()
    spread[::2, 0] += 8
    spread[::3, 1] += 8
    places = torch.randperm(8, generator=torch.Generator().manual_seed(2))
    return {
        "losers first": (X, Comparisons(X, shown, wins, one)),
        "in another order": (X, DUELS.flip(0)),
        "of items in another order": (X[places], places.argsort()[DUELS]),
        "of items listed twice": (torch.cat([X, X]), spread),
    }


@pytest.mark.parametrize("form", forms().values(), ids=forms())
def test_data_of_any_form(form: tuple[Tensor, Tensor | Comparisons]) -> None:
    model, base = make(*form), make(X, DUELS)
    assert len(model.items) == 8
    for name in ("lower", "upper", "mle"):
        found, expected = (getattr(m, name)(POINTS) for m in (model, base))
        torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)


def test_counts_are_repeated_rows() -> None:
    counts = torch.full((12,), 3.0).double()
    assert_same(make(X, DUELS.repeat(3, 1)), make(X, Comparisons(X, DUELS, counts, counts)))


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
    best = both.confidence_set.mle.log_likelihood
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


NONE = torch.empty(0, 2).long()
UNIT = Normalize(2, bounds=torch.tensor([[0.0] * 2, [1.0] * 2]))


@pytest.mark.parametrize(
    "model",
    [
        make(X, NONE),
        make(X[:0], NONE, input_transform=UNIT),
        LikelihoodRatioModel(X[:0], [], covar_module=unit_kernel(2), norm_bound=3.0),
    ],
)
def test_without_answers_there_is_the_ball(model: LikelihoodRatioModel) -> None:
    size = 3.0 * (1 + 1e-6) ** 0.5 * torch.ones(6).double()
    torch.testing.assert_close(model.upper(POINTS), size, atol=1e-9, rtol=0)
    torch.testing.assert_close(model.lower(POINTS), -size, atol=1e-9, rtol=0)
    assert not model.mle(POINTS).any()
    assert (model.num_answers, model.confidence_set.slack) == (0, float("inf"))
    assert float(model.confidence_set.mle.log_likelihood) == 0.0
    assert model.adapt_norm_bound() is model
    assert model.asked_duel_sigma().shape == (0,)
    pairs = torch.stack([POINTS[:2], POINTS[2:4]], dim=-2)
    cross = unit_kernel(2)(POINTS[:2], POINTS[2:4]).to_dense().diagonal()
    expected = 3.0 * (2.0 - 2.0 * cross + 2e-6).sqrt()
    torch.testing.assert_close(model.advantage(pairs), expected, atol=1e-8, rtol=0)
    assert model.condition_on_pairs(pairs, torch.ones(2).double()).num_answers == 2
    for name in ("lower", "upper", "mle"):
        assert getattr(model, name)(POINTS[:0]).shape == (0,)
    assert model.advantage(pairs[:0]).shape == model.duel_sigma(pairs[:0]).shape == (0,)


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


# ------------------------------------------------------------------------ copies


@duplicates
def test_copies(duplicate: Callable[[LikelihoodRatioModel], LikelihoodRatioModel]) -> None:
    """The same in all they say; what changes in one of them leaves the other alone."""
    bounds = torch.tensor([[0.0, 0.0], [1.0, 2.0]]).double()
    model = make(X, DUELS, input_transform=Normalize(2, bounds=bounds), box=2.0, slack="sqrt")
    early, expected, late = duplicate(model), everything(model), duplicate(model)
    for twin in (early, late):
        torch.testing.assert_close(everything(twin), expected, atol=1e-12, rtol=0)
        assert (twin.norm_bound, twin.slack_rule, twin.box) == (3.0, model.slack_rule, 2.0)
    late.float()
    late.covar_module.lengthscale = 0.1
    assert model.items.dtype == torch.float64
    torch.testing.assert_close(everything(model), expected, atol=1e-12, rtol=0)
    model.covar_module.lengthscale = 0.2
    torch.testing.assert_close(everything(early), expected, atol=1e-12, rtol=0)


# ------------------------------------------------------------------------ errors


def test_batched_data_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="`datapoints` must not be batched"):
        make(X.expand(3, 8, 2), DUELS.expand(3, 12, 2))
    with pytest.raises(UnsupportedError, match="`X` must not be batched"):
        labelled(X.expand(3, 8, 2), torch.ones(3, 8))


# ----------------------------------------------------------------------- options


def test_the_slack_depends_on_the_bound_on_values() -> None:
    slack = SqrtSlack(0.5, 4.0, times_bound=True)
    kernel = ScaleKernel(unit_kernel(2)).double()
    kernel.outputscale = torch.tensor(4.0).double()  # a float passes through float32
    found = make_set(slack=slack, covar_module=kernel, norm_bound=1.5)
    assert found.confidence_set.slack == pytest.approx(0.5 * 4.0 * 3.0)


def test_it_is_solved_once() -> None:
    solve = LikelihoodRatioModel._solve
    with patch.object(LikelihoodRatioModel, "_solve", autospec=True, side_effect=solve) as counted:
        model = make_set()
        assert counted.call_count == 0
        for _ in range(2):
            model.lower(POINTS), model.upper(POINTS), model.mle(POINTS), model.confidence_set.slack
            model.advantage(POINTS[:4].view(2, 2, 2))
        assert counted.call_count == 1


CHANGES: dict[str, Callable[[LikelihoodRatioModel], Any]] = {
    "setter": lambda model: setattr(model.covar_module, "lengthscale", 0.2),
    "in place": lambda model: model.covar_module.raw_lengthscale.data.sub_(1.0),
    "by name": lambda model: model.covar_module.initialize(lengthscale=0.2),
    "kernel": lambda model: setattr(model, "covar_module", unit_kernel(2, 0.2)),
    "norm bound": lambda model: setattr(model, "norm_bound", 1.5),
    "slack": lambda model: setattr(model, "slack_rule", ConstantSlack(0.1)),
    "jitter": lambda model: setattr(model, "jitter", 0.1),
    "box": lambda model: setattr(model, "box", 0.3),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen(change: Any) -> None:
    model, fresh = make_set(), make_set()
    before = model.upper(POINTS), model.mle(POINTS)
    change(model)
    change(fresh)
    assert torch.equal(model.upper(POINTS), fresh.upper(POINTS))
    assert torch.equal(model.mle(POINTS), fresh.mle(POINTS))
    assert float((model.upper(POINTS) - before[0]).abs().max()) > 1e-3


def test_no_jitter_at_all() -> None:
    """An item listed among others to rounding: the rank of the items is not their number."""
    items = torch.cat([rand(6, 2), rand(6, 2) + 1e-9])
    duels = torch.tensor([[0, 1], [2, 7], [8, 3], [4, 11]])
    model = LikelihoodRatioModel.from_comparisons(
        items, duels, covar_module=unit_kernel(2), norm_bound=3.0, jitter=0.0
    )
    assert model.confidence_set.root.shape[-1] < 12
    torch.testing.assert_close(model.mle(items[:6]), model.mle(items[6:]), atol=1e-6, rtol=0)
    torch.testing.assert_close(model.upper(items[:6]), model.upper(items[6:]), atol=1e-5, rtol=0)


def test_bad_options_are_named() -> None:
    cases: list[tuple[str, Any]] = [
        *[("norm_bound", value) for value in (0.0, -1.0, math.nan, math.inf, None, True)],
        *[("box", value) for value in (0.0, -1.0, math.nan)],
        *[("jitter", value) for value in (-1e-6, math.nan, math.inf, "a")],
        *[("slack", value) for value in (-1.0, "most", None)],
    ]
    for name, value in cases:
        with pytest.raises(ComparisonDataError, match=f"`{name}`"):
            make_set(**{name: value})
    with pytest.raises(UnsupportedError, match=r"`covar_module` must not be batched.*\(3,\)"):
        make_set(covar_module=make_kernel(2, batch_shape=(3,)))


# ------------------------------------------------------- coefficients at points


def test_digits_of_near_identical_points() -> None:
    """Without jitter, ``|f(x) - f(x')|`` is at most the distance times the slope."""
    model = make_set(8, 0, jitter_points=False)
    near = torch.stack([POINTS, POINTS + 1e-5], dim=-2)
    g, beyond = model._difference(near)
    prior = 5.0 / 3.0 * 1e-10 * lengthscales(2).pow(-2).sum()
    total = g.square().sum(-1) + beyond.square()
    torch.testing.assert_close(total, prior.expand(6), rtol=1e-2, atol=2e-12)


def test_gradient_at_a_node_is_that_beside_it() -> None:
    model = make_set(8, 0, jitter_points=True)

    def gradient(X: Tensor) -> Tensor:
        X = X.clone().requires_grad_()
        a, _ = model._value(X)
        return torch.autograd.grad((a @ rand(8, seed=4)).sum(), X)[0]

    at, beside = gradient(model.items), gradient(model.items + 1e-7)
    assert float(at.abs().amin()) > 0
    torch.testing.assert_close(at, beside, atol=1e-4, rtol=1e-4)


# ----------------------------------------------------------------------- devices


def test_on_a_device(device: torch.device) -> None:
    model = make(X, DUELS)
    expected = everything(model)
    same(everything(copy.deepcopy(model).to(device)), expected)
    built = make(X.to(device), DUELS.to(device), covar_module=unit_kernel(2))
    assert built.lower(POINTS.to(device)).device == device
    more = built.condition_on_pairs(X[None, :2].to(device), torch.ones(1).to(device))
    assert more.items.device == device
    wanted = model.condition_on_pairs(X[None, :2], torch.ones(1)).lower(POINTS)
    same(more.lower(POINTS.to(device)), wanted)
    same(more.cpu().lower(POINTS), wanted)
