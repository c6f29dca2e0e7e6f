import math

import gpytorch
import numpy as np
import pytest
import torch
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from gpytorch.kernels import RBFKernel
from scipy.optimize import minimize
from scipy.stats import chi2, kstest, norm, uniform

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.space import Maximum, SearchSpace
from experiments.problems import GPSample

FACTORS = {"paper": 1.0, "gpytorch": 0.5}


class TestAsBoTorchTestFunctions(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = (GPSample(), GPSample(7, convention="gpytorch"), GPSample(12))


class TestGridsAsBoTorchTestProblems(BotorchTestCase, BaseTestProblemTestCaseMixIn):
    functions = (GPSample(num_choices=30), GPSample(num_choices=11, bounds=(-1.0, 1.0)))


def kernel(a: np.ndarray, b: np.ndarray, factor: float, lengthscale: float) -> np.ndarray:
    distance = ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1)
    return 9.0 * np.exp(-factor * distance / lengthscale**2)


@pytest.mark.parametrize("convention", FACTORS)
@pytest.mark.parametrize(("dim", "lengthscale"), [(1, 1.0), (7, 13.2288), (12, 17.3205)])
def test_interpolant(dim: int, lengthscale: float, convention: str) -> None:
    choices = 2 if dim == 1 else None
    problem = GPSample(dim, num_choices=choices, seed=1, convention=convention)  # type: ignore[arg-type]
    assert problem.lengthscale == pytest.approx(lengthscale, abs=1e-4)
    assert (problem.variance, problem.knots.shape) == (9.0, (10, dim))
    assert problem.bounds.tolist() == [[0.0] * dim, [10.0] * dim]
    knots = problem.knots.numpy()
    gram = kernel(knots, knots, FACTORS[convention], problem.lengthscale)
    values = problem(problem.knots).numpy()
    weights = np.linalg.solve(gram, values)
    X = 10.0 * torch.rand(3, 20, dim, dtype=torch.double)
    flat = X.reshape(-1, dim).numpy()
    expected = kernel(flat, knots, FACTORS[convention], problem.lengthscale) @ weights
    assert np.allclose(problem(X).flatten().numpy(), expected, atol=1e-5)
    assert problem.norm == pytest.approx(math.sqrt(values @ weights), rel=1e-7)


@pytest.mark.parametrize("convention", FACTORS)
def test_lengthscale_of_gpytorch(convention: str) -> None:
    problem = GPSample(3, lengthscale=4.0, bounds=(-2.0, 6.0), convention=convention)  # type: ignore[arg-type]
    same = RBFKernel().double()
    same.lengthscale = problem.unit_lengthscale
    X = torch.rand(5, 3, dtype=torch.double)
    with torch.no_grad(), gpytorch.settings.lazily_evaluate_kernels(False):
        unit = (problem.knots + 2.0) / 8.0
        expected = 9.0 * same(X, unit).to_dense() @ problem.weights
    assert torch.allclose(problem(-2.0 + 8.0 * X), expected, atol=1e-6)


def test_distribution() -> None:
    samples = [GPSample(num_choices=2, seed=seed) for seed in range(300)]
    knots = torch.stack([sample.knots for sample in samples])
    assert kstest(knots.flatten().numpy(), uniform(0, 10).cdf).pvalue > 0.01
    white = []
    for sample in samples:
        gram = kernel(sample.knots.numpy(), sample.knots.numpy(), 1.0, 1.0)
        white.append(np.linalg.solve(np.linalg.cholesky(gram), sample(sample.knots).numpy()))
    assert kstest(np.concatenate(white), norm.cdf).pvalue > 0.01
    squares = [sample.norm**2 for sample in samples]
    assert kstest(squares, chi2(10).cdf).pvalue > 0.01
    # The norm is about 10 under the kernel of unit variance.
    unit = np.sqrt(9.0 * np.array(squares)).mean()
    assert unit == pytest.approx(9.25, abs=0.4)


def test_more_knots_than_rank() -> None:
    problem = GPSample(num_knots=200, num_choices=101)
    assert problem.utilities.isfinite().all()
    assert problem.utilities.std().item() == pytest.approx(3.0, abs=2.0)
    # As many degrees of freedom as there are eigenvalues, about 30 and not 200.
    assert 10.0 < problem.norm**2 < 70.0


def test_random_play() -> None:
    # The regret of a uniform choice was once measured on 12 other instances: 4.14 a step.
    regrets = [
        problem.optimal_value - float(problem.utilities.mean())
        for problem in (GPSample(num_choices=101, seed=seed) for seed in range(200))
    ]
    standard_error = np.std(regrets) * math.sqrt(1 / 12 + 1 / 200)
    assert abs(np.mean(regrets) - 4.14) < 2.5 * standard_error


