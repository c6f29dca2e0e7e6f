"""Studies: what is saved, what comes back, what is taken back, what is refused."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from botorch_pref.exceptions import (
    ComparisonDataError,
    StaleQueryError,
    StudyError,
    StudyFileError,
    StudyFileWarning,
)
from botorch_pref.queries import Choice, Duel, Evaluate, Label, Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import (
    COBOL,
    MRLPF,
    PFTS,
    POPBO,
    MultipleChoicePOPBO,
    RandomPairs,
    Strategy,
)
from botorch_pref.study import Dimension, StoppingRule, Study
from botorch_pref.study.dimensions import value_text
from botorch_pref.study.rewind import apply, difference
from tests.models.common import rand

BOX = SearchSpace(torch.tensor([[0.0, 60.0], [80.0, 96.0]], dtype=torch.float64))
TABLE = SearchSpace(choices=rand(12, 2))
FIXED = {"lengthscale": 0.3, "outputscale": 4.0}
STRATEGIES: dict[str, Any] = {
    "pf-ts box": (BOX, partial(PFTS, seed=3, hyperparameters=FIXED)),
    "pf-ts choices": (TABLE, partial(PFTS, seed=3, hyperparameters=FIXED)),
    "pop-bo choices": (TABLE, partial(POPBO, seed=3, hyperparameters={**FIXED, "outputscale": 1})),
    "cobol choices": (TABLE, partial(COBOL, seed=3, num_initial_values=2, num_initial_labels=2)),
    "mr-lpf choices": (TABLE, partial(MRLPF, seed=3, horizon=20, hyperparameters=FIXED)),
}


def answer(query: Query, step: int = 0) -> float | None:
    """A judge that likes large items, and now and then has nothing to say."""
    if step == 3:
        return None
    sums = query.items.sum(-1)
    if isinstance(query, Evaluate):
        return float(sums)
    if isinstance(query, Label):
        return float(sums > 1.0)
    return float(sums.argmax()) if isinstance(query, Choice) else float(sums[0] > sums[1])


def state_of(strategy: Strategy) -> Any:
    """The state now, whatever happens to its parts later."""
    return json.loads(json.dumps(strategy.state_dict()))


def on_pairs(path: Path, **kwargs: Any) -> Study:
    """A study whose answers cost nothing."""
    return Study.create(path, BOX, partial(RandomPairs, seed=5), **kwargs)


def play(study: Study, steps: int, annotator: str | None = None) -> list[Query]:
    queries = []
    for step in range(steps):
        query = study.ask(annotator)
        study.tell(query, answer(query, step))
        queries.append(query)
    return queries


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_study_goes_on_and_back(name: str, tmp_path: Path) -> None:
    """Loaded for every call, it does what an unbroken strategy does, and undoes it."""
    space, factory = STRATEGIES[name]
    num_answers = 4 if space is BOX else 6
    steady: Strategy = factory(space=space)
    path = tmp_path / "study.json"
    Study.create(path, space, factory).close()
    before, queries = [], []
    for step in range(num_answers):
        queries.append(steady.ask())
        with Study.load(path) as study:
            assert study.ask() == queries[-1]
        before.append(state_of(steady))
        steady.tell(queries[-1], answer(queries[-1], step))
        with Study.load(path) as study:
            study.tell(queries[-1], answer(queries[-1], step))
    study = Study.load(path, read_only=True)
    assert type(study.strategy) is type(steady)
    assert study.strategy.state_dict() == steady.state_dict()
    assert torch.equal(study.strategy.recommend(), steady.recommend())
    assert study.space.state_dict() == space.state_dict()

    following = steady.ask()
    with Study.load(path) as study:
        for step in (-1, -2):
            assert study.undo() == queries[step]
            assert study.strategy.state_dict() == before[step]
    with Study.load(path) as study:
        for step in (num_answers - 2, num_answers - 1):
            assert study.ask() == queries[step]
            study.tell(queries[step], answer(queries[step], step))
        assert study.ask() == following
        assert study.strategy.state_dict() == steady.state_dict()
        for step in reversed(range(num_answers)):
            assert study.undo() == queries[step]
            assert study.strategy.state_dict() == before[step]
        assert len(study.history) == 0
        with pytest.raises(StudyError, match="no answer yet"):
            study.undo()
    assert Study.load(path, read_only=True).strategy.state_dict() == before[0]


def test_undo_withdraws_what_was_asked_since(tmp_path: Path) -> None:
    with on_pairs(tmp_path / "study.json") as study:
        first = {name: study.ask(name) for name in ("ann", "bob")}
        study.tell(first["bob"], 0.0)
        study.tell(first["ann"], 1.0)
        then = {name: study.ask(name) for name in ("ann", "bob")}
        assert study.undo() == first["ann"]
        assert study.ask("ann") == first["ann"]
        for name in ("ann", "bob"):
            with pytest.raises(StaleQueryError, match=f"{then[name].id} of '{name}' is not open"):
                study.tell(then[name], 1.0)
        assert study.undo() == first["bob"]
        assert {name: study.ask(name) for name in ("ann", "bob")} == first
        study.tell(study.ask("ann"), 0.5)
        study.tell(study.ask(), None)
    with Study.load(study.path) as study:
        assert study.ask("bob") == first["bob"]
        assert study.history["annotator"].tolist() == ["ann", None]
        assert study.history["answer"].tolist()[:1] == [0.5]


def test_history_of_duels(tmp_path: Path) -> None:
    start = pd.Timestamp.now("UTC").floor("ms")
    path = tmp_path / "study.json"
    with on_pairs(path, names=["milk (ml)", " temperature "], description="Für drei.") as study:
        columns = ["step", "kind", "answer", "annotator", "shown", "told"]
        assert study.history.columns.tolist() == columns
        queries = play(study, 5)
        history = study.history
    items = ["first_milk", "first_temperature", "second_milk", "second_temperature"]
    assert history.columns.tolist() == [*columns[:2], *items, *columns[2:]]
    assert history["step"].tolist() == [1, 2, 3, 4, 5]
    assert set(history["kind"]) == {"duel"}
    values = torch.tensor(history[items].to_numpy()).view(5, 2, 2)
    assert torch.equal(values, torch.stack([query.items for query in queries]))
    assert history["answer"].tolist()[:3] == [answer(query) for query in queries[:3]]
    assert math.isnan(history["answer"].iloc[3])
    told = history["told"].tolist()
    assert start <= told[0] <= told[-1] <= pd.Timestamp.now("UTC")
    study = Study.load(path, read_only=True)
    pd.testing.assert_frame_equal(study.history, history)
    assert study.dimensions == (Dimension("milk", "ml"), Dimension("temperature"))
    assert study.description == "Für drei."
    assert study.path == path.resolve()
    assert study.describe(torch.tensor([34.4827, 71.26])) == "milk 34 ml, temperature 71.5"


def test_history_of_single_items_and_of_choices(tmp_path: Path) -> None:
    space, factory = STRATEGIES["cobol choices"]
    with Study.create(tmp_path / "one.json", space, factory, names=["a", "b"]) as study:
        queries = play(study, 4)
        history = study.history
    assert history["kind"].tolist() == ["evaluate", "evaluate", "label", "label"]
    assert history["index"].tolist() == [query.indices for query in queries]
    assert history["b"].tolist() == [float(query.items[1]) for query in queries]
    with Study.create(tmp_path / "more.json", TABLE, MultipleChoicePOPBO) as study:
        (query,) = play(study, 1)
        history = study.history
    assert len(query.items) > 2
    assert history["item3_x2"].item() == float(query.items[2, 1])
    assert [history[f"{slot}_index"].item() for slot in ("first", "second", "item3")] == list(
        query.indices[:3]
    )


def test_numbers_are_as_fine_as_their_range() -> None:
    """Those of choices are shown as they were given."""
    for width, number, text, fine in (
        (1e-6, 1.2345678e-7, "0.00000012", "0.000000123"),
        (1.0, 0.12345678, "0.12", "0.123"),
        (80.0, 74.4378, "74", "74.44"),
        (36.0, 35.99, "36.0", "35.99"),
        (0.37, 0.3699, "0.370", "0.3699"),
        (999.0, 0.12345678, "0", "0.1"),
        (1e6, 123456.78, "120000", "123457"),
    ):
        space = SearchSpace(torch.tensor([[0.0], [width]], dtype=torch.float64))
        assert value_text(number, 0, space) == text
        assert value_text(number, 0, space, fine=True) == fine
    space = SearchSpace(torch.tensor([[1e-3], [1e3]], dtype=torch.float64), log=[0])
    for number, text, fine in ((740.123, "740", "740.1"), (0.012345, "0.012", "0.01235")):
        assert value_text(number, 0, space) == text
        assert value_text(number, 0, space, fine=True) == fine
    rows = torch.tensor([[0.001, 2020, 1234567], [0.01, 2021, 9e6], [100.0, 2022, 0]]).double()
    space = SearchSpace(choices=rows)
    shown = [[value_text(x, i, space) for i, x in enumerate(row)] for row in rows.tolist()]
    assert shown == [
        ["0.001", "2020", "1234567"],
        ["0.01", "2021", "9000000"],
        ["100", "2022", "0"],
    ]


def test_what_is_shown_of_embeddings(tmp_path: Path) -> None:
    """Of more than 30 columns the row's number and the texts; of fewer all that there are."""
    rows = torch.cat([torch.tensor([[2.0], [0.0], [1.0]]), torch.rand(3, 30)], dim=-1).double()
    names = ["file", *(f"e{i}" for i in range(30))]
    space = SearchSpace(choices=rows, categorical=[0])
    levels = {"file": ["a.png", "b.png", "c.png"]}
    with Study.create(tmp_path / "31.json", space, names=names, levels=levels) as study:
        assert study.describe(rows[1]) == "choice #1, file a.png"
        told = [[(one.label, text) for one, text in item] for item in study.shown(rows[:2])]
        assert told == [
            [("choice", "#0"), ("file", "c.png")],
            [("choice", "#1"), ("file", "a.png")],
        ]
        study.tell(study.ask(), 1.0)
        assert study.recommend().statement.startswith("choice #")
        assert "first_e29" in study.history  # nothing is lost
    numbers = SearchSpace(choices=rows[:, 1:])
    with Study.create(tmp_path / "30.json", numbers, names=names[1:]) as study:
        assert [one.name for one, _ in study.shown(rows[:1, 1:])[0]] == names[1:]
    unnamed = SearchSpace(choices=torch.rand(20, 768).double())
    with Study.create(tmp_path / "768.json", unnamed) as study:
        assert study.describe(unnamed.table[7]) == "choice #7"


