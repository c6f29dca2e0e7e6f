"""SGP: draws that fit all answers, the last winner, what meets it, open duels, boxes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchError
from scipy import stats
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError
from experiments.baselines import SGP, skew_gp
from experiments.baselines.skew_gp import believed_values
from tests._reference import kernels
from tests.contracts.strategy import BoxContract, StrategyContract, answer, play, stored
from tests.models.common import rand
from tests.strategies import common
from tests.strategies.common import APART, FIXED, GRID, LINE, Array, best

NOISE = 1e-4
Pairs = list[tuple[int, int]]


def on_items(**kwargs: Any) -> SGP:
    return SGP(**{"choices": rand(8, 2), "hyperparameters": FIXED, **kwargs})


class TestContractOnChoices(StrategyContract):
    def make(self, seed: int = 0) -> SGP:
        return on_items(choices=rand(12, 2), hyperparameters=APART, seed=seed)


class TestContractLearning(StrategyContract):
    def make(self, seed: int = 0) -> SGP:
        choices = torch.eye(9, dtype=torch.float64)
        return SGP(choices=choices, challenger="ucb", seed=seed)


class TestContractOnABox(BoxContract):
    def make(self, seed: int = 0) -> SGP:
        return SGP(bounds=LINE, hyperparameters=FIXED, seed=seed)


# The draw.


def rejected(covariance: Array, duels: Pairs, noise: float, num: int) -> Array:
    """Prior draws under which every answer, with its noise, is right."""
    rng = np.random.default_rng(0)
    values = rng.multivariate_normal(np.zeros(len(covariance)), covariance, num)
    right = np.ones(num, dtype=bool)
    for winner, loser in duels:
        errors = math.sqrt(noise) * rng.standard_normal(num)
        right &= values[:, winner] - values[:, loser] + errors > 0.0
    return values[right]


THREE = kernels.gram("rbf", *[np.array([[0.0], [0.5], [1.2]])] * 2, 0.8)
SIX = kernels.gram("rbf", *[np.linspace(0.0, 1.0, 6)[:, None]] * 2, 0.5) + 0.05 * np.eye(6)


@pytest.mark.parametrize(
    ("covariance", "duels", "noise"),
    [
        (THREE[:2, :2], [(1, 0)], 0.01),
        (THREE, [(0, 1), (2, 1)], 0.01),
        (THREE, [(0, 1), (1, 2), (0, 2)], 1e-4),
        (2.0 * THREE, [(0, 1), (1, 0), (0, 1), (2, 0)], 0.3),
        (SIX, [(5, 4), (4, 3), (3, 2), (2, 1), (5, 0)], 0.01),
    ],
    ids=["one", "two", "chain", "contradictory", "six"],
)
def test_draws_are_of_the_truncated_prior(covariance: Array, duels: Pairs, noise: float) -> None:
    expected = rejected(covariance, duels, noise, 400_000)
    assert len(expected) > 4000
    prior, pairs = torch.from_numpy(covariance), torch.tensor(duels)
    draws = np.array([believed_values(prior, pairs, noise, seed).numpy() for seed in range(2500)])
    error = math.sqrt(1 / len(draws) + 1 / len(expected))
    deviation = expected.std(0)
    assert (np.abs(draws.mean(0) - expected.mean(0)) < 4.5 * error * deviation).all()
    spread = np.outer(deviation, deviation)
    difference = np.cov(draws.T) - np.cov(expected.T)
    assert (np.abs(difference) < 4.5 * math.sqrt(2) * error * spread).all()
    # The skewness, too: the posterior is no Gaussian.
    for i in range(len(covariance)):
        assert stats.ks_2samp(draws[:, i], expected[:, i]).pvalue > 1e-4


def test_without_answers_the_prior_is_drawn_from() -> None:
    prior, none = torch.from_numpy(THREE), torch.zeros(0, 2, dtype=torch.long)
    draws = np.array([believed_values(prior, none, NOISE, seed).numpy() for seed in range(4000)])
    assert np.abs(np.cov(draws.T) - THREE).max() < 0.1
    assert np.abs(draws.mean(0)).max() < 0.08


@pytest.mark.parametrize("kind", ["rbf", "matern52"])
def test_every_draw_fits_all_answers(kind: Any) -> None:
    """Up to the noise, of which the largest of 40 errors has at most 5 deviations."""
    items = rand(25, 2).numpy()
    utility = np.sin(5 * items).sum(-1)
    rng = np.random.default_rng(1)
    pairs = np.array([rng.choice(25, 2, replace=False) for _ in range(40)])
    swap = utility[pairs[:, 0]] < utility[pairs[:, 1]]
    pairs[swap] = pairs[swap, ::-1]
    prior = torch.from_numpy(kernels.gram(kind, items, items, 0.4))
    for seed in range(20):
        values = believed_values(prior, torch.from_numpy(pairs), NOISE, seed).numpy()
        assert (values[pairs[:, 0]] - values[pairs[:, 1]]).min() > -5 * math.sqrt(NOISE)
        assert values.std() > 0.1


def test_a_draw_follows_from_the_seed() -> None:
    prior, duels = torch.from_numpy(SIX), torch.tensor([[0, 1], [4, 2]])
    one, two, other = (believed_values(prior, duels, NOISE, seed) for seed in (3, 3, 4))
    assert torch.equal(one, two)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("noise", [1e-4, 1e-14])
def test_contradictory_answers_end(noise: float) -> None:
    """They leave the utilities of a cycle nearly equal, and others as they are."""
    cycle = [(0, 1), (1, 2), (2, 0), (1, 0), (0, 2), (2, 1)]
    duels = torch.tensor(cycle * 8 + [(4, 3)] * 5)
    values = believed_values(torch.eye(6, dtype=torch.float64), duels, noise, 0)
    assert values.isfinite().all()
    assert float(values[:3].max() - values[:3].min()) < 5 * math.sqrt(noise)
    assert float(values[4] - values[3]) > -5 * math.sqrt(noise)


# The rule.


def spied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Tensor, ...]]:
    """Every draw from now on: its covariance, duels and values."""
    seen: list[tuple[Tensor, ...]] = []

    def spy(covariance: Tensor, duels: Tensor, *rest: Any) -> Tensor:
        values = believed_values(covariance, duels, *rest)
        seen.append((covariance, duels, values))
        return values

    monkeypatch.setattr(skew_gp, "believed_values", spy)
    return seen


def conditioned(unit: Array, rows: list[int], values: Array) -> tuple[Array, Array]:
    """Mean and deviation at all items, given the values of some."""
    gram = unit[np.ix_(rows, rows)] + 1e-5 * np.eye(len(rows))
    weights = np.linalg.solve(gram, unit[rows]).T
    variance = unit.diagonal() - (weights * unit[:, rows]).sum(-1)
    return weights @ values, np.sqrt(variance.clip(1e-12))


def log_improvement(mean: Array, deviation: Array, incumbent: float) -> Array:
    z = (mean - incumbent) / deviation
    with np.errstate(divide="ignore"):
        return np.log(deviation * (stats.norm.pdf(z) + z * stats.norm.cdf(z)))


@pytest.mark.parametrize("challenger", ["ei", "ucb"])
def test_the_pair(challenger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last winner meets the best item by a textbook Gaussian process on the values drawn."""
    seen = spied(monkeypatch)
    strategy = on_items(choices=rand(15, 2), challenger=challenger, seed=2)
    unit, won = common.unit_kernel(strategy), []
    for step in range(9):
        (query,) = common.play_noisily(strategy, 1, seed=step)
        first, second = query.indices
        rows = sorted({row for pair in won for row in pair} | {first})
        covariance, duels, values = seen[-1]
        assert [(rows[one], rows[other]) for one, other in duels.tolist()] == won
        assert np.allclose(covariance, unit[np.ix_(rows, rows)], rtol=0, atol=1e-6)
        if won:
            assert first == won[-1][0]
        mean, deviation = conditioned(unit, rows, values.numpy())
        index = mean + 2 * deviation
        if challenger == "ei":
            index = log_improvement(mean, deviation, float(values.max()))
        assert second in best({j: index[j] for j in range(15) if j != first}, 1e-6)
        lost = 1 - int(strategy.history[-1].answer or 0)
        won.append((query.indices[lost], query.indices[1 - lost]))


