"""The knowledge gradients in BoTorch's registry: arguments, defaults, reloading."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import get_acqf_input_constructor

import botorch_pref.acquisition
from botorch_pref.acquisition import DiscreteKnowledgeGradient, DuelingKnowledgeGradient
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import ProbitLikelihood
from botorch_pref.models import PreferenceGP
from tests.acquisition.knowledge import REFERENCE, biased_model, model, project
from tests.models.common import make_kernel, rand

RULES = (DiscreteKnowledgeGradient, DuelingKnowledgeGradient)
BOX = [(0.0, 1.0), (-1.0, 3.0)]
rules = pytest.mark.parametrize("cls", RULES)


def build(cls: type[AcquisitionFunction], of: Any, **kwargs: Any) -> Any:
    return cls(**get_acqf_input_constructor(cls)(model=of, **kwargs))


@rules
def test_from_a_model_alone(cls: type[AcquisitionFunction]) -> None:
    rule = build(cls, model(), training_data=None, objective=None, X_pending=None)
    assert type(rule) is cls
    assert torch.equal(rule.reference, model().items)
    wide = build(cls, model(), bounds=BOX, num_reference=16)
    assert len(wide.reference) == len(model().items) + 16
    seen = build(cls, biased_model(), project=project)
    assert torch.equal(seen.reference, project(biased_model().items))


@rules
def test_arguments(cls: type[AcquisitionFunction]) -> None:
    link = ProbitLikelihood()
    own = {"noise": 0.5} if cls is DiscreteKnowledgeGradient else {"likelihood": link}
    options = {"reference": REFERENCE, "repeats": (2,), **own}
    X = rand(4, 1 if cls is DiscreteKnowledgeGradient else 2, 2)
    assert torch.equal(build(cls, model(), **options)(X), cls(model(), **options)(X))
    with pytest.raises(TypeError, match="betta"):
        build(cls, model(), betta=1.0)
    with pytest.raises(UnsupportedError, match=cls.__name__):
        build(cls, model(), X_pending=rand(1, 2))
    prior = PreferenceGP(None, None, covar_module=make_kernel(2))
    with pytest.raises(ComparisonDataError, match="`reference` or `bounds`"):
        build(cls, prior)


def test_reloading() -> None:
    importlib.reload(botorch_pref.acquisition.knowledge_constructors)
    assert build(DuelingKnowledgeGradient, model()).repeats
