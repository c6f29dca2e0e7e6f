"""The cost-aware knowledge gradient: what is bought at which price, budgets, units, state."""

from __future__ import annotations

import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels.comparison_bias import UTILITY, marked
from botorch_pref.queries import Choice, Duel, Evaluate, Grade, Query, Ranking, Worst
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import CostAwareKG
from botorch_pref.strategies.cost_aware_kg import _Search
from botorch_pref.study import Study
from tests.contracts.strategy import StrategyContract
from tests.models.common import rand
from tests.strategies.budget import WIDE as BOX
from tests.strategies.budget import play, reply, value

TABLE = rand(6, 2)


def known_kernel(dim: int) -> ScaleKernel:
    """A kernel of which nothing is learnt."""
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = 0.5, 1.0
    return kernel.requires_grad_(False)


QUICK: dict[str, Any] = {
    "num_initial_duels": 3,
    "num_initial_values": 2,
    "budget": 4,
    "covar_module": known_kernel,
    "bias": 0.0,
    "noise": 0.01,
}
EXPENSIVE = 10_000


def on_items(**kwargs: Any) -> CostAwareKG:
    return CostAwareKG(**{"choices": TABLE, **QUICK, **kwargs})


def on_a_box(**kwargs: Any) -> CostAwareKG:
    return CostAwareKG(**{"bounds": BOX, **QUICK, **kwargs})


class TestContractOfDuels(StrategyContract):
    """Values are too expensive."""

    num_duels = 3

    def make(self, seed: int = 0) -> CostAwareKG:
        options = {"value_cost": EXPENSIVE, "num_initial_values": 0, "num_initial_duels": 2}
        return on_items(seed=seed, **options, budget=None, covar_module=None)


@pytest.mark.parametrize("make", [on_items, pytest.param(on_a_box, marks=pytest.mark.slow)])
def test_a_run(make: Any) -> None:
    """What is asked gains more for its price, the last money confirms, nothing is overspent."""
    strategy = make()
    queries = play(strategy)
    kinds = ["duel" if isinstance(query, Duel) else "value" for query in queries]
    assert kinds == [record.kind for record in strategy.records]
    assert strategy.spent <= 4
    phases = [record.phase for record in strategy.records]
    assert phases[:5] == ["initial"] * 5
    assert phases[5:] == ["gain"] * (len(phases) - 6) + ["confirm"]
    for record in strategy.records[5:-1]:
        gains = {"duel": record.duel_gain, "value": record.value_gain}
        assert all(gain >= 0 or math.isnan(gain) for gain in gains.values())
        other = "value" if record.kind == "duel" else "duel"
        assert not gains[record.kind] < gains[other]


def test_the_recommended_item_is_confirmed() -> None:
    strategy = on_items(budget="3.5")
    play(strategy, 5)
    while strategy.records[-1].phase != "confirm":
        best = strategy.recommend_index()
        query = strategy.ask()
        strategy.tell(query, reply(query))
    assert query.indices == best
    assert strategy.finished
    assert strategy.spent > strategy.budget - 1  # of duels there were as many as can
    poor = on_items(budget="0.5", num_initial_values=0)  # not even one value
    play(poor)
    assert [record.kind for record in poor.records] == ["duel"] * 5


def test_prices_decide() -> None:
    """The same data: a kind that is expensive enough is not bought, whichever it is."""
    for price_of, bought in (("duel_cost", "value"), ("value_cost", "duel")):
        strategy = on_items(**{price_of: EXPENSIVE}, budget=None)
        play(strategy, 7)
        later = strategy.records[5:]
        assert {record.kind for record in later} == {bought}
        gains = [(record.duel_gain, record.value_gain) for record in later]
        free = on_items(budget=None)
        play(free, 6)
        price = {"duel": 0.1, "value": 1.0}
        price[price_of[:-5]] = EXPENSIVE
        assert free.records[5].duel_gain * 0.1 == pytest.approx(gains[0][0] * price["duel"])
        assert free.records[5].value_gain == pytest.approx(gains[0][1] * price["value"])


def test_bias_makes_duels_worth_less() -> None:
    gains = []
    for bias in (0.0, 0.3, 30.0):
        strategy = on_items(bias=bias, budget=None)
        play(strategy, 6)
        gains.append(strategy.records[5].duel_gain / strategy.records[5].value_gain)
    assert gains[0] > gains[1] > gains[2]


