r"""Laplace inference over blocks of observations: functions of tensors, independent of models."""

from botorch_pref.data.blocks import Block
from botorch_pref.inference.inducing import InducingSystem, ItemKernel
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
    "System",
    "choose_system",
    "find_mode",
    "laplace_posterior",
    "log_evidence",
]
