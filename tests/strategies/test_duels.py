"""What every rule that asks duels has in common: pairs, open duels, options, the paper's preset."""

from __future__ import annotations

import math
import statistics
import time
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchError

from botorch_pref.problems import get_problem
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.runner import num_threads
from botorch_pref.strategies import (
    COBOL,
    DTS,
    EUBO,
    MRLPF,
    PFTS,
    POPBO,
    CompGPUCB,
    CostAwareKG,
    DuelingKG,
    LaplacePOPBO,
    MaxMinLCBStrategy,
    MultipleChoicePOPBO,
    RandomPairs,
)
from tests.contracts.strategy import BoxContract, StrategyContract, play
from tests.models.common import rand
from tests.strategies import common
from tests.strategies.common import APART, FIXED, GRID, LINE

RULES: dict[str, tuple[Any, dict[str, Any]]] = {
    "PFTS": (PFTS, {}),
    "EUBO": (EUBO, {}),
    "EUBO incumbent": (EUBO, {"anchor": "incumbent"}),
    "DTS": (DTS, {}),
    "DuelingKG": (DuelingKG, {}),
    "MaxMinLCB": (MaxMinLCBStrategy, {}),
    "LaplacePOPBO": (LaplacePOPBO, {}),
    "POPBO": (POPBO, {"norm_bound": 2.0}),
    "RandomPairs": (RandomPairs, {}),
}
PLANNED = partial(MRLPF, horizon=40)
CERTAIN: dict[str, dict[str, Any]] = {
    "PFTS": {"scale": 1e-6},
    "LaplacePOPBO": {"beta": 0.0},
    "MaxMinLCB": {"beta": 0.0},
}


def made(name: str, **kwargs: Any) -> Any:
    kind, options = RULES[name]
    domain = {} if "bounds" in kwargs else {"choices": rand(8, 2)}
    return kind(**{**domain, "hyperparameters": FIXED, **options, **kwargs})


