"""Values: what is stored, joined, and refused."""

from __future__ import annotations

import pytest
import torch
from botorch.exceptions.warnings import InputDataWarning
from torch import Size, Tensor

from botorch_pref.data import Values
from botorch_pref.exceptions import ComparisonDataError


def rand(*shape: int) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_batch_shapes_are_broadcast() -> None:
    values = Values(rand(4, 2), rand(3, 4, 1), rand(2, 1, 4, 1) + 1)
    assert values.batch_shape == Size([2, 3])
    assert values.num_values == 4
    assert values.items.shape == (2, 3, 4, 2)
    assert values.variances is not None
    assert values.variances.shape == (2, 3, 4, 1)
    assert Values(rand(4, 2), rand(4, 1)).expand(Size([5])).targets.shape == (5, 4, 1)


def test_gradients_of_items_alone_are_kept() -> None:
    X, Y = rand(4, 2).requires_grad_(), rand(4, 1).requires_grad_()
    values = Values(X, Y)
    assert values.items.requires_grad
    assert not values.targets.requires_grad


def test_appending() -> None:
    old, new = Values(rand(4, 2), rand(4, 1)), Values(rand(3, 1, 2), rand(3, 1, 1))
    both = old.append(new)
    assert both.batch_shape == Size([3])
    assert torch.equal(both.items, torch.cat([old.items.expand(3, 4, 2), new.items], dim=-2))
    assert torch.equal(both.targets, torch.cat([old.targets.expand(3, 4, 1), new.targets], dim=-2))
    known = Values(rand(4, 2), rand(4, 1), rand(4, 1) + 1)
    twice = known.append(known)
    assert twice.variances is not None
    assert twice.variances.shape == (8, 1)
    with pytest.raises(ComparisonDataError, match="`Yvar` was not given"):
        known.append(old)
    with pytest.raises(ComparisonDataError, match="`Yvar` is not"):
        old.append(known)
    with pytest.raises(ComparisonDataError, match="`X` must have shape"):
        old.append(Values(rand(4, 3), rand(4, 1)))


def test_bad_rows_are_named() -> None:
    X, Y = rand(2, 3, 2), rand(2, 3, 1)
    bad = Y.clone()
    bad[1, 2] = torch.inf
    with pytest.raises(ComparisonDataError, match=r"`Y` batch \(1,\) row 2 is \[inf\]"):
        Values(X, bad)
    with pytest.raises(ComparisonDataError, match=r"`Yvar` batch \(1,\) row 2 .*NaN or infinite"):
        Values(X, Y, bad)
    with pytest.raises(ComparisonDataError, match="a variance is positive"):
        Values(X, Y, 0 * Y)
    with pytest.raises(ComparisonDataError, match="`Y` must be a tensor"):
        Values(X, None)  # type: ignore[arg-type]
    with pytest.warns(InputDataWarning, match="double precision"):
        Values(X.float(), Y.float())
