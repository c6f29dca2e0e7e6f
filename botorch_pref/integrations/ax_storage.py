r"""What Ax's files hold of an experiment whose suggestions this package made.

Ax keeps with a suggestion the classes that it came from, and saves no class that it does not know.
"""

from __future__ import annotations

from ax.generators.torch.botorch_modular.acquisition import Acquisition
from ax.storage.botorch_modular_registry import (
    CLASS_TO_REGISTRY,
    CLASS_TO_REVERSE_REGISTRY,
    register_acquisition,
    register_acquisition_function,
    register_mll,
    register_model,
)
from ax.storage.json_store.decoders import class_from_json
from ax.storage.json_store.registry import CORE_CLASS_DECODER_REGISTRY

from botorch_pref.acquisition import (
    DuelingKnowledgeGradient,
    DuelingThompsonSampling,
    PairVariance,
)
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP

_RULES = (DuelingKnowledgeGradient, DuelingThompsonSampling, PairVariance)
_LIKELIHOODS = (LogitLikelihood, ProbitLikelihood)


def register_classes(acquisition_class: type[Acquisition]) -> None:
    r"""Tell Ax's storage this package's classes.

    Args:
        acquisition_class: Ax's ``Acquisition`` for rules that value a pair.
    """
    register_acquisition(acquisition_class)
    register_model(PreferenceGP)
    register_mll(LaplaceMarginalLogLikelihood)
    for rule in _RULES:
        register_acquisition_function(rule)
    # Ax's registry of likelihoods is that of Gaussian ones, to whose class ours do not belong.
    CLASS_TO_REGISTRY[BernoulliLikelihood] = {one: one.__name__ for one in _LIKELIHOODS}
    CLASS_TO_REVERSE_REGISTRY[BernoulliLikelihood] = {one.__name__: one for one in _LIKELIHOODS}
    CORE_CLASS_DECODER_REGISTRY[f"Type[{BernoulliLikelihood.__name__}]"] = class_from_json
