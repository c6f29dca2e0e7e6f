r"""What answers say beyond those that a posterior knows, as observations of their own rows."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_pref.data.blocks import Block
from botorch_pref.inference.inducing import some_rows
from botorch_pref.inference.observations import Observations

_MOST_ROWS = 8  # beyond which a start near the mode gains nothing over a search anew


class News(NamedTuple):
    r"""Rows that say something new.

    Attributes:
        rows: ``k``-dim positions among all rows, ascending.
        observations: What is new there, of these rows' own ``k`` latent values.
    """

    rows: Tensor
    observations: Observations


def news_of(former: Observations, now: Observations, rows: Tensor) -> News | None:
    r"""What observations say beyond former ones; ``None`` if it is nothing or too much.

    Args:
        former: The observations before, without a batch.
        now: All observations.
        rows: Where the former rows are among all.
    """
    # Halves and whole numbers are exact.
    weight = now.weight.index_add(0, rows, -former.weight)
    wins = _wins(now).index_add(0, rows, -_wins(former))
    changed = weight.nonzero().squeeze(-1)
    if not 0 < len(changed) <= _MOST_ROWS:
        return None
    blocks, first = [], 0
    for block in some_rows(now, changed).blocks:
        last = first + block.weight.shape[-1]
        items = torch.arange(first, last, device=changed.device).unsqueeze(-1)
        gain = weight[changed[first:last]]
        answer = wins[changed[first:last]] / gain
        blocks.append(Block(items, (1.0,), answer, gain, block.likelihood))
        first = last
    return News(changed, Observations(blocks, len(changed)))


def _wins(observations: Observations) -> Tensor:
    return torch.cat([block.weight * block.answer for block in observations.blocks])
