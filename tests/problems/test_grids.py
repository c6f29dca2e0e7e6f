import pytest
import torch

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems.grids import product_grid


def test_grid() -> None:
    grid = product_grid([(0.0, 2.0), (-1.0, 1.0)], 3)
    expected = [[x, y] for x in (0.0, 1.0, 2.0) for y in (-1.0, 0.0, 1.0)]
    assert grid.dtype == torch.double
    assert grid.tolist() == expected
    assert product_grid([(0.0, 1.0)], 2).tolist() == [[0.0], [1.0]]
    assert product_grid([(0.0, 1.0)] * 4, 5).unique(dim=0).shape == (625, 4)


def test_grid_too_small() -> None:
    with pytest.raises(SearchSpaceError, match="at least 2 points on a side, got 1"):
        product_grid([(0.0, 1.0)], 1)
