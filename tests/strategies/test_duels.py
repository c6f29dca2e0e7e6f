"""What every rule that asks duels has in common: pairs, open duels, options, the paper's preset."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchError

from botorch_pref.strategies import (
    DTS,
    EUBO,
    PFTS,
    POPBO,
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
    "MaxMinLCB": (MaxMinLCBStrategy, {}),
    "LaplacePOPBO": (LaplacePOPBO, {}),
}
CERTAIN: dict[str, dict[str, Any]] = {
    "PFTS": {"scale": 1e-6},
    "LaplacePOPBO": {"beta": 0.0},
    "MaxMinLCB": {"beta": 0.0},
}
ALL = pytest.mark.parametrize("name", RULES)


def made(name: str, **kwargs: Any) -> Any:
    kind, options = RULES[name]
    domain = {} if "bounds" in kwargs else {"choices": rand(8, 2)}
    return kind(**{**domain, "hyperparameters": FIXED, **options, **kwargs})


class _OnChoices(StrategyContract):
    name: str

    def make(self, seed: int = 0) -> Any:
        return made(self.name, choices=rand(12, 2), hyperparameters=APART, seed=seed)


class _OnABox(BoxContract):
    name: str

    def make(self, seed: int = 0) -> Any:
        return made(self.name, bounds=LINE, kappa=4.0, seed=seed)


class TestEUBOOnChoices(_OnChoices):
    name = "EUBO"


class TestEUBOOnABox(_OnABox):
    name = "EUBO incumbent"


class TestDTSOnChoices(_OnChoices):
    name = "DTS"


class TestDTSOnABox(_OnABox):
    name = "DTS"


class TestMaxMinLCBOnChoices(_OnChoices):
    name = "MaxMinLCB"


class TestMaxMinLCBOnABox(_OnABox):
    name = "MaxMinLCB"


class TestLaplacePOPBOOnChoices(_OnChoices):
    name = "LaplacePOPBO"


class TestLaplacePOPBOOnABox(_OnABox):
    name = "LaplacePOPBO"


class TestPFTSOnChoices(_OnChoices):
    name = "PFTS"


class TestPFTSOnABox(_OnABox):
    name = "PFTS"


@ALL
@pytest.mark.parametrize("certain", [False, True])
def test_no_item_meets_itself(name: str, certain: bool) -> None:
    """Not even where two choices are equal in value, or nothing is left to learn."""
    options = dict(CERTAIN.get(name, {})) if certain else {}
    if name == "MaxMinLCB":  # whose last candidate among choices meets itself
        options["candidate_filter"] = False
    for choices in (torch.cat([GRID, GRID]), GRID[:2]):
        strategy = made(name, choices=choices, **options)
        for query in play(strategy, 10):
            assert query.indices[0] != query.indices[1]
        assert strategy.num_identical == 0
        assert strategy.num_answers == strategy.learner.data.num_comparisons
    for query in play(made(name, bounds=LINE, **options), 3):
        assert float((query.items[0] - query.items[1]).abs()) > 1e-3 * 3.0


@ALL
def test_open_queries_differ(name: str) -> None:
    common.assert_open_queries_differ(lambda: made(name), num_annotators=4)
    common.assert_open_queries_differ(lambda: made(name, bounds=LINE), num_annotators=2)


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


@pytest.mark.parametrize("kind", [PFTS, MaxMinLCBStrategy, POPBO])
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
        (PFTS, {"on_identical": ["never"], "scale": ["cubic", -1.0, True]}),
        (EUBO, {"anchor": ["best"], "kappa": [-1.0]}),
        (MaxMinLCBStrategy, {"beta": [-1.0, math.nan], "diagonal": ["drop"]}),
        (MaxMinLCBStrategy, {"candidate_filter": ["yes"]}),
        (LaplacePOPBO, {"beta": [-1.0, math.inf], "exclude_identical": [1]}),
        (POPBO, {"norm_bound": [0.0], "slack": [-1.0, "root", lambda t, b: 1.0]}),
        (POPBO, {"adapt_norm_bound": [1], "value_bound": [-3.0], "report": ["best"]}),
        (MultipleChoicePOPBO, {"num_new": [0, 1.5, 7]}),
        (RandomPairs, {"regularizer": ["ridge"], "kappa": [0.0, -1.0, math.nan, "bound"]}),
    ],
)
@pytest.mark.parametrize("box", [False, True])
def test_bad_options_are_refused_at_once(
    kind: Any, options: dict[str, list[Any]], box: bool
) -> None:
    for name, values in options.items():
        for value in values:
            if box and name == "num_new" and value == 7:  # enough items on a box
                continue
            with pytest.raises(BotorchError, match=name):
                kind(**({"bounds": LINE} if box else {"choices": GRID}), **{name: value})


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
