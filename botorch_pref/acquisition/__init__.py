r"""Rules for the next query, as BoTorch acquisition functions."""

from botorch_pref.acquisition import input_constructors  # noqa: F401 (registers the rules)
from botorch_pref.acquisition.advantage_ucb import AdvantageUCB
from botorch_pref.acquisition.base import (
    ItemAcquisitionFunction,
    PairAcquisitionFunction,
    difference_moments,
    link_of,
)
from botorch_pref.acquisition.comparison_filtered_ucb import ComparisonFilteredUCB
from botorch_pref.acquisition.discrete_knowledge_gradient import DiscreteKnowledgeGradient
from botorch_pref.acquisition.dueling_knowledge_gradient import DuelingKnowledgeGradient
from botorch_pref.acquisition.dueling_thompson import DuelingThompsonSampling
from botorch_pref.acquisition.expert_augmented_lcb import ExpertAugmentedLCB
from botorch_pref.acquisition.log_human_constrained_ei import LogHumanConstrainedEI
from botorch_pref.acquisition.max_min_lcb import MaxMinLCB
from botorch_pref.acquisition.optimistic_acceptance import OptimisticAcceptance
from botorch_pref.acquisition.optimistic_advantage import OptimisticAdvantage
from botorch_pref.acquisition.optimistic_choice import OptimisticChoice
from botorch_pref.acquisition.pair_as_point import PairAsPoint
from botorch_pref.acquisition.pair_variance import PairVariance
from botorch_pref.acquisition.standard_units import standardised_posterior

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
    "difference_moments",
    "link_of",
    "standardised_posterior",
]
