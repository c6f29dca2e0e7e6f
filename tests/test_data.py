"""What was told: stored as it was given, matched, merged, and refused with argument and row."""

import copy
import pickle
import warnings
from collections.abc import Callable
from functools import partial

import pytest
import torch
from botorch.exceptions.errors import InputDataError
from botorch.exceptions.warnings import InputDataWarning
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.data import UNKNOWN_ANNOTATOR, Choices, Comparisons, Values
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood

DTYPES = (torch.float64, torch.float32)
FIELDS = ("datapoints", "pairs", "wins", "count", "annotator")
X = torch.tensor([[0.0, 0.1], [0.3, 0.2], [0.7, 0.9], [1.0, 0.5]], dtype=torch.float64)
PAIRS = torch.tensor([[0, 1], [2, 1], [3, 0]])
WINS = torch.tensor([1.0, 0.0, 1.5], dtype=torch.float64)
COUNT = torch.tensor([1.0, 2.0, 2.0], dtype=torch.float64)
NAN, INF = float("nan"), float("inf")


def rand(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def replaced(tensor: Tensor, index: object, value: object) -> Tensor:
    new = tensor.clone()
    new[index] = torch.as_tensor(value, dtype=tensor.dtype)
    return new


def build(**changes: Tensor | None) -> Comparisons:
    given: dict[str, Tensor | None] = {"datapoints": X, "pairs": PAIRS}
    return Comparisons(**(given | {"wins": WINS, "count": COUNT} | changes))


def assert_same(first: Comparisons, second: Comparisons) -> None:
    for name in FIELDS:
        one, other = getattr(first, name), getattr(second, name)
        assert (one is None) == (other is None), name
        if one is not None:
            torch.testing.assert_close(one, other, rtol=0, atol=0, msg=name)


def quiet(dtype: torch.dtype) -> warnings.catch_warnings:
    """A context in which only the warning of single precision, where due, is expected."""
    if dtype == torch.float32:
        return pytest.warns(InputDataWarning, match="double precision in BoTorch")
    return warnings.catch_warnings()


def test_what_is_given_is_kept() -> None:
    data = build(annotator=torch.tensor([0, 4, UNKNOWN_ANNOTATOR]))
    assert data.datapoints.data_ptr() == X.data_ptr()
    torch.testing.assert_close(data.wins, WINS)
    assert (data.num_items, data.num_comparisons, data.batch_shape) == (4, 5, torch.Size())
    with pytest.raises(AttributeError):
        data.wins = WINS  # type: ignore[misc]
    assert_same(copy.deepcopy(data), data)
    assert_same(pickle.loads(pickle.dumps(data)), data)
    for dtype in (torch.uint8, torch.int32):
        assert build(pairs=PAIRS.to(dtype)).pairs.dtype == torch.long
        assert data.append_indices(PAIRS.to(dtype), ANSWERS).pairs.dtype == torch.long


@pytest.mark.parametrize("num_items", [0, 3])
def test_the_prior_alone_has_no_rows(num_items: int) -> None:
    none = torch.empty(0, 2, dtype=torch.long)
    data = Comparisons.from_comparisons(X[:num_items], none)
    assert (data.num_items, data.num_comparisons) == (num_items, 0)
    assert data.comparisons.shape == (0, 2)
    assert_same(data.merged(), data)
    assert data.append(X[None, :2], torch.ones(1)).num_comparisons == 1


def test_comparisons_are_a_view_of_the_winners() -> None:
    torch.testing.assert_close(Comparisons.from_comparisons(X, PAIRS).comparisons, PAIRS)
    data = build(wins=torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64))
    assert data.comparisons.tolist() == [[0, 1], [1, 2], [1, 2], [3, 0], [0, 3]]
    with pytest.raises(UnsupportedError, match="ties"):
        _ = build().comparisons


def test_padding_adds_nothing_and_may_name_one_item_twice() -> None:
    data = build(
        pairs=torch.cat([PAIRS, torch.tensor([[0, 0]])]),
        wins=torch.cat([WINS, WINS.new_zeros(1)]),
        count=torch.cat([COUNT, COUNT.new_zeros(1)]),
    )
    assert data.num_comparisons == 5
    assert_same(data.merged(), build().merged())


