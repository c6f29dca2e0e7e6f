"""Finding the mode: against the oracle, from any start, in batches, and what a failure says."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from botorch_pref.exceptions import LaplaceConvergenceWarning
from botorch_pref.inference import DualSystem, Observations, System, find_mode
from botorch_pref.inference.laplace import LaplaceMode
from tests.inference.common import (
    LINKS,
    SIDES,
    assert_equal,
    likelihood,
    make,
    matern,
    oracle,
    prior_latent,
    rand,
    randn,
)

N, M = 7, 12
X = rand(N, 2)
MEAN = X.sum(-1) - 0.5

both_sides = pytest.mark.parametrize("wanted", SIDES)
every_link = pytest.mark.parametrize(("link", "scale"), LINKS)
both_judges = pytest.mark.parametrize("judge", ["noisy", "consistent"])


class Problem(NamedTuple):
    """Duels and a prior, to be seen from either system."""

    observations: Observations
    outputscale: float
    mean: Tensor = MEAN

    def system(self, wanted: type[System]) -> System:
        K = matern(X, outputscale=self.outputscale)
        return wanted(K, prior_latent(self.observations, self.mean), self.observations)


def easy(outputscale: float = 4.0, judge: str = "consistent") -> Problem:
    return Problem(make(X, M, judge=judge), outputscale)


def hard(link: str = "logit", scale: float = 1.0) -> Problem:
    """A prior mean far off in the link's flat tails, where full Newton steps overshoot."""
    observations = make(X, M, judge="consistent", link=likelihood(link, scale))
    return Problem(observations, 1e4, 30 * randn(N, seed=5))


def stack(problems: Sequence[Problem], wanted: type[System]) -> System:
    """Problems of equal size as one batch."""
    blocks = [problem.observations.blocks[0] for problem in problems]
    names = ("items", "answer", "weight")
    stacked = {name: torch.stack([getattr(b, name) for b in blocks]) for name in names}
    block = replace(blocks[0], **stacked)
    K = torch.stack([matern(X, outputscale=problem.outputscale) for problem in problems])
    latent = torch.stack([prior_latent(p.observations, p.mean) for p in problems])
    return wanted(K, latent, Observations([block], N))


def quiet(system: System, **options: object) -> LaplaceMode:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LaplaceConvergenceWarning)
        return find_mode(system, **options)  # type: ignore[arg-type]


@both_sides
@every_link
@both_judges
@pytest.mark.parametrize("outputscale", [0.1, 3.0, 100.0])
def test_duels_and_labels(
    wanted: type[System], link: str, scale: float, judge: str, outputscale: float
) -> None:
    observations = make(X, M, 4, judge=judge, link=likelihood(link, scale), padding=2)
    found = find_mode(Problem(observations, outputscale).system(wanted))
    expected = oracle(matern(X, outputscale=outputscale), MEAN, observations, link, scale)
    assert_equal(found.latent, expected.differences)
    assert_equal(found.weights, expected.score)
    assert_equal(found.state.objective, expected.log_likelihood - expected.penalty)
    assert bool(found.converged)
    assert float(found.state.distance) < 1e-8


@both_sides
@every_link
@pytest.mark.parametrize("outputscale", [1e6, 1e11])
@pytest.mark.parametrize("repeats", [1.0, 50.0])
def test_huge_prior_variances(
    wanted: type[System], link: str, scale: float, outputscale: float, repeats: float
) -> None:
    """Scores are tiny far from the mode too: that their difference is says nothing."""
    items = rand(10, 2)
    outputscale = outputscale if link == "logit" else outputscale**0.75  # for the oracle's sake
    K = outputscale * torch.exp(-3.0 * (items.unsqueeze(-2) - items).square().sum(-1))
    observations = make(items, 12, judge="consistent", link=likelihood(link, scale))
    block = replace(observations.blocks[0], weight=repeats * observations.weight)
    observations, zero = Observations([block], 10), torch.zeros(10, dtype=torch.float64)
    found = find_mode(wanted(K, zero[0].expand(12), observations))
    expected = oracle(K, zero, observations, link, scale)
    assert bool(found.converged)
    assert_equal(found.latent, expected.differences, 1e-5)


