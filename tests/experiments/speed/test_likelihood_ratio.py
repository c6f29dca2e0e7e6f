"""Bounds one after another: the same program, in the form that suits each solver."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from experiments.speed.likelihood_ratio import (
    Instance,
    batched,
    conic,
    instance,
    ipopt,
    likelihood_ratio_cases,
)

pytest.importorskip("cvxpy")


@pytest.fixture(scope="module")
def small() -> Instance:
    return instance(6, 2, 0.4, num_points=5)


def test_the_chain(small: Instance) -> None:
    program = small.confidence.program
    assert program.observations is not None
    (block,) = program.observations.blocks
    assert block.items.sort(dim=-1).values.tolist() == [[i, i + 1] for i in range(5)]
    assert (block.items[:, 0] > block.items[:, 1]).any()
    assert (block.items[:, 0] < block.items[:, 1]).any()
    torch.testing.assert_close(small.rows, program.observations.map.rows(program.root))
    assert small.confidence.slack == pytest.approx(5**0.5)
    # The advantage of the last item over itself is none.
    last = program.root[-1:] - program.root[-1]
    assert float(small.confidence.upper(last, torch.zeros(1, dtype=torch.double)).value) == 0.0
    assert small.g.shape == (5, program.root.shape[1])


def test_clarabel_solves_the_same_program(small: Instance) -> None:
    np.testing.assert_allclose(conic(small)(), batched(small)(), atol=1e-6)


def test_ipopt_solves_the_same_program(small: Instance) -> None:
    pytest.importorskip("casadi")
    np.testing.assert_allclose(ipopt(small)(), batched(small)(), atol=1e-6)


def test_the_cases(small: Instance) -> None:
    (case,) = likelihood_ratio_cases("likelihood-ratio", torch.device("cpu"), quick=True)
    assert [side.needs for side in case.others] == [("cvxpy", "clarabel"), ("casadi",)]
    assert not any(side.knows_devices for side in case.others)
    assert case.name == "30 items, d=2: 64 bounds in one batch"
    assert case.remark is not None
    bounds = batched(small)()
    assert case.remark([bounds, None, bounds - 2e-7]) == "bounds agree to 2e-07"
    cases = likelihood_ratio_cases("likelihood-ratio", torch.device("cpu"), quick=False)
    assert len(cases) == 2


def seconds(function: Callable[[], object], repeats: int) -> float:
    """The smallest of a few times."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize(
    ("other", "size", "factor", "tolerance"),
    [
        (conic, (30, 2, 0.3), 10, 1e-5),
        (conic, (100, 6, 1.0), 3, 1e-5),
        (ipopt, (30, 2, 0.3), 3, 1e-6),
        (ipopt, (100, 6, 1.0), 3, 1e-6),
    ],
)
def test_others_are_slower(
    other: Callable[[Instance], Callable[[], np.ndarray]],
    size: tuple[int, int, float],
    factor: float,
    tolerance: float,
) -> None:
    pytest.importorskip("casadi")
    data = instance(*size)
    assert data.confidence.upper(data.g, data.s).converged.all()
    ours, theirs = batched(data), other(data)
    np.testing.assert_allclose(theirs(), ours(), atol=tolerance)
    assert seconds(theirs, 3) >= factor * seconds(ours, 5)
