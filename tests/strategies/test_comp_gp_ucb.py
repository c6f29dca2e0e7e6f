"""COMP-GP-UCB: what is asked when, by algebra of its own; schedules, guarantees, state, theory."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models import BordaGP
from botorch_pref.queries import Answered, Duel, Evaluate
from botorch_pref.strategies import CompGPUCB, comp_gp_ucb
from botorch_pref.strategies.comp_gp_ucb import FilterRecord, OptimisticStep
from experiments.baselines import GPUCB, MFGPUCB
from experiments.problems import CurrinExp, DuelingChoiceJudge
from tests.contracts.strategy import stored
from tests.models.common import rand
from tests.strategies import budget
from tests.strategies.budget import WIDE as BOX
from tests.strategies.budget import play, reply

QUICK: dict[str, Any] = {"num_initial_duels": 6, "num_initial_values": 3, "budget": 6}


def on_a_box(**kwargs: Any) -> CompGPUCB:
    return CompGPUCB(**{"bounds": BOX, **QUICK, **kwargs})


def on_items(**kwargs: Any) -> CompGPUCB:
    return CompGPUCB(**{"choices": rand(20, 2), **QUICK, **kwargs})


def on_table(**kwargs: Any) -> CompGPUCB:
    """Without a budget."""
    design = {"choices": budget.TABLE, "num_initial_duels": 8, "num_initial_values": 3}
    return CompGPUCB(**{**design, **kwargs})


def known_kernel(lengthscale: float = 0.3, outputscale: float = 0.1) -> ScaleKernel:
    """A kernel of which nothing is learnt."""
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = lengthscale, outputscale
    return kernel.requires_grad_(False)


def later(strategy: CompGPUCB) -> list[FilterRecord]:
    records = [record for record in strategy.records if record.phase != "initial"]
    return [record for record in records if isinstance(record, FilterRecord)]


@pytest.mark.parametrize("make", [on_a_box, on_items])
def test_a_run(make: Any) -> None:
    """Duels, values and bounds are what the records say (property 9)."""
    strategy = make(borda_slack=0.0, gamma=0.3)
    queries = play(strategy)
    kinds = ["duel" if isinstance(query, Duel) else "value" for query in queries]
    assert [record.kind for record in strategy.records] == kinds
    assert len(strategy.duels.answers) == kinds.count("duel")
    phases = [record.phase for record in later(strategy)]
    assert phases == sorted(phases)
    assert {*phases} == {"duels", "filtered"}
    for record in later(strategy):
        if record.phase == "filtered":
            assert record.feasibility >= -1e-6
            assert (record.kind == "duel") == (record.width >= record.gamma)
    assert any(record.kind == "value" for record in later(strategy))


def test_duels_by_the_objective() -> None:
    """Property 12: no value is ever chosen, and the best item in duels is recommended."""
    strategy = on_items(budget=6, gamma=0.0, borda_slack=0.0)
    play(strategy)
    assert {record.kind for record in later(strategy)} == {"duel"}
    duelled = strategy.duels.items
    mean = strategy.duels.model().posterior(duelled).mean
    assert torch.equal(strategy.recommend(), duelled[int(mean.argmax())])
    assert not torch.equal(strategy.recommend(), strategy.values.best().item)


@torch.no_grad()
def test_a_wide_gamma_and_a_wide_slack() -> None:
    """Property 12: one duel, and then the maximum of the values' bound alone is measured."""
    strategy = on_a_box(gamma=math.inf, borda_slack=10.0, budget=20)
    play(strategy, 12)
    query = strategy.ask()
    assert [record.kind for record in later(strategy)] == ["duel", "value", "value", "value"]
    beta, model = 0.5 * math.log(2 * len(later(strategy))), strategy.values.model()
    items = torch.cat([query.items.unsqueeze(0), strategy.space.sample(4096, 1)])
    posterior = model.posterior(items.unsqueeze(-2))
    bounds = posterior.mean.flatten() + beta * posterior.variance.flatten().sqrt()
    assert bounds[0] >= bounds.max() - 1e-6


def test_without_a_duel_the_prior_says_how_wide() -> None:
    """Property 12: above its width, one duel is asked, then values alone."""
    strategy = on_table(gamma=math.inf, num_initial_duels=0)
    play(strategy, 3 + 4)
    assert [record.kind for record in later(strategy)] == ["duel", "value", "value", "value"]
    assert later(strategy)[0].width == pytest.approx(0.5 * math.log(2) * math.sqrt(1 / 12))


