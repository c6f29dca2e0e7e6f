import math

import pytest
import torch
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel
from sklearn.kernel_ridge import KernelRidge

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems import RKHSFunction
from botorch_pref.problems.rkhs import _ANCHOR_VALUES

KERNELS = {
    "matern25": lambda: MaternKernel(nu=2.5),
    "matern15": lambda: MaternKernel(nu=1.5),
    "se": RBFKernel,
}


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
    ridge = KernelRidge(alpha=0.05, kernel="precomputed").fit(gram, _ANCHOR_VALUES)
    expected = scale * torch.as_tensor(ridge.predict(cross))
    assert torch.allclose(problem.utilities, expected, atol=1e-6)
    assert torch.equal(problem(problem.choices), problem.utilities)
    X = torch.tensor([[0.07], [0.5], [0.93]], dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(problem._evaluate_true, (X,))


@pytest.mark.parametrize(
    ("name", "lowest", "highest", "best"),
    [
        ("se", -2.345, 4.866, 0.3535),
        ("matern25", -2.363, 4.843, 0.3434),
        ("matern15", -2.366, 4.818, 0.3434),
    ],
)
def test_rkhs_reference_values(name: str, lowest: float, highest: float, best: float) -> None:
    problem = RKHSFunction(kernel=name, num_choices=100)  # type: ignore[arg-type]
    assert problem.kernel == name
    assert problem.utilities.min().item() == pytest.approx(lowest, abs=6e-4)
    assert problem.optimal_value == pytest.approx(highest, abs=6e-4)
    argmax = problem.choices[problem.utilities.argmax()].item()
    assert argmax == pytest.approx(best, abs=6e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": math.nan}, "scale must be positive"),
        ({"num_choices": 1}, "num_choices must be at least 2"),
        ({"kernel": "rbf"}, "kernel must be one of matern25, matern15, se, got 'rbf'"),
    ],
)
def test_rkhs_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(SearchSpaceError, match=message):
        RKHSFunction(**options)  # type: ignore[arg-type]