ITEMS = X[PAIRS]
ANSWERS = torch.tensor([1.0, 0.0, 0.5])
ROW = torch.tensor([[0, 1]])
SHOWN, FAVOURITE = torch.tensor([[0, 1, 2], [3, 1, 0]]), torch.tensor([2, 0])
TARGETS = replaced(X[:, :1].expand(2, 4, 1), (1, 2), INF)
of_items, of_values = Comparisons.from_pairs, partial(Values, X.expand(2, 4, 2))
of_choices, of_winners = partial(Choices, X), Comparisons.from_comparisons
BAD: list[tuple[Callable[[], object], str]] = [
    (
        lambda: build(datapoints=replaced(X, (2, 1), NAN)),
        r"`datapoints` row 2 is \[0.7, nan\]: NaN",
    ),
    (lambda: build(datapoints=X.long()), "`datapoints` must be floating point"),
    (lambda: build(datapoints=X[:, :0]), "`datapoints` has items without dimensions"),
    (lambda: build(datapoints=X[0]), "`datapoints` must have shape"),
    (lambda: build(datapoints=X.tolist()), "`datapoints` must be a tensor"),  # type: ignore[arg-type]
    (lambda: build(datapoints=X[:0]), r"`pairs` row 0 is \[0, 1\]"),
    (lambda: build(pairs=replaced(PAIRS, (2, 1), -1)), r"`pairs` row 2 is \[3, -1\]"),
    (lambda: build(pairs=replaced(PAIRS, (1, 0), 1)), r"`pairs` row 1 .* with itself"),
    (lambda: build(pairs=PAIRS.double()), "`pairs` must be of an integer type"),
    (lambda: build(pairs=PAIRS > 0), "`pairs` must be of an integer type"),
    (lambda: build(pairs=PAIRS[:, [0, 1, 1]]), "`pairs` must have shape"),
    (lambda: build(wins=replaced(WINS, 2, 2.5)), "`wins` row 2 is 2.5"),
    (lambda: build(wins=replaced(WINS, 1, 0.25)), "`wins` row 1 is 0.25"),
    (lambda: build(wins=replaced(WINS, 0, NAN)), "`wins` row 0 is nan"),
    (lambda: build(wins=WINS.float()), "`wins` is of type torch.float32"),
    (lambda: build(wins=WINS.to("meta")), "`wins` is on meta"),
    (lambda: build(count=replaced(COUNT, 1, 1.5)), "`count` row 1 is 1.5"),
    (lambda: build(count=replaced(COUNT, 1, INF)), "`count` row 1 is inf"),
    (lambda: build(annotator=torch.tensor([0, 1])), "`annotator` must have shape"),
    (lambda: build(annotator=torch.tensor([0, -2, 1])), "`annotator` row 1 is -2"),
    (
        lambda: build(pairs=PAIRS.expand(2, 3, 2), wins=WINS.expand(3, 3)),
        "not broadcast: .*`wins` ",
    ),
    (lambda: of_winners(X, PAIRS.expand(2, 3, 3, 2) + 1), r"`comparisons` batch \(0, 0\) row 2"),
    (lambda: of_winners(X.expand(9, 4, 2).reshape(4, 18) / 0.0, PAIRS), r"row 0 is .*\.\.\.: NaN"),
    (lambda: of_items(replaced(ITEMS, (1, 0, 1), NAN), ANSWERS), "`pairs` row 1 is .*: NaN"),
    (lambda: of_items(replaced(ITEMS, 2, ITEMS[2, :1]), ANSWERS), "`pairs` row 2 .* with itself"),
    (lambda: of_items(ITEMS[None], ANSWERS[None]), "`pairs` must have shape"),
    (lambda: of_items(ITEMS, ANSWERS[:2]), "`answers` must have shape"),
    (lambda: of_items(ITEMS, [1, 0, 1]), "`answers` must be a tensor"),  # type: ignore[arg-type]
    (lambda: of_items(ITEMS, ANSWERS.to("meta")), "`answers` is on meta"),
    (lambda: of_items(ITEMS, torch.tensor([1.0, 0.0, 0.7])), "`answers` row 2 is 0.69"),
    (lambda: of_items(ITEMS, torch.tensor([NAN, 0.0, 1.0])), "`answers` row 0 is nan"),
    (lambda: build().append(ITEMS.float(), ANSWERS), "`pairs` is of type torch.float32"),
    (lambda: build().append(ITEMS[..., :1], ANSWERS), "`pairs` must have shape m x 2 x 2"),
    (lambda: build().append_indices(PAIRS + 1, ANSWERS), r"`pairs` row 2 is \[4, 1\]"),
    (lambda: build().append_indices(PAIRS * 0, ANSWERS), "with itself"),
    (lambda: build().append_indices(PAIRS, 2 * ANSWERS), "`answers` row 0 is 2.0"),
    (lambda: build().append_indices(PAIRS, ANSWERS, PAIRS[:, 0] - 3), "`annotator` row 0"),
    (lambda: build().append_new(replaced(X[:2], (1, 1), NAN), ROW), "`X` row 1"),
    (lambda: build().append_new(X[:2], ROW + 1), r"`Y` row 0 is \[1, 2\]"),
    (lambda: build().append_new(X[:2].float(), ROW), "`X` is of type torch.float32"),
    (lambda: batched().append_new(X[:2].expand(3, 2, 2), ROW), "do not broadcast"),
    (lambda: of_values(TARGETS), r"`Y` batch \(1,\) row 2 is \[inf\]"),
    (
        lambda: of_values(WINS.new_ones(4, 1), TARGETS),
        r"`Yvar` batch \(1,\) row 2 .*NaN or infinite",
    ),
    (lambda: of_values(WINS.new_ones(4, 1), WINS.new_zeros(4, 1)), "a variance is positive"),
    (lambda: of_values(None), "`Y` must be a tensor"),
    (lambda: of_choices(SHOWN[0], FAVOURITE), "`items` must have shape"),
    (lambda: of_choices(SHOWN.double(), FAVOURITE), "`items` must be of an integer type"),
    (lambda: of_choices(SHOWN[:, :1], FAVOURITE), "at least 2 items a question, not 1"),
    (lambda: of_choices(SHOWN - 2, FAVOURITE), "`items` row 0 .* out of range"),
    (lambda: of_choices(SHOWN, FAVOURITE[:1]), "`favourite` must have shape"),
    (lambda: of_choices(SHOWN, FAVOURITE + 1), "`favourite` row 0 is 3: .* 0 to 2"),
]


