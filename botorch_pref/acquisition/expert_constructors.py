r"""The rules over measured values in BoTorch's registry of input constructors.

As :mod:`botorch_pref.acquisition.input_constructors`; ``model`` is that of the objective.
"""

from __future__ import annotations

from typing import Any

from botorch.acquisition.input_constructors import (
    ACQF_INPUT_CONSTRUCTOR_REGISTRY,
    acqf_input_constructor,
    get_best_f_analytic,
)
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition.base import TOLERANCE
from botorch_pref.acquisition.comparison_filtered_ucb import ComparisonFilteredUCB
from botorch_pref.acquisition.expert_augmented_lcb import ExpertAugmentedLCB
from botorch_pref.acquisition.log_human_constrained_ei import Acceptance, LogHumanConstrainedEI
from botorch_pref.exceptions import ComparisonDataError

for _rule in (ComparisonFilteredUCB, ExpertAugmentedLCB, LogHumanConstrainedEI):
    ACQF_INPUT_CONSTRUCTOR_REGISTRY.pop(_rule, None)


@acqf_input_constructor(ComparisonFilteredUCB)
def construct_inputs_comparison_filtered_ucb(
    model: Model,
    borda_model: Model,
    beta: float = 2.0,
    borda_slack: float = 0.0,
    borda_beta: float | None = None,
    lower_bound: float | None = None,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of :class:`ComparisonFilteredUCB`.

    Args:
        model: The model of measured values.
        borda_model: The model of duels against random items.
        beta: Multiplies the standard deviation of values.
        borda_slack: By how much the best item by value may fall short by duels.
        borda_beta: Multiplies the standard deviation of the Borda function.
        lower_bound: What the best item surely reaches.
        X_pending: Must be ``None``.

    Returns:
        The constructor's arguments.

    Raises:
        UnsupportedError: If there are pending points.
    """
    ComparisonFilteredUCB.refuse_pending(X_pending)
    return {
        "value_model": model,
        "borda_model": borda_model,
        "beta": beta,
        "borda_slack": borda_slack,
        "borda_beta": borda_beta,
        "lower_bound": lower_bound,
    }


@acqf_input_constructor(ExpertAugmentedLCB)
def construct_inputs_expert_augmented_lcb(
    model: Model,
    label_model: Model | None = None,
    beta: float = 1.0,
    weight: float | None = None,
    label_beta: float = 1.0,
    x_ref: Tensor | None = None,
    tolerance: float = TOLERANCE,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of :class:`ExpertAugmentedLCB`.

    Args:
        model: The model of the objective.
        label_model: The expert's model; by default none.
        beta: Multiplies the standard deviation.
        weight: What a logit is worth; by default 1, and 0 without a label model.
        label_beta: Multiplies the standard deviation of a Gaussian latent.
        x_ref: ``d``-dim item that the latent is compared with.
        tolerance: The gap to stop at, in logits.
        X_pending: Must be ``None``.

    Returns:
        The constructor's arguments.

    Raises:
        UnsupportedError: If there are pending points.
    """
    ExpertAugmentedLCB.refuse_pending(X_pending)
    default = 0.0 if label_model is None else 1.0
    return {
        "objective_model": model,
        "label_model": label_model,
        "beta": beta,
        "weight": default if weight is None else weight,
        "label_beta": label_beta,
        "x_ref": x_ref,
        "tolerance": tolerance,
    }


@acqf_input_constructor(LogHumanConstrainedEI)
def construct_inputs_log_human_constrained_ei(
    model: Model,
    label_model: Model,
    training_data: Any = None,
    best_f: float | Tensor | None = None,
    acceptance: Acceptance = "mle",
    label_beta: float = 1.0,
    x_ref: Tensor | None = None,
    tolerance: float = TOLERANCE,
    X_pending: Tensor | None = None,
) -> dict[str, Any]:
    r"""Arguments of :class:`LogHumanConstrainedEI`.

    Args:
        model: The model of the objective.
        label_model: The expert's model.
        training_data: BoTorch's data of the objective, where ``best_f`` is not given.
        best_f: The largest value so far; by default that of the training data.
        acceptance: The latent whose probability is taken.
        label_beta: Multiplies the standard deviation of a Gaussian latent.
        x_ref: ``d``-dim item that the latent is compared with.
        tolerance: The gap to stop at, in logits.
        X_pending: Must be ``None``.

    Returns:
        The constructor's arguments.

    Raises:
        ComparisonDataError: If there are neither ``best_f`` nor training data.
        UnsupportedError: If there are pending points.
    """
    LogHumanConstrainedEI.refuse_pending(X_pending)
    if best_f is None:
        if training_data is None:
            raise ComparisonDataError("Give `best_f` or `training_data`.")
        best_f = get_best_f_analytic(training_data)
    return {
        "objective_model": model,
        "label_model": label_model,
        "best_f": best_f,
        "acceptance": acceptance,
        "label_beta": label_beta,
        "x_ref": x_ref,
        "tolerance": tolerance,
    }
