"""POP-BO with choices of a favourite: one new item is a duel, greedy batches, state."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from botorch_pref.acquisition import OptimisticAdvantage, OptimisticChoice
from botorch_pref.exceptions import ComparisonDataError, StaleQueryError
from botorch_pref.queries import Choice
from botorch_pref.strategies import POPBO, MultipleChoicePOPBO
from tests.models.common import rand
from tests.strategies.common import FIXED, LINE

BOX = torch.tensor([[0.0, -1.0], [1.0, 2.0]], dtype=torch.float64)


def on_items(**kwargs: Any) -> MultipleChoicePOPBO:
    options = {"choices": rand(12, 2), "hyperparameters": FIXED, "norm_bound": 2.0}
    return MultipleChoicePOPBO(**{**options, **kwargs})


def on_a_box(**kwargs: Any) -> MultipleChoicePOPBO:
    options = {"bounds": BOX, "hyperparameters": FIXED, "norm_bound": 2.0}
    return MultipleChoicePOPBO(**{**options, **kwargs})


def play(strategy: MultipleChoicePOPBO, num_questions: int) -> list[Any]:
    """A judge who likes large items, and names the first one every third time."""
    queries = []
    for step in range(num_questions):
        query = strategy.ask()
        best = int(query.items.sum(-1).argmax())
        strategy.tell(query, {1: 0, 4: None}.get(step % 6, best))
        queries.append(query)
    return queries


def stored(strategy: MultipleChoicePOPBO) -> MultipleChoicePOPBO:
    return MultipleChoicePOPBO.from_state_dict(json.loads(json.dumps(strategy.state_dict())))


@pytest.mark.parametrize(
    ("make", "num_new"), [(on_items, 1), (on_items, 2), (on_items, 3), (on_a_box, 2)]
)
def test_a_question(make: Any, num_new: int) -> None:
    """New items first, then those that were new before, whatever the answer; all distinct."""
    strategy = make(num_new=num_new)
    before = None
    for query in play(strategy, 3):
        assert isinstance(query, Choice)
        assert query.items.shape == (2 * num_new, 2)
        if before is not None:
            assert torch.equal(query.items[num_new:], before.items[:num_new])
        assert len(query.items.unique(dim=0)) == 2 * num_new
        if query.indices is not None:
            assert torch.equal(query.items, strategy.space.table[list(query.indices)])
        before = query


@pytest.mark.parametrize("space", [{"bounds": LINE}, {"choices": rand(9, 2)}])
def test_one_new_item_is_a_duel(space: dict[str, Any]) -> None:
    options = {**space, "seed": 2, "hyperparameters": FIXED, "norm_bound": 2.0, "slack": 0.5}
    duels, choices = POPBO(**options), MultipleChoicePOPBO(num_new=1, **options)
    for step in range(5):
        duel, choice = duels.ask(), choices.ask()
        torch.testing.assert_close(duel.items, choice.items, atol=1e-5, rtol=0)
        first_wins = step % 3 > 0
        duels.tell(duel, float(first_wins))
        choices.tell(choice, int(not first_wins))
        models = duels.confidence_set(), choices.confidence_set()
        likelihoods = [float(model.maximum_likelihood.log_likelihood) for model in models]
        assert likelihoods[0] == pytest.approx(likelihoods[1], abs=1e-6)
        assert [model.num_answers for model in models] == [step + 1] * 2
    torch.testing.assert_close(duels.recommend(), choices.recommend(), atol=1e-4, rtol=0)


def test_new_items_are_chosen_greedily() -> None:
    strategy = on_items(num_new=2, adapt_norm_bound=False)
    play(strategy, 5)
    model, table = strategy.confidence_set(), strategy.space.table
    query = strategy.ask()
    shown = list(query.indices[2:])
    for row in query.indices[:2]:
        values = OptimisticChoice(model, table[shown], tolerance=1e-7)(table.unsqueeze(-2))
        values[shown] = -torch.inf
        assert float(values[row]) >= float(values.max()) - 1e-4
        shown.append(row)


def test_an_advantage_over_all_is_no_larger_than_over_each() -> None:
    strategy = on_items(num_new=2)
    play(strategy, 6)
    model, points = strategy.confidence_set(), rand(5, 2, seed=9).unsqueeze(-2)
    opponents = strategy.space.table[:3]
    joint = OptimisticChoice(model, opponents)(points)
    known = model.with_items(opponents)
    alone = torch.stack([OptimisticAdvantage(known, item)(points) for item in opponents])
    assert (joint <= alone.amin(0) + 1e-8).all()
    mle = known.mle(points.squeeze(-2)).unsqueeze(-1) - known.mle(opponents)
    assert (joint >= mle.amin(-1) - 1e-8).all()
    one = OptimisticChoice(model, opponents[:1])(points)
    torch.testing.assert_close(one, alone[0], atol=1e-7, rtol=0)


def test_the_gradient_over_several_opponents() -> None:
    strategy = on_items(num_new=2, choices=BOX[0] + (BOX[1] - BOX[0]) * rand(12, 2))
    play(strategy, 4)
    rule = OptimisticChoice(strategy.confidence_set(), strategy.asked_items()[:3])
    X = (BOX[0] + (BOX[1] - BOX[0]) * rand(4, 2, seed=3)).unsqueeze(-2).requires_grad_()
    (gradient,) = torch.autograd.grad(rule(X).sum(), X)
    step = 1e-4
    for k in range(2):
        shift = torch.zeros(2, dtype=torch.float64)
        shift[k] = step
        with torch.no_grad():
            slope = (rule(X + shift) - rule(X - shift)) / (2 * step)
        torch.testing.assert_close(gradient[:, 0, k], slope, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize(("make", "num_new"), [(on_items, 2), (on_a_box, 1)])
def test_it_resumes(make: Any, num_new: int) -> None:
    strategy = make(num_new=num_new, seed=4)
    play(strategy, 4)
    waiting = strategy.ask("ann")
    read = stored(strategy)
    assert read.ask("ann") == waiting
    assert read.ask("bob") == strategy.ask("bob")
    assert read._options() == strategy._options()
    assert read.num_new == num_new
    assert torch.equal(read.recommend(), strategy.recommend())


def test_answers() -> None:
    strategy = on_items(num_new=2)
    query = strategy.ask()
    for wrong in (4, -1, 0.5, "first"):
        with pytest.raises(ComparisonDataError, match="position of the favourite"):
            strategy.tell(query, wrong)  # type: ignore[arg-type]
    strategy.tell(query, 3)
    with pytest.raises(StaleQueryError):
        strategy.tell(query, 3)


def test_it_finds_the_best_item() -> None:
    strategy = on_items(num_new=2, choices=torch.linspace(0, 1, 12, dtype=torch.float64)[:, None])
    for _ in range(8):
        query = strategy.ask()
        strategy.tell(query, int(query.items[:, 0].argmax()))
    assert strategy.recommend_index() == 11
    assert strategy.recommend() == 1.0


def test_lengthscales_are_learnt_from_the_favourites() -> None:
    strategy = MultipleChoicePOPBO(choices=rand(12, 2), num_new=2)
    play(strategy, 4)
    assert strategy.learner.data.num_comparisons == 4 * 3
    assert strategy.learner.values["lengthscale"]


def test_no_item_is_shown_twice_at_first() -> None:
    """Where a table holds one more than once, its rows are one item."""
    table = torch.tensor([0.0, 0.0, 0.0, 0.0, 0.3, 0.6, 1.0], dtype=torch.float64).unsqueeze(-1)
    for seed in range(8):
        query = MultipleChoicePOPBO(choices=table, num_new=2, seed=seed).ask()
        assert len(query.items.unique(dim=0)) == 4