class TestOnChoices(StrategyContract):
    @pytest.fixture(autouse=True, params=[name for name in RULES if name != "EUBO incumbent"])
    def _of(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def make(self, seed: int = 0) -> Any:
        return made(self.name, choices=rand(12, 2), hyperparameters=APART, seed=seed)


class TestOnABox(BoxContract):
    @pytest.fixture(autouse=True, params=[name for name in RULES if name != "EUBO"])
    def _of(self, request: pytest.FixtureRequest) -> None:
        self.name = request.param

    def make(self, seed: int = 0) -> Any:
        return made(self.name, bounds=LINE, kappa=4.0, seed=seed)


class TestLearning(StrategyContract):
    """Of all that learn hyperparameters from one and the same model."""

    def make(self, seed: int = 0) -> PFTS:
        return PFTS(choices=3.0 * rand(10, 2), seed=seed)


class TestOfThePaper(StrategyContract):
    """In which items may meet themselves."""

    def make(self, seed: int = 0) -> MaxMinLCBStrategy:
        return MaxMinLCBStrategy.paper(choices=rand(12, 2), hyperparameters=APART, seed=seed)


@pytest.mark.parametrize(
    ("name", "certain"),
    [*((name, {}) for name in RULES if name != "RandomPairs"), *CERTAIN.items()],
)
def test_no_item_meets_itself(name: str, certain: dict[str, Any]) -> None:
    """Not even where two choices are equal in value, or nothing is left to learn."""
    options = dict(certain)
    if name == "MaxMinLCB":  # whose last candidate among choices meets itself
        options["candidate_filter"] = False
    for choices in (torch.cat([GRID, GRID]), GRID[:2]):
        strategy = made(name, choices=choices, **options)
        for query in play(strategy, 10):
            assert query.indices[0] != query.indices[1]
            assert name != "POPBO" or not torch.equal(*query.items)
        assert strategy.num_identical == 0
        assert strategy.num_answers == strategy.learner.data.num_comparisons
    for query in play(made(name, bounds=LINE, **options), 2):
        assert float((query.items[0] - query.items[1]).abs()) > 1e-3 * 3.0


@pytest.mark.parametrize("name", [name for name in RULES if name != "RandomPairs"])
def test_open_queries_differ(name: str) -> None:
    """Before any answer and after some, on choices and on a box."""
    for strategy, num_annotators in ((made(name), 4), (made(name, bounds=LINE), 2)):
        for _ in range(2):
            asked = [strategy.ask(str(i)) for i in range(num_annotators)]
            sets = [query.items.sort(dim=0).values for query in asked]
            for i, one in enumerate(sets):
                assert all((one - other).abs().max() > 1e-3 for other in sets[:i])
            for query in asked:
                first, second = query.items.sum(-1).tolist()
                strategy.tell(query, float(first > second))


@pytest.mark.parametrize("name", ["EUBO", "EUBO incumbent", "MaxMinLCB"])
def test_open_duels_are_answered_as_expected(name: str) -> None:
    """The second annotator is asked as if the first had answered as expected."""
    waiting, answered = made(name), made(name)
    for strategy in (waiting, answered):
        common.play_noisily(strategy, 9)
    query = waiting.ask("ann")
    mean, _ = common.oracle(waiting)
    first, second = mean[list(query.indices)]
    answered.tell(answered.ask("ann"), float(first > second))
    assert set(waiting.ask("bob").indices) == set(answered.ask("bob").indices)


@pytest.mark.parametrize("name", ["EUBO", "MaxMinLCB"])
def test_ties_are_broken_by_the_seed(name: str) -> None:
    """Items so far apart that no pair is better than another before any answer."""
    far, rows = 100.0 * torch.eye(4, dtype=torch.float64), range(4)
    asked = {
        made(name, choices=far, hyperparameters=APART, seed=seed).ask().indices
        for seed in range(150)
    }
    assert asked == {(i, j) for i in rows for j in rows if i != j}


@pytest.mark.parametrize("name", ["PFTS", "EUBO", "DTS", "MaxMinLCB", "LaplacePOPBO"])
def test_answers_are_learnt(name: str) -> None:
    """Also where the judge likes the other end."""
    for sign in (1.0, -1.0):
        strategy = made(name, choices=sign * GRID, seed=1)
        play(strategy, 30)
        assert torch.equal(strategy.recommend(), GRID[-1] if sign > 0 else -GRID[0])


def test_the_largest_mean_is_recommended() -> None:
    """Ties are broken by the seed; a box is searched between the items that were asked, too."""
    found = {made("EUBO", choices=GRID, seed=seed).recommend_index() for seed in range(60)}
    assert found == set(range(len(GRID)))
    strategy = made("EUBO", choices=GRID, kappa=2.0)
    play(strategy, 9)
    mean, _ = common.oracle(strategy)
    assert strategy.recommend_index() == np.argmax(mean)
    box = made("PFTS", bounds=LINE)
    play(box, 3)
    item = box.recommend()
    items = torch.cat([item.unsqueeze(0), box.asked_items(), common.line(2001)])
    with torch.no_grad():
        means = box.learner.model().posterior(items.unsqueeze(-2)).mean.flatten()
    assert means[0] >= means.max() - 1e-8
    assert torch.equal(box.recommend(), item)


@pytest.mark.parametrize("kind", [PFTS, MaxMinLCBStrategy, LaplacePOPBO])
def test_the_setting_of_the_paper(kind: Any) -> None:
    strategy = kind.paper(choices=GRID, seed=4)
    assert strategy.learner.kappa == 1.0
    assert strategy.learner.penalty == pytest.approx(0.05)
    kernel = strategy.learner.covar_module().base_kernel
    assert kernel.nu == 2.5
    assert kernel.lengthscale.flatten().tolist() == pytest.approx([0.1])
    own = {"scale": "paper", "on_identical": "keep", "beta": 1.0, "exclude_identical": False}
    for option, value in {**own, "diagonal": "keep", "candidate_filter": True}.items():
        assert getattr(strategy, option, value) == value
    assert kind.paper(choices=GRID, kappa=4.0).kappa == 4.0


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (PFTS, {"on_identical": ["never"], "scale": ["cubic", -1.0, True], "seed": [1.5, None]}),
        (EUBO, {"anchor": ["best"], "kappa": [-1.0]}),
        (MaxMinLCBStrategy, {"beta": [-1.0, math.nan], "diagonal": ["drop"]}),
        (MaxMinLCBStrategy, {"candidate_filter": ["yes"]}),
        (LaplacePOPBO, {"beta": [-1.0, math.inf], "exclude_identical": [1]}),
        (POPBO, {"norm_bound": [0.0], "slack": [-1.0, "root", lambda t, b: 1.0]}),
        (POPBO, {"adapt_norm_bound": [1], "value_bound": [-3.0], "report": ["best"]}),
        (MultipleChoicePOPBO, {"num_new": [0, 1.5]}),
        (RandomPairs, {"regularizer": ["ridge"], "kappa": [0.0, -1.0, math.nan, "bound"]}),
        (MRLPF, {"horizon": [0, -3, 2.5, "7", None, True]}),
        (PLANNED, {"kappa": [-1.0, "laplace"], "beta": [-1.0], "ci_scale": ["logit"]}),
        (PLANNED, {"regularizer": ["ridge"], "recommendation": ["best"], "epsilon": [0.0]}),
        (COBOL, {"trust": [0.9], "rate": [-1.0], "beta": [0.0], "candidate": ["guess"]}),
        (COBOL, {"label_window": [0], "label_intercept": [1.0], "norm_bound_limit": [-1.0]}),
        (COBOL, {"num_initial_values": [0], "lengthscale_prior": [1]}),
        (CompGPUCB, {"gamma": [-0.1], "gamma_factor": [0.5], "borda_slack": [-1.0]}),
        (CompGPUCB, {"beta": ["sqrt"]}),
        (CostAwareKG, {"bias": [-1.0], "noise": [0.0]}),
    ],
)
def test_bad_options_are_refused_at_once(kind: Any, options: dict[str, list[Any]]) -> None:
    for name, values in options.items():
        for domain in ({"bounds": LINE}, {"choices": GRID}):
            for value in values:
                with pytest.raises(BotorchError, match=f"`{name}`"):
                    kind(**domain, **{name: value})


