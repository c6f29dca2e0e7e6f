"""Judgements as rows: built, numbered over distinct items, merged."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from botorch_pref.data import Comparisons, Labels
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference import Block, Observations
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models.judgement_blocks import (
    DUEL,
    LABEL,
    as_labels,
    asked_duels,
    distinct_items,
    duels_block,
    labels_block,
    merged,
    number_of_answers,
)
from tests.models.common import rand

LINK = LogitLikelihood()
ITEMS = rand(4, 2)


def comparisons() -> Comparisons:
    """Rows in the order of their arms: counts of 2, 0 (padding) and 3 with half a win."""
    pairs = torch.tensor([[2, 1], [0, 0], [1, 3]])
    wins, count = torch.tensor([2.0, 0.0, 1.5]).double(), torch.tensor([2.0, 0.0, 3.0]).double()
    return Comparisons(ITEMS, pairs, wins, count)


def test_a_row_for_every_row_of_comparisons() -> None:
    block = duels_block(comparisons(), LINK)
    assert block.items.tolist() == [[2, 1], [1, 3]]
    assert block.answer.tolist() == [1.0, 0.5]
    assert block.weight.tolist() == [2.0, 3.0]
    assert block.coefficients == DUEL
    assert number_of_answers(block) == 5


def test_asked_duels_are_one_row_an_answer_in_their_order() -> None:
    blocks = [
        duels_block(comparisons(), LINK),
        labels_block(ITEMS, Labels(ITEMS, torch.ones(4, 1).double()), LINK)[1],
        duels_block(Comparisons.from_comparisons(ITEMS, torch.tensor([[3, 0]])), LINK),
    ]
    assert asked_duels(blocks).tolist() == [[2, 1]] * 2 + [[1, 3]] * 3 + [[3, 0]]
    assert asked_duels([]).shape == (0, 2)
    assert asked_duels(blocks[1:2]).shape == (0, 2)


def test_labels_are_numbered_over_distinct_items() -> None:
    X = torch.stack([ITEMS[2], ITEMS[0] + 1, ITEMS[0] + 1, ITEMS[2]])
    data = Labels(X, torch.tensor([[1.0], [0.0], [0.5], [1.0]]).double())
    items, block = labels_block(ITEMS, data, LINK)
    assert torch.equal(items, torch.cat([ITEMS, ITEMS[:1] + 1]))
    assert block.items.tolist() == [[2], [4], [4], [2]]
    assert block.answer.tolist() == [1.0, 0.0, 0.5, 1.0]
    assert block.coefficients == LABEL
    assert number_of_answers(block) == 4


def test_equal_datapoints_are_one_item() -> None:
    X = torch.stack([ITEMS[0], ITEMS[1], ITEMS[0], ITEMS[2], ITEMS[1]])
    data = Comparisons.from_comparisons(X, torch.tensor([[0, 4], [2, 3], [1, 2], [0, 2]]))
    items, block = distinct_items(data, duels_block(data, LINK))
    assert torch.equal(items, ITEMS[:3])
    # The last one is between an item and itself, and tells nothing.
    assert block.items.tolist() == [[0, 1], [0, 2], [1, 0], [0, 0]]
    assert number_of_answers(block) == 4


def test_merged_rows_have_the_same_likelihood() -> None:
    link = ProbitLikelihood(0.7)
    pairs = torch.tensor([[0, 1], [1, 0], [2, 3], [0, 1], [3, 3]])
    answer = torch.tensor([1.0, 1.0, 0.5, 0.0, 1.0]).double()
    labels = torch.tensor([[2], [0], [2]])
    blocks = [
        Block(pairs, DUEL, answer, torch.tensor([1.0, 2.0, 3.0, 1.0, 1.0]).double(), LINK),
        Block(labels, LABEL, answer[:3], torch.ones(3).double(), LINK),
        Block(pairs[:2], DUEL, answer[:2], torch.ones(2).double(), link),
        Block(pairs[:1], DUEL, answer[:1], torch.ones(1).double(), LogitLikelihood()),
    ]
    merge = merged(blocks, 4)
    assert [len(block.weight) for block in merge] == [3, 2, 1]
    assert merge[0].items.tolist() == [[0, 1], [2, 3], [3, 3]]
    f = rand(4, seed=3)
    both = []
    for rows in (blocks, merge):
        observations = Observations(rows, 4)
        both.append(observations.log_prob(observations.map.apply(f)).sum())
    torch.testing.assert_close(*both)
    assert sum(map(number_of_answers, merge)) == sum(map(number_of_answers, blocks))


def test_blocks_of_another_kind_stay_as_they_are() -> None:
    class Other:
        def log_prob(self, *args: Any) -> Any: ...

        def derivatives(self, *args: Any) -> Any: ...

    one = torch.ones(2).double()
    rows = torch.tensor([[0, 1], [0, 1]])
    strange = Block(rows, DUEL, one, one, Other())
    scaled = Block(rows, (2.0, -1.0), one, one, LINK)
    assert merged([strange, scaled, strange, scaled], 2)[:2] == [strange, scaled]
    assert asked_duels([strange, scaled]).shape == (0, 2)


def test_batches_are_refused() -> None:
    X = ITEMS.expand(3, 4, 2)
    with pytest.raises(UnsupportedError, match=r"`datapoints` must not be batched.*\(3,\)"):
        duels_block(Comparisons.from_comparisons(X, torch.tensor([[0, 1]])), LINK)
    labels = Labels(X, torch.ones(3, 4, 1).double(), ("X", "accept"))
    with pytest.raises(UnsupportedError, match=r"`X` must not be batched.*\(3,\)"):
        labels_block(ITEMS, labels, LINK)


def test_labels_of_other_items_are_refused() -> None:
    with pytest.raises(ComparisonDataError, match=r"`X` must have shape ... x n x 2"):
        labels_block(ITEMS, as_labels(ITEMS[:, :1], torch.ones(4)), LINK)
    single = Labels(ITEMS, torch.ones(4, 1).double(), ("X", "accept"))
    with pytest.raises(ComparisonDataError, match=r"`X` is of type torch\.float64"):
        labels_block(ITEMS.float(), single, LINK)


@pytest.mark.parametrize("accept", [[1, 0, 1, 1], [True, False, True, True]])
def test_labels_of_any_type_and_shape(accept: list[Any]) -> None:
    for given in (torch.tensor(accept), torch.tensor(accept).unsqueeze(-1)):
        labels = as_labels(ITEMS, given)
        assert labels.labels.tolist() == [[1.0], [0.0], [1.0], [1.0]]


def test_bad_labels_are_named() -> None:
    for accept in ([1] * 4, None):
        with pytest.raises(ComparisonDataError, match="`accept` must be a tensor"):
            as_labels(ITEMS, accept)  # type: ignore[arg-type]
    with pytest.raises(ComparisonDataError, match="`X` must be a tensor"):
        as_labels([[0.1, 0.2]], torch.ones(1))  # type: ignore[arg-type]
    with pytest.raises(ComparisonDataError, match="`accept` row 2"):
        as_labels(ITEMS, torch.tensor([1.0, 0.0, 2.0, 1.0]))
    with pytest.raises(ComparisonDataError, match="`accept` must have shape"):
        as_labels(ITEMS, torch.ones(3))
    with pytest.raises(ComparisonDataError, match="`X` row 1"):
        as_labels(torch.tensor([[0.0], [torch.nan]]).double(), torch.ones(2))
