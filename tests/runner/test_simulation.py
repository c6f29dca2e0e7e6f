from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.problems import Ackley, Catalyst, LogisticJudge
from botorch_pref.queries import Choice, Duel, Query
from botorch_pref.runner import History, random_play, simulate
from botorch_pref.space import SearchSpace
from tests.runner.common import Budgeted, Failing, LabelsAndValues


class Fixed:
    """Asks what it was given, then is interrupted; recommends the second item of the latest."""

    def __init__(self, queries: Sequence[Duel | Choice]) -> None:
        self.queries = queries
        self.answers: list[float | None] = []

    def ask(self) -> Duel | Choice:
        if len(self.answers) == len(self.queries):
            raise KeyboardInterrupt
        return self.queries[len(self.answers)]

    def tell(self, query: Duel | Choice, answer: float | None) -> None:
        assert query is self.queries[len(self.answers)]
        self.answers.append(answer)

    def recommend(self) -> Tensor:
        return self.queries[len(self.answers) - 1].items[1]

    def recommend_index(self) -> int:
        indices = self.queries[len(self.answers) - 1].indices
        assert indices is not None
        return indices[1]


def duels_of(problem: Catalyst, pairs: Sequence[tuple[int, int]]) -> list[Duel]:
    return [Duel(step, problem.choices[[*pair]], pair) for step, pair in enumerate(pairs)]


def first_wins(query: Duel, step: int) -> float:
    return 1.0


def test_a_table_of_choices() -> None:
    problem = Catalyst()
    # The third are two measurements of one composition, which are told apart by their index.
    same = [i for i, name in enumerate(problem.names) if name == "Au-1.0"]
    pairs = [(0, 1), (5, 5), (same[0], same[1]), (62, 0)]
    strategy = Fixed(duels_of(problem, pairs))
    answers = iter([1.0, 0.0, 0.5, None])
    steps = []

    def judge(query: Duel, step: int) -> float | None:
        steps.append((step, query.indices))
        return next(answers)

    history = simulate(strategy, problem, judge, 4, progress=False)
    table = history.table
    assert steps == [(i + 1, pair) for i, pair in enumerate(pairs)]
    assert strategy.answers == [1.0, 0.0, 0.5, None]
    assert table["step"].tolist() == [1, 2, 3, 4]
    assert list(zip(table["first_index"], table["second_index"], strict=True)) == pairs
    assert table["answer"].tolist()[:3] == [1.0, 0.0, 0.5]
    assert table["answer"].isna().tolist() == [False, False, False, True]
    assert table["identical"].tolist() == [False, True, False, False]
    assert history.num_identical == 1
    f, best = problem.utilities, problem.utilities.max()
    first, second = f[[i for i, _ in pairs]], f[[j for _, j in pairs]]
    expected = 0.5 * ((best - first).sigmoid() + (best - second).sigmoid() - 1.0)
    for column, values in {
        "first_utility": first,
        "second_utility": second,
        "dueling_regret": expected,
        "cumulative_regret": expected.cumsum(0),
        "utility_regret": best - (first + second) / 2,
        "recommendation_regret": best - second,
    }.items():
        assert table[column].tolist() == pytest.approx(values.tolist(), abs=1e-12), column
    items = table[[f"second_x{k}" for k in (1, 2, 3)]].to_numpy()
    assert items.tolist() == problem.choices[[j for _, j in pairs]].tolist()
    assert table["recommended_index"].tolist() == [j for _, j in pairs]
    assert table["first_utility"][2] != table["second_utility"][2]
    assert history.cumulative_regret == pytest.approx(float(expected.sum()))
    assert (table["seconds"] > 0).all()
    assert history.seconds == pytest.approx(table["seconds"].sum())


def test_a_box() -> None:
    problem = Ackley(dim=2)
    pairs = torch.tensor([[[0.5, 0.5], [0.1, 0.9]], [[0.2, 0.3], [0.2, 0.3]]], dtype=torch.double)
    duels = [Duel(step, pair) for step, pair in enumerate(pairs)]
    history = simulate(Fixed(duels), problem, first_wins, 2, progress=False)
    table = history.table
    assert {"first_index", "recommended_index"}.isdisjoint(table)
    assert table["identical"].tolist() == [False, True]
    assert table[["first_x1", "first_x2"]].to_numpy().tolist() == pairs[:, 0].tolist()
    expected = (-problem(pairs)).sigmoid().mean(-1) - 0.5
    assert table["dueling_regret"].tolist() == pytest.approx(expected.tolist(), abs=1e-12)
    assert history.recommended is not None
    assert history.recommended["recommended_x2"] == 0.3
    assert history.random_regret == random_play(problem)


