r"""Ax: duels as batch trials of two arms, answered on Ax's ``pairwise_pref_query`` metric.

Importing this module teaches Ax's ``BoTorchGenerator`` to build and fit this package's models,
and Ax's storage to save and load what they suggested; import it before you load an experiment.
:func:`preference_surrogate_spec` says which model, :class:`PairAcquisition` lets any rule for
pairs choose both arms of a trial at once, and :func:`attach_answer` writes an answer down. What Ax
offers but duels cannot have is refused by an ``UnsupportedError`` that names the argument.
``examples/ax_preference.py`` is a complete loop. (``ax.api.Client`` has trials of one arm only.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

try:
    import ax  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"botorch_pref.integrations.ax needs {error.name}, which the extra `ax` installs: "
        "pip install 'botorch-pref[ax]'"
    ) from error

import torch
from ax.core.batch_trial import BatchTrial
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.generators.torch.botorch_modular.surrogate import (
    Surrogate,
    SurrogateSpec,
    submodel_input_constructor,
)
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from ax.generators.torch_base import TorchOptConfig
from ax.storage.botorch_modular_registry import (
    CLASS_TO_REGISTRY,
    CLASS_TO_REVERSE_REGISTRY,
    register_acquisition,
    register_acquisition_function,
    register_mll,
    register_model,
)
from ax.storage.json_store.decoders import class_from_json
from ax.storage.json_store.registry import CORE_CLASS_DECODER_REGISTRY
from ax.utils.common.constants import Keys
from botorch.acquisition import AcquisitionFunction
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model, ModelList
from botorch.models.transforms.input import Normalize
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from botorch.utils.types import DEFAULT
from gpytorch.mlls import ExactMarginalLogLikelihood, MarginalLogLikelihood
from torch import Tensor

from botorch_pref.acquisition import ItemAcquisitionFunction, PairAcquisitionFunction
from botorch_pref.exceptions import ComparisonDataError, StaleQueryError, UnsupportedError
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.models.base import LaplaceGP, LaplaceMarginalLogLikelihood
from botorch_pref.models.preference_gp import PreferenceGP

__all__ = [
    "PREFERENCE_METRIC",
    "PairAcquisition",
    "attach_answer",
    "pair_optimizer_options",
    "preference_model_config",
    "preference_surrogate_spec",
]

PREFERENCE_METRIC: str = Keys.PAIRWISE_PREFERENCE_QUERY.value
"""Ax's name of the metric that says who won."""
_MODEL_OPTIONS = ("variance", "inducing_points", "mean_module")


def preference_model_config(**fields: Any) -> ModelConfig:
    r"""Ax's configuration of a :class:`~botorch_pref.models.PreferenceGP`, fitted by its evidence.

    It acts from :func:`preference_surrogate_spec`.

    Args:
        **fields: Fields of ``ModelConfig``, for instance ``likelihood_class=ProbitLikelihood``,
            ``covar_module_class`` or ``model_options={"variance": 4.0, "inducing_points": 64}``.
            By default items are brought to the unit cube by the bounds of the search space, not,
            as by Ax, by the range of the arms; ``input_transform_classes`` replaces that.

    Raises:
        UnsupportedError: If ``botorch_model_class`` is given and is no ``PreferenceGP``.
    """
    model_class = fields.setdefault("botorch_model_class", PreferenceGP)
    if not issubclass(model_class, PreferenceGP):
        raise UnsupportedError(
            f"`botorch_model_class` must be a PreferenceGP, not {model_class.__name__}."
        )
    return ModelConfig(
        **{"mll_class": LaplaceMarginalLogLikelihood, "name": "preference", **fields}
    )


def preference_surrogate_spec(model_config: ModelConfig | None = None) -> SurrogateSpec:
    r"""The surrogate that ``BoTorchGenerator`` takes as its ``surrogate_spec``.

    Ax looks the model of comparisons up by the name of their metric alone, and takes BoTorch's
    ``PairwiseGP`` instead of what ``SurrogateSpec(model_configs=...)`` says.
    """
    config = preference_model_config() if model_config is None else model_config
    return SurrogateSpec(metric_to_model_configs={PREFERENCE_METRIC: [config]})


def pair_optimizer_options(**options: Any) -> dict[str, Any]:
    r"""What ``adapter.gen(n=2, model_gen_options=...)`` takes, to choose both arms jointly.

    Args:
        **options: Further options of ``optimize_acqf``, for instance ``num_restarts=4``.

    Raises:
        UnsupportedError: If ``sequential`` is true: a rule for pairs has no value for one arm.
    """
    return {Keys.OPTIMIZER_KWARGS.value: _jointly(options)}


