import math

import pytest
import torch
from botorch.test_functions import synthetic as botorch_synthetic
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from hypothesis import given
from hypothesis import strategies as st
from torch.quasirandom import SobolEngine

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems import Ackley, SyntheticProblem
from botorch_pref.problems.synthetic import ACKLEY_BOX_RANGE, ACKLEY_FARTHEST


class TestAsBoTorchTestFunctions(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = (
        Ackley(),
        Ackley(dim=3, unit_cube=False),
        Ackley(dim=2, utility_scale=3.0),
        Ackley(negate=False),
        Ackley(dim=3, unit_cube=False, utility_scale=3.0, negate=False),
        SyntheticProblem(botorch_synthetic.Branin()),
        SyntheticProblem(botorch_synthetic.Branin(), unit_cube=False),
        SyntheticProblem(botorch_synthetic.Hartmann(dim=6)),
        SyntheticProblem(botorch_synthetic.Cosine8()),
        SyntheticProblem(botorch_synthetic.Levy(dim=4)),
    )


class TestGridsAsBoTorchTestProblems(BotorchTestCase, BaseTestProblemTestCaseMixIn):
    functions = (
        Ackley(num_choices=40),
        Ackley(num_choices=7, unit_cube=False, utility_scale=3.0),
        Ackley(num_choices=100, unit_cube=False, utility_scale=3.0, negate=False),
    )


@pytest.mark.parametrize("unit_cube", [True, False])
def test_ackley_grid_of_the_paper(unit_cube: bool) -> None:
    problem = Ackley(num_choices=40, unit_cube=unit_cube)
    assert problem.choices is not None
    assert problem.choices.shape == (40, 1)
    raw = 10.0 * problem.choices[:, 0] - 5.0 if unit_cube else problem.choices[:, 0]
    assert torch.allclose(raw.diff(), torch.tensor(10.0 / 39.0, dtype=torch.double))
    expected = 20.0 * (-0.2 * raw.abs()).exp() + (2.0 * math.pi * raw).cos().exp() - 20.0 - math.e
    assert torch.allclose(problem.utilities, expected, atol=1e-12)
    assert torch.equal(problem(problem.choices), problem.utilities)

    best = (problem.utilities == problem.optimal_value).nonzero().flatten()
    assert best.tolist() == [19, 20]  # tied to the last bit
    assert raw[best].tolist() == pytest.approx([-0.128205, 0.128205], abs=5e-7)
    assert problem.optimal_value == pytest.approx(-1.22543, abs=5e-6)
    assert problem.utilities.min().item() == pytest.approx(-14.1969, abs=5e-5)
    assert torch.equal(problem.utilities, problem.utilities.flip(0))


@pytest.mark.parametrize("unit_cube", [True, False])
def test_ackley_scale_on_the_grid(unit_cube: bool) -> None:
    plain = Ackley(num_choices=40, unit_cube=unit_cube)
    scaled = Ackley(num_choices=40, unit_cube=unit_cube, utility_scale=3.0)
    width = scaled.utilities.max() - scaled.utilities.min()
    assert width.item() == pytest.approx(3.0, rel=1e-12)
    ratio = scaled.utilities / plain.utilities
    assert torch.allclose(ratio, ratio[0].expand(40))
    X = torch.tensor([[0.3], [0.61]], dtype=torch.double)  # off the grid as well
    assert torch.allclose(scaled(X), ratio[0] * plain(X))


@given(
    st.integers(2, 5).flatmap(lambda dim: st.lists(st.floats(0.0, 1.0), min_size=dim, max_size=dim))
)
def test_ackley_range_is_the_same_in_every_dimension(point: list[float]) -> None:
    problem = Ackley(dim=len(point), utility_scale=1.0)
    value = problem(torch.tensor(point, dtype=torch.double)).item()
    assert -1.0 - 1e-12 <= value <= 1e-12
    worst = torch.full((len(point),), 0.5 + 0.4597534751, dtype=torch.double)
    assert problem(worst).item() == pytest.approx(-1.0, abs=1e-9)


def test_positive_ackley_of_the_paper() -> None:
    problem = Ackley(num_choices=100, unit_cube=False, utility_scale=3.0, negate=False)
    assert problem.choices is not None
    x = problem.choices[:, 0]
    assert torch.allclose(x, torch.linspace(-5.0, 5.0, 100, dtype=torch.double), atol=1e-14)
    raw = 20.0 + math.e - 20.0 * (-0.2 * x.abs()).exp() - (2.0 * math.pi * x).cos().exp()
    expected = 3.0 * raw / (raw.max() - raw.min())
    assert torch.allclose(problem.utilities, expected, atol=1e-12)
    difference = problem.utilities.max() - problem.utilities.min()
    assert difference.item() == pytest.approx(3.0, rel=1e-12)
    assert (2.0 + 2.0 * difference.cosh()).item() == pytest.approx(22.1354, abs=1e-4)  # kappa

    best = (problem.utilities == problem.optimal_value).nonzero().flatten()
    assert best.tolist() == [4, 95]  # tied to the last bit
    assert x[best].tolist() == pytest.approx([-4.59596, 4.59596], abs=1e-5)
    third = problem.utilities.sort(descending=True).values[2].item()
    assert problem.optimal_value - third == pytest.approx(0.020, abs=5e-4)


@pytest.mark.parametrize("num_choices", [40, 100, 101])
@pytest.mark.parametrize("unit_cube", [True, False])
def test_positive_ackley_is_the_negative(num_choices: int, unit_cube: bool) -> None:
    usual = Ackley(num_choices=num_choices, unit_cube=unit_cube)
    positive = Ackley(num_choices=num_choices, unit_cube=unit_cube, negate=False)
    assert torch.equal(positive.utilities, -usual.utilities)
    assert positive.optimal_value == -usual.utilities.min().item()
    assert positive.optimal_value <= Ackley(negate=False).optimal_value


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_positive_ackley_on_the_box(dim: int) -> None:
    for scale, expected in ((None, ACKLEY_BOX_RANGE), (3.0, 3.0)):
        problem = Ackley(dim=dim, unit_cube=False, utility_scale=scale, negate=False)
        assert problem.optimal_value == pytest.approx(expected, rel=1e-15)
        signs = torch.tensor([[1.0, -1.0, 1.0, 1.0, -1.0][:dim]], dtype=torch.double)
        assert problem(ACKLEY_FARTHEST * signs).item() == pytest.approx(expected, rel=1e-14)
        assert problem(torch.zeros(dim, dtype=torch.double)).item() == pytest.approx(0.0, abs=1e-14)
        assert problem.optimizers.abs().unique().tolist() == [ACKLEY_FARTHEST]


def test_positive_ackley_has_no_larger_value_in_any_dimension() -> None:
    # The function is concave and monotone in the means of x^2 and of cos(2 pi x), which are a
    # mixture of one coordinate's. So its tangent plane at the maximiser of one coordinate bounds
    # it in every dimension if it does so along the curve of one coordinate.
    s, c = ACKLEY_FARTHEST**2, math.cos(2.0 * math.pi * ACKLEY_FARTHEST)
    slope_s = 2.0 * math.exp(-0.2 * math.sqrt(s)) / math.sqrt(s)
    slope_c = -math.exp(c)
    x = torch.linspace(-5.0, 5.0, 1_000_001, dtype=torch.double)
    tangent = slope_s * (x.square() - s) + slope_c * ((2.0 * math.pi * x).cos() - c)
    assert tangent.max() <= 1e-12
    assert x[tangent.argmax()].abs().item() == pytest.approx(ACKLEY_FARTHEST, abs=1e-5)


def test_ackley_has_gradients() -> None:
    problem = Ackley(dim=2)
    X = torch.tensor([[0.3, 0.62], [0.9, 0.999]], dtype=torch.double)
    X.requires_grad_(True)
    assert torch.autograd.gradcheck(problem._evaluate_true, (X,))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dim": 0}, SearchSpaceError, "dim must be at least 1"),
        ({"num_choices": 1}, SearchSpaceError, "num_choices must be at least 2"),
        ({"dim": 2, "num_choices": 40}, UnsupportedError, "num_choices needs dim=1"),
        ({"utility_scale": 0.0}, SearchSpaceError, "utility_scale must be positive"),
    ],
)
def test_ackley_bad_options(
    options: dict[str, float], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Ackley(**options)


def test_synthetic_maps_the_unit_cube_and_maximises() -> None:
    function = botorch_synthetic.Branin()
    problem = SyntheticProblem(function)
    assert problem.name == "branin"
    assert problem.bounds.tolist() == [[0.0, 0.0], [1.0, 1.0]]
    X = SobolEngine(2, scramble=True, seed=0).draw(256, dtype=torch.double)
    raw = torch.tensor([-5.0, 0.0]) + X * 15.0
    assert torch.allclose(problem(X), -function(raw))
    assert problem.optimal_value == pytest.approx(-0.397887)
    assert problem(X).max() <= problem.optimal_value + 1e-6


@pytest.mark.parametrize("negate", [True, False])
@pytest.mark.parametrize("noise_std", [None, 10.0])
def test_synthetic_does_not_depend_on_sign_or_noise(negate: bool, noise_std: float | None) -> None:
    X = torch.rand(5, 8, dtype=torch.double)
    options = {"negate": negate, "noise_std": noise_std}
    for plain, function in (
        (botorch_synthetic.Cosine8(), botorch_synthetic.Cosine8(**options)),
        (botorch_synthetic.Levy(dim=8), botorch_synthetic.Levy(dim=8, **options)),
    ):
        expected, problem = SyntheticProblem(plain), SyntheticProblem(function)
        assert torch.equal(problem(X), expected(X))
        assert problem.optimal_value == expected.optimal_value


def test_synthetic_single_precision_input_leaves_the_problem_alone() -> None:
    problem = SyntheticProblem(botorch_synthetic.Michalewicz(dim=2))
    X = torch.tensor([[0.0, 1.0], [0.7, 0.5]])
    single = problem(X)
    assert single.dtype == torch.float
    double = problem(X.double())
    assert double.dtype == torch.double
    assert torch.equal(double.float(), single)


def test_synthetic_refuses_what_is_no_box_of_real_variables() -> None:
    with pytest.raises(UnsupportedError, match="ConstrainedGramacy has constraints"):
        SyntheticProblem(botorch_synthetic.ConstrainedGramacy())
    with pytest.raises(UnsupportedError, match="AckleyMixed has variables"):
        SyntheticProblem(botorch_synthetic.AckleyMixed(dim=11))
