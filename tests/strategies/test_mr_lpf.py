"""MR-LPF: ask and tell, plans, eliminations, presets, and regret."""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar

import pytest
import torch
from botorch.models.transforms.input import Normalize
from hypothesis import given, settings
from hypothesis import strategies as st

from botorch_pref.acquisition import PairVariance
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference.finite import FinitePosterior, PairVarianceTable
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import PreferenceGP
from botorch_pref.problems import RKHSFunction
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import MRLPF, PFTS, LaplacePOPBO, MaxMinLCBStrategy
from botorch_pref.strategies.mr_lpf import Elimination, Interval, round_sizes
from tests._reference.finite import information_gain
from tests._reference.kernels import gram
from tests.contracts.strategy import StrategyContract, answer, play, stored
from tests.models.common import make_kernel, numerical_gradient, rand

FIXED = {"kernel": "rbf", "lengthscale": 0.2, "penalty": 0.25}
GRID = torch.linspace(0.0, 1.0, 20, dtype=torch.float64).unsqueeze(-1)
SQUARE = torch.tensor([[0.0, -1.0], [1.0, 3.0]], dtype=torch.float64)


def on_grid(**kwargs: Any) -> MRLPF:
    return MRLPF(**{"choices": GRID, "hyperparameters": FIXED, "horizon": 40, **kwargs})


def in_square(**kwargs: Any) -> MRLPF:
    return MRLPF(**{"bounds": SQUARE, "hyperparameters": FIXED, "horizon": 25, **kwargs})


class Contract(StrategyContract):
    required: ClassVar = {"horizon": 20}


class TestContractOnChoices(Contract):
    def make(self, seed: int = 0) -> MRLPF:
        return MRLPF(choices=3.0 * rand(10, 2), horizon=20, seed=seed)


class TestContractOnABox(Contract):
    num_duels = 6

    def make(self, seed: int = 0) -> MRLPF:
        return in_square(horizon=20, seed=seed)


@pytest.mark.parametrize("make", [on_grid, in_square])
def test_resumes_after_an_elimination(make: Any) -> None:
    """With a learnt kernel, skipped answers and open queries."""
    strategy = make(hyperparameters="evidence", horizon=16, seed=5)
    play(strategy, 5)
    waiting = strategy.ask("ann")
    read = stored(strategy)
    assert read.state_dict() == strategy.state_dict()
    assert read.certificates == strategy.certificates
    assert len(read.certificates) == 1
    for side in (strategy, read):
        side.tell(waiting, 0.0)
        while len(side.certificates) == 1:
            side.tell(side.ask(), 1.0)
    assert read.ask() == strategy.ask()
    assert torch.equal(read.recommend(), strategy.recommend())


# Rounds.


def finish(strategy: MRLPF, judge: Any = answer) -> list[tuple[int, int]]:
    """Play all duels; the pairs as they were shown."""
    pairs = []
    while not strategy.finished:
        query = strategy.ask()
        pairs.append(query.indices)
        strategy.tell(query, judge(query))
    return pairs


def test_exactly_the_horizon_is_asked() -> None:
    strategy = on_grid(horizon=50)
    pairs = finish(strategy)
    assert len(pairs) == 50
    assert strategy.sizes == (8, 20, 22)
    with pytest.raises(UnsupportedError, match="50 duels"):
        strategy.ask()
    assert torch.equal(strategy.recommend(), GRID[-1])


def test_active_sets_are_nested_and_asked_pairs_lie_within() -> None:
    """Property 16, and the predicted best is always kept."""
    strategy = on_grid(horizon=80, beta=0.3)
    active = [set(range(20))]
    for size in round_sizes(80):
        pairs = []
        for _ in range(size):
            query = strategy.ask()
            pairs.append(query.indices)
            strategy.tell(query, answer(query))
        assert set(itertools.chain(*pairs)) <= active[-1]
        active.append(set(strategy.active.rows.tolist()))
        assert active[-1] <= active[-2]
        assert active[-1]
        if strategy.active.mean is not None and size > 8:  # a full round
            left = max(active[-2], key=lambda row: float(strategy.active.mean[row]))
            assert left in active[-1]
    assert len(active[-1]) < 20


