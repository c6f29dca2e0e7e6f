"""COMP-GP-UCB: what is asked when, budgets, filters, state."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError, UnsupportedError
from botorch_pref.queries import Duel, Evaluate, Label, Query
from botorch_pref.strategies import CompGPUCB
from botorch_pref.strategies.base import Answered
from botorch_pref.strategies.comp_gp_ucb.step import Step
from tests.models.common import rand

BOX = torch.tensor([[-1.0, 0.0], [2.0, 4.0]], dtype=torch.float64)
QUICK: dict[str, Any] = {"num_initial_duels": 6, "num_initial_values": 3, "budget": 6}


def on_a_box(**kwargs: Any) -> CompGPUCB:
    return CompGPUCB(**{"bounds": BOX, **QUICK, **kwargs})


def on_items(**kwargs: Any) -> CompGPUCB:
    return CompGPUCB(**{"choices": rand(20, 2), **QUICK, **kwargs})


def value(items: Tensor) -> Tensor:
    """Largest, 0, near the middle of the box."""
    return -((items.cpu() - torch.tensor([0.6, 0.4], dtype=torch.float64)) ** 2).sum(-1)


def answer(query: Query) -> float:
    if isinstance(query, Evaluate):
        return float(value(query.items))
    first, second = value(query.items)
    return float(first > second)


def play(strategy: CompGPUCB, most: int = 1000) -> list[Query]:
    queries: list[Query] = []
    while not strategy.finished and len(queries) < most:
        try:
            queries.append(strategy.ask())
        except UnsupportedError:
            break
        strategy.tell(queries[-1], answer(queries[-1]))
    return queries


def stored(strategy: CompGPUCB) -> CompGPUCB:
    text = json.dumps(strategy.state_dict(), allow_nan=False)
    return CompGPUCB.from_state_dict(json.loads(text))


@pytest.mark.parametrize("make", [on_a_box, on_items])
def test_a_run(make: Any) -> None:
    """Duels, values and bounds are what the records say, to the last cent."""
    strategy = make(borda_slack=0.0, gamma=0.3)
    queries = play(strategy)
    costs = strategy.settings.costs
    duels = sum(isinstance(query, Duel) for query in queries)
    assert strategy.spent == costs.spent(duels, len(queries) - duels) <= costs.budget
    assert [record.kind for record in strategy.records] == [
        "duel" if isinstance(query, Duel) else "value" for query in queries
    ]
    later = [record for record in strategy.records if record.phase != "initial"]
    assert {record.phase for record in later} == {"duels", "filtered"}
    assert [record.phase for record in later] == sorted(record.phase for record in later)
    for record in later:
        if record.phase == "filtered":
            assert record.feasibility >= -1e-6
            assert (record.kind == "duel") == (record.width >= record.gamma)
    assert any(record.kind == "value" for record in later)
    with pytest.raises(UnsupportedError, match="budget of 6 is spent"):
        strategy.ask()
    assert len(strategy.beliefs.duels) == duels


@pytest.mark.slow
def test_it_finds_a_good_item() -> None:
    strategy = on_a_box(budget=9, gamma=0.5)
    play(strategy)
    assert float(value(strategy.recommend())) > -0.05
    table = on_items(budget=9, gamma=0.5)
    play(table)
    assert table.recommend_index() == int(value(table.space.table).argmax())


def test_duels_by_the_objective_recommend() -> None:
    """No value is ever chosen then, and those of the initial design are few."""
    strategy = on_items(budget=6, gamma=0.0, borda_slack=0.0)
    play(strategy)
    duelled = strategy.beliefs.items("duels")
    mean = strategy.beliefs.borda().posterior(duelled).mean
    assert strategy.beliefs.values
    assert torch.equal(strategy.recommend(), duelled[int(mean.argmax())])
    assert not torch.equal(strategy.recommend(), strategy.beliefs.best("values")[0])


def test_opponents_are_uniform_and_others() -> None:
    strategy = on_items(num_initial_duels=400, num_initial_values=0, budget=40)
    queries = play(strategy)
    opponents = torch.tensor([query.indices[1] for query in queries])
    assert all(query.indices[0] != query.indices[1] for query in queries)
    counts = torch.bincount(opponents, minlength=20)
    assert counts.min() > 3
    assert counts.max() < 50
    for query in queries:
        assert torch.equal(query.items, strategy.space.table[list(query.indices)])


def test_without_gamma_there_are_duels_only() -> None:
    strategy = on_a_box(gamma=0.0, borda_slack=0.0, budget=5)
    play(strategy)
    kinds = [record.kind for record in strategy.records if record.phase != "initial"]
    assert kinds.count("duel") == len(kinds) > 5


def test_a_wide_gamma_leaves_one_duel() -> None:
    strategy = on_a_box(gamma=math.inf, budget=7)
    play(strategy)
    kinds = [record.kind for record in strategy.records if record.phase != "initial"]
    assert kinds == ["duel", "value", "value", "value"]


def test_a_wide_slack_is_no_filter() -> None:
    """What is measured is then the maximum of the values' bound alone."""
    strategy = on_a_box(gamma=math.inf, borda_slack=10.0, budget=7)
    play(strategy, 10)
    query = strategy.ask()
    assert isinstance(query, Evaluate)
    with torch.no_grad():
        _check_that_it_is_the_maximum(strategy, query)


