"""The problems of the experiments against their formulas, reference values and laws."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from scipy.optimize import minimize
from scipy.stats import chi2, kstest
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.problems import ItemError, SyntheticExpert
from botorch_pref.queries import Choice, Duel, Evaluate, Label
from experiments.problems import (
    EXPERT_BENCHMARKS,
    STANDARDISED_FUNCTIONS,
    AccuracySchedule,
    BordaFunction,
    Borehole,
    CrossInTray,
    CurrinExp,
    DigitsTuning,
    DuelingChoiceJudge,
    ExpertBenchmark,
    FittedExpert,
    GPSample,
    Levy13,
    MagicGammaSVM,
    MVNExpert,
    PositiveAckley,
    Ratings,
    SplitSizes,
    StandardisedFunction,
    TimeVaryingExpert,
    belief_mean,
    deterministic_link,
    tuning,
)
from experiments.problems.fidelities import facts_of
from experiments.problems.functions import product_grid
from tests._reference.table2 import TABLE2


def uniform(number: int, dim: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(number, dim, dtype=torch.double, generator=generator)


class TestAsBoTorchTestFunctions(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = (
        *(CrossInTray(), Levy13(negate=True), GPSample(7)),
        *(ExpertBenchmark(which, "authors", unit_cube=False) for which in EXPERT_BENCHMARKS),
        *(StandardisedFunction(which, "toolbox") for which in STANDARDISED_FUNCTIONS),
    )


# ------------------------------------------------------------------ the functions of Table 2

# Standard deviation on the grid, how far the grid's maximum is short of the true one, and the
# mean suboptimality of a uniform grid point; the last two over the standard deviation.
TABLE = {
    "beale": (29305, 0.000, 0.43),
    "branin": (56.35, 0.004, 1.02),
    "bukin": (49.77, 0.275, 2.53),
    "crossintray": (0.1734, 0.064, 2.92),
    "eggholder": (314.1, 0.000, 3.04),
    "holdertable": (3.610, 0.390, 4.51),
    "levy13": (67.74, 0.021, 1.60),
}


@pytest.mark.parametrize("which", TABLE)
def test_standardised_functions(which: str) -> None:
    deviation, short, random = TABLE[which]
    utility, (ax, bx, ay, by) = TABLE2[which]
    problem = StandardisedFunction(which)
    digits = 0.5 if which == "beale" else 10.0 ** (math.floor(math.log10(deviation)) - 3)
    assert problem.standard_deviation == pytest.approx(deviation, abs=digits)
    assert problem.optimal_value - problem.grid_maximum == pytest.approx(short, abs=6e-4)
    grid = StandardisedFunction(which, choices_per_side=20).utilities
    assert problem.optimal_value - float(grid.mean()) == pytest.approx(random, abs=6e-3)
    X = uniform(200, 2)
    raw = np.array([ax, ay]) + X.numpy() * np.array([bx - ax, by - ay])
    values = problem(X).numpy() * problem.standard_deviation
    assert np.allclose(values, utility(*raw.T), rtol=1e-9, atol=1e-6)
    # No simplex from the best points of a fine grid finds a larger value.
    x, y = np.meshgrid(np.linspace(ax, bx, 401), np.linspace(ay, by, 401))
    values, best = utility(x, y), problem.optimal_value * problem.standard_deviation
    starts = np.argsort(values, axis=None)[-5:]
    box = {"bounds": [(ax, bx), (ay, by)], "method": "Nelder-Mead"}
    found = [minimize(lambda p: -utility(*p), (x.flat[i], y.flat[i]), **box) for i in starts]
    assert max(-one.fun for one in found) <= best + 1e-10 * max(1.0, abs(best))


# ------------------------------------------------------------------ Gaussian process samples


def test_samples_have_the_law_of_the_process() -> None:
    samples = [GPSample(num_choices=2, seed=seed) for seed in range(300)]
    assert kstest([sample.norm**2 for sample in samples], chi2(10).cdf).pvalue > 0.01
    assert torch.equal(samples[3].knots, GPSample(num_choices=2, seed=3).knots)


@pytest.mark.parametrize(("dim", "lengthscale"), [(1, 1.0), (7, 13.2288)])
def test_samples_interpolate_their_knots(dim: int, lengthscale: float) -> None:
    problem = GPSample(dim, seed=1)
    assert problem.lengthscale == pytest.approx(lengthscale, abs=1e-4)

    def kernel(a: Any, b: Any) -> Any:
        squares = ((a[:, None] - b[None]) ** 2).sum(-1)
        return 9.0 * np.exp(-squares / problem.lengthscale**2)

    knots, values = problem.knots.numpy(), problem(problem.knots).numpy()
    weights = np.linalg.solve(kernel(knots, knots), values)
    X = 10.0 * uniform(20, dim)
    assert np.allclose(problem(X), kernel(X.numpy(), knots) @ weights, atol=1e-5)
    assert problem.norm == pytest.approx(math.sqrt(values @ weights), rel=1e-7)
    negative = lambda x: -float(problem(torch.as_tensor(x)))  # noqa: E731
    starts = 10.0 * uniform(20, dim, seed=2).numpy()
    ends = [minimize(negative, x, bounds=[(0, 10)] * dim, method="L-BFGS-B") for x in starts]
    assert -min(end.fun for end in ends) <= problem.optimal_value + 1e-6


def test_positive_ackley() -> None:
    problem = PositiveAckley()
    x = problem.choices[:, 0]
    raw = 20.0 + math.e - 20.0 * (-0.2 * x.abs()).exp() - (2.0 * math.pi * x).cos().exp()
    expected = 3.0 * raw / (raw.max() - raw.min())
    assert torch.allclose(problem.utilities, expected, atol=1e-12)
    best = (problem.utilities == problem.optimal_value).nonzero().flatten()
    assert best.tolist() == [4, 95]  # tied to the last bit
    assert x[best].tolist() == pytest.approx([-4.59596, 4.59596], abs=1e-5)


# ------------------------------------------------------------------ experts

# The mean probability of a uniform item, by the true and by the authors' range.
ACCEPTED = {
    "ackley4": (0.162, 0.057),
    "holder2": (0.125, 0.125),
    "rastrigin2": (0.550, 0.546),
    "michalewicz5": (0.106, 0.106),
    "rosenbrock3": (0.865, 0.138),
}


@pytest.mark.parametrize("which", EXPERT_BENCHMARKS)
def test_the_functions_of_the_experts(which: str) -> None:
    problem = ExpertBenchmark(which)
    low, high = problem.ranges["true"]
    assert problem.rho_range == (low, high) == (low, problem.optimal_value)
    values = problem(uniform(100_000, problem.dim))
    assert low <= values.min()
    assert values.max() <= high
    assert float(problem(problem.optimizers)) == pytest.approx(high, abs=1e-9)
    for rho_range, expected in zip(("true", "authors"), ACCEPTED[which], strict=True):
        expert = SyntheticExpert(problem, rho_range=problem.ranges[rho_range])
        mean = float(expert.probability(uniform(100_000, problem.dim)).mean())
        assert mean == pytest.approx(expected, abs=0.005)
    with pytest.raises(SearchSpaceError, match="rho_range must start below"):
        ExpertBenchmark(which, rho_range=(high, high + 1.0))


def test_normal_beliefs() -> None:
    problem = ExpertBenchmark("holder2", unit_cube=False)
    strong, weak, wrong = (belief_mean(problem, kind) for kind in ("strong", "weak", "wrong"))
    assert torch.equal(strong, problem.optimizers[0])
    assert torch.allclose(weak, (strong + wrong) / 2)
    assert ((wrong == 0.0) | (wrong == 10.0)).all()
    expert = MVNExpert(problem, "strong", 4.0, seed=1)
    item = strong + torch.tensor([2.0, -1.0]).to(strong)
    accepted = [expert(Label(0, item), t) for t in range(4000)]
    assert abs(sum(accepted) / 4000 - math.exp(-0.5 * 5.0 / 4.0)) < 0.03


def test_an_expert_learns_from_the_values_told_before() -> None:
    problem, item = ExpertBenchmark("ackley4"), torch.full((4,), 0.5, dtype=torch.double)
    expert = TimeVaryingExpert(problem, lambda n: float(n), initial_evaluations=3)
    for t in range(1, 10):
        expert(Label(0, item), t)
        assert expert.accuracy == 3 + sum(step < t for step in (2, 3, 7))
        if t in (2, 3, 7):
            expert(Evaluate(0, item), t)
    rising, printed = AccuracySchedule(0.1), AccuracySchedule(0.1, form="printed")
    assert rising(3) == pytest.approx(2.0 * (1.0 - math.exp(-0.3)))
    assert printed(3) == pytest.approx(2.0 * (1.0 - math.exp(-0.1 / 3.0)))
    assert (rising(0), printed(0)) == (0.0, 2.0)


# ------------------------------------------------------------------ duels and values


def currin(x: float, y: float) -> float:
    factor = 1.0 if y <= 0.0 else 1.0 - math.exp(-1.0 / (2.0 * y))
    above = 2300 * x**3 + 1900 * x**2 + 2092 * x + 60
    return factor * above / (100 * x**3 + 500 * x**2 + 4 * x + 20)


def currin_low(x: float, y: float) -> float:
    corners = itertools.product((x + 0.05, x - 0.05), (y + 0.05, max(0.0, y - 0.05)))
    return sum(currin(*corner) for corner in corners) / 4.0


def test_currin() -> None:
    items, problem = uniform(50, 2), CurrinExp()
    items[::5, 1] = 0.0
    items[1::5] *= 0.05
    high = [currin(*item) for item in items.tolist()]
    low = [currin_low(*item) for item in items.tolist()]
    assert problem(items).tolist() == pytest.approx(high, rel=1e-13)
    assert problem.low_fidelity(items).tolist() == pytest.approx(low, rel=1e-13)
    facts, grid = facts_of(problem), product_grid([(0.0, 1.0)] * 2, 401)
    assert facts.least <= problem(grid).min()
    assert problem(grid).max() <= facts.most == problem.optimal_value
    assert problem.low_fidelity(grid).max() <= facts.low_most
    assert (facts.zeta, facts.tight_zeta) == pytest.approx((0.252086, 0.0360), abs=5e-5)
    unit, width = CurrinExp(unit_range=True), facts.most - facts.least
    assert torch.allclose(unit(items), problem(items) / width, rtol=1e-14)
    assert torch.allclose(unit.low_fidelity(items), problem.low_fidelity(items) / width, rtol=1e-14)
    with pytest.raises(ItemError, match=r"Row \[1\]"):
        problem.low_fidelity(torch.tensor([[0.5, 0.5], [0.5, 1.5]]))


def test_borehole() -> None:
    water = Borehole()
    items = torch.tensor([[0.5] * 8, [0.0] * 8, [1.0] * 8], dtype=torch.double)
    assert water(items).tolist() == pytest.approx([70.87291264, 20.01478331, 145.68027004])
    low = water.low_fidelity(items).tolist()
    assert low == pytest.approx([56.39871926, 15.92724795, 115.92816563])
    facts = facts_of(water)
    assert (facts.least, facts.most) == pytest.approx((7.8196763288, 309.5755876604))
    assert facts.zeta == pytest.approx(63.224, abs=1e-4)
    assert facts.tight_zeta == 0.0
    values = water(uniform(20_000, 8))
    assert facts.least <= values.min()
    assert values.max() <= water.optimal_value == facts.most


@pytest.mark.parametrize("link", [deterministic_link, LogitLikelihood(0.5)])
def test_duels_are_of_the_low_fidelity_and_values_of_the_high(link: Any) -> None:
    problem = CurrinExp()
    judge = DuelingChoiceJudge(problem, 2, link)
    duels = [Duel(number, pair) for number, pair in enumerate(uniform(300, 2).view(150, 2, 2))]
    answers = [judge(duel, duel.id) for duel in duels]
    low = problem.low_fidelity(torch.stack([duel.items for duel in duels]))
    if link is deterministic_link:
        assert answers == (low[:, 0] > low[:, 1]).double().tolist()
    expected = link(low[:, 0] - low[:, 1]).tolist()
    assert [judge.probability(duel) for duel in duels] == pytest.approx(expected, rel=1e-12)
    item = duels[0].items[0]
    assert judge(Evaluate(0, item), 0) == float(problem(item))
    choices = torch.tensor([[13.0 / 60.0, 0.0], [0.235753, 0.0]], dtype=torch.double)
    assert DuelingChoiceJudge(CurrinExp(choices=choices))((0, 1), 0) == 0.0
    if link is deterministic_link:
        with pytest.raises(UnsupportedError, match="logistic link only"):
            judge(Choice(0, torch.stack([item] * 3)), 0)


@pytest.mark.parametrize("kind", ["deterministic", "logistic"])
def test_the_borda_function_is_the_mean_of_duels(kind: str) -> None:
    link = deterministic_link if kind == "deterministic" else LogitLikelihood()
    judge = DuelingChoiceJudge(CurrinExp(), 11, link)
    function = BordaFunction(judge, num_opponents=2**10)
    items = torch.tensor([[0.5, 0.5], [1.0, 1.0], [0.216667, 0.0]], dtype=torch.double)
    known = {"logistic": [0.5189, 0.1299, 0.9676], "deterministic": [0.5463, 0.0429, 0.9985]}
    assert function(items).tolist() == pytest.approx(known[kind], abs=6e-3)
    opponents = uniform(1000, 2, seed=1)
    doubled = torch.cat([opponents, opponents[:100]])  # ties, which count one half
    assert float(BordaFunction(judge, doubled)(doubled).mean()) == pytest.approx(0.5, abs=1e-12)


@pytest.fixture
def magic(tmp_path: Path) -> Path:
    """A table like the data's: two classes of 10 features, which are of several sizes."""
    generator = np.random.default_rng(0)
    classes = generator.integers(0, 2, 120)
    features = (generator.normal(size=(120, 10)) + classes[:, None] * 0.7) * 10.0 ** np.arange(10)
    rows = [
        ",".join([*(f"{number:.6g}" for number in row), "hg"[kind]])
        for row, kind in zip(features.tolist(), classes.tolist(), strict=True)
    ]
    file = tmp_path / "magic.dat"
    file.write_text("\n".join(["@relation magic", *rows]))
    return file


