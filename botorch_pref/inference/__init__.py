r"""Laplace inference over blocks of judgements: functions of tensors that know no model."""

from botorch_pref.inference.base import Look, Side
from botorch_pref.inference.evidence import log_evidence
from botorch_pref.inference.extension import extend
from botorch_pref.inference.gaussian import StandardNormal
from botorch_pref.inference.implicit import represent
from botorch_pref.inference.inducing import InducingSide
from botorch_pref.inference.inducing_evidence import (
    log_evidence_by_inducing_items,
    represent_by_inducing_items,
)
from botorch_pref.inference.inducing_rows import ItemKernel
from botorch_pref.inference.maps import SparseMap
from botorch_pref.inference.mode import LaplaceMode, find_mode
from botorch_pref.inference.observations import Block, Observations
from botorch_pref.inference.predict import Representer
from botorch_pref.inference.sides import AnswerSide, ExactSide, ItemSide, choose_side

__all__ = [
    "AnswerSide",
    "Block",
    "ExactSide",
    "InducingSide",
    "ItemKernel",
    "ItemSide",
    "LaplaceMode",
    "Look",
    "Observations",
    "Representer",
    "Side",
    "SparseMap",
    "StandardNormal",
    "choose_side",
    "extend",
    "find_mode",
    "log_evidence",
    "log_evidence_by_inducing_items",
    "represent",
    "represent_by_inducing_items",
]
