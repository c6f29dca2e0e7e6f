r"""Rules for the next query, as BoTorch acquisition functions."""

from botorch_pref.acquisition.advantage_ucb import AdvantageUCB
from botorch_pref.acquisition.base import ItemAcquisitionFunction, PairAcquisitionFunction
from botorch_pref.acquisition.comparison_filtered_ucb import ComparisonFilteredUCB
from botorch_pref.acquisition.dueling_thompson import DuelingThompsonSampling
from botorch_pref.acquisition.expert_augmented_lcb import ExpertAugmentedLCB
from botorch_pref.acquisition.knowledge_gradient import (
    DiscreteKnowledgeGradient,
    DuelingKnowledgeGradient,
    SeenTable,
    gain_of_question,
)
from botorch_pref.acquisition.log_human_constrained_ei import LogHumanConstrainedEI
from botorch_pref.acquisition.max_min_lcb import MaxMinLCB
from botorch_pref.acquisition.optimistic_acceptance import OptimisticAcceptance
from botorch_pref.acquisition.optimistic_advantage import OptimisticAdvantage, OptimisticChoice
from botorch_pref.acquisition.pair_as_point import PairAsPoint
from botorch_pref.acquisition.pair_variance import PairVariance
from botorch_pref.acquisition.standard_units import standardised_posterior
from botorch_pref.acquisition.utils import difference_moments

__all__ = [
    "AdvantageUCB",
    "ComparisonFilteredUCB",
    "DiscreteKnowledgeGradient",
    "DuelingKnowledgeGradient",
    "DuelingThompsonSampling",
    "ExpertAugmentedLCB",
    "ItemAcquisitionFunction",
    "LogHumanConstrainedEI",
    "MaxMinLCB",
    "OptimisticAcceptance",
    "OptimisticAdvantage",
    "OptimisticChoice",
    "PairAcquisitionFunction",
    "PairAsPoint",
    "PairVariance",
    "SeenTable",
    "difference_moments",
    "gain_of_question",
    "standardised_posterior",
]