def test_choices() -> None:
    problem = Catalyst()
    shown = [(0, 5, 9), (7, 7, 7), (2, 2, 8), (3, 4)]
    judge = LogisticJudge(problem, seed=1)
    strategy = Fixed([Choice(i, problem.choices[[*rows]], rows) for i, rows in enumerate(shown)])
    table = simulate(strategy, problem, judge, 4, progress=False).table
    assert table["answer"].tolist() == strategy.answers
    assert table["identical"].tolist() == [False, True, False, False]
    for slot, column in enumerate(("first", "second", "item3")):
        rows = [question[slot] for question in shown if slot < len(question)]
        assert table[f"{column}_index"].dropna().tolist() == rows
        assert table[f"{column}_x2"].dropna().tolist() == problem.choices[rows, 1].tolist()
        utilities = table[f"{column}_utility"].dropna().tolist()
        assert utilities == problem.utilities[rows].tolist()
    gaps = [problem.utilities.max() - problem.utilities[[*rows]] for rows in shown]
    expected = [float(gap.mean()) for gap in gaps]
    assert table["utility_regret"].tolist() == pytest.approx(expected)
    expected = [float(gap.sigmoid().mean()) - 0.5 for gap in gaps]
    assert table["dueling_regret"].tolist() == pytest.approx(expected)


def labels_and_values(answers: Sequence[float | None], **options: Any) -> History:
    """Labels of the rows 7, 9, ... and values of the rows 6, 8, ... in turn."""
    problem = Catalyst()
    strategy = LabelsAndValues(SearchSpace(choices=problem.choices))
    told = iter(answers)

    def judge(query: Query, step: int) -> float | None:
        return next(told)

    options = {"horizon": len(answers), "progress": False} | options
    history = simulate(strategy, problem, judge, **options)
    assert strategy.answers == [*answers[: len(history.table)]]
    return history


def test_labels_pay_no_regret() -> None:
    problem = Catalyst()
    table = labels_and_values([1.0, 3.0, None, 5.0, 0.0, None, 1.0, 2.0]).table
    assert table["kind"].tolist() == ["label", "evaluate"] * 4
    rows = [7, 6, 9, 8, 11, 10, 13, 12]
    assert table["first_index"].tolist() == rows
    assert table["first_utility"].tolist() == problem.utilities[rows].tolist()
    assert table["answer"].fillna(-1.0).tolist() == [1.0, 3.0, -1.0, 5.0, 0.0, -1.0, 1.0, 2.0]
    assert not table["identical"].any()
    gap = problem.utilities.max() - problem.utilities[[6, 8, 10, 12]]
    for column, paid in (("dueling_regret", gap.sigmoid() - 0.5), ("utility_regret", gap)):
        assert table[column].isna().tolist() == [True, False] * 4
        assert table[column].dropna().tolist() == pytest.approx(paid.tolist(), abs=1e-12)
    sums = [0.0, *(gap.sigmoid() - 0.5).cumsum(0).repeat_interleave(2).tolist()][:8]
    assert table["cumulative_regret"].tolist() == pytest.approx(sums, abs=1e-12)
    # The third value was not told, and the second label is no answer.
    best = [gap[0], gap[0], gap[:2].min(), gap[:2].min(), gap[:2].min(), gap[:2].min()]
    best.append(gap[[0, 1, 3]].min())
    assert table["simple_regret"].isna().tolist() == [True] + [False] * 7
    assert table["simple_regret"][1:].tolist() == pytest.approx([float(one) for one in best])
    assert table["num_evaluations"].tolist() == [0, 1, 1, 2, 2, 2, 2, 3]
    assert table["num_labels"].tolist() == [1, 1, 1, 1, 2, 2, 3, 3]


