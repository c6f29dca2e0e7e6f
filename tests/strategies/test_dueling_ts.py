"""DTS: the soft-Copeland winner of a draw, the least certain duel, the Condorcet winner."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch import Tensor

from botorch_pref.acquisition import DuelingThompsonSampling
from botorch_pref.inference.finite import FinitePosterior
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.strategies import DTS, dueling_ts
from botorch_pref.strategies.dueling_ts import WinVariance, win_variance
from tests.models.common import numerical_gradient, rand
from tests.strategies import common
from tests.strategies.common import FIXED, LINE, PENALTY, Array, best


def on_items(**kwargs: Any) -> DTS:
    return DTS(**{"choices": rand(8, 2), "hyperparameters": FIXED, **kwargs})


# Oracles: double loops and adaptive quadrature.


def copeland_of_draw(draw: list[float], opponents: list[float]) -> dict[int, float]:
    """How often each item wins on average, if the utility is the draw."""
    scores = {}
    for i, value in enumerate(draw):
        total = 0.0
        for other in opponents:
            total += 1.0 / (1.0 + math.exp(other - value))
        scores[i] = total / len(opponents)
    return scores


def logistic(h: float) -> float:
    return 0.5 * (1.0 + math.tanh(0.5 * h))


def probit(h: float) -> float:
    return 0.5 * math.erfc(-0.5 * h)  # of scale 1 / sqrt(2)


def average(function: Callable[[float], float], mean: float, deviation: float) -> float:
    """``E[function(h)]`` for a normal ``h``, by adaptive quadrature."""
    if deviation == 0.0:
        return function(mean)

    def integrand(z: float) -> float:
        return function(mean + deviation * z) * math.exp(-0.5 * z * z)

    steep = min(max(-mean / deviation, -11.0), 11.0)  # where the link is
    value, _ = integrate.quad(integrand, -12.0, 12.0, points=[steep], limit=200, epsabs=1e-10)
    return float(value) / math.sqrt(2 * math.pi)


def doubt(mean: float, deviation: float, link: Callable[[float], float] = logistic) -> float:
    """``Var[mu(h)]``."""
    expected = average(link, mean, deviation)
    return average(lambda h: (link(h) - expected) ** 2, mean, deviation)


def expected_copeland(mean: Array, covariance: Array) -> dict[int, float]:
    items = range(len(mean))
    return {
        i: sum(
            average(logistic, mean[i] - mean[j], common.deviation(covariance, i, j)) for j in items
        )
        / len(mean)
        for i in items
    }


@pytest.mark.parametrize(
    ("likelihood", "link"),
    [(LogitLikelihood(), logistic), (ProbitLikelihood(2**-0.5), probit)],
    ids=["logit", "probit"],
)
def test_the_variance_of_a_win(likelihood: BernoulliLikelihood, link: Any) -> None:
    means, deviations = [-7.0, -1.0, 0.0, 0.3, 4.0], [0.0, 1e-6, 0.05, 0.7, 3.0, 10.0]
    grid = torch.cartesian_prod(*(torch.tensor(v).double() for v in (means, deviations)))
    found = win_variance(likelihood, *grid.unbind(-1))
    expected = [doubt(mean, deviation, link) for mean, deviation in grid.tolist()]
    assert found.tolist() == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert (found <= 0.25).all()


# On choices.


@pytest.mark.parametrize("kappa", ["laplace", 4.0])
def test_the_pair(kappa: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first arm wins most often under the draw; its duel with the second is open to doubt."""
    draws: list[Tensor] = []
    sample = FinitePosterior.sample

    def spy(*args: Any) -> Tensor:
        draws.append(sample(*args))
        return draws[-1]

    monkeypatch.setattr(FinitePosterior, "sample", spy)
    strategy = on_items(kappa=kappa)
    for step in range(6):
        mean, covariance = common.oracle(strategy)
        covariance = covariance / PENALTY
        (query,) = common.play_noisily(strategy, 1, seed=step)
        first, second = query.indices
        values = draws[-1].tolist()
        assert first in best(copeland_of_draw(values, values), 1e-12)
        doubts = {
            j: doubt(mean[first] - mean[j], common.deviation(covariance, first, j))
            for j in range(len(mean))
            if j != first
        }
        assert second in best(doubts)
    assert len(draws) == 6


