r"""BoTorch models of comparisons, labels, choices and values."""

from botorch_pref.models import pathwise  # noqa: F401 (registers the draws of these models)
from botorch_pref.models.answer_parameters import AnnotatorEffects, CutPoints, learnt_of
from botorch_pref.models.base import LaplaceMarginalLogLikelihood
from botorch_pref.models.bernoulli_gp import BernoulliGP
from botorch_pref.models.borda_gp import BordaGP
from botorch_pref.models.cross_validation import (
    PairwisePredictions,
    pairwise_cross_validation,
)
from botorch_pref.models.fully_bayesian import FullyBayesianPreferenceGP
from botorch_pref.models.leaderboard import Leaderboard, rank_items
from botorch_pref.models.likelihood_ratio_model import LikelihoodRatioModel
from botorch_pref.models.middle_mean import MiddleMean
from botorch_pref.models.normal_belief import NormalBelief
from botorch_pref.models.preference_gp import PreferenceGP

__all__ = [
    "AnnotatorEffects",
    "BernoulliGP",
    "BordaGP",
    "CutPoints",
    "FullyBayesianPreferenceGP",
    "LaplaceMarginalLogLikelihood",
    "Leaderboard",
    "LikelihoodRatioModel",
    "MiddleMean",
    "NormalBelief",
    "PairwisePredictions",
    "PreferenceGP",
    "learnt_of",
    "pairwise_cross_validation",
    "rank_items",
]
