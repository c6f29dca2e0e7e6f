"""The state of the global generators, which nothing of the package may move."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch


def global_states() -> tuple[Any, ...]:
    """What torch, NumPy and Python would draw next; compared with ``==``."""
    numpy_state: Any = np.random.get_state()  # noqa: NPY002 (read, to be compared)
    numpy_state = (numpy_state[0], numpy_state[1].tolist(), *numpy_state[2:])
    return torch.get_rng_state().tolist(), numpy_state, random.getstate()