def test_accuracies_are_those_of_scikit_learn(magic: Path) -> None:
    svc = pytest.importorskip("sklearn.svm").SVC
    sizes = SplitSizes(training=60, subset=20, validation=40)
    problem = MagicGammaSVM(path=magic, sizes=sizes, per_side=4)
    split, position = problem._split, 6  # bandwidth 10^(-3 + 4/3), soft margin 10^(-1 + 4)
    for number, values in (
        (60, problem(problem.choices)),
        (20, problem.low_fidelity(problem.choices)),
    ):
        machine = svc(C=1e3, gamma=10.0 ** (-3.0 + 4.0 / 3.0))
        machine.fit(split.features[:number], split.classes[:number])
        right = (machine.predict(split.held_out_features) == split.held_out_classes).mean()
        assert float(values[position]) == pytest.approx(right, abs=1e-12)


# ------------------------------------------------------------------ tables


def test_ratings() -> None:
    # Of torch's own generator: a change here changes every published figure on this problem.
    problem = Ratings()
    first = [0.1237798513, 0.2027701561, 0.1286103232]
    assert problem.choices.shape == (275, 32)
    assert problem.choices[0, :3].tolist() == pytest.approx(first, abs=1e-9)
    utilities = [0.857767536, -1.094749167, 0.432629243]
    assert problem.utilities[:3].tolist() == pytest.approx(utilities, abs=1e-8)
    assert problem.median_distance() == pytest.approx(0.8687462117, abs=1e-9)
    ratings = Ratings(user=7).ratings
    assert ratings.mean().item() == pytest.approx(3.3, abs=0.02)
    assert Ratings(user=7).utilities.aminmax()[0] == -3.0


