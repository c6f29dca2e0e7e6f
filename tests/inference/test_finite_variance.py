"""The table of answer-free variances against eq. (10), built from explicit matrices."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.finite import FiniteEngine, PairVarianceTable
from tests._reference import finite as reference
from tests._reference import kernels

NUM_ITEMS = 8
GRID = np.linspace(0.0, 1.0, NUM_ITEMS)[:, None]
KERNEL = kernels.gram("matern52", GRID, GRID, 0.2)
RIDGE = 0.05


def make_pairs(num: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    first = rng.integers(NUM_ITEMS, size=num)
    return np.stack([first, (first + rng.integers(1, NUM_ITEMS, size=num)) % NUM_ITEMS], axis=1)


def make_table(pairs: np.ndarray, ridge: float = RIDGE, kernel: np.ndarray = KERNEL) -> tuple:
    table = PairVarianceTable(torch.from_numpy(kernel), ridge)
    return table, [float(table.append(torch.from_numpy(pair))) for pair in pairs]


def direct(pairs: np.ndarray, ridge: float = RIDGE) -> np.ndarray:
    """Eq. (10) at all ordered pairs, ``n x n``."""
    table = reference.pair_covariance(KERNEL, pairs, ridge)
    return np.diag(table).reshape(NUM_ITEMS, NUM_ITEMS)


@pytest.mark.parametrize("num", [0, 1, 300])
def test_downdates_are_the_direct_formula(num: int) -> None:
    pairs = make_pairs(num)
    table, _ = make_table(pairs)
    np.testing.assert_allclose(table.variance.numpy(), direct(pairs), atol=1e-10)
    gain = reference.information_gain(KERNEL, pairs, RIDGE) if num else 0.0
    assert float(table.gain) == pytest.approx(gain, abs=1e-9)


def test_is_the_engine_of_kappa_in_other_units() -> None:
    pairs, penalty = make_pairs(30), 0.2
    engine = FiniteEngine(torch.from_numpy(KERNEL), penalty=penalty, kappa=RIDGE / penalty)
    for pair in pairs:
        engine.append(torch.from_numpy(pair), torch.tensor(1.0))
    table, _ = make_table(pairs)
    covariance = penalty * engine.posterior().covariance
    torch.testing.assert_close(table.covariance, covariance, atol=1e-10, rtol=0.0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), num=st.integers(1, 25))
def test_properties(seed: int, num: int) -> None:
    pairs = make_pairs(num, seed)
    table, before = make_table(pairs)
    rng = np.random.default_rng(seed)
    swap = rng.random(num) < 0.5
    other = np.where(swap[:, None], pairs[:, ::-1], pairs)[rng.permutation(num)].copy()
    shuffled, _ = make_table(other)
    torch.testing.assert_close(shuffled.covariance, table.covariance, atol=1e-10, rtol=0.0)
    assert float(shuffled.gain) == pytest.approx(float(table.gain), abs=1e-10)
    variance = table.variance.numpy()
    np.testing.assert_allclose(variance, variance.T, atol=1e-12)
    assert np.abs(np.diag(variance)).max() <= 1e-12
    earlier, _ = make_table(pairs[:-1])
    assert (variance <= earlier.variance.numpy() + 1e-10).all()
    assert before[-1] == pytest.approx(float(earlier.variance[tuple(pairs[-1])]), abs=1e-12)
    prior = PairVarianceTable(torch.from_numpy(KERNEL), RIDGE).variance.numpy()
    assert (variance <= prior + 1e-10).all()
    assert (variance <= make_table(pairs, 2 * RIDGE)[0].variance.numpy() + 1e-10).all()
    sd = np.sqrt(variance)
    assert (sd[:, None] <= sd[:, :, None] + sd.T[None] + 1e-6).all()


def test_an_identical_pair_changes_nothing() -> None:
    table, _ = make_table(make_pairs(5))
    covariance, gain = table.covariance, table.gain
    assert float(table.append(torch.tensor([3, 3]))) == 0.0
    assert torch.equal(table.covariance, covariance)
    assert torch.equal(table.gain, gain)


@pytest.mark.parametrize("kernel_batch", [(), (2, 1)])
def test_batch_equals_loop(kernel_batch: tuple[int, ...]) -> None:
    kernel = torch.from_numpy(KERNEL).expand(*kernel_batch, NUM_ITEMS, NUM_ITEMS)
    table = PairVarianceTable(kernel, RIDGE)
    pairs = torch.from_numpy(make_pairs(60)).view(10, 2, 3, 2)
    for step in pairs:
        assert table.append(step).shape == (2, 3)
    assert table.variance.shape == (2, 3, NUM_ITEMS, NUM_ITEMS)
    for i, j in np.ndindex(2, 3):
        alone, _ = make_table(pairs[:, i, j].numpy())
        torch.testing.assert_close(table.variance[i, j], alone.variance, atol=1e-12, rtol=0.0)
        torch.testing.assert_close(table.gain[i, j], alone.gain, atol=1e-12, rtol=0.0)


def greedy(table: PairVarianceTable, num: int) -> tuple[list[float], list[float]]:
    """The variances selected, and the largest one after each step."""
    selected, left = [], []
    for _ in range(num):
        best = int(table.variance.argmax())
        pair = torch.tensor(divmod(best, table.variance.shape[-1]))
        selected.append(float(table.append(pair)))
        left.append(float(table.variance.max()))
    return selected, left


def test_reference_values_of_greedy_rounds() -> None:
    grid = np.linspace(0.0, 1.0, 100)[:, None]
    gram: Tensor = torch.from_numpy(kernels.gram("rbf", grid, grid, 0.1))
    table = PairVarianceTable(gram, 0.05)
    selected, left = greedy(table, 300)
    for step, deviation in ((18, 0.21), (92, 0.085), (300, 0.048)):
        assert math.sqrt(left[step - 1]) == pytest.approx(deviation, rel=0.05)
    assert float(table.gain) == pytest.approx(35.7, rel=0.03)
    assert sum(selected) == pytest.approx(13.6, rel=0.05)
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(selected))
    assert all(b <= a + 1e-12 for a, b in zip(selected, left, strict=True))


@pytest.mark.parametrize("ridge", [0.0, -1.0, math.nan])
def test_bad_ridge(ridge: float) -> None:
    with pytest.raises(ComparisonDataError, match="`ridge`"):
        PairVarianceTable(torch.from_numpy(KERNEL), ridge)
