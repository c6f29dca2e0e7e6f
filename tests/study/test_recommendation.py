"""What a study recommends, how sure it says it is, and when it has asked enough."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest
import torch
from gpytorch.kernels import MaternKernel

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels.items import default_covar_module
from botorch_pref.likelihoods import ProbitLikelihood
from botorch_pref.models import PreferenceGP
from botorch_pref.queries import Duel, Label
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import COBOL, PFTS, RandomPairs
from botorch_pref.strategies.utility import UtilityLearner
from botorch_pref.study import StoppingRule, Study
from botorch_pref.study.recommendation import Beliefs

ENDS = torch.tensor([[0.0, 1.0, 0.01, 0.0], [80.0, 4.0, 10.0, 2.0]], dtype=torch.float64)
SPACE = SearchSpace(ENDS, integer=[1], log=[2], categorical=[3])
NAMES = ["milk (ml)", "shots", "dose (g)", "roast"]
LEVELS = {"roast": ["light", "medium", "dark"]}
TABLE = SearchSpace(choices=torch.arange(5, dtype=torch.float64).unsqueeze(-1) / 4.0)


def begun(path: Path, **options: object) -> Study:
    return Study.create(
        path, SPACE, partial(RandomPairs, seed=2), names=NAMES, levels=LEVELS, **options
    )


def answer(query: Duel) -> float:
    return float(query.items[0, 0] > query.items[1, 0])  # the more milk, the better


def test_a_recommendation(tmp_path: Path) -> None:
    """The statement says what the numbers say, by the names of things; undo takes it back."""
    rule = StoppingRule(min_answers=10)
    with begun(tmp_path / "study.json", stopping=rule) as study:
        with pytest.raises(ComparisonDataError, match="nothing is recommended"):
            study.recommend()
        study.skip(study.ask())
        assert study.beliefs() is None
        for _ in range(10):
            query = study.ask()
            study.tell(query, answer(query))
        found = study.recommend()
        assert torch.equal(found.item, study.strategy.recommend())
        milk, shots, dose, roast = found.item.tolist()
        level = LEVELS["roast"][int(roast)]
        assert found.values == {"milk": milk, "shots": shots, "dose": dose, "roast": level}
        named = f"milk {milk:.2f} ml, shots {shots:.0f}, dose {dose:.4g} g, roast {level}"
        assert study.describe(found.item, fine=True) == named
        named = study.describe(found.item)
        assert named == f"milk {milk:.0f} ml, shots {shots:.0f}, dose {dose:.2g} g, roast {level}"
        # The best item of the space is none of the twenty that were asked.
        assert (found.num_answers, found.num_items) == (10, 21)
        asked = study.strategy.asked_items()
        assert not (asked == found.item).all(-1).any()
        assert found.best_asked is not None
        beliefs = study.beliefs()
        assert beliefs is not None
        with torch.no_grad():
            means = beliefs.model.posterior(torch.stack([found.item, found.best_asked])).mean
        assert float(means[0]) > float(means[1]) == pytest.approx(float(beliefs.mean.max()))
        assert found.probability_best is not None
        assert found.win_probability is not None
        assert found.win_probability > 0.5
        assert found.statement.startswith(
            f"{named}. It, or one that hardly differs, is the best of 21 items with probability "
            f"{found.probability_best:.2f}. Against the best of those asked "
            f"({study.describe(found.best_asked)}) it wins a duel with probability "
            f"{found.win_probability:.2f}. "
        )
        assert found.progress == pytest.approx(min(1.0, found.good_enough / 0.9))
        study.undo()
        again = study.recommend()
        assert again.num_answers == 9
        assert again.probability_best != found.probability_best
        # Few answers mostly tell of the prior: no probability is put into words.
        assert "; too few answers to say how sure that is." in again.statement
        assert "probability" not in again.statement
        query = study.ask()
        study.tell(query, answer(query))
        assert study.recommend().statement == found.statement


def test_a_stopping_rule_is_saved_and_met(tmp_path: Path) -> None:
    """More agreeing answers make it surer, up to the goal."""
    path, rule = tmp_path / "study.json", StoppingRule(0.5, 0.2, min_answers=3)
    with Study.create(path, TABLE, partial(RandomPairs, seed=2), stopping=rule) as study:
        for _ in range(2):
            study.tell(query := study.ask(), answer(query))
        assert study.recommend().progress <= 2 / 3
    with Study.load(path) as study:
        assert study.stopping == rule
        for _ in range(12):
            study.tell(query := study.ask(), answer(query))
        found = study.recommend()
        assert found.good_enough > 0.5
        assert found.is_settled
        assert found.progress == 1.0


def test_beliefs_are_those_of_the_model() -> None:
    """Against 200,000 draws of the joint posterior, and a normal difference of two items."""
    strategy = RandomPairs(space=TABLE, seed=0)
    for _ in range(12):
        query = strategy.ask()
        strategy.tell(query, float(query.items[0, 0] > query.items[1, 0]))
    beliefs = Beliefs.of(strategy)
    assert beliefs is not None
    assert isinstance(beliefs.model, PreferenceGP)
    assert beliefs.items.flatten().tolist() == [0.0, 0.25, 0.5, 0.75, 1.0]
    posterior = beliefs.model.posterior(beliefs.items)
    torch.manual_seed(0)
    joint = torch.distributions.MultivariateNormal(
        posterior.mean.squeeze(-1).detach(),
        posterior.covariance_matrix.detach() + 1e-10 * torch.eye(5),
    ).sample((200_000,))
    wanted = (joint.argmax(-1) == 4).double().mean()
    found = (beliefs.advantages(4).amax(-1) <= 0.0).double().mean()
    assert float(found) == pytest.approx(float(wanted), abs=0.025)
    gaps = joint[:, 4] - joint[:, 0]
    chance = beliefs.model.win_probability(beliefs.items[[4, 0]]).item()
    assert chance == pytest.approx(float(gaps.sigmoid().mean()), abs=0.01)
    assert beliefs.noticeable(0.1) == pytest.approx(math.log(0.6 / 0.4))
    with_other, row = beliefs.with_item(torch.tensor([0.6]).double())
    assert (len(with_other.items), row) == (6, 5)
    assert beliefs.with_item(torch.tensor([0.5]).double())[1] == 2


def test_beliefs_have_the_strategys_link_and_kernel() -> None:
    """Its covariance is Laplace's in any case, and its hyperparameters are of all answers."""
    strategy = PFTS(
        space=TABLE, kappa=1.0, likelihood=ProbitLikelihood(0.7), covar_module=MaternKernel(1.5)
    )
    for _ in range(5):
        query = strategy.ask()
        strategy.tell(query, answer(query))
    before = strategy.state_dict()
    beliefs = Beliefs.of(strategy)
    assert strategy.state_dict() == before
    assert beliefs is not None
    assert beliefs.model.variance == "laplace"
    assert isinstance(beliefs.model.covar_module, MaternKernel)
    assert isinstance(beliefs.model.likelihood, ProbitLikelihood)
    noticeable = torch.tensor(beliefs.noticeable(0.1)).double()
    assert float(torch.special.ndtr(0.7 * noticeable)) == pytest.approx(0.6)
    direct = UtilityLearner(TABLE, likelihood=ProbitLikelihood(0.7), covar_module=MaternKernel(1.5))
    for query, told in strategy.history:
        direct.add(query, told)
    direct.refit(at_once=True)
    wanted = direct.model().posterior(beliefs.items).mean.squeeze(-1)
    torch.testing.assert_close(beliefs.mean, wanted.detach())


