r"""Judgements as rows over distinct items: built, extended, and merged for inference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from botorch_pref.data import Comparisons, Labels
from botorch_pref.data.blocks import match_items, merge_rows
from botorch_pref.data.checks import check_like, check_shape
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference import Block
from botorch_pref.likelihoods import BernoulliLikelihood

DUEL, LABEL = (1.0, -1.0), (1.0,)


def duels_block(data: Comparisons, likelihood: BernoulliLikelihood) -> Block:
    """One row for every row of unbatched comparisons; padding is left out.

    Raises:
        UnsupportedError: If the data are batched.
    """
    if data.batch_shape:
        shape = tuple(data.batch_shape)
        raise UnsupportedError(f"`datapoints` must not be batched; their batch is {shape}.")
    answered = data.count > 0
    count = data.count[answered]
    return Block(data.pairs[answered], DUEL, data.wins[answered] / count, count, likelihood)


def distinct_items(data: Comparisons, block: Block) -> tuple[Tensor, Block]:
    """The datapoints without repetitions, in order of appearance, and the rows over these.

    Two nodes at one place would be two utilities, apart by what their jitter allows.
    """
    indices, fresh = match_items(data.datapoints[:0], data.datapoints)
    return data.datapoints[fresh], replace(block, items=indices[block.items])


def labels_block(
    stored: Tensor, data: Labels, likelihood: BernoulliLikelihood
) -> tuple[Tensor, Block]:
    """``n x d``-dim items, the stored ones and then what is new, and a row for every label.

    Raises:
        ComparisonDataError: If the items are of another size or type than those stored.
        UnsupportedError: If the data are batched.
    """
    if data.items.dim() != 2:
        shape = tuple(data.items.shape[:-2])
        raise UnsupportedError(f"`{data.names[0]}` must not be batched; their batch is {shape}.")
    check_shape(data.names[0], data.items, "n", stored.shape[-1])
    check_like(data.names[0], data.items, stored)
    indices, fresh = match_items(stored, data.items)
    answer = data.labels.squeeze(-1)
    block = Block(indices.unsqueeze(-1), LABEL, answer, torch.ones_like(answer), likelihood)
    return torch.cat([stored, data.items[fresh]]), block


def as_labels(X: Tensor, accept: Tensor) -> Labels:
    """Labels whose last dimension may be left out.

    Raises:
        ComparisonDataError: If they cannot be used; names argument and row.
    """
    for name, value in (("X", X), ("accept", accept)):
        check_shape(name, value)
    accept = accept.unsqueeze(-1) if accept.dim() == X.dim() - 1 else accept
    return Labels(X, accept.to(X), ("X", "accept"))


def merged(blocks: Sequence[Block], num_items: int) -> list[Block]:
    r"""The same judgements with one row for every pair, or item.

    Args:
        blocks: Unbatched blocks, of duels and labels or others, which are left as they are.
        num_items: The number of items.

    Returns:
        The blocks; those of one kind and link are one.
    """
    groups: dict[object, list[Block]] = {}
    for block in blocks:
        link = block.likelihood
        alike = isinstance(link, BernoulliLikelihood) and block.coefficients in (DUEL, LABEL)
        key = (block.coefficients, type(link), link.scale) if alike else id(block)  # type: ignore[attr-defined]
        groups.setdefault(key, []).append(block)
    return [
        _merged_rows(group, num_items) if isinstance(key, tuple) else group[0]
        for key, group in groups.items()
    ]


def number_of_answers(block: Block) -> int:
    """How often somebody answered."""
    return round(float(block.weight.sum()))


def asked_duels(blocks: Sequence[Block]) -> Tensor:
    """``m x 2``-dim indices of all duels in the order of their arms, one row an answer."""
    rows = [
        block.items.repeat_interleave(block.weight.long(), dim=0)
        for block in blocks
        if block.coefficients == DUEL and isinstance(block.likelihood, BernoulliLikelihood)
    ]
    return torch.cat(rows) if rows else torch.empty(0, 2, dtype=torch.long)


def _merged_rows(blocks: Sequence[Block], num_items: int) -> Block:
    items = torch.cat([block.items for block in blocks])
    count = torch.cat([block.weight for block in blocks])
    wins = torch.cat([block.weight * block.answer for block in blocks])
    if blocks[0].coefficients == DUEL:
        items, wins, count, _ = merge_rows(num_items, items, wins, count, None)
    else:
        items, group = torch.unique(items, dim=0, return_inverse=True)
        total = count.new_zeros(2, len(items))
        wins, count = total.index_add(1, group, torch.stack([wins, count]))
        items, wins, count = (rows[count > 0] for rows in (items, wins, count))  # less padding
    return replace(blocks[0], items=items, answer=wins / count, weight=count)
