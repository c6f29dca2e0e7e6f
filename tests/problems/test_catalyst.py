from collections import Counter
from importlib import resources

import pytest
import torch

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import Catalyst


def test_facts_of_the_data() -> None:
    problem = Catalyst()
    assert problem.name == "catalyst"
    assert problem.dim == 3
    assert problem.bounds.tolist() == [[0.0] * 3, [1.0] * 3]
    assert problem.choices.shape == (63, 3)
    assert problem.choices.dtype == problem.utilities.dtype == torch.double
    assert len(problem.names) == 63
    assert len(problem.choices.unique(dim=0)) == 60
    elements = Counter((problem.choices > 0).sum(dim=-1).tolist())
    assert elements == {1: 6, 2: 37, 3: 20}
    off_simplex = (problem.choices.sum(dim=-1) - 1.0).abs() > 1e-9
    assert off_simplex.sum() == 4
    assert (problem.choices.sum(dim=-1) - 1.0).abs().max() < 0.0011

    utilities = problem.utilities
    assert utilities.min().item() == pytest.approx(2.4746, abs=5e-5)
    assert utilities.mean().item() == pytest.approx(6.549, abs=5e-4)
    best, runner_up = utilities.topk(2).values.tolist()
    assert best == problem.optimal_value == pytest.approx(9.3715, abs=5e-5)
    assert runner_up == pytest.approx(8.6047, abs=5e-5)
    winner = int(utilities.argmax())
    assert problem.names[winner] == "Au-0.6-Zn-0.4"
    assert problem.choices[winner].tolist() == [0.0, 0.6, 0.4]


def test_names_spell_the_choices() -> None:
    problem = Catalyst()
    for name, row in zip(problem.names, problem.choices.tolist(), strict=True):
        parts = name.split("-")
        spelt = dict(zip(parts[::2], map(float, parts[1::2]), strict=True))
        assert [spelt.get(element, 0.0) for element in ("Ag", "Au", "Zn")] == row


def test_replicates_are_kept_or_averaged() -> None:
    measured: dict[str, list[float]] = {}
    keep, mean = Catalyst("keep"), Catalyst("mean")
    for name, utility in zip(keep.names, keep.utilities.tolist(), strict=True):
        measured.setdefault(name, []).append(utility)
    repeated = {name: values for name, values in measured.items() if len(values) > 1}
    assert repeated == {
        "Au-1.0": pytest.approx([6.915, 7.990, 7.317], abs=5e-4),
        "Ag-1.0": pytest.approx([2.475, 6.190], abs=5e-4),
    }
    assert mean.choices.shape == (60, 3)
    assert mean.names == tuple(measured)
    expected = [sum(values) / len(values) for values in measured.values()]
    assert mean.utilities.tolist() == pytest.approx(expected)
    with pytest.raises(UnsupportedError, match="'keep' or 'mean', got 'max'"):
        Catalyst(dedupe="max")  # type: ignore[arg-type]


def test_attribution_is_shipped() -> None:
    notes = resources.files("botorch_pref.problems") / "data" / "README.md"
    text = notes.read_text(encoding="utf-8")
    for part in ("CC-BY-4.0", "2411.11783", "ocx24_ag_au_zn_co2r_300.csv", "Changes"):
        assert part in text
