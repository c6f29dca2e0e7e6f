"""EUBO: its value by quadrature, anchors and challengers, open duels, boxes."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from scipy import integrate

from botorch_pref.strategies import EUBO
from tests.models.common import rand
from tests.strategies import common
from tests.strategies.common import FIXED, LINE, PENALTY, Array, best

RULES: list[dict[str, Any]] = [{}, {"anchor": "incumbent"}]


def on_items(**kwargs: Any) -> EUBO:
    return EUBO(**{"choices": rand(8, 2), "hyperparameters": FIXED, **kwargs})


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
