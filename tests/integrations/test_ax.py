from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import MaternKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

pytest.importorskip("ax", reason="Ax is not installed: pip install 'botorch-pref[ax]'")

from ax import core
from ax.adapter.registry import Cont_X_trans, Generators, Mixed_transforms
from ax.adapter.torch import TorchAdapter
from ax.core import Arm, BatchTrial, Experiment, GeneratorRun, OptimizationConfig
from ax.core.observation import ObservationFeatures
from ax.core.utils import get_pending_observation_features
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from ax.storage.json_store.load import load_experiment
from ax.storage.json_store.save import save_experiment

from botorch_pref.acquisition import (
    DuelingKnowledgeGradient,
    DuelingThompsonSampling,
    MaxMinLCB,
    PairVariance,
)
from botorch_pref.exceptions import ComparisonDataError, StaleQueryError, UnsupportedError
from botorch_pref.integrations.ax import (
    PREFERENCE_METRIC,
    PairAcquisition,
    attach_answer,
    pair_optimizer_options,
    preference_model_config,
    preference_surrogate_spec,
)
from botorch_pref.likelihoods import ProbitLikelihood
from botorch_pref.models import (
    BernoulliGP,
    LaplaceMarginalLogLikelihood,
    PreferenceGP,
)
from botorch_pref.randomness import seeded

FLOATS = (
    core.RangeParameter("x", core.ParameterType.FLOAT, -1.0, 3.0),
    core.RangeParameter("y", core.ParameterType.FLOAT, 0.0, 1.0),
)
LEVEL = core.RangeParameter("level", core.ParameterType.INT, 0, 2)
KIND = core.ChoiceParameter(
    "kind", core.ParameterType.INT, [0, 1, 2], is_ordered=False, sort_values=True
)
BEST = {"x": 1.0, "y": 0.25}
OPTIONS = pair_optimizer_options(num_restarts=2, raw_samples=16)
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "ax_preference.py"


def config(
    expression: str, metric: str = PREFERENCE_METRIC, *constraints: core.OutcomeConstraint
) -> OptimizationConfig:
    objective = core.Objective(expression, metric_name_to_signature={metric: metric})
    return OptimizationConfig(objective, outcome_constraints=list(constraints))


def answered(
    parameters: tuple[core.Parameter, ...] = FLOATS,
    constraints: list[core.ParameterConstraint] | None = None,
    metric: str = PREFERENCE_METRIC,
    duels: int = 8,
    cost: bool = False,
) -> Experiment:
    """An experiment of answered duels of random arms; the nearer one to `BEST` wins."""
    experiment = Experiment(
        search_space=core.SearchSpace(list(parameters), constraints),
        metrics=[core.Metric(metric), core.Metric("cost")],
        optimization_config=config(metric, metric),
    )
    unit = draw_sobol_samples(torch.tensor([[0.0] * 2, [1.0] * 2]), n=2 * duels, q=1, seed=3)
    items = [{"x": 4 * x - 1, "y": y} for x, y in unit.squeeze(-2).double().tolist()]
    for p in parameters[2:]:
        for k, item in enumerate(items):
            item[p.name] = k % 3
    for first, second in zip(items[::2], items[1::2], strict=True):
        trial = experiment.new_batch_trial(GeneratorRun([Arm(first), Arm(second)]))
        trial.mark_running(no_runner_required=True)
        wins = float(distance(first) < distance(second))
        told: dict[str, Any] = {}
        for arm, won in zip(trial.arms, (wins, 1.0 - wins), strict=True):
            told[arm.name] = {metric: won}
            if cost:
                told[arm.name]["cost"] = (arm.parameters["y"], 0.1)
        trial.attach_batch_trial_data(told)
        trial.mark_completed()
    return experiment


def distance(item: dict[str, Any]) -> float:
    return float((item["x"] - BEST["x"]) ** 2 / 16 + (item["y"] - BEST["y"]) ** 2)


def adapter_of(
    experiment: Experiment,
    rule: Any = PairVariance,
    spec: SurrogateSpec | None = None,
    transforms: Any = Cont_X_trans,
    acquisition: Any = PairAcquisition,
    **options: Any,
) -> TorchAdapter:
    generator = BoTorchGenerator(
        surrogate_spec=spec or preference_surrogate_spec(),
        acquisition_class=acquisition,
        botorch_acqf_class=rule,
        botorch_acqf_options=options,
    )
    return TorchAdapter(experiment=experiment, generator=generator, transforms=transforms)