@pytest.mark.parametrize("make", [on_grid, in_square])
def test_pairs_of_a_round_do_not_depend_on_answers(make: Any) -> None:
    """Property 17; those of later rounds do."""
    trajectories, first = [], round_sizes(12)[0]
    for judge in (lambda q: 0.0, lambda q: 1.0, lambda q: float(q.id % 3 > 0)):
        strategy, duels = make(horizon=12, seed=3), []
        for _ in range(first + 4):
            query = strategy.ask()
            strategy.tell(query, judge(query))
            duels.append(query.items.tolist())
        trajectories.append(duels)
    one, two, three = trajectories
    assert one[:first] == two[:first] == three[:first]
    assert one != two or two != three


@pytest.mark.parametrize("make", [on_grid, in_square])
def test_a_plan_is_what_asking_gives(make: Any) -> None:
    strategy = make(horizon=12, seed=1)
    strategy.ask("ann")
    before = strategy.state_dict()
    plan = strategy.plan_round()
    assert strategy.state_dict() == before
    assert len(plan) == strategy.sizes[0] - 1
    for pair in plan:
        query = strategy.ask()
        assert torch.equal(query.items, pair)
        strategy.tell(query, answer(query))
    with pytest.raises(UnsupportedError, match="waits"):
        strategy.plan_round()


def test_a_round_waits_for_all_its_answers() -> None:
    strategy = on_grid(horizon=10)
    queries = [strategy.ask(name) for name in "abcd"]
    with pytest.raises(UnsupportedError, match=r"\[0, 1, 2, 3\]"):
        strategy.ask("e")
    alone = on_grid(horizon=10)
    for query in queries:  # whoever is asked, and whatever was answered, the pairs are the same
        assert torch.equal(alone.ask().items, query.items)
        alone.tell(alone.ask(), 1.0)
    for query in reversed(queries):
        strategy.tell(query, 1.0)
    assert torch.equal(strategy.ask("e").items, alone.ask().items)


def test_skipped_duels_tell_nothing() -> None:
    strategy = on_grid(horizon=50)
    for _ in range(8):
        strategy.tell(strategy.ask(), None)
    assert strategy.active.num_items == 20
    assert strategy.certificate() == 0.5


def test_a_single_item_meets_itself() -> None:
    strategy = on_grid(horizon=60, beta=0.01, regularizer="theta_mean")
    pairs = finish(strategy)
    assert strategy.active.num_items == 1
    alone = [pair for pair in pairs if pair[0] == pair[1]]
    assert alone
    assert len(set(alone)) == 1
    assert strategy.num_identical == len(alone)
    assert strategy.learner.data.num_comparisons == 60 - len(alone)
    assert [a != b for a, b in pairs[:8]] == [True] * 8
    assert strategy.recommend_index() == alone[0][0]
    assert strategy.certificate() == 0.0
    assert MRLPF.from_state_dict(strategy.state_dict()).state_dict() == strategy.state_dict()


def test_draws_of_pairs() -> None:
    """Which item is shown first is random, and so is the first pair among equals."""
    pairs = finish(on_grid(horizon=200, beta=5.0))
    assert 70 < sum(a < b for a, b in pairs) < 130
    kernel = {"kernel": "rbf", "lengthscale": 2e-3, "penalty": 1.0}
    drawn = {
        frozenset(on_grid(choices=GRID[:4], hyperparameters=kernel, seed=seed).ask().indices)
        for seed in range(60)
    }
    assert len(drawn) == 6


# Logs, certificates and presets.