@pytest.mark.parametrize(
    ("hyperparameters", "argument"),
    [
        ("guess", "hyperparameters"),
        (None, "hyperparameters"),
        ({}, "hyperparameters"),
        ({"lengthscale": 0.1}, "hyperparameters"),
        ({**FIXED, "nu": 2.5}, "hyperparameters"),
        ({**FIXED, "kernel": "cubic"}, "hyperparameters"),
        ({**FIXED, "penalty": 0.1}, "hyperparameters"),
        ({"lengthscale": 0.1, "penalty": 0.0}, "penalty"),
        ({"lengthscale": -0.1, "penalty": 1.0}, "lengthscale"),
        ({"lengthscale": math.nan, "penalty": 1.0}, "lengthscale"),
        ({"lengthscale": [0.1, 0.2], "penalty": 1.0}, "lengthscale"),
    ],
)
def test_bad_hyperparameters(hyperparameters: Any, argument: str) -> None:
    with pytest.raises(BotorchError, match=argument):
        PFTS(choices=GRID, hyperparameters=hyperparameters)


@pytest.mark.slow
@pytest.mark.parametrize("kappa", ["laplace", 4.0])
@pytest.mark.parametrize("name", ["PFTS", "EUBO", "DTS", "MaxMinLCB"])
def test_the_hundredth_costs_at_most_four_times_the_tenth(name: str, kappa: Any) -> None:
    """Ask and tell, six dimensions, one thread; each a median of five."""
    known = {"kernel": "rbf", "lengthscale": 0.5, "outputscale": 4.0}
    judge, seconds = LogisticJudge(get_problem("hartmann6"), 0), []
    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, 6)
    strategy = made(name, bounds=bounds, hyperparameters=known, kappa=kappa)
    with num_threads(1):
        for step in range(103):
            begin = time.process_time()
            query = strategy.ask()
            asked = time.process_time() - begin
            answer = judge(query, step)
            begin = time.process_time()
            strategy.tell(query, answer)
            seconds.append(asked + time.process_time() - begin)
    tenth, hundredth = statistics.median(seconds[7:12]), statistics.median(seconds[97:102])
    assert hundredth <= 4.0 * tenth, (tenth, hundredth)
