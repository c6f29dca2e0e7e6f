"""COBOL: its bookkeeping, both candidates, trust, handover, presets, state."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchError
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError
from botorch_pref.queries import Evaluate, Label, Query
from botorch_pref.strategies import COBOHL, COBOL
from botorch_pref.strategies.cobol import Decision
from tests.models.common import rand

BOX = torch.tensor([[-1.0, 0.0], [2.0, 4.0]], dtype=torch.float64)
QUICK = {"num_initial_values": 3, "num_initial_labels": 4}


def on_a_box(**kwargs: Any) -> COBOL:
    return COBOL(**{"bounds": BOX, **QUICK, **kwargs})


def on_items(**kwargs: Any) -> COBOL:
    return COBOL(**{"choices": rand(20, 2), **QUICK, **kwargs})


def value(items: Tensor) -> Tensor:
    """Largest, 0, near the middle of the box."""
    return -((items - torch.tensor([0.6, 0.4], dtype=torch.float64)) ** 2).sum(-1)


def accept(items: Tensor) -> float:
    return float(value(items) > -0.5)


def reply(query: Query, expert: Any = accept) -> float | None:
    return expert(query.items) if isinstance(query, Label) else float(value(query.items))


def play(strategy: COBOL, steps: int, expert: Any = accept) -> list[Query]:
    queries = []
    for _ in range(steps):
        query = strategy.ask()
        strategy.tell(query, reply(query, expert))
        queries.append(query)
    return queries


def stored(strategy: COBOL) -> COBOL:
    return COBOL.from_state_dict(json.loads(json.dumps(strategy.state_dict(), allow_nan=False)))


@pytest.mark.parametrize("make", [on_a_box, on_items])
def test_bookkeeping(make: Any) -> None:
    """The initial design; then a rejected item is not measured, an accepted one at once."""
    strategy = make(threshold=0.0, seed=1)
    queries = play(strategy, 16 if strategy.space.choices is not None else 11)
    kinds = [type(query) for query in queries]
    assert kinds[:7] == [Evaluate] * 3 + [Label] * 4
    for query, following in itertools.pairwise(queries[7:]):
        decision = strategy.decisions[query.id]
        if isinstance(query, Label):
            assert decision.source == "augmented"
            took = isinstance(following, Evaluate) and torch.equal(following.items, query.items)
            assert took == bool(accept(query.items))
        elif decision.source == "vanilla":
            assert not decision.asks
    measured = [q for q in queries if isinstance(q, Evaluate)]
    assert len(strategy.beliefs.measured) == len(measured)
    assert len(strategy.decisions) == len(queries)
    if strategy.space.choices is not None:
        for query in queries:
            assert torch.equal(query.items, strategy.space.table[query.indices])


def test_an_infinite_threshold_never_asks() -> None:
    strategy = on_items(threshold=math.inf)
    assert {type(query) for query in play(strategy, 12)[7:]} == {Evaluate}


def test_no_threshold_asks_at_every_trusted_step() -> None:
    strategy = on_items(threshold=0.0, max_rejections=None)
    queries = play(strategy, 20)
    for query in queries[7:]:
        decision = strategy.decisions[query.id]
        assert decision.asks == (decision.source == "augmented" and decision.reason != "accepted")


def test_trusted_steps_are_certified() -> None:
    """Property T15: the augmented item is no worse than the vanilla one by more than its width."""
    strategy = on_items(seed=3)
    play(strategy, 16)
    trusted = [d for d in strategy.decisions if d.source == "augmented" and d.reason != "accepted"]
    assert trusted
    for decision in trusted:
        # Where both candidates are one, nobody asks for the lower bounds.
        assert not decision.bound < decision.best_lower - 1e-12
        assert decision.vanilla_deviation <= 3.0 * decision.deviation + 1e-12


def test_the_weight_follows_its_rule() -> None:
    strategy = on_items(seed=2)
    before = strategy.weight
    for _ in range(18):
        (query,) = play(strategy, 1)
        decision = strategy.decisions[query.id]
        if not math.isnan(decision.upper) and decision.reason != "accepted":
            assert decision.weight == before
            assert strategy.weight == max(0.0, before - 0.02 * decision.upper)
            assert abs(strategy.weight - before) <= 0.02 * 3.0 + 1e-12
        before = strategy.weight
        assert strategy.weight >= 0


def test_without_weight_both_candidates_are_one() -> None:
    strategy = on_a_box(candidate="primal-dual", trust_weight=0.0, rate=0.0, threshold=math.inf)
    play(strategy, 12)
    for decision in strategy.decisions[7:]:
        assert decision.deviation == pytest.approx(decision.vanilla_deviation, abs=1e-9)
        assert decision.source == "augmented"


def test_an_expert_who_rejects_everything_does_not_stall() -> None:
    strategy = on_items(threshold=0.0, max_rejections=2)
    queries = play(strategy, 22, expert=lambda items: 0.0)
    runs = [
        len(list(group))
        for kind, group in itertools.groupby(map(type, queries[7:]))
        if kind is Label
    ]
    assert runs
    assert max(runs) <= 2
    assert any("in a row" in decision.reason for decision in strategy.decisions)


def test_what_depends_on_values_only_is_kept() -> None:
    """A label changes neither the vanilla item nor what is certain, which then can only grow."""
    strategy = on_a_box(seed=4, threshold=0.0)
    play(strategy, 7)
    known: list[Decision] = []
    for _ in range(4):
        query = strategy.ask()
        if not isinstance(query, Label):
            break
        known.append(strategy.decisions[query.id])
        strategy.tell(query, 0.0)
    assert len(known) > 2
    assert stored(strategy).ask() == strategy.ask()
    assert len({decision.vanilla_deviation for decision in known}) == 1
    certain = [d.best_lower for d in known if not math.isnan(d.best_lower)]
    assert certain == sorted(certain)


def test_an_expert_who_does_not_answer() -> None:
    strategy = on_items(threshold=0.0)
    queries = play(strategy, 15, expert=lambda items: None)
    assert not strategy.beliefs.labelled
    for query, following in itertools.pairwise(queries[7:]):
        if isinstance(query, Label):
            assert isinstance(following, Evaluate)
            assert strategy.decisions[following.id].source == "vanilla"
            assert "did not answer" in strategy.decisions[following.id].reason


def test_the_norm_bound_doubles_up_to_its_limit() -> None:
    rough = {"label_lengthscale": 1.0, "label_intercept": 0.0}
    strategy = on_items(norm_bound=0.5, norm_bound_limit=2.0, **rough)
    bounds = []
    for _ in range(20):
        play(strategy, 1)
        bounds.append(strategy.beliefs.norm_bound)
    assert bounds == sorted(bounds)
    assert all(b <= 2.0 for b in bounds)
    assert bounds[-1] == 2.0
    assert all(after <= 2 * before for before, after in itertools.pairwise(bounds))


def test_it_finds_a_good_item() -> None:
    strategy = on_a_box(seed=0, threshold=math.inf)
    play(strategy, 13)
    assert float(value(strategy.recommend())) > -0.05
    table = on_items(seed=0)
    play(table, 24)
    best = int(value(table.space.table).argmax())
    assert table.recommend_index() == best


@pytest.mark.slow
def test_with_an_expert_it_finds_a_good_item_of_a_box() -> None:
    """And its trusted steps are certified there, too: both are seconds a step."""
    strategy = on_a_box(seed=0)
    play(strategy, 24)
    assert float(value(strategy.recommend())) > -0.05
    trusted = [d for d in strategy.decisions if d.source == "augmented" and d.reason != "accepted"]
    assert trusted
    for decision in trusted:
        # Where both candidates are one, nobody asks for the lower bounds.
        assert not decision.bound < decision.best_lower - 1e-12
        assert decision.vanilla_deviation <= 3.0 * decision.deviation + 1e-12


@pytest.mark.parametrize("candidate", ["constrained", "hcei", "hcei upper", "belief"])
def test_other_candidates(candidate: Any) -> None:
    candidate, *words = candidate.split()
    strategy = on_a_box(candidate=candidate, **({"acceptance": words[0]} if words else {}), seed=1)
    play(strategy, 9, expert=lambda items: float(value(items) > -3.0))
    found = [d for d in strategy.decisions if not math.isnan(d.upper)]
    assert found
    if candidate == "constrained":
        assert all(d.upper >= -1e-6 for d in found)
    if candidate == "hcei":
        return
    # Where nothing is feasible, the least infeasible item is as good as any.
    wary = on_a_box(candidate=candidate, seed=1)
    play(wary, 9, expert=lambda items: 0.0)
    assert any(d.upper < 0 for d in wary.decisions)


def test_values_of_another_unit_ask_the_same() -> None:
    one, other = on_items(seed=5), on_items(seed=5)
    for _ in range(12):
        query, same = one.ask(), other.ask()
        assert type(query) is type(same)
        torch.testing.assert_close(query.items, same.items, atol=1e-5, rtol=0)
        answer = reply(query)
        one.tell(query, answer)
        scaled = isinstance(query, Evaluate)
        other.tell(same, 1000.0 * answer + 7.0 if scaled else answer)


@pytest.mark.parametrize(
    ("make", "steps"), [(on_items, 2), (on_items, 5), (on_items, 9), (on_items, 12), (on_a_box, 7)]
)
def test_it_resumes(make: Any, steps: int) -> None:
    strategy = make(seed=4, threshold=0.0)
    play(strategy, steps)
    strategy.ask()
    read = stored(strategy)
    assert read.state_dict() == strategy.state_dict()
    for _ in range(2):
        query, same = strategy.ask(), read.ask()
        assert query == same
        for either in (strategy, read):
            either.tell(query, reply(query))


def test_a_helpful_expert_is_asked_until_he_is_known() -> None:
    strategy = COBOHL(choices=rand(20, 2), seed=1, **QUICK)
    queries, states = [], []
    for steps in (8, 3, 3, 4):
        queries += play(strategy, steps)
        states.append(json.dumps(strategy.state_dict()))
    threshold = strategy.settings.threshold
    for query in queries[7:]:
        decision = strategy.decisions[query.id]
        ends = [1 / (1 + math.exp(-end)) for end in (decision.lower, decision.upper)]
        assert decision.asks == isinstance(query, Label) == (ends[1] - ends[0] > threshold)
        assert decision.reason != "accepted"
    # Feasible wherever anything is, under what was believed when it was chosen.
    for state in states:
        read = COBOHL.from_state_dict(json.loads(state))
        decision = read.decisions[read.ask().id]
        upper = read.beliefs.expert().upper(read.space.table)
        assert decision.upper >= min(0.0, float(upper.max())) - 1e-6
    assert read.ask() == strategy.ask()


def test_initial_values_that_are_skipped() -> None:
    """Others are asked for until there is one; then the design goes on."""
    strategy = on_items(num_initial_labels=1)
    for _ in range(5):
        query = strategy.ask()
        assert isinstance(query, Evaluate)
        strategy.tell(query, None)
    strategy.tell(strategy.ask(), 1.0)
    assert isinstance(strategy.ask(), Label)
    strategy.tell(strategy.ask(), 1.0)
    assert strategy.decisions[strategy.ask().id].source != "initial"


def test_the_papers_preset() -> None:
    settings = COBOL.paper(bounds=BOX).settings
    assert (settings.norm_bound_limit, settings.value_bound) == (None, None)
    assert (settings.threshold, settings.threshold_scale) == (0.1, "logit")
    assert settings.max_rejections is None
    assert settings.beta is None
    assert COBOL.paper(bounds=BOX, threshold=1e-5).settings.threshold == 1e-5


def test_before_anything_was_evaluated() -> None:
    with pytest.raises(ComparisonDataError, match="Nothing was evaluated"):
        on_a_box().recommend()
    strategy = on_a_box()
    play(strategy, 2)
    with pytest.raises(SearchSpaceError):
        strategy.recommend_index()


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"trust": 0.9}, "trust"),
        ({"threshold": -0.1}, "threshold"),
        ({"threshold_scale": "odds"}, "threshold_scale"),
        ({"candidate": "guess"}, "candidate"),
        ({"beta": 0.0}, "beta"),
        ({"beta": math.inf}, "beta"),
        ({"acceptance": "lower"}, "acceptance"),
        ({"label_window": 0}, "label_window"),
        ({"label_lengthscale": 0.0}, "label_lengthscale"),
        ({"label_intercept": 1.0}, "label_intercept"),
        ({"norm_bound": -1.0}, "norm_bound"),
        ({"norm_bound_limit": 0.0}, "norm_bound_limit"),
        ({"value_bound": 0.0}, "value_bound"),
        ({"rate": -1.0}, "rate"),
        ({"trust_weight": math.nan}, "trust_weight"),
        ({"num_initial_values": 0}, "num_initial_values"),
        ({"num_initial_labels": -1}, "num_initial_labels"),
        ({"max_rejections": 0}, "max_rejections"),
        ({"slack": "root"}, "slack"),
        ({"lengthscale_prior": 1}, "lengthscale_prior"),
        ({"eta": 3.0}, "eta"),
    ],
)
def test_bad_options_are_refused_at_once(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(BotorchError, match=argument):
        on_a_box(**options)
