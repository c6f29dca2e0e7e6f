r"""The rules in BoTorch's registry of input constructors.

Every constructor takes the fitted ``model`` and returns the arguments of the rule, so that
``cls(**get_acqf_input_constructor(cls)(model=model, ...))`` is the rule. As everywhere in
that registry, ``training_data``, ``objective``, ``posterior_transform`` and their like may
be given and are not looked at unless they are named here; any other word is a ``TypeError``.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    acqf_input_constructor,
    get_acqf_input_constructor,
)
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.sampling import draw_sobol_samples
from torch import Tensor
from torch.nn import Module

from botorch_pref.acquisition.advantage_ucb import AdvantageUCB
from botorch_pref.acquisition.base import TOLERANCE, as_confidence_set, given_items
from botorch_pref.acquisition.dueling_thompson import DuelingThompsonSampling
from botorch_pref.acquisition.max_min_lcb import MaxMinLCB
from botorch_pref.acquisition.optimistic_advantage import OptimisticAdvantage
from botorch_pref.acquisition.pair_as_point import PairAsPoint
from botorch_pref.acquisition.pair_variance import PairVariance
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError

# The registry refuses a class that it knows, also when it is this module that is reloaded.
for _rule in (
    PairVariance,
    DuelingThompsonSampling,
    MaxMinLCB,
    AdvantageUCB,
    OptimisticAdvantage,
    PairAsPoint,
):
    ACQF_INPUT_CONSTRUCTOR_REGISTRY.pop(_rule, None)


@acqf_input_constructor(PairVariance)
def construct_inputs_pair_variance(model: Model, X_pending: Tensor | None = None) -> dict[str, Any]:
    r"""Arguments of :class:`PairVariance`.

    Args:
        model: The model of the utility.
        X_pending: Must be ``None``; pending pairs reach the rule through ``PairAsPoint``.

    Returns:
        The constructor's arguments.

    Raises:
        UnsupportedError: If there are pending points.
    """
    PairVariance.refuse_pending(X_pending)
    return {"model": model}


@acqf_input_constructor(DuelingThompsonSampling)
def construct_inputs_dueling_thompson(
    model: Model,
    scale: float = 1.0,
    seed: int | None = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of :class:`DuelingThompsonSampling`.

    Args:
        model: The model of the utility.
        scale: What the posterior standard deviation is multiplied by.
        seed: The seed of the draws; by default torch's global generator.
        X_pending: Must be ``None``; pending pairs reach the rule through ``PairAsPoint``.

    Returns:
        The constructor's arguments.

    Raises:
        UnsupportedError: If there are pending points.
    """
    DuelingThompsonSampling.refuse_pending(X_pending)
    return {"model": model, "scale": scale, "seed": seed}


