r"""Laplace inference over blocks of observations: functions of tensors that know no model."""

from botorch_pref.data.blocks import Block
from botorch_pref.inference.inducing import (
    InducingSystem,
    ItemKernel,
    evidence_by_inducing_items,
    posterior_by_inducing_items,
)
from botorch_pref.inference.laplace import (
    LaplaceMode,
    LaplacePosterior,
    find_mode,
    laplace_posterior,
    log_evidence,
)
from botorch_pref.inference.observations import Incidence, Observations
from botorch_pref.inference.systems import (
    DualSystem,
    ExactSystem,
    NewtonState,
    PrimalSystem,
    System,
    choose_system,
)
from botorch_pref.likelihoods import StandardNormal

__all__ = [
    "Block",
    "DualSystem",
    "ExactSystem",
    "Incidence",
    "InducingSystem",
    "ItemKernel",
    "LaplaceMode",
    "LaplacePosterior",
    "NewtonState",
    "Observations",
    "PrimalSystem",
    "StandardNormal",
    "System",
    "choose_system",
    "evidence_by_inducing_items",
    "find_mode",
    "laplace_posterior",
    "log_evidence",
    "posterior_by_inducing_items",
]
