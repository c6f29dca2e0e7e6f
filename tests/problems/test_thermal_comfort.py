import math

import numpy as np
import pytest
import torch
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from scipy.optimize import brentq
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems import ThermalComfort
from botorch_pref.problems.thermal_comfort import predicted_dissatisfied, predicted_mean_vote
from tests.models.common import rand

# Air and radiant temperature, air speed, humidity, met, clo; predicted mean vote.
CHECKS = [
    (22.0, 22.0, 0.1, 60.0, 1.2, 0.5, -0.752),
    (27.0, 27.0, 0.1, 60.0, 1.2, 0.5, 0.765),
    (27.0, 27.0, 0.3, 60.0, 1.2, 0.5, 0.434),
    (23.5, 25.5, 0.1, 60.0, 1.2, 0.5, -0.013),
    (23.5, 25.5, 0.3, 60.0, 1.2, 0.5, -0.555),
    (19.0, 19.0, 0.1, 40.0, 1.2, 1.0, -0.598),
    (23.0, 21.0, 0.3, 40.0, 1.2, 1.0, -0.166),
    (22.0, 22.0, 0.1, 60.0, 1.6, 0.5, 0.047),
    (27.0, 27.0, 0.1, 60.0, 1.6, 0.5, 1.171),
    (27.0, 27.0, 0.3, 60.0, 1.6, 0.5, 0.951),
]


