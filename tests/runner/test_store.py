from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import (
    Ackley,
    Catalyst,
    DuelingChoiceJudge,
    LogisticJudge,
    SyntheticExpert,
)
from botorch_pref.runner import RunError, run_experiment
from botorch_pref.runner.run import Run
from botorch_pref.runner.store import MANIFEST
from tests.runner.common import (
    Budgeted,
    Failing,
    LabelsAndValues,
    RandomPairs,
    RandomValues,
    catalyst_of,
)

played: list[tuple[str, int]] = []


class Counted(RandomPairs):
    def __init__(self, space: Any, seed: int = 0, name: str = "counted") -> None:
        super().__init__(space, seed)
        played.append((name, seed))


class Other(Counted):
    """Another strategy."""


def play(
    directory: Path | None, strategies: Any = None, seeds: Any = 2, **options: Any
) -> pd.DataFrame:
    played.clear()
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
    assert len(played) == 2
    stored = files(tmp_path / "new" / "folder")
    assert [*stored] == [
        *(f"{name}-seed{seed}.csv" for name in "ab" for seed in (0, 1)),
        MANIFEST,
    ]
    again = play(tmp_path / "new" / "folder")
    assert played == []
    # The seconds too: it is the same table.
    pd.testing.assert_frame_equal(again, first, check_exact=True)
    assert files(tmp_path / "new" / "folder") == stored
    alone = play(None)
    pd.testing.assert_frame_equal(
        alone.drop(columns="seconds"), first.drop(columns="seconds"), check_exact=True
    )


def test_an_empty_folder_is_as_good_as_none(tmp_path: Path) -> None:
    play(tmp_path)
    assert (tmp_path / MANIFEST).exists()


def test_seeds_and_strategies_are_added(tmp_path: Path) -> None:
    play(tmp_path, {"a": Counted}, seeds=2)
    stored = files(tmp_path)
    table = play(tmp_path, {"b": RandomValues, "a": Counted}, seeds=3)
    assert len(played) == 1
    assert table["strategy"].unique().tolist() == ["b", "a"]
    assert table["seed"].nunique() == 3
    now = files(tmp_path)
    assert all(now[name] == text for name, text in stored.items() if name != MANIFEST)
    assert json.loads(now[MANIFEST])["strategies"] == {"a": "Counted", "b": "RandomValues"}
    # A part of what is there is no other experiment.
    play(tmp_path, {"a": Counted}, seeds=[2])
    assert played == []
    assert files(tmp_path) == now


def test_what_failed_runs_again(tmp_path: Path) -> None:
    strategies = {"bad": Failing, "good": Counted}
    with pytest.raises(RunError, match="strategy 'bad', seed 0"):
        play(tmp_path, {"good": Counted, "bad": Failing})
    assert len(played) == 1
    assert [*files(tmp_path)] == [MANIFEST, "good-seed0.csv"]
    with pytest.raises(RunError, match="strategy 'bad', seed 0"):
        play(tmp_path, strategies)
    play(tmp_path, {"good": Counted})
    assert len(played) == 1


def test_a_killed_program_resumes(tmp_path: Path) -> None:
    code = """
        import os
        import sys
        from botorch_pref.problems import Ackley
        from botorch_pref.runner import run_experiment
        from tests.runner.common import RandomPairs

        class Counted(RandomPairs):
            def ask(self):
                if self.seed == doomed and self.step == 3:
                    os._exit(9)
                return super().ask()

        from botorch_pref.randomness import derive_seed
        doomed = derive_seed(1, "strategy", 0)
        problem = Ackley(num_choices=12)
        run_experiment(problem, {"a": Counted}, 5, 3, directory=sys.argv[1], recommend_every=2)
    """
    program = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path)]
    assert subprocess.run(program, check=False, cwd=Path.cwd()).returncode == 9
    assert [*files(tmp_path)] == ["a-seed0.csv", MANIFEST]
    table = play(tmp_path, {"a": Counted}, seeds=3)
    assert len(played) == 2
    pd.testing.assert_frame_equal(
        table.drop(columns="seconds"), play(None, {"a": Counted}, 3).drop(columns="seconds")
    )


def cut(number: int) -> Callable[[bytes], bytes]:
    return lambda text: text[:-number]


@pytest.mark.parametrize(
    "damage",
    [
        cut(1),  # the last end of line
        cut(3),  # within the last number
        lambda text: b"".join(text.splitlines(keepends=True)[:-1]),
        lambda text: b"",
        lambda text: b"\n",
        lambda text: b"\xff\xfe\x00\n",
        lambda text: text.replace(b"dueling_regret", b"regret"),
        lambda text: text.replace(b",a,0,", b",a,1,"),
        lambda text: text.replace(b",a,0,", b",b,0,"),
        lambda text: text.replace(b"False", b"perhaps"),
        lambda text: text + text.splitlines(keepends=True)[-1],
        lambda text: b"a,b\n1,2\n",
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
    assert len(played) == 1
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), first.drop(columns="seconds"))
    play(tmp_path, {"a": Counted}, seeds=1)
    assert played == []


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"horizon": 6}, "its horizon is 5, not 6"),
        ({"recommend_every": 1}, "its recommend_every is 2, not 1"),
        ({"problem": Catalyst()}, "its problem is 'ackley', not 'catalyst'"),
        ({"problem": Ackley(num_choices=13)}, "its random_regret is"),
        ({"problem": Ackley()}, "its random_regret is"),
        ({"problem": catalyst_of}, "its problem is 'ackley', not 'catalyst_of'"),
        ({"link": torch.special.ndtr}, "its random_regret is"),
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
    assert played == []
    assert files(tmp_path) == stored


