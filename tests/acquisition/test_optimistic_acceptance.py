"""The expert alone: the value, and where it leaves the sum of objective and expert."""

from __future__ import annotations

import pytest
import torch

from botorch_pref.acquisition import ExpertAugmentedLCB, OptimisticAcceptance
from botorch_pref.space import SearchSpace
from tests.acquisition.expert import label_set, with_standardize
from tests.contracts.acquisition import BOUNDS, ItemAcquisitionContract
from tests.models.common import rand
from tests.models.confidence_sets import make_set, rbf

POINTS = rand(20, 2, seed=4)
REF = torch.tensor([0.35, 0.6], dtype=torch.float64)


class TestContract(ItemAcquisitionContract):
    repeated = 1e-11

    def make(self) -> OptimisticAcceptance:
        return OptimisticAcceptance(label_set(), tolerance=1e-12)

    @pytest.mark.filterwarnings(
        "ignore:Failed to extract X_baseline:botorch.exceptions.warnings.BotorchWarning"
    )
    def test_starts_around_observed_items(self) -> None:
        """There is no posterior mean that would say where: BoTorch warns, and goes on."""
        super().test_starts_around_observed_items()


@torch.no_grad()
def test_value_is_the_largest_latent() -> None:
    for box in (None, 1.0):
        model = label_set(box=box)
        values = OptimisticAcceptance(model)(POINTS.unsqueeze(-2))
        torch.testing.assert_close(values, model.upper(POINTS), atol=1e-8, rtol=0)
    judged = make_set(slack=0.5)
    pairs = torch.stack([POINTS, REF.expand_as(POINTS)], dim=-2)
    values = OptimisticAcceptance(judged, x_ref=REF)(POINTS.unsqueeze(-2))
    torch.testing.assert_close(values, judged.advantage(pairs), atol=1e-8, rtol=0)


def test_best_item_of_an_expert_who_accepts_nothing() -> None:
    """No item is feasible; this is the least infeasible one."""
    labels = label_set(torch.zeros(10), covar_module=rbf(5.0, 2), slack=0.01)
    rule = ExpertAugmentedLCB(with_standardize(), labels, 0.2, 0.0)
    found = SearchSpace(BOUNDS).maximize(OptimisticAcceptance(labels), raw_samples=128)
    with torch.no_grad():
        others = rule.feasibility(rand(500, 2, seed=6))
    assert float(others.max()) - 1e-6 <= float(found.value) < 0.0