def test_a_study_that_has_such_names_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    on_pairs(path, names=["taste", "other"]).close()
    for old, new in (("other", "first_taste"), ("taste", "shown")):
        path.write_text(path.read_text().replace(f'"{old}"', f'"{new}"'))
        with pytest.warns(StudyFileWarning, match="was changed since it was saved"):
            study = Study.load(path, unverified=True)
        with study:
            study.tell(study.ask(), 1.0)
            assert study.history["answer"].iloc[-1] == 1.0


def played() -> Strategy:
    strategy = RandomPairs(space=BOX)
    strategy.tell(strategy.ask(), 1.0)
    return strategy


ROASTS = SearchSpace(torch.tensor([[0.0, 0.0], [80.0, 2.0]]).double(), categorical=[1])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ["a"]}, "`names` has 1 entries, but the space 2 dimensions"),
        ({"names": ["a", "a (ml)"]}, "`names` has 'a' more than once"),
        ({"names": ["a", 3]}, "`names`: 3 is no name"),
        ({"names": ["a", "answer"]}, "'answer' is a column of the history"),
        ({"names": ["a", "shown"]}, "'shown' is a column of the history"),
        ({"names": "ab"}, "must be a list of names"),
        ({"names": ["x", "first_x"]}, "'first_x' is the column of the history for the 'x' of"),
        ({"names": ["a", "item12_a"]}, "'item12_a' is the column of the history for the 'a' of"),
        ({"names": ["a", "first_index"]}, "is the column of the history for the 'index' of"),
        ({"strategy": PFTS(space=TABLE)}, "another space"),
        ({"strategy": lambda space: PFTS(space=TABLE)}, "another space"),
        ({"strategy": played()}, "has 1 answers"),
        ({"strategy": "pf-ts"}, "`strategy` must be a strategy or what makes one, not 'pf-ts'"),
        ({"strategy": dict}, "`strategy` must be a strategy"),
        ({"strategy": MRLPF}, "`strategy` cannot be made of `space=` alone: .*'horizon'"),
        ({"strategy": type("PFTS", (PFTS,), {})}, "class 'PFTS', but so is another"),
        ({"space": BOX.bounds}, "`space` must be a SearchSpace"),
        ({"description": 3}, "`description` must be a text"),
        ({"stopping": 0.9}, "`stopping` must be a StoppingRule"),
        ({"levels": {"x2": ["a", "b"]}}, "`levels` of 'x2' are 2, but the space has 3"),
        ({"levels": {"x2": ["a", "b", "b"]}}, "must be texts that differ"),
        ({"levels": {"x1": ["a", "b"]}}, "`levels` of 'x1' are 2, but the space has 0"),
        ({"levels": {"bean": ["a"]}}, "`levels` has 'bean', which is no dimension"),
    ],
)
def test_bad_arguments(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    space = ROASTS if "levels" in options else BOX
    with pytest.raises(StudyError, match=message.replace("(", r"\(")):
        Study.create(tmp_path / "study.json", **({"space": space, "strategy": PFTS} | options))
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"probability": 1.0}, "`probability` must be between 0 and 1"),
        ({"margin": 0.5}, "`margin` must be between 0 and 0.5"),
        ({"margin": "wide"}, "`margin` must be a number"),
        ({"min_answers": 0}, "`min_answers` must be at least 1"),
    ],
)
def test_bad_rules(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(StudyError, match=message):
        StoppingRule(**wrong)


def test_wrong_answers_change_nothing(tmp_path: Path) -> None:
    with on_pairs(tmp_path / "study.json") as study:
        told, query = *play(study, 1), study.ask()
        strategy, saved = study.strategy, study.path.read_bytes()
        with pytest.raises(ComparisonDataError, match="`answer` to query 1"):
            study.tell(query, 7.0)
        with pytest.raises(StaleQueryError, match="already told"):
            study.tell(told, 1.0)
        assert study.strategy is strategy
        state = state_of(strategy)
        with pytest.raises(ComparisonDataError, match="`annotator`"):
            study.ask(3)  # type: ignore[arg-type]
        assert study.strategy.state_dict() == state
        assert study.path.read_bytes() == saved
        assert study.ask() == query


class Stumbling(RandomPairs):
    """Is interrupted half-way through whatever it does."""

    stumbles = False

    def _choose(self, query_id: int, annotator: str | None) -> Duel:
        self.round += self.stumbles
        if self.stumbles:
            raise KeyboardInterrupt
        return super()._choose(query_id, annotator)  # type: ignore[return-value]

    def tell(self, query: Query, answer: float | None) -> None:
        super().tell(query, answer)
        if self.stumbles:
            raise KeyboardInterrupt


def test_an_interrupt_undoes_what_was_half_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Study.create(tmp_path / "study.json", BOX, Stumbling) as study:
        play(study, 2)
        before = state_of(study.strategy)
        with monkeypatch.context() as stumble:
            stumble.setattr(Stumbling, "stumbles", True)
            with pytest.raises(KeyboardInterrupt):
                study.ask()
        assert study.strategy.state_dict() == before
        query = study.ask()
        with monkeypatch.context() as stumble:
            stumble.setattr(Stumbling, "stumbles", True)
            with pytest.raises(KeyboardInterrupt):
                study.tell(query, 1.0)
        assert len(study.history) == 2
        study.tell(query, 1.0)
    assert len(Study.load(study.path, read_only=True).history) == 3


def test_answers_are_told_to_the_study(tmp_path: Path) -> None:
    """What its strategy was told behind its back is not saved as something else."""
    with on_pairs(tmp_path / "study.json") as study:
        query = study.ask()
        study.strategy.tell(query, 1.0)
        with pytest.raises(StudyError, match="tell answers to the study"):
            study.ask()


def test_reading_alone(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    with on_pairs(path) as writer:
        query = writer.ask()
        reader = Study.load(path, read_only=True)
        actions: list[Any] = [reader.ask, reader.undo, partial(reader.tell, query, 1.0)]
        for action in actions:
            with pytest.raises(StudyError, match="closed, or was opened with read_only=True"):
                action()
        writer.tell(query, 1.0)
        assert len(reader.history) == 0
        assert len(Study.load(path, read_only=True).history) == 1
    with pytest.raises(StudyError, match="closed"):
        writer.ask()
    assert len(writer.history) == 1
    writer.close()


def test_a_state_that_cannot_be_read(tmp_path: Path) -> None:
    """Whatever is wrong inside, the file is refused with its name, and is left as it is."""
    for read_only in (True, False):
        with pytest.raises(StudyFileError, match=r"There is no study '.*nowhere\.json'"):
            Study.load(tmp_path / "nowhere.json", read_only=read_only)
    path = tmp_path / "study.json"
    with on_pairs(path) as study:
        play(study, 2)
    content = {**json.loads(path.read_text()), "version": 2}  # which has no checksum
    del content["checksum"]
    state, backup = content["strategy"], path.with_name("study.json.bak")
    ((query, told),) = state["history"][:1]
    outside = {**query, "items": [[1.0, 61.0], [81.0, 61.0]]}
    opened = {**query, "id": 9, "items": [[1.0, 61.0], [1.0, 59.0]]}
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"strategy": {**state, "strategy": "Nobody"}}, "unknown class of strategies 'Nobody'"),
        ({"strategy": {**state, "version": 99}}, "version 99"),
        ({"strategy": {**state, "version": 1}}, "version 1, .* an older botorch_pref wrote it"),
        ({"strategy": {**state, "space": {"bounds": 3}}}, ""),
        ({"strategy": {**state, "options": {"colour": 3}}}, "colour"),
        ({"strategy": {**state, "history": [[1, 2]]}}, ""),
        ({"strategy": {**state, "history": [*state["history"][:1], [outside, told]]}}, "row 1"),
        ({"strategy": {**state, "history": [[query, 0.3], [query, 1.0]]}}, "history row 0.*0.3"),
        (
            {"strategy": {**state, "open": [opened], "next_id": 10}},
            "open row 0: Query 9 has the item .* outside",
        ),
        ({"strategy": {}}, ""),
        ({"told": content["told"][:1]}, "for every answer"),
        ({"told": ["yesterday", "today"]}, "yesterday"),
        ({"rewind": [None, 3]}, ""),
        ({"dimensions": [{"name": "a"}]}, "1 entries"),
        ({"dimensions": ["a", "b"]}, ""),
    ]
    for entries, message in wrong:
        text = json.dumps({**content, **entries})
        path.write_text(text)
        with pytest.raises(StudyFileError, match=rf"study.json' cannot be read.*{message}"):
            Study.load(path)
        assert path.read_text() == text
        assert sorted(tmp_path.iterdir()) == [path, backup]


