r"""What Ax's ``Surrogate`` builds and fits this package's models by; registered on import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from ax.core.search_space import SearchSpaceDigest
from ax.generators.torch.botorch_modular.surrogate import Surrogate, submodel_input_constructor
from ax.generators.torch.botorch_modular.utils import ModelConfig, fit_botorch_model
from ax.utils.common.constants import Keys
from botorch.fit import fit_gpytorch_mll
from botorch.models.model import Model
from botorch.models.transforms.input import Normalize
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from botorch.utils.types import DEFAULT
from gpytorch.mlls import ExactMarginalLogLikelihood, MarginalLogLikelihood

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models import LaplaceMarginalLogLikelihood, LikelihoodRatioModel, PreferenceGP
from botorch_pref.models.laplace_gp import LaplaceGP

PREFERENCE_METRIC: str = Keys.PAIRWISE_PREFERENCE_QUERY.value
"""Ax's name of the metric that says who won."""
_MODEL_OPTIONS = ("variance", "inducing_points", "mean_module")


def _fit(
    model: LaplaceGP,
    mll_class: type[MarginalLogLikelihood],
    mll_options: dict[str, Any] | None = None,
) -> None:
    # Ax's default for models that it does not know is the one objective that cannot be meant.
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


def _refuse(botorch_model_class: type[Model], **kwargs: Any) -> dict[str, Any]:
    raise UnsupportedError(
        f"`botorch_model_class` {botorch_model_class.__name__} has bounds but no posterior, which "
        "Ax's Surrogate needs: use PreferenceGP."
    )


fit_botorch_model.register(LaplaceGP)(_fit)
submodel_input_constructor.register(PreferenceGP)(_inputs)
submodel_input_constructor.register(LikelihoodRatioModel)(_refuse)