def test_values_fit_the_answers_of_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spied(monkeypatch)
    for space in ({}, {"choices": None, "bounds": LINE}):
        strategy = on_items(**space)
        for _ in range(8):
            query = strategy.ask()
            strategy.tell(query, answer(query))
        _, duels, values = seen[-1]
        assert len(duels) == 7
        assert (values[duels[:, 0]] - values[duels[:, 1]]).min() > -5 * math.sqrt(NOISE)


def test_the_winner_stays_and_is_recommended() -> None:
    """A skipped duel has no winner, and of two equally good items the first stays."""
    strategy = on_items()
    second = strategy.ask().indices[1]
    strategy.tell(strategy.ask(), 0.0)
    assert strategy.recommend_index() == second
    assert strategy.ask().indices[0] == second
    strategy.tell(strategy.ask(), None)
    assert strategy.ask().indices[0] == second
    tied = strategy.ask()
    strategy.tell(tied, 0.5)
    assert strategy.recommend_index() == tied.indices[0]
    assert torch.equal(strategy.recommend(), tied.items[0])
    assert strategy.ask().indices[0] == tied.indices[0]


def test_the_first_pair_is_random() -> None:
    far = torch.eye(4, dtype=torch.float64)
    asked = {
        on_items(choices=far, hyperparameters=APART, seed=seed).ask().indices for seed in range(150)
    }
    assert asked == {(i, j) for i in range(4) for j in range(4) if i != j}