# Differences of plain JSON, and the states that they lead to.

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text(max_size=2)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=1), inner),
    max_leaves=12,
)


@settings(max_examples=70, deadline=None)
@given(new=VALUES, old=VALUES)
@example(new=[1, {"a": True}], old=[1.0, {"a": 1}])
@example(new={"a": 0.0}, old={"a": -0.0})
def test_a_difference_leads_back(new: Any, old: Any) -> None:
    text = json.dumps(new)
    change = json.loads(json.dumps(difference(new, old)))
    assert json.dumps(apply(new, change), sort_keys=True) == json.dumps(old, sort_keys=True)
    assert json.dumps(new) == text


def test_lists_that_grow_cost_nothing() -> None:
    old = {"widths": [*range(1000)], "round": 3}
    change = difference({"widths": [*range(1001)], "round": 4}, old)
    assert change == {
        "drop": [],
        "change": {"widths": {"keep": 1000, "add": []}, "round": {"set": 3}},
    }


def test_an_answer_does_not_write_all_others_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was told is written as JSON once; the file has all of it after every answer."""
    path, written = tmp_path / "study.json", []
    original = Query.to_json

    def counted(query: Query) -> dict[str, Any]:
        written.append(query.id)
        return original(query)

    with on_pairs(path) as study:
        play(study, 30)
        monkeypatch.setattr(Query, "to_json", counted)
        play(study, 1)
    assert len(written) < 15
    content = json.loads(path.read_bytes())
    assert content["strategy"] == json.loads(json.dumps(study.strategy.state_dict()))
    assert len(content["told"]) == len(content["rewind"]) == 31


def test_a_choice_that_is_not_the_one_of_its_row(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    with Study.create(path, TABLE, partial(RandomPairs, seed=5)) as study:
        play(study, 3)
    content = json.loads(path.read_text())
    content["strategy"]["history"][1][0]["items"][0][0] += 0.001
    path.write_text(json.dumps(content))
    with (
        pytest.warns(StudyFileWarning),
        pytest.raises(
            StudyFileError,
            match=r"`state` history row 1: Query 1 has the item .* not that of its row",
        ),
    ):
        Study.load(path, unverified=True)


def test_unknown_entries_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    on_pairs(path).close()
    content = json.loads(path.read_text()) | {"notes": {"by": ["ann"]}}
    path.write_text(json.dumps(content))
    with pytest.warns(StudyFileWarning):
        study = Study.load(path, unverified=True)
    with study:
        play(study, 2)
        study.undo()
    Study.load(path).close()  # it is signed again
    assert json.loads(path.read_text())["notes"] == {"by": ["ann"]}


def test_an_answer_that_cannot_be_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    with on_pairs(path) as study:
        play(study, 3)
    content = json.loads(path.read_text()) | {"version": 2}
    del content["checksum"]
    content["rewind"][1] = 3
    path.write_text(json.dumps(content))
    with Study.load(path) as study:
        with pytest.raises(StudyError, match="the file's entry 'rewind' row 1 is wrong"):
            study.undo()
        assert len(study.history) == 3


def test_threads_take_turns(tmp_path: Path) -> None:
    """None is told of another program; every answer is saved."""
    path = tmp_path / "study.json"
    with on_pairs(path) as study, ThreadPoolExecutor(4) as threads:
        list(threads.map(partial(play, study, 5), ["ann", "bob", "cy", "dan"]))
        assert len(study.history) == 20
    assert Study.load(path, read_only=True).strategy.num_answers == 16


def test_many_answers_are_saved_once(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    with Study.create(path, BOX, RandomPairs) as study:
        queries = [study.ask(name) for name in "abc"]
        before = path.read_bytes()
        with study.saved_once():
            for query in queries:
                study.tell(query, 1.0)
            assert path.read_bytes() == before
        assert study.undo() == queries[-1]
        with study.saved_once():
            study.tell(queries[-1], 0.5)
            with pytest.raises(ComparisonDataError):
                study.tell(study.ask("d"), 7.0)
    with Study.load(path) as study:
        assert [*study.history["answer"]] == [1.0, 1.0, 0.5]
        study.tell(study.ask("d"), 0.0)
