"""What is brought to the CPU and sent from there, counted on the emulated device."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.inference import PrimalSystem, find_mode
from botorch_pref.inference.inducing import InducingSystem
from botorch_pref.kernels import ComparisonBiasKernel
from botorch_pref.kernels.items import default_covar_module
from botorch_pref.likelihood_ratio.interior_point import Barrier, InteriorPoint
from botorch_pref.models import LikelihoodRatioModel, PreferenceGP
from tests._reference.second_device import second_device
from tests.common import emulated, items_and_comparisons

INDUCING = {"inducing_points": 6}


@emulated
@pytest.mark.parametrize(
    ("options", "is_streamed"), [({}, False), (INDUCING, False), (INDUCING, True)]
)
def test_one_value_a_newton_step_is_brought_to_the_cpu(
    options: dict[str, Any], is_streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing is sent."""
    if is_streamed:
        monkeypatch.setattr("botorch_pref.inference.inducing._STORED_ENTRIES", 0)
        monkeypatch.setattr("botorch_pref.inference.inducing._DEVICE_ENTRIES", 13 * 6)
    X, comparisons = items_and_comparisons()
    with second_device() as (device, counts):
        model = PreferenceGP(X.to(device), comparisons.to(device), **options)
        system = model.system(model.items, model.observed())
        start = None
        if isinstance(system, PrimalSystem):
            assert len(system.root)  # is taken when first asked for
        if isinstance(system, InducingSystem):
            assert (len(system.blocks) > 1) == is_streamed
            start = system.covariance.new_zeros(6)  # else a part of the rows has a mode of its own
        before, sent = counts.transfers, counts.sent
        mode = find_mode(system, start=start)
        taken = counts.transfers - before
        assert counts.sent == sent
        steps = int(mode.num_steps.max())
    # One a step, one before the first, one to see whether a trial is left, one to warn.
    assert steps < taken <= steps + 3
    assert mode.converged.all()


@emulated
@pytest.mark.parametrize("method", [InteriorPoint, Barrier])
def test_one_value_a_step_of_the_likelihood_ratio_solver_is_brought_to_the_cpu(
    method: type[InteriorPoint], monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, steps = [], []
    maximize, advance = method.maximize, method._advance

    def counted(solver: InteriorPoint, *args: Any) -> Any:
        before, known = counts.transfers, len(steps)
        found = maximize(solver, *args)
        # One before the first.
        taken.append(counts.transfers - before == len(steps) - known + 1)
        return found

    def step(solver: InteriorPoint, *args: Any) -> None:
        steps.append(True)
        advance(solver, *args)

    X, comparisons = items_and_comparisons(4, 5)
    kernel = default_covar_module(2, torch.Size()).to(X)
    monkeypatch.setattr("botorch_pref.likelihood_ratio.interior_point.InteriorPoint", method)
    monkeypatch.setattr(method, "maximize", counted)
    monkeypatch.setattr(method, "_advance", step)
    with second_device() as (device, counts):
        model = LikelihoodRatioModel.from_comparisons(
            X.to(device), comparisons.to(device), covar_module=kernel.to(device), norm_bound=2.0
        )
        upper = model.upper(X.to(device))
    assert upper.isfinite().all()
    assert len(steps) > 5
    assert taken
    assert all(taken)


@emulated
@pytest.mark.parametrize("fixed", [True, False])
def test_constants_are_made_where_they_are_used(fixed: bool) -> None:
    """Nodes of a quadrature are sent once, the rest never: each copy would wait."""
    X, comparisons = items_and_comparisons()
    variances = torch.full((4, 1), 0.1, dtype=torch.float64)
    kernel = ComparisonBiasKernel(default_covar_module(2, torch.Size()).to(X), bias=0.1)

    def used(tensors: list[Tensor]) -> None:
        items, rows, targets, noise, marked = tensors
        values = (items[:4], targets, noise)
        link_scale = 1.5 if fixed else None
        model = PreferenceGP(items, rows, values=values, link_scale=link_scale).to(items)
        before = counts.sent
        assert model.win_probability(items.view(6, 2, 2)).isfinite().all()
        assert model.log_evidence().isfinite()
        assert kernel(marked).to_dense().isfinite().all()
        sent.append(counts.sent - before)

    sent: list[int] = []
    with second_device() as (device, counts):
        kernel.to(device)
        given = (X, comparisons, X[:4, :1], variances, torch.cat([X, X[:, :1]], -1))
        moved = [tensor.to(device) for tensor in given]
        used(moved)
        used(moved)
    assert sent[1] == 0