def test_the_first_arm_is_a_draw_from_the_posterior() -> None:
    """As often as an item is the best of an independent posterior."""
    strategy = on_items(choices=rand(5, 2))
    common.play_noisily(strategy, 4)
    mean, covariance = common.oracle(strategy)
    rng = np.random.default_rng(0)
    draws = rng.multivariate_normal(mean, covariance / PENALTY, 100_000)
    expected = np.bincount(draws.argmax(-1), minlength=5) / len(draws)
    counts = np.zeros(5)
    for _ in range(250):
        query = strategy.ask()
        counts[query.indices[0]] += 1
        strategy.tell(query, None)
    assert np.abs(counts / 250 - expected).max() < 4 * 0.5 / math.sqrt(250)
    assert stats.chisquare(counts, 250 * expected).pvalue > 1e-3


@pytest.mark.parametrize("seed", [0, 1, 15])
def test_the_condorcet_winner_is_recommended(seed: int) -> None:
    """Which need not have the largest posterior mean, and has not here after two duels."""
    strategy = on_items(choices=rand(8, 2, seed=seed), seed=seed)
    for num_duels in (2, 6):
        common.play_noisily(strategy, num_duels, seed=seed)
        mean, covariance = common.oracle(strategy)
        winners = best(expected_copeland(mean, covariance / PENALTY))
        assert strategy.recommend_index() in winners
        assert torch.equal(strategy.recommend(), strategy.space.table[strategy.recommend_index()])
        assert num_duels > 2 or int(mean.argmax()) not in winners


# On a box.


def test_the_rule_on_a_box(monkeypatch: pytest.MonkeyPatch) -> None:
    """No item of a grid wins more often under the draw, no duel is more open to doubt."""
    rules: list[DuelingThompsonSampling] = []

    def spy(*args: Any, **kwargs: Any) -> DuelingThompsonSampling:
        rules.append(DuelingThompsonSampling(*args, **kwargs))
        return rules[-1]

    monkeypatch.setattr(dueling_ts, "DuelingThompsonSampling", spy)
    strategy = DTS(bounds=LINE, hyperparameters=FIXED)
    common.play_noisily(strategy, 5)
    asked = strategy.ask().items
    grid = common.line(151)
    items = torch.cat([asked[:1], grid])
    with torch.no_grad():
        draw = rules[-1].arm(0, items)
    scores = copeland_of_draw(draw.tolist(), draw[1:].tolist())
    assert scores[0] >= max(scores.values()) - 1e-5
    moments = common.joint(strategy, torch.cat([asked, grid]))
    doubts = [doubt(m, s) for m, s in torch.stack(moments, -1)[0].tolist()]
    assert doubts[1] >= max(doubts[2:]) - 1e-4


def test_the_variance_and_its_gradient() -> None:
    strategy = DTS(bounds=LINE, hyperparameters=FIXED)
    common.play_noisily(strategy, 4)
    rule = WinVariance(strategy.learner.model(), LINE.mean(0))
    for at in (-0.4, 0.9, 1.7):
        item = torch.tensor([[[at]]], dtype=torch.float64, requires_grad=True)
        value = rule(item)
        mean, deviation = common.joint(strategy, torch.stack([item.detach()[0, 0], LINE.mean(0)]))
        expected = doubt(float(mean[0, 1]), float(deviation[0, 1]))
        assert float(value.detach()) == pytest.approx(expected, abs=1e-6)
        (gradient,) = torch.autograd.grad(value.sum(), item)
        slope = numerical_gradient(lambda x: rule(x).sum(), item.detach())
        assert torch.allclose(gradient, slope, rtol=1e-5, atol=1e-7)
    here = LINE.mean(0).view(1, 1, 1).clone().requires_grad_()
    value = rule(here)
    assert torch.autograd.grad(value.sum(), here)[0].isfinite().all()
    assert float(value.detach()) < 1e-20


def test_the_condorcet_winner_of_a_box() -> None:
    """Of the items asked, by an average over a fine grid."""
    strategy = DTS(bounds=LINE, hyperparameters=FIXED)
    common.play_noisily(strategy, 5)
    asked = strategy.asked_items()
    mean, deviation = common.joint(strategy, torch.cat([asked, common.line(61)]))
    scores = []
    for i in range(len(asked)):
        pairs = torch.stack([mean[i], deviation[i]], -1)[len(asked) :].tolist()
        scores.append(sum(average(logistic, m, s) for m, s in pairs) / 61)
    chosen = (asked == strategy.recommend()).all(-1).nonzero()[0].item()
    assert scores[int(chosen)] >= max(scores) - 2e-3
