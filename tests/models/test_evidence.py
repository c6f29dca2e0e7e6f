"""The evidence of a batch in pieces: the same values and gradients as all at once."""

from __future__ import annotations

import pytest
import torch
from torch import Size, Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference import evidence as laplace_evidence
from botorch_pref.inference.mode import _Newton
from botorch_pref.models import PreferenceGP, pieces
from botorch_pref.models.fitting import default_covar_module

BATCH, ITEMS = 5, 6


def model(shared: bool) -> PreferenceGP:
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(BATCH, ITEMS, 2, generator=generator, dtype=torch.float64)
    rows = torch.tensor([[0, 1], [2, 3], [5, 4], [0, 2]]).expand(BATCH, 4, 2)
    shape = Size() if shared else Size([BATCH])
    kernel = default_covar_module(2, shape).double()
    return PreferenceGP(X.requires_grad_(), rows, covar_module=kernel)


@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize("shared", [False, True])
def test_pieces_change_nothing(monkeypatch: pytest.MonkeyPatch, size: int, shared: bool) -> None:
    weights = torch.tensor([0.5, -1.0, 2.0, 0.0, 3.0], dtype=torch.float64)

    def gradients(entries: int) -> tuple[Tensor, ...]:
        monkeypatch.setattr(pieces, "_CACHED_ENTRIES", entries)
        gp = model(shared)
        value = gp.log_evidence()
        wanted = [gp.datapoints, *gp.covar_module.parameters()]
        return value.detach(), *torch.autograd.grad((weights * value).sum(), wanted)

    whole, split = gradients(10**6), gradients(size * ITEMS**2)
    for expected, found in zip(whole, split, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_a_first_evidence_costs_no_more_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The patience of a start that is close by would only prolong a search from zero."""
    monkeypatch.setattr(laplace_evidence, "_LARGE", 1)
    monkeypatch.setattr(pieces, "_CACHED_ENTRIES", ITEMS**2)
    looks, look = [0], _Newton.evaluate

    def watched(self: _Newton) -> None:
        looks[0] += 1
        look(self)

    monkeypatch.setattr(_Newton, "evaluate", watched)

    def count(*models: PreferenceGP) -> int:
        looks[0] = 0
        for gp in models:
            gp.log_evidence()
        return looks[0]

    batch = model(shared=False)
    loop = [
        PreferenceGP(x.detach(), rows, covar_module=default_covar_module(2, Size()).double())
        for x, rows in zip(batch.datapoints, batch.comparisons, strict=True)
    ]
    assert count(batch) == count(*loop)
    for gp in (batch, *loop):
        gp.covar_module.outputscale = 5.0
    assert count(batch) == count(*loop)


def test_pieces_have_first_derivatives_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "_CACHED_ENTRIES", ITEMS**2)
    gp = model(shared=False)
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        torch.autograd.grad(gp.log_evidence().sum(), gp.datapoints, create_graph=True)
    with torch.no_grad():
        assert not gp.log_evidence().requires_grad
