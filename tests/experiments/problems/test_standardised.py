import math

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
from experiments.problems import STANDARDISED_FUNCTIONS, StandardisedFunction
from tests._reference.table2 import TABLE2

RECIPES = ("text", "toolbox")
# Standard deviation on the grid, how far the grid's maximum is short of the true one, and
# the mean suboptimality of a uniform grid point; the last two over the standard deviation.
TABLE = {
    "beale": (29305, 0.000, 0.43),
    "branin": (56.35, 0.004, 1.02),
    "bukin": (49.77, 0.275, 2.53),
    "crossintray": (0.1734, 0.064, 2.92),
    "eggholder": (314.1, 0.000, 3.04),
    "holdertable": (3.610, 0.390, 4.51),
    "levy13": (67.74, 0.021, 1.60),
}
SETTINGS = {  # of the toolbox: norm bound, beta0, lengthscale over the sides
    "beale": (6.0, 1.0, [0.5, 0.5]),
    "branin": (10.0, 10.0, [10 / 15, 10 / 15]),
    "bukin": (4.0, 3.0, [1 / 10, 1 / 6]),
    "crossintray": (6.0, 1.0, [0.5, 0.5]),
    "eggholder": (3.0, 0.5, [80 / 1024, 80 / 1024]),
    "holdertable": (6.0, 1.0, [0.1, 0.1]),
    "levy13": (6.0, 1.0, [0.1, 0.1]),
}


class TestAsBoTorchTestFunctions(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = (
        *(StandardisedFunction(which) for which in STANDARDISED_FUNCTIONS),
        *(
            StandardisedFunction(which, "toolbox", unit_cube=False)
            for which in STANDARDISED_FUNCTIONS
        ),
    )


class TestGridsAsBoTorchTestProblems(BotorchTestCase, BaseTestProblemTestCaseMixIn):
    functions = (
        StandardisedFunction("bukin", choices_per_side=5),
        StandardisedFunction("bukin", unit_cube=False, choices_per_side=5),
    )


def test_names() -> None:
    assert tuple(TABLE) == STANDARDISED_FUNCTIONS


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("which", TABLE)
def test_reference_values(which: str, recipe: str) -> None:
    deviation, short, random = TABLE[which]
    problem = StandardisedFunction(which, recipe)
    digits = 0.5 if which == "beale" else 10.0 ** (math.floor(math.log10(deviation)) - 3)
    assert problem.standard_deviation == pytest.approx(deviation, abs=digits)
    assert problem.optimal_value - problem.grid_maximum == pytest.approx(short, abs=6e-4)
    grid = StandardisedFunction(which, recipe, choices_per_side=20)
    assert grid.optimal_value == pytest.approx(problem.grid_maximum, abs=1e-9)
    mean = problem.optimal_value - float(grid.utilities.mean())
    assert mean == pytest.approx(random, abs=6e-3)
    assert float(grid.utilities.std(correction=0)) == pytest.approx(1.0, abs=1e-9)
    assert problem.name == f"standardised{which}"


@pytest.mark.parametrize("unit_cube", [True, False])
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("which", TABLE)
def test_definition(which: str, recipe: str, unit_cube: bool) -> None:
    reference = TABLE2[which]
    problem = StandardisedFunction(which, recipe, unit_cube=unit_cube)
    shrinkage = 1e-6 if recipe == "toolbox" else 0.0
    ax, bx, ay, by = (
        edge + sign * shrinkage for edge, sign in zip(reference.box, (1, -1, 1, -1), strict=True)
    )
    expected_bounds = [[0.0, 0.0], [1.0, 1.0]] if unit_cube else [[ax, ay], [bx, by]]
    assert problem.bounds.tolist() == expected_bounds
    grid = reference.utility(*np.meshgrid(np.linspace(ax, bx, 20), np.linspace(ay, by, 20)))
    unit = torch.rand(200, 2, dtype=torch.double, generator=torch.Generator().manual_seed(1))
    raw = np.array([ax, ay]) + unit.numpy() * np.array([bx - ax, by - ay])
    offset = grid.mean() if recipe == "toolbox" else 0.0
    expected = (reference.utility(*raw.T) - offset) / grid.std()
    values = problem(unit if unit_cube else torch.as_tensor(raw))
    assert np.allclose(values.numpy(), expected, rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("which", TABLE)
def test_no_value_is_larger(which: str) -> None:
    utility, (ax, bx, ay, by) = TABLE2[which]
    problem = StandardisedFunction(which)
    best = problem.optimal_value * problem.standard_deviation
    x, y = np.meshgrid(np.linspace(ax, bx, 801), np.linspace(ay, by, 801))
    values = utility(x, y)
    starts = np.argsort(values, axis=None)[-20:]
    highest = max(
        -minimize(
            lambda p: -utility(*p),
            (x.flat[start], y.flat[start]),
            bounds=[(ax, bx), (ay, by)],
            method="Nelder-Mead",
            options={"xatol": 1e-12, "fatol": 1e-14, "maxiter": 2000},
        ).fun
        for start in starts
    )
    tolerance = 1e-10 * max(1.0, abs(best))
    assert highest <= best + tolerance
    if which != "bukin":  # whose ridge no simplex climbs
        assert highest >= best - tolerance


def test_the_egg_holder_of_the_toolbox_has_its_best_point_on_the_smaller_edge() -> None:
    problem = StandardisedFunction("eggholder", "toolbox", unit_cube=False)
    assert problem.optimizers[0, 0].item() == 512.0 - 1e-6
    text = StandardisedFunction("eggholder")
    lost = (
        text.optimal_value * text.standard_deviation
        - problem.optimal_value * problem.standard_deviation
        - problem.offset
    )
    assert lost == pytest.approx(3.3856e-6, rel=1e-3)


@pytest.mark.parametrize("which", TABLE)
def test_settings(which: str) -> None:
    text = StandardisedFunction(which)
    assert text.settings == (6.0, 1.0, None, None, None)
    assert text.unit_lengthscale is None
    toolbox = StandardisedFunction(which, "toolbox")
    norm_bound, beta0, lengthscale = SETTINGS[which]
    assert (toolbox.settings.norm_bound, toolbox.settings.beta0) == (norm_bound, beta0)
    assert (toolbox.settings.kernel, toolbox.settings.value_bound) == ("matern", 3.0)
    assert toolbox.unit_lengthscale == pytest.approx(lengthscale, rel=1e-6)


def test_choices() -> None:
    problem = StandardisedFunction("Holder-Table", unit_cube=False, choices_per_side=7)
    assert problem.choices is not None
    assert problem.choices.shape == (49, 2)
    assert problem.choices.unique().tolist() == pytest.approx(np.linspace(-10.0, 10.0, 7))
    assert problem.optimal_value == problem.utilities.max().item()
    whole = StandardisedFunction("holder_table", unit_cube=False)
    assert torch.equal(problem.utilities, whole(problem.choices))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"which": "levy"}, "which must be one of beale, .*levy13, got 'levy'"),
        ({"recipe": "paper"}, "recipe must be 'text' or 'toolbox', got 'paper'"),
        ({"choices_per_side": 1}, "at least 2 points on a side, got 1"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(SearchSpaceError, match=message):
        StandardisedFunction(**options)  # type: ignore[arg-type]
