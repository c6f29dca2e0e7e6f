"""``python -m experiments``: claims, reports, files, and what is run again."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import Ackley
from botorch_pref.runner import experiment
from botorch_pref.strategies import PFTS
from experiments.__main__ import MEASUREMENTS, main
from experiments.claims import Claim, Comparison, compared, judge_claim, lower, not_higher
from experiments.contents import CONTENTS, PAPERS
from experiments.costs import cost_regrets, regrets_at
from experiments.experiment import RegretExperiment
from experiments.papers import experiments
from experiments.report import FILES, report, save, summary
from experiments.run import _parser
from tests.terminal import on_terminal


def made_up(**values: list[float]) -> pd.DataFrame:
    """The metric "regret" of each strategy under the seeds 0, 1, ..."""
    return pd.DataFrame(
        {"strategy": name, "seed": seed, "step": 9, "regret": value}
        for name, row in values.items()
        for seed, value in enumerate(row)
    )


# Differences of -1, -2, -3 and -2: mean -2, standard error sqrt(2 / 3) / 2 = 0.408.
PAIRED = made_up(a=[10.0, 20.0, 30.0, 40.0], b=[11.0, 22.0, 33.0, 42.0])


def test_differences_are_paired_by_seed() -> None:
    *figures, error, verdict = compared(PAIRED, *lower("regret", "a", "b"))[1:]
    assert figures == [25.0, 27.0, -2.0]
    assert error == pytest.approx(math.sqrt(2 / 3) / 2)
    assert verdict == "seen"  # though each side's own standard error is 6.5
    # Only seeds that both sides have count.
    outcome = compared(PAIRED.iloc[:-1], *lower("regret", "a", "b"))
    assert (outcome.first, outcome.second) == (20.0, 22.0)


@pytest.mark.parametrize(
    ("gaps", "is_lower", "is_not_higher"),
    [
        ([-1.0, -1.2], "seen", "seen"),
        ([-1.0, 0.5], "not seen", "seen"),
        ([-1e-16, -1e-16], "not seen", "seen"),
        ([1.0, 1.0], "opposite seen", "opposite seen"),
        # A mean of 1 and a standard error of 0.5: exactly two of them are not enough.
        ([0.5, 1.5], "not seen", "seen"),
        ([-0.5, -1.5], "not seen", "seen"),
        ([math.inf, math.inf], "opposite seen", "opposite seen"),
    ],
)
def test_verdicts(gaps: list[float], is_lower: str, is_not_higher: str) -> None:
    measures = made_up(a=gaps, b=[0.0] * len(gaps))
    assert compared(measures, *lower("regret", "a", "b")).verdict == is_lower
    assert compared(measures, *not_higher("regret", "a", "b")).verdict == is_not_higher
    opposite = {"seen": "opposite seen", "opposite seen": "seen"}
    higher = compared(measures, Comparison(("a", "regret"), 0.0, "higher")).verdict
    assert higher == opposite.get(is_lower, is_lower)


def test_a_claim_is_all_of_its_comparisons() -> None:
    measures = made_up(a=[1.0, 1.0], b=[2.0, 2.0], c=[1.0, 1.0], d=[0.0, 0.0])

    def verdict(*others: str) -> str:
        return judge_claim(measures, Claim("a is lower", lower("regret", "a", *others)))[0]

    assert [verdict("b"), verdict("b", "c"), verdict("b", "d")] == ["seen", "not seen", "not seen"]
    assert [verdict("d"), verdict("b", "nobody")] == ["opposite seen", "unknown"]


EXPERIMENT = RegretExperiment(
    name="made-up",
    title="A made-up experiment",
    source="nowhere, Fig. 7",
    problem=partial(Ackley, num_choices=6),
    strategies={"first": PFTS.paper, "second": PFTS.paper},
    horizon=3,
    seeds=2,
    tail=2,
    settings=(),
    claims=(
        Claim("The first is lower.", lower("cumulative", "first", "second")),
        Claim("A third is lower.", lower("cumulative", "third", "second")),
    ),
    notes=("Nothing was played.",),
    printed={"theirs": {"cumulative regret": "0.5 ± 0.1"}},
)
# Cumulative regrets of 0.3 and 0.6, and of 1.2 and 1.3.
ROWS = pd.DataFrame(
    {
        "problem": "ackley",
        "strategy": strategy,
        "seed": seed,
        "step": step,
        "dueling_regret": total / 3,
        "cumulative_regret": step * total / 3,
        "recommendation_regret": 0.0,
        "identical": seed == 1,
        "identical_share": float(seed == 1),
        "seconds": 0.004,
    }
    for strategy, totals in (("first", [0.3, 0.6]), ("second", [1.2, 1.3]))
    for seed, total in enumerate(totals)
    for step in (1, 2, 3)
)


def test_the_report_and_its_files(tmp_path: Path) -> None:
    measures = EXPERIMENT.measures(ROWS)
    text = report(EXPERIMENT, measures)
    rows = [line for line in text.splitlines() if line.startswith(("| first", "| theirs"))]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    numbers = ["0.450 ± 0.15", "0.450", "0.330", "0.570", "0.15 ± 0.050", "0 ± 0", "50", "4.0"]
    assert cells[0] == ["first", *numbers]
    assert cells[1][:2] == ["theirs", "0.5 ± 0.1"]
    assert "1. The first is lower. **Seen.**" in text
    assert "0.45 against 1.25, difference -0.8 ± 0.1: seen" in text
    assert "2. A third is lower. **Unknown.**" in text
    assert text.endswith("- Nothing was played.")
    paths = save(EXPERIMENT, ROWS, measures, tmp_path, text)
    assert {path.name for path in tmp_path.iterdir()} == {f"made-up{ending}" for ending in FILES}
    assert paths["report"].read_text(encoding="utf-8") == text + "\n"
    assert pd.read_csv(paths["claims"])["verdict"].tolist() == ["seen", "unknown"]
    found = pd.read_csv(paths["summary"])
    pd.testing.assert_frame_equal(found, summary(EXPERIMENT, measures), check_dtype=False)


COST = ["cost", "--seeds", "2", "--horizon", "6", "--jobs", "1", "--quiet"]


def test_runs_are_saved_and_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = [*COST, "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert capsys.readouterr().out.startswith("63 measured catalysts, by cost")
    assert len(pd.read_csv(tmp_path / "cost-rows.csv")) == 2 * 2 * 6
    run, played = experiment.simulate_run, []

    def counted(key: tuple[str, int], *arguments: Any) -> Any:
        played.append(key[1])
        if key[1] == 3:
            raise KeyboardInterrupt
        return run(key, *arguments)

    monkeypatch.setattr(experiment, "simulate_run", counted)
    assert main([*arguments, "--seeds", "3"]) == 0
    assert "with 4 runs that were finished before" in capsys.readouterr().out
    assert played == [2, 2]
    # Another horizon is another experiment; it needs a folder of its own, or a new start.
    assert main([*arguments, "--horizon", "7"]) == 2
    assert "its horizon is 6, not 7" in capsys.readouterr().err
    assert main([*arguments, "--seeds", "4"]) == 130
    assert "finished runs are kept in" in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main([*COST, "--seeds", "1", "--ridge", "0.2"]) == 0
    folders = {path.name for path in Path("botorch_pref_runs").iterdir()}
    assert folders == {"bench-cost-horizon-6-ridge-0.2", "bench-catalyst-horizon-6-ridge-0.2"}


def test_the_listing_and_wrong_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in (*experiments(), *MEASUREMENTS))
    for arguments, message in (
        ("nothing", "there is no such experiment; there are ackley, "),
        ("ackley --seeds 0", "--seeds: must be a whole number, at least 1, not '0'"),
        ("ackley --ridge nan", "--ridge: must be a positive number"),
        ("yelp --kernel matern-x", "--kernel: there is no kernel 'matern-x'"),
        ("pop-gp --ridge 1", "unrecognized arguments: --ridge 1"),
        ("defaults --functions nowhere", "unknown function 'nowhere'"),
        ("speed --what all", "invalid choice: 'all'"),
    ):
        try:
            status: object = main(arguments.split())
        except SystemExit as stopped:
            status = stopped.code
        assert status == 2
        assert message in capsys.readouterr().err


def test_every_figure_has_a_command_or_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    shown = capsys.readouterr().out
    for item in CONTENTS:
        assert f"  {item.name}: {item.what}\n" in shown
        name, *arguments = item.command.split() or [""]
        if name in experiments():
            parsed = _parser(experiments()[name]).parse_args(arguments)
            assert parsed.seeds in (None, 60)
        elif name:
            assert name in MEASUREMENTS
            assert not arguments
        else:
            assert f"not possible here, because {item.because}\n" in shown + "\n"
            assert item.because
    # No experiment of a paper is left out, and its source names the figure.
    made = {item.command.split()[0] for item in CONTENTS if item.command}
    for experiment_ in experiments().values():
        ours = experiment_.source.startswith("ours")
        assert ours != (experiment_.name in made), experiment_.name
        papers = [key for key, source in PAPERS.items() if f"{source}, " in experiment_.source]
        found = {item.paper for item in CONTENTS if item.command.startswith(experiment_.name)}
        assert ours or {*papers} & found, experiment_.name


# ------------------------------------------------------------------ regrets over costs


def table_of(*rows: tuple[str, float | None, float, float, float]) -> pd.DataFrame:
    columns = ["kind", "answer", "first_utility", "second_utility", "cost"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(problem="p", strategy="s", seed=0)


def test_a_start_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = on_terminal(monkeypatch)
    assert main(["", "--quiet"]) == 0
    assert terminal.getvalue() == ""
    assert main([]) == 0
    assert terminal.getvalue().startswith("starting ...")


def test_cost_regrets_by_hand() -> None:
    nan, inf = math.nan, math.inf
    table = table_of(
        ("label", 1.0, 9.5, nan, 0.5),
        ("duel", 1.0, 4.0, 7.0, 1.0),
        ("duel", None, 10.0, 9.0, 2.0),  # skipped
        ("evaluate", 3.0, 5.0, nan, 4.0),
        ("duel", 0.0, 6.0, 1.0, 5.0),
        ("evaluate", 9.0, 9.0, nan, 7.0),
    )
    found = cost_regrets(table, 10.0)
    assert found["regret"].tolist() == [inf, 3.0, 3.0, 3.0, 3.0, 1.0]
    assert found["duel_regret"].tolist() == [inf, 6.0, 6.0, 6.0, 4.0, 4.0]
    assert found["value_regret"].tolist() == [inf, inf, inf, 5.0, 5.0, 1.0]
    at = regrets_at(table.join(found), [0.1, 4.0, 4.5, 100.0])
    assert at["cost"].tolist() == [0.1, 4.0, 4.5, 100.0]
    assert at["regret"].tolist() == [inf, 3.0, 3.0, 1.0]
    assert at["duel_regret"].tolist() == [inf, 6.0, 6.0, 4.0]
    assert at["value_regret"].tolist() == [inf, 5.0, 5.0, 1.0]
    # One history alone does not say whose it is.
    alone = cost_regrets(table[["kind", "answer", "first_utility", "second_utility"]], 10.0)
    pd.testing.assert_frame_equal(alone, found)
    with pytest.raises(UnsupportedError, match="table: its runs must have costs"):
        regrets_at(table.drop(columns="cost").join(found), [1.0])
