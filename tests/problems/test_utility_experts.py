import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems import Ackley, Catalyst, ItemError, PreferenceProblem, SyntheticExpert
from botorch_pref.queries import Evaluate, Label
from experiments.problems import (
    EXPERT_BENCHMARKS,
    AccuracySchedule,
    ExpertBenchmark,
    TimeVaryingExpert,
)


def uniform(problem: PreferenceProblem, *shape: int) -> Tensor:
    cube = torch.rand(
        *shape, problem.dim, dtype=torch.double, generator=torch.Generator().manual_seed(0)
    )
    return torch.lerp(*problem.bounds, cube)


# The mean probability of a uniform item, by the true and by the authors' range.
ACCEPTED = {
    "ackley4": (0.162, 0.057),
    "holder2": (0.125, 0.125),
    "rastrigin2": (0.550, 0.546),
    "michalewicz5": (0.106, 0.106),
    "rosenbrock3": (0.865, 0.138),
}


@pytest.mark.parametrize("which", EXPERT_BENCHMARKS)
@pytest.mark.parametrize("rho_range", ["true", "authors"])
@pytest.mark.parametrize(
    ("accuracy", "accepts"),
    [(2.0, 0.9975), (1.0, 0.9526), (0.0, 0.5), (-1.0, 0.0474), (-2.0, 0.0025)],
)
def test_the_best_item(which: str, rho_range: Any, accuracy: float, accepts: float) -> None:
    problem = ExpertBenchmark(which, rho_range)
    expert = SyntheticExpert(problem, accuracy)
    assert expert.rho_range == problem.rho_range
    found = float(expert.probability(problem.optimizers[0]))
    assert found == pytest.approx(accepts, abs=5e-5)
    assert found == pytest.approx(1.0 / (1.0 + math.exp(-3.0 * accuracy)), rel=1e-12)


@pytest.mark.parametrize("which", EXPERT_BENCHMARKS)
def test_how_often_a_uniform_item_is_accepted(which: str) -> None:
    # The line goes on beyond the range: cut off, the authors' range would give 0.072 for
    # ackley4 and 0.175 for rosenbrock3.
    ranges: tuple[Literal["true", "authors"], ...] = ("true", "authors")
    for rho_range, expected in zip(ranges, ACCEPTED[which], strict=True):
        problem = ExpertBenchmark(which, rho_range)
        mean = SyntheticExpert(problem).probability(uniform(problem, 100_000)).mean()
        assert float(mean) == pytest.approx(expected, abs=0.005)


def test_definition() -> None:
    problem = ExpertBenchmark("ackley4", rho_range="authors")
    items = uniform(problem, 3, 50)
    # As in the paper: f is minimised, and a label is 1 to reject.
    cost = -problem(items)
    rho = -3.0 + 6.0 * (cost - 0.0) / (3.62538 - 0.0)
    expert = SyntheticExpert(problem, 1.5)
    found = expert.probability(items)
    assert found.shape == (3, 50)
    assert torch.allclose(1.0 - found, torch.sigmoid(1.5 * rho), rtol=1e-10)
    assert torch.allclose(expert.rho(-cost), -rho)
    # Not cut off at the ends.
    assert (rho > 3.0).any()
    assert torch.allclose(
        expert.rho(torch.tensor([-3.62538, 0.0, -7.25076])), torch.tensor([-3.0, 3.0, -9.0])
    )
    opposite = SyntheticExpert(problem, -1.5).probability(items)
    assert torch.allclose(opposite, 1.0 - found)


def test_strategies_share_the_noise() -> None:
    # Whoever asks the better item at step t is accepted wherever the other one is.
    problem = ExpertBenchmark("rastrigin2")
    good = Label(0, problem.optimizers[0])
    bad = Label(0, torch.tensor([0.1, 0.3], dtype=torch.double))
    expert = SyntheticExpert(problem, seed=3)
    pairs = [(expert(bad, t), expert(good, t)) for t in range(300)]
    assert (0.0, 1.0) in pairs
    assert (1.0, 0.0) not in pairs


def test_choices() -> None:
    problem = Catalyst()
    expert = SyntheticExpert(problem, 2.0)
    utilities = problem.utilities
    assert expert.rho_range == (float(utilities.min()), float(utilities.max()))
    # Replicates are told apart by their index.
    first, second = (i for i, name in enumerate(problem.names) if name == "Ag-1.0")
    shares = []
    for index in (first, second):
        query = Label(0, problem.choices[index], index)
        shares.append(sum(expert(query, t) or 0.0 for t in range(1000)) / 1000)
        expected = torch.sigmoid(2.0 * expert.rho(utilities[index]))
        assert shares[-1] == pytest.approx(float(expected), abs=0.06)
    with pytest.raises(ItemError, match="measured more than once"):
        expert(Label(0, problem.choices[first]), 1)


