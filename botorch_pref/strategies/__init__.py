r"""Ask/tell strategies, one published system a module."""

from botorch_pref.strategies.base import Strategy, UtilityStrategy
from botorch_pref.strategies.budgeted import BudgetedStrategy
from botorch_pref.strategies.cobol import COBOHL, COBOL
from botorch_pref.strategies.comp_gp_ucb import CompGPUCB
from botorch_pref.strategies.cost_aware_kg import CostAwareKG
from botorch_pref.strategies.dueling_kg import DuelingKG
from botorch_pref.strategies.dueling_ts import DTS
from botorch_pref.strategies.eubo import EUBO
from botorch_pref.strategies.max_min_lcb import MaxMinLCBStrategy
from botorch_pref.strategies.mr_lpf import MRLPF
from botorch_pref.strategies.pf_ts import PFTS
from botorch_pref.strategies.pop_bo import POPBO, LaplacePOPBO, MultipleChoicePOPBO
from botorch_pref.strategies.random_pairs import RandomPairs

__all__ = [
    "COBOHL",
    "COBOL",
    "DTS",
    "EUBO",
    "MRLPF",
    "PFTS",
    "POPBO",
    "BudgetedStrategy",
    "CompGPUCB",
    "CostAwareKG",
    "DuelingKG",
    "LaplacePOPBO",
    "MaxMinLCBStrategy",
    "MultipleChoicePOPBO",
    "RandomPairs",
    "Strategy",
    "UtilityStrategy",
]
