"""What every rule for pairs or items must do under BoTorch."""

from __future__ import annotations

import copy
import pickle
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.exceptions.errors import BotorchError
from botorch.optim import optimize_acqf, optimize_acqf_discrete, optimize_acqf_mixed
from torch import Tensor

from botorch_pref.acquisition import ItemAcquisitionFunction, PairAcquisitionFunction, PairAsPoint
from botorch_pref.exceptions import UnsupportedError
from tests.common import same
from tests.models.common import numerical_gradient, rand

DIM = 2
BOUNDS = torch.tensor([[0.0] * DIM, [1.0] * DIM], dtype=torch.float64)
OPTIONS: dict[str, Any] = {"num_restarts": 2, "raw_samples": 32}
# For searches whose end is immaterial.
SHORT: dict[str, Any] = {"num_restarts": 1, "raw_samples": 8, "options": {"maxiter": 5}}


class AcquisitionContract(ABC):
    """What holds for pairs and for single items, over two-dimensional items."""

    q: ClassVar[int]
    options: ClassVar[dict[str, Any]] = OPTIONS  # of BoTorch's optimizers
    instead: ClassVar[str]  # what the refusal of pending points names
    portable: ClassVar[bool] = True  # BoTorch's PairwiseGP loses its mode where it is moved

    @abstractmethod
    def make(self) -> AcquisitionFunction:
        """The rule, the same one at every call."""

    def test_value_is_one_number_a_batch(self) -> None:
        rule, X = self.make(), rand(7, self.q, DIM)
        values = rule(X)
        assert values.shape == (7,)
        torch.testing.assert_close(rule(X), values, atol=0.0, rtol=0.0)
        assert torch.equal(self.make()(X), values)
        alone = torch.cat([rule(part.unsqueeze(0)) for part in X])
        torch.testing.assert_close(alone, values, atol=1e-10, rtol=0.0)
        stacked = rule(X[:6].view(2, 3, self.q, DIM))
        torch.testing.assert_close(stacked.flatten(), values[:6], atol=1e-10, rtol=0.0)
        assert rule(X[:0]).shape == (0,)

    def test_no_other_q_has_a_value(self) -> None:
        for q in {1, 2, 3} - {self.q}:
            with pytest.raises((BotorchError, AssertionError), match=rf"q ?= ?{self.q}"):
                self.make()(rand(4, q, DIM))
        with pytest.raises((BotorchError, AssertionError)):
            optimize_acqf(self.make(), BOUNDS, q=2, sequential=True, **SHORT)

    def test_gradient(self) -> None:
        rule, at = self.make(), (0.1 + 0.8 * rand(3, self.q, DIM, seed=5)).requires_grad_()
        (gradient,) = torch.autograd.grad(rule(at).sum(), at)
        numerical = numerical_gradient(lambda X: rule(X).sum(), at)
        torch.testing.assert_close(gradient, numerical, atol=1e-6, rtol=1e-6)

    def test_pending_points_are_refused(self) -> None:
        rule = self.make()
        assert rule.X_pending is None
        rule.X_pending = None
        rule.set_X_pending(None)
        for refuse in (rule.set_X_pending, lambda X: setattr(rule, "X_pending", X)):
            with pytest.raises(UnsupportedError, match=self.instead):
                refuse(rand(1, DIM))
        assert rule.X_pending is None

    def test_copies(self) -> None:
        if not self.portable:
            pytest.skip("PairwiseGP loses its mode where it is copied or moved")
        rule, X = self.make(), rand(4, self.q, DIM)
        for _ in range(2):  # the second time after a call
            for other in (copy.deepcopy(rule), pickle.loads(pickle.dumps(rule))):
                torch.testing.assert_close(other(X), rule(X), atol=0.0, rtol=0.0)

    def test_on_a_device(self, device: torch.device) -> None:
        if not self.portable:
            pytest.skip("PairwiseGP loses its mode where it is copied or moved")
        rule, X = self.make(), rand(20, self.q, DIM)
        expected = rule(X)
        values = copy.deepcopy(rule).to(device)(X.to(device))
        assert values.device == device
        same(values, expected)

    def test_joint_optimisation(self) -> None:
        rule = self.make()
        torch.manual_seed(0)
        best, value = optimize_acqf(rule, BOUNDS, q=self.q, **self.options)
        assert best.shape == (self.q, DIM)
        with torch.no_grad():
            found, random = rule(best.unsqueeze(0)), rule(rand(200, self.q, DIM, seed=1))
        assert float(value) == pytest.approx(float(found), abs=1e-8)
        assert float(found) >= float(random.max())

    @property
    def point(self) -> tuple[AcquisitionFunction, Tensor]:
        """The rule with ``q=1`` and its bounds."""
        rule = self.make()
        return (rule, BOUNDS) if self.q == 1 else (PairAsPoint(rule), BOUNDS.repeat(1, 2))

    def test_mixed_optimisation(self) -> None:
        torch.manual_seed(0)
        features = [{0: 0.25}, {0: 0.75}]
        for number in {1, self.q}:
            # Enough that the gain by knowledge, zero of most pairs, is not zero of all.
            options = {**SHORT, "raw_samples": 64}
            best, _ = optimize_acqf_mixed(
                *self.point, q=number, fixed_features_list=features, **options
            )
            assert best.shape == (number, self.q * DIM)
            assert all(float(one) in (0.25, 0.75) for one in best[:, 0])
            assert ((best >= 0.0) & (best <= 1.0)).all()

    def test_discrete_optimisation(self) -> None:
        items, (rule, _) = rand(6, DIM, seed=3), self.point
        table = items[torch.combinations(torch.arange(6), self.q)].flatten(1)
        best, value = optimize_acqf_discrete(rule, q=1, choices=table)
        with torch.no_grad():
            expected = rule(table.unsqueeze(-2))
        assert torch.equal(best, table[expected.argmax()].unsqueeze(0))
        assert float(value) == pytest.approx(float(expected.max()))
        if self.q == 2:
            best, _ = optimize_acqf_discrete(rule, q=3, choices=table, unique=True)
            assert len(best.unique(dim=0)) == 3


