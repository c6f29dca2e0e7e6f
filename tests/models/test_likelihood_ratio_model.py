"""Bounds in place of a posterior: printed programs, fixtures, and what must hold of any set."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from scipy.stats import spearmanr
from torch import Tensor

from botorch_pref.acquisition import OptimisticAcceptance
from botorch_pref.data import Comparisons
from botorch_pref.exceptions import BoundConvergenceWarning, ComparisonDataError, UnsupportedError
from botorch_pref.likelihood_ratio import SCREENING, slack_rule
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.models import LikelihoodRatioModel, PreferenceGP
from experiments.problems import GPSample
from tests._reference import likelihood_ratio as reference
from tests.inference.common import matern
from tests.models.common import make_duels, numerical_gradient, rand
from tests.models.confidence_sets import (
    JITTER,
    answers_of,
    lengthscales,
    make_set,
    printed,
    rbf,
    unit_kernel,
    with_norm_bound,
)

POINTS = rand(6, 2, seed=9)


def duels_of(items: Tensor, duels: Tensor | Comparisons, **options: Any) -> LikelihoodRatioModel:
    options = {"covar_module": unit_kernel(2), "norm_bound": 3.0, **options}
    return LikelihoodRatioModel.from_comparisons(items, duels, **options)


def repeated(**options: Any) -> LikelihoodRatioModel:
    """Duels asked several times, with ties, in both orders; and labels."""
    items, duels = make_duels(8, 10, 2, seed=4)
    wins = torch.tensor([1.0, 0.5, 0.0, 2.0, 3.5, 1.0, 0.5, 4.0, 0.0, 2.5]).double()
    count = torch.tensor([1.0, 1.0, 2.0, 3.0, 5.0, 1.0, 1.0, 4.0, 2.0, 3.0]).double()
    return duels_of(items, Comparisons(items, duels, wins, count), norm_bound=2.0, **options)


def with_labels(**options: Any) -> LikelihoodRatioModel:
    duels = make_set(seed=5)
    X, accept = torch.cat([duels.items[:3], rand(2, 2, seed=6)]), [1.0, 0.0, 1.0, 0.5, 1.0]
    options = {"covar_module": unit_kernel(2), "norm_bound": 3.0, **options}
    labels = LikelihoodRatioModel.from_labels(
        X, torch.tensor(accept), jitter_points=True, **options
    )
    asked = duels.items[duels.blocks[0].items]
    return labels.condition_on_pairs(asked, torch.ones(len(asked)).double())


def consistent(**options: Any) -> LikelihoodRatioModel:
    return duels_of(*make_duels(8, 12, 2, seed=2, consistent=True), **options)


SETS = {
    "noisy": lambda: make_set(slack=0.5),
    "sqrt": lambda: make_set(12, 30, seed=1, norm_bound=6.0),
    "consistent": lambda: consistent(slack=0.05),
    "repeated": repeated,
    "scaled": lambda: repeated(likelihood=LogitLikelihood(2.5), slack=1.0),
    "labels": lambda: with_labels(slack=1.0),
    "box": lambda: make_set(seed=3, slack=1.0, box=0.5),
    "6-d": lambda: make_set(15, 25, 6, norm_bound=4.0, covar_module=unit_kernel(6, 1.0)),
}


def every_pair(model: LikelihoodRatioModel) -> Tensor:
    """Two points, two items, and a point with an item in either order."""
    d = model.items.shape[-1]
    x, z, *items = *rand(2, d, seed=9), *model.items[:2]
    return torch.stack([torch.stack(p) for p in ((x, z), items, (x, items[0]), (items[1], z))])


# ------------------------------------------------------------- the printed program


@pytest.mark.parametrize("name", SETS)
def test_bounds_are_those_of_the_printed_program(name: str) -> None:
    """In a batch of any shape or alone, certified, and attained in the set."""
    model = SETS[name]()
    if name == "6-d":
        model.covar_module.lengthscale = lengthscales(6)
    pairs = every_pair(model)
    values = model.advantage(pairs)
    assert model.status is not None
    assert model.status.converged
    assert model.status.gap <= 1e-9
    torch.testing.assert_close(model.advantage(pairs.view(2, 2, 2, -1)).view(4), values)
    torch.testing.assert_close(model.advantage(pairs[1]), values[1], atol=1e-8, rtol=0)
    point = pairs[0, 0]
    cases = [(pair, [1.0, -1.0], value) for pair, value in zip(pairs, values, strict=True)]
    if model.box is None:
        cases += [(point[None], [1.0], model.upper(point))]
        cases += [(point[None], [-1.0], -model.lower(point))]
    for points, weights, value in cases:
        expected = printed(model, points, weights)
        assert float(value) == pytest.approx(expected.value, abs=1e-6 if expected.exact else 1e-4)
        assert float(value) >= expected.value - 1e-6


@pytest.mark.parametrize("name", ["noisy", "repeated", "labels"])
def test_likelihood(name: str) -> None:
    model = SETS[name]()
    items, found, answers = model.items, model.confidence_set.mle, answers_of(model, 0)
    best, values = float(found.log_likelihood), model.mle(items).numpy()
    assert reference.log_likelihood(answers, values) == pytest.approx(best, abs=1e-7)
    total = float(answers.weight.sum()) * math.log(2)
    assert -total <= best <= 0
    at_zero = model.confidence_set.log_likelihood(0.0 * found.coordinates)
    assert float(at_zero) == pytest.approx(-total, abs=1e-10)
    # The likelihood is not affected by what all items have in common, labels aside.
    if name != "labels":
        shifted = model._solved().whitening.inverse @ torch.from_numpy(values + 0.7)
        again = model.confidence_set.log_likelihood(shifted)
        assert float(again) == pytest.approx(best, abs=1e-8)


# ----------------------------------------------------- the equivalent Gaussian process


@pytest.mark.parametrize("name", ["sqrt", "consistent", "scaled"])
def test_most_likely_function_is_the_mode_of_our_model(name: str) -> None:
    model = SETS[name]()
    model.jitter = 0.0
    if float(model.confidence_set.mle.coordinates.norm()) < 0.99 * model.norm_bound:
        model = with_norm_bound(model, 0.3)
    u = model.confidence_set.mle.coordinates.requires_grad_()
    (gradient,) = torch.autograd.grad(model.confidence_set.log_likelihood(u), u)
    nu = float(gradient @ u.detach()) / model.norm_bound**2
    assert nu > 1e-3
    assert float(u.detach().norm()) == pytest.approx(model.norm_bound)
    kernel = ScaleKernel(unit_kernel(2)).double()
    kernel.outputscale = 1.0 / nu
    block = model.blocks[0]
    data = Comparisons(model.items, block.items, block.answer * block.weight, block.weight)
    twin = PreferenceGP(
        model.items,
        data,
        covar_module=kernel,
        likelihood=block.likelihood,  # type: ignore[arg-type]
    )
    points = torch.cat([POINTS, model.items])
    with torch.no_grad():
        mean = twin.posterior(points).mean.squeeze(-1)
    torch.testing.assert_close(model.mle(points), mean, atol=1e-6, rtol=0)


# ----------------------------------------------------------------- what must hold


@pytest.mark.parametrize("name", SETS)
def test_bounds_lie_between_the_estimate_and_the_prior(name: str) -> None:
    model = SETS[name]()
    points = torch.cat([rand(6, model.items.shape[-1], seed=7), model.items])
    low, best, high = model.lower(points), model.mle(points), model.upper(points)
    assert (low <= best + 1e-8).all()
    assert (best <= high + 1e-8).all()
    ball = model.norm_bound * math.sqrt(1 + JITTER)
    largest = ball if model.box is None else min(ball, model.box)
    assert (torch.maximum(-low, high) <= largest + 1e-9).all()
    pairs = every_pair(model)
    first, second = pairs.unbind(-2)
    values, back = model.advantage(pairs), model.advantage(pairs.flip(-2))
    assert (values >= model.mle(first) - model.mle(second) - 1e-8).all()
    assert (values + back >= -1e-8).all()
    cross = model.covar_module(first, second).to_dense().diagonal()
    ball = model.norm_bound * (2.0 - 2.0 * cross + 2 * JITTER).sqrt()
    assert (values <= ball + 1e-8).all()
    if model.box is None:
        # What the set says of two values, it says of their difference.
        assert (values <= model.upper(first) - model.lower(second) + 1e-8).all()
        model.slack_rule = slack_rule(math.inf)
        torch.testing.assert_close(model.advantage(pairs), ball, atol=1e-7, rtol=0)


@pytest.mark.parametrize("name", ["noisy", "labels", "box", "6-d"])
def test_an_item_meets_itself(name: str) -> None:
    model = SETS[name]()
    d = model.items.shape[-1]
    X = torch.cat([model.items[:2], rand(2, d, seed=9)])
    itself = X.unsqueeze(-2).expand(-1, 2, -1).clone().requires_grad_()
    value = model.advantage(itself)
    assert not value.any()
    (gradient,) = torch.autograd.grad(value.sum(), itself)
    assert gradient.isfinite().all()
    # Near to itself, there is what the jitter of two nodes allows.
    near = torch.stack([X, X + 1e-9], dim=-2)
    values = model.advantage(near)
    assert (values >= -1e-5).all()
    assert (values <= model.norm_bound * math.sqrt(2 * JITTER) + 1e-5).all()


def test_a_point_equal_to_an_item_is_that_item() -> None:
    model = make_set(slack=0.5)
    first, second = model.items[:2]
    apart = model._solved().whitening.root[0] - model._solved().whitening.root[1]
    bound = model.confidence_set.upper(apart, torch.zeros(()).double())
    value = model.advantage(torch.stack([first, second]))
    assert float(value) == pytest.approx(float(bound.value), abs=1e-9)
    # Beside it, a node of its own adds what its jitter allows, and no more.
    beside = model.advantage(torch.stack([first + 1e-9, second]))
    assert 0 <= float(beside - value) <= 3.0 * math.sqrt(2 * JITTER)
    at = model.mle(model.items)
    torch.testing.assert_close(at, model.mle(model.items + 1e-9), atol=1e-4, rtol=0)
    there = model.upper(model.items)[0]
    torch.testing.assert_close(model.upper(first.clone()), there, atol=1e-8, rtol=0)


@pytest.mark.parametrize("points_have_jitter", [True, False])
@pytest.mark.parametrize("what", ["lower", "upper", "mle", "advantage"])
def test_gradient(points_have_jitter: bool, what: str) -> None:
    model = make_set(slack=0.5, jitter_points=points_have_jitter)
    X = POINTS[:4] if what != "advantage" else POINTS[:4].view(2, 2, 2)
    options = {} if what == "mle" else {"tolerance": 1e-12}

    def total(at: Tensor) -> Tensor:
        values: Tensor = getattr(model, what)(at, **options)
        return values.sum()

    at = X.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(total(at), at)
    torch.testing.assert_close(gradient, numerical_gradient(total, at, 1e-3), atol=1e-5, rtol=1e-5)


def test_labels_of_items_that_nearly_coincide() -> None:
    """Items 1e-8 apart, many labels of one place, and a norm far too large."""
    base = rand(22, 1, seed=3)
    X = torch.cat([base, base[:21] + 1e-8])
    accept = (rand(43, seed=4) < 0.5).double()
    model = LikelihoodRatioModel.from_labels(
        X, accept, covar_module=rbf(0.2), norm_bound=16.0, slack=0.2
    )
    points = rand(200, 1, seed=5)
    low, best, high = model.lower(points), model.mle(points), model.upper(points)
    assert (low <= best + 1e-6).all()
    assert (best <= high + 1e-6).all()
    status = model.status
    assert status is not None
    assert status.gap <= 1e-6


# ------------------------------------------------------------ what is said of it


def test_status() -> None:
    model, pairs = make_set(20, 40), rand(16, 2, 2, seed=8)
    assert model.status is None
    exact, fine = model.advantage(pairs), model.status
    rough, coarse = model.advantage(pairs, tolerance=SCREENING), model.status
    assert fine is not None
    assert coarse is not None
    assert fine.converged
    assert coarse.converged
    assert fine.gap < coarse.gap <= SCREENING
    assert 0 < coarse.num_steps < fine.num_steps
    # Attained in the set: never wider than the exact one.
    assert (rough <= exact + 1e-9).all()
    assert (exact <= rough + coarse.gap + 1e-9).all()
    model.lower(pairs[:0, 0])
    assert model.status == (True, 0.0, 0)
    assert model.condition_on_pairs(pairs[:1], torch.ones(1).double()).status is None
    # A gap that is not closed is told, unless it is close enough for any purpose.
    bound = model.confidence_set.upper(*model._difference(pairs))
    open_by = [
        bound._replace(gap=torch.full_like(bound.gap, gap), converged=bound.gap < 0)
        for gap in (1e-2, 1e-7)
    ]
    with pytest.warns(BoundConvergenceWarning, match="certified to 1.0e-02"):
        assert model._certified(open_by[0]) is open_by[0]
    model._certified(open_by[1])
    assert model.status == (False, pytest.approx(1e-7), fine.num_steps)


def test_there_is_no_posterior() -> None:
    for call in (lambda m: m.posterior(POINTS), lambda m: m.posterior()):
        with pytest.raises(UnsupportedError, match="lower, upper, advantage, or mle"):
            call(make_set())


def test_widths() -> None:
    """Eq. (16) of Xu et al. (2024) by dense matrices."""
    model, pairs = make_set(), POINTS.view(3, 2, 2)

    def covariance(first: Tensor, second: Tensor) -> Tensor:
        arms = zip(first.unbind(1), second.unbind(1), strict=True)
        return sum(matern(a, b, lengthscale=lengthscales(2), outputscale=1.0) for a, b in arms)

    asked = model.items[model.blocks[0].items]
    inner = covariance(asked, asked) + torch.eye(12, dtype=torch.float64)
    cross = covariance(pairs, asked)
    explained = (cross * torch.linalg.solve(inner, cross.T).T).sum(-1)
    expected = (covariance(pairs, pairs).diagonal() - explained).sqrt()
    torch.testing.assert_close(model.duel_sigma(pairs), expected, atol=1e-9, rtol=0)
    sequence = model.asked_duel_sigma()
    gain = float(sequence.square().log1p().sum())  # twice the information gain
    assert gain == pytest.approx(float(torch.logdet(inner)), abs=1e-10)
    for t in (0, 5, 11):
        before = make_set(0, 0).condition_on_pairs(asked[:t], torch.ones(t).double())
        assert float(sequence[t]) == pytest.approx(float(before.duel_sigma(asked[t])), abs=1e-9)
    # Answers do not matter, ties and repetitions do not either, but how often it was asked.
    tie = model.condition_on_pairs(pairs, torch.tensor([0.5, 0.0, 1.0]).double())
    win = model.condition_on_pairs(pairs, torch.ones(3).double())
    assert torch.equal(tie.duel_sigma(pairs), win.duel_sigma(pairs))
    assert (tie.duel_sigma(pairs) < model.duel_sigma(pairs)).all()
    # Labels are no duels.
    assert with_labels().asked_duel_sigma().shape == (12,)
    torch.testing.assert_close(
        with_labels().duel_sigma(pairs), make_set(seed=5).duel_sigma(pairs), atol=1e-9, rtol=0
    )


@pytest.mark.parametrize("name", ["lower", "upper", "mle", "advantage", "duel_sigma"])
def test_bad_points_are_named(name: str) -> None:
    function, of_pairs = getattr(make_set(), name), name in ("advantage", "duel_sigma")
    wrong = [POINTS[:, :1], rand(4, 3), rand(3), torch.tensor(0.3)]
    reason = r"`X` has .* columns"
    if of_pairs:
        wrong, reason = [POINTS[:3], POINTS[0], POINTS[:1]], r"`X` must be \.\.\. x 2 x d pairs"
        with pytest.raises(ComparisonDataError, match="columns"):
            function(rand(4, 2, 3))
    for X in wrong:
        with pytest.raises(ComparisonDataError, match=reason):
            function(X)
    for bad in (math.nan, math.inf):
        X = POINTS.clone()
        X[3, 1] = bad
        with pytest.raises(ComparisonDataError, match="`X` row 3 is"):
            function(X.view(3, 2, 2) if of_pairs else X)


# --------------------------------------------------------------- the norm bound


def gain_and_slack(model: LikelihoodRatioModel) -> tuple[float, float]:
    larger = with_norm_bound(model, 2 * model.norm_bound)
    gain = larger.confidence_set.mle.log_likelihood - model.confidence_set.mle.log_likelihood
    return float(gain), larger.confidence_set.slack


@pytest.mark.parametrize("slack", [0.01, {"rule": "sqrt", "scale": 0.05}, "sqrt"])
def test_doubling(slack: Any) -> None:
    model = consistent(norm_bound=0.4, slack=slack)
    found = model.adapt_norm_bound()
    doublings = round(math.log2(found.norm_bound / 0.4))
    assert found.norm_bound == 0.4 * 2**doublings
    # Each was asked for by the answers, and no further one is.
    for k in range(doublings):
        gain, needed = gain_and_slack(with_norm_bound(model, 0.4 * 2**k))
        assert gain > needed
    gain, needed = gain_and_slack(found)
    assert gain <= needed
    assert model.norm_bound == 0.4
    assert found.adapt_norm_bound() is found
    assert doublings > 0 or slack == "sqrt"


def test_doubling_compares_with_the_slack_of_the_larger_bound() -> None:
    """A rule that grows with the bound: between the slacks of the two, it must not fire."""
    gain, _ = gain_and_slack(consistent(norm_bound=0.5))
    # Shares of the gain that the slack is, of bounds of 0.5 and 1.
    for shares, doubled in (((0.67, 1.33), 0.5), ((0.495, 0.99), 1.0)):
        scale = shares[1] * gain / math.sqrt(12)
        rule = {"rule": "sqrt", "scale": scale, "times_bound": True}
        model = consistent(norm_bound=0.5, slack=rule)
        assert model.confidence_set.slack == pytest.approx(shares[0] * gain, rel=0.01)
        assert model.adapt_norm_bound(max_doublings=1).norm_bound == doubled


@pytest.mark.parametrize(
    ("slack", "options", "expected"),
    [
        (0.01, {"limit": 1.0}, 1.0),
        (0.01, {"limit": 0.01}, 0.05),
        (0.01, {"max_doublings": 0}, 0.05),
        (0.01, {"max_doublings": 3}, 0.4),
        (0.01, {"limit": 0.3, "max_doublings": 2}, 0.2),
        (1e3, {}, 0.05),  # which asks for no more
    ],
)
def test_limits_of_doubling(slack: float, options: dict[str, Any], expected: float) -> None:
    model = consistent(norm_bound=0.05, slack=slack)
    assert model.adapt_norm_bound(**options).norm_bound == expected


# --------------------------------------------- labels: a rejection is a value above zero


def rejected(X: list[float], y: list[int], lengthscale: float = 0.2, **options: Any) -> Any:
    """Bounds and estimate of ``g = -f``, of which 1 rejects, at points."""
    items = torch.tensor(X).double().unsqueeze(-1)
    accept = 1 - torch.tensor(y)
    model = LikelihoodRatioModel.from_labels(
        items, accept, covar_module=rbf(lengthscale), **options
    )

    def at(points: list[float]) -> tuple[Tensor, Tensor, Tensor]:
        x = torch.tensor(points).double().unsqueeze(-1)
        return -model.upper(x), -model.mle(x), -model.lower(x)

    return model, at


ITEMS, REJECT, QUERIES = [0.1, 0.35, 0.6, 0.9], [1, 1, 0, 1], [0.0, 0.5, 0.75, 0.6]
FIXTURES: list[tuple[float, float, float | None, float, list[float], list[float]]] = [
    (
        3.0, 0.2, None, -0.990968,
        [-0.01988, -1.32689, -1.20937, -1.78233], [2.51785, 0.73717, 1.06064, 0.07038],
    ),
    (
        3.0, 0.2, 1.5, -1.012899,
        [-0.09092, -1.33953, -1.25529, -1.5], [1.5, 0.56047, 0.94250, -0.17547],
    ),
    (
        1.0, 0.05, None, -1.987762,
        [0.21662, -0.32723, -0.29739, -0.48634], [0.81073, 0.29833, 0.34882, 0.11866],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("norm_bound", "slack", "box", "likelihood", "low", "high"), FIXTURES)
def test_bounds_of_labels(
    norm_bound: float,
    slack: float,
    box: float | None,
    likelihood: float,
    low: list[float],
    high: list[float],
) -> None:
    """Xu et al. (2024b), COBOL, problems (38) and (39), by an independent solver."""
    model, at = rejected(ITEMS, REJECT, norm_bound=norm_bound, slack=slack, box=box)
    lower, estimate, upper = at(QUERIES)
    assert float(model.confidence_set.mle.log_likelihood) == pytest.approx(likelihood, abs=2e-6)
    assert lower.tolist() == pytest.approx(low, abs=5e-5)
    assert upper.tolist() == pytest.approx(high, abs=5e-5)
    if box is None:
        assert float(model.confidence_set.mle.coordinates.norm()) == pytest.approx(norm_bound)
    if norm_bound == 3.0 and box is None:
        assert estimate.tolist() == pytest.approx([1.36794, -0.34266, -0.10764, -0.90622], abs=5e-5)
        values = at(ITEMS)[1].tolist()
        assert values == pytest.approx([1.86414, 1.28251, -0.90622, 1.20250], abs=5e-5)


@pytest.mark.parametrize(
    ("norm_bound", "slack", "correlation", "low", "high"),
    [
        (2.0, 0.5, 0.6, -1.513953, 2.0),
        (2.0, 0.5, 0.0, -1.995293, 1.995293),
        (1.0, 0.05, 0.9, 0.496946, 1.0),
        (4.0, 1.0, 0.3, -3.947798, 4.0),
    ],
)
def test_one_label(
    norm_bound: float, slack: float, correlation: float, low: float, high: float
) -> None:
    _, at = rejected([0.0], [1], norm_bound=norm_bound, slack=slack, jitter=0.0)
    distance = 0.2 * math.sqrt(-2 * math.log(correlation)) if correlation else 100.0
    lower, _, upper = at([distance])
    assert float(lower) == pytest.approx(low, abs=1e-5)
    assert float(upper) == pytest.approx(high, abs=1e-5)


@pytest.mark.parametrize(
    ("times", "width"),
    [(1, 1.444), (5, 0.742), (20, 0.413), (50, 0.277), (100, 0.202), (200, 0.147)],
)
def test_one_place_labelled_again_and_again(times: int, width: float) -> None:
    slack = {"rule": "sqrt", "scale": 0.01, "offset": 1.0, "times_bound": True}
    options = {"norm_bound": 4.0, "slack": slack, "jitter": 0.0}
    model, at = rejected([0.3] * times, [1] * times, **options)
    assert len(model.items) == 1
    assert model.confidence_set.slack == pytest.approx(0.04 * math.sqrt(times + 1))
    lower, _, upper = at([0.3])
    assert float(upper - lower) == pytest.approx(width, abs=2e-3)


def test_symmetries_of_labels() -> None:
    options = {"norm_bound": 3.0, "slack": 0.2}
    low, best, high = rejected(ITEMS, REJECT, **options)[1](QUERIES)
    flipped = rejected(ITEMS, [1 - y for y in REJECT], **options)[1](QUERIES)
    for found, expected in zip(flipped, (-high, -best, -low), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    turned = rejected(ITEMS[::-1], REJECT[::-1], **options)[1](QUERIES)
    for found, expected in zip(turned, (low, best, high), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
    # Rows of one place are one item; apart by 1e-9 they are as good as one.
    twice, labels = [*ITEMS, *ITEMS[:2]], [*REJECT, 0, 1]
    once = rejected(twice, labels, **options)[1](QUERIES)
    apart = [*ITEMS, *(x + 1e-9 for x in ITEMS[:2])]
    nearly = rejected(apart, labels, **options)[1](QUERIES)
    for found, expected in zip(nearly, once, strict=True):
        torch.testing.assert_close(found, expected, atol=3 * 3.0 * math.sqrt(JITTER), rtol=0)


# ------------------------------------------------------------------- rough bounds


def labelled(
    size: int, lengthscale: float, norm_bound: float, slack: float, limit: float = 1.0
) -> LikelihoodRatioModel:
    """Labels that accept where the sum of the coordinates is below a limit."""
    X = rand(size, 2)
    options = {"covar_module": rbf(lengthscale, 2), "norm_bound": norm_bound, "slack": slack}
    return LikelihoodRatioModel.from_labels(X, (X.sum(-1) < limit).double(), **options)


@pytest.mark.parametrize(
    "case", [(5, 0.3, 2.0, 0.3), (20, 0.3, 16.0, 0.5), (40, 0.5, 16.0, 0.2, 0.0)]
)
def test_the_order_of_rough_bounds_is_nearly_that_of_the_bounds(case: Any) -> None:
    model, points = labelled(*case), rand(256, 2, seed=7)
    exact, rough = model.upper(points, tolerance=1e-3), model.rough_upper(points)
    assert spearmanr(exact, rough).statistic > 0.9
    kept = rough.topk(32).indices
    assert exact[kept].amax() >= exact.amax() - 0.01 * (exact.amax() - exact.amin())


def test_rough_bounds() -> None:
    """Above the set where it is small; of any shape; 0 of an item over itself; in the box."""
    model, points = labelled(12, 0.4, 3.0, 1e-4), rand(3, 4, 2, seed=7)
    rough = model.rough_upper(points)
    assert (rough >= model.upper(points) - 1e-6).all()
    torch.testing.assert_close(rough[1, 2], model.rough_upper(points[1, 2]))
    assert not rough.requires_grad
    assert model.rough_upper(points[0, 0], points[0, 0]) == 0.0
    model.box, model.norm_bound = 0.5, 9.0
    assert model.rough_upper(points).abs().amax() <= 0.5


def test_a_rule_with_an_infinite_tolerance_solves_nothing() -> None:
    model, points = labelled(8, 0.3, 2.0, 0.3), rand(6, 1, 2, seed=7)
    for x_ref in (None, rand(2, seed=9)):
        rule = OptimisticAcceptance(model, tolerance=math.inf, x_ref=x_ref)
        assert torch.equal(rule(points), model.rough_upper(points.squeeze(-2), x_ref))
    assert model.status is None


# --------------------------------------------------------------------- statistics


def sample(seed: int) -> tuple[GPSample, LikelihoodRatioModel]:
    """A function of the process of Xu et al. (2024), and the set before any answer."""
    problem = GPSample(num_choices=101, seed=seed)
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale = 9.0
    kernel.base_kernel.lengthscale = 10 * problem.unit_lengthscale
    model = LikelihoodRatioModel.from_comparisons(
        torch.empty(0, 1).double(),
        torch.empty(0, 2).long(),
        covar_module=kernel,
        norm_bound=1.1 * problem.norm,
    )
    return problem, model


def chain(problem: GPSample, length: int, seed: int) -> tuple[Tensor, Tensor]:
    """Duels of successive random choices, answered with Bradley and Terry's probability."""
    generator = torch.Generator().manual_seed(seed)
    x = problem.choices[torch.randint(101, (length + 1,), generator=generator)]
    pairs = torch.stack([x[1:], x[:-1]], dim=-2)
    pairs = pairs[(pairs[:, 0] != pairs[:, 1]).any(-1)]
    f = problem(pairs.flatten(0, 1)).view(-1, 2)
    chance = torch.rand(len(f), generator=generator, dtype=torch.float64)
    return pairs, (chance < torch.sigmoid(f[:, 0] - f[:, 1])).double()