def test_sigma_and_gain_of_a_round() -> None:
    """Property 14: eqs. (20) and (21) hold, and no pair is less sure than when it was asked."""
    strategy = on_grid(horizon=80, kappa=4.0, beta=0.1)
    unit = strategy.learner.unit_kernel()(GRID).to_dense().detach()
    for size in strategy.sizes:
        table, sigma, pairs = PairVarianceTable(unit, 0.25 * 4.0), [], []
        for _ in range(size):
            query = strategy.ask()
            sigma.append(float(table.variance[query.indices]) ** 0.5)
            table.append(torch.tensor(query.indices))
            pairs.append(query.indices)
            strategy.tell(query, answer(query))
        width, ridge = strategy.certificates[-1] / 0.2, 1.0
        gain = information_gain(unit.numpy(), pairs, ridge)
        assert all(b <= a + 1e-9 for a, b in itertools.pairwise(sigma))
        assert gain == pytest.approx(0.5 * sum(math.log1p(one**2 / ridge) for one in sigma))
        bound = 2 * 2.0 * gain / math.log1p(2.0 / ridge)
        assert sum(one**2 for one in sigma) <= bound + 1e-12
        assert width <= min(sigma[-1], math.sqrt(bound / size)) + 1e-9
    assert strategy.certificate() == min(strategy.certificates)


@pytest.mark.parametrize("epsilon", [0.2, 0.04])
def test_a_small_certificate_finishes(epsilon: float) -> None:
    strategy = on_grid(horizon=500, beta=0.1 if epsilon == 0.2 else 0.05, epsilon=epsilon)
    assert strategy.certificate() == 0.5
    finish(strategy)
    assert strategy.num_answers < 500
    assert strategy.certificate() <= epsilon or strategy.active.num_items == 1
    told = f"after {strategy.num_answers} of 500 duels: nothing is left to ask"
    with pytest.raises(UnsupportedError, match=told):
        strategy.ask()
    read = stored(strategy)
    assert read.finished
    assert read.recommend_index() == strategy.recommend_index()


def test_preset_of_the_paper() -> None:
    strategy = MRLPF.paper(choices=GRID, horizon=50, seed=2)
    assert strategy.learner.penalty == pytest.approx(0.05)
    assert (strategy.kappa, strategy.beta) == (1.0, 1.0)
    assert strategy.ci_scale == "probability"
    for kind in (PFTS, MaxMinLCBStrategy, LaplacePOPBO):  # one predictor in all of the papers
        assert kind.paper(choices=GRID).regularizer == strategy.regularizer == "rkhs"
    with pytest.raises(UnsupportedError, match="`regularizer`"):  # the others need choices
        MRLPF.paper(bounds=SQUARE, horizon=10, regularizer="theta_mean")
    finish(strategy)
    rows = strategy.active.rows
    assert strategy.recommend_index() == int(rows[strategy.active.mean[rows].argmax()])


# On a box.


def test_the_active_set_of_a_box() -> None:
    def bump(item: torch.Tensor) -> float:
        return -float(((item - item.new_tensor([0.3, 1.0])) / item.new_tensor([1.0, 4.0])).norm())

    strategy, sample, shares = in_square(beta=0.25), in_square().space.sample(500, 9), [1.0]
    for size in round_sizes(25):
        before = list(strategy.active.eliminations)
        for _ in range(size):
            query = strategy.ask()
            assert all((rule.slack(query.items) >= -1e-6).all() for rule in before)
            assert not torch.equal(query.items[0], query.items[1])
            strategy.tell(query, float(bump(query.items[0]) > bump(query.items[1])))
        assert (strategy.active.slack(strategy.active.pool) >= -1e-9).all()
        shares.append(float((strategy.active.slack(sample) >= 0.0).double().mean()))
    assert shares == sorted(shares, reverse=True)
    assert 0.0 < shares[-1] < 0.5
    best = strategy.recommend()
    assert float(strategy.active.slack(best)) >= -1e-6
    model = strategy.learner.model()
    items = torch.cat([strategy.active.pool, best.unsqueeze(0)])
    with torch.no_grad():
        mean = model.posterior(items.unsqueeze(-2)).mean.flatten()
    assert float(mean[-1]) >= float(mean.max()) - 1e-9


