"""How gamma and slack move within a run, and that they are saved whatever they are."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
import torch

from botorch_pref.strategies import CompGPUCB
from botorch_pref.strategies.comp_gp_ucb import FilterRecord
from botorch_pref.strategies.comp_gp_ucb.step import Step
from tests.contracts.strategy import stored
from tests.strategies.budgeted.oracle import BOX, TABLE, play


def made(**options: Any) -> CompGPUCB:
    design = {"choices": TABLE, "num_initial_duels": 8, "num_initial_values": 3}
    return CompGPUCB(**{**design, **options})


def later(strategy: CompGPUCB) -> list[FilterRecord]:
    return [
        record
        for record in strategy.records
        if isinstance(record, FilterRecord) and record.phase != "initial"
    ]


def test_gamma_doubles_after_every_ten_duels() -> None:
    strategy = made(gamma=1e-9, borda_slack=0.0, refit_duels=99)
    play(strategy, 11 + 25)
    assert [record.kind for record in later(strategy)] == ["duel"] * 25
    for number, record in enumerate(later(strategy)):
        assert record.gamma == 1e-9 * 2 ** (number // 10)


def test_a_value_begins_the_count_anew() -> None:
    strategy = made(gamma=0.12, gamma_streak=4, borda_slack=0.05, refit_duels=99, refit_values=99)
    play(strategy, 11 + 36)
    gamma, streak = 0.12, 0
    for record in later(strategy):
        assert record.gamma == gamma
        streak = streak + 1 if record.kind == "duel" else 0
        if streak == 4:
            gamma, streak = 2 * gamma, 0
    kinds = "".join(record.kind[0] for record in later(strategy))
    assert "dv" in kinds
    assert "vd" in kinds
    assert gamma > 0.12


def test_sets_are_nested_in_the_slack() -> None:
    strategy = made(bounds=BOX, choices=None)
    play(strategy, 13)
    step = Step(strategy.beliefs, strategy.settings, strategy.schedule, seed=0)
    bound, at = step._lower_bound(), strategy.space.sample(2048, 0)
    with torch.no_grad():
        sets = [step._rule(0.02 * 2**k, bound).feasibility(at) >= 0 for k in range(5)]
    sizes = [int(one.sum()) for one in sets]
    assert sizes == sorted(sizes)
    assert 0 < sizes[0] < sizes[-1]
    for smaller, larger in itertools.pairwise(sets):
        assert not (smaller & ~larger).any()


@pytest.mark.parametrize("ratio", [pytest.param(1, marks=pytest.mark.slow), 4])
def test_an_unknown_slack_grows_within_the_budget(ratio: int) -> None:
    """Algorithm 2; with a limit that is reached at once it ends all the same."""
    options = {"borda_slack": 0.05, "slack_limit": 0.05 * ratio, "slack_factor": 2.0}
    strategy = made(gamma=1.0, budget="15.8", **options)
    play(strategy)
    assert strategy.finished
    values = [record for record in later(strategy) if record.kind == "value"]
    slacks = [record.slack for record in values]
    share = math.ceil(15 / (2 * max(1, math.ceil(math.log2(ratio)))))
    expected = [0.1 * 2 ** min(number // share, int(math.log2(ratio))) for number in range(12)]
    assert slacks == pytest.approx(expected[: len(slacks)])
    assert len(slacks) >= 11
    assert max(slacks) == pytest.approx(0.1 * ratio)


def test_a_state_is_json_and_a_snapshot() -> None:
    """Infinite options and bounds have words; what is learnt later is not in it."""
    strategy = made(gamma=math.inf, borda_slack=math.inf, refit_values=1)
    play(strategy, 13)
    state = strategy.state_dict()
    text = json.dumps(state, allow_nan=False)
    read = stored(strategy)
    assert (read.settings.gamma, read.settings.borda_slack) == (math.inf, math.inf)
    assert repr(read.records) == repr(strategy.records)
    assert play(read, 2) == play(strategy, 2)
    assert json.dumps(state, allow_nan=False) == text


def test_the_last_duel_of_phase_1_does_not_count_where_none_of_these_does() -> None:
    strategy = made(gamma=9.0, gamma_in_phase_1=False, gamma_streak=1)
    play(strategy, 11 + 1)
    assert strategy.schedule.phase == 2
    assert (strategy.schedule.gamma, strategy.schedule.streak) == (9.0, 0)


def test_without_a_duel_the_prior_says_how_wide() -> None:
    """Property 12: above its width, one duel is asked, then values alone."""
    strategy = made(gamma=math.inf, num_initial_duels=0)
    play(strategy, 3 + 4)
    assert [record.kind for record in later(strategy)] == ["duel", "value", "value", "value"]
    assert later(strategy)[0].width == pytest.approx(0.5 * math.log(2) * math.sqrt(1 / 12))
    assert strategy.schedule.step == 4


def test_choices_do_not_depend_on_the_unit_of_values() -> None:
    def items(scale: float, offset: float) -> list[list[float]]:
        strategy, found = made(gamma=0.12, borda_slack=0.05, refit_values=99), []
        for number in range(11 + 16):
            query = strategy.ask()
            value = math.sin(7.0 * float(query.items.flatten()[0])) + 0.3 * (number % 2)
            told = offset + scale * value if query.items.dim() == 1 else float(value > 0.2)
            strategy.tell(query, told)
            found.append(query.items.tolist())
        return found

    assert items(1.0, 0.0) == items(1e-3, 1e6) == items(1e-12, 0.0)
