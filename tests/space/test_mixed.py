"""Whole numbers, log scales, categories and linear constraints: only feasible items, the best."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import PFTS, RandomPairs

DOUBLE = torch.float64


def box(*ends: tuple[float, float], **kinds: Any) -> SearchSpace:
    return SearchSpace(torch.tensor(ends, dtype=DOUBLE).T, **kinds)


def simplex() -> SearchSpace:
    return box(*[(0.0, 1.0)] * 4, equality_constraints=[([0, 1, 2], [1.0, 1.0, 1.0], 1.0)])


def everything() -> SearchSpace:
    return box(
        *[(0.0, 1.0)] * 3,
        (1.0, 9.0),
        (1e-4, 1.0),
        (0.0, 2.0),
        (0.0, 5.0),
        integer=[3, 6],
        log=[4],
        categorical=[5],
        equality_constraints=[([0, 1, 2], [1.0, 1.0, 1.0], 1.0)],
        inequality_constraints=[([0, 3, 6], [-4.0, -1.0, -1.0], -10.0)],
    )


SPACES: dict[str, SearchSpace] = {
    "mixed": box(
        (0.0, 1.0), (1.0, 9.0), (1e-4, 1.0), (0.0, 2.0), integer=[1], log=[2], categorical=[3]
    ),
    "simplex": simplex(),
    "everything": everything(),
    "a budget of whole numbers": box(
        (0.0, 12.0),
        (0.0, 12.0),
        (0.0, 12.0),
        integer=[0, 1, 2],
        equality_constraints=[([0, 1, 2], [1.0, 1.0, 1.0], 12.0)],
    ),
    "a whole and a real share": box(
        (0.0, 5.0), (0.0, 5.0), integer=[0], equality_constraints=[([0, 1], [2.0, 1.0], 6.3)]
    ),
    "log scales": box((1e-5, 1.0), (1.0, 1000.0), log=[0, 1], integer=[1]),
}


def is_feasible(space: SearchSpace, items: Tensor) -> bool:
    """By the definition, and by nothing of the space but what it was made of."""
    whole = items[..., [*space.parameters.integer, *space.parameters.categorical]]
    fine = bool((whole == whole.round()).all())
    fine &= bool(((space.bounds[0] <= items) & (items <= space.bounds[1])).all())
    for indices, coefficients, rhs in space.inequality_constraints:
        left = (items[..., list(indices)] * torch.tensor(coefficients, dtype=DOUBLE)).sum(-1)
        fine &= bool((left >= rhs - 1e-9 * max(1.0, abs(rhs))).all())
    for indices, coefficients, rhs in space.equality_constraints:
        left = (items[..., list(indices)] * torch.tensor(coefficients, dtype=DOUBLE)).sum(-1)
        fine &= bool(((left - rhs).abs() <= 1e-9 * max(1.0, abs(rhs))).all())
    return fine


class Near(AcquisitionFunction):
    """Largest at a target, and the larger an item's share of a range is the more it counts."""

    def __init__(self, target: Tensor, scale: Tensor) -> None:
        super().__init__(model=torch.nn.Module())
        self.target, self.scale = target, scale

    def forward(self, X: Tensor) -> Tensor:
        return -((X - self.target) / self.scale).square().sum((-1, -2))


@pytest.mark.parametrize("name", SPACES)
def test_a_thousand_items_are_feasible(name: str) -> None:
    space = SPACES[name]
    items = space.sample(1000, seed=3)
    assert items.shape == (1000, space.dim)
    assert is_feasible(space, items)
    assert bool(space.contains(items).all())
    assert not torch.equal(items, space.sample(1000, seed=4))
    assert torch.equal(items, space.sample(1000, seed=3))
    assert is_feasible(space, space.uniform(5))
    noise = torch.randn(1000, space.dim, generator=torch.Generator().manual_seed(0))
    for scale in (0.01, 0.3, 3.0):
        near = space.near(items, noise, scale)
        assert is_feasible(space, near)
        assert scale < 0.1 or not torch.equal(near, items)
    read = SearchSpace.from_state_dict(json.loads(json.dumps(space.state_dict())))
    assert read.state_dict() == space.state_dict()
    assert torch.equal(read.sample(9, seed=1), space.sample(9, seed=1))


@pytest.mark.parametrize("name", SPACES)
def test_what_is_best_is_feasible(name: str) -> None:
    """Wherever a rule would like to be, within the space or not; by itself and in pairs."""
    space = SPACES[name]
    lower, upper = space.bounds
    generator = torch.Generator().manual_seed(0)
    shares = 3.0 * torch.rand(2, space.dim, generator=generator, dtype=DOUBLE) - 1.0
    outside = lower + (upper - lower) * shares
    for target, q in itertools.product(outside, (1, 2)):
        found = space.maximize(Near(target, upper - lower), q=q, seed=1, raw_samples=64)
        assert found.items.shape == (q, space.dim)
        assert is_feasible(space, found.items)


