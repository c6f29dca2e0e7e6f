import math

import pytest
import torch
from botorch.test_functions import synthetic as botorch_synthetic
from torch.quasirandom import SobolEngine

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems import Ackley, SyntheticProblem


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


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dim": 0}, SearchSpaceError, "dim must be at least 1"),
        ({"num_choices": 1}, SearchSpaceError, "num_choices must be at least 2"),
        ({"dim": 2, "num_choices": 40}, UnsupportedError, "num_choices needs dim=1"),
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