def test_the_output_scale_plays_no_part() -> None:
    small, large = (
        play(on_items(hyperparameters={**FIXED, "outputscale": scale}), 8) for scale in (0.5, 300.0)
    )
    assert small == large


@pytest.mark.parametrize("challenger", ["ei", "ucb"])
def test_no_item_meets_itself(challenger: Any) -> None:
    """Not even where two choices are equal in value, or there is but one pair."""
    for choices in (torch.cat([GRID, GRID]), GRID[:2]):
        for query in play(on_items(choices=choices, challenger=challenger), 12):
            assert query.indices[0] != query.indices[1]


def test_open_queries_differ() -> None:
    common.assert_open_queries_differ(on_items, num_annotators=4)
    common.assert_open_queries_differ(
        lambda: SGP(bounds=LINE, hyperparameters=FIXED), num_annotators=2
    )


def test_the_winner_meets_others_while_a_duel_is_open() -> None:
    strategy = on_items()
    strategy.tell(strategy.ask(), 1.0)
    asked = [strategy.ask(str(i)).indices for i in range(7)]
    assert len({first for first, _ in asked}) == 1
    assert len({second for _, second in asked}) == 7


def test_state_keeps_every_option() -> None:
    strategy = on_items(challenger="ucb", noise=0.01, seed=5)
    play(strategy, 4)
    read = stored(strategy)
    assert (read.challenger, read.noise, read.seed) == ("ucb", 0.01, 5)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"challenger": "ts"}, "challenger"),
        ({"noise": 0.0}, "noise"),
        ({"noise": math.inf}, "noise"),
        ({"kappa": -1.0}, "kappa"),
    ],
)
def test_bad_options_are_refused_at_once(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(BotorchError, match=argument):
        on_items(**options)


def test_answers_are_learnt() -> None:
    for challenger in ("ei", "ucb"):
        strategy = on_items(choices=GRID, challenger=challenger)
        for _ in range(20):
            query = strategy.ask()
            strategy.tell(query, answer(query))
        assert strategy.recommend_index() == len(GRID) - 1


# On a box.


@pytest.mark.parametrize("challenger", ["ei", "ucb"])
def test_the_rule_on_a_box(challenger: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """No item of a grid has a larger value."""
    seen = spied(monkeypatch)
    strategy = SGP(bounds=LINE, hyperparameters=FIXED, challenger=challenger)
    common.play_noisily(strategy, 5)
    last = strategy.history[-1]
    asked = strategy.ask().items
    assert torch.equal(asked[0], last.query.items[0 if last.answer == 1.0 else 1])
    assert torch.equal(strategy.recommend(), asked[0])
    stored_items = strategy.learner.data.datapoints
    items = strategy.space.normalize(torch.cat([stored_items, asked[1:], common.line(301)])).numpy()
    unit = kernels.gram("matern52", items, items, 0.3)
    values = seen[-1][2].numpy()
    mean, deviation = conditioned(unit, list(range(len(values))), values)
    index = mean + 2 * deviation
    if challenger == "ei":
        index = log_improvement(mean, deviation, float(values.max()))
    assert index[len(values)] >= index[len(values) + 1 :].max() - 1e-3


def test_no_item_of_a_box_meets_itself() -> None:
    for query in play(SGP(bounds=LINE, hyperparameters=FIXED), 5):
        assert float((query.items[0] - query.items[1]).abs()) > 1e-3 * 3.0


def test_before_any_answer() -> None:
    box = SGP(bounds=LINE, hyperparameters=FIXED)
    with pytest.raises(ComparisonDataError, match="Nothing was answered"):
        box.recommend()
    with pytest.raises(SearchSpaceError, match="box"):
        box.recommend_index()
    box.tell(box.ask(), 1.0)
    with pytest.raises(SearchSpaceError, match="box"):
        box.recommend_index()
    assert on_items().recommend_index() in range(8)
