r"""The number of threads of torch, and of what NumPy and SciPy compute with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits


@contextmanager
def num_threads(threads: int = 1) -> Iterator[None]:
    """Compute on so many threads inside the block, and on as many as before after it.

    NumPy and SciPy get one, as in BoTorch's searches: their matrices are small, and threads
    that wait for them spin. On one thread sums always have the same order.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(limits=1, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)