def test_each_answer_reaches_one_model() -> None:
    """Property 14; of a duel the first item alone."""
    strategy = on_a_box(budget=20)
    play(strategy, 12)
    borda, objective = strategy.duels.model(), strategy.values.model()
    strategy._learn(Answered(Evaluate(99, BOX.mean(0)), 1.0))
    assert strategy.duels.model() is borda
    assert strategy.values.model() is not objective
    objective = strategy.values.model()
    strategy._learn(Answered(Duel(100, BOX), 1.0))
    assert strategy.values.model() is objective
    first = torch.stack([query.items[0] for query, _ in strategy.duels.answers])
    items = strategy.duels.model().items
    assert torch.equal(items, torch.unique(first, dim=0))
    assert not (items == BOX[1]).all(-1).any()  # the opponent


def test_resumes_exactly() -> None:
    options = {"budget": 8, "gamma": 0.2}
    whole, part = on_a_box(**options), on_a_box(**options)
    for number, query in enumerate(play(whole, 14)):
        if number in (4, 9, 11, 13):
            part = stored(part)  # type: ignore[assignment]
        assert part.ask() == query
        if number == 12:
            part = stored(part)  # type: ignore[assignment]  # a query is open
        part.tell(part.ask(), reply(query))
    assert repr(part.records) == repr(whole.records)  # a width of nothing is not equal to itself
    assert part.state_dict() == whole.state_dict()


def test_an_interrupted_choice_moves_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, twin = on_a_box(), on_a_box()
    for one in (strategy, twin):
        play(one, 9)
        one.phase = 2

    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(strategy.space), "maximize", interrupted)
        with pytest.raises(KeyboardInterrupt):
            strategy.ask()
    assert play(strategy, 3) == play(twin, 3)
    assert repr(strategy.records) == repr(twin.records)  # with nan, which equals nothing


@pytest.mark.parametrize(
    ("options", "streak", "steps"),
    [
        ({"gamma": 1e-9, "borda_slack": 0.0, "covar_module": known_kernel()}, 10, 25),
        ({"gamma": 0.12, "borda_slack": 0.05, "covar_module": known_kernel(0.3, 0.3)}, 4, 36),
    ],
)
def test_gamma_doubles_after_many_duels_in_a_row(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], streak: int, steps: int
) -> None:
    """Property 15: a value begins the count again."""
    monkeypatch.setattr(comp_gp_ucb, "GAMMA_STREAK", streak)
    strategy = on_table(**options)
    play(strategy, 11 + steps)
    gamma, duels = options["gamma"], 0
    for record in later(strategy):
        assert record.gamma == gamma
        duels = duels + 1 if record.kind == "duel" else 0
        if duels == streak:
            gamma, duels = 2 * gamma, 0
    assert gamma > options["gamma"]
    kinds = "".join(record.kind[0] for record in later(strategy))
    assert ("dv" in kinds and "vd" in kinds) == (streak == 4)


def test_gamma_follows_from_the_slack() -> None:
    assert on_table(borda_slack=0.4).current_gamma == 0.1
    assert on_table(borda_slack=0.0).current_gamma == 0.02
    assert on_table(borda_slack=0.4, gamma=0.3).current_gamma == 0.3


def test_choices_do_not_depend_on_the_unit_of_values() -> None:
    def items(scale: float, offset: float) -> list[list[float]]:
        strategy, found = on_table(gamma=0.12, borda_slack=0.05), []
        for number in range(11 + 10):
            query = strategy.ask()
            value = math.sin(7.0 * float(query.items.flatten()[0])) + 0.3 * (number % 2)
            told = offset + scale * value if query.items.dim() == 1 else float(value > 0.2)
            strategy.tell(query, told)
            found.append(query.items.tolist())
        return found

    assert items(1.0, 0.0) == items(1e-3, 1e6) == items(1e-12, 0.0)


def test_multiples() -> None:
    """Property 19: the table of the paper's schedule."""
    expected = (0.3466, 0.6931, 1.4979, 2.3026, 2.6492, 3.4539, 3.8005)
    for t, multiple in zip((1, 2, 10, 50, 100, 500, 1000), expected, strict=True):
        assert OptimisticStep(on_table(), t).beta == pytest.approx(multiple, abs=5e-5)
    assert OptimisticStep(on_table(beta=1.7), 9).beta == 1.7


# By algebra that shares no code.

Moments = tuple[np.ndarray, np.ndarray]


