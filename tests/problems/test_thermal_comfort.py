"""Thermal comfort against ISO 7730, its printed values and Brent's method."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems import ThermalComfort
from botorch_pref.problems.thermal_comfort import predicted_mean_vote
from tests.models.common import rand


def reference_vote(ta: float, v: float, tr: float = 25.0, rh: float = 50.0) -> float:
    """ISO 7730 at 1.2 met and 0.5 clo, the temperature of the clothes by Brent's method."""
    pressure = 10 * rh * math.exp(16.6536 - 4030.183 / (ta + 235))
    m, insulation = 58.15 * 1.2, 0.155 * 0.5
    factor = 1 + 1.29 * insulation

    def dry(t: float) -> float:
        coefficient = max(2.38 * abs(t - ta) ** 0.25, 12.1 * math.sqrt(v))
        radiation = 3.96e-8 * factor * ((t + 273) ** 4 - (tr + 273) ** 4)
        return radiation + factor * coefficient * (t - ta)

    t = brentq(lambda t: t - 35.7 + 0.028 * m + insulation * dry(t), -250, 250, xtol=1e-12)
    load = m - 3.05e-3 * (5733 - 6.99 * m - pressure) - 0.42 * (m - 58.15)
    load -= 1.7e-5 * m * (5867 - pressure) + 0.0014 * m * (34 - ta) + dry(t)
    return (0.303 * math.exp(-0.036 * m) + 0.028) * load


def dissatisfied(X: Tensor) -> np.ndarray:
    votes = np.array([reference_vote(*row) for row in X.tolist()])
    return 100 - 95 * np.exp(-0.03353 * votes**4 - 0.2179 * votes**2)


# Air temperature, air speed, radiant temperature and humidity; the vote that the standard prints.
@pytest.mark.parametrize(
    ("room", "expected"),
    [
        ((22.0, 0.1, 22.0, 60.0), -0.752),
        ((27.0, 0.1, 27.0, 60.0), 0.765),
        ((27.0, 0.3, 27.0, 60.0), 0.434),
        ((23.5, 0.1, 25.5, 60.0), -0.013),
        ((23.5, 0.3, 25.5, 60.0), -0.555),
    ],
)
def test_printed_votes(room: tuple[float, ...], expected: float) -> None:
    vote = predicted_mean_vote(torch.tensor(room, dtype=torch.double))
    assert vote.item() == pytest.approx(expected, abs=0.01)
    assert reference_vote(*room) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("dim", [2, 4])
def test_utility(dim: int) -> None:
    problem = ThermalComfort(dim)  # type: ignore[arg-type]
    lower, upper = problem.bounds
    assert lower.tolist() == [20.0, 0.05, 20.0, 30.0][:dim]
    assert upper.tolist() == [30.0, 1.0, 30.0, 70.0][:dim]
    X = torch.lerp(lower, upper, rand(100, dim))
    X = torch.cat([X, torch.cartesian_prod(*problem.bounds.T)])
    per_side = {2: 20, 4: 10}[dim]
    sides = [np.linspace(a, b, per_side) for a, b in problem.bounds.T.tolist()]
    grid = torch.as_tensor(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, dim))
    deviation = dissatisfied(grid).std()
    np.testing.assert_allclose(problem(X), -dissatisfied(X) / deviation, atol=1e-9)
    single = problem(X.float())
    assert single.dtype == torch.float
    np.testing.assert_allclose(single, problem(X), atol=2e-3)
    assert problem.optimal_value == pytest.approx(-5.0 / deviation, rel=1e-9)
    assert deviation == pytest.approx({2: 23.37, 4: 25.44}[dim], abs=0.005)


@pytest.mark.parametrize("dim", [2, 4])
def test_best_items_are_a_curve(dim: int) -> None:
    problem, zero = ThermalComfort(dim), torch.zeros(3).double()  # type: ignore[arg-type]
    assert torch.allclose(predicted_mean_vote(problem.optimizers), zero, atol=1e-12)
    for speed in (0.07, 0.4, 0.9):
        best = brentq(lambda a, v=speed: reference_vote(a, v), 20, 30)
        item = torch.tensor([best, speed, 25.0, 50.0][:dim], dtype=torch.double)
        assert problem(item).item() == pytest.approx(problem.optimal_value, abs=1e-12)
        assert problem(item).item() <= problem.optimal_value


def test_utility_has_gradients() -> None:
    problem = ThermalComfort(4)
    X = torch.lerp(*problem.bounds, rand(20, 4, seed=2)).requires_grad_(True)
    assert torch.autograd.gradcheck(problem._evaluate_true, (X,))


def test_bad_dimension() -> None:
    with pytest.raises(SearchSpaceError, match="dim must be 2 or 4, got 3"):
        ThermalComfort(3)  # type: ignore[arg-type]
