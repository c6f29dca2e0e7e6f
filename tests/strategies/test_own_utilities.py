"""Utilities of single people: shared plus their own; answers that were known before."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, StudyError, UnsupportedError
from botorch_pref.kernels import ComparisonBiasKernel
from botorch_pref.plotting import plot_utility
from botorch_pref.queries import Duel, Evaluate
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import (
    COBOL,
    EUBO,
    MRLPF,
    PFTS,
    POPBO,
    CompGPUCB,
    CostAwareKG,
    DuelingKG,
    LaplacePOPBO,
    MaxMinLCBStrategy,
    RandomPairs,
)
from botorch_pref.study import Study
from tests.contracts.strategy import shorten_searches
from tests.models.common import rand

TABLE = rand(15, 2)
BOUNDS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
CENTRES = {"ann": 0.2, "bob": 0.2, "cy": 0.85}


def utility(items: Tensor, name: str | None) -> Tensor:
    return -25.0 * (items - CENTRES[name or "ann"]).square().sum(-1)


def play(strategy: Any, number: int, names: Any = ("ann", "bob", "cy")) -> Any:
    for i in range(number):
        query = strategy.ask(names[i % len(names)])
        better = utility(query.items, query.annotator)
        strategy.tell(query, float(better[0] > better[1]))
    return strategy


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        *((kind, {"choices": TABLE}) for kind in (DuelingKG, PFTS)),
        *((kind, {"bounds": BOUNDS}) for kind in (EUBO, PFTS, RandomPairs)),
    ],
)
def test_each_person_has_a_favourite(kind: Any, domain: Any, monkeypatch: Any) -> None:
    shorten_searches(monkeypatch)
    strategy = play(kind(own_utilities=True, seed=0, **domain), 6)
    strategy = kind.from_state_dict(json.loads(json.dumps(strategy.state_dict())))
    again = kind.from_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert again.ask("bob") == strategy.ask("bob")
    assert torch.equal(again.recommend("cy"), strategy.recommend("cy"))
    assert strategy.recommend().shape == (2,)
    model = strategy.learner.model()
    assert model.datapoints.shape[-1] == 3
    assert set(model.datapoints[:, -1].tolist()) == {1.0, 2.0, 3.0}
    assert strategy.learner.people == ["ann", "bob", "cy"]


def test_who_differs_is_found_out() -> None:
    strategy = play(RandomPairs(bounds=BOUNDS, own_utilities=True, seed=1), 120)
    favourites = {name: strategy.recommend(name) for name in CENTRES}
    for name, found in favourites.items():
        assert (found - CENTRES[name]).abs().max() < 0.3
    own = dict(zip(strategy.learner.people, strategy.learner.values["own_variance"], strict=True))
    assert own["cy"] > 3.0 * max(own["ann"], own["bob"])
    shared = strategy.recommend()
    assert (shared - 0.2).abs().max() < 0.35  # of the two who agree
    strategy.tell(strategy.ask("dee"), 1.0)  # who came later is typical until the next fit
    kernel = strategy.learner.covar_module()
    assert isinstance(kernel, ComparisonBiasKernel)
    assert kernel.bias.tolist() == pytest.approx([*own.values(), 0.1])


def test_known_answers_are_of_another_person() -> None:
    before = play(RandomPairs(bounds=BOUNDS, seed=4), 40, ["bob"])
    strategy = DuelingKG(bounds=BOUNDS, own_utilities=True, known=before.history, seed=0)
    assert strategy.num_answers == 0
    assert strategy.learner.told.size == 40
    for _ in range(3):
        query = strategy.ask()
        better = utility(query.items, "ann")
        strategy.tell(query, float(better[0] > better[1]))
    assert (strategy.recommend() - 0.2).abs().max() < 0.15
    state = json.loads(json.dumps(strategy.state_dict()))
    again = DuelingKG.from_state_dict(state)
    assert again.state_dict() == strategy.state_dict()
    assert again.ask() == strategy.ask()


@pytest.mark.parametrize("source", ["study", "table"])
def test_a_study_begins_with_the_answers_of_others(source: str, tmp_path: Path) -> None:
    space = SearchSpace(BOUNDS, categorical=[1])
    options: dict[str, Any] = {"names": ["milk (ml)", "roast"], "levels": {"roast": ["a", "b"]}}
    with Study.create(tmp_path / "old.json", space, RandomPairs, **options) as old:
        for name in ("ann", None, "ann"):
            query = old.ask(name)
            old.tell(query, 1.0)
        old.skip(old.ask())
        other = old if source == "study" else old.history
        with Study.create(tmp_path / "new.json", space, begin_with=other, **options) as study:
            known = study.strategy.known
            names = ["ann", "old" if source == "study" else "before", "ann"]
            assert [query.annotator for query, _ in known] == names
            for (query, answer), (asked, told) in zip(known, old.strategy.history, strict=False):
                assert torch.equal(query.items, asked.items)
                assert (answer, query.shown) == (told, asked.shown)
            study.tell(study.ask(), 0.0)
    with Study.load(tmp_path / "new.json") as study:
        assert len(study.strategy.known) == 3
        assert len(study.history) == 1
        assert study.strategy.own_utilities
        assert study.recommend().statement


def test_what_a_study_cannot_begin_with(tmp_path: Path) -> None:
    space, path = SearchSpace(BOUNDS), tmp_path / "new.json"
    good = pd.DataFrame({f"{slot}_x{i}": [0.1] for slot in ("first", "second") for i in (1, 2)})
    good["answer"] = 1.0
    with Study.create(tmp_path / "other.json", space, names=["a", "b"]) as other:
        for source, match in (
            (3, "must be a study or a table"),
            (other, "is a study of other dimensions"),
            (good.drop(columns="second_x2"), r"lacks the columns \['second_x2'\]"),
            (good.assign(answer=2.0), "row 0: `answer` to query 0 is 2.0"),
            (good.assign(first_x1="much"), "row 0: could not convert"),
            (good.assign(shown="2 2"), "row 0: `order` must have each position"),
        ):
            with pytest.raises(StudyError, match=f"`begin_with` {match}"):
                Study.create(path, space, begin_with=source)
    with pytest.raises(StudyError, match="`begin_with` is of a strategy that is made"):
        Study.create(path, space, DuelingKG(space=space), begin_with=good)
    for kind, why in (
        (COBOL, "people have no utilities of their own there"),
        (CompGPUCB, "people have no utilities of their own there"),
        (CostAwareKG, "people have no utilities of their own there"),
        (POPBO, "POPBO takes no `own_utilities`"),
        (partial(DuelingKG, kappa=1.0), "`own_utilities` needs"),
    ):
        with pytest.raises(StudyError, match=rf"`begin_with` cannot be used by \w+: {why}"):
            Study.create(path, space, kind, begin_with=good)
    far = good.assign(first_x1=9.0)
    with pytest.raises(StudyError, match=r"`begin_with` cannot .*: `known` row 0: .* outside"):
        Study.create(path, space, begin_with=far)
    with Study.create(path, space, begin_with=good) as study:
        assert len(study.strategy.known) == 1


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: POPBO(bounds=BOUNDS, own_utilities=True), UnsupportedError, "no `own_utilities`"),
        (
            lambda: MRLPF(bounds=BOUNDS, horizon=9, known=[(Duel(0, TABLE[:2]), 1.0)]),
            UnsupportedError,
            "takes no `known` answers",
        ),
        (
            lambda: PFTS.paper(choices=TABLE, own_utilities=True),
            UnsupportedError,
            "`own_utilities` needs",
        ),
        (
            lambda: EUBO(bounds=BOUNDS, own_utilities=True, hyperparameters="samples"),
            UnsupportedError,
            "`own_utilities` needs",
        ),
        (lambda: EUBO(bounds=BOUNDS, own_utilities=1), ComparisonDataError, "`own_utilities`"),
        (
            lambda: EUBO(bounds=BOUNDS, known=[(Duel(0, rand(2, 3)), 1.0)]),
            ComparisonDataError,
            "`known` row 0: its items have 3 dimensions, not 2",
        ),
        (
            lambda: EUBO(bounds=BOUNDS, known=[(Evaluate(0, TABLE[0]), 1.0)]),
            ComparisonDataError,
            "`known` row 0: it is no answer that compares",
        ),
        (
            lambda: EUBO(bounds=BOUNDS, known=[(Duel(0, TABLE[:2]), 3.0)]),
            ComparisonDataError,
            "`known` row 0: `answer`",
        ),
        (lambda: EUBO(bounds=BOUNDS, known=5), ComparisonDataError, "`known` must be answered"),
        (lambda: EUBO(bounds=BOUNDS, known=[3]), ComparisonDataError, "`known` row 0 cannot be"),
    ],
)
def test_refused(make: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_favourites_of_people_who_are_not_told_apart() -> None:
    alike = play(RandomPairs(bounds=BOUNDS), 4)
    with pytest.raises(UnsupportedError, match="`own_utilities` alone"):
        alike.recommend("ann")
    strategy = play(RandomPairs(bounds=BOUNDS, own_utilities=True), 4)
    with pytest.raises(ComparisonDataError, match="`annotator` 'zoe' gave no answers; ann, bob, c"):
        strategy.recommend("zoe")


def wrong_in_a_corner(items: Tensor, name: str | None) -> Tensor:
    """Of a machine that likes a corner which no person does."""
    right = utility(items, "ann")
    corner = (items - 0.9).square().sum(-1)
    return right + (name == "machine") * 40.0 * torch.exp(-corner / 0.08)


@pytest.mark.parametrize("domain", [{"choices": TABLE}, {"bounds": BOUNDS}])
def test_it_asks_whom_it_pays_to_ask(domain: Any, monkeypatch: Any) -> None:
    shorten_searches(monkeypatch)
    strategy = DuelingKG(prices={"ann": 1.0, "machine": 0.05}, seed=0, **domain)
    asked = []
    for _ in range(12):
        query = strategy.ask()
        assert strategy.ask() is query
        asked.append(query.annotator)
        better = wrong_in_a_corner(query.items, query.annotator)
        strategy.tell(query, float(better[0] > better[1]))
        if query.id >= 8:
            gains = strategy.gains[query.id]
            assert max(gains, key=gains.__getitem__) == query.annotator
    assert asked[:8] == 4 * ["ann", "machine"]
    first = [done.query.items for done in strategy.history[:8]]
    assert all(torch.equal(one, other) for one, other in zip(first[::2], first[1::2], strict=True))
    assert asked[8:].count("machine") > 2
    assert strategy.spent == pytest.approx(asked.count("ann") + 0.05 * asked.count("machine"))
    assert torch.equal(strategy.recommend(), strategy.recommend("ann"))
    again = DuelingKG.from_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert again.state_dict() == strategy.state_dict()
    assert again.ask() == strategy.ask()
    assert strategy.ask("ann").annotator == "ann"  # whoever it would ask


def test_gains_are_those_of_what_is_asked() -> None:
    """Of the same items a ranking tells more than the favourite."""
    known = []
    for i, name in enumerate(6 * ("ann", "machine")):
        rows = (i, (7 * i + 3) % 15)
        worth = wrong_in_a_corner(TABLE[[*rows]], name)
        known.append((Duel(i, TABLE[[*rows]], rows, name), float(worth[0] > worth[1])))
    gains = []
    for question in ("best of 4", "rank 4"):
        prices = {"ann": 1.0, "machine": 0.05}
        strategy = DuelingKG(choices=TABLE, question=question, prices=prices, known=known)
        strategy.ask()
        gains.append(strategy.gains[0])
    assert all(0.0 < gains[0][name] < gains[1][name] for name in ("ann", "machine"))


def test_prices_are_checked() -> None:
    for prices, match in (
        ({"ann": 1.0}, "`prices` must be of two judges or more"),
        (3, "`prices` must be of two"),
        ({"ann": 1.0, "bob": -1.0}, "`prices of bob`"),
        ({"ann": 1.0, 3: 1.0}, "by the names of judges, not 3"),
    ):
        with pytest.raises(ComparisonDataError, match=match):
            DuelingKG(bounds=BOUNDS, prices=prices)


def test_who_has_no_price_is_not_asked() -> None:
    strategy = DuelingKG(bounds=BOUNDS, prices={"ann": 1.0, "machine": 0.05})
    before = strategy.state_dict()
    with pytest.raises(ComparisonDataError, match=r"`annotator` 'nobody' has no price; .* ann, m"):
        strategy.ask("nobody")
    assert strategy.state_dict() == before
    strategy.tell(strategy.ask("machine"), 1.0)
    assert strategy.spent == 0.05


@pytest.mark.parametrize("question", ["duel", "best of 3"])
@pytest.mark.parametrize("domain", [{"choices": TABLE}, {"bounds": BOUNDS}])
def test_several_people_may_have_open_questions(
    question: str, domain: Any, monkeypatch: Any
) -> None:
    """Also those who gave no answer yet."""
    shorten_searches(monkeypatch)
    strategy = EUBO(question=question, own_utilities=True, seed=2, **domain)
    for _ in range(2):
        queries = [strategy.ask(name) for name in CENTRES]
        assert len({query.id for query in queries}) == 3
        for query in queries[::-1]:
            best = utility(query.items, query.annotator).argmax()
            strategy.tell(query, float(best if question != "duel" else best == 0))
    waiting = strategy.ask("bob")
    again = EUBO.from_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert again.ask("bob") == waiting
    assert again.ask("new") == strategy.ask("new")
    assert torch.equal(again.recommend("ann"), strategy.recommend("ann"))


def test_known_answers_about_choices_are_looked_up() -> None:
    turned = TABLE.flip(0)
    known = [(Duel(i, turned[[0, 1]], (0, 1)), 1.0) for i in range(20)]
    fixed = {"lengthscale": 0.3, "outputscale": 4.0}
    strategy = EUBO(choices=TABLE, known=known, hyperparameters=fixed)
    mean = strategy.learner.posterior().mean
    assert mean[-1] > mean[-2] + 1.0
    plain = EUBO(choices=TABLE, known=[(Duel(0, turned[:2]), 1.0)], hyperparameters=fixed)
    assert plain.known[0].query.indices == (14, 13)
    with pytest.raises(ComparisonDataError, match="`known` row 0: its items are not all among"):
        EUBO(choices=TABLE[:5], known=known)
    others = EUBO(choices=TABLE[:5], known=known, own_utilities=True)
    assert others.ask("new").indices is not None


def test_equal_choices_are_one_item_of_a_person() -> None:
    twice = torch.cat([TABLE[:3], TABLE[:3]])
    strategy = RandomPairs(choices=twice, own_utilities=True, seed=0)
    for _ in range(15):
        query = strategy.ask("ann")
        assert not torch.equal(*query.items)  # which nobody compares
        strategy.tell(query, 1.0)
    assert not strategy.learner.add(Duel(99, twice[[0, 3]], (0, 3), "ann"), 1.0)
    assert strategy.recommend().shape == (2,)


def test_expected_answers_are_of_who_is_asked() -> None:
    strategy = play(RandomPairs(bounds=BOUNDS, own_utilities=True, seed=3), 60, ["ann", "cy"])
    strategy.learner.refit(at_once=True)
    near = torch.tensor([[0.2, 0.2], [0.85, 0.85]], dtype=torch.double)
    for name in ("ann", "cy"):
        expected = strategy.learner.utilities(Duel(99, near, None, name))
        assert (expected[0] > expected[1]) == (name == "ann")


def test_a_study_that_knows_answers_recommends_and_draws(tmp_path: Path) -> None:
    space = SearchSpace(BOUNDS)
    with Study.create(tmp_path / "old.json", space, RandomPairs) as old:
        for _ in range(6):
            query = old.ask()
            old.tell(query, float(utility(query.items, None).diff() < 0))
        with Study.create(tmp_path / "new.json", space, begin_with=old) as study:
            found = study.recommend()
            assert found.num_answers == 0
            assert "too few answers" in found.statement
            figure = plot_utility(study.strategy.learner.model(), BOUNDS)
            assert figure.axes
            study.tell(study.ask(), 1.0)
            with Study.create(tmp_path / "third.json", space, begin_with=study) as third:
                assert len(third.strategy.known) == 7
    rows = pd.DataFrame({"first_x1": [0.1], "first_x2": [0.1], "kind": ["choice"]})
    table = rows.assign(second_x1=0.3, second_x2=0.4, answer=0.0)
    with pytest.raises(StudyError, match="row 0 is a choice: of a table only duels"):
        Study.create(tmp_path / "other.json", space, begin_with=table)


@pytest.mark.parametrize("kind", [MaxMinLCBStrategy, LaplacePOPBO])
def test_other_rules_of_one_posterior(kind: Any, monkeypatch: Any) -> None:
    shorten_searches(monkeypatch)
    strategy = play(kind(bounds=BOUNDS, own_utilities=True, seed=0), 6)
    assert strategy.recommend("cy").shape == (2,)
