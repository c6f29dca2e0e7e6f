r"""BoTorch models of judgements."""

from botorch_pref.models.bernoulli_gp import BernoulliGP
from botorch_pref.models.borda import BordaGP
from botorch_pref.models.cross_validation import (
    PairwisePredictions,
    pairwise_cross_validation,
)
from botorch_pref.models.fitting import LaplaceMarginalLogLikelihood
from botorch_pref.models.likelihood_ratio import LikelihoodRatioModel
from botorch_pref.models.pathwise_hook import register as _register_draws
from botorch_pref.models.preference_gp import PreferenceGP

_register_draws()

__all__ = [
    "BernoulliGP",
    "BordaGP",
    "LaplaceMarginalLogLikelihood",
    "LikelihoodRatioModel",
    "PairwisePredictions",
    "PreferenceGP",
    "pairwise_cross_validation",
]