def test_items_that_are_alike() -> None:
    """They share what is said of each; another category is another item, and so is a choice."""
    items = torch.tensor([[40.0, 2, 1.0, 1], [43.0, 2, 1.3, 1], [40.0, 2, 1.0, 2], [70.0, 2, 1, 1]])
    pairs = items.double()[torch.tensor([[0, 3], [1, 3], [2, 3]])]
    won, seen = torch.ones(3, dtype=torch.float64), SPACE.input_transform()
    kernel = default_covar_module(SPACE.num_features, torch.Size())
    model = PreferenceGP.from_pairs(pairs, won, covar_module=kernel, input_transform=seen)
    beliefs = Beliefs(model, SPACE, items.double(), 3, 0)
    assert beliefs.alike(0).tolist() == [True, True, False, False]
    assert beliefs.distinct(9, 1)[0] == 1
    assert sorted(beliefs.distinct(9, 1)) == [1, 2, 3]
    assert len(beliefs.distinct(2, 1)) == 2
    table = SearchSpace(choices=torch.tensor([[0.0], [0.01], [1.0]]))
    assert Beliefs(model, table, table.table, 3, 0).alike(0).tolist() == [True, False, False]


def test_a_stopping_rule_counts_comparisons(tmp_path: Path) -> None:
    """Labels and values say nothing here, nor is anything sure of a single item."""
    advised = partial(COBOL, seed=1, num_initial_values=3, num_initial_labels=3)
    with Study.create(tmp_path / "cobol.json", SPACE, advised, names=NAMES, levels=LEVELS) as study:
        for _ in range(6):
            query = study.ask()
            study.tell(query, 1.0 if isinstance(query, Label) else float(query.items[0]))
        found = study.recommend()
    assert (found.num_answers, found.num_items, found.progress) == (6, 1, 0.0)
    assert found.statement == f"{study.describe(found.item)}; no comparison says how sure that is."
