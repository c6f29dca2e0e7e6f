r"""Searches for COBOL's candidates, and what the models say of them."""

from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from torch import Tensor

from botorch_pref.acquisition.standard_units import standardised_posterior
from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.space import Maximum, SearchSpace

RAW_SAMPLES = 256
TOLERANCE = 1e-6  # of bounds within a line search, logits


@torch.no_grad()
def deviation_at(model: SingleTaskGP, item: Tensor) -> float:
    """The standardised deviation of the latent objective at a ``d``-dim item."""
    return float(standardised_posterior(model, item.unsqueeze(0))[1])


@torch.no_grad()
def interval(model: LikelihoodRatioModel, item: Tensor) -> tuple[float, float]:
    """Both ends of the expert's belief at a ``d``-dim item, logits."""
    return float(model.lower(item)), float(model.upper(item))


def best(space: SearchSpace, rule: AcquisitionFunction, seed: int, starts: Tensor) -> Maximum:
    """Where a rule is largest, from ``s x d``-dim starts as well; no worse than at any of them."""
    found = space.maximize(rule, seed=seed, starts=starts.unsqueeze(-2), raw_samples=RAW_SAMPLES)
    if space.choices is not None or not len(starts):
        return found
    with torch.no_grad():
        values = rule(starts.unsqueeze(-2))
    top = int(values.argmax())
    if float(values[top]) > float(found.value):
        return Maximum(starts[top : top + 1], values[top], None)
    return found