class TestAsBoTorchTestFunctions(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = (ThermalComfort(), ThermalComfort(4))


def reference_vote(ta: float, tr: float, v: float, rh: float, met: float, clo: float) -> float:
    """ISO 7730, the temperature of the clothes by Brent's method."""
    pressure = 10 * rh * math.exp(16.6536 - 4030.183 / (ta + 235))
    m, insulation = 58.15 * met, 0.155 * clo
    factor = 1 + 1.29 * insulation if insulation <= 0.078 else 1.05 + 0.645 * insulation

    def dry(t: float) -> float:
        coefficient = max(2.38 * abs(t - ta) ** 0.25, 12.1 * math.sqrt(v))
        radiation = 3.96e-8 * factor * ((t + 273) ** 4 - (tr + 273) ** 4)
        return radiation + factor * coefficient * (t - ta)

    t = brentq(lambda t: t - 35.7 + 0.028 * m + insulation * dry(t), -250, 250, xtol=1e-12)
    sweat = 0.42 * (m - 58.15) if m > 58.15 else 0.0
    load = m - 3.05e-3 * (5733 - 6.99 * m - pressure) - sweat
    load -= 1.7e-5 * m * (5867 - pressure) + 0.0014 * m * (34 - ta) + dry(t)
    return (0.303 * math.exp(-0.036 * m) + 0.028) * load


def rooms(n: int, seed: int = 0) -> Tensor:
    """``n x 6`` arguments, much wider than those of the problem."""
    lower = torch.tensor([-10.0, -10.0, 0.0, 0.0, 0.7, 0.0], dtype=torch.double)
    upper = torch.tensor([45.0, 60.0, 2.0, 100.0, 4.0, 2.5], dtype=torch.double)
    return torch.lerp(lower, upper, rand(n, 6, seed=seed))


@pytest.mark.parametrize("check", CHECKS)
def test_check_values(check: tuple[float, ...]) -> None:
    arguments = [torch.tensor(x, dtype=torch.double) for x in check[:-1]]
    assert predicted_mean_vote(*arguments).item() == pytest.approx(check[-1], abs=0.01)
    assert reference_vote(*check[:-1]) == pytest.approx(check[-1], abs=0.01)


def test_vote_is_that_of_the_converged_iteration() -> None:
    X = rooms(400)
    X[:50, 2] = 0.0  # natural convection alone
    X[50:60, 5] = 0.0  # no clothes
    expected = np.array([reference_vote(*row) for row in X.tolist()])
    assert np.allclose(predicted_mean_vote(*X.unbind(-1)).numpy(), expected, atol=1e-9)
    batch = predicted_mean_vote(*X.view(4, 100, 6).unbind(-1))
    assert torch.equal(batch.flatten(), predicted_mean_vote(*X.unbind(-1)))
    single = predicted_mean_vote(*X.float().unbind(-1))
    assert single.dtype == torch.float
    assert np.allclose(single.numpy(), expected, atol=2e-3)


def test_vote_has_gradients() -> None:
    X = rooms(60, seed=1)
    X[:, 2] += 0.01
    X.requires_grad_(True)
    assert torch.autograd.gradcheck(lambda X: predicted_mean_vote(*X.unbind(-1)), (X,))


def test_vote_has_gradients_where_clothes_are_as_warm_as_the_air() -> None:
    # Without insulation the clothes are at 35.7 - 0.028 M degrees.
    air = torch.tensor(35.7 - 0.028 * 58.15 * 1.2, dtype=torch.double, requires_grad=True)
    vote = predicted_mean_vote(air, 25.0, 0.1, 50.0, 1.2, 0.0)
    (gradient,) = torch.autograd.grad(vote, air)
    assert gradient.isfinite()
    step = 1e-5
    change = [reference_vote(air.item() + s, 25.0, 0.1, 50.0, 1.2, 0.0) for s in (-step, step)]
    assert gradient.item() == pytest.approx((change[1] - change[0]) / (2 * step), rel=1e-4)


def test_dissatisfied() -> None:
    votes = torch.tensor([0.0, 0.5, -0.5, 1.0, 2.0, 10.0], dtype=torch.double)
    expected = 100 - 95 * (-0.03353 * votes**4 - 0.2179 * votes**2).exp()
    assert torch.allclose(predicted_dissatisfied(votes), expected, rtol=1e-13)
    assert predicted_dissatisfied(votes)[0] == 5.0
    # Printed in the standard: 10 % at half a vote.
    assert predicted_dissatisfied(votes)[1].item() == pytest.approx(10.2, abs=0.05)


@pytest.mark.parametrize("dim", [2, 4])
def test_utility(dim: int) -> None:
    problem = ThermalComfort(dim)  # type: ignore[arg-type]
    names = ("air_temperature", "air_speed", "radiant_temperature", "humidity")
    assert problem.variables == names[:dim]
    lower, upper = problem.bounds
    assert lower.tolist() == [20.0, 0.05, 20.0, 30.0][:dim]
    assert upper.tolist() == [30.0, 1.0, 30.0, 70.0][:dim]
    X = torch.lerp(lower, upper, rand(100, dim))

    def dissatisfied(X: Tensor) -> np.ndarray:
        rows = [(*row, 25.0, 50.0)[:4] for row in X.tolist()] if dim == 2 else X.tolist()
        votes = np.array([reference_vote(a, r, v, h, 1.2, 0.5) for a, v, r, h in rows])
        return 100 - 95 * np.exp(-0.03353 * votes**4 - 0.2179 * votes**2)

    per_side = {2: 20, 4: 10}[dim]
    sides = [np.linspace(a, b, per_side) for a, b in problem.bounds.T.tolist()]
    grid = torch.as_tensor(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, dim))
    deviation = dissatisfied(grid).std()
    assert problem.standard_deviation == pytest.approx(deviation, rel=1e-9)
    assert np.allclose(problem(X).numpy(), -dissatisfied(X) / deviation, atol=1e-9)
    assert problem.optimal_value == pytest.approx(-5.0 / deviation, rel=1e-9)
    assert deviation == pytest.approx({2: 23.37, 4: 25.44}[dim], abs=0.005)


@pytest.mark.parametrize("dim", [2, 4])
def test_best_items_are_a_curve(dim: int) -> None:
    problem = ThermalComfort(dim)  # type: ignore[arg-type]
    assert torch.allclose(problem.vote(problem.optimizers), torch.zeros(3).double(), atol=1e-12)
    for speed in (0.07, 0.4, 0.9):
        best = brentq(lambda a, v=speed: reference_vote(a, 25.0, v, 50.0, 1.2, 0.5), 20, 30)
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
