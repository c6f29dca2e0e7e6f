"""The closed-loop table: the loops, what is counted, resuming, and the summaries."""

import math
from pathlib import Path

import pandas as pd
import pytest
import torch
from botorch.models import PairwiseGP
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Tensor

from botorch_pref.benchmarks import loop
from botorch_pref.benchmarks.closed_loop import (
    closed_loop_table,
    main,
    overall,
    paired_differences,
    summarise,
    summary_text,
)
from botorch_pref.benchmarks.loop import FUNCTIONS, MODELS, NUM_INITIAL, SPREAD, Cell
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models import PreferenceGP
from botorch_pref.problems import get_problem

HORIZON = NUM_INITIAL + 2
ARMS = [("matern", "eubo"), ("pairwise-gp", "eubo"), ("rbf", "pf-ts")]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    path = tmp_path_factory.mktemp("table") / "table.csv"
    return closed_loop_table(
        ["branin", "hartmann3"], ARMS, [0, 1], horizon=HORIZON, path=path, progress=False
    )


def made_up(**regrets: list[float]) -> pd.DataFrame:
    """Two functions of two seeds, in this order, for each model."""
    keys = [("one", 0), ("one", 1), ("two", 0), ("two", 1)]
    return pd.DataFrame(
        {"function": f, "seed": s, "model": model, "rule": "eubo", "relative_regret": value}
        for model, values in regrets.items()
        for (f, s), value in zip(keys, values, strict=True)
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_standardised_utilities(name: str) -> None:
    raw = get_problem(name, **FUNCTIONS[name])
    problem = loop.StandardisedProblem(raw)
    generator = torch.Generator().manual_seed(1)
    X = torch.rand(20_000, problem.dim, generator=generator, dtype=torch.double)
    values = problem(X)
    assert abs(values.mean()) < 0.1 * SPREAD
    assert values.std().item() == pytest.approx(SPREAD, rel=0.1)
    assert values.max() <= problem.optimal_value + 1e-6
    # The same function up to a positive scale and a shift.
    assert torch.equal(values.argsort(), raw(X).argsort())
    best = torch.tensor(problem.problem._optimizers, dtype=torch.double)
    assert problem(best).max().item() == pytest.approx(problem.optimal_value, abs=1e-3)


def test_the_issue_asks_for_functions() -> None:
    dims = [get_problem(name, **options).dim for name, options in FUNCTIONS.items()]
    assert len(dims) >= 8
    assert (min(dims), max(dims)) == (2, 8)


def test_models_differ_in_the_kernel_only() -> None:
    pairs = torch.rand(3, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    answers = torch.tensor([1.0, 0.0, 1.0], dtype=torch.double)
    matern, rbf = MODELS["matern"](pairs, answers), MODELS["rbf"](pairs, answers)
    assert isinstance(matern, PreferenceGP)
    assert isinstance(rbf, PreferenceGP)
    assert isinstance(matern.covar_module.base_kernel, MaternKernel)
    assert isinstance(rbf.covar_module.base_kernel, RBFKernel)
    state = matern.state_dict()
    assert state.keys() == rbf.state_dict().keys()
    assert all(torch.equal(state[key], value) for key, value in rbf.state_dict().items())
    priors = [{name: type(p) for name, _, p, *_ in m.named_priors()} for m in (matern, rbf)]
    assert priors[0] == priors[1]
    assert len(priors[0]) == 2


def test_pairwise_gp_sees_the_same_answers() -> None:
    pairs = torch.tensor([[[0.0], [0.5]], [[0.2], [1.0]]], dtype=torch.double)
    model = MODELS["pairwise-gp"](pairs, torch.tensor([1.0, 0.0], dtype=torch.double))
    assert isinstance(model, PairwiseGP)
    winners_first = model.datapoints[model.comparisons].squeeze(-1)
    assert torch.equal(winners_first, torch.tensor([[0.0, 0.5], [1.0, 0.2]], dtype=torch.double))


def test_dimension_scaled_prior() -> None:
    pairs = torch.rand(3, 2, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    model = MODELS["matern-dimension-scaled"](pairs, torch.ones(3, dtype=torch.double))
    kernel = model.covar_module.base_kernel
    assert kernel.lengthscale_prior.loc.item() == pytest.approx(math.sqrt(2) + math.log(4) / 2)
    mode = math.exp(math.sqrt(2) + math.log(4) / 2 - 3)
    assert torch.allclose(kernel.lengthscale, torch.full((1, 4), mode, dtype=torch.double))
    assert len(list(model.named_priors())) == 2


def test_the_table(table: pd.DataFrame) -> None:
    assert len(table) == 2 * 2 * len(ARMS)
    # One fit for each chosen duel, and one for the recommendation.
    assert (table["fits"] == HORIZON - NUM_INITIAL + 1).all()
    ours = table[table["model"] != "pairwise-gp"]
    assert (ours[["failed_fits", "warned_fits", "failed_asks"]] == 0).all(axis=None)
    assert (table["regret"] >= -1e-9).all()
    assert table["duel_regret"].between(0.0, 0.5).all()
    # Seeds come one after the other, so that what a killed run leaves is balanced.
    assert table["seed"].is_monotonic_increasing
    # Functions and seeds have one best value, whatever the arm.
    best = (table["regret"] / table["relative_regret"]).groupby(table["function"])
    assert best.std().max() < 1e-9


def test_a_loop_is_reproducible(table: pd.DataFrame) -> None:
    cell = Cell("hartmann3", 1, "rbf", "pf-ts", HORIZON)
    row = cell.run()
    same = table[
        (table[["function", "seed", "model", "rule"]] == list(row.values())[:4]).all(axis=1)
    ]
    assert len(same) == 1
    for name in ("regret", "duel_regret", "relative_duel_regret"):
        assert same[name].item() == row[name]


def test_models_meet_the_same_judge_and_pairs() -> None:
    loops = [loop._Loop(Cell("branin", 0, model, "eubo", 9)) for model in MODELS]
    assert all(torch.equal(torch.stack(one.pairs), torch.stack(loops[0].pairs)) for one in loops)
    assert all(one.answers == loops[0].answers for one in loops)
    other = loop._Loop(Cell("branin", 1, "matern", "eubo", 9))
    assert not torch.equal(torch.stack(other.pairs), torch.stack(loops[0].pairs))


def test_failures_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(loop, "fit_gpytorch_mll", fail)
    monkeypatch.setattr(loop, "optimize_acqf", fail)
    row = Cell("branin", 0, "matern", "eubo", HORIZON).run()
    assert row["failed_fits"] == row["fits"] == HORIZON - NUM_INITIAL + 1
    assert row["failed_asks"] == HORIZON - NUM_INITIAL


def test_an_identical_pair_adds_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(acq_function: object, bounds: Tensor, **kwargs: object) -> tuple[Tensor, None]:
        return bounds.mean(dim=0).expand(2, -1), None

    monkeypatch.setattr(loop, "optimize_acqf", same)
    row = Cell("branin", 0, "matern", "eubo", HORIZON).run()
    assert row["identical"] == HORIZON - NUM_INITIAL
    assert row["failed_fits"] == 0


def test_resuming(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv"
    some = [("matern", "eubo")]
    first = closed_loop_table(["branin"], some, [0], horizon=HORIZON, path=path, progress=False)
    ran: list[Cell] = []

    def run(cell: Cell) -> dict[str, object]:
        ran.append(cell)
        return first.iloc[0].to_dict() | {"seed": cell.seed}

    monkeypatch.setattr(Cell, "run", run)
    both = closed_loop_table(["branin"], some, [0, 1], horizon=HORIZON, path=path, progress=False)
    assert [cell.seed for cell in ran] == [1]
    assert both["seed"].tolist() == [0, 1]
    assert pd.read_csv(path)["seed"].tolist() == [0, 1]
    assert list(tmp_path.iterdir()) == [path]
    # What was not asked for stays in the file, and out of the result.
    again = closed_loop_table(["branin"], some, [1], horizon=HORIZON, path=path, progress=False)
    assert again["seed"].tolist() == [1]


@pytest.mark.slow
def test_processes_give_the_same_table(table: pd.DataFrame) -> None:
    arms = [("matern", "eubo"), ("pairwise-gp", "eubo")]
    parallel = closed_loop_table(["branin"], arms, [0], n_jobs=2, horizon=HORIZON, progress=False)
    serial = table[(table["function"] == "branin") & (table["seed"] == 0)]
    for model, _ in arms:
        here, there = (
            t[(t["model"] == model) & (t["rule"] == "eubo")]["regret"].item()
            for t in (parallel, serial)
        )
        assert here == there


def test_summaries(table: pd.DataFrame) -> None:
    summary = summarise(table)
    assert len(summary) == 2 * len(ARMS)
    assert (summary["seeds"] == 2).all()
    row = summary.iloc[0]
    mine = table[(table[["function", "model", "rule"]] == row.iloc[:3]).all(axis=1)]["regret"]
    assert row["regret"] == pytest.approx(mine.mean())
    assert row["regret_se"] == pytest.approx(mine.std() / math.sqrt(2))
    arms = overall(table)
    assert arms["loops"].tolist() == [4] * len(ARMS)
    assert arms["fits"].tolist() == [4 * (HORIZON - NUM_INITIAL + 1)] * len(ARMS)
    text = summary_text(table)
    assert all(model in text for model, _ in ARMS)


def test_paired_differences() -> None:
    table = made_up(a=[0.3, 0.5, 1.0, 0.8], b=[0.1, 0.1, 0.8, 0.8])
    (row,) = paired_differences(table).to_dict("records")
    assert (row["first"], row["second"], row["loops"]) == ("a", "b", 4)
    # The differences are 0.2 and 0.4, then 0.2 and 0.
    assert row["difference"] == pytest.approx(0.2)
    assert row["se_seeds"] == pytest.approx(math.sqrt(0.1**2 + 0.1**2) / 2)
    assert row["se_functions"] == pytest.approx(0.1)


def test_paired_differences_need_pairs() -> None:
    table = made_up(a=[0.3, 0.5, 1.0, 0.8], b=[0.1, 0.1, 0.8, 0.8])
    (row,) = paired_differences(table.iloc[:-1]).to_dict("records")
    assert row["loops"] == 3
    assert row["difference"] == pytest.approx(0.25)
    assert math.isnan(row["se_seeds"])


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("functions", ["nowhere"], "unknown function 'nowhere'"),
        ("arms", [("nobody", "eubo")], "unknown model 'nobody'"),
        ("arms", [("matern", "never")], "unknown rule 'never'"),
        ("horizon", NUM_INITIAL, "horizon must be more than"),
    ],
)
def test_bad_arguments(argument: str, value: object, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        closed_loop_table(**{argument: value})  # type: ignore[arg-type]


def test_a_foreign_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(UnsupportedError, match="no table of closed loops"):
        closed_loop_table(["branin"], path=path)
    assert path.read_text() == "a,b\n1,2\n"


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.csv"
    options = ["--functions", "branin", "--arms", "matern:eubo", "--horizon", "5"]
    assert main([*options, "--seeds", "1", "--out", str(path)]) == 0
    assert "matern eubo" in capsys.readouterr().out
    assert len(pd.read_csv(path)) == 1


def test_command_line_errors(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main(["--functions", "nowhere"])
    assert exit_info.value.code == 2
    assert "unknown function 'nowhere'" in capsys.readouterr().err
