"""The search space: validation, samples, and what ``maximize`` finds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions.errors import BotorchError
from scipy import stats
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.space import SearchSpace
from tests.contracts.generators import global_states
from tests.models.common import rand

BOX = torch.tensor([[-1.0, 0.0], [2.0, 10.0]], dtype=torch.float64)


class Peak(AcquisitionFunction):
    """Largest where item ``i`` of ``q`` is ``target[i]``; counts its calls."""

    def __init__(self, target: Tensor, ripple: float = 0.0) -> None:
        super().__init__(model=torch.nn.Module())
        self.target, self.ripple, self.seen = target, ripple, []

    def forward(self, X: Tensor) -> Tensor:
        self.seen.append(X.detach())
        gap = X - self.target
        return (-gap.square() + self.ripple * torch.cos(8 * gap)).sum((-1, -2))


# Bad input.

NAN, INF = math.nan, math.inf
CUBE = torch.tensor([[0.0, 0.0, 1.0], [1.0, 2.0, 9.0]], dtype=torch.float64)
ROWS = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.5, 3.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "`bounds`, `choices`"),
        ({"bounds": [[0.0], [1.0]]}, "`bounds`"),
        ({"bounds": torch.zeros(3, 2)}, r"`bounds` .* \(3, 2\)"),
        ({"bounds": torch.tensor([[0, 0], [1, 1]])}, "`bounds` .*int64"),
        ({"bounds": torch.tensor([[0.0, 0.0], [1.0, NAN]])}, "`bounds` row 1"),
        ({"bounds": torch.tensor([[0.0, 1.0], [1.0, 1.0]])}, "`bounds` column 1"),
        ({"choices": torch.tensor([[0.0], [1.0], [INF]])}, "`choices` row 2"),
        ({"choices": torch.zeros(1, 2)}, "`choices` needs two rows"),
        ({"choices": torch.zeros(2, 3, 2)}, "`choices`"),
        ({"choices": torch.zeros(3, 2), "bounds": torch.tensor([[0.0], [1.0]])}, "2 columns"),
        (
            {"bounds": CUBE, "choices": ROWS, "integer": [1]},
            r"`choices` row 1 has 0\.5 in column 1, .* whole",
        ),
        ({"choices": ROWS, "equality_constraints": [([0], [1.0], 0.5)]}, "takes no constraints"),
        *(
            ({"bounds": CUBE} | kinds, words)
            for kinds, words in [
                ({"integer": [3]}, "`integer` has 3, but dimensions are 0 to 2"),
                ({"log": [2, 2]}, "`log` has a dimension more than once"),
                (
                    {"categorical": [1], "bounds": CUBE + 0.5},
                    r"row 0 has 0\.5 in column 1, .* `categ",
                ),
                ({"log": [1]}, r"`bounds` .* in column 1, .* `log` needs positive numbers"),
                ({"categorical": [2]}, "`bounds` column 2: a category's first level is 0"),
                ({"categorical": [1], "integer": [1]}, "Dimension 1 is in `categorical`"),
                (
                    {"inequality_constraints": [([0], [1.0])]},
                    "`inequality_constraints` row 0 must be",
                ),
                (
                    {"equality_constraints": [([0, 1], [1.0], 1.0)]},
                    "`equality_constraints` row 0 must be",
                ),
                ({"equality_constraints": [([0], [0.0], 1.0)]}, "no coefficient but 0"),
                (
                    {"log": [2], "inequality_constraints": [([0, 2], [1.0, 1.0], 3.0)]},
                    "row 0 has dimension 2, which is categorical or log-scaled",
                ),
                ({"inequality_constraints": [([0, 1], [1.0, 1.0], 3.5)]}, "No item satisfies"),
                (
                    {"integer": [1], "equality_constraints": [([1], [2.0], 1.0)]},
                    "No item satisfies",
                ),
                (
                    {"inequality_constraints": [([0], [1.0], 0.5), ([0], [-1.0], -0.5)]},
                    "leave no room .* equality constraint",
                ),
            ]
        ),
    ],
)
def test_bad_arguments(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(SearchSpaceError, match=words) as caught:
        SearchSpace(**arguments)
    assert isinstance(caught.value, BotorchError)


@pytest.mark.parametrize("q", [0, 3])
def test_only_items_and_pairs_are_maximised(q: int) -> None:
    with pytest.raises(SearchSpaceError, match="`q`"):
        SearchSpace(BOX).maximize(Peak(torch.zeros(q, 2)), q=q)


# Domains.


def test_bounding_box_of_choices() -> None:
    choices = torch.tensor([[1.0, 5.0, 0.0], [3.0, 5.0, -2.0], [2.0, 5.0, 1.0]])
    space = SearchSpace(choices=choices)
    assert space.dim == 3
    assert space.bounds.tolist() == [[1.0, 5.0, -2.0], [3.0, 6.0, 1.0]]
    assert space.bounds.dtype == space.table.dtype == torch.float64
    given = SearchSpace(torch.tensor([[0.0] * 3, [10.0] * 3]), choices)
    assert given.bounds.tolist() == [[0.0] * 3, [10.0] * 3]
    assert torch.equal(given.normalize(given.table), choices.double() / 10.0)
    # A table may lack the first level of a category.
    space = SearchSpace(choices=choices, categorical=[0])
    assert space.bounds[:, 0].tolist() == [0.0, 3.0]
    assert space.parameters.levels[0] == 4


# Samples.


def test_sample_of_a_box_fills_it() -> None:
    space = SearchSpace(BOX)
    items = space.sample(64, seed=0)
    assert items.shape == (64, 2)
    assert ((items >= BOX[0]) & (items <= BOX[1])).all()
    unit = space.normalize(items)
    for column in unit.T:
        assert torch.histc(column, 8, 0.0, 1.0).tolist() == [8.0] * 8
    assert torch.equal(items, space.sample(64, seed=0))
    assert not torch.equal(items, space.sample(64, seed=1))
    assert space.sample(3, seed=2**62).shape == (3, 2)


@pytest.mark.parametrize("n", [0, 3, 5, 12])
def test_sample_of_choices_repeats_late(n: int) -> None:
    space = SearchSpace(choices=rand(5, 2))
    items = space.sample(n, seed=0)
    assert items.shape == (n, 2)
    assert len(items.unique(dim=0)) == min(n, 5)
    assert torch.equal(items, space.sample(n, seed=0))
    rows = (items.unsqueeze(1) == space.table).all(-1).float().argmax(-1)
    counts = torch.bincount(rows, minlength=5)
    assert counts.max() - counts.min() <= 1


# Maxima.


@pytest.mark.parametrize("q", [1, 2])
def test_maximum_over_a_box(q: int) -> None:
    target = torch.tensor([[0.3, 4.0], [1.9, 9.0]], dtype=torch.float64)[:q]
    rule = Peak(target, ripple=0.02)
    best = SearchSpace(BOX).maximize(rule, q=q, seed=0, raw_samples=512)
    torch.testing.assert_close(best.items, target, atol=1e-4, rtol=0.0)
    assert best.indices is None
    assert best.value.shape == ()
    assert float(best.value) == pytest.approx(0.02 * 2 * q, abs=1e-6)
    assert not best.items.requires_grad
    assert not best.value.requires_grad
    everything = torch.cat([X.reshape(-1, 2) for X in rule.seen])
    assert ((everything >= BOX[0]) & (everything <= BOX[1])).all()


def test_starts_are_tried() -> None:
    """A needle that no Sobol sample meets is found from a start beside it."""

    class Needle(Peak):
        def forward(self, X: Tensor) -> Tensor:
            gap = (X - self.target).square().sum((-1, -2))
            away = (X - 1.0).square().sum((-1, -2))
            return 10.0 * torch.exp(-1e4 * gap) - 1e-3 * away

    target = torch.tensor([[0.123, 4.567]], dtype=torch.float64)
    space = SearchSpace(BOX)
    missed = space.maximize(Needle(target), seed=0, raw_samples=64)
    found = space.maximize(
        Needle(target), seed=0, raw_samples=64, starts=target.unsqueeze(0) + 0.005
    )
    assert float(missed.value) < 1.0 < float(found.value)
    torch.testing.assert_close(found.items, target, atol=1e-4, rtol=0.0)


def test_maximum_over_choices() -> None:
    table = rand(9, 2)
    space = SearchSpace(choices=table)
    best = space.maximize(Peak(table[4:5] + 1e-3), seed=0)
    assert best.indices == (4,)
    assert torch.equal(best.items, table[4:5])
    rule = Peak(table[[6, 2]])
    pair = space.maximize(rule, q=2, seed=0)
    pairs = list(itertools.combinations(range(9), 2))
    assert [tuple(row) for row in torch.cat(rule.seen).flatten(1).tolist()] == [
        tuple(table[[i, j]].flatten().tolist()) for i, j in pairs
    ]
    values = rule(torch.stack([table[[i, j]] for i, j in pairs]))
    assert pair.indices == pairs[int(values.argmax())]
    assert torch.equal(pair.items, table[list(pair.indices)])
    assert float(pair.value) == float(values.max())


def test_ties_between_choices_are_broken_at_random() -> None:
    table = torch.tensor([[1.0], [-1.0], [3.0], [1.0]], dtype=torch.float64)
    space = SearchSpace(choices=table)

    class Even(Peak):
        def forward(self, X: Tensor) -> Tensor:
            return -X.abs().sum((-1, -2))

    found = [space.maximize(Even(table), seed=seed).indices[0] for seed in range(300)]
    counts = np.bincount(found, minlength=4)
    assert counts[2] == 0
    assert stats.chisquare(counts[[0, 1, 3]]).pvalue > 1e-3


@pytest.mark.parametrize("space", [SearchSpace(BOX), SearchSpace(choices=rand(6, 2))])
def test_seed_decides_and_leaves_the_generators_alone(space: SearchSpace) -> None:
    rule = Peak(rand(1, 2), ripple=2.0)
    states = global_states()
    one, two = (space.maximize(rule, seed=3, raw_samples=32) for _ in range(2))
    assert torch.equal(one.items, two.items)
    assert torch.equal(one.value, two.value)
    assert one.indices == two.indices
    assert global_states() == states


def test_few_whole_items_are_drawn_evenly() -> None:
    """3 x + 7 y + 11 z = 100 has 25 of them; a draw of one is not the same one again and again."""
    bounds = torch.tensor([[0.0] * 3, [30.0] * 3], dtype=torch.float64)
    equality = [([0, 1, 2], [3.0, 7.0, 11.0], 100.0)]
    space = SearchSpace(bounds, integer=[0, 1, 2], equality_constraints=equality)
    items = torch.cat([space.sample(1, seed) for seed in range(100)])
    assert bool(space.contains(items).all())
    counts = items.unique(dim=0, return_counts=True)[1]
    assert len(counts) >= 20
    assert int(counts.max()) <= 20
    assert not bool((torch.signbit(items) & (items == 0)).any())


@pytest.mark.parametrize("size", [1e7, 1e8])
def test_constraints_on_large_numbers(size: float) -> None:
    """A sum of such numbers rounds by more than 1e-9."""
    bounds = torch.tensor([[0.0] * 3, [size] * 3], dtype=torch.float64)
    space = SearchSpace(bounds, equality_constraints=[([0, 1, 2], [1.0, -1.0, 1.0], 0.0)])
    items = space.sample(1000, seed=0)
    assert bool(space.contains(items).all())
    assert float((items[:, 0] - items[:, 1] + items[:, 2]).abs().max()) <= 1e-13 * size
