r"""The rules in BoTorch's registry of input constructors, in one table at the end of this file.

``cls(**get_acqf_input_constructor(cls)(model=model, ...))`` is the rule for a fitted ``model``;
of a rule over measured values it is the model of the objective. A constructor takes the arguments
of its rule, and those named in its signature from which it derives an argument. As everywhere in
that registry, ``training_data``, ``objective``, ``posterior_transform`` and their like may be
given and are ignored unless they are in the signature; any other word is a ``TypeError``.
``X_pending`` must be ``None``, else an ``UnsupportedError`` names the alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    allow_only_specific_variable_kwargs,
    get_acqf_input_constructor,
    get_best_f_analytic,
)
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor
from torch.nn import Module

from botorch_pref.acquisition.advantage_ucb import AdvantageUCB
from botorch_pref.acquisition.base import TOLERANCE, as_confidence_set, given_items
from botorch_pref.acquisition.comparison_filtered_ucb import ComparisonFilteredUCB
from botorch_pref.acquisition.discrete_knowledge_gradient import DiscreteKnowledgeGradient
from botorch_pref.acquisition.dueling_knowledge_gradient import DuelingKnowledgeGradient
from botorch_pref.acquisition.dueling_thompson import DuelingThompsonSampling
from botorch_pref.acquisition.expert_augmented_lcb import ExpertAugmentedLCB
from botorch_pref.acquisition.knowledge_gradient import REPEATS, Project
from botorch_pref.acquisition.log_human_constrained_ei import Acceptance, LogHumanConstrainedEI
from botorch_pref.acquisition.max_min_lcb import MaxMinLCB
from botorch_pref.acquisition.optimistic_advantage import OptimisticAdvantage
from botorch_pref.acquisition.pair_as_point import PairAsPoint
from botorch_pref.acquisition.pair_variance import PairVariance
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError

Bounds = list[tuple[float, float]] | Tensor | None
Arguments = dict[str, Any]


def _pair_variance(model: Model) -> Arguments:
    return {"model": model}


def _dueling_thompson(model: Model, scale: float = 1.0, seed: int | None = None) -> Arguments:
    return {"model": model, "scale": scale, "seed": seed}


def _pair_as_point(
    model: Model,
    acq_function_class: type[AcquisitionFunction],
    acq_function_kwargs: dict[str, Any] | None = None,
    training_data: Any = None,
) -> Arguments:
    """The wrapped rule comes from its own constructor."""
    arguments = {"training_data": training_data, **(acq_function_kwargs or {})}
    inputs = get_acqf_input_constructor(acq_function_class)(model=model, **arguments)
    return {"acq_function": acq_function_class(**inputs)}


def _max_min_lcb(
    model: Model,
    bounds: Bounds = None,
    beta: float = 1.0,
    followers: Tensor | None = None,
    num_followers: int = 128,
    seed: int = 0,
    likelihood: Module | None = None,
    diagonal: Literal["keep", "exclude"] = "keep",
) -> Arguments:
    """By default the followers are the model's items, and a Sobol sample of the box if given."""
    if followers is None:
        followers = _items_and_sample(model, bounds, num_followers, seed, "followers")
    options = {"likelihood": likelihood, "diagonal": diagonal}
    return {"model": model, "beta": beta, "followers": followers, **options}


def _advantage_ucb(model: Model, x_ref: Tensor | None = None, beta: float = 1.0) -> Arguments:
    """By default the reference is the model's item with the largest posterior mean."""
    if x_ref is None:
        items = _some_items(model, "x_ref")
        with torch.no_grad():
            posterior = cast(GPyTorchPosterior, model.posterior(items))
            x_ref = items[posterior.mean.squeeze(-1).argmax()]
    return {"model": model, "x_ref": x_ref, "beta": beta}


def _optimistic_advantage(
    model: Model, x_ref: Tensor | None = None, tolerance: float = TOLERANCE
) -> Arguments:
    """By default the reference is the model's most likely item."""
    if x_ref is None:
        known, items = as_confidence_set("model", model), _some_items(model, "x_ref")
        with torch.no_grad():
            x_ref = items[known.mle(items).argmax()]
    return {"model": model, "x_ref": x_ref, "tolerance": tolerance}


def _comparison_filtered_ucb(
    model: Model,
    borda_model: Model,
    beta: float = 2.0,
    borda_slack: float = 0.0,
    borda_beta: float | None = None,
    lower_bound: float | None = None,
) -> Arguments:
    options = {"borda_slack": borda_slack, "borda_beta": borda_beta, "lower_bound": lower_bound}
    return {"value_model": model, "borda_model": borda_model, "beta": beta, **options}


def _expert_augmented_lcb(
    model: Model,
    label_model: Model | None = None,
    beta: float = 1.0,
    weight: float | None = None,
    label_beta: float = 1.0,
    x_ref: Tensor | None = None,
    tolerance: float = TOLERANCE,
) -> Arguments:
    """By default the weight is 1, and 0 without a label model."""
    if weight is None:
        weight = 0.0 if label_model is None else 1.0
    options = {"label_beta": label_beta, "x_ref": x_ref, "tolerance": tolerance}
    models = {"objective_model": model, "label_model": label_model}
    return {**models, "beta": beta, "weight": weight, **options}