def test_selected_pairs_are_the_most_uncertain() -> None:
    strategy = in_square(horizon=100, seed=1, kappa=6.0)
    for _ in range(9):
        strategy.tell(strategy.ask(), 1.0)
    query = strategy.ask()
    pairs = SQUARE[0] + (SQUARE[1] - SQUARE[0]) * rand(4000, 2, 2, seed=9)
    pairs = torch.cat([pairs, query.items.unsqueeze(0)])
    model = PreferenceGP.from_pairs(
        torch.stack([duel.query.items for duel in strategy.history]),
        torch.ones(9, dtype=torch.float64),
        covar_module=strategy.learner.covar_module(),
        input_transform=Normalize(2, bounds=SQUARE),
        variance=6.0,
    )
    with torch.no_grad():
        variance = 0.25 * PairVariance(model)(pairs)
    assert float(variance[-1]) >= 0.9 * float(variance.max())


def test_the_certificate_holds_for_the_pool_that_a_round_leaves() -> None:
    """Also where nothing of the pool before is left."""
    known = {"kernel": "rbf", "lengthscale": 0.4, "outputscale": 20.0}
    bounds = torch.tensor([[0.0] * 4, [1.0] * 4], dtype=torch.float64)
    strategy = MRLPF(bounds=bounds, horizon=60, seed=1, beta=0.05, hyperparameters=known)
    judge = torch.Generator().manual_seed(1)
    for size in round_sizes(60)[:2]:
        before = strategy.active.pool
        for _ in range(size):
            query = strategy.ask()
            utility = -30.0 * (query.items - 0.437).square().sum(-1)
            chance = torch.sigmoid(utility[0] - utility[1])
            strategy.tell(query, float(torch.rand((), generator=judge) < chance))
        model, pool = strategy.active.eliminations[-1].model, strategy.active.pool
        pairs = torch.stack(
            [pool.unsqueeze(1).expand(-1, len(before), -1), before.expand(len(pool), -1, -1)], -2
        )
        with torch.no_grad():
            widest = 0.05**0.5 * float(PairVariance(model)(pairs.flatten(0, 1)).max()) ** 0.5
        assert widest > 0.0
        assert strategy.certificates[-1] >= min(0.5, 2.0 * 0.05 * widest) * (1 - 1e-6)


# Regret.


@pytest.mark.slow
def test_regret_of_the_papers_experiment() -> None:
    """Property 21: SE kernel, 100 choices, 300 duels, 20 runs."""
    problem = RKHSFunction(kernel="se", num_choices=100, scale=5.0)
    model = {"kernel": "rbf", "lengthscale": 0.1, "penalty": 0.05}
    ends, totals, means = [0, 18, 92, 241], [], []
    for seed in range(20):
        strategy = MRLPF.paper(
            choices=problem.choices,
            horizon=300,
            hyperparameters=model,
            regularizer="theta_mean",
            seed=seed,
        )
        judge = LogisticJudge(problem, seed)
        for step in range(1, 301):
            query = strategy.ask()
            strategy.tell(query, judge(query, step))
        pairs = torch.tensor([duel.query.indices for duel in strategy.history])
        f = problem.utility(pairs)
        regret = problem.optimal_value - f.mean(-1)
        totals.append(float(regret.sum()))
        means.append([float(regret[a:b].mean()) for a, b in itertools.pairwise(ends)])
    assert 18.0 <= sum(totals) / 20 <= 32.0
    one, two, three = torch.tensor(means).mean(0).tolist()
    assert one > two > three
    assert 300 * float(problem.optimal_value - problem.utilities.mean()) > 95.0


