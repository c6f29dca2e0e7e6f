r"""What the allocator does with memory that is freed."""

from __future__ import annotations

from functools import cache

import torch

_LARGEST = 2**25 - 2**13  # bytes; glibc learns from no block above 32 MiB


@cache
def keep_pages() -> None:
    """Have glibc keep up to 64 MiB of what this process frees.

    Each evaluation of a loop needs the pages that the last one freed. By default they go back
    to the system in between, and a third of the time of a fit is spent on getting them. glibc keeps
    twice the largest block that it has seen freed, which is this one; nothing is written to it.
    """
    torch.empty(_LARGEST, dtype=torch.uint8)