def regression(items: Any, targets: Any, at: Any, fit: dict[str, Any], noise: float) -> Moments:
    """Mean and variance by the formula (2) of the paper, around a constant."""

    def covariance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        gap = ((a[:, None] - b[None]) ** 2).sum(-1)
        return fit["outputscale"] * np.exp(-0.5 * gap / fit["lengthscale"] ** 2)

    noisy = covariance(items, items) + noise * np.eye(len(items))
    cross = covariance(items, at)
    solved = np.linalg.solve(noisy, cross)
    mean = fit["mean"] + solved.T @ (targets - fit["mean"])
    return mean, fit["outputscale"] - (cross * solved).sum(0)


def unit(items: Tensor) -> np.ndarray:
    return np.asarray(((items - BOX[0]) / (BOX[1] - BOX[0])).numpy())


def learnt(model: Any) -> dict[str, float]:
    """The hyperparameters of a model."""
    kernel = model.covar_module
    found = (kernel.base_kernel.lengthscale, kernel.outputscale, model.mean_module.constant)
    numbers = [float(number.detach()) for number in found]
    return dict(zip(("lengthscale", "outputscale", "mean"), numbers, strict=True))


def test_every_choice_is_what_the_formulas_ask_for() -> None:
    """Phase 2: ``phi`` and the width of each item by algebra, from what was known before it."""
    strategy = on_a_box(borda_slack=0.01, gamma=0.2, gamma_factor=1.0, budget=None, beta=1.0)
    queries = play(strategy, 9)
    kinds = []
    while len(kinds) < 8:
        query = strategy.ask()
        record = strategy.records[-1]
        if record.phase == "filtered":
            duels = [asked for asked in queries if isinstance(asked, Duel)]
            items = unit(torch.stack([duel.items[0] for duel in duels]))
            wins = np.array([reply(duel) for duel in duels])
            at = np.concatenate(
                [unit(query.items.view(-1, 2)[:1]), items, unit(strategy.space.sample(4096, 9))]
            )
            fit = learnt(strategy.duels.model())
            assert fit["mean"] == 0.5
            mean, variance = regression(items, wins, at, fit, 0.25)
            width = np.sqrt(variance)  # beta is 1
            phi = mean[0] + width[0] - record.lower_bound + 0.01
            assert phi >= -1e-6
            assert record.feasibility == pytest.approx(phi, abs=1e-8)
            assert record.width == pytest.approx(width[0], abs=1e-8)
            assert isinstance(query, Evaluate) == (width[0] < 0.2)
            # The bound is the largest one of a sample and what was asked.
            lower = mean - width
            assert lower[1 : 1 + len(items)].max() - 1e-8 <= record.lower_bound
            assert record.lower_bound <= lower[1:].max() + 1e-2
            kinds.append(record.kind)
        strategy.tell(query, reply(query))
        queries.append(query)
    assert {*kinds} == {"duel", "value"}


def test_the_same_seed_asks_the_same_on_a_device(device: torch.device) -> None:
    made = [on_a_box(bounds=BOX.to(device), seed=4, gamma=0.4) for _ in range(2)]
    traces = [[query.items for query in play(strategy, 8)] for strategy in made]
    assert all(items.device == device for trace in traces for items in trace)
    assert all(torch.equal(a, b) for a, b in zip(*traces, strict=True))


# The guarantee. All hyperparameters are known, and the Borda function is of their space.

TABLE = torch.linspace(0.0, 1.0, 24, dtype=torch.float64).unsqueeze(-1)
BETA, GAMMA = 3.0, 0.15


def member(seed: int) -> np.ndarray:
    """A function of the kernel's space on the table, between 0.05 and 0.95, which it reaches."""
    rng = np.random.default_rng(seed)
    centres, weights = rng.random(8), rng.standard_normal(8)
    x = TABLE.numpy()
    raw = np.exp(-0.5 * (x - centres) ** 2 / 0.4**2) @ weights
    # About 1/2, so that nothing but the kernel's functions is in it.
    return np.asarray(0.5 + 0.45 * raw / np.abs(raw).max())