def batched() -> Comparisons:
    return build(datapoints=X.expand(2, 4, 2))


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_data_are_named(call: Callable[[], object], message: str) -> None:
    """By argument and row, which is abbreviated where it is long."""
    with pytest.raises(ComparisonDataError, match=message) as caught:
        call()
    assert isinstance(caught.value, InputDataError)
    assert len(str(caught.value)) < 250


def test_batched_data_take_no_items() -> None:
    with pytest.raises(UnsupportedError, match="append_indices"):
        batched().append(ITEMS, ANSWERS)


@pytest.mark.parametrize("d", [1, 3])
def test_signed_zeros_do_not_make_two_items(d: int) -> None:
    zero, yes = torch.zeros(d, dtype=torch.float64), torch.ones(1)
    one = zero + 1
    assert (-zero).signbit().all()
    with pytest.raises(ComparisonDataError, match=r"`pairs` row 0 .* with itself"):
        Comparisons.from_pairs(torch.stack([zero, -zero]).unsqueeze(0), yes)
    data = Comparisons.from_pairs(torch.stack([one, zero]).unsqueeze(0), yes)
    data = data.append(torch.stack([-zero, one]).unsqueeze(0), yes)
    assert data.pairs.tolist() == [[0, 1], [1, 0]]
    assert data.num_items == 2


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=0, max_size=6),
    st.lists(
        st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda p: p[0] != p[1]), max_size=8
    ),
)
def test_matching_agrees_with_a_dictionary(stored: list[int], pairs: list[tuple[int, int]]) -> None:
    values = torch.tensor([[0.0], [1.0], [-1.0], [0.1], [0.1 + 1e-16], [3.0]]).double()
    values = torch.cat([values, torch.arange(6.0).double().unsqueeze(-1)], dim=1)
    seen: dict[int, int] = {}
    expected_items = list(stored)
    for position, value in enumerate(stored):
        seen.setdefault(value, position)
    for value in (value for pair in pairs for value in pair):
        if value not in seen:
            seen[value] = len(expected_items)
            expected_items.append(value)
    data = Comparisons.from_comparisons(values[stored], torch.empty(0, 2, dtype=torch.long))
    rows = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2)
    grown = data.append(values[rows], torch.ones(len(pairs)))
    assert grown.pairs.tolist() == [[seen[a], seen[b]] for a, b in pairs]
    torch.testing.assert_close(grown.datapoints, values[expected_items])
    if not stored and pairs:
        assert_same(Comparisons.from_pairs(values[rows], torch.ones(len(pairs))), grown)


