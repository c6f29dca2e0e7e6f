r"""The knowledge gradients in BoTorch's registry of input constructors.

As :mod:`botorch_pref.acquisition.input_constructors`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    acqf_input_constructor,
)
from botorch.models.model import Model
from torch import Tensor
from torch.nn import Module

from botorch_pref.acquisition.discrete_knowledge_gradient import DiscreteKnowledgeGradient
from botorch_pref.acquisition.dueling_knowledge_gradient import DuelingKnowledgeGradient
from botorch_pref.acquisition.input_constructors import items_and_sample
from botorch_pref.acquisition.knowledge_gradient import REPEATS, Project

for _rule in (DiscreteKnowledgeGradient, DuelingKnowledgeGradient):
    ACQF_INPUT_CONSTRUCTOR_REGISTRY.pop(_rule, None)


@acqf_input_constructor(DiscreteKnowledgeGradient)
def construct_inputs_discrete_knowledge_gradient(
    model: Model,
    noise: float = 0.0,
    reference: Tensor | None = None,
    bounds: list[tuple[float, float]] | Tensor | None = None,
    num_reference: int = 64,
    seed: int = 0,
    project: Project | None = None,
    repeats: Sequence[int] = REPEATS,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of :class:`DiscreteKnowledgeGradient`.

    Args:
        model: The model of the utility.
        noise: The variance of the noise of one value.
        reference: ``M x d``-dim items among which the best is sought; by default the model's
            items, and a Sobol sample of the box if there are ``bounds``, as projected.
        bounds: ``d`` pairs of a lower and an upper bound.
        num_reference: The size of that sample.
        seed: The seed of that sample.
        project: Maps items as they are asked to the same items as their utility counts.
        repeats: The numbers of answers that are looked at.
        X_pending: Must be ``None``.

    Returns:
        The constructor's arguments.

    Raises:
        ComparisonDataError: If there is nothing to choose a reference from.
        UnsupportedError: If there are pending points.
    """
    DiscreteKnowledgeGradient.refuse_pending(X_pending)
    if reference is None:
        reference = _reference(model, bounds, num_reference, seed, project)
    given = {"model": model, "reference": reference, "noise": noise}
    return {**given, "project": project, "repeats": repeats}


@acqf_input_constructor(DuelingKnowledgeGradient)
def construct_inputs_dueling_knowledge_gradient(
    model: Model,
    reference: Tensor | None = None,
    bounds: list[tuple[float, float]] | Tensor | None = None,
    num_reference: int = 64,
    seed: int = 0,
    likelihood: Module | None = None,
    project: Project | None = None,
    repeats: Sequence[int] = REPEATS,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of :class:`DuelingKnowledgeGradient`.

    Args:
        model: The model of the utility.
        reference: ``M x d``-dim items among which the best is sought; by default the model's
            items, and a Sobol sample of the box if there are ``bounds``, as projected.
        bounds: ``d`` pairs of a lower and an upper bound.
        num_reference: The size of that sample.
        seed: The seed of that sample.
        likelihood: The link; by default the model's.
        project: Maps items as they are asked to the same items as their utility counts.
        repeats: The numbers of answers that are looked at.
        X_pending: Must be ``None``; pending pairs reach the rule through ``PairAsPoint``.

    Returns:
        The constructor's arguments.

    Raises:
        ComparisonDataError: If there is nothing to choose a reference from.
        UnsupportedError: If there are pending points.
    """
    DuelingKnowledgeGradient.refuse_pending(X_pending)
    if reference is None:
        reference = _reference(model, bounds, num_reference, seed, project)
    given = {"model": model, "reference": reference, "likelihood": likelihood}
    return {**given, "project": project, "repeats": repeats}


def _reference(
    model: Model,
    bounds: list[tuple[float, float]] | Tensor | None,
    num: int,
    seed: int,
    project: Project | None,
) -> Tensor:
    items = items_and_sample(model, bounds, num, seed, "reference")
    return items if project is None else project(items)
