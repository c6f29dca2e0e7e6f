"""Sets and bounds: against the printed programs, and what they must satisfy."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference import Block, Observations
from botorch_pref.likelihood_ratio import (
    Bound,
    ConfidenceSet,
    ConstantSlack,
    SlackRule,
    SqrtSlack,
    slack_rule,
    whiten,
)
from botorch_pref.likelihood_ratio.confidence_set import slack_to_json
from botorch_pref.likelihood_ratio.interior_point import (
    Barrier,
    FewRows,
    InteriorPoint,
    _hessian,
    solve,
)
from botorch_pref.likelihoods import LogitLikelihood
from tests._reference import likelihood_ratio as reference
from tests.inference.common import DUEL, choices, design, matern, numerical_gradient, rand
from tests.likelihood_ratio.common import Case, asked, assert_inside, case, duel_block

CASES = {
    "noisy": (case(), 0.5, (0, 3, 5)),
    "sqrt": (case(seed=1), math.sqrt(12), (4, 5, 6, 7)),
    "consistent": (case(judge="consistent", seed=2), 1e-2, (1, 2)),
    "labels": (case(num_labels=6, seed=3, norm_bound=1.0), 1.0, tuple(range(8))),
    "labels alone": (case(m=0, num_labels=10, seed=4), 0.1, (0, 2)),
    "large ball": (case(n=3, m=40, norm_bound=20.0, seed=5), 2.0, (0, 1, 2)),
    "scaled": (case(scale=2.5, seed=6), 1.0, (0, 1)),
    "no answers": (case(m=0), 1.0, (0, 1, 2)),
    "no level": (case(seed=7), math.inf, (2, 3, 4, 5)),
    "box": (case(box=0.4, num_labels=6, seed=8), 1.0, (0, 2, 4)),
    "box alone": (case(box=0.3, seed=9), math.inf, (0, 1)),
    "30 items": (case(n=30, m=30, seed=10), math.sqrt(30), (24, 25, 26, 27, 28, 29)),
    "smooth": (case(n=30, m=30, seed=4, lengthscale=1.5, norm_bound=6.0), 0.1, (1, 3, 9, 12)),
    "unseen items": (case(n=12, m=0, num_labels=4, seed=5), 2.0, (8, 9, 10, 11)),
    "100 items": (
        case(n=100, m=200, dim=6, lengthscale=1.0, norm_bound=6.0, seed=11),
        math.sqrt(200),
        (1, 2),
    ),
    "favourites": (asked({4: 10, 2: 5, 3: 1}), 4.0, (6, 7, 8, 9)),
    "scaled favourites": (asked({5: 12}, scale=2.5), 0.1, (0, 1)),
    "many favourites": (asked({6: 20}, n=25, norm_bound=6.0), math.sqrt(20), (0, 4, 9)),
}
problems = pytest.mark.parametrize("name", CASES)


def bounds(problem: Case, slack: float) -> tuple[ConfidenceSet, Bound, Bound]:
    """The set, and the ends of the advantages over the first item."""
    confidence = problem.confidence(slack)
    g, s = problem.advantage()
    return confidence, confidence.lower(g, s), confidence.upper(g, s)


def assert_equal_to(value: Tensor, expected: reference.Found) -> None:
    # Where Clarabel is unsure of its answer, ours is certified to lie above it.
    tolerance = 1e-6 if expected.exact else 1e-4
    assert float(value) == pytest.approx(expected.value, abs=tolerance)
    assert float(value) >= expected.value - 1e-6


@problems
def test_bounds_equal_the_printed_program(name: str) -> None:
    problem, slack, opponents = CASES[name]
    confidence, low, high = bounds(problem, slack)
    several = confidence.upper_of_least(*problem.opposed(opponents))
    level, n = float(confidence.mle.log_likelihood) - slack, len(problem.items)
    for bound in (low, high, several):
        assert bound.converged.all()
        assert_inside(confidence, bound.coordinates, bound.beyond)
    for point in range(2 if n < 100 else 1):
        objective = np.zeros(n + len(problem.points))
        objective[n + point], objective[0] = 1.0, -1.0
        assert_equal_to(high.value[point], problem.printed(objective, level))
        assert_equal_to(-low.value[point], problem.printed(-objective, level))
        table = np.zeros((len(opponents), n + len(problem.points)))
        table[:, n + point] = 1.0
        table[range(len(opponents)), list(opponents)] -= 1.0
        assert_equal_to(several.value[point], problem.printed(table, level))


@problems
def test_maximum_likelihood(name: str) -> None:
    """Equal to the printed program, stationary, and on the sphere where the ball is active."""
    problem = CASES[name][0]
    confidence, answers = problem.confidence(), problem.answers()
    found, observations = confidence.mle, confidence.observations
    assert found.converged
    if answers is None or observations is None:
        assert float(found.log_likelihood) == 0.0
        assert not found.coordinates.any()
        return
    expected = reference.maximum_likelihood(
        problem.covariance().numpy(), answers, problem.norm_bound, problem.boxed()
    )
    assert_equal_to(found.log_likelihood, expected)
    u, rows = found.coordinates, torch.from_numpy(design(observations)) @ confidence.root
    gradient = rows.T @ observations.derivatives(rows @ u)[0]
    nu = (gradient @ u / u.square().sum()).clamp_min(0.0)
    assert problem.box is not None or float((gradient - nu * u).norm()) <= 1e-6
    assert float(u.norm()) <= problem.norm_bound * (1 + 1e-9)
    if name == "consistent":
        assert nu > 1e-3
        assert float(u.norm()) == pytest.approx(problem.norm_bound, abs=1e-9)


def test_the_smallest_norm_where_the_ball_is_inactive() -> None:
    # A fifth of the duels lost: the log odds of one pair, and nothing elsewhere.
    observations = Observations([duel_block([[0, 1], [0, 1]], [1.0, 0.0])], 4)
    observations.blocks[0].weight.copy_(torch.tensor([4.0, 1.0]))
    confidence = Case(rand(4, 2), rand(0, 2), observations, norm_bound=50.0).confidence()
    row = confidence.root[0] - confidence.root[1]
    expected = math.log(4) * row / row.square().sum()
    torch.testing.assert_close(confidence.mle.coordinates, expected, atol=1e-5, rtol=0)


def test_likelihood_grows_with_the_ball() -> None:
    balls = (1e-3, 0.1, 1.0, 3.0, 10.0, 100.0)
    values = [float(case(norm_bound=b).confidence().mle.log_likelihood) for b in balls]
    assert values == sorted(values)


def test_two_items_to_choose_from_are_a_duel_and_all_kinds_go_together() -> None:
    items = rand(15, 8).argsort(-1)[:, :2]
    favourite, weight = (rand(15, seed=1) * 2).long(), 1.0 + (3.0 * rand(15)).floor()
    X, points = rand(8, 2, seed=7), rand(3, 2, seed=8)
    block = Block(items, DUEL, 1.0 - favourite.double(), weight, LogitLikelihood())
    among_three = choices(rand(5, 8, seed=3).argsort(-1)[:, :3], torch.arange(5) % 3, 8)
    one = torch.ones(1, dtype=torch.float64)
    label = Block(torch.tensor([[4]]), (1.0,), one, one, LogitLikelihood())
    found = []
    for pairs in (block, choices(items, favourite, 8, weight)):
        problem = Case(X, points, Observations([among_three, pairs, label], 8), 3.0)
        confidence, low, high = bounds(problem, 1.0)
        found.append(torch.cat([low.value, high.value, confidence.mle.log_likelihood.view(1)]))
    torch.testing.assert_close(*found, atol=1e-8, rtol=0)


@pytest.mark.parametrize("name", ["sqrt", "consistent", "no level", "box", "favourites"])
def test_a_batch_is_a_loop(name: str) -> None:
    problem, slack, opponents = CASES[name]
    confidence = problem.confidence(slack)
    g, s = (torch.cat([part, part.flip(0)])[:4] for part in problem.opposed(opponents))
    for function, rows in ((confidence.upper, g[:, 0]), (confidence.upper_of_least, g)):
        whole = function(rows, s).value
        alone = torch.stack([function(a, b).value for a, b in zip(rows, s, strict=True)])
        torch.testing.assert_close(whole, alone, atol=1e-8, rtol=0)
        shaped = function(rows.view(2, 2, *rows.shape[1:]), s.view(2, 2))
        torch.testing.assert_close(shaped.value, whole.view(2, 2), atol=1e-8, rtol=0)
        assert shaped.coordinates.shape == (2, 2, rows.shape[-1])
        assert function(rows[:0], s[:0]).value.shape == (0,)


def test_the_gap_is_certified_at_any_accuracy() -> None:
    problem = case(n=30, m=30, seed=10, num_points=8)
    confidence = problem.confidence(math.sqrt(30))
    g, s = problem.opposed((24, 25, 26, 27))
    for function, rows in ((confidence.upper, g[:, 0]), (confidence.upper_of_least, g)):
        exact = function(rows, s)
        steps = [int(exact.num_steps.sum())]
        for tolerance in (1e-6, 1e-4, 1e-2, 1.0):
            rough = function(rows, s, tolerance=tolerance)
            assert_inside(confidence, rough.coordinates, rough.beyond)
            assert (rough.gap <= tolerance).all()
            assert (rough.value <= exact.value + exact.gap + 1e-12).all()
            assert (rough.value + rough.gap >= exact.value - 1e-12).all()
            steps.append(int(rough.num_steps.sum()))
        assert steps == sorted(steps, reverse=True)
        assert float(rough.gap.max()) > 1e-3


@pytest.mark.parametrize(("box", "opponents"), [(None, (0,)), (0.5, (0,)), (None, (4, 5, 6, 7))])
def test_gradient_is_the_envelopes(box: float | None, opponents: tuple[int, ...]) -> None:
    """In all coefficients, and so in a point."""
    problem = case(seed=1, box=box, num_points=1)
    confidence = problem.confidence(1.0 if len(opponents) == 1 else math.sqrt(12))
    g, s = problem.opposed(opponents)

    def upper(x: Tensor) -> Tensor:
        rows = x[..., :-1].unflatten(-1, (len(opponents), -1))
        return confidence.upper_of_least(rows, x[..., -1], tolerance=1e-12).value

    def at(X: Tensor) -> Tensor:
        a, s = problem.coefficients(X)
        rows = a.unsqueeze(-2) - confidence.root[list(opponents)]
        return confidence.upper_of_least(rows, s, tolerance=1e-12).value

    for function, where in ((upper, torch.cat([g[0].flatten(), s])), (at, problem.points[0])):
        leaf = where.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(function(leaf.unsqueeze(0)).sum(), leaf)
        expected = numerical_gradient(function, where.flatten(), 1e-3)
        torch.testing.assert_close(gradient.flatten(), expected, atol=2e-5, rtol=0)


def test_lower_is_minus_the_upper_of_the_opposite() -> None:
    problem = case(num_points=3)
    confidence = problem.confidence(1.0)
    g, s = (x.requires_grad_() for x in problem.advantage())
    low = confidence.lower(g, s)
    torch.testing.assert_close(low.value, (g * low.coordinates).sum(-1) + s * low.beyond)
    gradients = torch.autograd.grad(low.value.sum(), (g, s))
    torch.testing.assert_close(gradients, (low.coordinates, low.beyond))


def test_between_the_estimate_and_the_ball() -> None:
    problem = case(n=30, m=30, seed=10, num_points=8)
    confidence = problem.confidence(math.sqrt(30))
    g, s = problem.opposed((24, 25, 26, 27))
    value, alone = confidence.upper_of_least(g, s).value, confidence.upper(g, s[:, None]).value
    assert (value >= (g @ confidence.mle.coordinates).amin(-1) - 1e-8).all()
    assert (value <= confidence.upper_of_least(g[:, :2], s).value + 1e-8).all()
    assert (value <= alone.amin(-1) + 1e-8).all()
    assert (value < alone.amin(-1) - 1e-2).any()
    # Without data, or with any slack, only the ball is left.
    ball = problem.norm_bound * (g.square().sum(-1) + s[:, None].square()).sqrt()
    assert (alone <= ball + 1e-9).all()
    empty = Case(problem.items, problem.points, None, problem.norm_bound)
    for everything in (
        problem.confidence(math.inf),
        problem.confidence(1e6),
        empty.confidence(1.0),
    ):
        torch.testing.assert_close(everything.upper(g, s[:, None]).value, ball, atol=1e-9, rtol=0)


def test_widens_with_the_slack() -> None:
    problem = case(judge="consistent")
    g, s = problem.advantage()
    estimate = g @ problem.confidence().mle.coordinates
    slacks = (0.0, 1e-8, 1e-6, 1e-4, 1e-2, 1.0, 10.0, 1e3, math.inf)
    values = torch.stack([problem.confidence(slack).upper(g, s).value for slack in slacks])
    assert (values.diff(dim=0) >= -1e-9).all()
    torch.testing.assert_close(values[0], estimate, atol=1e-5, rtol=0)
    # To the estimate as the root of the slack, where the ball is active.
    ratio = ((values - estimate)[2:4] / (values - estimate)[1:3]).flatten()
    torch.testing.assert_close(ratio, torch.full_like(ratio, 10.0), atol=0.5, rtol=0)


def test_what_changes_nothing() -> None:
    """Scale, order, direction of duels and repeated items."""
    items, points = rand(6, 2), rand(3, 2, seed=9)
    pairs, answers = [[0, 1], [2, 3], [4, 5], [1, 2], [0, 1]], [1.0, 0.0, 1.0, 1.0, 0.0]
    forms = {
        "turned": (items, [[1, 0], [3, 2], [5, 4], [2, 1], [1, 0]], [0.0, 1.0, 0.0, 0.0, 1.0]),
        "ordered": (items, pairs[::-1], answers[::-1]),
        "repeated": (
            torch.cat([items, items[:3]]),
            [[6, 1], [2, 3], [4, 5], [1, 8], [0, 7]],
            answers,
        ),
    }

    def values(X: Tensor, rows: list[list[int]], won: list[float], scale: float = 1.0) -> Tensor:
        problem = Case(X, points, Observations([duel_block(rows, won)], len(X)), 3.0)
        whitening = whiten(scale**2 * problem.kernel(X, X))
        assert whitening.root.shape[-1] == 6
        options = {"norm_bound": 3.0 / scale, "slack": 0.5}
        confidence = ConfidenceSet(whitening.root, problem.observations, **options)
        variance = torch.full((3,), scale**2, dtype=torch.float64)
        a, s = whitening.split(scale**2 * problem.kernel(points, X), variance)
        both = (
            confidence.upper(a, s).value,
            confidence.upper_of_least(a[:, None] - a[None], s).value,
        )
        return torch.cat([*both, confidence.mle.log_likelihood.view(1)])

    expected = values(items, pairs, answers)
    for name, form in forms.items():
        found = values(*form)
        torch.testing.assert_close(found, expected, atol=1e-7, rtol=0, msg=name)
    torch.testing.assert_close(values(items, pairs, answers, 7.0), expected, atol=1e-8, rtol=0)


def test_opponents_in_any_order_and_any_number_of_times() -> None:
    problem = case(seed=1)
    confidence = problem.confidence(math.sqrt(12))
    g, s = problem.opposed((4, 5, 6, 7))
    value = confidence.upper_of_least(g, s).value
    for rows in ([3, 1, 0, 2], [0, 1, 2, 3, 3, 1]):
        other = confidence.upper_of_least(g[:, rows], s)
        torch.testing.assert_close(other.value, value, atol=2e-9, rtol=0)
    # Nearly the same opponent twice, as where a search closes in.
    found = confidence.upper_of_least(torch.cat([g, g[:, :1] + 1e-6], dim=1), s)
    assert (found.gap <= 1e-6).all()
    torch.testing.assert_close(found.value, value, atol=1e-4, rtol=0)


def test_jitter_matters_little() -> None:
    problem = case(n=10, m=15)
    K, values = problem.kernel(problem.items, problem.items), []
    for jitter in (1e-8, 1e-6):
        whitening = whiten(K + jitter * torch.eye(10, dtype=K.dtype), cutoff=1e-14)
        root, told = whitening.root, problem.observations
        confidence = ConfidenceSet(root, told, norm_bound=3.0, slack=1.0)
        variance = torch.full((4,), 1 + jitter, dtype=K.dtype)
        a, s = whitening.split(problem.kernel(problem.points, problem.items), variance)
        values.append(confidence.upper(a - root[0], s).value)
    assert float((values[0] - values[1]).abs().max()) <= 2e-4


@pytest.mark.parametrize("norm_bound", [1e-3, 0.1, 10.0, 30.0])
@pytest.mark.parametrize("judge", ["noisy", "consistent"])
def test_balls_of_all_sizes(norm_bound: float, judge: str) -> None:
    problem = case(n=15, m=25, norm_bound=norm_bound, judge=judge, num_points=16)
    g, s = problem.opposed((0, 3, 9))
    for slack in (1e-6, 1e-3, 0.1, 5.0, 1e3):
        confidence = problem.confidence(slack)
        for bound in (
            confidence.lower(g[:, 0], s),
            confidence.upper(g[:, 0], 0 * s),
            confidence.upper_of_least(g, s),
        ):
            assert bound.converged.all()
            assert_inside(confidence, bound.coordinates, bound.beyond)


# ------------------------------------------------------------------ where a solver is stuck


def flat(num_duels: int, norm_bound: float) -> Case:
    """Answers that a large function explains so well that nothing is left to explain."""
    items = torch.linspace(0.0, 1.0, num_duels + 1, dtype=torch.float64).unsqueeze(-1)
    chain = [[i + 1, i] for i in range(num_duels)]
    answers = [1.0] * (num_duels // 2) + [0.0] * (num_duels - num_duels // 2)
    observations = Observations([duel_block(chain, answers)], num_duels + 1)
    return Case(items, rand(12, 1, seed=5), observations, norm_bound, None, 0.1)


def objectives(confidence: ConfidenceSet, size: int) -> Tensor:
    """``size x 3 x d``-dim objectives of length one."""
    generator = torch.Generator().manual_seed(size)
    shape = size, 3, confidence.root.shape[-1] + 1
    found = torch.randn(shape, generator=generator, dtype=torch.float64)
    found[..., -1] = found[:, :1, -1].abs()
    return found / found.norm(dim=-1).amax(-1)[:, None, None]


@pytest.mark.parametrize("box", [None, 1.0])
@pytest.mark.parametrize("slack", [0.1, 3.0])
def test_both_methods_agree(box: float | None, slack: float) -> None:
    confidence = case(n=10, m=16, box=box).confidence(slack)
    functions = objectives(confidence, 12)
    tolerance = torch.full((12,), 1e-8, dtype=torch.float64)
    for linear, several in ((functions[:, 0], functions[:, :0]), (0 * functions[:, 0], functions)):
        found, sure = (
            method(confidence._program, 200).maximize(
                linear, several, confidence._centre, tolerance
            )
            for method in (InteriorPoint, Barrier)
        )
        assert (sure.upper - sure.lower <= tolerance).all()
        torch.testing.assert_close(sure.lower, found.lower, atol=2e-8, rtol=0)
        assert confidence._program.contains(sure.point).all()


@pytest.mark.parametrize("name", ["noisy", "consistent", "large ball", "favourites", "box"])
def test_searches_begin_near_the_centre(name: str) -> None:
    """The product of all margins is near its largest, which is concave in its logarithm."""
    problem, slack, _ = CASES[name]
    confidence, low, high = bounds(problem, slack)

    def logarithm(u: Tensor) -> Tensor:
        margins = [
            (problem.norm_bound**2 - u.square().sum(-1, keepdim=True)) / 2,
            (confidence.log_likelihood(u) - confidence.mle.log_likelihood + slack).unsqueeze(-1),
        ]
        if problem.box is not None:
            utility = u @ confidence.root.T
            margins += [problem.box - utility, problem.box + utility]
        return torch.cat(margins, dim=-1).log().sum(-1)

    centre = confidence._centre[:-1] * problem.norm_bound
    ends = torch.cat([low.coordinates, high.coordinates, -centre.unsqueeze(0)])
    for share in (1e-3, 0.01, 0.1, 0.5, 0.9):
        other = torch.lerp(centre, ends, share)
        gain = (logarithm(other) - logarithm(centre)).nan_to_num(-math.inf)
        assert (gain <= 0.1).all()
        assert share < 0.5 or (gain < 0.0).all()


def test_no_search_crawls() -> None:
    """Many labels of items close together, and a large ball: the set is long and narrow."""
    crowded = case(
        n=120,
        m=0,
        num_labels=120,
        num_points=12,
        box=3.0,
        norm_bound=32.0,
        lengthscale=0.3,
        dim=1,
        seed=1,
    )
    crowded = crowded._replace(items=0.1 * crowded.items)
    confidence = crowded.confidence(0.2 * math.sqrt(120))
    found = confidence.upper(*crowded.coefficients(), tolerance=1e-6, enough=3.0)
    assert found.converged.all()
    assert found.num_steps.max() <= 30


def test_no_point_leaves_the_box_by_rounding() -> None:
    problem = case(
        n=80,
        m=0,
        num_labels=80,
        num_points=20,
        box=3.0,
        norm_bound=100.0,
        lengthscale=0.1,
        dim=3,
        seed=2,
    )
    confidence = problem.confidence(0.5)
    found = confidence.upper(*problem.coefficients(), tolerance=1e-11)
    assert (found.gap <= 1e-5).all()
    assert (confidence.root @ found.coordinates.mT).abs().max() <= 3.0 + 1e-12


@pytest.mark.parametrize(("box", "num_items"), [(None, 12), (1.0, 12), (1.0, 6)])
def test_the_matrix_of_few_rows_is_that_of_all(box: float | None, num_items: int) -> None:
    problem = case(n=num_items, m=0, num_labels=12, box=box, norm_bound=4.0, seed=2)
    program = problem.confidence(1.0)._program
    nu, mu, latent = rand(3, 1, seed=1), rand(3, 1, seed=2), rand(3, 12, seed=3)
    curvature = program.derivatives(latent)[1]
    sides = 1e4 * rand(3, len(program.box_rows), seed=4)
    weight = torch.cat([mu * curvature.weight, sides], dim=-1)
    H = torch.einsum("ep,pi,pj->eij", weight, program.rows, program.rows)
    H = H + torch.diag_embed(nu.expand(3, H.shape[-1]))
    factored = _hessian(program, curvature, nu, mu, sides)
    assert isinstance(factored, FewRows)
    right = rand(3, H.shape[-1], 2, seed=5)
    torch.testing.assert_close(factored.solve(right), torch.linalg.solve(H, right))


def test_a_flat_likelihood() -> None:
    """The primal-dual method alone leaves some of these open."""
    left = 0
    for norm_bound in (20.0, 200.0):
        for num_duels, slack in ((3, 0.02), (8, 0.3)):
            problem = flat(num_duels, norm_bound)
            confidence, low, high = bounds(problem, slack)
            for bound in (low, high):
                assert (bound.gap <= 1e-7 * norm_bound).all()
                assert_inside(confidence, bound.coordinates, bound.beyond)
            functions = objectives(confidence, 40)
            tolerance = torch.full((40,), 1e-9, dtype=torch.float64)
            arguments = functions[:, 0], functions[:, :0], confidence._centre, tolerance
            found = InteriorPoint(confidence._program).maximize(*arguments)
            left += int((found.upper - found.lower > 1e-6).sum())
            sure = solve(confidence._program, *arguments)
            assert (sure.upper - sure.lower <= 1e-6).all()
    assert left > 0


# ------------------------------------------------------------------------- coordinates


def test_whitening() -> None:
    X, x = rand(7, 2), rand(1, 2, seed=7)
    both = torch.cat([X, x])
    K = matern(both)
    whitening = whiten(K[:7, :7])
    root, inverse = whitening
    torch.testing.assert_close(root @ root.T, K[:7, :7], atol=1e-9, rtol=0)
    torch.testing.assert_close(inverse @ root, torch.eye(7, dtype=K.dtype), atol=1e-7, rtol=0)
    # The norm through values at the items and at a point, by one solve of all of them.
    a, s = whitening.split(K[7, :7], K[7, 7])
    values = rand(8, seed=8)
    u = inverse @ values[:7]
    w = (values[7] - a @ u) / s
    expected = values @ torch.linalg.solve(K, values)
    torch.testing.assert_close(u.square().sum() + w.square(), expected, rtol=1e-8, atol=0)
    # At an item nothing is left over.
    at_item = whitening.split(K[0, :7], K[0, 0])
    torch.testing.assert_close(at_item[0], root[0], atol=1e-6, rtol=0)
    assert float(at_item[1]) <= 1e-5
    # In the numerical rank.
    factor = rand(9, 4)
    low_rank = whiten(factor @ factor.T).root
    assert low_rank.shape == (9, 4)
    torch.testing.assert_close(low_rank @ low_rank.T, factor @ factor.T, atol=1e-12, rtol=0)
    assert whiten(factor.new_zeros(0, 0)).root.shape == (0, 0)


def test_slacks() -> None:
    assert SqrtSlack()(9, 3.0) == 3.0
    assert SqrtSlack(0.5, 7.0)(9, 3.0) == 2.0
    assert SqrtSlack(0.01, 1.0, True)(24, 4.0) == pytest.approx(0.2)
    assert ConstantSlack(0.7)(9, 3.0) == 0.7


@pytest.mark.parametrize(
    "rule", [SqrtSlack(0.01, 1.0, True), ConstantSlack(0.0), ConstantSlack(math.inf)]
)
def test_slack_from_json(rule: SlackRule) -> None:
    assert slack_rule(json.loads(json.dumps(slack_to_json(rule)))) == rule
    assert slack_rule(rule) is rule


def test_what_a_slack_may_be_given_as() -> None:
    given = {"rule": "sqrt", "scale": 2.0}
    assert slack_rule(given) == SqrtSlack(2.0)
    assert given == {"rule": "sqrt", "scale": 2.0}
    assert slack_rule("sqrt") == SqrtSlack()
    assert slack_rule(2) == ConstantSlack(2.0)


@pytest.mark.parametrize(
    "slack",
    [
        True,
        None,
        "root",
        {},
        {"scale": 1.0},
        {"rule": []},
        {"rule": "sqrt", "slope": 1.0},
        {"rule": "sqrt", "scale": "one"},
        -1.0,
        math.nan,
        {"rule": "sqrt", "scale": -1.0},
        {"rule": "sqrt", "offset": -1.0},
        {"rule": "constant", "value": -0.1},
    ],
)
def test_refuses_what_is_no_slack(slack: Any) -> None:
    with pytest.raises(ComparisonDataError, match="`slack`"):
        slack_rule(slack)


@pytest.mark.parametrize("name", ["box", "flat", "no level"])
def test_a_value_that_is_enough_need_not_be_exact(name: str) -> None:
    """Clamped there, bounds are the same; and where they exceed it, the search is shorter."""
    problem, slack = (case(n=10, m=16, num_points=20), 3.0)
    if name != "flat":
        problem, slack, _ = CASES[name]
    confidence, g, s = problem.confidence(slack), *problem.coefficients()
    exact = confidence.upper(g, s)
    enough = float(exact.value.median())
    found = confidence.upper(g, s, enough=enough)
    assert bool(found.converged.all())
    torch.testing.assert_close(found.value.clamp_max(enough), exact.value.clamp_max(enough))
    above = exact.value > enough + 1e-6
    assert bool((found.value[above] >= enough).all())
    assert bool((found.value <= exact.value + 1e-7).all())
    assert int(found.num_steps.sum()) <= int(exact.num_steps.sum())
    lower = confidence.lower(g, s, enough=enough).value.clamp_min(-enough)
    torch.testing.assert_close(lower, confidence.lower(g, s).value.clamp_min(-enough))