@pytest.mark.parametrize("text", ["", "[1]", "{", "{}", '{"version": 2, "strategies": {}}', "\0"])
def test_a_foreign_manifest_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / MANIFEST).write_text(text)
    with pytest.raises(UnsupportedError, match="does not hold this experiment"):
        play(tmp_path)
    assert [*files(tmp_path).values()] == [text.encode()]


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
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
    assert len(files(tmp_path)) == len(names) + 1
    assert not [*tmp_path.parent.glob("up*")]
    again = play(tmp_path, strategies, seeds=1)
    pd.testing.assert_frame_equal(again, table, check_exact=True)
    assert again["strategy"].unique().tolist() == names


def test_what_workers_cannot_save_is_saved_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = play(tmp_path / "one")
    # As if the workers were machines that do not see the folder.
    monkeypatch.setattr("botorch_pref.runner.store.Store.visible", False)
    play(tmp_path / "two")
    again = play(tmp_path / "two")
    assert played == []
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), table.drop(columns="seconds"))
    assert [*files(tmp_path / "one")] == [*files(tmp_path / "two")]


def recorded(strategy: Any, query: Any) -> dict[str, float]:
    return {"number": query.id}


def test_labels_and_evaluations_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Catalyst()
    options = {
        "problem": problem,
        "strategies": {"both": LabelsAndValues},
        "judge": partial(SyntheticExpert, accuracy=2.0),
        "horizon": 9,
        "evaluations": 3,
        "record": recorded,
    }
    table = play(tmp_path, **options)
    assert table.groupby("seed")["step"].max().tolist() == [6, 6]
    assert table["kind"].tolist() == ["label", "evaluate"] * 6
    assert table["number"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0] * 2
    gap = float(problem.utilities.max() - problem.utilities[[6, 8, 10]].max())
    last = table[table["step"] == 6]
    assert last["simple_regret"].tolist() == pytest.approx([gap, gap])
    answers = table["answer"].tolist()
    assert answers[1::2] == problem.utilities[[6, 8, 10] * 2].tolist()
    assert {*answers[::2]} <= {0.0, 1.0}
    with monkeypatch.context() as patch:
        patch.setattr(Run, "play", lambda self: pytest.fail("is to be read, not played"))
        again = play(tmp_path, **options)
    pd.testing.assert_frame_equal(again, table, check_exact=True)
    # What ends before is played again, and what was counted otherwise is another experiment.
    path = next(tmp_path.glob("both-seed1.csv"))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    pd.testing.assert_frame_equal(
        play(tmp_path, **options).drop(columns="seconds"), table.drop(columns="seconds")
    )
    with pytest.raises(UnsupportedError, match="its evaluations is 3, not 2"):
        play(tmp_path, **(options | {"evaluations": 2}))
    with pytest.raises(UnsupportedError, match="its record is 'recorded', not None"):
        play(tmp_path, **(options | {"record": None}))


def test_a_run_that_uses_all_steps_is_complete(tmp_path: Path) -> None:
    options = {
        "problem": Catalyst(),
        "strategies": {"both": LabelsAndValues},
        "judge": partial(SyntheticExpert, accuracy=2.0),
        "horizon": 5,
        "evaluations": 3,
    }
    table = play(tmp_path, **options)
    assert table.groupby("seed")["step"].max().tolist() == [5, 5]
    pd.testing.assert_frame_equal(play(tmp_path, **options), table, check_exact=True)


def test_runs_that_spent_their_budget_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {
        "problem": Catalyst(),
        "strategies": {"budgeted": partial(Budgeted, budget=9), "free": RandomPairs},
        "judge": DuelingChoiceJudge,
        "horizon": 20,
        "recommend_every": 2,
    }
    table = play(tmp_path, **options)
    spent = table[table["strategy"] == "budgeted"]
    assert spent["step"].tolist() == [1, 2, 3, 4, 5] * 2
    assert spent["finished"].tolist() == ([False] * 4 + [True]) * 2
    assert table[table["strategy"] == "free"][["finished", "cost"]].isna().all(axis=None)
    with monkeypatch.context() as patch:
        patch.setattr(Run, "play", lambda self: pytest.fail("is to be read, not played"))
        pd.testing.assert_frame_equal(play(tmp_path, **options), table, check_exact=True)
    # A file that ends before is no whole run, even where it ends with a recommendation.
    path = next(tmp_path.glob("budgeted*-seed1.csv"))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    again = play(tmp_path, **options)
    pd.testing.assert_frame_equal(again.drop(columns="seconds"), table.drop(columns="seconds"))


def test_folders_from_before_labels_are_read(tmp_path: Path) -> None:
    table = play(tmp_path, {"a": Counted})
    later = ["kind", "simple_regret", "num_evaluations", "num_labels"]
    for path in tmp_path.glob("*.csv"):
        pd.read_csv(path, dtype=str, keep_default_na=False).drop(columns=later).to_csv(
            path, index=False, lineterminator="\n"
        )
    manifest = json.loads((tmp_path / MANIFEST).read_text())
    del manifest["evaluations"], manifest["record"]
    (tmp_path / MANIFEST).write_text(json.dumps(manifest))
    again = play(tmp_path, {"a": Counted})
    assert played == []
    pd.testing.assert_frame_equal(again, table.drop(columns=later), check_exact=True)