def test_schedules() -> None:
    rising, printed = AccuracySchedule(0.1), AccuracySchedule(0.1, form="printed")
    for n in (1, 3, 40):
        assert rising(n) == pytest.approx(2.0 * (1.0 - math.exp(-0.1 * n)), rel=1e-12)
        assert printed(n) == pytest.approx(2.0 * (1.0 - math.exp(-0.1 / n)), rel=1e-12)
    assert rising(0) == 0.0
    assert printed(0) == 2.0
    assert AccuracySchedule(0.1, limit=-1.0)(10_000) == -1.0


def test_accuracy_follows_the_values_told_before() -> None:
    problem = ExpertBenchmark("ackley4")
    item = torch.full((4,), 0.5, dtype=torch.double)
    expert = TimeVaryingExpert(problem, lambda n: float(n), initial_evaluations=3)
    told = [2, 3, 7]
    for t in range(1, 10):
        known = 3 + sum(step < t for step in told)
        assert expert.num_evaluations() == known
        expert(Label(0, item), t)
        if t in told:
            expert(Evaluate(0, item), t)
            expert(Evaluate(0, item), t)  # asked again, not another value
    assert [expert.accuracy_at(t) for t in (2, 3, 4, 8)] == [3.0, 4.0, 5.0, 6.0]
    assert expert.accuracy_at() == 6.0
    for t, accuracy in ((2, 3.0), (4, 5.0), (None, 6.0)):
        fixed = SyntheticExpert(problem, accuracy)
        assert float(expert.probability(item, t)) == float(fixed.probability(item))


def test_labels_of_a_changing_expert() -> None:
    problem = ExpertBenchmark("holder2")
    query = Label(0, torch.tensor([0.78, 0.93]))
    expert = TimeVaryingExpert(problem, AccuracySchedule(0.5, limit=-3.0), seed=2)
    for t in range(0, 60, 2):
        known = t // 2
        fixed = SyntheticExpert(problem, -3.0 * (1.0 - math.exp(-0.5 * known)), seed=2)
        assert expert(query, t) == fixed(query, t)
        expert(Evaluate(0, query.items), t)


def test_schedules_of_no_finite_accuracy() -> None:
    expert = TimeVaryingExpert(ExpertBenchmark("ackley4"), lambda n: math.log(n) if n else math.nan)
    with pytest.raises(UnsupportedError, match="schedule must be a finite accuracy, got nan"):
        expert.accuracy_at()


def test_problems_without_a_range() -> None:
    with pytest.raises(UnsupportedError, match="rho_range has to be given: ackley has none"):
        SyntheticExpert(Ackley(dim=2))
    given = SyntheticExpert(Ackley(dim=2), rho_range=(-14.3, 0.0))
    assert float(given.probability(torch.full((2,), 0.5))) == pytest.approx(0.9526, abs=5e-5)
    problem = Unknown()
    assert SyntheticExpert(problem, rho_range=(5.0, 6.0)).rho_range == (5.0, 6.0)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (partial(SyntheticExpert, accuracy=float("nan")), UnsupportedError, "accuracy must be a f"),
        (partial(SyntheticExpert, rho_range=(1.0, 0.0)), SearchSpaceError, "rho_range must be a l"),
        (partial(SyntheticExpert, rho_range=(0.0, 4.7)), SearchSpaceError, "rho_range must start"),
        (partial(SyntheticExpert, rho_range="authors"), SearchSpaceError, "rho_range must be a l"),
        (
            partial(TimeVaryingExpert, schedule=AccuracySchedule(1.0), initial_evaluations=-1),
            UnsupportedError,
            "initial_evaluations must be at least 0",
        ),
        (lambda _: AccuracySchedule(0.0), SearchSpaceError, "rate must be positive"),
        (lambda _: AccuracySchedule(1.0, limit=math.inf), UnsupportedError, "limit must be a fin"),
        (
            lambda _: AccuracySchedule(1.0, form="falling"),  # type: ignore[arg-type]
            SearchSpaceError,
            "form must be 'rising' or 'printed', got 'falling'",
        ),
    ],
)
def test_bad_options(make: Callable[..., object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(ExpertBenchmark("ackley4"))


class Unknown(PreferenceProblem):
    _bounds = [(0.0, 1.0)]  # noqa: RUF012 (as in BoTorch)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X.squeeze(-1)
