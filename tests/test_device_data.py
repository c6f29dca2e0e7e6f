"""On another device: batches of models that are fitted, and models that learn more."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from torch import Tensor

from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from tests.common import CPU, items_and_comparisons, same

X, COMPARISONS = items_and_comparisons()
BATCH = torch.stack([X, X.flip(-1) ** 2, 0.3 * X.flip(0)])
VARIANCES = torch.full((4, 1), 0.05, dtype=torch.float64)
AT = X[:6] + 0.05


def measured(items: Tensor) -> Tensor:
    """Values of items, one column."""
    return torch.sin(4.0 * items).sum(-1, keepdim=True)


def batch_of(device: torch.device, learns_noise: bool | None) -> PreferenceGP:
    """A batch of models; with values beside comparisons unless it is ``None``."""
    options: dict[str, Any] = {}
    if learns_noise is not None:
        rest = () if learns_noise else (VARIANCES.expand(3, -1, -1).to(device),)
        options["values"] = (BATCH[:, :4].to(device), measured(BATCH[:, :4]).to(device), *rest)
    return PreferenceGP(BATCH.to(device), COMPARISONS.expand(3, -1, -1).to(device), **options)


@torch.no_grad()
def evidences(model: PreferenceGP) -> Tensor:
    """Those of the elements."""
    return model.log_evidence()


_VALUES = [pytest.param(learns, marks=pytest.mark.slow) for learns in (False, True)]


@pytest.mark.parametrize("learns_noise", [None, *_VALUES])
def test_a_batch_is_fitted(device: torch.device, learns_noise: bool | None) -> None:
    def fitted(device: torch.device) -> PreferenceGP:
        model = batch_of(device, learns_noise)
        before = evidences(model)
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        assert (evidences(model) != before).all()
        return model

    there, here = fitted(device), fitted(CPU)
    moved = copy.deepcopy(there).cpu()
    # The searches end where the objective gains no more than 2e-9 of itself: there it is the same,
    # and hyperparameters are to about its root. At equal hyperparameters all is the same.
    same(evidences(there), evidences(moved))
    same(there.posterior(BATCH[:, :3].to(device)).mean, moved.posterior(BATCH[:, :3]).mean)
    torch.testing.assert_close(evidences(moved), evidences(here), rtol=1e-8, atol=1e-7)
    for (name, found), wanted in zip(there.named_parameters(), here.parameters(), strict=True):
        assert found.device == device, name
        torch.testing.assert_close(found.cpu(), wanted, rtol=1e-4, atol=1e-4)


def learnt_values(device: torch.device) -> PreferenceGP:
    """A model that learns the noise of values."""
    values = (X[:4].to(device), measured(X[:4]).to(device))
    return PreferenceGP(X.to(device), COMPARISONS.to(device), values=values).to(device)


def known_values(device: torch.device) -> PreferenceGP:
    """A model that is told the noise of values."""
    values = (X[:4].to(device), measured(X[:4]).to(device), VARIANCES.to(device))
    return PreferenceGP(X.to(device), COMPARISONS.to(device), values=values)


def no_values(device: torch.device) -> PreferenceGP:
    """A model of comparisons, to which the first values come later."""
    return PreferenceGP(X.to(device), COMPARISONS.to(device))


@pytest.mark.parametrize("make", [learnt_values, known_values, no_values])
def test_duels_are_appended(
    device: torch.device, make: Callable[[torch.device], PreferenceGP]
) -> None:
    """After a posterior and before the next one, as a loop has it."""

    @torch.no_grad()
    def results(device: torch.device) -> list[Tensor]:
        model = make(device)
        found = [model.posterior(AT.to(device)).mean]
        for row in (0, 1):
            pair = torch.stack([X[row], AT[0]]).unsqueeze(0).to(device)
            model = model.condition_on_pairs(pair, pair.new_ones(1))
            posterior = model.posterior(AT.to(device))
            found += [posterior.mean, posterior.covariance_matrix, model.log_evidence()]
        assert model.items.device == device
        assert all(tensor.device == device for tensor in found)
        return found

    for found, wanted in zip(results(device), results(CPU), strict=True):
        same(found, wanted)
