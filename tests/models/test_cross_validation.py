"""Held-out answers: against models built without them, and against what must not leak."""

from __future__ import annotations

import math

import pytest
import torch

from botorch_pref.data import Comparisons
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models import PairwisePredictions, PreferenceGP, pairwise_cross_validation
from tests.models.common import make_duels, make_kernel, rand

NUM_PAIRS = 14


@pytest.fixture
def data() -> Comparisons:
    """Pairs that were answered once, twice in one order, in both orders, and with a tie."""
    X, rows = make_duels(12, NUM_PAIRS, 2)
    pairs = rows.sort(dim=-1).values.unique(dim=0)
    answers = (torch.arange(len(pairs)) % 3 > 0).double()
    pairs = torch.cat([pairs, pairs[:2], pairs[2:4].flip(-1), pairs[4:5]])
    answers = torch.cat([answers, torch.tensor([1.0, 0.0, 1.0, 1.0, 0.5], dtype=torch.float64)])
    empty = Comparisons.from_comparisons(X, torch.empty(0, 2, dtype=torch.long))
    return empty.append_indices(pairs, answers)


def model_of(data: Comparisons, **options: object) -> PreferenceGP:
    return PreferenceGP(data.datapoints, data, covar_module=make_kernel(2), **options)


def without(data: Comparisons, pair: torch.Tensor) -> Comparisons:
    """The answers to all other pairs; items are compared by value."""
    shown = data.datapoints[data.pairs]
    same = ((shown == pair) | (shown == pair.flip(0)).all(-1, keepdim=True)).flatten(1).all(-1)
    rows = (row[~same] for row in (data.pairs, data.wins, data.count))
    return Comparisons(data.datapoints, *rows)


VALUES = rand(5, 2, seed=3), rand(5, 1, seed=4), torch.full((5, 1), 0.01).double()


@pytest.mark.parametrize(
    "options",
    [{}, {"variance": 1.0}, {"inducing_points": 6}, {"values": VALUES, "link_scale": 1.5}],
)
def test_one_pair_at_a_time(data: Comparisons, options: dict[str, object]) -> None:
    found = pairwise_cross_validation(model_of(data, **options), None)
    assert found.num_answers == data.num_comparisons
    assert len(found.pairs) == len(data.merged().pairs)
    for row, pair in enumerate(found.pairs):
        rest = without(data, pair)
        held = data.num_comparisons - rest.num_comparisons
        assert found.count[row] == held
        expected = model_of(rest, **options).win_probability(pair)
        torch.testing.assert_close(found.probability[row], expected, rtol=1e-8, atol=1e-8)


def test_folds_are_even_and_seeded(data: Comparisons) -> None:
    model = model_of(data)
    found = pairwise_cross_validation(model, 4, seed=1)
    sizes = found.fold.bincount()
    assert len(sizes) == 4
    assert sizes.max() - sizes.min() <= 1
    assert torch.equal(found.probability, pairwise_cross_validation(model, 4, seed=1).probability)
    assert not torch.equal(found.fold, pairwise_cross_validation(model, 4, seed=2).fold)
    assert pairwise_cross_validation(model, 99).fold.unique().numel() == len(found.fold)
    held = found.fold == 2
    rest = data
    for pair in found.pairs[held]:
        rest = without(rest, pair)
    expected = model_of(rest).win_probability(found.pairs[held])
    torch.testing.assert_close(found.probability[held], expected, rtol=1e-8, atol=1e-8)


def test_equal_items_are_one(data: Comparisons) -> None:
    # The first item is stored twice, and the copy has its duels as well.
    items = torch.cat([data.datapoints, data.datapoints[:1]])
    copied = torch.where(data.pairs[::2] == 0, len(items) - 1, data.pairs[::2])
    pairs = data.pairs.clone()
    pairs[::2] = copied
    assert not torch.equal(pairs, data.pairs)
    twice = Comparisons(items, pairs, data.wins, data.count)
    with_self = torch.cat([pairs, torch.tensor([[0, len(items) - 1]])])
    ones = torch.ones(1, dtype=torch.float64)
    odd = Comparisons(items, with_self, torch.cat([data.wins, ones]), torch.cat([data.count, ones]))
    expected = pairwise_cross_validation(model_of(data), 5)
    for given in (twice, odd):
        found = pairwise_cross_validation(model_of(given), 5)
        assert torch.equal(found.wins, expected.wins)
        torch.testing.assert_close(found.probability, expected.probability)


def test_scores() -> None:
    chance = torch.tensor([0.8, 0.3, 0.5], dtype=torch.float64)
    wins = torch.tensor([2.0, 0.5, 1.0], dtype=torch.float64)
    count = torch.tensor([3.0, 1.0, 1.0], dtype=torch.float64)
    found = PairwisePredictions(chance, wins, count)
    assert found.num_answers == 5
    assert found.accuracy.value == pytest.approx((2 + 0.5 + 0.5) / 5)
    logs = 2 * math.log(0.8) + math.log(0.2) + 0.5 * math.log(0.3) + 0.5 * math.log(0.7)
    assert found.log_score.value == pytest.approx((logs + math.log(0.5)) / 5)
    squares = 2 * 0.04 + 0.64 + 0.5 * 0.49 + 0.5 * 0.09 + 0.25
    assert found.brier_score.value == pytest.approx(squares / 5)
    # With one answer a pair it is the standard error of a mean.
    single = PairwisePredictions(chance, torch.ones(3), torch.ones(3))
    right = torch.tensor([1.0, 0.0, 0.5])
    assert single.accuracy.standard_error == pytest.approx(float(right.std()) / math.sqrt(3))
    # Answers of one pair are no independent evidence: many of them leave the error as it is.
    many = PairwisePredictions(chance, 100 * torch.ones(3), 100 * torch.ones(3))
    assert many.accuracy.standard_error == pytest.approx(single.accuracy.standard_error)
    assert math.isnan(PairwisePredictions(chance[:1], wins[:1], count[:1]).accuracy[1])


@pytest.mark.parametrize(
    ("probability", "wins", "count", "message"),
    [
        ([0.5, 1.5], [1.0, 1.0], [1.0, 1.0], "`probability` row 1 is 1.5: no probability"),
        ([torch.nan, 0.5], [1.0, 1.0], [1.0, 1.0], "`probability` row 0 is nan"),
        ([0.5, 0.5], [1.0, 1.0], [0.5, 0.5], "`wins` row 0 is 1.0: not between"),
        ([0.5, 0.5], [1.0, 1.0], [0.0, 0.0], "`count` row 0 is 0.0"),
        ([0.5, 0.5], [1.0], [1.0, 1.0], "`wins` must have shape 2"),
        ([], [], [], "`probability` has no rows"),
    ],
)
def test_what_cannot_be_scored(
    probability: list[float], wins: list[float], count: list[float], message: str
) -> None:
    with pytest.raises(ComparisonDataError, match=message):
        PairwisePredictions(*map(torch.tensor, (probability, wins, count)))