def test_a_run_may_end_after_so_many_evaluations() -> None:
    answers = [1.0, 3.0, None, None, 0.0, 4.0, 1.0, 2.0]
    history = labels_and_values(answers, evaluations=2, recommend_every=4)
    assert history.horizon == 8
    assert history.table["step"].tolist() == [1, 2, 3, 4, 5, 6]
    assert history.table["num_evaluations"].tolist()[-1] == 2
    known = history.table["recommendation_regret"].notna()
    assert known.tolist() == [False, False, False, True, False, True]
    # Too few steps for all evaluations.
    history = labels_and_values(answers[:5], evaluations=2, recommend_every=4)
    assert len(history.table) == 5
    assert history.table["recommendation_regret"].notna().tolist()[-2:] == [True, True]
    for name in ("evaluations", "horizon", "recommend_every"):
        for wrong in (0, 1.5, "2"):
            with pytest.raises(ComparisonDataError, match=f"`{name}` must be a whole number"):
                labels_and_values(answers, **{name: wrong})


def budgeted(budget: int, horizon: int = 20, **options: Any) -> pd.DataFrame:
    problem = Catalyst()
    strategy = Budgeted(SearchSpace(choices=problem.choices), budget=budget)
    return simulate(
        strategy, problem, LogisticJudge(problem), horizon, progress=False, **options
    ).table


def test_a_run_ends_when_its_budget_is_spent() -> None:
    # Found out as it asks: after 1 + 1 + 3 + 1 + 1 there is too little for another value.
    table = budgeted(9)
    assert table["cost"].tolist() == [1.0, 2.0, 5.0, 6.0, 7.0]
    assert table["kind"].tolist() == ["duel", "duel", "evaluate", "duel", "duel"]
    assert table["finished"].tolist() == [False] * 4 + [True]
    assert table["recommendation_regret"].notna().all()
    table = budgeted(9, recommend_every=4)
    assert table["recommendation_regret"].notna().tolist() == [False, False, False, True, True]
    # The horizon is the most steps, and evaluations may end it before.
    assert budgeted(9, horizon=3)["finished"].tolist() == [False] * 3
    assert budgeted(100, evaluations=2)["cost"].tolist()[-1] == 10.0
    ended = budgeted(9, evaluations=2)
    assert (ended["cost"].tolist()[-1], len(ended)) == (7.0, 5)


def test_errors_of_asking_are_not_taken_for_a_spent_budget() -> None:
    class Broken(Budgeted):
        def ask(self) -> Any:
            raise UnsupportedError("on purpose")

    problem = Catalyst()
    for cls, error in ((Broken, UnsupportedError), (Failing, ZeroDivisionError)):
        strategy = cls(SearchSpace(choices=problem.choices))
        with pytest.raises(error, match="on purpose"):
            simulate(strategy, problem, first_wins, 5, progress=False)


def test_what_is_recorded_besides() -> None:
    def record(strategy: LabelsAndValues, query: Query) -> dict[str, float]:
        return {"told": len(strategy.answers), "odd": query.id % 2} if query.id else {}

    table = labels_and_values([1.0, 3.0, 0.0], record=record).table
    assert table["told"].isna().tolist() == [True, False, False]
    assert table[["told", "odd"]][1:].to_numpy().tolist() == [[1.0, 1.0], [2.0, 0.0]]


def test_random_play() -> None:
    # The exact means of the specification, by their sum over the papers' horizons.
    assert 800 * random_play(Catalyst()) == pytest.approx(316.3, abs=0.05)
    assert 300 * random_play(Ackley(num_choices=40)) == pytest.approx(139.3, abs=0.05)
    box = Ackley(dim=2)
    grid = torch.linspace(0.0, 1.0, 401, dtype=torch.double)
    gaps = box.optimal_value - box(torch.cartesian_prod(grid, grid))
    assert random_play(box) == pytest.approx(float(gaps.sigmoid().mean()) - 0.5, rel=5e-3)
    assert random_play(box) == random_play(box)


def test_an_interrupt_keeps_what_was_done() -> None:
    problem = Catalyst()
    duels = duels_of(problem, [(0, 1)] * 3)
    history = simulate(Fixed(duels), problem, first_wins, 9, progress=False, interruptible=True)
    assert (history.num_duels, history.horizon) == (3, 9)
    assert history.recommended is not None
    with pytest.raises(KeyboardInterrupt):
        simulate(Fixed([]), problem, first_wins, 9, progress=False)
