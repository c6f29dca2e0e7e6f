"""Pairs as points: BoTorch's own rules under the wrapper, and pending pairs."""

from __future__ import annotations

import torch
from botorch.acquisition.fixed_feature import FixedFeatureAcquisitionFunction
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from torch import Size, Tensor

from botorch_pref.acquisition import PairAcquisitionFunction, PairAsPoint, PairVariance
from tests.acquisition.common import make_model
from tests.contracts.acquisition import BOUNDS
from tests.models.common import rand


class PendingRecorder(PairAcquisitionFunction):
    """A smooth rule that keeps away from pending pairs and remembers what it was told."""

    def __init__(self) -> None:
        super().__init__(model=make_model())
        self.told: list[Tensor | None] = []
        self.pending: Tensor | None = None

    def set_pending_pairs(self, pairs: Tensor | None) -> None:
        self.told.append(pairs)
        self.pending = pairs

    def forward(self, X: Tensor) -> Tensor:
        assert X.shape[-2] == 2, "Expected X to be `batch_shape x q=2 x d`"
        value = -(X - 0.7).square().sum((-1, -2))
        if self.pending is not None:
            gap = (X.unsqueeze(-3) - self.pending).square().sum((-1, -2))
            value = value - 4 * torch.exp(-8 * gap).sum(-1)
        return value


def test_sequential_pairs_know_of_each_other() -> None:
    rule = PendingRecorder()
    torch.manual_seed(0)
    pairs, _ = optimize_acqf(
        PairAsPoint(rule),
        BOUNDS.repeat(1, 2),
        q=3,
        sequential=True,
        num_restarts=4,
        raw_samples=64,
    )
    assert [0 if told is None else len(told) for told in rule.told] == [1, 2, 0]
    assert torch.equal(rule.told[1], pairs[:2].view(2, 2, 2))
    assert rule.X_pending is None
    torch.testing.assert_close(pairs[0], torch.full((4,), 0.7).double(), atol=1e-3, rtol=0.0)
    distance = torch.cdist(pairs, pairs)[torch.triu_indices(3, 3, 1).unbind()]
    assert distance.min() > 0.2


def test_rules_of_botorch() -> None:
    model = make_model()
    pairs = rand(5, 2, 2, seed=1)
    analytic = AnalyticExpectedUtilityOfBestOption(pref_model=model)
    point = PairAsPoint(analytic)
    torch.testing.assert_close(point(pairs.view(5, 1, 4)), analytic(pairs))
    sampler = SobolQMCNormalSampler(Size([32]), seed=0)
    sampled = qExpectedUtilityOfBestOption(pref_model=model, sampler=sampler)
    point = PairAsPoint(sampled)
    torch.testing.assert_close(point(pairs.view(5, 1, 4)), sampled(pairs))
    point.set_X_pending(pairs[:2].flatten(1))
    assert torch.equal(sampled.X_pending, pairs[:2].flatten(0, 1))
    point.set_X_pending(None)
    assert sampled.X_pending is None


def test_pairs_are_pending_under_a_wrapper_of_botorch() -> None:
    """Which sets an attribute in place of calling a method."""
    rule = PairAsPoint(PairVariance(make_model()))
    wrapped = FixedFeatureAcquisitionFunction(rule, d=4, columns=[0, 2], values=[0.5, 0.5])
    X = rand(3, 1, 2)
    before = wrapped(X).detach()
    wrapped.X_pending = X[:1, 0]
    assert rule.X_pending is not None
    assert bool(wrapped(X)[0] < before[0])
    wrapped.X_pending = None
    torch.testing.assert_close(wrapped(X).detach(), before)
