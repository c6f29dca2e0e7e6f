"""Whitened coordinates: roots, inverses and the split of a function value."""

from __future__ import annotations

import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihood_ratio import whiten
from tests.inference.common import matern, rand


def test_root_and_inverse() -> None:
    X = rand(7, 2)
    K = matern(X)
    root, inverse = whiten(K)
    torch.testing.assert_close(root @ root.T, K, atol=1e-9, rtol=0)
    torch.testing.assert_close(inverse @ root, torch.eye(7, dtype=K.dtype), atol=1e-7, rtol=0)


def test_numerical_rank() -> None:
    factor = rand(9, 4)
    root, _ = whiten(factor @ factor.T)
    assert root.shape == (9, 4)
    torch.testing.assert_close(root @ root.T, factor @ factor.T, atol=1e-12, rtol=0)
    assert whiten(factor.new_zeros(0, 0)).root.shape == (0, 0)


def test_split_has_the_printed_norm() -> None:
    # The norm through values Z at the items and z at a point, by one solve of all of them.
    X, x = rand(6, 2), rand(1, 2, seed=7)
    both = torch.cat([X, x])
    K = matern(both)
    whitening = whiten(K[:6, :6])
    a, s = whitening.split(K[6, :6], K[6, 6])
    values = rand(7, seed=8)
    u = whitening.inverse @ values[:6]
    w = (values[6] - a @ u) / s
    expected = values @ torch.linalg.solve(K, values)
    torch.testing.assert_close(u.square().sum() + w.square(), expected, rtol=1e-8, atol=0)
    # At an item nothing is left over.
    at_item = whitening.split(K[0, :6], K[0, 0])
    torch.testing.assert_close(at_item[0], whitening.root[0], atol=1e-6, rtol=0)
    assert float(at_item[1]) <= 1e-5


def test_refuses_what_it_cannot_use() -> None:
    with pytest.raises(ComparisonDataError, match="n x n"):
        whiten(rand(3, 2))
    with pytest.raises(ComparisonDataError, match="finite"):
        whiten(torch.full((2, 2), torch.nan))