@pytest.mark.slow
def test_learns_units_and_hyperparameters() -> None:
    """In other units of the values everything is the same; fits wait for the first design."""
    queries = []
    for unit in (1.0, 100.0):
        strategy = on_items(covar_module=None, bias=None, noise=1e-4, budget=None)
        for _ in range(7):
            query = strategy.ask()
            scale = unit if isinstance(query, Evaluate) else 1.0
            strategy.tell(query, scale * reply(query) + (5.0 if scale > 1 else 0.0))
        queries.append([query.items for query, _ in strategy.history])
        model = strategy.model()
        assert model.covar_module.bias > 0
        assert model.link_scale > 0
        assert strategy.units.spread > 0.05 * unit
    for one, other in zip(*queries, strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_learns_the_noise() -> None:
    strategy = on_items(noise=None, budget=None, num_initial_values=4)
    play(strategy, 9)
    assert 1e-4 <= strategy.value_noise == float(strategy.model().noise_model.noise.detach())


@torch.no_grad()
def test_one_model_of_both() -> None:
    strategy = on_items(bias=0.2)
    play(strategy, 6)
    model = strategy.model()
    assert float(model.covar_module.bias) == 0.2
    assert (model.datapoints[:, -1] == 1).all()
    assert (model.values.datapoints[:, -1] == 0).all()
    mean = model.posterior(marked(TABLE, UTILITY)).mean.flatten()
    assert strategy.recommend_index() == int(mean.argmax())
    # What is pending counts as answered as expected.
    pending = [Evaluate(99, TABLE[0], 0, None), Duel(98, TABLE[[1, 2]], (1, 2), None)]
    believed = strategy.model(pending)
    assert believed.num_observations >= model.num_observations + 1
    new = believed.posterior(marked(TABLE[:1], UTILITY))
    torch.testing.assert_close(float(new.mean), float(mean[0]), atol=0.1, rtol=0)
    assert float(new.variance) < 0.011


def test_an_identical_duel_tells_nothing() -> None:
    strategy = on_items()
    strategy._add(Duel(0, TABLE[[1, 1]], (1, 1), None), 1.0)
    assert not strategy.duels


def test_many_choices() -> None:
    """Duels are of those that may be best; every choice may be measured."""
    table = rand(150, 2, seed=1)
    strategy = on_items(choices=table, budget=None)
    for query in play(strategy, 7):
        assert torch.equal(query.rows, table[list(query.row_indices or ())])
    step = _Search(strategy, 9, [])
    assert len(step.reference) == len(step.contenders) < 64
    assert strategy.recommend_index() in step.contenders


@pytest.mark.parametrize("domain", [{"choices": TABLE}, {"bounds": BOX}])
def test_a_recommendation_before_anything_was_learnt_has_no_unit(domain: dict[str, Tensor]) -> None:
    def recommended(scale: float, offset: float) -> Tensor:
        strategy = CostAwareKG(num_initial_duels=0, num_initial_values=5, **domain)
        for told in (0.3, 0.1, 0.7, 0.2):
            strategy.tell(strategy.ask(), offset + scale * told)
        return strategy.recommend()

    wanted = recommended(1.0, 0.0)
    torch.testing.assert_close(recommended(100.0, -300.0), wanted, atol=1e-4, rtol=0.0)


def test_what_could_not_be_measured_is_not_asked_for_again_however_noisy_values_are() -> None:
    strategy = on_items(budget=None, duel_cost=EXPENSIVE, num_initial_duels=0, noise=2.0)
    play(strategy, 2)
    asked = []
    for _ in range(4):
        query = strategy.ask()
        strategy.tell(query, None)
        asked.append(query.indices)
    assert len({*asked}) == 4


def best_answer(query: Query) -> Any:
    """The most likely answer of whoever knows the utility."""
    if query.measures:
        return reply(query)
    chances = query.probabilities(10.0 * value(query.items), torch.sigmoid)
    return max(chances, key=chances.__getitem__)


QUESTIONS = {"best of 4": Choice, "worst of 3": Worst, "rank 3": Ranking, "grade 5": Grade}


BOXES = [pytest.param(on_a_box, "best of 4", marks=pytest.mark.slow)]


@pytest.mark.parametrize(("make", "question"), [*((on_items, one) for one in QUESTIONS), *BOXES])
def test_asks_other_questions(make: Any, question: str) -> None:
    """Of different items, for their price, and the same ones from a state."""
    strategy = make(question=question, duel_cost="0.01", budget=None)
    for number in range(8):
        state = json.loads(json.dumps(strategy.state_dict()))
        query = strategy.ask()
        if number > 5:
            assert CostAwareKG.from_state_dict(state, covar_module=known_kernel).ask() == query
        assert isinstance(query, Evaluate) or type(query) is QUESTIONS[question]
        assert query.is_plain
        strategy.tell(query, best_answer(query))
    assert [record.kind for record in strategy.records[:5]] == ["duel"] * 3 + ["value"] * 2
    assert all(record.duel_gain >= 0.0 for record in strategy.records[5:])
    assert any(record.kind == "duel" for record in strategy.records[5:])
    assert value(strategy.recommend()) > value(TABLE if make is on_items else BOX).mean()


def test_best_of_two_gains_what_a_duel_does() -> None:
    gains = []
    for question in ("duel", "best of 2"):
        strategy = on_items(question=question, budget=None)
        play(strategy, 6, best_answer)
        gains.append(strategy.records[5].duel_gain)
    assert gains[1] == pytest.approx(gains[0], rel=0.05)


def test_questions_that_cannot_be_asked() -> None:
    with pytest.raises(ComparisonDataError, match="7 items needs as many different"):
        on_items(question="best of 7")
    with pytest.raises(ComparisonDataError, match="`question` must be"):
        on_items(question="best")
    strategy = on_items()
    strategy.ask()
    state = strategy.state_dict()
    state["options"]["question"] = "best of 3"
    with pytest.raises(ComparisonDataError, match=r"Query 0, a duel of 2 items, is none of"):
        CostAwareKG.from_state_dict(state, covar_module=known_kernel)


def test_a_study_of_choices_and_values(tmp_path: Path) -> None:
    path, make = tmp_path / "study.json", partial(CostAwareKG, **{**QUICK, "covar_module": None})
    with Study.create(path, SearchSpace(choices=TABLE), make, question="grade 5") as study:
        for _ in range(6):
            query = study.ask()
            study.tell(query, best_answer(query))
        expected = study.ask()
    with Study.load(path) as study:
        assert study.ask() == expected
        assert {*study.history["kind"]} == {"grade", "evaluate"}
