"""Every paper's experiments: settings as the papers have them, and a run of a few steps."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from linear_operator import to_dense
from scipy import stats

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.runner.experiment import build_strategy
from experiments.annotators import light_fields, others, people
from experiments.cobol.settings import synthetic
from experiments.comp_gp_ucb.oracle import OracleGPUCB
from experiments.defaults import beliefs, favourites, strategies
from experiments.defaults.closed_loop import closed_loop_table, paired_ratios
from experiments.defaults.loop import FUNCTIONS, SPREAD, StandardisedProblem
from experiments.model_settings import Setting, Units, fixed_kernel
from experiments.papers import experiments
from experiments.pop_bo.beliefs import of_linear
from experiments.problems import (
    BordaFunction,
    CurrinExp,
    DuelingChoiceJudge,
    LinearSample,
    StandardisedFunction,
)
from experiments.report import claims_table, report, summary

ALL = experiments()


def run(experiment: Any, path: Path | None = None) -> pd.DataFrame:
    """Run an experiment; everything that it reports can be written."""
    table = experiment.run(1, path, False)
    measures = experiment.measures(table)
    assert not summary(experiment, measures)["mean"].isna().any()
    assert experiment.title in report(experiment, measures)
    assert experiment.figure(table).axes
    return measures.set_index(["strategy", "seed"])


def test_claims_are_about_what_is_run() -> None:
    """The strategies that claims name are rows of the experiment's table."""
    assert len(ALL) == 37
    for experiment in ALL.values():
        groups = getattr(experiment, "groups", None)
        rows = {row for group in groups or () for row in map(group.row, group.arms)}
        strategies = getattr(experiment, "all_strategies", getattr(experiment, "strategies", {}))
        rows |= {*strategies, *strategies.get("text", {}), *getattr(experiment, "samplers", ())}
        assert experiment.claims
        for claim in experiment.all_claims:
            for comparison in claim.comparisons:
                for side in comparison[:2]:
                    known = not isinstance(side, tuple) or side[0] in rows
                    assert known or experiment.name in ("cost", "anchor", "pop-band"), side


# ------------------------------------------------------------------ PF-TS and MR-LPF


