"""The gradient of the evidence through inducing items, by finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference import InducingSystem, inducing, log_evidence
from tests.inference.common import assert_equal, likelihood, make, rand, randn
from tests.inference.inducing import inducing_side, kernel_inputs, matern_items
from tests.models.common import numerical_gradient

N, M, P = 9, 20, 5
X, Z = rand(N, 2, seed=1), rand(P, 2, seed=5)
MEAN, FACTORS = randn(N, seed=3), 0.5 + rand(N, seed=6)
NAMES = ["items", "inducing items", "lengthscale", "outputscale", "factors", "mean"]


def evidence(arguments: list[Tensor], link: str) -> Tensor:
    *inputs, mean = arguments
    observations = make(X, M, 4, link=likelihood(link))
    latent = observations.incidence.apply(inputs[-1] * mean)
    return log_evidence(InducingSystem(matern_items(inputs), latent, observations))[0]


@pytest.mark.parametrize("link", ["logit", "probit"])
@pytest.mark.parametrize("name", NAMES)
def test_gradient(name: str, link: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inducing, "_BLOCK_ENTRIES", 7 * P)
    which = NAMES.index(name)
    arguments = [*kernel_inputs(X, Z, FACTORS), MEAN]

    def value(argument: Tensor) -> Tensor:
        return evidence([*arguments[:which], argument, *arguments[which + 1 :]], link)

    leaf = arguments[which].clone().requires_grad_()
    (found,) = torch.autograd.grad(3.0 * value(leaf), leaf)
    direction = randn(leaf.numel(), seed=which).view_as(leaf)
    moved = numerical_gradient(
        lambda t: value(leaf.detach() + t * direction), torch.zeros(()).double()
    )
    assert_equal((found * direction).sum(), 3.0 * moved, 1e-6)


def test_a_start_changes_nothing() -> None:
    system = inducing_side(X, Z, make(X, M), MEAN)
    value, mode = log_evidence(system)
    again, found = log_evidence(system, start=mode.weights)
    assert_equal(again, value, 1e-12)
    assert found.num_steps <= 1


def test_no_second_derivatives() -> None:
    leaves = [t.clone().requires_grad_() for t in (*kernel_inputs(X, Z), MEAN)]
    with pytest.raises(UnsupportedError, match="first derivatives only"):
        torch.autograd.grad(evidence(leaves, "logit"), leaves, create_graph=True)
