"""DuelingKG: its value by quadrature, first pairs, boxes, what it finds."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special, stats
from torch import Generator

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.kernels.nugget import NuggetKernel
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import DuelingKG
from tests.contracts.strategy import play
from tests.models.common import rand
from tests.strategies import common
from tests.strategies.common import FIXED, LINE, PENALTY, Array, best

Z = np.linspace(-9, 9, 4001)
WEIGHT = stats.norm.pdf(Z) * (Z[1] - Z[0])


def gain(mean: Array, covariance: Array, i: int, j: int) -> float:
    """What four answers let the largest posterior mean grow by."""
    slope, deviation = covariance[i] - covariance[j], common.deviation(covariance, i, j)
    if deviation < 1e-6:
        return 0.0
    total = -mean.max()
    for wins in range(5):
        chance = special.expit(mean[i] - mean[j] + deviation * Z)
        likely = math.comb(4, wins) * chance**wins * (1 - chance) ** (4 - wins)
        total += (mean * (likely @ WEIGHT) + slope / deviation * (likely * Z @ WEIGHT)).max()
    return float(total)


def worth(mean: Array, covariance: Array, i: int, j: int) -> float:
    """What a question is worth: its items now, what four answers gain a hundred times."""
    items = (mean[i] + mean[j]) / 2 - mean.max()
    return float(items) + 100 * gain(mean, covariance, i, j)


def better(mean: Array, covariance: Array, i: int, j: int) -> float:
    """The expected utility of the better item."""
    deviation = max(common.deviation(covariance, i, j), 1e-9)
    scaled = (mean[i] - mean[j]) / deviation
    density, chance = stats.norm.pdf(scaled), stats.norm.cdf(scaled)
    return float(mean[j] + deviation * (density + scaled * chance))


@pytest.mark.parametrize("kappa", ["laplace", 4.0])
def test_the_pair_is_worth_most(kappa: Any) -> None:
    """Of all pairs of a small table but the last ten, on an independent posterior."""
    strategy = DuelingKG(choices=rand(8, 2), hyperparameters=FIXED, kappa=kappa, seed=1)
    common.play_noisily(strategy, 4)
    for step in range(6):
        mean, covariance = common.oracle(strategy)
        covariance = covariance / PENALTY
        (query,) = common.play_noisily(strategy, 1, seed=step)
        last = [set(done.query.indices) for done in strategy.history[-11:-1]]
        pairs = [pair for pair in itertools.permutations(range(8), 2) if set(pair) not in last]
        values = {(i, j): worth(mean, covariance, i, j) for i, j in pairs}
        assert query.indices in best(values, 1e-6)


@pytest.mark.parametrize(("number", "rest"), [(7, 10), (4, 3), (2, 0)])
def test_two_choices_rest(number: int, rest: int) -> None:
    """A pair comes again after ten others, or half as many as there are."""
    strategy = DuelingKG(choices=rand(number, 2), seed=0)
    common.play_noisily(strategy, 40)
    pairs = [frozenset(done.query.indices) for done in strategy.history]
    both = enumerate(pairs)
    apart = min(j - i for (i, one), (j, other) in itertools.combinations(both, 2) if one == other)
    assert apart == rest + 1


def test_the_pair_on_a_box() -> None:
    """Hardly any pair of a grid is worth more."""
    strategy = DuelingKG(bounds=LINE, hyperparameters=FIXED, seed=3)
    common.play_noisily(strategy, 7)
    asked = strategy.ask().items
    items = torch.cat([asked, common.line(61)])
    with torch.no_grad():
        posterior = strategy.learner.model().posterior(items)
    mean, covariance = posterior.mean.squeeze(-1).numpy(), posterior.covariance_matrix.numpy()
    pairs = itertools.combinations(range(len(items)), 2)
    values = {(i, j): worth(mean, covariance, i, j) for i, j in pairs}
    assert values[0, 1] >= 0.9 * max(values.values()) > 0.0


def test_the_pair_of_a_judge_who_hardly_errs() -> None:
    """The expected better item of the pair is as good as that of any pair of a grid."""
    sure = {**FIXED, "inference": "ep"}
    strategy = DuelingKG(bounds=LINE, hyperparameters=sure, seed=3)
    assert strategy.learner.model().inference == "ep"
    common.play_noisily(strategy, 7)
    items = torch.cat([strategy.ask().items, common.line(61)])
    with torch.no_grad():
        posterior = strategy.learner.model().posterior(items)
    mean, covariance = posterior.mean.squeeze(-1).numpy(), posterior.covariance_matrix.numpy()
    pairs = itertools.combinations(range(len(items)), 2)
    values = {(i, j): better(mean, covariance, i, j) for i, j in pairs}
    spread = max(values.values()) - float(mean.max())
    assert values[0, 1] - float(mean.max()) >= 0.95 * spread > 0.0


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_the_challenger_is_worth_most(inference: str) -> None:
    """Of a grid hardly any item is worth more beside the one that stays."""
    asker = DuelingKG(bounds=LINE, hyperparameters=FIXED, seed=3)
    common.play_noisily(asker, 7)
    values = {**FIXED, "inference": inference}
    strategy = DuelingKG(bounds=LINE, hyperparameters=values, known=asker.history, seed=4)
    first, taken = asker.asked_items()[0], common.line(3)
    found = strategy.challenger(first, taken)
    assert float((found - taken).abs().min()) > 0.0
    items = torch.cat([first.unsqueeze(0), found.unsqueeze(0), common.line(62)[1:-1]])
    with torch.no_grad():
        posterior = strategy.learner.model().posterior(items)
    mean, covariance = posterior.mean.squeeze(-1).numpy(), posterior.covariance_matrix.numpy()
    rest = range(1, len(items))
    if inference == "ep":
        worths = [better(mean, covariance, 0, i) - float(mean[0]) for i in rest]
    else:
        worths = [worth(mean, covariance, 0, i) for i in rest]
    assert worths[0] >= 0.95 * max(worths) > 0.0
    with pytest.raises(ComparisonDataError, match=r"`item` must be one of the box, not \[7.0\]"):
        strategy.challenger(torch.tensor([7.0]).double(), taken)
    with pytest.raises(UnsupportedError, match="of a box"):
        DuelingKG(choices=rand(8, 2)).challenger(first, taken)


def test_pairs_across_the_best_item() -> None:
    """Items on opposite sides of it are compared, as far as the box goes."""
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
    strategy = DuelingKG(bounds=bounds, hyperparameters={**FIXED, "lengthscale": 0.5}, seed=4)
    common.play_noisily(strategy, 8)
    model = strategy.learner.model()
    items = strategy._items_to_compare(model, Generator().manual_seed(0))
    rows = strategy._opposite_rows(items)
    best = strategy._best_mean(model, "optimizer")
    one, other = items[rows[:, 0]], items[rows[:, 1]]
    inside = ((one % 1.0 != 0.0) & (other % 1.0 != 0.0)).all(-1)
    assert int(inside.sum()) > 20
    torch.testing.assert_close((0.5 * (one + other))[inside], best.expand(int(inside.sum()), -1))
    assert float((one - other).abs().amax(-1).min()) > 0.0
    assert not len(strategy._opposite_rows(items[:300]))


@pytest.mark.parametrize("dim", [4, 5])
def test_in_many_dimensions_four_steps_share_a_line(dim: int) -> None:
    """What is between two far items is a choice as well; in few dimensions all lines differ."""
    strategy = DuelingKG(bounds=torch.tensor([[0.0] * dim, [1.0] * dim]).double(), seed=0)
    common.play_noisily(strategy, 6)
    model = strategy.learner.model()
    items = strategy._items_to_compare(model, Generator().manual_seed(0))
    best = strategy._best_mean(model, "optimizer")
    steps = (items[strategy._opposite_rows(items)[:, 0]] - best).view(-1, 4, dim)
    # At the border a step is cut; no two coordinates of these are.
    inner = ((items[strategy._opposite_rows(items)] % 1.0) != 0.0).all(1).view(-1, 4, dim)
    both = inner[:, 0] & inner[:, 1]
    doubled = (steps[:, 1] - 2.0 * steps[:, 0]).abs()[both] < 1e-9
    assert int(both.sum()) > 10
    assert bool(doubled.all()) if dim == 5 else not bool(doubled.any())


def test_the_first_pairs_fill_the_space() -> None:
    """Without a model, by different items; of a small table as many as it has."""
    for space in (SearchSpace(bounds=LINE), SearchSpace(choices=rand(9, 2))):
        strategy = DuelingKG(space=space, seed=2)
        items = torch.cat([query.items for query in play(strategy, 4)])
        assert len(items.unique(dim=0)) == 8
        assert strategy.learner.num_fitted == 0
        play(strategy, 1)
        assert strategy.learner.num_fitted == 4
    first = DuelingKG(bounds=LINE, seed=2)
    low, high = torch.cat([query.items for query in play(first, 4)]).aminmax()
    assert float(low) < -0.5
    assert float(high) > 1.5
    few = DuelingKG(choices=rand(3, 2), seed=2)
    play(few, 2)
    assert few.learner.num_fitted == 1


def test_one_value_is_no_pair() -> None:
    """Where first items coincide, and where a space has few, others are asked."""
    space = SearchSpace(torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double(), integer=[0, 1])
    for query in play(DuelingKG(space=space, seed=0), 8):
        assert not torch.equal(*query.items)


def test_the_kernel_is_a_rough_one() -> None:
    """Matern-5/2, with a nugget on choices alone; a caller's values are as they are."""
    box, table = DuelingKG(bounds=LINE), DuelingKG(choices=rand(6, 2))
    assert box.learner.unit_kernel().nu == 2.5
    assert isinstance(table.learner.unit_kernel(), NuggetKernel)
    fixed = DuelingKG(choices=rand(6, 2), hyperparameters=FIXED)
    assert fixed.learner.unit_kernel().nu == 2.5
    common.play_noisily(table, 6)
    again = DuelingKG.from_state_dict(table.state_dict())
    assert 0.0 < again.learner.values["nugget"] < 1.0
    assert again.learner.values["kernel"] == "matern"


@pytest.mark.slow
def test_it_finds_favourites_of_those_who_hardly_err() -> None:
    """Once it believes them; before, answers that agree on a corner kept it there."""
    errors, beliefs = [], []
    for seed in range(3):
        generator = torch.Generator().manual_seed(derive_seed(seed, "favourite", 2))
        favourite = torch.rand(2, generator=generator, dtype=torch.double)
        strategy = DuelingKG(bounds=torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double(), seed=seed)
        for _ in range(25):
            query = strategy.ask()
            near, far = (query.items - favourite).norm(dim=-1)
            strategy.tell(query, float(near < far))
        errors.append(float((strategy.recommend() - favourite).abs().max()))
        again = DuelingKG.from_state_dict(strategy.state_dict())
        assert again.learner.inference == strategy.learner.inference
        beliefs.append(again.learner.inference)
    assert beliefs.count("ep") >= 2
    assert sorted(errors)[1] < 0.05
