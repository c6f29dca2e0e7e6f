import pytest
import torch
from torch.quasirandom import SobolEngine

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import (
    Ackley,
    Catalyst,
    DigitsTuning,
    ElectrolyteStandIn,
    ExpertBenchmark,
    GPSample,
    Ratings,
    RKHSFunction,
    StandardisedFunction,
    SyntheticProblem,
    ThermalComfort,
    get_problem,
    problem_names,
)


@pytest.mark.parametrize("name", problem_names())
def test_every_problem(name: str) -> None:
    problem = get_problem(name)
    assert problem.name == name
    if name not in (
        "gpsample",
        "thermalcomfort",
        "electrolytestandin",
    ):  # which are in units of their own
        lowest = -1.0 if name == "ratings" else 0.0
        assert problem.bounds.tolist() == [[lowest] * problem.dim, [1.0] * problem.dim]
    if problem.choices is None:
        sobol = SobolEngine(problem.dim, scramble=True, seed=0)
        lower, upper = problem.bounds
        values = problem(torch.lerp(lower, upper, sobol.draw(2048, dtype=torch.double)))
        reached = problem(problem.optimizers)
        best = torch.full_like(reached, problem.optimal_value)
        assert torch.allclose(reached, best, atol=1e-4)
    else:
        values = problem.utilities
    assert values.isfinite().all()
    assert values.std() > 0
    assert values.max() <= problem.optimal_value


def test_options() -> None:
    ackley = get_problem("ackley", dim=2)
    assert isinstance(ackley, Ackley)
    assert ackley.dim == 2
    catalyst = get_problem("catalyst", dedupe="mean")
    assert isinstance(catalyst, Catalyst)
    assert len(catalyst.names) == 60
    rkhs = get_problem("rkhs", num_choices=12)
    assert isinstance(rkhs, RKHSFunction)
    assert len(rkhs.utilities) == 12
    assert get_problem("rkhs", kernel="se").utilities.max() > rkhs.utilities.max()
    assert get_problem("ackley", negate=False, num_choices=40).optimal_value > 14.0
    ratings = get_problem("ratings", user=7, num_items=30)
    assert isinstance(ratings, Ratings)
    assert (ratings.user, len(ratings.utilities)) == (7, 30)
    sample = get_problem("gp-sample", dim=7)
    assert isinstance(sample, GPSample)
    assert sample.dim == 7
    bukin = get_problem("standardised-bukin", recipe="toolbox")
    assert isinstance(bukin, StandardisedFunction)
    assert bukin.recipe == "toolbox"
    room = get_problem("thermal-comfort", dim=4)
    assert isinstance(room, ThermalComfort)
    assert room.dim == 4
    rosenbrock = get_problem("expert-rosenbrock3", rho_range="authors")
    assert isinstance(rosenbrock, ExpertBenchmark)
    assert rosenbrock.rho_range == (-1.5e4, 0.0)
    electrolyte = get_problem("electrolyte-stand-in", log=True)
    assert isinstance(electrolyte, ElectrolyteStandIn)
    assert electrolyte.log
    levy = get_problem("levy", dim=5)
    assert isinstance(levy, SyntheticProblem)
    assert levy.dim == 5


@pytest.mark.parametrize("name", ["SixHumpCamel", "six-hump-camel", "six_hump_camel"])
def test_spelling(name: str) -> None:
    assert get_problem(name).name == "sixhumpcamel"


@pytest.mark.parametrize("name", ["digits-tuning", "DigitsTuning", "digits_tuning"])
def test_spelling_of_own_problems(name: str) -> None:
    assert isinstance(get_problem(name), DigitsTuning)


def test_unknown_name() -> None:
    with pytest.raises(UnsupportedError, match="unknown problem 'catalist'") as error:
        get_problem("catalist")
    assert all(name in str(error.value) for name in problem_names())


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("catalyst", {"dim": 2}, "'catalyst' has no option 'dim'; its options are ded"),
        ("hartmann6", {"dim": 3}, "'hartmann6' has no option 'dim'; it has none"),
        ("digits-tuning", {"seed": 1}, "'digitstuning' has no option 'seed'; it has none"),
        ("standardised-beale", {"which": "bukin"}, "has no option 'which'; its options are rec"),
        ("catalyst", {"negate": True}, "'catalyst' has no option 'negate'"),
        ("branin", {"negate": True}, "'branin' has no option 'negate'; it has none"),
        ("levy", {"noise_std": 1.0}, "'levy' has no option 'noise_std'; its .* dim"),
    ],
)
def test_unknown_option(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        get_problem(name, **options)