def test_growth() -> None:
    data = build().append_indices(torch.tensor([[1, 3]]), torch.tensor([0.5]))
    torch.testing.assert_close(data.datapoints, X)
    assert data.pairs.tolist() == [*PAIRS.tolist(), [1, 3]]
    assert data.wins.tolist() == [*WINS.tolist(), 0.5]
    assert data.count.tolist() == [*COUNT.tolist(), 1.0]
    data = build().append_new(X[:3], torch.tensor([[2, 0], [1, 0]]))
    torch.testing.assert_close(data.datapoints, torch.cat([X, X[:3]]))
    assert data.pairs[3:].tolist() == [[6, 4], [5, 4]]
    assert data.wins[3:].tolist() == [1, 1]
    data = build(annotator=torch.tensor([2, 1, 0])).append_new(X[1:3], torch.tensor([[1, 0]]))
    assert data.annotator is not None
    assert data.annotator.tolist() == [2, 1, 0, UNKNOWN_ANNOTATOR]
    after = build().append(X[None, :2], torch.ones(1), torch.tensor([7]))
    assert after.annotator is not None
    assert after.annotator.tolist() == [UNKNOWN_ANNOTATOR] * 3 + [7]


@pytest.mark.parametrize("stored", [(), (3,), (2, 1)])
@pytest.mark.parametrize("batch", [(3,), (2, 3), (4, 2, 3)])
def test_batched_growth_equals_a_loop(stored: tuple[int, ...], batch: tuple[int, ...]) -> None:
    items = torch.rand(*batch, 2, 2, dtype=torch.float64)
    answers = torch.rand(5, *([1] * (3 - len(batch))), *batch) < 0.5
    rows = torch.stack([answers, ~answers], -1).long().unsqueeze(-2)
    grown = build(datapoints=X.expand(*stored, 4, 2)).append_new(items, rows)
    shape = grown.batch_shape
    assert shape == torch.broadcast_shapes(stored, answers.shape)
    items, rows = items.expand(*shape, 2, 2), rows.expand(*shape, 1, 2)
    for index in ((0,) * len(shape), tuple(size - 1 for size in shape)):
        assert_same(element(grown, index), build().append_new(items[index], rows[index]))


def element(data: Comparisons, index: tuple[int, ...]) -> Comparisons:
    found = (getattr(data, name) for name in FIELDS)
    return Comparisons.unchecked(*(None if value is None else value[index] for value in found))


