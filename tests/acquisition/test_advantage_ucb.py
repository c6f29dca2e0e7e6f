"""The optimistic advantage over one item."""

from __future__ import annotations

import pytest
import torch

from botorch_pref.acquisition import AdvantageUCB
from tests.acquisition.common import (
    REF,
    botorch_model,
    make_batched_model,
    make_botorch_model,
    make_model,
    tables,
)
from tests.contracts.acquisition import ItemAcquisitionContract
from tests.models.common import numerical_gradient, rand
from tests.models.mixed import oracle


class TestContract(ItemAcquisitionContract):
    def make(self) -> AdvantageUCB:
        return AdvantageUCB(make_model(variance=4.0), REF, beta=1.5)


class TestContractOfBotorchsModel(ItemAcquisitionContract):
    portable = False

    def make(self) -> AdvantageUCB:
        return AdvantageUCB(botorch_model(), REF, beta=0.7)


@torch.no_grad()
@pytest.mark.parametrize("variance", ["laplace", 4.0])
@pytest.mark.parametrize("beta", [0, 0.3, 2.0])
def test_value_is_that_of_brute_force(variance: str | float, beta: float) -> None:
    model, items = make_model(variance=variance), rand(20, 2, seed=4)
    mean, deviation = tables(*oracle(model, torch.cat([items, REF.unsqueeze(0)]))[:2])
    expected = (mean + beta * deviation)[:-1, -1]
    values = AdvantageUCB(model, REF, beta)(items.unsqueeze(-2))
    torch.testing.assert_close(values, expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("make", [make_model, make_botorch_model])
def test_zero_at_the_reference(make: object) -> None:
    rule = AdvantageUCB(make(), REF, beta=2.0)  # type: ignore[operator]
    at = REF.clone().view(1, 1, 2).requires_grad_()
    value = rule(at)
    (gradient,) = torch.autograd.grad(value.sum(), at)
    assert float(value.detach()) == 0.0
    assert gradient.isfinite().all()
    # Close by, where the standard deviation is as good as linear, the gradient is exact.
    near = (REF + 1e-2).view(1, 1, 2).requires_grad_()
    (gradient,) = torch.autograd.grad(rule(near).sum(), near)
    numerical = numerical_gradient(lambda X: rule(X).sum(), near)
    torch.testing.assert_close(gradient, numerical, atol=1e-4, rtol=1e-5)


@torch.no_grad()
def test_batched_model() -> None:
    model, alone = make_batched_model()
    items = rand(5, 1, 1, 2)
    values = AdvantageUCB(model, REF, 1.0)(items.expand(5, 3, 1, 2))
    assert values.shape == (5, 3)
    expected = [AdvantageUCB(one, REF, 1.0)(items[:, 0]) for one in alone]
    torch.testing.assert_close(values, torch.stack(expected, dim=-1), atol=1e-8, rtol=1e-8)