@pytest.mark.parametrize("lower", [-0.0, -2.0])
def test_zero_has_no_sign(lower: float) -> None:
    """A query would show it as -0."""
    space = box((lower, 3.0), (0.0, 4.0), (lower, 4.0), integer=[0, 2], categorical=[1])
    items = space.sample(64, seed=0)
    noise = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
    found = [items, space.near(items, noise, 0.3), space.near(items, -noise.abs(), 3.0)]
    found.append(torch.stack([space.uniform(seed) for seed in range(32)]))
    rule = Near(torch.tensor([-0.1, -0.1, -0.1], dtype=DOUBLE), torch.ones(3))
    found.append(space.maximize(rule, seed=0, raw_samples=16).items)
    assert all((part == 0.0).any() for part in found)
    assert not any((torch.signbit(part) & (part == 0.0)).any() for part in found)


@pytest.mark.parametrize(
    ("name", "target", "wanted"),
    [
        ("mixed", [0.3, 4.2, 0.5, 1.0], [0.3, 4.0, 0.5, 1.0]),
        # The projection on a simplex.
        ("simplex", [0.2, 0.5, 0.8, 0.7], [0.2 - 1 / 6, 0.5 - 1 / 6, 0.8 - 1 / 6, 0.7]),
    ],
)
def test_the_best_item(name: str, target: list[float], wanted: list[float]) -> None:
    rule = Near(torch.tensor(target, dtype=DOUBLE), torch.ones(4))
    found = SPACES[name].maximize(rule, q=2, seed=2)
    expected = torch.tensor([wanted] * 2, dtype=DOUBLE)
    torch.testing.assert_close(found.items, expected, atol=1e-4, rtol=0)


def test_the_best_of_a_budget_by_enumeration() -> None:
    """Whole numbers of one equality only move together."""
    space = SPACES["a budget of whole numbers"]
    table = torch.tensor(
        [(i, j, 12 - i - j) for i in range(13) for j in range(13 - i)], dtype=DOUBLE
    )
    for target in ([3.0, 3.0, 9.0], [11.0, 7.0, 1.0]):
        rule = Near(torch.tensor(target), torch.tensor([1.0, 2.0, 3.0]).double())
        found = space.maximize(rule, seed=0, raw_samples=8)
        assert float(found.value) == pytest.approx(float(rule(table.unsqueeze(-2)).amax()))


def test_a_slack_beside_the_constraints() -> None:
    """It holds as well, of an item that moves in jumps too."""
    space, target = everything(), everything().bounds[1]

    def below(items: Tensor) -> Tensor:
        return 4.5 - items[..., 3] - items[..., 0]

    found = space.maximize(Near(target, target), q=2, seed=0, feasible=below, raw_samples=128)
    assert is_feasible(space, found.items)
    assert bool((below(found.items) >= -1e-9).all())
    assert bool((below(found.items) <= 0.6).all())  # and it is made use of


def test_samples_fill_a_simplex() -> None:
    """Against uniform spacings, whose mean is 1/3 and whose variance 1/18."""
    shares = simplex().sample(4000, seed=0)[:, :3]
    torch.testing.assert_close(shares.mean(0), torch.full((3,), 1 / 3).double(), atol=0.02, rtol=0)
    torch.testing.assert_close(shares.var(0), torch.full((3,), 1 / 18).double(), atol=0.006, rtol=0)


def test_whole_numbers_and_levels_are_equally_likely() -> None:
    items = SPACES["mixed"].sample(900, seed=0)
    assert torch.bincount(items[:, 1].long(), minlength=10)[1:].tolist() == pytest.approx(
        [100] * 9, abs=3
    )
    assert torch.bincount(items[:, 3].long()).tolist() == pytest.approx([300] * 3, abs=3)
    assert float((items[:, 2] < 1e-2).double().mean()) == pytest.approx(0.5, abs=0.01)


def test_what_a_model_sees() -> None:
    """The unit cube, logarithms, and levels as far apart as random numbers of a range."""
    space = SPACES["mixed"]
    items = torch.tensor([[0.25, 5.0, 1e-2, 0.0], [1.0, 9.0, 1.0, 2.0]], dtype=DOUBLE)
    half = 12**-0.5
    numbers = torch.rand(2, 100_000, generator=torch.Generator().manual_seed(0))
    apart = float((numbers[0] - numbers[1]).square().mean().sqrt())
    assert 2**0.5 * half == pytest.approx(apart, abs=0.01)
    wanted = [[0.25, 0.5, 0.5, half, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0, 0.0, half]]
    assert space.num_features == 6
    torch.testing.assert_close(space.normalize(items), torch.tensor(wanted, dtype=DOUBLE))
    torch.testing.assert_close(space.normalize(items[0]), torch.tensor(wanted[0], dtype=DOUBLE))
    marked = torch.cat([items, torch.tensor([[1.0], [0.0]])], dim=-1)
    seen = space.input_transform(num_markers=1)(marked)
    torch.testing.assert_close(seen[:, :-1], space.normalize(items))
    assert seen[:, -1].tolist() == [1.0, 0.0]


