r"""The number of threads of torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def num_threads(threads: int = 1) -> Iterator[None]:
    """Compute on so many threads inside the block, and on as many as before after it.

    On one thread sums always have the same order.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)
