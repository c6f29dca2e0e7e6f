import math

import pytest
import torch
from botorch.utils.testing import BaseTestProblemTestCaseMixIn, BotorchTestCase
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from sklearn.kernel_ridge import KernelRidge

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems import RKHSFunction
from botorch_pref.problems.rkhs import ANCHOR_VALUES

KERNELS = {
    "matern25": lambda: MaternKernel(nu=2.5),
    "matern15": lambda: MaternKernel(nu=1.5),
    "se": RBFKernel,
}


class TestAsBoTorchTestProblems(BotorchTestCase, BaseTestProblemTestCaseMixIn):
    functions = (RKHSFunction(), RKHSFunction(kernel="se"), RKHSFunction(kernel="matern15"))


@pytest.mark.parametrize("scale", [1.0, 5.0])
@pytest.mark.parametrize("name", KERNELS)
def test_rkhs_is_kernel_ridge_regression(name: str, scale: float) -> None:
    problem = RKHSFunction(scale=scale, kernel=name)  # type: ignore[arg-type]
    assert problem.choices is not None
    grid = torch.linspace(0.0, 1.0, 30, dtype=torch.double).unsqueeze(-1)
    assert torch.allclose(problem.choices, grid, rtol=0.0, atol=1e-15)
    kernel: Kernel = KERNELS[name]().double()
    kernel.lengthscale = 0.1
    anchors = torch.linspace(0.0, 1.0, 10, dtype=torch.double).unsqueeze(-1)
    with torch.no_grad():
        gram = kernel(anchors).to_dense().numpy()
        cross = kernel(grid, anchors).to_dense().numpy()
    ridge = KernelRidge(alpha=0.05, kernel="precomputed").fit(gram, ANCHOR_VALUES)
    expected = scale * torch.as_tensor(ridge.predict(cross))
    assert torch.allclose(problem.utilities, expected, atol=1e-6)
    assert torch.equal(problem(problem.choices), problem.utilities)


@pytest.mark.parametrize(
    ("name", "lowest", "highest", "best", "norm"),
    [
        ("se", -2.345, 4.866, 0.3535, 7.29),
        ("matern25", -2.363, 4.843, 0.3434, 7.42),
        ("matern15", -2.366, 4.818, 0.3434, 7.50),
    ],
)
def test_rkhs_reference_values(
    name: str, lowest: float, highest: float, best: float, norm: float
) -> None:
    problem = RKHSFunction(kernel=name, num_choices=100)  # type: ignore[arg-type]
    assert problem.kernel == name
    assert problem.utilities.min().item() == pytest.approx(lowest, abs=6e-4)
    assert problem.optimal_value == pytest.approx(highest, abs=6e-4)
    argmax = problem.choices[problem.utilities.argmax()].item()
    assert argmax == pytest.approx(best, abs=6e-5)
    assert problem.norm == pytest.approx(norm, abs=6e-3)
    unscaled = RKHSFunction(kernel=name, scale=1.0)
    assert unscaled.norm == pytest.approx(problem.norm / 5.0, rel=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_rkhs_has_gradients(name: str) -> None:
    problem = RKHSFunction(kernel=name)  # type: ignore[arg-type]
    X = torch.tensor([[0.07], [0.5], [0.93]], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(problem._evaluate_true, (X,))


def test_rkhs_values() -> None:
    fixed = RKHSFunction()
    same = RKHSFunction(values=list(ANCHOR_VALUES))
    assert torch.equal(fixed.utilities, same.utilities)
    flat = RKHSFunction(values=[0.0, 0.0, 0.0], num_anchors=3)
    assert torch.equal(flat.utilities, torch.zeros(30, dtype=torch.double))
    # Without a ridge the function passes through its values.
    exact = RKHSFunction(ridge=1e-12, scale=1.0)
    reached = exact(torch.linspace(0.0, 1.0, 10, dtype=torch.double).unsqueeze(-1))
    values = torch.tensor(ANCHOR_VALUES, dtype=torch.double)
    assert torch.allclose(reached, values, atol=1e-9)


def test_rkhs_random_values() -> None:
    state = torch.get_rng_state()
    first = RKHSFunction(values="random", seed=3)
    assert torch.equal(first.utilities, RKHSFunction(values="random", seed=3).utilities)
    other = RKHSFunction(values="random", seed=4)
    assert not torch.allclose(first.utilities, other.utilities)
    assert torch.equal(torch.get_rng_state(), state)
    exact = RKHSFunction(values="random", ridge=1e-12, scale=1.0, num_anchors=50)
    reached = exact(exact.anchors)
    assert reached.min() >= -0.5 - 1e-6
    assert reached.max() <= 1.0 + 1e-6
    assert reached.max() - reached.min() > 1.2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lengthscale": 0.0}, "lengthscale must be positive"),
        ({"ridge": -1.0}, "ridge must be positive"),
        ({"scale": math.nan}, "scale must be positive"),
        ({"num_choices": 1}, "num_choices must be at least 2"),
        ({"num_anchors": 9}, "values must be 9 finite numbers"),
        ({"values": [math.nan] * 10}, "values must be 10 finite numbers"),
        ({"kernel": "rbf"}, "kernel must be one of matern25, matern15, se, got 'rbf'"),
        ({"values": "fixed"}, "values must be numbers, 'random' or None, got 'fixed'"),
    ],
)
def test_rkhs_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(SearchSpaceError, match=message):
        RKHSFunction(**options)  # type: ignore[arg-type]
