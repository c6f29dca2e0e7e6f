"""POP-BO's rule: its value, the envelope's gradient, and BoTorch's optimizers."""

from __future__ import annotations

import math

import pytest
import torch

from botorch_pref.acquisition import OptimisticAdvantage
from botorch_pref.likelihood_ratio import FINAL
from tests.acquisition.common import REF
from tests.contracts.acquisition import ItemAcquisitionContract
from tests.models.common import rand
from tests.models.confidence_sets import make_set, unit_kernel


class TestContract(ItemAcquisitionContract):
    def make(self) -> OptimisticAdvantage:
        return OptimisticAdvantage(make_set(slack=0.5), REF, tolerance=1e-12)

    @pytest.mark.filterwarnings(
        "ignore:Failed to extract X_baseline:botorch.exceptions.warnings.BotorchWarning"
    )
    def test_starts_around_observed_items(self) -> None:
        """There is no posterior mean that would say where: BoTorch warns, and goes on."""
        super().test_starts_around_observed_items()


def test_value_is_the_models_advantage() -> None:
    model = make_set()
    X = torch.cat([rand(10, 2, seed=4), model.items])
    for reference in (REF, model.items[2]):
        rule = OptimisticAdvantage(model, reference)
        assert rule.tolerance == FINAL
        pairs = torch.stack([X, reference.expand_as(X)], dim=-2)
        expected = model.advantage(pairs)
        torch.testing.assert_close(rule(X.unsqueeze(-2)), expected, atol=1e-8, rtol=0)
    at = model.items[2].view(1, 1, 2).clone().requires_grad_()
    value = rule(at)
    (gradient,) = torch.autograd.grad(value.sum(), at)
    assert float(value.detach()) == 0.0
    assert gradient.isfinite().all()


@pytest.mark.parametrize("dim", [1, 6])
@pytest.mark.parametrize("over_item", [True, False])
def test_gradient(dim: int, over_item: bool) -> None:
    """Away from the data, of whole batches, by the maximising function held fixed."""
    kernel = unit_kernel(dim, 0.4 * math.sqrt(dim))
    model = make_set(10, 15, dim, seed=dim, covar_module=kernel)
    rule = OptimisticAdvantage(model, model.items[0] if over_item else rand(dim, seed=3))
    X = rand(40, dim, seed=5)
    away = torch.cdist(X, torch.cat([model.items, rule.x_ref.unsqueeze(0)])).amin(-1)
    at = X[away > 0.05][:12].view(3, 4, 1, dim).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(rule(at).sum(), at)
    fine = OptimisticAdvantage(model, rule.x_ref, tolerance=1e-12)
    step = torch.zeros_like(at)
    for column in range(dim):
        step.zero_()[..., column] = 1e-3
        with torch.no_grad():
            near = fine(at + step) - fine(at - step)
            far = fine(at + 2 * step) - fine(at - 2 * step)
        slope = (8 * near - far) / 12e-3
        torch.testing.assert_close(gradient[..., 0, column], slope, atol=1e-6, rtol=0)