@pytest.mark.slow
def test_the_truth_is_covered() -> None:
    """The lack of likelihood of the truth, which the slack is to exceed, over random chains."""
    times, seeds = (5, 10, 20, 40, 80), 60
    lack = np.zeros((seeds, len(times)))
    for seed in range(seeds):
        problem, model = sample(seed)
        pairs, answers = chain(problem, 100, seed)
        for column, t in enumerate(times):
            found = model.condition_on_pairs(pairs[:t], answers[:t])
            f = problem(found.items).numpy()
            truth = reference.log_likelihood(answers_of(found, 0), f)
            best = float(found.confidence_set.mle.log_likelihood)
            assert best <= 0
            lack[seed, column] = best - truth
    mean, quantile = lack.mean(0), np.quantile(lack, 0.95, axis=0)
    # Means and quantiles of another implementation, with seeds of its own.
    assert mean == pytest.approx(np.array([1.4, 2.7, 3.9, 5.3, 6.3]), abs=0.6)
    assert quantile == pytest.approx(np.array([3.9, 5.3, 6.9, 7.8, 9.4]), abs=1.5)
    assert (lack >= -1e-6).all()
    assert (lack.mean(0) < np.sqrt(times)).all()
    covered = (lack <= np.sqrt(times)).mean(0)
    assert (covered >= 0.6).all()
    assert ((lack <= 2 * np.sqrt(times)).mean(0) >= 0.95).all()
