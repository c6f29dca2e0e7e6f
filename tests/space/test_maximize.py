"""Maximisation within a slack: what comes back is feasible, and no worse than its start."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.space import SearchSpace
from botorch_pref.space.maximize import Feasible, starting_points
from tests.models.common import rand
from tests.space.test_search_space import BOX, Peak


def disc(X: Tensor) -> Tensor:
    """At least 0 within one unit of (0.5, 5)."""
    return 1.0 - (X - X.new_tensor([0.5, 5.0])).square().sum(-1)


def inside(num: int) -> Tensor:
    items = torch.tensor([0.5, 5.0], dtype=torch.float64) + 1.2 * (rand(num, 2) - 0.5)
    return items[disc(items) >= 0]


def test_both_items_of_a_pair_are_constrained() -> None:
    target = torch.tensor([[2.0, 5.0], [0.5, 9.0]], dtype=torch.float64)
    items = inside(9)
    starts = torch.stack([items[:-1], items[1:]], dim=-2)
    best = SearchSpace(BOX).maximize(
        Peak(target), q=2, starts=starts, raw_samples=0, feasible=disc, options={"maxiter": 50}
    )
    assert (disc(best.items) >= -1e-9).all()
    expected = torch.tensor([[1.5, 5.0], [0.5, 6.0]]).double()
    torch.testing.assert_close(best.items, expected, atol=1e-2, rtol=0.0)


def test_an_unfinished_search_is_feasible_and_no_worse() -> None:
    rule = Peak(torch.tensor([[2.0, 9.0]]).double(), ripple=0.5)
    for number, start in enumerate(inside(30)):
        options = {"raw_samples": 0, "options": {"maxiter": 1 + number % 3}}
        best = SearchSpace(BOX).maximize(rule, starts=start.view(1, 1, 2), feasible=disc, **options)
        assert float(disc(best.items)) >= -1e-9
        assert float(best.value) >= float(rule(start.view(1, 1, 2)))


def test_a_search_that_leaves_is_continued_along_the_border() -> None:
    """The free maximum is outside; the best item within lies to the side of the way there."""
    rule = Peak(torch.tensor([[2.0, 9.0]]).double())

    def band(X: Tensor) -> Tensor:  # a slanted border, which the way back meets elsewhere
        return 6.0 - X[..., 1] + 0.5 * X[..., 0]

    start = torch.tensor([[[-1.0, 0.5]]]).double()
    best = SearchSpace(BOX).maximize(rule, starts=start, raw_samples=0, feasible=band)
    assert -1e-9 <= float(band(best.items)) <= 1e-4
    # Of (2, 9), the foot of the perpendicular lies beyond the box, whose face is at 2.
    at = torch.stack([torch.linspace(-1.0, 2.0, 3001), 6.0 + 0.5 * torch.linspace(-1.0, 2.0, 3001)])
    with torch.no_grad():
        along = rule(at.T.double().unsqueeze(-2))
    assert float(best.value) >= float(along.max()) - 1e-6


def test_choices_are_filtered() -> None:
    table = torch.tensor([[0.0], [1.0], [2.0], [3.0]], dtype=torch.float64)
    space = SearchSpace(choices=table)

    def small(X: Tensor) -> Tensor:
        return 2.0 - X[..., 0]

    assert space.maximize(Peak(table[3:]), feasible=small).indices == (2,)
    assert space.maximize(Peak(table[2:]), q=2, feasible=small).indices == (1, 2)
    for domain in (space, SearchSpace(BOX)):
        with pytest.raises(SearchSpaceError, match="`feasible`"):
            domain.maximize(Peak(table[3:]), feasible=lambda X: -1.0 - X[..., 0].abs())


def test_searches_do_not_all_start_at_what_is_known() -> None:
    """Where all of that is better than a sample: it is crowded around the best so far."""
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, 3)
    known, raw = 0.5 + 0.01 * rand(20, 1, 3), rand(40, 1, 3, seed=1)
    rule = Peak(torch.tensor([0.5, 0.5, 0.5], dtype=torch.double))
    values = [rule(items) for items in (raw, known)]
    assert values[1].min() > values[0].max()
    starts = starting_points(rule, bounds, raw, known, None, None)
    wanted = [raw[values[0].topk(4).indices], known[values[1].topk(2).indices]]
    assert torch.equal(starts, torch.cat(wanted))
    both = torch.cat([raw, known])
    for number, sample in ((3, raw), (None, raw[:0])):  # as many as asked for, the best of all
        starts = starting_points(rule, bounds, sample, known, number, None)
        assert torch.equal(starts, both[rule(both).topk(number or 4).indices])


@pytest.mark.parametrize("version", ["known", "newer"])
@pytest.mark.parametrize(
    ("kinds", "feasible", "target"),
    [({}, None, (1.0, 5.2)), ({"integer": [0]}, None, (1.0, 5.2)), ({}, disc, (2.0, 5.0))],
)
def test_a_coarse_tolerance_ends_a_search_early(
    version: str,
    kinds: dict[str, Any],
    feasible: Feasible | None,
    target: tuple[float, float],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By BoTorch's own L-BFGS-B, and by SciPy's, which it takes where SciPy is newer."""
    if version == "newer":
        monkeypatch.setattr("botorch.generation.gen.SCIPY_UNTESTED_VERSION", 0)
    seen = []
    for ftol in (1e-1, 1e-12):
        rule = Peak(torch.tensor([target]).double(), ripple=0.02)
        best = SearchSpace(BOX, **kinds).maximize(
            rule,
            starts=torch.tensor([[[0.0, 4.9]]]).double(),
            raw_samples=0,
            feasible=feasible,
            options={"maxls": 8, "ftol": ftol},
        )
        seen.append(len(rule.seen))
    expected = torch.tensor([[1.5, 5.0]]).double() if feasible else rule.target
    torch.testing.assert_close(best.items, expected, atol=1e-2, rtol=0.0)
    if not kinds:  # between moves of whole numbers a search begins again
        assert seen[0] < seen[1]