def test_digits() -> None:
    problem, table = DigitsTuning(), DigitsTuning().configurations
    names = list(tuning.HYPERPARAMETERS)
    assert problem.choices.shape == (40, 5)
    assert problem.utilities.tolist() == pytest.approx((table["accuracy"] / 10.0).tolist())
    assert problem.optimal_value == pytest.approx(9.737037, abs=1e-6)
    pd.testing.assert_frame_equal(tuning.configurations(), table[names], rtol=1e-9)


def test_an_expert_who_is_a_model_of_labels() -> None:
    """Labels come with the probabilities of its belief, which is bounded and of the seed."""
    problem = ExpertBenchmark("holder2")
    expert = FittedExpert(problem, 1.0, problem.ranges["authors"], number=12, seed=3)
    items = problem.bounds[0] + (problem.bounds[1] - problem.bounds[0]) * torch.rand(
        400, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double
    )
    chances = expert.probability(items)
    assert ((chances > 0.04) & (chances < 0.96)).all()  # the box of the belief
    assert chances.std() > 0.01
    labels = [expert(Label(i, item), i) for i, item in enumerate(items)]
    assert {*labels} == {0.0, 1.0}
    error = math.sqrt(float((chances * (1 - chances)).mean()) / len(items))
    assert abs(sum(labels) / len(items) - float(chances.mean())) < 4.0 * error
    (block,) = expert.model.blocks
    assert len(block.answer) == 12
    assert expert(Evaluate(0, items[0]), 0) == pytest.approx(float(problem(items[0])))
    found = FittedExpert(problem, 1.0, problem.ranges["authors"], number=12, seed=3)
    assert torch.equal(found.probability(items), chances)