def highest(problem: GPSample, starts: int, seed: int) -> float:
    """The largest value that SciPy finds, from random starts and from none of the knots."""
    knots, weights = problem.knots.numpy(), problem.weights.numpy()
    factor = FACTORS[problem.convention] / problem.lengthscale**2

    def negative(x: np.ndarray) -> tuple[float, np.ndarray]:
        parts = weights * 9.0 * np.exp(-factor * ((x - knots) ** 2).sum(-1))
        return -parts.sum(), 2.0 * factor * parts @ (x - knots)

    generator = np.random.default_rng(seed)
    ends = [
        minimize(negative, x, jac=True, method="L-BFGS-B", bounds=[(0, 10)] * problem.dim).fun
        for x in generator.uniform(0, 10, size=(starts, problem.dim))
    ]
    return -min(ends)


@pytest.mark.parametrize("dim", [1, 7, 12])
def test_maximum_of_the_box(dim: int) -> None:
    for seed in range(3):
        problem = GPSample(dim, seed=seed)
        assert problem.optimal_value == pytest.approx(highest(problem, 100, seed), abs=1e-6)
        reached = problem(problem.optimizers)
        assert reached.tolist() == pytest.approx([problem.optimal_value], abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("convention", FACTORS)
@pytest.mark.parametrize(("dim", "instances"), [(1, 30), (7, 20), (12, 10)])
def test_maximum_of_all_instances(dim: int, instances: int, convention: str) -> None:
    for seed in range(instances):
        problem = GPSample(dim, seed=seed, convention=convention)  # type: ignore[arg-type]
        assert problem.optimal_value == pytest.approx(highest(problem, 500, seed), abs=1e-6)


def test_maximum_that_searches_disagree_about(monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter(range(100))

    def disagree(self: SearchSpace, rule: object, **options: object) -> Maximum:
        return Maximum(torch.zeros(1, 1), torch.tensor(float(next(values))), None)

    monkeypatch.setattr(SearchSpace, "maximize", disagree)
    problem = GPSample()
    assert next(values) == 20
    with pytest.raises(NotImplementedError, match="optimal value"):
        _ = problem.optimal_value
    assert GPSample(num_choices=5).optimal_value < 100.0


def test_maximum_needs_three_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([1.0, 1.0, 2.0, 2.0 - 1e-6, 1.0, 2.0 + 1e-7, 3.0])

    def some(self: SearchSpace, rule: object, **options: object) -> Maximum:
        return Maximum(torch.zeros(1, 1), torch.tensor(next(values), dtype=torch.double), None)

    monkeypatch.setattr(SearchSpace, "maximize", some)
    assert GPSample().optimal_value == 2.0 + 1e-7
    assert next(values) == 3.0


def test_seeds() -> None:
    state = torch.get_rng_state()
    first, same, other = GPSample(7, seed=3), GPSample(7, seed=3), GPSample(7, seed=4)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.knots, same.knots)
    assert torch.equal(first.weights, same.weights)
    assert first.optimal_value == same.optimal_value
    assert not torch.allclose(first.knots, other.knots)


def test_choices() -> None:
    problem = GPSample(num_choices=101, seed=2)
    assert problem.choices is not None
    assert torch.allclose(problem.choices[:, 0], torch.linspace(0, 10, 101, dtype=torch.double))
    assert problem.optimal_value == problem.utilities.max().item()
    whole = GPSample(seed=2)
    assert torch.equal(problem.utilities, whole(problem.choices))
    assert problem.optimal_value <= whole.optimal_value


def test_gradients() -> None:
    X = (10.0 * torch.rand(4, 7, dtype=torch.double)).requires_grad_(True)
    assert torch.autograd.gradcheck(GPSample(7)._evaluate_true, (X,))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dim": 0}, SearchSpaceError, "dim must be at least 1, got 0"),
        ({"num_knots": 0}, SearchSpaceError, "num_knots must be at least 1, got 0"),
        ({"lengthscale": 0.0}, SearchSpaceError, "lengthscale must be positive"),
        ({"variance": math.inf}, SearchSpaceError, "variance must be positive and finite"),
        ({"bounds": (1.0, 1.0)}, SearchSpaceError, "bounds must be two numbers in ascending"),
        ({"bounds": (0.0, math.nan)}, SearchSpaceError, "bounds must be two numbers"),
        ({"num_choices": 1}, SearchSpaceError, "num_choices must be at least 2"),
        ({"dim": 2, "num_choices": 9}, UnsupportedError, "num_choices needs dim=1, got dim=2"),
        ({"convention": "gpy"}, SearchSpaceError, "convention must be one of paper, gpytorch"),
    ],
)
def test_bad_options(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        GPSample(**options)  # type: ignore[arg-type]
