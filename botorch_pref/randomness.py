r"""Seeds that follow from what is drawn, so that no generator state is ever stored.

Every draw takes its seed from ``(seed, stream, step, annotator)``. A study that is
resumed, or taken one step back, then draws what it drew before, and judges with one seed
draw the same numbers for every strategy.

What is promised: on one machine, on its CPU, with the same versions of all packages and the same
number of threads, the same seed and the same answers lead to the same queries, bit for bit. Draws
do not depend on threads. The last digits of sums may, since torch splits large ones between
threads, so that a search over a box can end at another item with another number of threads, on
another machine or on a GPU. Strategies compute on one thread up to 300 answers and 2,000 choices,
where more are no faster, and slow down what runs beside them. A
:class:`~botorch_pref.study.Study` saves a query before it is shown, and never computes it again.
"""

from __future__ import annotations

import hashlib
import json
import operator
import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

__all__ = ["SEED_BITS", "derive_seed", "derive_uniform", "seeded", "torch_threads"]

SEED_BITS = 63
"""How many bits a seed has."""


def derive_seed(seed: int, stream: str, step: int, annotator: str | None = None) -> int:
    """The seed of one draw in ``[0, 2**63)``: a hash of the arguments, the same on every machine.

    Args:
        seed: The seed of the whole run.
        stream: What is drawn: ``"pair"``, ``"tie"``, ``"label"``, ``"optimizer"``, ...
        step: The step it is drawn at.
        annotator: Whose draw it is, where there are several.

    Raises:
        TypeError: If ``seed`` or ``step`` is not a whole number.
    """
    parts = [operator.index(seed), stream, operator.index(step), annotator]
    digest = hashlib.sha256(json.dumps(parts).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)


def derive_uniform(seed: int, stream: str, step: int, annotator: str | None = None) -> float:
    """A uniform number in ``[0, 1)`` from the hash of :func:`derive_seed`, a multiple of 2**-53."""
    bits = derive_seed(seed, stream, step, annotator) >> (SEED_BITS - 53)
    return bits * 2.0**-53


@contextmanager
def torch_threads(number: int = 1) -> Iterator[None]:
    """Have torch compute on so many threads inside the block; sums on one have one order."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def seeded(seed: int, device: torch.device | None = None) -> Iterator[None]:
    r"""Run a block under seeded global generators, and restore them afterwards.

    BoTorch's optimizers draw from the global generators of torch, NumPy and Python. Inside the
    block all three start from ``seed``; after it, also when it raises, they are where they were.

    Args:
        seed: A seed in ``[0, 2**63)``, as :func:`derive_seed` returns.
        device: The CUDA device whose generator is seeded, too, once CUDA is in use; the current
            one by default.
    """
    # Asking for the current device would start CUDA in a process that never uses it.
    cuda = torch.cuda.is_available() and torch.cuda.is_initialized()
    index = None if device is None or device.type != "cuda" else device.index
    devices = [torch.cuda.current_device() if index is None else index] if cuda else []
    python_state = random.getstate()
    numpy_state = np.random.get_state()  # noqa: NPY002
    try:
        with torch.random.fork_rng(devices=devices):
            # torch.manual_seed would also reseed the devices that are not forked.
            torch.default_generator.manual_seed(seed)
            for each in devices:
                torch.cuda.default_generators[each].manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