def model_of(adapter: TorchAdapter) -> Any:
    (model,) = adapter.botorch_model.models
    return model


def table(arms: list[Arm]) -> torch.Tensor:
    """The arms in the unit cube."""
    rows = [[(arm.parameters["x"] + 1) / 4, arm.parameters["y"]] for arm in arms]
    return torch.tensor(rows, dtype=torch.double)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return answered()


@pytest.fixture(scope="module")
def fitted(experiment: Experiment) -> TorchAdapter:
    return adapter_of(experiment)


def test_the_model_is_that_of_the_answers(experiment: Experiment, fitted: TorchAdapter) -> None:
    pairs, answers = [], []
    for trial in experiment.trials.values():
        pairs.append(table(trial.arms))
        answers.append(
            float(distance(trial.arms[0].parameters) < distance(trial.arms[1].parameters))
        )
    direct = PreferenceGP.from_pairs(torch.stack(pairs), torch.tensor(answers).double())
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(direct.likelihood, direct))
    model = model_of(fitted)
    assert type(model) is PreferenceGP
    X = torch.rand(7, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    torch.testing.assert_close(
        model.posterior(X).mean, direct.posterior(X).mean, rtol=1e-3, atol=1e-3
    )
    features = [ObservationFeatures({"x": 4 * x - 1, "y": y}) for x, y in X.tolist()]
    mean = torch.tensor(fitted.predict(features)[0][PREFERENCE_METRIC], dtype=torch.double)
    torch.testing.assert_close(mean, model.posterior(X).mean.squeeze(-1))


@pytest.mark.parametrize(
    ("rule", "options"),
    [
        (DuelingThompsonSampling, {"seed": 1}),
        (DuelingKnowledgeGradient, {}),
        (AnalyticExpectedUtilityOfBestOption, {}),
    ],
)
def test_two_arms_are_chosen_jointly(
    experiment: Experiment, rule: Any, options: dict[str, Any]
) -> None:
    adapter = adapter_of(experiment, rule, **options)
    with seeded(0):
        run = adapter.gen(n=2, model_gen_options=OPTIONS)
    trial = Experiment(search_space=experiment.search_space).new_batch_trial(run)
    assert len(trial.arms) == 2
    chosen = table(run.arms)
    assert ((chosen >= 0) & (chosen <= 1)).all()
    generator = adapter.generator
    assert isinstance(generator, BoTorchGenerator)
    acqf = generator._acquisition.acqf  # type: ignore[union-attr]
    random = torch.rand(64, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    assert acqf(chosen.unsqueeze(0)) >= acqf(random).max()


def test_plain_ax_with_the_options_also_chooses_jointly(experiment: Experiment) -> None:
    adapter = adapter_of(experiment, qExpectedUtilityOfBestOption, acquisition=None)
    assert OPTIONS["optimizer_kwargs"]["sequential"] is False
    with seeded(0):  # of BoTorch's samples; two arms in one place are drawn with a warning
        assert len(adapter.gen(n=2, model_gen_options=OPTIONS).arms) == 2


def test_constraints_and_fixed_features_hold_for_both_arms() -> None:
    adapter = adapter_of(answered(constraints=[core.ParameterConstraint("x + y <= 0.5")]))
    quick = {"maxiter": 5, "n_burnin": 100}
    options = pair_optimizer_options(num_restarts=1, raw_samples=4, options=quick)
    for fixed in (None, ObservationFeatures({"y": 0.75})):
        run = adapter.gen(n=2, fixed_features=fixed, model_gen_options=options)
        for arm in run.arms:
            assert arm.parameters["x"] + arm.parameters["y"] <= 0.5 + 1e-6
            assert fixed is None or arm.parameters["y"] == pytest.approx(0.75)


def test_whole_numbers_and_categories_are_relaxed_and_rounded() -> None:
    adapter = adapter_of(answered((*FLOATS, LEVEL, KIND)))
    run = adapter.gen(n=2, model_gen_options=OPTIONS)
    assert all(arm.parameters["level"] in (0, 1, 2) for arm in run.arms)
    assert all(arm.parameters["kind"] in (0, 1, 2) for arm in run.arms)


def test_the_configuration_reaches_the_model(experiment: Experiment) -> None:
    spec = preference_surrogate_spec(
        preference_model_config(
            likelihood_class=ProbitLikelihood,
            likelihood_options={"scale": 0.5},
            covar_module_class=MaternKernel,
            covar_module_options={"nu": 1.5},
            model_options={"variance": 4.0, "inducing_points": 6},
        )
    )
    model = model_of(adapter_of(experiment, spec=spec))
    assert isinstance(model.likelihood, ProbitLikelihood)
    assert float(model.likelihood.scale) == 0.5
    assert isinstance(model.covar_module, MaternKernel)
    assert model.variance == 4.0
    assert len(model.inducing_points) == 6


def test_inputs_are_normalised_without_transforms_of_the_adapter(experiment: Experiment) -> None:
    spec = SurrogateSpec(
        metric_to_model_configs={PREFERENCE_METRIC: [ModelConfig(botorch_model_class=PreferenceGP)]}
    )
    model = model_of(adapter_of(experiment, spec=spec, transforms=[]))
    x, y = model.items.unbind(-1)
    assert x.max() > 2
    torch.testing.assert_close(
        model.input_transform(model.items), torch.stack([(x + 1) / 4, y], dim=-1)
    )


def test_every_laplace_model_is_fitted_by_its_evidence() -> None:
    X = torch.linspace(0, 1, 9, dtype=torch.double).unsqueeze(-1)
    Y = (X > 0.4).double()
    by_ax, direct = BernoulliGP(X, Y), BernoulliGP(X, Y)
    before = by_ax.covar_module.outputscale.item()
    fit_botorch_model(by_ax, mll_class=ExactMarginalLogLikelihood)
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(direct.likelihood, direct))
    assert by_ax.covar_module.outputscale.item() != before
    for name, value in direct.state_dict().items():
        torch.testing.assert_close(by_ax.state_dict()[name], value)


@pytest.mark.parametrize("rule", [PairVariance, AnalyticExpectedUtilityOfBestOption])
def test_what_comes_of_axs_registry_is_saved(rule: type[Any], tmp_path: Path) -> None:
    """Ax then keeps the classes of model, objective, likelihood and rules with a suggestion."""
    experiment = answered(duels=4)
    config = preference_model_config(likelihood_class=ProbitLikelihood)
    adapter = Generators.BOTORCH_MODULAR(
        experiment=experiment,
        surrogate_spec=preference_surrogate_spec(config),
        acquisition_class=PairAcquisition,
        botorch_acqf_class=rule,
        transforms=Cont_X_trans,
    )
    trial = experiment.new_batch_trial(adapter.gen(n=2, model_gen_options=OPTIONS))
    trial.mark_running(no_runner_required=True)
    attach_answer(trial, 1)
    path = str(tmp_path / "experiment.json")
    save_experiment(experiment, path)
    again = load_experiment(path)
    means = experiment.lookup_data().df["mean"].tolist()
    assert again.lookup_data().df["mean"].tolist() == means
    (run,) = again.trials[4].generator_runs
    kept = run._generator_kwargs
    assert kept is not None
    assert (kept["acquisition_class"], kept["botorch_acqf_class"]) == (PairAcquisition, rule)
    ((loaded,),) = kept["surrogate_spec"].metric_to_model_configs.values()
    assert loaded.botorch_model_class is PreferenceGP
    assert loaded.mll_class is LaplaceMarginalLogLikelihood
    assert loaded.likelihood_class is ProbitLikelihood


@pytest.mark.parametrize(
    ("argument", "arguments"),
    [
        ("`n`", {"n": 1}),
        ("`n`", {"n": 3}),
        ("`sequential`", {"model_gen_options": {"optimizer_kwargs": {"sequential": True}}}),
        ("`in_sample`", {"model_gen_options": {"in_sample": True}}),
        (
            "`pending_observations`",
            {"pending_observations": {PREFERENCE_METRIC: [ObservationFeatures(BEST)]}},
        ),
        ("`objective`", {"optimization_config": config(f"-{PREFERENCE_METRIC}")}),
    ],
)
def test_what_cannot_be_generated(
    fitted: TorchAdapter, argument: str, arguments: dict[str, Any]
) -> None:
    with pytest.raises(UnsupportedError, match=argument):
        fitted.gen(**{"n": 2, "model_gen_options": OPTIONS, **arguments})


@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
def test_other_metrics_are_tracked_but_constrain_nothing() -> None:
    adapter = adapter_of(answered(cost=True))
    assert adapter.outcomes == ["cost", PREFERENCE_METRIC]
    assert len(adapter.gen(n=2, model_gen_options=OPTIONS).arms) == 2
    cheap = core.OutcomeConstraint("cost <= 0.5", metric_name_to_signature={"cost": "cost"})
    constrained = config(PREFERENCE_METRIC, PREFERENCE_METRIC, cheap)
    with pytest.raises(UnsupportedError, match="`outcome_constraints`"):
        adapter.gen(n=2, optimization_config=constrained, model_gen_options=OPTIONS)


def test_other_parameters_models_and_rules_are_refused(experiment: Experiment) -> None:
    adapter = adapter_of(answered((*FLOATS, LEVEL)), transforms=Mixed_transforms)
    with pytest.raises(UnsupportedError, match="`transforms` leave level discrete"):
        adapter.gen(n=2, model_gen_options=OPTIONS)
    with pytest.raises(UnsupportedError, match="`categorical_features`"):
        adapter_of(answered((*FLOATS, KIND)), transforms=Mixed_transforms)
    # What Ax makes of comparisons, whatever it was told.
    spec = SurrogateSpec(model_configs=[preference_model_config()])
    adapter = adapter_of(experiment, spec=spec)
    assert type(adapter.botorch_model) is PairwiseGP
    with pytest.raises(UnsupportedError, match="`model_configs`"):
        adapter.gen(n=2, model_gen_options=OPTIONS)
    with pytest.raises(UnsupportedError, match=r"`outcome_names` are \['liking'\]"):
        adapter_of(answered(metric="liking"), spec=spec)
    with pytest.raises(UnsupportedError, match="`botorch_model_class`"):
        preference_model_config(botorch_model_class=PairwiseGP)
    values = preference_model_config(model_options={"values": None})
    with pytest.raises(UnsupportedError, match=r"`model_options`.*not values"):
        adapter_of(experiment, spec=preference_surrogate_spec(values))
    with pytest.raises(UnsupportedError, match="`botorch_acqf_class` MaxMinLCB values single"):
        adapter_of(experiment, MaxMinLCB).gen(n=2, model_gen_options=OPTIONS)


@pytest.mark.parametrize(
    ("arms", "answer", "error", "message"),
    [
        (2, 0.5, UnsupportedError, "`answer` is 0.5"),
        (2, 0.7, ComparisonDataError, "`answer` must be 0 or 1, got 0.7"),
        (1, 1, UnsupportedError, "`trial` must have two"),
        (3, 1, UnsupportedError, "`trial` must have two"),
    ],
)
def test_what_is_no_answer(arms: int, answer: float, error: type[Exception], message: str) -> None:
    experiment = answered(duels=1)
    trial = experiment.new_batch_trial(
        GeneratorRun([Arm({"x": 0.1 * k, "y": 0.5}) for k in range(arms)])
    )
    trial.mark_running(no_runner_required=True)
    with pytest.raises(error, match=message):
        attach_answer(trial, answer)
    assert trial.status.is_running
    assert len(experiment.lookup_data().df) == 2


def test_only_a_running_trial_is_answered() -> None:
    """Once; and one that failed is not pending, so that the next can be generated."""
    experiment = answered(duels=1)
    first = experiment.trials[0]
    assert isinstance(first, BatchTrial)
    before = experiment.lookup_data().df
    with pytest.raises(StaleQueryError, match="Trial 0 is completed"):
        attach_answer(first, 0)
    later = experiment.new_batch_trial(
        GeneratorRun([Arm({"x": 0.1 * k, "y": 0.5}) for k in range(2)])
    )
    with pytest.raises(StaleQueryError, match="Trial 1 is candidate"):
        attach_answer(later, 1)
    later.mark_running(no_runner_required=True)
    later.mark_failed()
    with pytest.raises(StaleQueryError, match="Trial 1 is failed"):
        attach_answer(later, 1)
    assert experiment.lookup_data().df.equals(before)
    pending = get_pending_observation_features(experiment)
    assert pending is None or not pending[PREFERENCE_METRIC]


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    main: Callable[[list[str]], None] = runpy.run_path(str(EXAMPLE))["main"]
    main(["--trials", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("pair 1 of 1: {'temperature': ")
    assert lines[-1].startswith("Your coffee: {'temperature': ")