@pytest.mark.parametrize("levels", [2, 3])
def test_a_level_that_is_left_alone_ends_a_plan(levels: int) -> None:
    """A box of categories has few items, each of them many times in the pool."""
    bounds = torch.tensor([[0.0], [levels - 1.0]], dtype=torch.float64)
    space = SearchSpace(bounds, categorical=[0])
    strategy = MRLPF(space=space, horizon=60, epsilon=1e-9)
    while not strategy.finished:
        query = strategy.ask()
        assert not torch.equal(query.items[0], query.items[1])
        strategy.tell(query, float(query.items[0] < query.items[1]))
    assert strategy.num_answers < 60
    assert strategy.active.num_items == 1
    assert strategy.recommend().tolist() == [0.0]
    with pytest.raises(UnsupportedError, match="A single item is left after"):
        strategy.ask()


# Widths and sizes.

TABLE = {
    1: (1,),
    2: (2,),
    10: (4, 6),
    50: (8, 20, 22),
    100: (10, 32, 57, 1),
    300: (18, 74, 149, 59),
    2000: (45, 300, 775, 880),
    10000: (100, 1000, 3163, 5625, 112),
}


def test_round_sizes() -> None:
    """Property 15, in whole numbers."""
    assert {horizon: round_sizes(horizon) for horizon in TABLE} == TABLE
    for horizon in range(3, 2001):
        sizes = round_sizes(horizon)
        assert sum(sizes) == horizon
        assert min(sizes) >= 1
        assert len(sizes) <= math.ceil(math.log2(math.log2(horizon))) + 1
    exact = (10**9 + 1) ** 2  # floats take its root for one less than it is
    assert [round_sizes(exact + more)[0] for more in (0, 1)] == [10**9 + 1, 10**9 + 2]


@pytest.mark.parametrize(
    ("link", "slope"), [(LogitLikelihood(), 0.25), (ProbitLikelihood(), 0.3989422804014327)]
)
@pytest.mark.parametrize(("horizon", "width"), [(9, 0.25), (36, (6 / 7) ** 2), (64, 1.0)])
def test_widths(link: Any, slope: float, horizon: int, width: float) -> None:
    """Deviations of the difference, times the link's slope, where no ``beta`` is given."""
    strategy = in_square(bounds=SQUARE[:, :1], horizon=horizon, likelihood=link)
    for _ in range(strategy.sizes[0]):
        strategy.tell(strategy.ask(), 1.0)
    assert strategy.active.eliminations[0].beta == pytest.approx(slope * width)


# Eliminations.

scales = pytest.mark.parametrize("ci_scale", ["probability", "latent"])


def make_case(n: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    root = rand(n, n, seed=seed)
    covariance = 0.02 * root @ root.T
    own = covariance.diagonal()
    sigma = (own[:, None] + own - 2 * covariance).clamp_min(0.0).sqrt()
    return 3 * rand(n, seed=seed + 1), sigma


@scales
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), beta=st.floats(0.0, 3.0))
def test_survivors_by_brute_force(ci_scale: Any, seed: int, beta: float) -> None:
    """Properties 16 and 18; the latent scale eliminates no less."""
    mean, sigma = make_case(9, seed)
    survivors = Interval(ci_scale, LogitLikelihood()).survivors
    keep = survivors(mean, sigma, beta)
    for i in range(9):
        expected = True
        for j in range(9):
            h = float(mean[i] - mean[j])
            if ci_scale == "probability":
                expected &= 1 / (1 + math.exp(-h)) + beta * float(sigma[i, j]) >= 0.5 - 1e-12
            else:
                expected &= h + 4 * beta * float(sigma[i, j]) >= -1e-12
        assert bool(keep[i]) == expected
    assert keep[mean.argmax()]
    assert (survivors(mean, sigma, beta + 0.3) | ~keep).all()
    assert survivors(mean, sigma, 0.0).nonzero().flatten().tolist() == [int(mean.argmax())]
    latent, chance = (
        Interval(scale, LogitLikelihood()).survivors(mean, sigma, beta)
        for scale in ("latent", "probability")
    )
    assert (chance | ~latent).all()


