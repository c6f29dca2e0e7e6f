from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from botorch_pref.problems import Catalyst
from botorch_pref.runner import History, replacing, simulate
from botorch_pref.space import SearchSpace
from tests.runner.common import RandomPairs


def history_of(seed: int, answer: float | None = 1.0, **options: int) -> History:
    problem = Catalyst()
    strategy = RandomPairs(SearchSpace(choices=problem.choices), seed)
    return simulate(strategy, problem, lambda query, step: answer, 2, progress=False, **options)


def test_saved_as_csv(tmp_path: Path) -> None:
    history = history_of(0)
    path = history.save(tmp_path / "history.csv")
    pd.testing.assert_frame_equal(pd.read_csv(path), history.table, check_dtype=False)
    other = history_of(1)
    other.save(path)
    pd.testing.assert_frame_equal(pd.read_csv(path), other.table, check_dtype=False)
    assert [file.name for file in tmp_path.iterdir()] == ["history.csv"]


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("old")

    def stop_half_way() -> None:
        with replacing(path) as temporary:
            temporary.write_text("new")
            assert path.read_text() == "old"
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        stop_half_way()
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == ["table.csv"]


def test_the_types_of_the_columns_do_not_depend_on_the_rows() -> None:
    tables = [
        history_of(0, answer, recommend_every=every).table
        for answer in (1.0, None)
        for every in (1, 2)
    ]
    assert all((table.dtypes == tables[0].dtypes).all() for table in tables)
