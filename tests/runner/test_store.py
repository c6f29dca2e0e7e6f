from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from torch import tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import Ackley, Catalyst, LogisticJudge, SyntheticExpert
from botorch_pref.runner import RunError, run_experiment
from botorch_pref.runner.store import CHECKSUMS, MANIFEST, describe
from botorch_pref.strategies import PFTS, MaxMinLCBStrategy
from tests.runner.common import (
    Budgeted,
    Failing,
    LabelsAndValues,
    RandomPairs,
    RandomValues,
    assert_same,
    catalyst_of,
)

simulated: list[tuple[str, int]] = []


class Counted(RandomPairs):
    def __init__(self, space: Any, seed: int = 0, name: str = "counted") -> None:
        super().__init__(space, seed)
        simulated.append((name, seed))


class Other(Counted):
    """Another strategy."""


def play(
    directory: Path | None, strategies: Any = None, seeds: Any = 2, **options: Any
) -> pd.DataFrame:
    simulated.clear()
    settings = {"problem": Ackley(num_choices=12), "horizon": 5, "recommend_every": 2} | options
    return run_experiment(
        strategies=strategies or {"a": Counted, "b": RandomValues},
        seeds=seeds,
        progress=False,
        directory=directory,
        **settings,
    )


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def test_a_finished_experiment_is_read_back(tmp_path: Path) -> None:
    first = play(tmp_path / "new" / "folder")
    assert len(simulated) == 2
    stored = files(tmp_path / "new" / "folder")
    assert [*stored] == [
        CHECKSUMS,
        *(f"{name}-seed{seed}.csv" for name in "ab" for seed in (0, 1)),
        MANIFEST,
    ]
    again = play(tmp_path / "new" / "folder")
    assert simulated == []
    # The seconds too: it is the same table.
    pd.testing.assert_frame_equal(again, first, check_exact=True)
    assert files(tmp_path / "new" / "folder") == stored
    assert_same(play(None), first)


def test_seeds_and_strategies_are_added(tmp_path: Path) -> None:
    play(tmp_path, {"a": Counted}, seeds=2)
    stored = files(tmp_path)
    table = play(tmp_path, {"b": RandomValues, "a": Counted}, seeds=3)
    assert len(simulated) == 1
    assert table["strategy"].unique().tolist() == ["b", "a"]
    assert table["seed"].nunique() == 3
    now = files(tmp_path)
    grown = (MANIFEST, CHECKSUMS)
    assert all(now[name] == text for name, text in stored.items() if name not in grown)
    assert json.loads(now[MANIFEST])["strategies"] == {"a": "Counted", "b": "RandomValues"}
    # A part of what is there is no other experiment.
    play(tmp_path, {"a": Counted}, seeds=[2])
    assert simulated == []
    assert files(tmp_path) == now


def test_what_failed_runs_again(tmp_path: Path) -> None:
    strategies = {"bad": Failing, "good": Counted}
    with pytest.raises(RunError, match="strategy 'bad', seed 0"):
        play(tmp_path, {"good": Counted, "bad": Failing})
    assert len(simulated) == 1
    assert [*files(tmp_path)] == [CHECKSUMS, MANIFEST, "good-seed0.csv"]
    with pytest.raises(RunError, match="strategy 'bad', seed 0"):
        play(tmp_path, strategies)
    play(tmp_path, {"good": Counted})
    assert len(simulated) == 1


def in_a_column(table: bytes, name: str, text: str) -> bytes:
    """A table of CSV with another text in the first row of a column."""
    names, row, *rest = (line.split(",") for line in table.decode().splitlines())
    row[names.index(name)] = text
    return "".join(f"{','.join(one)}\n" for one in (names, row, *rest)).encode()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[:-1],  # the last end of line
        lambda text: b"".join(text.splitlines(keepends=True)[:-1]),
        lambda text: b"\xff\xfe\x00\n",
        lambda text: text.replace(b",a,0,", b",a,1,"),
        lambda text: text.replace(b",a,0,", b",b,0,"),
        lambda text: text.replace(b"False", b"perhaps"),
        lambda text: text + text.splitlines(keepends=True)[-1],
        lambda text: b"a,b\n1,2\n",
        lambda text: in_a_column(text, "utility_regret", "0.0"),
        lambda text: in_a_column(text, "cumulative_regret", "nan"),
    ],
)
def test_a_damaged_or_foreign_table_is_not_used(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    first = play(tmp_path, {"a": Counted}, seeds=1)
    path = tmp_path / "a-seed0.csv"
    whole = path.read_bytes()
    assert damage(whole) != whole
    path.write_bytes(damage(whole))
    again = play(tmp_path, {"a": Counted}, seeds=1)
    assert len(simulated) == 1
    assert_same(again, first)
    play(tmp_path, {"a": Counted}, seeds=1)
    assert simulated == []


def test_runs_of_a_version_without_checksums(tmp_path: Path) -> None:
    first = play(tmp_path, {"a": Counted}, seeds=1)
    (tmp_path / CHECKSUMS).unlink()
    assert_same(play(tmp_path, {"a": Counted}, seeds=1), first)
    assert simulated == []


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"horizon": 6}, "its horizon is 5, not 6"),
        ({"problem": Ackley(num_choices=13)}, "its random_regret is"),
        ({"problem": catalyst_of}, "its problem is 'ackley', not 'catalyst_of'"),
        ({"judge": partial(LogisticJudge, value_noise=2.0)}, "its judge is 'LogisticJudge', not"),
        ({"strategies": {"a": Other}}, "its strategy 'a' is Counted, not Other"),
        ({"strategies": {"a": partial(Counted, name="x")}}, r"not Counted\(name='x'\)"),
    ],
)
def test_another_experiment_is_refused(tmp_path: Path, other: dict[str, Any], message: str) -> None:
    play(tmp_path)
    stored = files(tmp_path)
    with pytest.raises(UnsupportedError, match=f"directory: .* does not hold this .*{message}"):
        play(tmp_path, **other)
    assert simulated == []
    assert files(tmp_path) == stored


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"version": 2, "strategies": {}}'])
def test_a_foreign_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(UnsupportedError, match="does not hold this experiment"):
        play(tmp_path)
    assert [*files(tmp_path).values()] == [text.encode()]
    (tmp_path / MANIFEST).unlink()
    play(tmp_path)
    (tmp_path / MANIFEST).unlink()
    with pytest.raises(UnsupportedError, match=f"it has runs, but no {MANIFEST}"):
        play(tmp_path)
    with pytest.raises(UnsupportedError, match="is no folder"):
        play(tmp_path / "a-seed0.csv")