@both_sides
@pytest.mark.parametrize(
    ("link", "scale", "seed"), [("logit", 1.0, 7), ("probit", 1.0, 11), ("probit", 2**-0.5, 18)]
)
def test_the_objective_rises_step_by_step(
    wanted: type[System], link: str, scale: float, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = hard(link, scale).system(wanted)
    # Seeds with which a full step overshoots, for either link.
    system.prior_latent = 30 * randn(M, seed=seed)
    best, steps = -torch.inf, 0
    for limit in range(1, 101):
        found = quiet(system, max_steps=limit)
        steps = int(found.num_steps)
        if bool(found.converged):
            break
        assert steps == limit
        assert float(found.state.objective) > best
        best = float(found.state.objective)
    assert bool(found.converged)
    assert float(found.state.objective) >= best
    assert steps > 5
    # A candidate a step would be full steps alone; of those refused no Hessian is taken.
    evaluated, factored = [], []
    evaluate, factor = system.evaluate, system.factor
    monkeypatch.setattr(system, "evaluate", lambda z: (evaluated.append(z), evaluate(z))[1])
    monkeypatch.setattr(system, "factor", lambda w: (factored.append(w), factor(w))[1])
    taken = int(find_mode(system).num_steps)
    assert len(factored) == taken < len(evaluated) - 1


@both_sides
@every_link
def test_any_start_gives_the_same_mode(wanted: type[System], link: str, scale: float) -> None:
    system = Problem(make(X, M, 4, link=likelihood(link, scale)), 4.0).system(wanted)
    expected = find_mode(system)
    for size in (1.0, 1e3, 1e9, torch.nan):
        found = find_mode(system, start=size * randn(M + 4))
        assert_equal(found.latent, expected.latent)
        assert_equal(found.weights, expected.weights)
        assert bool(found.converged)


@both_sides
@every_link
def test_a_far_mode_and_a_start_near_it(wanted: type[System], link: str, scale: float) -> None:
    problem = hard(link, scale)
    K, system = matern(X, outputscale=problem.outputscale), problem.system(wanted)
    expected = oracle(K, problem.mean, problem.observations, link, scale)
    cold = find_mode(system)
    assert_equal(cold.latent, expected.differences)
    assert_equal(cold.weights, expected.score)
    warm = find_mode(system, start=cold.weights)
    assert int(warm.num_steps) <= 1 < int(cold.num_steps)
    near = find_mode(system, start=0.9 * cold.weights)
    assert int(near.num_steps) < int(cold.num_steps)
    assert_equal(near.latent, cold.latent)


@both_sides
def test_only_the_failed_elements_are_marked(wanted: type[System]) -> None:
    enough = int(find_mode(easy().system(wanted)).num_steps) + 3
    system = stack([easy(), hard()], wanted)
    with pytest.warns(LaplaceConvergenceWarning, match="1 of 2 models"):
        found = find_mode(system, max_steps=enough)
    assert found.converged.tolist() == [True, False]


@both_sides
def test_nothing_to_learn(wanted: type[System]) -> None:
    observations = make(X, M, padding=M)
    found = find_mode(Problem(observations, 4.0).system(wanted))
    assert_equal(found.latent, prior_latent(observations, MEAN), 1e-15)
    assert float(found.state.objective) == 0.0
    assert bool(found.converged)


def assert_same_first_element(one: LaplaceMode, other: LaplaceMode) -> None:
    parts = [(mode.latent, mode.state.objective, *mode[1:]) for mode in (one, other)]
    for first, second in zip(*parts, strict=True):
        assert torch.equal(first[0], second[0])


PROBLEMS = (*(easy(outputscale) for outputscale in (0.1, 1.0, 4.0, 10.0, 100.0)), hard())


@both_sides
def test_a_neighbour_that_takes_longer_changes_no_bit(wanted: type[System]) -> None:
    fast = find_mode(stack([easy(), easy(1.0)], wanted))
    slow = find_mode(stack([easy(), hard()], wanted))
    assert int(slow.num_steps[1]) > 2 * int(slow.num_steps[0])
    assert_same_first_element(fast, slow)


@both_sides
def test_a_batch_is_its_elements_solved_alone(wanted: type[System]) -> None:
    together = find_mode(stack(PROBLEMS, wanted))
    assert together.converged.all()
    for i, problem in enumerate(PROBLEMS):
        alone = find_mode(problem.system(wanted))
        assert_equal(together.latent[i], alone.latent, 1e-12)
        assert_equal(together.weights[i], alone.weights, 1e-12)
        assert_equal(together.state.objective[i], alone.state.objective, 1e-12)
        assert abs(int(together.num_steps[i]) - int(alone.num_steps)) <= 1


@both_sides
def test_the_number_of_operations_does_not_grow_with_the_batch(wanted: type[System]) -> None:
    alone = max(count_operations(stack([problem], wanted)) for problem in PROBLEMS)
    assert count_operations(stack(PROBLEMS * 5, wanted)) <= 1.1 * alone


def count_operations(system: System) -> int:
    counter: Counter[str] = Counter()

    class Counting(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            counter[str(func)] += 1
            return func(*args, **(kwargs or {}))

    with Counting():
        find_mode(system)
    return counter.total()


@both_sides
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_a_prior_mean_that_is_not_finite_ends_at_once(wanted: type[System], value: float) -> None:
    system = stack([easy(), easy()], wanted)
    good = find_mode(system)
    system.prior_latent[1, 3] = value
    found = quiet(system)
    assert int(found.num_steps[1]) <= 10
    assert not bool(torch.isfinite(found.latent[1]).all())
    assert_same_first_element(good, found)


def test_a_covariance_that_is_not_finite() -> None:
    system = stack([easy(), easy()], DualSystem)
    system.covariance[1] = torch.nan
    with pytest.warns(LaplaceConvergenceWarning, match="1 of 2 models"):
        found = find_mode(system)
    assert found.converged.tolist() == [True, False]


@both_sides
@every_link
def test_single_precision(wanted: type[System], link: str, scale: float) -> None:
    observations = make(X, M, judge="consistent", link=likelihood(link, scale))
    exact, block = Problem(observations, 4.0).system(wanted), observations.blocks[0]
    single = replace(block, answer=block.answer.float(), weight=block.weight.float())
    system = wanted(matern(X.float()), exact.prior_latent.float(), Observations([single], N))
    found = find_mode(system)
    assert found.latent.dtype == torch.float32
    assert bool(found.converged)
    assert float(found.state.distance) < 2e-4
    assert_equal(found.latent.double(), find_mode(exact).latent, 1e-4)