def _check_that_it_is_the_maximum(strategy: CompGPUCB, query: Evaluate) -> None:
    beliefs, beta = strategy.beliefs, strategy.settings.beta_at(strategy.schedule.step, 2)
    posterior = beliefs.objective().posterior(strategy.space.sample(4096, 1).unsqueeze(-2))
    others = posterior.mean.flatten() + beta * posterior.variance.flatten().sqrt()
    chosen = beliefs.objective().posterior(query.items.unsqueeze(0))
    best = float(chosen.mean) + beta * float(chosen.variance.sqrt())
    assert best >= float(others.max()) - 1e-6


def test_each_answer_reaches_one_model() -> None:
    strategy = on_a_box(budget=20)
    play(strategy, 12)
    borda, objective = strategy.beliefs.borda(), strategy.beliefs.objective()
    strategy._learn(Answered(Evaluate(99, BOX.mean(0), None, None), 1.0))
    assert strategy.beliefs.borda() is borda
    objective = strategy.beliefs.objective()
    strategy._learn(Answered(Duel(100, BOX, None, None), 1.0))
    assert strategy.beliefs.objective() is objective
    first = torch.stack([query.items[0] for query, _ in strategy.beliefs.duels])
    assert torch.equal(strategy.beliefs.borda().items, torch.unique(first, dim=0))
    assert not (strategy.beliefs.borda().items == BOX[1]).all(-1).any()  # the opponent
    with pytest.raises(ComparisonDataError, match="neither for a duel nor a value"):
        strategy._learn(Answered(Label(101, BOX[0], None, None), 1.0))


@pytest.mark.parametrize(
    "lower_bound",
    ["cummax", *(pytest.param(a, marks=pytest.mark.slow) for a in ("running", "frozen"))],
)
def test_resumes_exactly(lower_bound: Any) -> None:
    options = {"budget": 8, "gamma": 0.2, "lower_bound": lower_bound}
    whole, part = on_a_box(**options), on_a_box(**options)
    expected = play(whole, 14)
    for number, query in enumerate(expected):
        if number in (4, 9, 11, 13):
            part = stored(part)
        assert part.ask() == query
        if number == 12:
            part = stored(part)  # a query is open
        part.tell(part.ask(), answer(query))
    # A width of nothing is not equal to itself.
    assert repr(part.records) == repr(whole.records)
    assert part.schedule == whole.schedule


def test_a_remainder_may_buy_duels() -> None:
    options = {"gamma": math.inf, "value_cost": 1, "duel_cost": 0.3, "budget": 5.8}
    stopped, further = on_a_box(**options), on_a_box(**options, spend_remainder="duel")
    play(stopped)
    play(further)
    assert stopped.records == further.records[: len(stopped.records)]
    left = [record.kind for record in further.records[len(stopped.records) :]]
    assert left
    assert set(left) == {"duel"}


