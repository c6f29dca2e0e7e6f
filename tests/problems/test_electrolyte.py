import math

import numpy as np
import torch

from botorch_pref.problems import ElectrolyteStandIn
from tests.models.common import rand


def casteel_amis(m: float, r: float, e: float) -> float:
    """The conductivity in mS/cm."""
    largest = 13 * math.exp(-3.5 * (e - 0.3 + 0.1 * (r - 0.7)) ** 2 - 0.5 * (r - 0.7) ** 2)
    mu = 1 + 0.4 * (e - 0.3) + 0.2 * (r - 0.7)
    a, b = 1.2 + 0.3 * e, -0.25 + 0.1 * e
    return largest * (m / mu) ** a * math.exp(b * (m - mu) ** 2 - a * (m - mu) / mu)


def items(number: int) -> torch.Tensor:
    return torch.lerp(*ElectrolyteStandIn().bounds, rand(number, 3))


def test_definition() -> None:
    problem, X = ElectrolyteStandIn(), items(200)
    expected = [casteel_amis(*x) for x in X.tolist()]
    assert np.allclose(problem(X), expected, rtol=1e-12)
    assert problem.bounds.tolist() == [[0.0] * 3, [2.0, 1.0, 1.0]]


def test_best_and_worst() -> None:
    problem = ElectrolyteStandIn()
    assert problem.optimizers.tolist() == [[1.0, 0.7, 0.3]]
    worst, best = problem.rho_range
    assert best == problem.optimal_value == 13.0
    dry = items(100) * torch.tensor([0.0, 1.0, 1.0])
    assert torch.allclose(problem(dry), torch.tensor(worst, dtype=torch.double), atol=1e-14)
    values = problem(items(20000))
    assert values.min() >= worst
    assert best - 0.3 < values.max() <= best
    assert not (problem(problem.optimizers + 1e-3 * torch.eye(3)) >= best).any()


def test_gradients() -> None:
    X = items(5).requires_grad_()
    assert torch.autograd.gradcheck(ElectrolyteStandIn()._evaluate_true, (X,))
    dry = torch.tensor([0.0, 0.5, 0.5], dtype=torch.double, requires_grad=True)
    ElectrolyteStandIn()(dry).backward()
    assert dry.grad is not None
    assert dry.grad.isfinite().all()
