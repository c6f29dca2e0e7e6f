"""Curves by cost, on made-up runs."""

from dataclasses import replace

import pandas as pd
import pytest

from botorch_pref.runner import summarise
from experiments.papers import experiments
from experiments.pf_ts.cost import CostExperiment, by_cost, cost_name, markers

# The regret of step t is 1 / t of a duel, and 0.01 t of a value.
TABLE = pd.DataFrame(
    {
        "strategy": strategy,
        "seed": seed,
        "step": step,
        "dueling_regret": (1 / step if strategy == "pf-ts" else 0.01 * step),
    }
    for strategy in ("pf-ts", "gp-ts")
    for seed in (0, 1)
    for step in range(1, 31)
)


def test_values_cost_more_than_duels() -> None:
    spent = by_cost(TABLE, 30)
    assert spent.groupby("strategy", sort=False)["step"].max().to_dict() == {
        "pf-ts": 30,
        "gp-ts, ratio 1": 30,
        "gp-ts, ratio 3": 10,
        "gp-ts, ratio 5": 6,
        "gp-ts, ratio 7": 4,
    }
    assert spent["cost"].max() == 30
    row = spent[(spent["strategy"] == cost_name(7)) & (spent["step"] == 4)].iloc[0]
    assert (row["cost"], row["dueling_regret"]) == (28, 0.04)


def test_a_marker_each_time_so_many_were_bought() -> None:
    rows = markers(by_cost(TABLE, 30), 4)
    five = rows[(rows["strategy"] == cost_name(5)) & (rows["seed"] == 0)]
    assert five[["cost", "bought"]].to_numpy().tolist() == [[20, 4]]  # six were affordable
    assert five["regret"].item() == pytest.approx(0.025)
    duels = rows[(rows["strategy"] == "pf-ts") & (rows["seed"] == 1)]
    assert duels["cost"].tolist() == [4, 8, 12, 16, 20, 24, 28]
    assert duels["regret"].iloc[1] == pytest.approx((1 / 5 + 1 / 6 + 1 / 7 + 1 / 8) / 4)


def test_measures_and_figure() -> None:
    experiment = experiments()["cost"]
    assert isinstance(experiment, CostExperiment)
    small = replace(experiment, horizon=30, seeds=2, tail=4)
    measures = small.measures(TABLE)
    final = measures[measures["seed"] == 0].set_index("strategy")[["bought", "final"]]
    assert final.loc[cost_name(3)].tolist() == pytest.approx([8, 0.065])
    assert final.loc[cost_name(1)].tolist() == pytest.approx([28, 0.265])
    assert summarise(measures, "final")["seeds"].tolist() == [2] * 5
    axes = small.figure(TABLE).axes[0]
    labels = [text.get_text() for text in axes.get_legend().get_texts()]
    assert labels == ["pf-ts", *map(cost_name, (1, 3, 5, 7))]
    assert [line.get_xdata()[-1] for line in axes.get_lines()] == [28, 28, 24, 20, 28]


def test_it_has_no_runs_of_its_own() -> None:
    cost, catalyst = (experiments()[name] for name in ("cost", "catalyst"))
    assert cost.runs_folder == catalyst.runs_folder
    assert cost.folder != catalyst.folder
    assert cost.horizon == catalyst.horizon