def test_skipped_queries_are_paid_and_not_learnt() -> None:
    strategy = on_a_box()
    for _ in range(4):
        strategy.tell(strategy.ask(), None)
    assert strategy.spent == strategy.settings.costs.spent(4, 0)
    assert strategy.num_answers == 0
    with pytest.raises(ComparisonDataError, match="Nothing was answered"):
        strategy.recommend()
    none = on_a_box(num_initial_duels=0, num_initial_values=0, budget=1)
    for query in play(none, 3):
        assert isinstance(query, Duel)
    with pytest.raises(SearchSpaceError):
        none.recommend_index()


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_bounds_of_the_best_in_duels(factor: float) -> None:
    """Frozen is that of the last item of phase 1, before its duel; the largest starts there."""
    options: dict[str, Any] = {"gamma": 0.25, "gamma_factor": 1.0, "refit_duels": 99, "budget": 9}
    options |= {"borda_slack": 0.05, "slack_limit": 0.1, "slack_factor": factor, "seed": 0}
    frozen, largest = (on_a_box(lower_bound=a, **options) for a in ("frozen", "cummax"))
    for strategy in (frozen, largest):
        bounds: list[float] = []
        while not strategy.finished:
            before = strategy.schedule.phase
            try:
                query = strategy.ask()
            except UnsupportedError:
                break
            if before != strategy.schedule.phase:  # the model has not seen this duel yet
                step = Step(
                    strategy.beliefs,
                    strategy.settings,
                    replace(strategy.schedule, step=strategy.schedule.step - 1),
                    strategy.seed,
                )
                expected = step.ends(query.items[0])[0]
            record = strategy.records[-1]
            if record.phase == "filtered":
                bounds.append(record.lower_bound)
                assert record.slack == factor * strategy.schedule.slack
            strategy.tell(query, answer(query))
        assert len(bounds) > 4
        assert strategy.schedule.frozen == pytest.approx(expected, abs=1e-12)
        if strategy is frozen:
            assert set(bounds) == {strategy.schedule.frozen}
        else:
            assert bounds == sorted(bounds)
            assert bounds[0] >= strategy.schedule.frozen
            assert bounds[-1] > bounds[0]


@pytest.mark.parametrize("make", [on_a_box, on_items])
def test_an_empty_set_falls_back_to_the_most_promising_in_duels(make: Any) -> None:
    """A frozen bound may be out of reach; it is recorded, and nothing is lost."""
    strategy = make(lower_bound="frozen", borda_slack=0.0)
    play(strategy, 10)
    strategy.schedule.phase, strategy.schedule.frozen = 2, 5.0
    strategy.ask()
    record = strategy.records[-1]
    assert record.empty
    assert record.feasibility < 0.0


def test_an_interrupted_choice_moves_nothing_on(monkeypatch: pytest.MonkeyPatch) -> None:
    strategy, twin = on_a_box(), on_a_box()
    for one in (strategy, twin):
        play(one, 9)
        one.schedule.phase = 2

    def interrupted(*args: Any, **kwargs: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(strategy.space), "maximize", interrupted)
        with pytest.raises(KeyboardInterrupt):
            strategy.ask()
    for _ in range(3):
        query, other = strategy.ask(), twin.ask()
        assert torch.equal(query.items, other.items)
        assert strategy.records[-1] == twin.records[-1]
        strategy.tell(query, answer(query))
        twin.tell(other, answer(other))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_small_set_is_not_taken_for_an_empty_one(seed: int) -> None:
    """A frozen bound may leave less than any sample hits."""
    strategy = on_a_box(
        lower_bound="frozen", borda_slack=0.0, num_initial_duels=40, budget=20, seed=seed
    )
    play(strategy, 45)
    strategy.schedule.phase = 2
    step = Step(strategy.beliefs, strategy.settings, replace(strategy.schedule), strategy.seed)
    highest = step.ends(step.to_duel().items[0])[1]
    items = torch.cat([strategy.space.sample(512, step.seed), step.asked()])
    of_sample = max(step.ends(item)[1] for item in items)
    assert of_sample < highest
    strategy.schedule.frozen = 0.5 * (of_sample + highest)
    strategy.ask()
    record = strategy.records[-1]
    assert not record.empty
    assert record.feasibility >= -1e-8
