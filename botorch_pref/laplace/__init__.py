r"""Laplace inference over blocks of judgements: functions of tensors that know no model."""

from botorch_pref.laplace.base import Look, Side
from botorch_pref.laplace.evidence import log_evidence
from botorch_pref.laplace.extension import extend
from botorch_pref.laplace.gaussian import StandardNormal
from botorch_pref.laplace.implicit import represent
from botorch_pref.laplace.inducing import InducingSide
from botorch_pref.laplace.inducing_evidence import (
    log_evidence_by_inducing_items,
    represent_by_inducing_items,
)
from botorch_pref.laplace.inducing_rows import ItemKernel
from botorch_pref.laplace.maps import SparseMap
from botorch_pref.laplace.mode import LaplaceMode, find_mode
from botorch_pref.laplace.observations import Block, Observations
from botorch_pref.laplace.predict import Representer
from botorch_pref.laplace.sides import AnswerSide, ExactSide, ItemSide, choose_side

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
