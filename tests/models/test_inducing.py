"""Which items are inducing items."""

from __future__ import annotations

import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_pref.models import preference_gp
from botorch_pref.models.preference_gp import most_varied
from tests.models.common import make_kernel, rand


def test_the_most_varied_items_are_a_pivoted_cholesky() -> None:
    kernel, items = make_kernel(2), rand(60, 2, seed=4)
    residual = kernel(items).to_dense().detach()
    expected = []
    for _ in range(12):
        pivot = int(residual.diagonal().argmax())
        expected.append(pivot)
        column = residual[:, pivot]
        residual = residual - torch.outer(column, column) / column[pivot]
    chosen = most_varied(kernel, items, 12)
    # The first of items of one prior variance is any of them.
    assert sorted(chosen.tolist()) == sorted(expected)


def test_repeated_items_are_chosen_once() -> None:
    items = rand(5, 2, seed=4).repeat(3, 1)
    chosen = most_varied(make_kernel(2), items, 9)
    assert len(torch.unique(items[chosen], dim=0)) == len(chosen) == 5


@pytest.mark.parametrize("scale", [4.0, 4e-8])
def test_as_many_as_asked_for(scale: float) -> None:
    """A smooth kernel has nothing left to explain long before; a fit may find a rough one."""
    kernel, items = make_kernel(1, outputscale=scale), rand(300, 1, seed=4)
    chosen = most_varied(kernel, items, 100)
    assert len(chosen.unique()) == 100
    places = items[chosen].flatten().sort().values
    assert float(places.diff().max()) < 0.03


def test_many_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preference_gp, "_CANDIDATES", 30)
    kernel, items = ScaleKernel(RBFKernel()).double(), rand(500, 3, seed=4)
    chosen = most_varied(kernel, items, 10)
    assert len(set(chosen.tolist())) == 10
    assert torch.equal(chosen, most_varied(kernel, items, 10))
    assert int(chosen.max()) >= 30  # not the first ones
