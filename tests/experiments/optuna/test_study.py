"""Studies that are played: what is shown is the problem's item, and answers arrive."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from botorch_pref.queries import Duel
from experiments.optuna.problems import ShownProblem, shown_problems

pytest.importorskip("optuna_dashboard")

from optuna.samplers import RandomSampler
from optuna_dashboard.preferential.samplers.gp import PreferentialGPSampler

from botorch_pref.integrations.optuna import PreferentialSampler
from experiments.optuna.study import PlayedStudy, played_study, survivor

BEST = {"x1": 0.55, "x2": 10**-2.8, "x3": 11, "x4": "cedar"}


def mixed() -> ShownProblem:
    return shown_problems()[2]


def by_chance() -> PlayedStudy:
    return PlayedStudy(mixed(), RandomSampler(seed=0))


def enqueued(played: PlayedStudy) -> tuple[PlayedStudy, Duel]:
    """A study whose first two trials are the best item and another one."""
    played.study.enqueue_trial(BEST)
    played.study.enqueue_trial({"x1": 0.0, "x2": 1e-5, "x3": 20, "x4": "birch"})
    return played, played.ask()


def test_items_are_what_is_shown() -> None:
    query = enqueued(by_chance())[1]
    expected = [[0.55, 0.55, 0.55, 0.55], [0.0, 0.0, 1.0, 0.95]]
    torch.testing.assert_close(query.items, torch.tensor(expected, dtype=torch.double))
    problem = mixed()
    assert float(problem(query.items[0])) == pytest.approx(problem.optimal_value)
    assert problem.optimal_value > 0.0


@pytest.mark.parametrize("answer", [1.0, 0.0])
def test_the_worse_one_goes(answer: float) -> None:
    played, query = enqueued(by_chance())
    played.tell(query, answer)
    winner = query.items[0 if answer else 1]
    assert torch.equal(played.recommend(), winner)
    assert survivor(played.study).number == (0 if answer else 1)
    following = played.ask()
    assert following.id == 1
    assert torch.equal(following.items[0], winner)
    assert not torch.equal(following.items[1], query.items[1 if answer else 0])


def test_recommending_changes_no_proposal() -> None:
    rule = PreferentialSampler("eubo")
    played = [enqueued(PlayedStudy(mixed(), rule, rule.best_trial)) for _ in range(2)]
    for study, query in played:
        study.tell(query, 1.0)
    best = played[0][0].recommend()
    assert torch.equal(best, played[0][1].items[0])
    first, second = (study.ask().items for study, _ in played)
    assert torch.equal(first, second)


def test_all_samplers_begin_alike() -> None:
    starts = {
        seed: [
            played_study(name, mixed(), seed).ask().items
            for name in ("ts", "eubo", "eubo-10", "built-in", "random")
        ]
        for seed in (0, 1)
    }
    for first, *others in starts.values():
        assert all(torch.equal(first, other) for other in others)
        assert not torch.equal(first[0], first[1])
    assert not torch.equal(starts[0][0], starts[1][0])


def test_no_start_is_proposed_again_by_chance() -> None:
    played = played_study("random", mixed(), 0)
    seen = played.ask()
    played.tell(seen, 1.0)
    assert not (played.ask().items[1] == seen.items).all(-1).any()


def test_a_built_in_sampler_that_fails_begins_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[PreferentialGPSampler] = []
    healthy = PreferentialGPSampler.sample_relative

    def fails_once(self: PreferentialGPSampler, *args: Any) -> Any:
        calls.append(self)
        if len(calls) == 2:
            raise RuntimeError("not positive-definite")
        return healthy(self, *args)

    monkeypatch.setattr(PreferentialGPSampler, "sample_relative", fails_once)
    played = played_study("built-in", mixed(), 0)
    for _ in range(3):
        query = played.ask()
        played.tell(query, 1.0)
    last = played.ask().items[1]
    assert bool(((last >= 0.0) & (last <= 1.0)).all())
    assert "failed at trial 3: not positive-definite" in capsys.readouterr().err
    assert len({id(sampler) for sampler in calls}) == 2
