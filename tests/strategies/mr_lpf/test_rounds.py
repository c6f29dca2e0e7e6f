"""Round sizes against the published table, in whole numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.strategies.mr_lpf import round_sizes

TABLE = {
    1: (1,),
    2: (2,),
    10: (4, 6),
    50: (8, 20, 22),
    100: (10, 32, 57, 1),
    200: (15, 55, 105, 25),
    300: (18, 74, 149, 59),
    500: (23, 108, 233, 136),
    1000: (32, 179, 424, 365),
    2000: (45, 300, 775, 880),
    10000: (100, 1000, 3163, 5625, 112),
}


@pytest.mark.parametrize("horizon", TABLE)
def test_table(horizon: int) -> None:
    assert round_sizes(horizon) == TABLE[horizon]


def test_sizes_add_up_to_the_horizon() -> None:
    for horizon in range(2, 2001):
        sizes = round_sizes(horizon)
        assert sum(sizes) == horizon
        assert min(sizes) >= 1
        bound = math.ceil(math.log2(math.log2(horizon))) + 1 if horizon > 2 else 1
        assert len(sizes) <= max(bound, 1)


def test_no_rounding_error_decides_a_size() -> None:
    horizon = (10**9 + 1) ** 2  # floats take its root for one less than it is
    assert round_sizes(horizon)[0] == 10**9 + 1
    assert round_sizes(horizon + 1)[0] == 10**9 + 2


def test_a_tiny_last_round_joins_the_one_before() -> None:
    assert round_sizes(100, merge_last=True) == (10, 32, 58)
    assert round_sizes(200, merge_last=True) == TABLE[200]
    assert round_sizes(1, merge_last=True) == (1,)


@pytest.mark.parametrize("horizon", [0, -3, 2.5, "7", None, True])
def test_bad_horizon(horizon: Any) -> None:
    with pytest.raises(ComparisonDataError, match="`horizon`"):
        round_sizes(horizon)
