"""Fits of exact models that always end with a usable one."""

from __future__ import annotations

import torch

from botorch_pref.models import BordaGP
from botorch_pref.strategies.exact_fit import fit_exactly
from tests.models.common import rand


def test_a_search_that_rounds_a_scale_to_zero() -> None:
    """Its prior refuses to say how likely that is; everything is as it was."""
    model = BordaGP.from_duels(rand(12, 2), torch.arange(12).double() % 2)
    with torch.no_grad():
        model.covar_module.raw_outputscale.fill_(-800.0)
    assert model.covar_module.outputscale.item() == 0.0
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert not fit_exactly(model, seed=0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not model.training


def test_a_fit() -> None:
    model = BordaGP.from_duels(rand(12, 2), torch.arange(12).double() % 2)
    before = model.covar_module.outputscale.item()
    assert fit_exactly(model, seed=0)
    assert model.covar_module.outputscale.item() != before
