import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from scipy.optimize import minimize

from botorch_pref.exceptions import SearchSpaceError
from experiments.problems import EXPERT_BENCHMARKS, ExpertBenchmark

PI = np.pi


class Reference(NamedTuple):
    cost: Callable[[Any], Any]  # of n x d
    box: tuple[float, float]
    dim: int
    smallest: float
    largest: float
    authors_largest: float
    best: list[float]  # to the digits of the paper


def ackley(x: Any) -> Any:
    root = np.sqrt((x**2).mean(-1))
    return -20 * np.exp(-0.2 * root) - np.exp(np.cos(2 * PI * x).mean(-1)) + 20 + np.e


def holder(x: Any) -> Any:
    power = np.abs(1 - np.sqrt((x**2).sum(-1)) / PI)
    return -np.abs(np.sin(x[..., 0]) * np.cos(x[..., 1]) * np.exp(power))


def rastrigin(x: Any) -> Any:
    return 10 * x.shape[-1] + (x**2 - 10 * np.cos(2 * PI * x)).sum(-1)


def michalewicz(x: Any) -> Any:
    return -(np.sin(x) * np.sin(np.arange(1, 6) * x**2 / PI) ** 20).sum(-1)


def rosenbrock(x: Any) -> Any:
    head, tail = x[..., :-1], x[..., 1:]
    return (100 * (tail - head**2) ** 2 + (head - 1) ** 2).sum(-1)


REFERENCES = {
    "ackley4": Reference(ackley, (-1.0, 1.0), 4, 0.0, 4.7056, 3.62538, [0.0] * 4),
    "holder2": Reference(holder, (0.0, 10.0), 2, -19.2085, 0.0, 0.0, [8.05502, 9.66459]),
    "rastrigin2": Reference(rastrigin, (-5.12, 5.12), 2, 0.0, 80.7066, 80.0, [0.0] * 2),
    "michalewicz5": Reference(
        michalewicz,
        (0.0, PI),
        5,
        -4.687658,
        0.0,
        0.0,
        [2.20291, 1.57080, 1.28499, 1.92306, 1.72047],
    ),
    "rosenbrock3": Reference(rosenbrock, (-5.0, 10.0), 3, 0.0, 1.912662e6, 1.5e4, [1.0] * 3),
}


class TestAsBoTorchTestFunctions(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = (
        *(ExpertBenchmark(which) for which in EXPERT_BENCHMARKS),
        *(ExpertBenchmark(which, "authors", unit_cube=False) for which in EXPERT_BENCHMARKS),
    )


def test_names() -> None:
    assert tuple(REFERENCES) == EXPERT_BENCHMARKS


def uniform(reference: Reference, number: int) -> Any:
    cube = np.random.default_rng(0).uniform(size=(number, reference.dim))
    lower, upper = reference.box
    return lower + (upper - lower) * cube


@pytest.mark.parametrize("which", REFERENCES)
def test_definition(which: str) -> None:
    reference = REFERENCES[which]
    own, unit = ExpertBenchmark(which, unit_cube=False), ExpertBenchmark(which)
    lower, upper = reference.box
    assert own.bounds.tolist() == [[lower] * reference.dim, [upper] * reference.dim]
    assert unit.bounds.tolist() == [[0.0] * reference.dim, [1.0] * reference.dim]
    x = uniform(reference, 500)
    expected = -reference.cost(x)
    assert np.allclose(own(torch.tensor(x)).numpy(), expected, rtol=1e-12, atol=1e-12)
    cube = torch.tensor((x - lower) / (upper - lower))
    assert np.allclose(unit(cube).numpy(), expected, rtol=1e-9, atol=1e-9)


def polished(cost: Callable[[Any], Any], reference: Reference) -> Iterator[float]:
    """The least values from good starts: dense lines along each coordinate, then L-BFGS."""
    x = uniform(reference, 2000)
    corners = np.stack(np.meshgrid(*[reference.box] * reference.dim), -1)
    line = np.linspace(*reference.box, 1001)
    for start in [*x[np.argsort(cost(x))[:10]], *corners.reshape(-1, reference.dim)]:
        for _ in range(2):
            for i in range(reference.dim):
                along = np.repeat(start[None], len(line), axis=0)
                along[:, i] = line
                start = along[cost(along).argmin()]
        box = [reference.box] * reference.dim
        yield float(minimize(cost, start, bounds=box, tol=1e-13, method="L-BFGS-B").fun)


@pytest.mark.parametrize("which", REFERENCES)
def test_smallest_and_largest_utility(which: str) -> None:
    reference = REFERENCES[which]
    problem = ExpertBenchmark(which)
    low, high = problem.ranges["true"]
    assert high == problem.optimal_value
    # What the paper and the table have, to their digits.
    assert -high == pytest.approx(reference.smallest, abs=1e-4)
    assert -low == pytest.approx(reference.largest, abs=1e-4)
    search = min(polished(reference.cost, reference))
    assert -high == pytest.approx(search, abs=1e-4)
    search = min(polished(lambda x: -reference.cost(x), reference))
    assert low == pytest.approx(search, abs=1e-4)


@pytest.mark.parametrize("which", REFERENCES)
def test_optimum(which: str) -> None:
    reference = REFERENCES[which]
    problem = ExpertBenchmark(which, unit_cube=False)
    assert problem.optimizers.shape == (1, reference.dim)
    assert np.allclose(problem.optimizers[0], reference.best, atol=1e-5)
    reached = float(problem(problem.optimizers))
    assert reached == pytest.approx(problem.optimal_value, abs=4e-15)
    assert math.copysign(1.0, problem.optimal_value) == 1.0


@pytest.mark.parametrize("which", REFERENCES)
def test_ranges(which: str) -> None:
    reference = REFERENCES[which]
    problem = ExpertBenchmark(which)
    assert problem.rho_range == problem.ranges["true"]
    authors = ExpertBenchmark(which, rho_range="authors").rho_range
    assert authors == problem.ranges["authors"]
    assert authors == (-reference.authors_largest, problem.optimal_value)
    assert ExpertBenchmark(which, rho_range=(-100, 2.5)).rho_range == (-100.0, 2.5)


def test_the_authors_range_of_ackley_ends_at_a_corner() -> None:
    problem = ExpertBenchmark("ackley4")
    corner = float(problem(torch.ones(4, dtype=torch.double)))
    assert problem.ranges["authors"][0] == pytest.approx(corner, abs=5e-6)


def test_spelling() -> None:
    assert ExpertBenchmark("Ackley-4").name == "expertackley4"
    assert ExpertBenchmark("Michalewicz_5").name == "expertmichalewicz5"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"which": "ackley"}, "which must be one of ackley4, .*rosenbrock3, got 'ackley'"),
        ({"rho_range": "paper"}, "rho_range must be 'true', 'authors', or .*got 'paper'"),
        ({"rho_range": (0.0, -4.7)}, "rho_range must be a lower and a higher finite number"),
        ({"rho_range": (0.0, 0.0)}, "rho_range must be a lower and a higher finite number"),
        ({"rho_range": (-float("inf"), 0.0)}, "rho_range must be a lower and a higher finite"),
        ({"rho_range": (-1.0, 0.0, 1.0)}, "rho_range must be a lower and a higher finite"),
        ({"rho_range": 3.0}, "rho_range must be a lower and a higher finite number"),
        ({"rho_range": (0.0, 4.7)}, "rho_range must start below the largest utility, 0, got"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SearchSpaceError, match=message):
        ExpertBenchmark(**options)