def attach_answer(trial: BatchTrial, answer: float) -> None:
    r"""Write down who won a trial, and complete it.

    Args:
        trial: A running trial of two arms.
        answer: 1 if the first arm won, 0 if the second did.

    Raises:
        UnsupportedError: If ``trial`` has not got two different arms, or ``answer`` is 0.5: Ax's
            comparisons have a winner. Mark a trial that nobody can decide failed.
        ComparisonDataError: If ``answer`` is no answer.
        StaleQueryError: If the trial is not running: answered already, failed, or not begun.
    """
    if len(trial.arms) != 2:
        raise UnsupportedError(
            f"`trial` must have two different arms, but trial {trial.index} has {len(trial.arms)}."
        )
    if answer == 0.5:
        raise UnsupportedError(
            "`answer` is 0.5, but Ax has no ties: call trial.mark_failed() instead."
        )
    if answer not in (0, 1):
        raise ComparisonDataError(f"`answer` must be 0 or 1, got {answer!r}.")
    if not trial.status.is_running:  # Ax would put new data in the place of old ones
        raise StaleQueryError(
            f"Trial {trial.index} is {trial.status.name.lower()}: only a running one is answered."
        )
    first, second = trial.arms
    wins = {first.name: float(answer), second.name: 1.0 - answer}
    trial.attach_batch_trial_data({arm: {PREFERENCE_METRIC: won} for arm, won in wins.items()})
    trial.mark_completed()


