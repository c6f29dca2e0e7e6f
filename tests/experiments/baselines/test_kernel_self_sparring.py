"""KernelSelfSparring: mirrored rows, draws that duel, times of refits, the contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.queries import Duel
from botorch_pref.strategies.base import Answered
from experiments.baselines import BordaUCB, KernelSelfSparring
from experiments.baselines.kernel_self_sparring.rows import DrawnPath
from tests.contracts.strategy import StrategyContract, stored
from tests.strategies.budgeted import oracle
from tests.strategies.budgeted.oracle import BOX, TABLE, answer, play


def on_a_box(**kwargs: Any) -> KernelSelfSparring:
    return KernelSelfSparring(**{"bounds": BOX, "num_initial_duels": 6, "refit_duels": 4, **kwargs})


class TestContract(StrategyContract):
    def make(self, seed: int = 0) -> KernelSelfSparring:
        return KernelSelfSparring(choices=TABLE, num_initial_duels=3, seed=seed)


def test_both_items_of_a_duel_are_learnt_from() -> None:
    """And of Borda-UCB the first alone, by the same algebra on the same kind of data."""
    strategy = KernelSelfSparring(choices=TABLE, num_initial_duels=15)
    play(strategy, 40)
    mean, _ = oracle.duels_at_choices(strategy, mirrored=True)
    found = strategy.regression._on_table().mean + 0.5
    np.testing.assert_allclose(found, mean, atol=1e-8)
    one_sided, _ = oracle.duels_at_choices(strategy)
    assert abs(found.numpy() - one_sided).max() > 0.05
    asked = {row for query, _ in strategy.history for row in query.indices}
    assert strategy.recommend_index() == max(asked, key=lambda row: mean[row])
    borda = BordaUCB(choices=TABLE, num_initial_duels=15)
    play(borda, 40)
    with torch.no_grad():
        posterior = borda.beliefs.borda().posterior(TABLE).mean.squeeze(-1)
    np.testing.assert_allclose(posterior, oracle.duels_at_choices(borda)[0], atol=1e-8)


def test_a_box_has_the_same_regression() -> None:
    strategy = on_a_box()
    play(strategy, 9)
    rows = strategy.regression._rows()
    known = [(q.items, y) for q, y in strategy.history]
    items = np.concatenate([oracle.unit(strategy, pair) for pair, _ in known])
    answers = np.array([side for _, y in known for side in (y, 1 - y)])
    found = oracle.fitted(strategy, "duels")
    mean, _ = oracle.regression(found, items, answers, 0.25, items)
    np.testing.assert_allclose(rows.mean() + 0.5, mean, atol=1e-8)
    best = strategy.history[mean.argmax() // 2].query.items[mean.argmax() % 2]
    assert torch.equal(strategy.recommend(), best)


def test_the_maximisers_of_two_draws_duel() -> None:
    strategy = on_a_box()
    play(strategy, 7)
    regression = strategy.regression
    (first, _), (second, _) = regression.duel(seed=5)
    assert not torch.equal(first, second)
    seeds: list[int] = []
    draw, rows = regression._rows().draw, regression._rows()
    rows.draw = lambda number, seed: seeds.append(seed) or draw(number, seed)  # type: ignore
    again = regression.duel(seed=5)
    assert torch.equal(again[0][0], first)
    draws, at = draw(2, seeds[0]), strategy.space.sample(2048, 3).unsqueeze(-2)
    with torch.no_grad():
        for number, item in enumerate((first, second)):
            path = DrawnPath(draws, number, strategy.space)
            assert float(path(item.view(1, 1, 2))) >= float(path(at).max()) - 1e-6


def test_draws_on_choices_favour_what_wins() -> None:
    strategy = KernelSelfSparring(choices=TABLE[:12], num_initial_duels=120)
    play(strategy, 121)
    rows = [row for seed in range(60) for _, row in strategy.regression.duel(seed)]
    mean = strategy.regression._on_table().mean
    top = set(mean.topk(4).indices.tolist())
    assert sum(row in top for row in rows) > 90
    assert len(set(rows)) > 1
    pairs = np.array(rows).reshape(-1, 2)
    assert (pairs[:, 0] != pairs[:, 1]).any()


def test_an_item_may_duel_itself() -> None:
    strategy = KernelSelfSparring(choices=TABLE[:2], num_initial_duels=40)
    queries = play(strategy, 60)
    own = [query for query in queries[40:] if query.indices[0] == query.indices[1]]
    assert own
    assert all(isinstance(query, Duel) for query in own)
    assert strategy.num_identical == len(own)
    assert len(strategy.regression.values) == 2 * (60 - len(own))
    assert strategy.regression.values[1::2] == [1 - z for z in strategy.regression.values[::2]]
    assert stored(strategy).num_identical == len(own)


def test_an_item_that_met_only_itself_may_be_the_best() -> None:
    """On a box by its own posterior mean, beside those that met others."""
    strategy = on_a_box()
    play(strategy, 8)
    best = strategy.recommend()
    apart = best + 1e-3 * (BOX.mean(0) - best)
    strategy._learn(Answered(Duel(99, torch.stack([apart, apart]), None, None), 1.0))
    rows = strategy.regression._rows()
    found = rows.mean_at(strategy.space.normalize(torch.stack([best, apart])))
    assert float(found[0]) == pytest.approx(float(rows.mean().max()), abs=1e-9)
    assert torch.equal(strategy.recommend(), torch.stack([best, apart])[int(found.argmax())])
    alone = on_a_box(num_initial_duels=0)
    alone._learn(Answered(Duel(0, BOX[[0, 0]], None, None), 1.0))
    assert torch.equal(alone.recommend(), BOX[0])


def test_equal_rows_of_a_table_are_two_items() -> None:
    strategy = KernelSelfSparring(choices=TABLE[[0, 1, 0]])
    strategy._learn(Answered(Duel(0, TABLE[[0, 0]], (0, 2), None), 1.0))
    assert len(strategy.regression.values) == 2
    assert strategy.num_identical == 0
    strategy._learn(Answered(Duel(1, TABLE[[0, 0]], (2, 2), None), 1.0))
    assert strategy.num_identical == 1


def test_resumes_exactly() -> None:
    """Also between two refits, where the factor has grown since the last one."""
    whole, part = on_a_box(), on_a_box()
    for number, query in enumerate(play(whole, 11)):
        if number in (7, 9):
            part = stored(part)
        assert part.ask() == query
        part.tell(query, answer(query))
    assert torch.equal(part.regression._rows().factor, whole.regression._rows().factor)


def test_times_of_refits(monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many duels and a tenth more."""
    module = "experiments.baselines.kernel_self_sparring.regression.fit_exactly"
    monkeypatch.setattr(module, lambda model, seed: False)
    strategy, times = KernelSelfSparring(choices=TABLE, refit_duels=5, num_initial_duels=120), []
    for number in range(120):
        strategy.regression.learn()
        if strategy.regression.progress()["fitted"]["size"] == number >= 2:
            times.append(number)
        query = strategy.ask()
        strategy.tell(query, answer(query))
    assert times[:6] == [2, 7, 12, 17, 22, 27]
    gaps = np.diff(times)
    assert (gaps >= 5).all()
    assert (10 * np.array(times[1:]) >= 11 * np.array(times[:-1])).all()
    assert gaps[-1] > 5


@pytest.mark.parametrize("domain", [{}, {"bounds": None, "choices": TABLE}])
def test_a_fit_sees_duels_of_all_times(
    domain: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some, on a box; on choices all, as there they have few rows."""
    module, seen = "experiments.baselines.kernel_self_sparring.regression", []
    monkeypatch.setattr(f"{module}._FIT_DUELS", 5)
    monkeypatch.setattr(f"{module}.fit_exactly", lambda model, seed: bool(seen.append(model)))
    strategy = on_a_box(**domain, num_initial_duels=21)
    queries = play(strategy, 21)
    strategy.regression.learn()
    chosen = queries if domain else [queries[i] for i in (0, 5, 10, 15, 20)]
    items = torch.cat([strategy.space.normalize(query.items) for query in chosen])
    assert torch.equal(seen[-1].items, torch.unique(items, dim=0))


def test_bad_options() -> None:
    for options, match in (({"refit_duels": 0}, "`refit_duels`"), ({"borda_noise": 0}, "`borda_")):
        with pytest.raises(ComparisonDataError, match=match):
            on_a_box(**options)
    with pytest.raises(ComparisonDataError, match="Unknown options"):
        on_a_box(beta=1.0)
