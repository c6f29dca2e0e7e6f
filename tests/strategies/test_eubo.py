"""EUBO: its value by quadrature, anchors and challengers, open duels, boxes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchError
from scipy import integrate

from botorch_pref.strategies import EUBO
from tests.contracts.strategy import BoxContract, StrategyContract, play
from tests.models.common import rand
from tests.strategies import common
from tests.strategies.common import APART, FIXED, GRID, LINE, PENALTY, Array, best

RULES: list[dict[str, Any]] = [{}, {"anchor": "incumbent"}]


def on_items(**kwargs: Any) -> EUBO:
    return EUBO(**{"choices": rand(8, 2), "hyperparameters": FIXED, **kwargs})


class TestContractOnChoices(StrategyContract):
    def make(self, seed: int = 0) -> EUBO:
        return on_items(choices=rand(12, 2), hyperparameters=APART, seed=seed)


class TestContractOnABox(BoxContract):
    def make(self, seed: int = 0) -> EUBO:
        return EUBO(bounds=LINE, hyperparameters=FIXED, anchor="incumbent", seed=seed)


def expected_best(mean: Array, covariance: Array, i: int, j: int) -> float:
    """``E[max(f_i, f_j)]`` by quadrature over the difference."""
    h, sd = mean[i] - mean[j], common.deviation(covariance, i, j)
    gain, _ = integrate.quad(
        lambda z: (h + sd * z) * math.exp(-z * z / 2), -h / sd, max(-h / sd, 0.0) + 12.0
    )
    return float(mean[j] + gain / math.sqrt(2 * math.pi))


@pytest.mark.parametrize("kappa", ["laplace", 4.0])
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_pair_maximises_the_rule(rule: dict[str, Any], kappa: Any) -> None:
    """Pair by pair, on an independent posterior; in the model's own units."""
    strategy = on_items(kappa=kappa, **rule)
    for step in range(6):
        mean, covariance = common.oracle(strategy)
        covariance = covariance / PENALTY
        items = range(len(mean))
        (query,) = common.play_noisily(strategy, 1, seed=step)
        first = query.indices[0]
        if rule:
            assert first in best(dict(enumerate(mean)))
        pairs = [(i, j) for i in ({first} if rule else items) for j in items if i != j]
        values = {(i, j): expected_best(mean, covariance, i, j) for i, j in pairs}
        assert query.indices in best(values)


def test_ties_are_broken_by_the_seed() -> None:
    far = torch.eye(4, dtype=torch.float64)
    asked = {
        on_items(choices=far, hyperparameters=APART, seed=seed).ask().indices for seed in range(150)
    }
    assert asked == {(i, j) for i in range(4) for j in range(4) if i != j}


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_no_item_meets_itself(rule: dict[str, Any]) -> None:
    """Not even where two choices are equal in value, or nothing is left to learn."""
    twins = torch.cat([GRID, GRID])
    for strategy in (
        on_items(choices=twins, **rule),
        EUBO(choices=GRID[:2], hyperparameters=FIXED, **rule),
    ):
        for query in play(strategy, 12):
            assert query.indices[0] != query.indices[1]
            assert torch.isfinite(query.items).all()


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_open_queries_differ(rule: dict[str, Any]) -> None:
    common.assert_open_queries_differ(lambda: on_items(**rule), num_annotators=4)
    common.assert_open_queries_differ(
        lambda: EUBO(bounds=LINE, hyperparameters=FIXED, **rule), num_annotators=2
    )


def test_open_duels_are_believed() -> None:
    waiting, answered = on_items(), on_items()
    for strategy in (waiting, answered):
        common.play_noisily(strategy, 9)
    query = waiting.ask("ann")
    mean, _ = common.oracle(waiting)
    first, second = mean[list(query.indices)]
    answered.tell(answered.ask("ann"), float(first > second))
    assert set(waiting.ask("bob").indices) == set(answered.ask("bob").indices)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"anchor": "best"}, "anchor"),
        ({"kappa": -1.0}, "kappa"),
    ],
)
def test_bad_options_are_refused_at_once(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(BotorchError, match=argument):
        on_items(**options)


# On a box.


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_rule_on_a_box(rule: dict[str, Any]) -> None:
    """No pair of a grid has a larger value."""
    strategy = EUBO(bounds=LINE, hyperparameters=FIXED, **rule)
    common.play_noisily(strategy, 5)
    asked = strategy.ask().items
    grid = common.line(151)
    if rule:
        with torch.no_grad():
            means = strategy.learner.model().posterior(torch.cat([asked, grid])).mean.flatten()
        assert means[0] >= means[2:].max() - 1e-4
    items = torch.cat([asked, grid])
    mean, deviation = common.joint(strategy, items)
    normal = torch.distributions.Normal(mean, deviation.clamp_min(1e-9))
    below = normal.cdf(torch.zeros(()))
    density = (normal.log_prob(torch.zeros(())) + 2 * normal.scale.log()).exp()
    with torch.no_grad():
        base = strategy.learner.model().posterior(items).mean.flatten()
    values = base + mean * (1 - below) + density
    rows = values[:1] if rule else values
    assert values[0, 1] >= rows.max() - 1e-3


def test_no_item_of_a_box_meets_itself() -> None:
    for rule in RULES:
        strategy = EUBO(bounds=LINE, hyperparameters=FIXED, **rule)
        for query in play(strategy, 4):
            assert float((query.items[0] - query.items[1]).abs()) > 1e-3 * 3.0