def test_choices_with_kinds() -> None:
    table = everything().sample(6, seed=0)[:, [3, 4, 5]]
    ends = torch.tensor([[1.0, 1e-4, 0.0], [9.0, 1.0, 2.0]], dtype=DOUBLE)
    space = SearchSpace(ends, table, integer=[0], log=[1], categorical=[2])
    assert space.normalize(space.table).shape == (6, 5)
    part = space.subset(torch.tensor([4, 1]))
    assert torch.equal(part.table, table[[4, 1]])
    assert part.parameters.log == (1,)
    both = torch.cat([table[:2], table[:2] + 1])
    assert space.contains(both).tolist() == [True] * 2 + [False] * 2
    read = SearchSpace.from_state_dict(json.loads(json.dumps(space.state_dict())))
    assert torch.equal(read.table, table)
    assert read.state_dict() == space.state_dict()


def test_names_of_rows_are_not_seen_by_models() -> None:
    """A category that each row has another level of, unless rows are alike without it."""
    numbers = torch.tensor([[1e-3, 5.0], [1e-2, 3.0], [1.0, 5.0], [1e-3, 9.0]], dtype=DOUBLE)
    kinds = torch.tensor([[0.0], [1.0], [1.0], [0.0]], dtype=DOUBLE)
    names = torch.tensor([[2.0], [0.0], [3.0], [1.0]], dtype=DOUBLE)
    plain = SearchSpace(choices=torch.cat([numbers, kinds], -1), log=[0], categorical=[2])
    rows = torch.cat([numbers[:, :1], names, numbers[:, 1:], kinds], dim=-1)
    space = SearchSpace(choices=rows, log=[0], categorical=[1, 3])
    assert space.parameters.seen == (0, 2, 3)
    assert space.num_features == plain.num_features == 4
    torch.testing.assert_close(space.normalize(rows), plain.normalize(plain.table))
    marked = torch.cat([rows, torch.arange(4.0, dtype=DOUBLE).unsqueeze(-1)], dim=-1)
    seen = space.input_transform(num_markers=1)(marked)
    torch.testing.assert_close(seen, torch.cat([space.normalize(rows), marked[:, -1:]], dim=-1))
    # Of two rows each has another kind, which stays what it was in the whole table.
    part = space.subset(torch.tensor([0, 1]))
    torch.testing.assert_close(part.normalize(part.table), space.normalize(rows[:2]))
    # Without the names rows 0 and 1 would be the same item, and without numbers all of them.
    twins = torch.cat([numbers[[0, 0, 2, 3]], names], dim=-1)
    assert SearchSpace(choices=twins, categorical=[2]).num_features == 6
    assert SearchSpace(choices=names, categorical=[0]).num_features == 4
    # Categories have 1,000 levels at most, as a model has a column for each; names any number.
    number = 1500
    many = torch.stack([torch.arange(number), torch.linspace(0.0, 1.0, number)], dim=-1).double()
    assert SearchSpace(choices=many, categorical=[0]).num_features == 1
    with pytest.raises(SearchSpaceError, match="dimension 0 has more than 1000 levels"):
        SearchSpace(choices=many[:, :1], categorical=[0])


def test_coefficients_keep_their_digits() -> None:
    """Lists are not rounded to single precision; scipy's solver would take what nearly fits."""
    cube = torch.tensor([[0.0] * 3, [3.0] * 3], dtype=DOUBLE)
    tenths = [([0, 1, 2], [0.1, 0.2, 0.3], 0.6)]
    space = SearchSpace(cube, integer=[0, 1, 2], equality_constraints=tenths)
    whole = torch.tensor([[1, 1, 1], [0, 0, 2], [0, 3, 0], [3, 0, 1], [1, 0, 1]], dtype=DOUBLE)
    assert space.contains(whole).tolist() == [True] * 4 + [False]
    items = space.sample(50, seed=0)
    assert space.contains(items).all()
    assert len(items.unique(dim=0)) >= 4
    near = [([0, 1, 2], [0.1, 0.2, 0.3], 0.6 + 5e-8)]
    with pytest.raises(SearchSpaceError, match="No item was found that satisfies"):
        SearchSpace(cube, integer=[0, 1, 2], equality_constraints=near)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPACES)
def test_a_thousand_suggestions_are_feasible(name: str) -> None:
    """Of a strategy that draws them, and the first ones of one that learns and searches."""
    space = SPACES[name]
    fixed = {"lengthscale": 0.4, "outputscale": 4.0}
    goal = space.normalize(space.sample(1, seed=9)[0])
    for kind, number in ((RandomPairs, 1000), (PFTS, 40)):
        strategy = kind(space=space, seed=0, hyperparameters=fixed)
        for _ in range(number):
            query = strategy.ask()
            assert is_feasible(space, query.items)
            gaps = (space.normalize(query.items) - goal).square().sum(-1)
            strategy.tell(query, float(gaps[0] < gaps[1]) if kind is PFTS else None)
        assert is_feasible(space, strategy.recommend())