def test_any_name_is_a_file(tmp_path: Path) -> None:
    names = ["a b", "a_b", "a/b", "../up", "nan", "True", 'quo"te, and\ncomma', "ρ=0.05", "x" * 300]
    strategies = dict.fromkeys(names, RandomPairs)
    table = play(tmp_path, strategies, seeds=1)
    assert len(files(tmp_path)) == len(names) + 2
    assert not [*tmp_path.parent.glob("up*")]
    again = play(tmp_path, strategies, seeds=1)
    pd.testing.assert_frame_equal(again, table, check_exact=True)
    assert again["strategy"].unique().tolist() == names


def recorded(strategy: Any, query: Any) -> dict[str, float]:
    return {"number": query.id}


def test_labels_and_evaluations_are_read_back(tmp_path: Path) -> None:
    options = {
        "problem": Catalyst(),
        "strategies": {"both": LabelsAndValues},
        "judge": partial(SyntheticExpert, accuracy=2.0),
        "horizon": 9,
        "evaluations": 3,
        "record": recorded,
    }
    table = play(tmp_path, **options)
    pd.testing.assert_frame_equal(play(tmp_path, **options), table, check_exact=True)
    assert table["kind"].tolist() == ["label", "evaluate"] * 6
    assert table["number"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] * 2
    for name, other, shown in (("evaluations", 2, "3, not 2"), ("record", None, "'recorded'")):
        with pytest.raises(UnsupportedError, match=f"its {name} is {shown}"):
            play(tmp_path, **(options | {name: other}))


def test_runs_that_spent_their_budget_are_read_back(tmp_path: Path) -> None:
    strategies = {"budgeted": partial(Budgeted, budget=9), "free": RandomPairs}
    options = {"problem": Catalyst(), "strategies": strategies, "horizon": 20}
    table = play(tmp_path, **options)
    pd.testing.assert_frame_equal(play(tmp_path, **options), table, check_exact=True)
    spent = table[table["strategy"] == "budgeted"]
    assert spent["step"].tolist() == [1, 2, 3, 4, 5] * 2
    assert spent["finished"].tolist() == ([False] * 4 + [True]) * 2
    assert table[table["strategy"] == "free"][["finished", "cost"]].isna().all(axis=None)
    # A file that ends before is no whole run, even where it ends with a recommendation.
    path = next(tmp_path.glob("budgeted*-seed1.csv"))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert_same(play(tmp_path, **options), table)


# What tells factories apart in a folder of runs.


class Plain:
    def method(self) -> None: ...


def made(beta: float) -> Callable[..., Any]:
    def factory(space: Any, seed: int, scale: float = 1.0) -> Any:
        return MaxMinLCBStrategy(space=space, seed=seed, beta=beta * scale)

    return factory


def test_names_and_arguments() -> None:
    assert describe(PFTS) == "PFTS"
    assert describe(PFTS.paper) == "PFTS.paper"
    text = describe(partial(PFTS.paper, kappa=4.0, hyperparameters={"penalty": 0.1}))
    assert text == "PFTS.paper(kappa=4.0, hyperparameters={'penalty': 0.1})"
    # An address would differ in the next process.
    for factory in (partial(PFTS, Plain()), Plain().method):
        assert "0x" not in describe(factory)


def test_functions_and_tables_are_told_apart() -> None:
    """By code, closure and defaults; long tables to the last row."""
    assert describe(made(0.1)) == describe(made(0.1))
    other = made(0.1)
    other.__defaults__ = (2.0,)  # type: ignore[attr-defined]
    one, two = (lambda seed: seed), (lambda seed: seed + 1)
    rows = [[float(k), 0.5] for k in range(2000)]
    changed = [*rows[:1000], [-1.0, 0.5], *rows[1001:]]
    for first, second in (
        (made(0.1), made(5.0)),
        (made(0.1), other),
        (one, two),
        (partial(PFTS, link=one), partial(PFTS, link=two)),
        *((partial(PFTS, kind(rows)), partial(PFTS, kind(changed))) for kind in (np.array, tensor)),
        (partial(PFTS, x={"x": [tensor(rows)]}), partial(PFTS, x={"x": [tensor(changed)]})),
    ):
        assert describe(first) != describe(second)