def test_settings_as_printed_and_ours() -> None:
    """A lengthscale of 0.1 on [-5, 5] under eq. (6), and one on the unit cube, side by side."""
    experiment: Any = ALL["ackley"]
    made = {
        name: build_strategy(factory, experiment.problem(), seed=0, horizon=300)
        for name, factory in experiment.all_strategies.items()
    }
    for row in ("pf-ts", "mr-lpf", "max-min-lcb", "pop-bo"):
        printed, ours = (made[one].learner for one in (row, f"{row} (ours)"))
        assert printed.values["lengthscale"] == pytest.approx(0.01)
        assert ours.values["lengthscale"] == pytest.approx(0.1)
        assert [made[row].regularizer, made[f"{row} (ours)"].regularizer] == ["rkhs", "theta_mean"]
    assert [made[row].values["lengthscale"] for row in ("gp-ts", "gp-ts (ours)")] == [0.01, 0.1]
    texts = [claim.text for claim in experiment.all_claims]
    assert texts[len(texts) // 2] == f"Setting 'ours': {texts[0]}"


def test_kernels_of_settings() -> None:
    """Any smoothness is GPyTorch's where it has that; units are widths of a linear kernel."""
    X = torch.rand(6, 2, generator=torch.Generator().manual_seed(0)).double()
    X = torch.cat([X, X[:1]])  # also the same item twice
    bounds = torch.tensor([[-5.0, 0.0], [5.0, 2.0]]).double()
    for nu in (0.5, 1.5, 2.5):
        kernel = fixed_kernel(f"matern-{nu}", [0.3, 0.6], 2)
        expected = MaternKernel(nu=nu, ard_num_dims=2).double()
        expected.lengthscale = torch.tensor([[0.3, 0.6]])
        assert torch.allclose(to_dense(kernel(X)), 20.0 * to_dense(expected(X)), atol=1e-9)
        assert torch.allclose(kernel(X, diag=True), torch.full((7,), 20.0).double())
    smoother = to_dense(fixed_kernel("matern-3.5", [0.3, 0.3], 2)(X))
    assert torch.linalg.eigvalsh(smoother).min() > -1e-9
    # In the items' own units a linear kernel is that of items which are 10 and 2 wide.
    options = Setting(kernel="linear", lengthscale=1.0).of_duels(bounds)
    wide = X * (bounds[1] - bounds[0])
    assert torch.allclose(to_dense(options["covar_module"](2)(X)), 20.0 * wide @ wide.T)
    assert not any(one.requires_grad for one in options["covar_module"](2).parameters())


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("name", ["ackley", "mr-lpf-branin"])
def test_regrets(name: str, tmp_path: Path) -> None:
    small = replace(ALL[name], seeds=1, horizon=4)
    measures = run(small, tmp_path)
    rows = small.run(1, tmp_path, False)
    last = rows[rows["step"] == 4].set_index(["strategy", "seed"])["cumulative_regret"]
    pd.testing.assert_series_equal(measures["cumulative"], last, check_names=False)
    early = rows[rows["step"] == 1].set_index(["strategy", "seed"])["dueling_regret"]
    pd.testing.assert_series_equal(measures["early"], early, check_names=False)


# Cumulative regrets of an independent implementation: mean and standard error of 30 seeds. Of
# Ackley's function the items are in their own units, of the RKHS functions it is theta_mean's.
REFERENCE: dict[str, dict[str, tuple[float, float]]] = {
    "ackley": {
        "pf-ts": (17.5, 1.0),
        "max-min-lcb": (45.9, 9.6),
        "mr-lpf": (56.3, 4.5),
        "pop-bo": (135.0, 7.0),
        "random": (139.3, 0.3),
    },
    "catalyst": {
        "pf-ts": (109.0, 10.0),
        "max-min-lcb": (162.0, 20.0),
        "mr-lpf": (184.0, 12.0),
        "pop-bo": (287.0, 6.0),
        "random": (316.3, 0.3),
    },
    "rkhs-se": {"mr-lpf (ours)": (24.1, 1.1), "max-min-lcb (ours)": (21.3, 2.1)},
    "rkhs-matern15": {"mr-lpf (ours)": (39.5, 1.0), "max-min-lcb (ours)": (22.0, 2.3)},
    "rkhs-matern25": {"mr-lpf (ours)": (31.5, 0.9), "max-min-lcb (ours)": (20.5, 2.0)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCE)
def test_reference_values(name: str) -> None:
    experiment = replace(ALL[name], seeds=30)
    table = summary(experiment, experiment.measures(experiment.run(-1, None, False)))
    table = table[table["metric"] == "cumulative"].set_index("strategy")
    for strategy, (mean, error) in REFERENCE[name].items():
        row = table.loc[strategy]
        joint = math.hypot(error, float(row["standard_error"]))
        assert abs(float(row["mean"]) - mean) < 3.0 * joint, (strategy, row["mean"], mean)


# ------------------------------------------------------------------ POP-BO


@pytest.mark.usefixtures("short_searches")
def test_pop_bo_on_a_line() -> None:
    problem = ALL["pop-gp"].problem()(3)
    experiment = replace(ALL["pop-gp"], horizon=3, seeds=2)
    made: Any = build_strategy(experiment.strategies["pop-bo"], problem, seed=0, horizon=10)
    kernel = {"kernel": "rbf", "lengthscale": 0.1 / 2**0.5, "outputscale": 9.0}
    assert made.state_dict()["options"]["hyperparameters"] == pytest.approx(kernel)
    assert made.norm_bound == pytest.approx(1.1 * problem.norm)
    measures = run(experiment)
    # Every claim has all of its rows.
    claims = claims_table(experiment, measures.reset_index())
    assert (claims["verdict"] != "unknown").all()
    # The same duels, recommended from in two ways.
    both = [measures.loc[name, "cumulative"].tolist() for name in ("pop-bo", "pop-bo (t*)")]
    assert both[0] == both[1]
    bands = replace(ALL["pop-band"], horizon=6, seeds=1)
    table = bands.run(1, None, False)
    assert (table["lower"] <= table["estimate"] + 1e-6).all()
    assert (table["estimate"] <= table["upper"] + 1e-6).all()
    assert bands.measures(table).query("seed == 0")["width"].is_monotonic_decreasing


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize("name", ["pop-linear", "pop-ackley6"])
def test_pop_bo_with_another_kernel(name: str) -> None:
    """A run of a few duels, and all claims have their rows."""
    measures = run(replace(ALL[name], horizon=3, seeds=2))
    claims = claims_table(ALL[name], measures.reset_index())
    assert (claims["verdict"] != "unknown").all()


def test_linear_utilities() -> None:
    """The norm is that of the least function through the choices under the known kernel."""
    problem = LinearSample(seed=4)
    known = of_linear(problem)
    kernel = known.kernel(2)
    assert not any(one.requires_grad for one in kernel.parameters())
    covariance = to_dense(kernel(problem.choices))
    values = problem.utilities
    norm = (values @ torch.linalg.pinv(covariance, rtol=1e-9) @ values).sqrt()
    assert known.norm_bound == pytest.approx(1.1 * float(norm), rel=1e-6)


@pytest.mark.usefixtures("short_searches")
def test_table_2(tmp_path: Path) -> None:
    table2: Any = ALL["pop-table2"]
    printed = [float(cell) for cell in table2.printed["a uniform point"].values()]
    assert printed == pytest.approx([0.43, 1.02, 2.53, 2.92, 3.04, 4.51, 1.60], abs=0.011)
    random = table2.strategies["text"]["random"]
    named = {"text": {"random": random}, "toolbox": {"other": random}}
    small = replace(table2, horizon=2, seeds=1, strategies=named, claims=())
    measures = run(small, tmp_path)
    assert len([*tmp_path.iterdir()]) == 14
    rows = small.run(1, tmp_path, False)
    rows = rows[(rows["function"] == "branin") & (rows["strategy"] == "random")]
    best = StandardisedFunction("branin").optimal_value
    paid = float((best - rows["first_utility"]).sum())
    assert measures.loc[("random", 0), "branin cumulative"] == pytest.approx(paid)
    assert measures.index.get_level_values("strategy").unique().tolist() == ["random", "other"]


# ------------------------------------------------------------------ COBOL


@pytest.mark.usefixtures("short_searches")
def test_an_expert_on_one_function(tmp_path: Path) -> None:
    full: Any = ALL["cobol-ablation"]
    arms = {"lcb", "cobol", "random", "expert sampling"}
    key, expert = synthetic("holder2", -2)  # who accepts nearly everything, as it is bad
    groups = [
        replace(one, arms={name: name for name in one.arms if name in arms}, key=key, expert=expert)
        for one in full.groups
        if one.panel == "holder2"
    ]
    small = replace(full, groups=tuple(groups), horizon=1, seeds=2)
    measures = run(small, tmp_path)
    assert measures["evaluations"].tolist() == [1.0] * 8
    assert measures.loc["holder2: lcb", "labels"].tolist() == [0, 0]
    assert (measures.loc["holder2: expert sampling", "labels"] >= 1).all()
    simple, lcb = (measures.loc[f"holder2: {name}", "simple"] for name in ("cobol", "lcb"))
    expected = (simple - lcb).tolist()
    assert measures.loc["holder2: cobol", "difference"].tolist() == pytest.approx(expected)
    # All begin with the same values.
    table = small.run(1, tmp_path, False)
    first = table[(table["step"] <= 3) & (table["seed"] == 1)]
    values = first.pivot(index="step", columns="strategy", values="answer")
    assert values.nunique(axis=1).tolist() == [1, 1, 1]


# ------------------------------------------------------------------ COMP-GP-UCB


@pytest.mark.usefixtures("short_searches")
def test_duels_and_values(tmp_path: Path) -> None:
    full: Any = ALL["comp-currin"]
    factory = full.groups[0].task.arms["comp"].factory(10, 100)
    comp: Any = build_strategy(factory, CurrinExp(), seed=0, horizon=9)
    assert comp.current_gamma == pytest.approx(0.02, abs=1e-4)
    assert comp.borda_slack == pytest.approx(0.005, abs=1e-5)
    assert (comp.num_initial_duels, comp.num_initial_values) == (50, 5)
    arms = {"budget": ("gp-ucb", "random values"), "ratio 2": ("comp",)}
    groups = [replace(one, arms=arms[one.panel]) for one in full.groups if one.panel in arms]
    small = replace(full, groups=tuple(groups), horizon=2, seeds=2)
    measures = run(small, tmp_path)
    assert (measures["spent"] <= 2.0).all()
    assert measures.loc[("budget: random values", 0), "values"] == 2
    assert math.isinf(measures.loc[("budget: gp-ucb", 0), "duel_regret at 2"])
    values = measures.loc["budget: gp-ucb"]
    assert values["regret at 2"].tolist() == values["value_regret at 2"].tolist()


@pytest.mark.usefixtures("short_searches")
def test_interior_items_and_lengthscales_that_are_not_learnt(tmp_path: Path) -> None:
    full: Any = ALL["comp-interior"]
    (group,) = full.groups
    choices = group.task.problem.choices
    assert choices.shape == (1000, 8)
    assert ((choices > 0.0) & (choices < 1.0)).all()
    factory = group.task.arms["gp-ucb, 0.5"].factory(10, 13)
    strategy: Any = build_strategy(factory, group.task.problem, seed=0, horizon=13)
    for _ in range(13):
        query = strategy.ask()
        strategy.tell(query, float(group.task.problem(query.items)))
    kernel = strategy.values.model().covar_module
    assert float(kernel.base_kernel.lengthscale.detach()) == pytest.approx(0.5)
    assert float(kernel.outputscale.detach()) != pytest.approx(math.log(2.0))
    small = replace(full, horizon=3, seeds=2)
    measures = run(small, tmp_path)
    assert (measures["spent"] <= 3.0).all()


def test_the_oracle_measures_where_the_filter_would_end() -> None:
    problem = CurrinExp()
    options: dict[str, Any] = {"problem": "currinexp", "borda_slack": 0.005}
    strategy = OracleGPUCB(bounds=problem.bounds, budget=6, num_initial_values=3, **options)
    asked = []
    while not strategy.finished:
        query = strategy.ask()
        asked.append(query.items)
        strategy.tell(query, float(problem(query.items)))
    borda = BordaFunction(DuelingChoiceJudge(problem), seed=7)
    assert (borda(torch.stack(asked))[3:] >= borda.best - 0.007).all()


# ------------------------------------------------------------------ Optuna and the defaults


def test_samplers_of_optuna(tmp_path: Path) -> None:
    pytest.importorskip("optuna_dashboard")
    full: Any = ALL["optuna"]
    samplers = ("eubo", "built-in", "random")
    small = replace(
        full, problems=full.problems[2:], samplers=samplers, horizon=2, seeds=1, claims=()
    )
    measures = run(small, tmp_path)
    assert measures.loc[("built-in", 0), "mixed-levy speed"] == 1.0
    # Who recommends the last winner has its regret.
    last = measures.loc[["built-in", "random"]]
    assert last["mixed-levy"].tolist() == pytest.approx(last["mixed-levy survivor"].tolist())


def test_the_loops_that_chose_the_default_strategy(tmp_path: Path) -> None:
    """Choosing and reporting share nothing; a table's shares are ranks; runs are kept."""
    names = [name for names in strategies.KINDS.values() for name in names]
    choosing = [*strategies.CHOOSING, *strategies.MANY_DIMENSIONS]
    assert sorted([*choosing, *strategies.REPORTING]) == sorted(names)
    rivals = {name: strategies.STRATEGIES[name] for name in ("random", "pairwise-gp")}
    options: Any = {"seeds": [0], "horizon": 3, "folder": tmp_path}
    table = strategies.strategies_table(["linear4", "unrelated"], rivals, **options)
    assert table["problem"].tolist() == ["linear4"] * 2 + ["unrelated"] * 2
    assert table["share_3"].between(0.0, 1.0, inclusive="neither").all()
    assert table["asked"].between(0.0, 3.0).all()
    better = 60.0 * table["share_3"][2:]
    assert (better.clip(lower=0.5) == better).all()
    assert (better.round() - better).abs().max() in (0.0, 0.5)
    seconds = table["seconds"].tolist()
    again = strategies.strategies_table(["linear4"], rivals, **options)
    assert again["seconds"].tolist() == seconds[:2]  # read, not run
    assert "pairwise-gp" in strategies.summary_text(table)


def test_where_a_strategy_is_ahead_of_the_default_one() -> None:
    """Tests are paired, and Holm's p-values count how many there are."""
    rng, names = np.random.default_rng(0), ("linear4", "wave1", "mixed")
    rows = [
        (name, who, seed) for name in names for who in ("default", "other") for seed in range(6)
    ]
    table = pd.DataFrame(rows, columns=["problem", "strategy", "seed"])
    table["share_15"], table["share_60"] = rng.uniform(0.1, 0.9, size=(2, len(table)))
    table.loc[(table["problem"] == "wave1") & (table["strategy"] == "other"), "share_60"] *= 1e-3
    wide = np.log(table.pivot(index="seed", columns=["problem", "strategy"], values="share_60"))
    own = {name: stats.ttest_rel(wide[name]["other"], wide[name]["default"]) for name in names}
    p = {name: float(found.pvalue) for name, found in own.items()}
    second, third = sorted(set(names) - {"wave1"}, key=p.__getitem__)
    holm = {"wave1": 3 * p["wave1"], second: min(2 * p[second], 1.0)}
    holm[third] = max(holm[second], p[third])
    lines = strategies.by_problem_text(table).splitlines()[2:]
    for line, name in zip(lines, names, strict=True):
        who, problem, runs, gain, _, error, *found = line.split()
        assert (who, problem, runs) == ("other", name, "6")
        difference = wide[name]["other"] - wide[name]["default"]
        assert float(gain) == pytest.approx(difference.mean(), abs=0.006)
        assert float(error) == pytest.approx(difference.std() / math.sqrt(6), abs=0.006)
        assert [float(x) for x in found] == pytest.approx([p[name], holm[name]], rel=0.06)
    assert strategies.by_problem_text(table[table["seed"] == 0]) == ""


def test_problems_and_rivals_of_the_default_strategy() -> None:
    """All problems know their best utility; spaces are mixed where they say so."""
    for name in strategies.CHOOSING + strategies.REPORTING + strategies.MANY_DIMENSIONS:
        problem = strategies.make_problem(name)
        is_box = problem.choices is None
        found = problem(problem.space.sample(4096, seed=3)) if is_box else problem.utilities
        assert float(found.max()) <= problem.optimal_value + 1e-9
    assert strategies.make_problem("mixed").space.parameters.discrete
    rivals = {name: strategies.STRATEGIES[name] for name in ("random", "pairwise-gp-qeubo")}
    table = strategies.strategies_table(["mixed", "light-fields"], rivals, seeds=[0], horizon=3)
    assert len(table) == 4


def test_people_with_a_favourite() -> None:
    rows = favourites.Person(2, "hardly any", 0, "dueling-kg").run()
    assert [row["answers"] for row in rows] == [10, 15, 20, 25]
    assert rows[-1]["error"] < 0.15
    text = favourites.summary_text(pd.DataFrame(rows))
    assert "dueling-kg" in text


@pytest.mark.slow
def test_the_loops_that_chose_the_defaults(tmp_path: Path) -> None:
    for raw in FUNCTIONS.values():
        problem = StandardisedProblem(raw)
        X = torch.rand(9_000, problem.dim, generator=torch.Generator().manual_seed(1)).double()
        values = problem(X)
        assert values.std().item() == pytest.approx(SPREAD, rel=0.15)
        assert values.max() <= problem.optimal_value + 1e-6
    options: dict[str, Any] = {"horizon": 12, "path": tmp_path / "table.csv", "progress": False}
    models = ["rbf:0.21:1.5", "pairwise-gp"]
    table = closed_loop_table(["linear4"], models, [0], **options)
    assert table["share_3"].between(0.0, 1.0, inclusive="neither").all()
    again = closed_loop_table(["linear4"], models[:1], [0], **options)
    assert len(again) == 1
    (row,) = paired_ratios(table).to_dict("records")
    shares = table.pivot(index="seed", columns="model", values="share_3")
    ratio = np.log(shares[models[1]] / shares[models[0]]).mean()
    assert row["log ratio"] == pytest.approx(ratio)


def test_held_out_answers(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    command = ["--seeds", "1", "--functions", "light-field", "--duels", "6", "--out", str(path)]
    assert beliefs.main([*command, "--models", "laplace", "ep", "samples", "pairwise-gp"]) == 0
    table = pd.read_csv(path)
    assert len(table) == 4
    assert table["log_probability"].between(-1.5, -0.3).all()
    # Every held-out pair stands in the diagram twice.
    pairs = table[[f"pairs_{i}" for i in range(10)]].sum(axis=1)
    assert (pairs == 108).all()
    assert path.with_suffix(".png").exists()
    assert beliefs.summary_text(table).count("laplace") == 5


def test_the_kernel_of_larger_evidence_predicts() -> None:
    parts = ["matern:0.8:4", "rbf:0.05:0.1"]
    models = [f"laplace@{name}" for name in (*parts, "|".join(parts), "|".join(reversed(parts)))]
    table = beliefs.beliefs_table(["hartmann6"], models, [50.0], [40], range(2))
    found = table.pivot(index="seed", columns="model", values="log_probability")[models].to_numpy()
    assert (found[:, 2:] == found[:, :1]).all()
    assert (found[:, 0] != found[:, 1]).all()
    with pytest.raises(UnsupportedError, match="sine"):
        beliefs.beliefs_table(models=["laplace@matern:0.8:4|sine:1:1"])


def test_telling_people_apart_pays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "table.csv"
    command = ["--people", "1", "--folds", "2", "--models", "pooled", "offset", "--out", str(path)]
    assert light_fields.main(command) == 0
    table = pd.read_csv(path)
    assert set(table["model"]) == {"pooled", "offset"}
    assert len(table) == 2 * table["row"].nunique()
    assert table["log"].between(-7.0, 0.0, inclusive="left").all()
    assert "offset" in capsys.readouterr().out


def test_other_people_and_nothing_to_learn(capsys: pytest.CaptureFixture[str]) -> None:
    data = light_fields.answers_of_people("tone-mapping")
    assert (len(data.wins), len(data.items), len(data.who.unique())) == (1213, 35, 18)
    drawn = light_fields.shuffled(data)

    lost = [one.pairs.gather(-1, one.wins.long().unsqueeze(-1)) for one in (data, drawn)]
    assert torch.equal(*lost)
    assert torch.equal(drawn.who.sort().values, data.who.sort().values)
    assert not torch.equal(drawn.who, data.who)
    assert not torch.equal(drawn.pairs, data.pairs)
    command = "--data tone-mapping --shuffle --people 2 --folds 2 --models pooled both"
    assert light_fields.main(command.split()) == 0
    assert "both" in capsys.readouterr().out


def test_how_many_answers_of_known_people_are_needed() -> None:
    """Half of them, where known ones are as near after 40 as pooled ones after 80."""
    rows = [
        {"problem": "p", "seed": seed, "people": name, "answers": n, "share": 2.0 ** (-n / rate)}
        for seed in range(3)
        for name, rate in (("known", 10.0), ("pooled", 20.0))
        for n in (20, 40, 60, 80)
    ]
    assert people.answers_needed(pd.DataFrame(rows)) == pytest.approx((40.0, 0.0))


def test_sampled_beliefs_are_those_of_quadrature() -> None:
    """One pair, asked seven times, under a normal prior of its difference."""
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.outputscale = 9.0
    pair = torch.tensor([[[0.0], [5.0]]]).double()
    answers = torch.tensor([1.0] * 6 + [0.0]).double()
    found = beliefs.sampled_probabilities(kernel, pair.expand(7, -1, -1), answers, pair, 0)
    grid = torch.linspace(-30, 30, 4001).double()
    density = torch.exp(-(grid**2) / 36.0) * torch.sigmoid(grid) ** 6 * torch.sigmoid(-grid)
    expected = (density * torch.sigmoid(grid)).sum() / density.sum()
    assert float(found.mean(0)) == pytest.approx(float(expected), abs=0.01)


def test_what_others_answers_are_worth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(others, "_MARKS", (4.0, 6.0))
    problem = strategies.make_problem("branin")
    items = problem.space.sample(64, seed=0)
    own = problem(items)
    assert torch.equal(others.utility_of(problem, items, "person"), own)
    cheap = others.utility_of(problem, items, "cheap") - own
    assert cheap.min() >= 0.0
    assert cheap.max() > others.SPREAD  # near the worst corner
    mirrored = others.utility_of(problem, items, "knows another")
    assert torch.equal(mirrored, problem(problem.bounds.sum(0) - items))
    loop = others.Loop("branin", "person alone", 0)
    rows = loop.run()
    assert [row["of_person"] for row in rows] == [4, 6]
    table = pd.DataFrame([{**row, "case": case} for row in rows for case in others.CASES])
    assert others.summary_text(table).count("+0.00") == 2 * len(others.CASES)


@pytest.mark.parametrize("units", ["own", "cube"])
def test_covariances_are_those_of_the_kernel_in_its_units(units: Units) -> None:
    bounds = torch.tensor([[0.0, 0.0], [5.0, 2.0]], dtype=torch.double)
    items = bounds[1] * torch.rand(6, 2, generator=torch.Generator().manual_seed(0)).double()
    scaled = (items if units == "own" else items / bounds[1]) / 0.7
    root = 5**0.5 * (scaled.unsqueeze(1) - scaled).norm(dim=-1)
    kernels = ("matern", "matern-2.5", "rbf", "linear")
    of = {name: Setting(kernel=name, lengthscale=0.7, units=units) for name in kernels}
    found = {name: one.covariance(items, bounds) for name, one in of.items()}
    matern = (1 + root + root.square() / 3) * (-root).exp()
    torch.testing.assert_close(found["matern"], matern)
    torch.testing.assert_close(found["matern-2.5"], matern)
    torch.testing.assert_close(found["rbf"], (-root.square() / 10).exp())
    torch.testing.assert_close(found["linear"], scaled @ scaled.mT)
