"""Differences from a table of rivals: those of the joint posterior, and what they cost."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from botorch.models.transforms.input import Normalize
from gpytorch.kernels import MaternKernel
from torch import Tensor

from botorch_pref.models import PreferenceGP
from botorch_pref.models.rivals import Rivals
from tests.acquisition.common import tables
from tests.models.common import make_duels, make_kernel, rand
from tests.models.mixed import make_mixed

TABLE = rand(9, 2, seed=11)


def make(num_items: int = 20, num_duels: int = 25, **options: Any) -> PreferenceGP:
    items, duels = make_duels(num_items, num_duels, 2)
    return PreferenceGP(items, duels, **{"covar_module": make_kernel(2), **options})


def assert_as_joint(
    model: PreferenceGP, rivals: Rivals, X: Tensor, table: Tensor = TABLE, atol: float = 1e-10
) -> None:
    num = X.shape[-2]
    with torch.no_grad():
        joint = model.posterior(torch.cat([X, table]))
        mean, deviation = tables(joint.mean.squeeze(-1), joint.covariance_matrix)
    found, variance = rivals.differences(model, X, table)
    torch.testing.assert_close(found, mean[:num, num:], atol=atol, rtol=0)
    torch.testing.assert_close(variance, deviation[:num, num:].square(), atol=atol, rtol=0)


@pytest.mark.parametrize(
    "model",
    [
        make(),
        make(variance=4.0),
        make(12, 60),
        make(inducing_points=7),
        make(input_transform=Normalize(2, bounds=torch.tensor([[-1.0, 0.0], [2.0, 3.0]]).double())),
        make_mixed(),
        PreferenceGP(None, None, covar_module=make_kernel(2)),
    ],
    ids=["answers", "kappa", "items", "inducing", "transformed", "values", "no data"],
)
def test_they_are_those_of_the_joint_posterior(model: PreferenceGP) -> None:
    rivals, X, table = Rivals(), rand(5, 2, seed=3), TABLE.clone()
    assert_as_joint(model, rivals, X, table)
    # Also by what is known from the first time, and after a change.
    assert_as_joint(model, rivals, X.flip(0), table)
    model.covar_module.outputscale = 9.0
    assert_as_joint(model, rivals, X, table)
    table[0] += 0.3
    assert_as_joint(model, rivals, X, table)
    for again in (copy.deepcopy(rivals), pickle.loads(pickle.dumps(rivals))):
        assert not again._known
        assert_as_joint(model, again, X, table)


@pytest.mark.parametrize("num_rivals", [3, 9])
@pytest.mark.parametrize("transformed", [False, True])
def test_of_a_batch_of_models(num_rivals: int, transformed: bool) -> None:
    """Also of as many models as rivals, whose output scales and transforms differ."""
    least = torch.tensor([[[0.0, 0.0]], [[-1.0, 0.0]], [[0.0, -2.0]]]).double()
    bounds = torch.cat([least, least + torch.tensor([1.0, 3.0]).double()], dim=-2)

    def options(number: int | None) -> dict[str, Any]:
        batch = [3] if number is None else []
        if not transformed:
            return {}
        own = bounds if number is None else bounds[number]
        return {"input_transform": Normalize(2, bounds=own, batch_shape=torch.Size(batch))}

    scales = torch.tensor([1.0, 4.0, 9.0]).double()
    data = [make_duels(6, 9, 2, seed=seed) for seed in range(3)]
    items, duels = (torch.stack(parts) for parts in zip(*data, strict=True))
    kernel = make_kernel(2, batch_shape=(3,))
    kernel.outputscale = scales
    model = PreferenceGP(items, duels, covar_module=kernel, **options(None))
    X, table = rand(4, 3, 5, 2, seed=3), TABLE[:num_rivals]
    mean, variance = Rivals().differences(model, X, table)
    for number, (own_items, own_duels) in enumerate(data):
        own_kernel = make_kernel(2, outputscale=float(scales[number]))
        alone = PreferenceGP(own_items, own_duels, covar_module=own_kernel, **options(number))
        own = Rivals().differences(alone, X[:, number], table)
        torch.testing.assert_close(mean[:, number], own[0], atol=1e-9, rtol=0)
        torch.testing.assert_close(variance[:, number], own[1], atol=1e-9, rtol=0)


def test_the_table_meets_the_items_once(monkeypatch: pytest.MonkeyPatch) -> None:
    forward, entries = MaternKernel.forward, [0]

    def counting(self: MaternKernel, x1: Tensor, x2: Tensor, **options: Any) -> Tensor:
        entries[0] += 0 if options.get("diag") else x1.shape[-2] * x2.shape[-2]
        return forward(self, x1, x2, **options)

    model, X = make(), rand(5, 2, seed=3)
    items = len(model.representer()[0])
    rivals = Rivals()
    monkeypatch.setattr(MaternKernel, "forward", counting)
    taken = []
    for table in (TABLE, TABLE, TABLE.clone()):
        entries[0] = 0
        rivals.differences(model, X, table)
        taken.append(entries[0])
    each = 5 * (items + 9)
    assert taken == [each + 9 * items, each, each + 9 * items]