class PairAcquisition(Acquisition):
    r"""Ax's ``Acquisition`` for rules that value a pair: two arms, chosen jointly.

    For ``BoTorchGenerator(acquisition_class=PairAcquisition, botorch_acqf_class=...)`` with a rule
    of this package with ``q=2``, or BoTorch's EUBO. Constraints on parameters and fixed features
    hold for both arms.
    """

    def __init__(
        self,
        surrogate: Surrogate,
        search_space_digest: SearchSpaceDigest,
        torch_opt_config: TorchOptConfig,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Refuse what duels cannot have, and build the rule; the arguments are Ax's.

        Raises:
            UnsupportedError: If the objective is not to maximise the preference metric, there are
                outcome constraints or pending observations, ``model_configs`` asks for a model
                that Ax has not taken, or ``botorch_acqf_class`` values single items.
        """
        outcomes = surrogate.outcomes
        weights = torch_opt_config.objective_weights.reshape(-1, len(outcomes)).tolist()
        wanted = [float(name == PREFERENCE_METRIC) for name in outcomes]
        if torch_opt_config.is_moo or weights != [wanted]:
            raise UnsupportedError(
                f"`objective` must be to maximise {PREFERENCE_METRIC!r} alone, on which 1 is the "
                f"arm that won; its weights are {weights} for {outcomes}."
            )
        if torch_opt_config.outcome_constraints is not None:
            raise UnsupportedError("`outcome_constraints` are not looked at by a rule for pairs.")
        pending = torch_opt_config.pending_observations
        if pending is not None and any(len(points) for points in pending):
            raise UnsupportedError(
                "`pending_observations` are single arms, which mean nothing to a rule for pairs: "
                "complete the open trials, or mark them failed."
            )
        configs = surrogate.surrogate_spec.model_configs
        wished = (config.botorch_model_class or Model for config in configs)
        is_ours = any(isinstance(module, PreferenceGP) for module in surrogate.model.modules())
        if not is_ours and any(issubclass(model_class, PreferenceGP) for model_class in wished):
            raise UnsupportedError(
                "`model_configs` of SurrogateSpec is not what Ax models comparisons by: use "
                "preference_surrogate_spec(model_config)."
            )
        super().__init__(surrogate, search_space_digest, torch_opt_config, *args, **kwargs)

    def optimize(
        self,
        n: int,
        search_space_digest: SearchSpaceDigest,
        *args: Any,
        optimizer_options: dict[str, Any] | None = None,
        candidate_set: Tensor | None = None,
        **kwargs: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        r"""Choose the ``2 x d``-dim arms of a trial; arguments and results are Ax's.

        Raises:
            UnsupportedError: If ``n`` is not 2, a transformed parameter is not continuous, there
                is a candidate set, from which Ax chooses one by one, or ``optimizer_options``
                have ``sequential=True``.
        """
        if n != 2:
            raise UnsupportedError(f"`n` must be 2, the arms of a duel, not {n}.")
        if candidate_set is not None:
            raise UnsupportedError("`in_sample` makes Ax choose the arms one by one.")
        digest = search_space_digest
        if discrete := [*digest.ordinal_features, *digest.categorical_features]:
            names = ", ".join(digest.feature_names[i] for i in sorted(discrete))
            raise UnsupportedError(
                f"`transforms` leave {names} discrete, and Ax's optimizers of discrete parameters "
                "choose the arms one by one: use ax.adapter.registry.Cont_X_trans, which relaxes "
                "and rounds them."
            )
        kwargs["optimizer_options"] = _jointly(optimizer_options or {})
        return super().optimize(n, digest, *args, **kwargs)

    def _construct_botorch_acquisition(
        self,
        botorch_acqf_class: type[AcquisitionFunction],
        botorch_acqf_options: dict[str, Any],
        model: Model,
    ) -> AcquisitionFunction:
        if issubclass(botorch_acqf_class, ItemAcquisitionFunction):
            raise UnsupportedError(
                f"`botorch_acqf_class` {botorch_acqf_class.__name__} values single items, not "
                "the two arms of a duel."
            )
        # Ax keeps a model that it has looked up by its metric in a list, also if it is the only
        # one; a rule needs the model itself.
        if isinstance(model, ModelList) and model.num_outputs == 1:
            model = model.subset_output([0])
        return super()._construct_botorch_acquisition(
            botorch_acqf_class, botorch_acqf_options, model
        )


def _jointly(options: dict[str, Any]) -> dict[str, Any]:
    if options.get("sequential"):
        raise UnsupportedError("`sequential` must be False: a rule values both arms together.")
    return {**options, "sequential": False}


def _fit(
    model: LaplaceGP,
    mll_class: type[MarginalLogLikelihood],
    mll_options: dict[str, Any] | None = None,
) -> None:
    # The default of Ax, which does not fit these models.
    if issubclass(mll_class, ExactMarginalLogLikelihood):
        mll_class = LaplaceMarginalLogLikelihood
    fit_gpytorch_mll(mll_class(model.likelihood, model, **(mll_options or {})))


def _inputs(
    botorch_model_class: type[PreferenceGP],
    model_config: ModelConfig,
    dataset: SupervisedDataset,
    search_space_digest: SearchSpaceDigest,
    surrogate: Surrogate,
) -> dict[str, Any]:
    for name in ("fidelity_features", "task_features", "categorical_features"):
        if getattr(search_space_digest, name):
            raise UnsupportedError(
                f"`{name}` have no part in {botorch_model_class.__name__}: its kernel is over "
                "numbers. Categories need transforms=ax.adapter.registry.Cont_X_trans."
            )
    if not isinstance(dataset, RankingDataset):
        raise UnsupportedError(
            f"{botorch_model_class.__name__} needs comparisons, and Ax makes these of the metric "
            f"{PREFERENCE_METRIC!r} alone; `outcome_names` are {dataset.outcome_names}."
        )
    options = dict(model_config.model_options)
    if unknown := sorted(set(options) - set(_MODEL_OPTIONS)):
        raise UnsupportedError(
            f"`model_options` may hold {', '.join(_MODEL_OPTIONS)}, but not {', '.join(unknown)}."
        )
    config = replace(model_config, model_options={})
    if isinstance(config.input_transform_classes, type(DEFAULT)):
        # Ax would take the range of the arms for that of the search space.
        box = torch.tensor(search_space_digest.bounds, dtype=torch.double).mT
        config.input_transform_classes = [Normalize]
        config.input_transform_options = {"Normalize": {"bounds": box}}
    construct: Callable[..., dict[str, Any]] = submodel_input_constructor.dispatch(Model)
    inputs = construct(
        botorch_model_class,
        model_config=config,
        dataset=dataset,
        search_space_digest=search_space_digest,
        surrogate=surrogate,
    )
    return {**inputs, **options}


# What Ax's ``Surrogate`` builds and fits this package's models by.
fit_botorch_model.register(LaplaceGP)(_fit)
submodel_input_constructor.register(PreferenceGP)(_inputs)

# Ax saves the classes that a suggestion was made with, if they are registered.
register_acquisition(PairAcquisition)
register_model(PreferenceGP)
register_mll(LaplaceMarginalLogLikelihood)
for _rule in PairAcquisitionFunction.__subclasses__():
    register_acquisition_function(_rule)
# Ax knows Gaussian likelihoods only, which these are not.
_LIKELIHOODS = {one: one.__name__ for one in (LogitLikelihood, ProbitLikelihood)}
CLASS_TO_REGISTRY[BernoulliLikelihood] = _LIKELIHOODS
CLASS_TO_REVERSE_REGISTRY[BernoulliLikelihood] = {name: one for one, name in _LIKELIHOODS.items()}
CORE_CLASS_DECODER_REGISTRY[f"Type[{BernoulliLikelihood.__name__}]"] = class_from_json