class ItemAcquisitionContract(AcquisitionContract):
    """Subclass, name ``Test...`` and say how to make the rule, over two-dimensional items."""

    q = 1
    instead = "condition_on_pairs"

    def test_is_an_acquisition_function(self) -> None:
        assert isinstance(self.make(), ItemAcquisitionFunction)

    def test_starts_around_observed_items(self) -> None:
        torch.manual_seed(0)
        options = {**SHORT, "options": {"sample_around_best": True, "maxiter": 5}}
        best, _ = optimize_acqf(self.make(), BOUNDS, q=1, **options)
        assert best.shape == (1, DIM)


class PairAcquisitionContract(AcquisitionContract):
    """Subclass, name ``Test...`` and say how to make the rule, over two-dimensional items."""

    q = 2
    instead = "PairAsPoint"

    @abstractmethod
    def make(self) -> PairAcquisitionFunction:
        """The rule, the same one at every call."""

    def test_several_pairs_are_told_the_way_out(self) -> None:
        with pytest.raises(UnsupportedError, match="PairAsPoint"):
            self.make()(rand(3, 4, DIM))
        with pytest.raises(UnsupportedError, match="PairAsPoint"):
            optimize_acqf(self.make(), BOUNDS, q=4, **SHORT)

    def test_as_a_point(self) -> None:
        rule, pairs = self.make(), rand(5, 2, DIM)
        assert isinstance(rule, PairAcquisitionFunction)
        point = PairAsPoint(rule)
        assert torch.equal(point(pairs.view(5, 1, 2 * DIM)), rule(pairs))
        # The joint value that BoTorch asks for after it has chosen pairs one by one.
        both = point(pairs[:4].view(2, 2, 2 * DIM))
        torch.testing.assert_close(both, rule(pairs[:4]).view(2, 2).sum(-1))

    def test_sequential_optimisation_of_pairs(self) -> None:
        torch.manual_seed(0)
        point, bounds = self.point
        pairs, values = optimize_acqf(point, bounds, q=2, sequential=True, **SHORT)
        assert pairs.shape == (2, 2 * DIM)
        assert values.shape == (2,)
        assert point.X_pending is None
        assert ((pairs >= 0.0) & (pairs <= 1.0)).all()
