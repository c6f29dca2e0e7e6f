"""``python -m experiments speed``: both sides solve the same problem, and clocks are read right."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from experiments.__main__ import main
from experiments.speed import likelihood_ratio, own, pairwise, peers
from experiments.speed.command import SECTIONS, speed_cases
from experiments.speed.duels import Grid, duels
from experiments.speed.report import curves, reached, speed_text
from experiments.speed.timing import Case, Run, Side, time_cases

CPU = torch.device("cpu")


def spinning(milliseconds: int) -> Callable[[], Run]:
    """What uses CPU time, as sleeping does not."""

    def spin() -> None:
        end = time.process_time() + 1e-3 * milliseconds
        while time.process_time() < end:
            pass

    return lambda: spin


def case(ours: Side, *others: Side, size: int = 10) -> Case:
    return Case("models", "spin", "{m} turns", size, ours, others)


def test_what_is_timed_and_what_is_left_out(tmp_path: Path) -> None:
    def fail() -> None:
        raise ValueError("no\nway")

    path, once = tmp_path / "table.csv", partial(Side, repeats=1)
    large = once("large", spinning(0), gigabytes=12.4)
    missing, broken = once("missing", spinning(0), needs=("abacus",)), once("broken", lambda: fail)
    slow = partial(Side, "slow", repeats=2)
    sizes = (10, 20)
    cases = [case(Side("ours", spinning(5)), slow(spinning(20)), size=size) for size in sizes]
    cases.append(case(once("ours", spinning(5)), large, missing, broken))
    table = time_cases(cases, progress=False, limit=0.01, path=path)
    ours, theirs = table.to_dict("records")[:2]
    assert 0.005 <= ours["seconds"] < 0.02 <= theirs["seconds"]
    assert theirs["ratio"] == theirs["seconds"] / ours["seconds"]
    assert (ours["repeats"], theirs["repeats"]) == (3, 2)
    notes = table.set_index("package")["note"]
    assert notes["slow"].tolist() == ["", "not timed: took 0 s at m = 10"]
    assert notes["large"] == "not timed: would take about 12 GB"
    assert "needs abacus" in notes["missing"]
    assert notes["broken"] == "not timed: ValueError: no way"
    assert len(pd.read_csv(path)) == len(table)


def row(size: float, package: str, seconds: float, **more: Any) -> dict[str, Any]:
    standard = {"section": "scaling", "case": f"{size:g} duels: fit", "operation": "fit"}
    standard |= {"data": "{m} duels", "ours": "A", "note": "", "repeats": 1}
    times = dict.fromkeys(("seconds", "cpu", "wall", "longest"), seconds)
    return standard | {"size": size, "package": package, "ratio": seconds / 0.5} | times | more


def test_slopes_and_aims() -> None:
    sizes = (50, 100, 200, 400)
    table = pd.DataFrame(
        [row(size, "A", 0.01 * size) for size in sizes]
        + [row(size, "B", (size / 100) ** 3) for size in sizes]
    )
    assert [curve.slope for curve in curves(table)] == pytest.approx([1.0, 3.0])
    fresh, million = "400 fresh duels, d=6: fit_gpytorch_mll", "1,000,000 fresh duels, d=6: mode "
    table = pd.DataFrame(
        [
            row(math.nan, "PairwiseGP", 1.0, case=fresh, ratio=29.9),
            row(1e6, "PreferenceGP", 99.0, case=f"{million}and posterior", note="peak memory 9 GB"),
        ]
    )
    found = reached(table, [("m fresh duels: fit, 512 inducing items", 0.9)])
    assert [(one.value, one.met) for one in found] == [
        (29.9, False),
        (99.0, True),
        (9.0, False),
        (0.9, True),
    ]
    assert "aims: 2 of 3 missed" in speed_text(table)


def test_both_models_are_the_same_problem() -> None:
    X, comparisons = duels(12)
    ours, other = pairwise.ours_of(X, comparisons), pairwise.pairwise_of(X, comparisons)
    state = other.covar_module.state_dict()
    for name, value in ours.covar_module.state_dict().items():
        assert torch.equal(value, state[name]), name
    means: Any = [model.posterior(X[:6]).mean.squeeze(-1) for model in (ours, other)]
    assert torch.allclose(means[0] - means[0][0], means[1] - means[1][0], atol=1e-4)
    # The gradient of what a fit maximises agrees as well.
    gradients: Any = [
        pairwise.evaluation(build, X, comparisons)()
        for build in (pairwise.ours_of, pairwise.pairwise_of)
    ]
    for here, there in zip(gradients[0][1], gradients[1][1], strict=True):
        assert torch.allclose(here, there, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("solver", ["conic", "ipopt"])
def test_other_solvers_find_the_same_bounds(solver: str) -> None:
    pytest.importorskip({"conic": "cvxpy", "ipopt": "casadi"}[solver])
    small = likelihood_ratio.instance(6, 2, 0.4, num_points=5)
    found = getattr(likelihood_ratio, solver)(small)()
    np.testing.assert_allclose(found, likelihood_ratio.batched(small)(), atol=1e-6)


def test_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "NUM_HELD_OUT", 20)
    monkeypatch.setattr(peers, "NUM_STEPS", 2)
    cases = peers.variational_cases("scaling", Grid((5,)), CPU)
    cases += own.million_cases("million", (40,), (40,), 8, CPU)
    table = time_cases(cases, progress=False, once=True)
    assert (table["seconds"] > 0).all()
    assert table["note"].iloc[0].startswith("held-out mean log probability: -0.")


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for section in SECTIONS:
        assert {one.section for one in speed_cases(CPU, True, {section})} == {section}
    arguments = ["--what", "batches", "--quick", "--quiet", "--out", str(tmp_path)]
    assert main(["speed", *arguments]) == 0
    assert "one of them" in capsys.readouterr().out
    assert {"speed.csv", "speed.txt"} <= {path.name for path in tmp_path.iterdir()}