@scales
def test_slack_on_a_box_by_brute_force(ci_scale: Any) -> None:
    """Its gradient is that of finite differences."""
    pairs = rand(12, 2, 2, seed=3) * 4.0
    model = PreferenceGP.from_pairs(
        pairs,
        (pairs[:, 0].sum(-1) > pairs[:, 1].sum(-1)).double(),
        covar_module=make_kernel(2).requires_grad_(False),
        input_transform=Normalize(2, bounds=torch.tensor([[0.0, 0.0], [4.0, 4.0]]).double()),
        variance=6.0,
    )
    rule = Elimination(model, pairs.flatten(end_dim=1), 0.3, Interval(ci_scale, LogitLikelihood()))
    items = 4.0 * rand(3, 5, 2, seed=4)
    slack = rule.slack(items)
    assert slack.shape == (3, 5)
    for index in itertools.product(range(3), range(5)):
        x = items[index]
        posterior = model.pair_posterior(
            torch.stack([x.expand_as(rule.witnesses), rule.witnesses], dim=-2)
        )
        h, sd = posterior.mean.flatten(), posterior.variance.flatten().sqrt()
        bound = h + 4 * 0.3 * sd if ci_scale == "latent" else torch.sigmoid(h) + 0.3 * sd - 0.5
        assert float(slack[index]) == pytest.approx(float(bound.min()), abs=1e-6)
    best = rule.witnesses[model.posterior(rule.witnesses).mean.argmax()]
    assert float(rule.slack(best)) == pytest.approx(0.0, abs=1e-6)
    at = torch.tensor([1.3, 2.9], dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(rule.slack(at), at)
    torch.testing.assert_close(gradient, numerical_gradient(rule.slack, at), atol=1e-6, rtol=1e-6)


# Theory.

ITEMS, DUELS, RUNS = 12, 40, 300
PENALTY, DELTA = 0.5, 0.1


def test_the_interval_of_a_fixed_design_covers() -> None:
    generator = torch.Generator().manual_seed(0)
    X = torch.linspace(0.0, 1.0, ITEMS, dtype=torch.float64).unsqueeze(-1)
    kernel = torch.as_tensor(gram("rbf", X.numpy(), X.numpy(), [0.2]))
    weights = torch.randn(ITEMS, generator=generator, dtype=torch.float64)
    norm = (weights @ kernel @ weights).sqrt()
    utility, bound = 2.0 * kernel @ weights / norm, 2.0
    first, second = torch.randint(ITEMS, (2, DUELS), generator=generator)
    second = torch.where(first == second, (first + 1) % ITEMS, second)
    difference = utility.unsqueeze(-1) - utility
    kappa = float((2.0 + 2.0 * torch.cosh(difference)).max())
    table = PairVarianceTable(kernel, PENALTY * kappa)
    posteriors = [FinitePosterior(kernel, penalty=PENALTY) for _ in range(RUNS)]
    for i, j in zip(first.tolist(), second.tolist(), strict=True):
        table.append(torch.tensor([i, j]))
        uniform = torch.rand(RUNS, generator=generator, dtype=torch.float64)
        answers = (uniform < torch.sigmoid(difference[i, j])).tolist()
        for posterior, won in zip(posteriors, answers, strict=True):
            posterior.append((i, j), float(won))
    mean = torch.stack([posterior.mean for posterior in posteriors])
    error = (
        torch.sigmoid(mean.unsqueeze(-1) - mean.unsqueeze(-2)) - torch.sigmoid(difference)
    ).abs()
    # Theorem 4.7 for one pair, L = 1/4.
    width = 0.25 * (bound + 0.5 * math.sqrt(2.0 * kappa / PENALTY * math.log(2.0 / DELTA)))
    sigma = table.variance.sqrt()
    covered = (error <= width * sigma + 1e-12).double().mean(0)
    assert covered.min() >= 1.0 - DELTA
    # Not because everything is covered: a tenth of the width is too narrow for some pair.
    assert (error <= 0.1 * width * sigma + 1e-12).double().mean(0).min() < 1.0 - DELTA
