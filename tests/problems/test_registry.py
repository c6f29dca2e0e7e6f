"""All problems as BoTorch's test functions, and by their names."""

import pytest
import torch
from botorch.test_functions import synthetic as botorch_synthetic
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import (
    Ackley,
    RKHSFunction,
    SyntheticProblem,
    ThermalComfort,
    get_problem,
    problem_names,
)


class TestBoxesAsBoTorchTestFunctions(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = (
        Ackley(),
        Ackley(dim=3, unit_cube=False),
        SyntheticProblem(botorch_synthetic.Branin(), unit_cube=False),
        *(get_problem(name) for name in ("branin", "hartmann6", "cosine8", "levy")),
        get_problem("electrolytestandin"),
        ThermalComfort(),
        ThermalComfort(4),
    )


class TestGridsAsBoTorchTestProblems(BotorchTestCase, BaseTestProblemTestCaseMixIn):
    functions = (
        Ackley(num_choices=40),
        Ackley(num_choices=7, unit_cube=False),
        RKHSFunction(),
        RKHSFunction(kernel="se"),
        RKHSFunction(kernel="matern15"),
    )


@pytest.mark.parametrize("name", problem_names())
def test_every_problem(name: str) -> None:
    problem = get_problem(name)
    assert problem.name == name
    if name not in ("thermalcomfort", "electrolytestandin"):  # which are in units of their own
        assert problem.bounds.tolist() == [[0.0] * problem.dim, [1.0] * problem.dim]
    if problem.choices is None:
        unit = torch.rand(2048, problem.dim, dtype=torch.double)
        values = problem(torch.lerp(*problem.bounds, unit))
        reached = problem(problem.optimizers)
        best = torch.full_like(reached, problem.optimal_value)
        assert torch.allclose(reached, best, atol=1e-4)
    else:
        values = problem.utilities
    assert values.isfinite().all()
    assert values.std() > 0
    assert values.max() <= problem.optimal_value


def test_options() -> None:
    assert get_problem("ackley", dim=2).dim == 2
    assert len(get_problem("catalyst", dedupe="mean").choices) == 60
    assert len(get_problem("rkhs", num_choices=12).utilities) == 12
    assert get_problem("six-Hump_camel").name == "sixhumpcamel"
    room = get_problem("thermal-comfort", dim=4)
    assert isinstance(room, ThermalComfort)
    assert room.dim == 4
    levy = get_problem("levy", dim=5)
    assert isinstance(levy, SyntheticProblem)
    assert levy.dim == 5


def test_unknown_name() -> None:
    with pytest.raises(UnsupportedError, match="unknown problem 'catalist'") as error:
        get_problem("catalist")
    assert all(name in str(error.value) for name in problem_names())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("catalyst", {"dim": 2}, "'catalyst' has no option 'dim'; its options are ded"),
        ("hartmann6", {"dim": 3}, "'hartmann6' has no option 'dim'; it has none"),
        ("branin", {"negate": True}, "'branin' has no option 'negate'; it has none"),
        ("levy", {"noise_std": 1.0}, "'levy' has no option 'noise_std'; its .* dim"),
    ],
)
def test_unknown_option(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        get_problem(name, **options)
