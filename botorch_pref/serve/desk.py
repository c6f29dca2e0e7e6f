r"""Who is asked what: questions asked ahead, answers on their way to the study, results."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pandas as pd
import torch
from botorch.exceptions.errors import BotorchError

from botorch_pref.exceptions import StaleQueryError, StudyError
from botorch_pref.queries import Query
from botorch_pref.serve.store import Given, Store
from botorch_pref.strategies.base import UtilityStrategy
from botorch_pref.study.study import Study

_AHEAD = "#next {}"  # who is asked what is asked ahead; nobody can have such a name
_MOST_AHEAD = 16
_THERE_SECONDS = 60.0
_TICK = 0.2
_RESULTS_SECONDS = 20.0  # how old results may get while there is other work
_TOP = 8
_QUANTILES = (0.05, 0.5, 0.95)


class Desk:
    r"""Gives questions to people, and has their answers told to the study by a thread of its own.

    The thread alone touches the study. It tells answers that cannot be taken back any more, keeps
    at least one question ahead for everybody who is there, and works out results. Where it does not
    keep up, people are asked what others were asked before.

    Args:
        study: A study open for writing, of a strategy that compares.
        database: The URL of a database; by default an SQLite file beside the study.

    Raises:
        StudyError: If the strategy asks not only to compare, or decides whom to ask.
    """

    def __init__(self, study: Study, database: str | None = None) -> None:
        if not isinstance(study.strategy, UtilityStrategy):
            name = type(study.strategy).__name__
            raise StudyError(f"`study` is one of {name}, which asks not only to compare.")
        if getattr(study.strategy, "prices", None):
            raise StudyError("`study` has `prices`: it decides whom to ask, not who comes.")
        self.study = study
        self.per_person: int | None = None  # how many questions a person answers
        path = study.path.with_name(study.path.name + ".sqlite")
        self.store = Store(database or path, study.created)
        self._lock, self._wake, self._stop = threading.RLock(), threading.Event(), False
        self.queries: dict[int, Query] = {}
        self._ahead: list[int] = []
        self._seen: dict[str, float] = {}
        self._recover()
        self.finished = False
        self.results: dict[str, Any] = {}
        self._worked_out = time.monotonic()
        self._thread: threading.Thread | None = None

    def _recover(self) -> None:
        """Take up what was given, and what was asked ahead, before the server ended."""
        strategy = self.study.strategy
        for query in (*(done.query for done in strategy.history), *strategy.open_queries):
            self.queries[query.id] = query
        for query in strategy.open_queries:  # of somebody who would be refused another one
            strategy.hand(query, self._slot())
        for row in self.store.given():
            if row.query not in self.queries and row.answered is None:
                self.store.forget(row)
        taken = {row.query for row in self.store.given()}
        self._ahead = [query.id for query in strategy.open_queries if query.id not in taken]

    def start(self) -> None:
        """Start the thread, unless it was."""
        if self._thread is None and not self._stop:
            self._thread = threading.Thread(target=self._run, name="study", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Tell the study all answers, and end the thread."""
        self._stop = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self._tell(all_of_them=True)

    @property
    def state(self) -> str:
        """One of open, paused and ended."""
        return str(self.store.setting("state", "open"))

    def set_state(self, state: str) -> None:
        """Open, pause or end the study for people."""
        self.store.set("state", state)
        self._wake.set()

    def there(self) -> set[str]:
        """Who was seen in the last minute."""
        since = time.monotonic() - _THERE_SECONDS
        return {name for name, seen in [*self._seen.items()] if seen > since}

    def question(self, person: str) -> tuple[str, Query | None]:
        """What a person is to see: open with their question, waiting, paused, done or ended."""
        self._seen[person], state = time.monotonic(), self.state
        if state != "open":
            return state, None
        with self._lock:
            rows = self.store.given(person)
            still = [row for row in rows if row.answered is None and row.query in self.queries]
            if still:
                return state, self.queries[still[0].query]
            if self.per_person is not None and self.answered(person) >= self.per_person:
                return "done", None
            found = self._ahead.pop(0) if self._ahead else self._again(rows)
            self._wake.set()
            if found is None:
                return ("ended" if self.finished else "waiting"), None
            self.store.give(found, person)
            return state, self.queries[found]

    def _again(self, rows: list[Given]) -> int | None:
        """What others were asked and a person was not, those first that fewest were."""
        if hasattr(self.study.strategy, "finished"):
            return None  # it has planned how often it asks what
        times = Counter(row.query for row in self.store.given())
        others = self.queries.keys() - {row.query for row in rows}  # and none is ahead
        return min(others, key=lambda query: (max(times[query], 1), -query), default=None)

    def answer(self, person: str, query: int, word: str | None, seconds: float | None) -> bool:
        """Save an answer, a skip without a word; False if it is none, or not of this person.

        What was answered before, as by a double click or in another tab, stays as it is.
        """
        found = self.queries.get(query)
        if found is None or query not in {row.query for row in self.store.given(person)}:
            return False
        if word is not None and found.read(word) is None:
            return False
        self.store.answer(query, person, word, seconds)
        self._wake.set()
        return True

    def answered(self, person: str) -> int:
        """How many questions a person has answered, without skipped ones."""
        rows = self.store.given(person)
        return sum(row.answered is not None and row.answer is not None for row in rows)

    def can_undo(self, person: str) -> bool:
        """Whether their last answer can be taken back."""
        last = max(self.store.given(person), key=lambda row: row.answered or 0.0, default=None)
        return last is not None and last.answered is not None and not last.told

    def items(self, query: Query) -> list[dict[str, str]]:
        """The items as shown, each as texts by the labels of dimensions."""
        shown = self.study.shown(query.items[[*query.shown]])
        return [{dimension.label: text for dimension, text in one} for one in shown]

    def export(self) -> pd.DataFrame:
        """All answers with the names of people, what was shown, and the time taken."""
        rows = []
        names = [dimension.name for dimension in self.study.dimensions]
        for row in self.store.given():
            query = self.queries.get(row.query)
            if row.answered is None or query is None:
                continue
            told = None if row.answer is None else query.read(row.answer)
            answer = " ".join(str(i) for i in told) if isinstance(told, tuple) else told
            entry: dict[str, Any] = {"query": row.query, "kind": query.kind, "person": row.person}
            for number, item in enumerate(query.items.tolist(), start=1):
                if query.row_indices is not None:
                    entry[f"item{number}_index"] = query.row_indices[number - 1]
                for dimension, name, value in zip(self.study.dimensions, names, item, strict=True):
                    entry[f"item{number}_{name}"] = dimension.value(value)
            shown = " ".join(str(i + 1) for i in query.shown)
            when = pd.Timestamp(row.answered, unit="s", tz="UTC").isoformat()
            rows.append({**entry, "shown": shown, "answer": answer, "seconds": row.seconds,
                         "answered": when})  # fmt: skip
        return pd.DataFrame(rows)

    def _run(self) -> None:
        torch.set_num_threads(1)
        while not self._stop:
            # After an answer the model is fitted again, which takes longest. So one fit is for as
            # many questions as were answered meanwhile, and for results only now and then.
            told = self._tell()
            worked = told > 0
            while not self._stop and self._ask_ahead(told):
                worked = True
            if not worked or time.monotonic() > self._worked_out + _RESULTS_SECONDS:
                worked |= self._work_out()
            if not worked:
                self._wake.wait(_TICK)
                self._wake.clear()

    def _tell(self, all_of_them: bool = False) -> int:
        rows = self.store.to_tell(all_of_them or self.state == "ended")
        with self.study.saved_once() if rows else nullcontext():
            refused = [row for row in rows if not self._learn(row)]
        for row in rows:
            self.store.told(row, row in refused)
        return len(rows)

    def _learn(self, row: Given) -> bool:
        """Tell the study an answer; False if its question was withdrawn."""
        if (query := self.queries.get(row.query)) is None:
            return False
        told = None if row.answer is None else query.read(row.answer)
        try:
            self.study.tell(self.study.strategy.hand(query, row.person), told)
        except StaleQueryError:  # or it was told before the server was killed
            history = self.study.strategy.history
            return (row.query, row.person) in {(d.query.id, d.query.annotator) for d in history}
        return True

    def _ask_ahead(self, told: int) -> bool:
        there = len(self.there())
        with self._lock:
            waiting = len(self._ahead)
        if waiting >= min(max(there, told, 1), _MOST_AHEAD) or self.state != "open":
            return False
        try:
            query = self.study.ask(self._slot())
        except BotorchError:
            if not hasattr(self.study.strategy, "finished"):
                raise
            # It waits for answers, or has asked all that it had planned.
            self.finished = bool(self.study.strategy.finished)
            return self._tell(all_of_them=True) > 0
        with self._lock:
            self.queries[query.id] = query
            self._ahead.append(query.id)
        return True

    def _slot(self) -> str:
        """Who has no open query."""
        taken = {query.annotator for query in self.study.strategy.open_queries}
        return next(name for i in range(10**9) if (name := _AHEAD.format(i)) not in taken)

    def _work_out(self) -> bool:
        """Results for the study's owner, after new answers."""
        study, number = self.study, len(self.study.history)
        if self.results.get("told") == number or not study.strategy.num_answers:
            return False
        beliefs = study.beliefs()
        if beliefs is None:
            return False
        found = study.recommend()
        beliefs, row = beliefs.with_item(found.item)
        rows = beliefs.distinct(_TOP, row)
        draws = beliefs.advantages(row)
        chances = beliefs.model.likelihood(draws - draws.mean(-1, keepdim=True))[:, rows]
        levels = torch.tensor(_QUANTILES, dtype=chances.dtype)
        low, middle, high = chances.quantile(levels, dim=0).tolist()
        items = [
            {"item": study.describe(beliefs.items[i]), "low": a, "chance": b, "high": c}
            for i, a, b, c in zip(rows, low, middle, high, strict=True)
        ]
        items.sort(key=lambda one: -float(str(one["chance"])))
        utility = {
            tuple(x): m for x, m in zip(beliefs.items.tolist(), beliefs.mean.tolist(), strict=True)
        }
        self.results = {
            "told": number,
            "leader": {
                "item": study.describe(found.item),
                # Before that they mostly tell of the prior.
                "sure": beliefs.num_answers >= study.stopping.min_answers,
                "best": found.probability_best,
                "wins": found.win_probability,
                "enough": found.good_enough,
            },
            "progress": found.progress,
            "settled": found.is_settled,
            "items": items,
            "agreement": _agreement(study, lambda item: utility[tuple(item.tolist())]),
        }
        self._worked_out = time.monotonic()
        return True


def _agreement(study: Study, utility: Callable[[torch.Tensor], float]) -> dict[str, float]:
    """Of each person the share of comparisons that the model of all would answer alike."""
    found: dict[str, list[bool]] = {}
    for query, answer in study.strategy.history:
        if answer is None or query.annotator is None:
            continue
        for pair, first in query.comparisons(answer):
            if first != 0.5:
                difference = utility(pair[0]) - utility(pair[1])
                found.setdefault(query.annotator, []).append((difference > 0) == (first > 0.5))
    return {name: sum(same) / len(same) for name, same in found.items()}
