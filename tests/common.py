"""What the tests on devices share, and those in a browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.queries import Duel, Evaluate, Query
from tests._reference.second_device import IS_THERE

PATIENCE = 60.0  # seconds
CPU = torch.device("cpu")
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)

emulated = pytest.mark.skipif(
    torch.cuda.is_available() or not IS_THERE, reason="there is a real device, or an old torch"
)


def until(found: Callable[[], Any]) -> Any:
    """What is found once it is there."""
    end = time.monotonic() + PATIENCE
    while not (value := found()):
        assert time.monotonic() < end, f"nothing after {PATIENCE} s"
        time.sleep(0.1)
    return value


def items_and_comparisons(n: int = 12, m: int = 30) -> tuple[Tensor, Tensor]:
    """Items and ``[winner, loser]`` rows of a judge that never errs."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n, 2, generator=generator, dtype=torch.float64)
    first = torch.randint(n, (m,), generator=generator)
    other = (first + torch.randint(1, n, (m,), generator=generator)) % n
    pairs = torch.stack([first, other], -1)
    better = X.sum(-1)[pairs].argmax(-1, keepdim=True)
    return X, torch.cat([pairs.gather(-1, better), pairs.gather(-1, 1 - better)], -1)


def same(found: Any, wanted: Any) -> None:
    """As near as double precision gets on two devices."""
    torch.testing.assert_close(found.detach().cpu(), wanted.detach(), rtol=1e-8, atol=1e-8)


def held(thing: Any, seen: list[Any] | None = None) -> Iterator[Tensor]:
    """Every tensor that can be reached through attributes, mappings and sequences."""
    seen = [] if seen is None else seen
    if isinstance(thing, type | FunctionType | str) or any(thing is one for one in seen):
        return
    seen.append(thing)
    if isinstance(thing, Tensor):
        yield thing
        return
    if isinstance(thing, list | tuple | set):
        parts: Any = thing
    else:
        parts = (thing if isinstance(thing, Mapping) else getattr(thing, "__dict__", {})).values()
    for part in [*parts]:
        yield from held(part, seen)


def utility(items: Tensor) -> Tensor:
    """Of items in a unit box, wherever they are; no two corners are equally good."""
    best = 0.3 + 0.05 * torch.arange(items.shape[-1])
    return -8.0 * (items.cpu() - best).square().sum(-1)


def answer(query: Query) -> float:
    """What a judge of that utility says."""
    values = utility(query.items)
    if isinstance(query, Duel):
        return float(values[0] > values[1])
    return float(values) if isinstance(query, Evaluate) else float(values > -1.0)