def _log_human_constrained_ei(
    model: Model,
    label_model: Model,
    training_data: Any = None,
    best_f: float | Tensor | None = None,
    acceptance: Acceptance = "mle",
    label_beta: float = 1.0,
    x_ref: Tensor | None = None,
    tolerance: float = TOLERANCE,
) -> Arguments:
    """By default ``best_f`` is that of the training data."""
    if best_f is None:
        if training_data is None:
            raise ComparisonDataError("Give `best_f` or `training_data`.")
        best_f = get_best_f_analytic(training_data)
    options = {"label_beta": label_beta, "x_ref": x_ref, "tolerance": tolerance}
    models = {"objective_model": model, "label_model": label_model}
    return {**models, "best_f": best_f, "acceptance": acceptance, **options}


def _discrete_knowledge_gradient(
    model: Model,
    noise: float = 0.0,
    reference: Tensor | None = None,
    bounds: Bounds = None,
    num_reference: int = 64,
    seed: int = 0,
    project: Project | None = None,
    repeats: Sequence[int] = REPEATS,
) -> Arguments:
    """By default the reference is the model's items, and a Sobol sample of the box if given."""
    if reference is None:
        reference = _reference(model, bounds, num_reference, seed, project)
    options = {"noise": noise, "project": project, "repeats": repeats}
    return {"model": model, "reference": reference, **options}


def _dueling_knowledge_gradient(
    model: Model,
    reference: Tensor | None = None,
    bounds: Bounds = None,
    num_reference: int = 64,
    seed: int = 0,
    likelihood: Module | None = None,
    project: Project | None = None,
    repeats: Sequence[int] = REPEATS,
) -> Arguments:
    """By default the reference is the model's items, and a Sobol sample of the box if given."""
    if reference is None:
        reference = _reference(model, bounds, num_reference, seed, project)
    options = {"likelihood": likelihood, "project": project, "repeats": repeats}
    return {"model": model, "reference": reference, **options}


def _reference(
    model: Model, bounds: Bounds, num: int, seed: int, project: Project | None
) -> Tensor:
    items = _items_and_sample(model, bounds, num, seed, "reference")
    return items if project is None else project(items)


def _items_and_sample(model: Model, bounds: Bounds, num: int, seed: int, argument: str) -> Tensor:
    """The ``w x d``-dim items of a model, and with bounds a Sobol sample of the box."""
    if bounds is None:
        return _some_items(model, f"{argument}` or `bounds")
    items = _items(model)
    box = torch.as_tensor(bounds, dtype=items.dtype, device=items.device).mT
    columns = items.shape[-1] if len(items) else box.shape[-1]
    if box.shape != (2, columns) or not bool((box[0] < box[1]).all()):
        raise ComparisonDataError(
            "`bounds` must be d pairs (lower, upper) with lower < upper, got "
            f"{torch.as_tensor(bounds).tolist()}."
        )
    sample = draw_sobol_samples(box, n=num, q=1, seed=seed).squeeze(-2)
    return torch.cat([items, sample]) if len(items) else sample


def _some_items(model: Model, argument: str) -> Tensor:
    items = _items(model)
    if not len(items):
        raise ComparisonDataError(f"Give `{argument}`: the model has no items.")
    return items


def _items(model: Model) -> Tensor:
    """The ``n x d``-dim items of a model that is not batched; 0 rows for a prior alone."""
    if not getattr(model, "train_inputs", True):  # BoTorch's PairwiseGP without data
        device = next(model.parameters()).device
        return torch.empty(0, 1, dtype=torch.double, device=device)
    items = given_items(model)
    if items.dim() != 2:
        raise UnsupportedError("The items of a batched model are no one table; name the items.")
    return items.detach()


def _register(rule: type[AcquisitionFunction], constructor: Callable[..., Arguments]) -> None:
    checked = allow_only_specific_variable_kwargs(constructor)

    def construct(*args: Any, X_pending: Tensor | None = None, **kwargs: Any) -> Arguments:
        if X_pending is not None:
            raise UnsupportedError(f"{rule.__name__} {cast(Any, rule).pending_hint}")
        return checked(*args, **kwargs)

    ACQF_INPUT_CONSTRUCTOR_REGISTRY[rule] = construct


_TABLE: dict[type[AcquisitionFunction], Callable[..., Arguments]] = {
    PairVariance: _pair_variance,
    DuelingThompsonSampling: _dueling_thompson,
    DuelingKnowledgeGradient: _dueling_knowledge_gradient,
    PairAsPoint: _pair_as_point,
    MaxMinLCB: _max_min_lcb,
    AdvantageUCB: _advantage_ucb,
    OptimisticAdvantage: _optimistic_advantage,
    ComparisonFilteredUCB: _comparison_filtered_ucb,
    ExpertAugmentedLCB: _expert_augmented_lcb,
    LogHumanConstrainedEI: _log_human_constrained_ei,
    DiscreteKnowledgeGradient: _discrete_knowledge_gradient,
}
for _rule, _constructor in _TABLE.items():
    _register(_rule, _constructor)
