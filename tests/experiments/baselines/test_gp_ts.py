"""GP-TS: the law of its items against ridge regression over values, boxes, learning, regret."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchError
from scipy import stats
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.problems import Ackley, Catalyst
from botorch_pref.queries import Evaluate
from botorch_pref.strategies import Schedule
from experiments.baselines import GPTS
from tests._reference import kernels
from tests.contracts.strategy import BoxContract, StrategyContract, stored
from tests.models.common import rand
from tests.strategies import common
from tests.strategies.common import FIXED, GRID, LINE, Array

BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def on_grid(**kwargs: Any) -> GPTS:
    return GPTS(**{"choices": GRID, "hyperparameters": FIXED, "noise": 0.5, **kwargs})


class _Contract(StrategyContract):
    query_type = Evaluate


class TestContractOnChoices(_Contract):
    def make(self, seed: int = 0) -> GPTS:
        return on_grid(choices=rand(12, 2), seed=seed)


class TestContractLearning(_Contract):
    def make(self, seed: int = 0) -> GPTS:
        return GPTS(choices=3.0 * rand(10, 2), noise=0.1, seed=seed)


class TestContractOfThePaper(_Contract):
    def make(self, seed: int = 0) -> GPTS:
        return GPTS.paper(choices=rand(12, 1), seed=seed)


class TestContractOnABox(_Contract, BoxContract):
    num_duels = 3

    def make(self, seed: int = 0) -> GPTS:
        return GPTS(bounds=LINE, hyperparameters=FIXED, noise=0.5, seed=seed)


class TestContractLearningOnABox(_Contract, BoxContract):
    def make(self, seed: int = 0) -> GPTS:
        return GPTS(bounds=LINE, noise=0.1, seed=seed)


def buy(strategy: GPTS, num: int, seed: int = 0, scale: float = 1.0, shift: float = 0.0) -> None:
    """Noisy values that do not depend on the item alone."""
    rng = np.random.default_rng(seed)
    for _ in range(num):
        query = strategy.ask()
        value = math.sin(float(query.items.sum())) + rng.standard_normal()
        strategy.tell(query, shift + scale * value)


def ridge_regression(strategy: GPTS, ridge: float) -> tuple[Array, Array]:
    """Eq. (5) of Lazzaro et al. (2026), value by value: mean, and covariance of unit scale."""
    K = common.unit_kernel(strategy)
    rows = [done.query.indices for done in strategy.history if done.answer is not None]
    values = [done.answer for done in strategy.history if done.answer is not None]
    gram = K[np.ix_(rows, rows)] + ridge * np.eye(len(rows))
    mean = K[:, rows] @ np.linalg.solve(gram, np.array(values))
    return mean, K - K[:, rows] @ np.linalg.solve(gram, K[rows])


@pytest.mark.parametrize(
    ("schedule", "scale"), [(3.0, 3.0), ("bayes", 2.0), (Schedule("bayes", 0.5), 1.0)]
)
@pytest.mark.parametrize("twins", [False, True])
def test_law_of_the_items(schedule: Any, scale: float, twins: bool) -> None:
    """The argmax of ``N(f_t, v_t^2 k_t)``, also where an item was bought many times over."""
    choices = torch.cat([GRID, GRID[:2]]) if twins else GRID  # a singular kernel
    strategy = on_grid(choices=choices, schedule=schedule)
    buy(strategy, 5)
    mean, covariance = ridge_regression(strategy, ridge=0.5 / 4.0)
    assert strategy.recommend_index() in common.best(dict(enumerate(mean)))
    num, rng = 1500, np.random.default_rng(0)
    eigenvalues, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(eigenvalues.clip(0.0))
    draws = mean + scale * rng.standard_normal((100_000, len(mean))) @ root.T
    # Twins are equal but for rounding: count them as one.
    law = np.bincount(draws.argmax(-1) % len(GRID), minlength=len(GRID)) / 100_000
    asked = np.array([strategy.ask(f"annotator {i}").indices for i in range(num)])
    counts = np.bincount(asked % len(GRID), minlength=len(GRID))
    frequent = law * num > 8
    assert frequent.sum() >= 3
    found = np.append(counts[frequent], counts[~frequent].sum())
    expected = np.append(law[frequent], law[~frequent].sum()) * num
    assert stats.chisquare(found[expected > 0], expected[expected > 0]).pvalue > 1e-3
    if twins:  # ties are broken at random
        one, two = (asked == 0).sum(), (asked == 6).sum()
        assert abs(one - two) <= 4 * math.sqrt(one + two + 1)


def test_the_first_item_is_a_draw_from_the_prior() -> None:
    strategy = on_grid()
    asked = np.array([strategy.ask(str(i)).indices for i in range(1500)])
    counts = np.bincount(asked, minlength=6)
    assert (counts > 0).all()
    assert stats.chi2_contingency(np.stack([counts, counts[::-1]])).pvalue > 1e-3


def test_the_paper_scales_the_unit_kernel() -> None:
    """An output scale that is offset by the noise changes nothing but the scale of values."""
    paper = GPTS.paper(choices=GRID, ridge=0.2, seed=3)
    fixed = {"kernel": "matern", "lengthscale": 0.1, "penalty": 0.25}
    larger = GPTS(choices=GRID, hyperparameters=fixed, noise=0.8, schedule="paper", seed=3)
    for step in range(12):
        query = paper.ask()
        assert larger.ask().indices == query.indices
        value = math.sin(step)
        paper.tell(query, value)
        larger.tell(larger.ask(), value)


def test_learning_does_not_depend_on_the_units_of_values() -> None:
    for domain in ({"choices": GRID}, {"bounds": LINE}):
        plain = GPTS(**domain, noise=0.3)
        scaled = GPTS(**domain, noise=30.0)
        buy(plain, 5)
        buy(scaled, 5, scale=10.0, shift=-40.0)
        torch.testing.assert_close(scaled.ask().items, plain.ask().items, atol=1e-3, rtol=0.0)
        expected = 100.0 * plain.values["outputscale"]
        assert scaled.values["outputscale"] == pytest.approx(expected, rel=1e-3)
        assert scaled.offset == pytest.approx(10.0 * plain.offset - 40.0)
        torch.testing.assert_close(scaled.recommend(), plain.recommend(), atol=1e-3, rtol=0.0)


def test_equal_values_can_be_learnt_from() -> None:
    strategy = GPTS(choices=GRID, noise=0.1)
    for _ in range(4):
        strategy.tell(strategy.ask(), 2.5)
    assert strategy.offset == 2.5
    assert 0 <= strategy.recommend_index() < 6


def test_fixed_hyperparameters_stay() -> None:
    strategy = on_grid()
    buy(strategy, 6)
    assert strategy.values == FIXED
    assert (strategy.num_fitted, strategy.offset) == (0, 0.0)
    learning = GPTS(choices=GRID, noise=0.5)
    buy(learning, 12)
    assert learning.num_fitted == 11


def test_skipped_queries_tell_nothing() -> None:
    strategy, other = on_grid(), on_grid()
    strategy.tell(strategy.ask(), 1.0)
    other.tell(other.ask(), 1.0)
    for _ in range(3):
        strategy.tell(strategy.ask(), None)
    assert strategy.num_answers == 1
    assert torch.equal(strategy._posterior().mean, other._posterior().mean)


def test_recommends_the_maximiser_of_the_mean_on_a_box() -> None:
    strategy = GPTS(bounds=LINE, hyperparameters=FIXED, noise=0.5)
    with pytest.raises(ComparisonDataError, match="recommend"):
        strategy.recommend()
    buy(strategy, 8)
    items = np.array([done.query.items.numpy() for done in strategy.history])
    values = np.array([done.answer for done in strategy.history])
    grid = np.append(strategy.recommend().numpy(), common.line(301).numpy())[:, None]
    gram = kernels.gram("matern52", items / 3, items / 3, 0.3) + 0.125 * np.eye(8)
    cross = kernels.gram("matern52", grid / 3, items / 3, 0.3)
    mean = cross @ np.linalg.solve(gram, values)
    assert mean[0] >= mean[1:].max() - 1e-6


@pytest.mark.slow
def test_paths_on_a_box_have_the_law_of_choices() -> None:
    """Items of a box, rounded to a grid, against exact draws on that grid."""
    table = common.line(61)
    strategy = GPTS(bounds=LINE, hyperparameters=FIXED, noise=0.5, schedule=Schedule("bayes", 0.7))
    buy(strategy, 6)
    exact = GPTS(choices=table, hyperparameters=FIXED, noise=0.5, schedule=Schedule("bayes", 0.7))
    rounded = [int((table - done.query.items).abs().argmin()) for done in strategy.history]
    for row, done in zip(rounded, strategy.history, strict=True):
        exact._told.append((Evaluate(0, table[row], row), done.answer))
    found = [float(strategy.ask(str(i)).items) for i in range(25)]
    expected = [float(exact.ask(str(i)).items) for i in range(400)]
    assert stats.ks_2samp(found, expected).pvalue > 1e-3


def test_state_keeps_every_option() -> None:
    strategy = GPTS(choices=GRID, noise=0.7, schedule=Schedule("constant", 2.0), seed=5)
    buy(strategy, 5)
    read = stored(strategy)
    assert (read.noise, read.schedule, read.seed) == (0.7, strategy.schedule, 5)
    assert (read.values, read.offset, read.learns) == (strategy.values, strategy.offset, True)
    assert read.ask() == strategy.ask()


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"noise": 0.0}, "noise"),
        ({"noise": -1.0}, "noise"),
        ({"noise": math.nan}, "noise"),
        ({"schedule": "cubic"}, "schedule"),
        ({"schedule": Schedule("theory")}, "schedule"),
        ({"hyperparameters": "guess"}, "hyperparameters"),
        ({"hyperparameters": {"lengthscale": 0.1}}, "hyperparameters"),
    ],
)
@pytest.mark.parametrize("domain", [{}, {"choices": None, "bounds": LINE}], ids=["choices", "box"])
def test_bad_options_are_refused_at_once(
    options: dict[str, Any], argument: str, domain: dict[str, Any]
) -> None:
    with pytest.raises(BotorchError, match=argument):
        on_grid(**options, **domain)


# Slow: regret.


@pytest.mark.slow
def test_regret_as_in_the_paper() -> None:
    """Far below all rules that see answers alone, the more so the smaller the ridge."""
    for problem, horizon, ridge, least, most in (
        (Ackley(num_choices=40), 300, 0.05, 3.0, 10.0),
        (Ackley(num_choices=40), 300, 1.0, 19.0, 30.0),
        (Catalyst("keep"), 800, 0.05, 60.0, 95.0),
    ):
        totals = common.cumulative_regret(
            lambda seed, p=problem, r=ridge: GPTS.paper(choices=p.choices, ridge=r, seed=seed),
            problem,
            horizon,
            num_seeds=20,
        )
        assert least <= statistics.mean(totals) <= most


@pytest.mark.parametrize("domain", [{"choices": rand(8, 2)}, {"bounds": BOX}])
@pytest.mark.parametrize(("unit", "noise"), [(250.0, 0.01), (1e-4, 1e-10), (1.0, 1e5)])
def test_values_may_be_in_any_unit(domain: dict[str, Tensor], unit: float, noise: float) -> None:
    """Also those far from what the learnt output scale is bounded by."""
    strategy = GPTS(**domain, noise=noise)
    for value in (1.0, 1.9, 0.7):
        strategy.tell(strategy.ask(), unit * value)
    assert strategy.recommend().shape == (2,)
    fixed = {"lengthscale": 0.3, "outputscale": 250_000.0}
    other = GPTS(**domain, hyperparameters=fixed, noise=100.0)
    other.tell(other.ask(), 480.0)
    assert other.ask().items.shape == (2,)