def test_batch_shapes_are_broadcast() -> None:
    data = build(datapoints=X.expand(2, 1, 4, 2), wins=WINS.expand(3, 3))
    for name, size in (("datapoints", (4, 2)), ("pairs", (3, 2)), ("wins", (3,)), ("count", (3,))):
        assert getattr(data, name).shape == (2, 3, *size)
    assert (data.num_comparisons, data.num_items) == (5, 4)
    assert data.merged() is data
    empty = build(datapoints=X.expand(0, 4, 2), wins=WINS.round())
    assert (empty.num_comparisons, empty.comparisons.shape) == (0, (0, 0, 2))
    pairs = torch.stack([PAIRS, PAIRS.flip(0)])
    torch.testing.assert_close(Comparisons.from_comparisons(X, pairs).comparisons, pairs)
    count = torch.tensor([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
    ragged = build(pairs=pairs, wins=count, count=count)
    assert ragged.num_comparisons == 3
    with pytest.raises(UnsupportedError, match="differ in their numbers of answers"):
        _ = ragged.comparisons


ROWS = st.lists(
    st.tuples(
        st.integers(0, 3), st.integers(0, 3), st.sampled_from([0.0, 0.5, 1.0]), st.integers(-1, 2)
    ).filter(lambda row: row[0] != row[1]),
    max_size=12,
)
Row = tuple[int, int, float, int]


def of_rows(rows: list[Row], annotators: bool = False) -> Comparisons:
    pairs = torch.tensor([row[:2] for row in rows], dtype=torch.long).reshape(-1, 2)
    answers = torch.tensor([row[2] for row in rows])
    who = torch.tensor([row[3] for row in rows], dtype=torch.long) if annotators else None
    none = torch.empty(0, 2, dtype=torch.long)
    return Comparisons.from_comparisons(X, none).append_indices(pairs, answers, who)


@settings(max_examples=50, deadline=None)
@given(ROWS, st.booleans())
def test_merging_agrees_with_a_dictionary_and_is_idempotent(
    rows: list[Row], annotators: bool
) -> None:
    """Hence the order of the rows does not matter, nor, of no annotator, what was shown first."""
    table: dict[tuple[int, int, int], list[float]] = {}
    for a, b, answer, who in rows:
        row = (a, b, who) if annotators else (min(a, b), max(a, b), 0)
        cell = table.setdefault(row, [0.0, 0.0])
        cell[0] += answer if annotators or a < b else 1 - answer
        cell[1] += 1
    merged = of_rows(rows, annotators).merged()
    assert merged.pairs.tolist() == [[a, b] for a, b, _ in sorted(table)]
    assert merged.wins.tolist() == [table[row][0] for row in sorted(table)]
    assert merged.count.tolist() == [table[row][1] for row in sorted(table)]
    if annotators:
        assert merged.annotator is not None
        assert merged.annotator.tolist() == [who for *_, who in sorted(table)]
    assert merged.num_comparisons == len(rows)
    assert_same(merged.merged(), merged)
    assert_same(Comparisons(*(getattr(merged, name) for name in FIELDS)), merged)


def test_gradients_flow_to_stored_and_new_items() -> None:
    stored, new = X.clone().requires_grad_(), ITEMS.clone().add(2.0).requires_grad_()
    data = Comparisons.from_comparisons(stored, PAIRS).append(new, ANSWERS)
    data = data.append_indices(torch.tensor([[0, 4]]), torch.ones(1)).merged()
    # Items 0 and 1 appear twice in ITEMS; only their first appearance became a datapoint.
    expected = 2 * new.detach()
    expected[1, 1] = expected[2, 1] = 0.0
    found = torch.autograd.grad(data.datapoints.square().sum(), (stored, new))
    torch.testing.assert_close(found, (2 * X, expected))
    items = rand(3, 2, 2).requires_grad_()
    data = Comparisons.from_comparisons(stored, PAIRS).append_new(items, ROW.expand(5, 3, 1, 2))
    assert data.batch_shape == (5, 3)
    slopes = torch.autograd.grad(data.datapoints.sum(), (stored, items))
    torch.testing.assert_close(slopes, (torch.full_like(X, 15.0), torch.full_like(items, 5.0)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_only_constructors_warn_of_single_precision(dtype: torch.dtype) -> None:
    x, items = X.to(dtype), ITEMS.to(dtype)
    with quiet(dtype):
        Comparisons.from_pairs(items, ANSWERS)
    with quiet(dtype):
        Comparisons(x, PAIRS, WINS.to(dtype), COUNT.to(dtype))
    with quiet(dtype):
        Values(x, x[:, :1])
    with quiet(dtype):
        data = Comparisons.from_comparisons(x, PAIRS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = data.append(items + 1, ANSWERS).append_indices(PAIRS, ANSWERS)
        data = data.append_new(x, PAIRS).merged()
    assert {data.datapoints.dtype, data.wins.dtype, data.count.dtype} == {dtype}
    assert data.pairs.dtype == torch.long


def test_everything_stays_on_the_device(device: torch.device) -> None:
    x, pairs, items = X.to(device), PAIRS.to(device), ITEMS.to(device)
    answers, who = ANSWERS.to(device), PAIRS[:, 0].to(device)
    data = Comparisons.from_pairs(items, answers, who).append(items + 1, answers)
    data = data.append_indices(pairs, answers, who).append_new(x, pairs).merged()
    expected = Comparisons.from_pairs(ITEMS, ANSWERS, PAIRS[:, 0]).append(ITEMS + 1, ANSWERS)
    expected = expected.append_indices(PAIRS, ANSWERS, PAIRS[:, 0]).append_new(X, PAIRS).merged()
    for name in FIELDS:
        assert getattr(data, name).device.type == device.type
        torch.testing.assert_close(getattr(data, name).cpu(), getattr(expected, name))
    found = Comparisons.from_comparisons(x, pairs)
    torch.testing.assert_close(found.comparisons.cpu(), PAIRS)
    with pytest.raises(ComparisonDataError, match="`comparisons` row 0"):
        Comparisons.from_comparisons(x, pairs * 0)


def test_values_are_broadcast() -> None:
    items = rand(4, 2).requires_grad_()
    values = Values(items, rand(3, 4, 1).requires_grad_(), rand(2, 1, 4, 1) + 1)
    assert (values.batch_shape, values.num_items) == ((2, 3), 4)
    assert values.datapoints.shape == (2, 3, 4, 2)
    assert values.datapoints.requires_grad
    assert not values.targets.requires_grad


def test_choices_are_broadcast() -> None:
    data = Choices(X.expand(5, 4, 2), SHOWN, FAVOURITE)
    assert data.batch_shape == (5,)
    assert data.favourite.shape == (5, 2)
    [block] = data.blocks(LogitLikelihood())
    assert torch.equal(block.items, SHOWN.expand(5, 2, 3))
    assert (block.latent_dim, block.num_rows) == (3, 6)
    assert torch.equal(block.answer, FAVOURITE.double().expand(5, 2))