@pytest.mark.slow
@torch.no_grad()
def test_the_best_item_is_never_filtered_out() -> None:
    """Claim 7 and Lemma 9 hold in every run in which the bounds do, which is nearly every one."""
    held, excluded = 0, 0
    known = {"gamma": GAMMA, "beta": BETA, "covar_module": known_kernel(0.4, 0.1)}
    known |= {"gamma_factor": 1.0, "num_initial_duels": 2, "num_initial_values": 2}
    for seed in range(50):
        wins, rng = member(seed), np.random.default_rng(seed + 5000)
        values = wins + 0.2 * member(seed + 1000)
        slack = float(wins.max() - wins[values.argmax()])
        strategy = CompGPUCB(choices=TABLE, seed=seed, borda_slack=slack, **known)
        within, slacks, measured = True, [], []
        while len(measured) < 6:
            query = strategy.ask()
            record = strategy.records[-1]
            if record.phase != "initial":
                lower, upper = (e.numpy() for e in strategy.duels.model().interval(TABLE, BETA))
                within &= bool((lower <= wins).all() and (wins <= upper).all())
            if record.phase == "filtered":
                slacks.append(upper[values.argmax()] + slack - record.lower_bound)
                if isinstance(query, Evaluate):
                    measured.append(wins[query.indices])
            if isinstance(query, Evaluate):
                strategy.tell(query, float(values[query.indices]))
            else:
                strategy.tell(query, float(rng.random() < wins[query.indices[0]]))
        if within:
            least = wins.max() - slack - 4.0 * GAMMA
            held, excluded = held + 1, excluded + int((wins < least).sum())
            assert min(slacks) >= 0.0, seed
            assert min(measured) >= least, seed
    assert held >= 45
    assert excluded > 50  # items that must not be measured


REGRET_SEEDS = 20
ZETA, RANGE = 0.252, 12.618314  # f(x*) - f_c(x*), and the range of f
COMP = partial(CompGPUCB, borda_slack=ZETA / 4)


def mean_regret(make: Callable[..., Any], budget: int) -> float:
    """``S``: the best of all items that were asked, opponents included; mean over the seeds."""
    problem, regrets = CurrinExp(), []
    for seed in range(REGRET_SEEDS):
        strategy = make(bounds=problem.bounds, seed=seed, budget=budget)
        judge, best = DuelingChoiceJudge(problem, seed), -np.inf
        while not strategy.finished:
            try:
                query = strategy.ask()
            except UnsupportedError:  # what was chosen cannot be paid
                break
            best = max(best, float(problem(query.items).max()))
            strategy.tell(query, judge(query, len(strategy.records)))
        regrets.append(problem.optimal_value - best)
    return float(np.mean(regrets))


@pytest.mark.slow
def test_initial_duels_find_good_items() -> None:
    """At cost 10 there is nothing but the initial design, of which opponents are a half."""
    assert mean_regret(COMP, 10) <= mean_regret(GPUCB, 10) / 3.0


@pytest.mark.slow
def test_it_ends_near_the_best_item() -> None:
    found = mean_regret(COMP, 100)
    assert found <= 0.01
    # With ``gamma = range(f) zeta``, as printed, which duels of probabilities never reach.
    printed = partial(MFGPUCB, borda_slack=ZETA, gamma=RANGE * ZETA)
    assert mean_regret(printed, 100) >= 5.0 * found


@torch.no_grad()
def test_duels_of_one_item_narrow_the_width_around_it() -> None:
    """Lemma 10, with ``C = v / l^2``: it holds, and not with much less."""
    generator = torch.Generator().manual_seed(1)
    tightest = 0.0
    for _ in range(40):
        draws = torch.rand(4, generator=generator, dtype=torch.float64)
        lengthscale, variance = 0.1 + float(draws[0]), 0.05 + float(draws[1])
        diameter, repeats = 0.5 * float(draws[2]), int(10 ** (3 * float(draws[3])))
        kernel = ScaleKernel(RBFKernel()).double()
        kernel.base_kernel.lengthscale, kernel.outputscale = lengthscale, variance
        centre = torch.full((2,), 0.5, dtype=torch.float64)
        answers = torch.zeros(repeats, dtype=torch.float64)
        model = BordaGP.from_duels(centre.expand(repeats, 2), answers, covar_module=kernel)
        angle = 6.28 * torch.rand(16, generator=generator, dtype=torch.float64)
        radius = diameter * torch.rand(16, 1, generator=generator, dtype=torch.float64)
        near = centre + radius * torch.stack([angle.cos(), angle.sin()], dim=-1)
        lower, upper = model.interval(near, 1.0)
        left = (0.5 * (upper - lower)).square()
        bound = variance / lengthscale**2 * diameter**2 + 0.25 / repeats
        assert (left <= bound + 1e-12).all()
        tightest = max(tightest, float((left / bound).max()))
    assert tightest > 0.5
