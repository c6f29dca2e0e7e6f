"""MR-LPF: ask and tell, plans, eliminations, presets, and regret."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from botorch.models.transforms.input import Normalize
from hypothesis import given, settings
from hypothesis import strategies as st

from botorch_pref.acquisition import PairVariance
from botorch_pref.exceptions import (
    ComparisonDataError,
    ConfidenceWarning,
    StaleQueryError,
    UnsupportedError,
)
from botorch_pref.inference.finite import FinitePosterior, PairVarianceTable
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import PreferenceGP
from botorch_pref.problems import Ackley, RKHSFunction
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import MRLPF
from botorch_pref.strategies.mr_lpf import (
    Elimination,
    Interval,
    Width,
    as_width,
    practical_width,
    round_sizes,
    steepness_bound,
)
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


# Ask and tell.


class Contract(StrategyContract):
    def test_the_domain_is_given_once(self) -> None:
        space = self.make().space
        with pytest.raises(ComparisonDataError, match="`space`"):
            MRLPF(space=space, bounds=space.bounds, horizon=5)


class TestContractOnChoices(Contract):
    def make(self, seed: int = 0) -> MRLPF:
        return MRLPF(choices=rand(12, 2), horizon=20, hyperparameters=FIXED, seed=seed)


class TestContractLearning(Contract):
    def make(self, seed: int = 0) -> MRLPF:
        return MRLPF(choices=3.0 * rand(10, 2), horizon=20, seed=seed)


class TestContractOfThePaper(Contract):
    def make(self, seed: int = 0) -> MRLPF:
        return MRLPF.paper(choices=rand(12, 1), horizon=20, seed=seed)


class TestContractOnABox(Contract):
    num_duels = 6

    def make(self, seed: int = 0) -> MRLPF:
        return in_square(horizon=20, seed=seed)


@pytest.mark.parametrize("make", [on_grid, in_square])
def test_resumes_after_an_elimination(make: Any) -> None:
    """Across rounds, with a learnt kernel, skipped answers, open queries and an open plan."""
    strategy = make(hyperparameters="evidence", horizon=16, seed=5)
    play(strategy, 5)
    waiting = strategy.ask("ann")
    strategy.plan_round()
    read = stored(strategy)
    assert read.state_dict() == strategy.state_dict()
    assert len(read.records) == 1
    assert read.records == strategy.records
    for side in (strategy, read):
        side.tell(waiting, 0.0)
        side.complete_round([1.0] * len(side.plan_round()))
    assert read.ask() == strategy.ask()
    assert torch.equal(read.recommend(), strategy.recommend())


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"horizon": 0}, "horizon"),
        ({"kappa": -1.0}, "kappa"),
        ({"kappa": "laplace"}, "kappa"),
        ({"later_kappa": "other"}, "later_kappa"),
        ({"beta": -1.0}, "beta"),
        ({"ci_scale": "logit"}, "ci_scale"),
        ({"regularizer": "ridge"}, "regularizer"),
        ({"recommendation": "best"}, "recommendation"),
        ({"epsilon": 0.0}, "epsilon"),
    ],
)
def test_bad_options(options: dict[str, Any], argument: str) -> None:
    with pytest.raises(ComparisonDataError, match=f"`{argument}`"):
        on_grid(**options)


def test_other_penalties_need_choices() -> None:
    with pytest.raises(UnsupportedError, match="`regularizer`"):
        MRLPF.paper(bounds=SQUARE, horizon=10)


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
    assert [record.setting.size for record in strategy.records] == [8, 20, 22]
    with pytest.raises(UnsupportedError, match="50 duels"):
        strategy.ask()
    with pytest.raises(UnsupportedError, match="50 duels"):
        strategy.plan_round()
    assert torch.equal(strategy.recommend(), GRID[-1])


def test_active_sets_are_nested_and_asked_pairs_lie_within() -> None:
    """Property 16, and the predicted best is always kept."""
    strategy = on_grid(horizon=80, beta=0.3)
    active = [set(range(20))]
    for size in round_sizes(80):
        pairs = [strategy.ask().indices for _ in range(1)]
        for _ in range(size):
            query = strategy.ask()
            pairs.append(query.indices)
            strategy.tell(query, answer(query))
        assert set(itertools.chain(*pairs)) <= active[-1]
        active.append(set(strategy.active.rows.tolist()))
        assert active[-1] <= active[-2]
        assert active[-1]
        if strategy.active.mean is not None and strategy.records[-1].setting.full:
            left = max(active[-2], key=lambda row: float(strategy.active.mean[row]))
            assert left in active[-1]
    assert len(active[-1]) < 20
    assert [r.num_left for r in strategy.records] == [len(a) for a in active[1:]]


@pytest.mark.parametrize("make", [on_grid, in_square])
def test_pairs_of_a_round_do_not_depend_on_answers(make: Any) -> None:
    """Property 17; those of later rounds do."""
    trajectories = []
    for judge in (lambda q: 0.0, lambda q: 1.0, lambda q: float(q.id % 3 > 0)):
        strategy = make(horizon=12, seed=3)
        duels = [strategy.ask() for _ in range(1)]
        strategy.tell(duels[0], judge(duels[0]))
        for _ in range(len(strategy.plan_round()) + 4):
            duels.append(strategy.ask())
            strategy.tell(duels[-1], judge(duels[-1]))
        trajectories.append(duels)
    first = round_sizes(12)[0]
    one, two, three = (tuple(d.items.tolist() for d in duels[:first]) for duels in trajectories)
    assert one == two == three
    assert len({str([d.items.tolist() for d in duels]) for duels in trajectories}) > 1


@pytest.mark.parametrize("make", [on_grid, in_square])
def test_a_plan_is_what_asking_would_give(make: Any) -> None:
    steps, batch = make(horizon=12, seed=1), make(horizon=12, seed=1)
    while not batch.finished:
        plan = batch.plan_round()
        assert torch.equal(batch.plan_round(), plan)
        told = []
        for pair in plan:
            query = steps.ask()
            assert torch.equal(query.items, pair)
            told.append(float(pair[0].sum() > pair[1].sum()))
            steps.tell(query, told[-1])
        batch.complete_round(torch.tensor(told))
    assert batch.state_dict()["history"] == steps.state_dict()["history"]
    assert torch.equal(batch.recommend(), steps.recommend())


def test_wrong_use_of_a_plan() -> None:
    strategy = on_grid(horizon=50)
    with pytest.raises(StaleQueryError, match="plan_round"):
        strategy.complete_round([1.0] * 8)
    assert strategy.plan_round().shape == (8, 2, 1)
    query = strategy.ask("ann")
    with pytest.raises(StaleQueryError, match="plan_round"):  # overtaken
        strategy.complete_round([1.0] * 8)
    assert strategy.plan_round().shape == (7, 2, 1)
    with pytest.raises(StaleQueryError, match=r"\[0\] are open"):
        strategy.complete_round([1.0] * 7)
    strategy.tell(query, 1.0)
    before = strategy.state_dict()
    with pytest.raises(ComparisonDataError, match="query 2 is nan"):
        strategy.complete_round([1.0, 0.5, math.nan, 1.0, 1.0, 1.0, 1.0])
    for wrong in (None, 0.5, torch.tensor(0.5), "1" * 7, [1.0] * 6):
        with pytest.raises(ComparisonDataError, match="list or a tensor of 7 answers"):
            strategy.complete_round(wrong)  # type: ignore[arg-type]
    assert strategy.state_dict() == before
    strategy.complete_round([1.0, 0.0, 0.5, None, 1.0, 1.0, 0.0])
    assert len(strategy.records) == 1
    assert strategy.num_answers == 7
    with pytest.raises(StaleQueryError, match="plan_round"):
        strategy.complete_round([1.0] * 20)


def test_a_round_waits_for_all_its_answers() -> None:
    strategy = on_grid(horizon=10)
    queries = [strategy.ask(name) for name in "abcd"]
    with pytest.raises(UnsupportedError, match=r"\[0, 1, 2, 3\]"):
        strategy.ask("e")
    with pytest.raises(UnsupportedError, match="waits"):
        strategy.plan_round()
    alone = on_grid(horizon=10)
    for query in queries:  # whoever is asked, the pairs are those of the plan
        assert torch.equal(alone.ask().items, query.items)
        alone.tell(alone.ask(), 1.0)
    for query in reversed(queries):
        strategy.tell(query, 1.0)
    assert torch.equal(strategy.ask("e").items, alone.ask().items)


def test_skipped_duels_tell_nothing() -> None:
    strategy = on_grid(horizon=50)
    for _ in range(8):
        strategy.tell(strategy.ask(), None)
    assert strategy.records[0].num_left == 20
    assert strategy.records[0].max_sigma == pytest.approx(math.sqrt(2.0), abs=1e-4)
    assert strategy.records[0].steepness == 4.0


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
    assert strategy.records[-1].max_sigma == 0.0
    assert MRLPF.from_state_dict(strategy.state_dict()).state_dict() == strategy.state_dict()


def test_orientation_is_random() -> None:
    pairs = finish(on_grid(horizon=200, beta=5.0))
    first = sum(a < b for a, b in pairs)
    assert 70 < first < 130


def test_first_pair_is_drawn_among_equals() -> None:
    kernel = {"kernel": "rbf", "lengthscale": 2e-3, "penalty": 1.0}
    pairs = {
        frozenset(on_grid(choices=GRID[:4], hyperparameters=kernel, seed=seed).ask().indices)
        for seed in range(60)
    }
    assert len(pairs) == 6


# Logs, certificates and presets.


def test_sigma_and_gain_of_a_round() -> None:
    """Property 14: eqs. (20) and (21) hold, and no pair is less sure than when it was asked."""
    strategy = on_grid(horizon=80, kappa=4.0, beta=0.1)
    unit = strategy.learner.unit_kernel()(GRID).to_dense().detach()
    for size in strategy.sizes:
        table, sigma = PairVarianceTable(unit, 0.25 * 4.0), []
        for _ in range(size):
            query = strategy.ask()
            sigma.append(float(table.append(torch.tensor(query.indices))) ** 0.5)
            strategy.tell(query, answer(query))
        record, ridge, gain = strategy.records[-1], 1.0, float(table.gain)
        assert all(b <= a + 1e-9 for a, b in itertools.pairwise(sigma))
        assert gain == pytest.approx(0.5 * sum(math.log1p(one**2 / ridge) for one in sigma))
        bound = 2 * 2.0 * gain / math.log1p(2.0 / ridge)
        assert sum(one**2 for one in sigma) <= bound + 1e-12
        assert record.width <= record.max_sigma <= min(sigma[-1], math.sqrt(bound / size)) + 1e-9
        assert (record.setting.ridge, record.setting.beta) == (ridge, 0.1)
        assert record.certificate == pytest.approx(min(0.5, 0.2 * record.width))
    assert strategy.certificate() == min(record.certificate for record in strategy.records)


def test_it_says_that_epsilon_finished_it() -> None:
    strategy = on_grid(horizon=500, beta=0.1, epsilon=0.2)
    finish(strategy)
    assert strategy.active.num_items > 1
    assert strategy.certificate() <= 0.2
    told = f"`epsilon` is reached after {strategy.num_answers} of 500 duels: nothing is left to ask"
    with pytest.raises(UnsupportedError, match=told):
        strategy.ask()


def test_a_small_certificate_finishes() -> None:
    strategy = on_grid(horizon=500, beta=0.05, epsilon=0.04)
    assert strategy.certificate() == 0.5
    finish(strategy)
    assert strategy.num_answers < 500
    assert strategy.certificate() <= 0.04 or strategy.active.num_items == 1
    with pytest.raises(UnsupportedError, match="nothing is left"):
        strategy.ask()
    read = stored(strategy)
    assert read.finished
    assert read.recommend_index() == strategy.recommend_index()


@pytest.mark.filterwarnings("ignore::botorch_pref.exceptions.ConfidenceWarning")
def test_preset_of_theory_by_hand() -> None:
    """Property 19: eq. (14) to 1e-12; the best item is kept in all of 50 runs."""
    problem = Ackley(num_choices=10, utility_scale=2.0)
    fixed = {"kernel": "matern", "lengthscale": 0.1, "penalty": 0.05}
    best = int(problem.utilities.argmax())
    for seed in range(50):
        strategy = MRLPF.theory(
            choices=problem.choices, horizon=30, norm_bound=3.0, hyperparameters=fixed, seed=seed
        )
        judge = LogisticJudge(problem, seed)
        while not strategy.finished:
            pairs = strategy.plan_round()
            strategy.complete_round([judge(pair, i) for i, pair in enumerate(pairs)])
        assert best in strategy.active.rows.tolist()
    kappa = 2 + 2 * math.cosh(math.sqrt(2) * 3.0)
    for record, used in zip(strategy.records, [kappa, 6.0, 6.0], strict=False):
        log = math.log(2 * len(strategy.sizes) * 10 / 0.05)
        beta = 0.25 * (3.0 + math.sqrt(used / 0.05 * log))
        assert record.setting.beta == pytest.approx(beta, abs=1e-12)
        assert record.setting.ridge == pytest.approx(0.05 * used, abs=1e-12)


def test_theory_warns_of_steep_predictions() -> None:
    fixed = {"kernel": "rbf", "lengthscale": 0.3, "penalty": 0.01}
    strategy = MRLPF.theory(
        choices=GRID, horizon=40, norm_bound=0.1, kappa=4.1, hyperparameters=fixed
    )
    pairs = strategy.plan_round()
    answers = (pairs[:, 0] > pairs[:, 1]).flatten().double()
    with pytest.warns(ConfidenceWarning, match="Round 1"):
        strategy.complete_round(answers)
    assert strategy.records[0].steepness > 4.1


def test_preset_of_the_paper() -> None:
    strategy = MRLPF.paper(choices=GRID, horizon=50, seed=2, kernel="rbf", lengthscale=0.2)
    assert strategy.learner.penalty == pytest.approx(0.05)
    assert (strategy.kappa, strategy.later_kappa, strategy.width.value) == (1.0, None, 1.0)
    assert (strategy.ci_scale, strategy.regularizer) == ("probability", "theta_mean")
    assert strategy.recommendation == "last_round"
    finish(strategy)
    assert all(record.setting.ridge == pytest.approx(0.05) for record in strategy.records)
    rows = strategy.active.rows
    assert strategy.recommend_index() == int(rows[strategy.active.mean[rows].argmax()])


# On a box.


def test_the_active_set_of_a_box() -> None:
    strategy = in_square(beta=Width("bayes", 0.5))
    for size in round_sizes(25):
        before = list(strategy.active.eliminations)
        for _ in range(size):
            query = strategy.ask()
            assert all((rule.slack(query.items) >= -1e-6).all() for rule in before)
            assert not torch.equal(query.items[0], query.items[1])
            strategy.tell(query, float(_bump(query.items[0]) > _bump(query.items[1])))
        assert (strategy.active.slack(strategy.active.pool) >= -1e-9).all()
    shares = [record.share for record in strategy.records]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.5
    best = strategy.recommend()
    assert float(strategy.active.slack(best)) >= -1e-6
    model = strategy.learner.model()
    items = torch.cat([strategy.active.pool, best.unsqueeze(0)])
    with torch.no_grad():
        mean = model.posterior(items.unsqueeze(-2)).mean.flatten()
    assert float(mean[-1]) >= float(mean.max()) - 1e-9


def _bump(item: torch.Tensor) -> float:
    return -float(((item - item.new_tensor([0.3, 1.0])) / item.new_tensor([1.0, 4.0])).norm())


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
        record = strategy.records[-1]
        assert widest > 0.0
        assert record.width >= widest * (1 - 1e-6)
        assert record.certificate >= min(0.5, 2.0 * record.setting.beta * widest) * (1 - 1e-6)


# Regret.


@pytest.mark.slow
def test_regret_of_the_papers_experiment() -> None:
    """Property 21: SE kernel, 100 choices, 300 duels, 20 runs."""
    problem = RKHSFunction(kernel="se", num_choices=100, scale=5.0)
    ends, totals, means = [0, 18, 92, 241], [], []
    for seed in range(20):
        strategy = MRLPF.paper(choices=problem.choices, horizon=300, kernel="rbf", seed=seed)
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
    table = problem.utilities
    random = problem.optimal_value - table.mean()
    assert 300 * float(random) > 95.0


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
    told = f"A single item is left after {strategy.num_answers} of 60 duels: nothing is left to ask"
    with pytest.raises(UnsupportedError, match=told):
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
    for wrong in (0, -3, 2.5, "7", None, True):
        with pytest.raises(ComparisonDataError, match="`horizon`"):
            round_sizes(wrong)


def test_widths_by_hand() -> None:
    """Eq. (14), and the numbers of a usual case."""
    width = Width("theory", norm_bound=3.0, delta=0.05)
    for kappa, rounded in ((22.1, 17.3), (6.0, 9.4)):
        beta = width.beta(0.05, kappa, 5, math.log(100))
        by_hand = 0.25 * (3.0 + math.sqrt(kappa / 0.05 * math.log(2 * 5 * 100 / 0.05)))
        assert beta == pytest.approx(by_hand, abs=1e-12)
        assert beta == pytest.approx(rounded, abs=0.06)
    assert Width("constant", 0.7).beta(0.05, 6.0, 5, 3.0) == 0.7
    assert Width("bayes", 2.0).beta(0.25, 6.0, 5, 3.0) == pytest.approx(0.25 * 2.0 / 0.5)
    assert (as_width(2), as_width(0)) == (Width("constant", 2.0), Width("constant", 0.0))
    assert as_width(Width("bayes", 0.5)._asdict()) == Width("bayes", 0.5)
    values = [practical_width(*case).value for case in ((15, 2), (14, 3), (15, 6), (45, 1))]
    assert values == [1.0, (14 / 21) ** 2, 0.25, 1.0]


@pytest.mark.parametrize(
    "beta",
    [-1.0, math.nan, True, "bayes", None, Width("other"), Width("bayes", 0.0)]
    + [Width("theory", norm_bound=-1.0), Width("theory", delta=2.0), {"sort": "bayes"}],
)
def test_bad_widths(beta: Any) -> None:
    with pytest.raises(ComparisonDataError, match="`beta`"):
        as_width(beta)


def test_slope_and_steepness_of_links() -> None:
    difference = torch.tensor([-2.0, 0.3, 1.1], dtype=torch.float64)
    for link in (LogitLikelihood(), ProbitLikelihood(), LogitLikelihood(3.0)):
        interval = Interval("latent", link)
        h = torch.cat([difference, difference.new_zeros(1)]).requires_grad_()
        (slopes,) = torch.autograd.grad(link(h).sum(), h)
        assert interval.slope == pytest.approx(float(slopes[-1]))
        assert interval.steepness(difference) == pytest.approx(float(1 / slopes[:-1].min()))
    assert Interval("latent", LogitLikelihood()).slope == 0.25
    bound = steepness_bound(1.7)
    at = torch.tensor([math.sqrt(2) * 1.7], dtype=torch.float64)
    assert bound == pytest.approx(Interval("latent", LogitLikelihood()).steepness(at))


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
