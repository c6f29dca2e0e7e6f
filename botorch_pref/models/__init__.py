r"""BoTorch models of judgements."""

from botorch_pref.models.bernoulli_gp import BernoulliGP
from botorch_pref.models.fitting import LaplaceMarginalLogLikelihood
from botorch_pref.models.preference_gp import PreferenceGP

__all__ = ["BernoulliGP", "LaplaceMarginalLogLikelihood", "PreferenceGP"]
