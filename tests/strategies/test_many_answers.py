r"""Very many answers: learnt from by a part of them, and predicted by some of their items."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.queries import Answered, Choice, Duel, Evaluate, Grade
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import EUBO, PFTS, CostAwareKG, DuelingKG, LaplacePOPBO
from botorch_pref.strategies import cost_aware_kg as cost_aware
from botorch_pref.strategies import utility as module
from botorch_pref.strategies.utility import UtilityLearner, random_part

FIXED = {"lengthscale": 0.5, "outputscale": 10.0, "kernel": "matern"}
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
SIX = BOX[:, :1].repeat(1, 6)


def value(items: Tensor) -> Tensor:
    return -10.0 * (items - 0.4).square().sum(-1)


def duels(number: int, seed: int = 0, dim: int = 2, names: tuple[Any, ...] = (None,)) -> list:
    """Answers of logistic judges, a row each."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.rand(number, 2, dim, dtype=torch.double, generator=generator)
    chance = torch.sigmoid(value(pairs[:, 0]) - value(pairs[:, 1]))
    won = torch.rand(number, dtype=torch.double, generator=generator) < chance
    told = zip(pairs, won.tolist(), strict=True)
    return [
        Answered(Duel(row, pair, None, names[row % len(names)]), float(first))
        for row, (pair, first) in enumerate(told)
    ]


def learner_of(answered: list, hyperparameters: object = FIXED, dim: int = 2) -> UtilityLearner:
    bounds = BOX[:, :1].repeat(1, dim)
    learner = UtilityLearner(SearchSpace(bounds), hyperparameters, seed=0, sure=True)
    for query, answer in answered:
        learner.add(query, answer)
    return learner


@pytest.mark.parametrize(("number", "learnt"), [(300, 300), (420, 300)])
def test_hyperparameters_are_learnt_from_300_comparisons(
    number: int, learnt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = []

    def counted(mll: LaplaceMarginalLogLikelihood) -> None:
        sizes.append(mll.model.num_observations)

    monkeypatch.setattr(module, "fit_gpytorch_mll", counted)
    learner = learner_of(duels(number), "evidence")
    assert learner.refit()
    assert sizes == [learnt, learnt]  # of a judge who may hardly err, too
    assert learner.num_fitted == number
    assert (learner._part_to_learn() is learner.told) == (number == 300)


def test_few_items_are_all_learnt_from() -> None:
    """What counts is the size of exact inference, which repeated duels do not enlarge."""
    items = torch.rand(20, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    answered = [
        Answered(Duel(row, items[[row % 20, (row * 7 + 1) % 20]]), 1.0) for row in range(400)
    ]
    learner = learner_of([done for done in answered if done.query.is_plain])
    assert learner._part_to_learn() is learner.told


def test_a_part_has_every_kind_in_its_order() -> None:
    items = torch.rand(5, 4, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    rare = [Answered(Grade(900, items[0, :2]), 3), Answered(Choice(901, items[1]), 2)]
    answered = [*duels(400), *rare, *[Answered(Choice(902 + i, items[2]), 1) for i in range(50)]]
    part = random_part(answered, 60, 0)
    assert {type(query) for query, _ in part} == {Duel, Grade, Choice}
    assert [query.id for query, _ in part] == sorted(query.id for query, _ in part)
    assert 50 <= sum(len(query.items) - 1 for query, _ in part) <= 60
    assert part == random_part(answered, 60, 0)
    assert part != random_part(answered, 60, 1)


@pytest.mark.parametrize("names", [(None,), ("Ann", "Bob")])
def test_the_model_of_very_many_duels_is_close_to_the_exact_one(names: tuple[Any, ...]) -> None:
    learner = learner_of(duels(1100, names=names))
    model, probes = learner.model(), torch.stack([query.items for query, _ in duels(500, 1)])
    assert model.inducing_points is not None
    assert len(model.inducing_points) == module.NUM_INDUCING
    exact = PreferenceGP(
        model.data.datapoints,
        model.data,
        covar_module=model.covar_module,
        input_transform=learner.space.input_transform(),
    )
    with torch.no_grad():
        difference = model.win_probability(probes) - exact.win_probability(probes)
    assert float(difference.abs().max()) < 0.01


def test_what_the_model_is_through_stays_between_refits() -> None:
    answered = duels(1110)
    learner = learner_of(answered[:1100])
    before = learner.model().inducing_points
    for query, answer in answered[1100:]:
        learner.add(query, answer)
    assert torch.equal(learner.model().inducing_points, before)
    assert learner_of(answered[:1000]).model().inducing_points is None


def test_a_part_does_not_make_a_logistic_judge_a_sure_one() -> None:
    """Evidence of other answers than those that hyperparameters were learnt from decides."""
    learner = learner_of(duels(1200, dim=6), "evidence", dim=6)
    learner.refit()
    assert learner.inference == "laplace"


@pytest.mark.parametrize("kind", [DuelingKG, EUBO, PFTS, LaplacePOPBO])
def test_a_restored_strategy_asks_the_same_next(kind: type[DuelingKG]) -> None:
    strategy = kind(bounds=BOX, hyperparameters=FIXED, seed=0)
    strategy.history = duels(1050)
    for query, answer in strategy.history:
        strategy.learner.add(query, answer)
    strategy._next_id, strategy.round = 1050, 1050
    again = kind.from_state_dict(strategy.state_dict())
    query = strategy.ask()
    assert again.ask() == query
    assert strategy.learner.model().inducing_points is not None
    strategy.tell(query, 1.0)
    assert len(strategy.recommend()) == 2


def test_duels_and_values(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []
    fit = cost_aware.fit_gpytorch_mll

    def counted(mll: LaplaceMarginalLogLikelihood) -> None:
        sizes.append(mll.model.num_observations)
        fit(mll)

    monkeypatch.setattr(cost_aware, "fit_gpytorch_mll", counted)
    strategy = CostAwareKG(bounds=BOX, num_initial_duels=0, num_initial_values=0, seed=0)
    for query, answer in duels(1100):
        strategy._add(query, answer)
    measured = torch.rand(6, 2, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    for row, item in enumerate(measured):
        strategy._add(Evaluate(1100 + row, item), float(value(item)))
    strategy.ask()
    assert sizes == [306]
    model = strategy.model()
    assert model.inducing_points is not None
    assert len(model.inducing_points) == 6 + module.NUM_INDUCING
    strategy.history = [*strategy.duels, *strategy.values]
    assert float(value(strategy.recommend())) > -0.2  # of -3 on average


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DuelingKG, EUBO, PFTS, LaplacePOPBO])
@pytest.mark.parametrize("number", [1000, 5000, 10_000])
def test_time(kind: type[DuelingKG], number: int) -> None:
    strategy = kind(bounds=SIX, seed=0)
    for query, answer in duels(number, dim=6):
        strategy.learner.add(query, answer)
    strategy.round = 8
    for promised in (5.0, 3.0):  # with a fit, and without
        before = time.process_time()
        query = strategy.ask()
        assert time.process_time() - before < 1.5 * promised  # others may compute beside
        strategy.tell(query, 1.0)