@acqf_input_constructor(MaxMinLCB)
def construct_inputs_max_min_lcb(
    model: Model,
    bounds: list[tuple[float, float]] | Tensor | None = None,
    beta: float = 1.0,
    followers: Tensor | None = None,
    num_followers: int = 128,
    seed: int = 0,
    likelihood: Module | None = None,
    diagonal: Literal["keep", "exclude"] = "keep",
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of :class:`MaxMinLCB`.

    Args:
        model: The model of the utility.
        bounds: ``d`` pairs of a lower and an upper bound, as BoTorch's other constructors
            take them; only used where ``followers`` are not given.
        beta: Multiplies the standard deviation.
        followers: ``w x d``-dim items that the follower chooses from; by default the
            model's items, and a Sobol sample of the box if there are ``bounds``.
        num_followers: The size of that sample.
        seed: The seed of that sample.
        likelihood: The link; by default the model's.
        diagonal: What a follower equal to the leader counts for.
        X_pending: Must be ``None``.

    Returns:
        The constructor's arguments.

    Raises:
        ComparisonDataError: If ``bounds`` are not such pairs, or there is nothing to choose
            followers from.
        UnsupportedError: If there are pending points.
    """
    MaxMinLCB.refuse_pending(X_pending)
    if followers is None:
        followers = items_and_sample(model, bounds, num_followers, seed, "followers")
    return {
        "model": model,
        "beta": beta,
        "followers": followers,
        "likelihood": likelihood,
        "diagonal": diagonal,
    }


@acqf_input_constructor(AdvantageUCB)
def construct_inputs_advantage_ucb(
    model: Model,
    x_ref: Tensor | None = None,
    beta: float = 1.0,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of :class:`AdvantageUCB`.

    Args:
        model: The model of the utility.
        x_ref: ``d``-dim item that the advantage is over; by default the one of the model's
            items with the largest posterior mean.
        beta: Multiplies the standard deviation.
        X_pending: Must be ``None``.

    Returns:
        The constructor's arguments.

    Raises:
        ComparisonDataError: If ``x_ref`` is not given and the model has no items.
        UnsupportedError: If there are pending points.
    """
    AdvantageUCB.refuse_pending(X_pending)
    if x_ref is None:
        items = _items(model)
        if not len(items):
            raise ComparisonDataError("Give `x_ref`: the model has no items.")
        with torch.no_grad():
            posterior = cast(GPyTorchPosterior, model.posterior(items))
            x_ref = items[posterior.mean.squeeze(-1).argmax()]
    return {"model": model, "x_ref": x_ref, "beta": beta}


@acqf_input_constructor(OptimisticAdvantage)
def construct_inputs_optimistic_advantage(
    model: Model,
    x_ref: Tensor | None = None,
    tolerance: float = TOLERANCE,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of :class:`OptimisticAdvantage`.

    Args:
        model: The confidence set, a :class:`~botorch_pref.models.LikelihoodRatioModel`.
        x_ref: ``d``-dim item that the advantage is over; by default the one of the model's
            items with the largest utility of maximum likelihood.
        tolerance: The gap to stop at, in the units of the utility.
        X_pending: Must be ``None``.

    Returns:
        The constructor's arguments.

    Raises:
        ComparisonDataError: If ``x_ref`` is not given and the model has no items.
        UnsupportedError: If there are pending points, or it is another model.
    """
    OptimisticAdvantage.refuse_pending(X_pending)
    if x_ref is None:
        known = as_confidence_set("model", model)
        if not len(known.items):
            raise ComparisonDataError("Give `x_ref`: the model has no items.")
        with torch.no_grad():
            x_ref = known.items[known.mle(known.items).argmax()]
    return {"model": model, "x_ref": x_ref, "tolerance": tolerance}


@acqf_input_constructor(PairAsPoint)
def construct_inputs_pair_as_point(
    model: Model,
    acq_function_class: type[AcquisitionFunction],
    acq_function_kwargs: dict[str, Any] | None = None,
    training_data: Any = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of :class:`PairAsPoint`: the rule inside, from its own constructor.

    Args:
        model: The model of the utility.
        acq_function_class: A rule for pairs that is in the registry, such as
            :class:`PairVariance` or BoTorch's ``qExpectedUtilityOfBestOption``.
        acq_function_kwargs: Further arguments of that rule's input constructor.
        training_data: Handed on to that constructor.
        X_pending: Must be ``None``; call ``set_X_pending`` of the rule.

    Returns:
        The constructor's arguments.

    Raises:
        UnsupportedError: If there are pending points.
    """
    if X_pending is not None:
        raise UnsupportedError(
            "PairAsPoint is not built with pending pairs: call its set_X_pending afterwards."
        )
    arguments = {"training_data": training_data, **(acq_function_kwargs or {})}
    inputs = get_acqf_input_constructor(acq_function_class)(model=model, **arguments)
    return {"acq_function": acq_function_class(**inputs)}


def _items(model: Model) -> Tensor:
    """The ``n x d``-dim items of a model that is not batched; 0 rows for a prior alone."""
    if not cast(Any, model).train_inputs:
        device = next(model.parameters()).device
        return torch.empty(0, 1, dtype=torch.double, device=device)
    items = given_items(model)
    if items.dim() != 2:
        raise UnsupportedError("The items of a batched model are no one table; name the items.")
    return items.detach()


def items_and_sample(
    model: Model,
    bounds: list[tuple[float, float]] | Tensor | None,
    num: int,
    seed: int,
    instead: str,
) -> Tensor:
    r"""The items of a model, and with bounds a Sobol sample of the box.

    Args:
        model: The model, not batched.
        bounds: ``d`` pairs of a lower and an upper bound.
        num: The size of the sample.
        seed: The seed of the sample.
        instead: What is to be given where there is neither, for the message.

    Returns:
        ``w x d``-dim items.

    Raises:
        ComparisonDataError: If ``bounds`` are not such pairs, or there is neither.
        UnsupportedError: If the model is batched.
    """
    items = _items(model)
    if bounds is None:
        if not len(items):
            raise ComparisonDataError(f"Give `{instead}` or `bounds`: the model has no items.")
        return items
    sample = draw_sobol_samples(_box(bounds, items), n=num, q=1, seed=seed).squeeze(-2)
    return torch.cat([items, sample]) if len(items) else sample


def _box(bounds: list[tuple[float, float]] | Tensor, like: Tensor) -> Tensor:
    """The ``2 x d``-dim box of BoTorch's ``d`` pairs of bounds."""
    box = torch.as_tensor(bounds, dtype=like.dtype, device=like.device).mT
    columns = like.shape[-1] if len(like) else box.shape[-1]
    if box.shape != (2, columns) or not bool((box[0] < box[1]).all()):
        raise ComparisonDataError(
            "`bounds` must be d pairs (lower, upper) with lower < upper, got "
            f"{torch.as_tensor(bounds).tolist()}."
        )
    return box
