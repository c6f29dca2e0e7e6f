"""COBOL's rule: units, signs, the envelope's gradient, the constraint, and BoTorch's optimizers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound

from botorch_pref.acquisition import ExpertAugmentedLCB, OptimisticAcceptance
from botorch_pref.models import LikelihoodRatioModel
from tests.acquisition.common import REF, make_botorch_model, make_model
from tests.acquisition.expert import (
    ACCEPT,
    AT,
    POINTS,
    Y,
    by_hand,
    label_gp,
    label_set,
    regression,
    standardised,
    with_standardize,
)
from tests.contracts.acquisition import ItemAcquisitionContract
from tests.models.common import rand
from tests.models.confidence_sets import make_set, unit_kernel


class TestContract(ItemAcquisitionContract):
    def make(self) -> ExpertAugmentedLCB:
        judged = make_set(slack=0.5)
        return ExpertAugmentedLCB(
            with_standardize(40.0 * Y), judged, 0.5, 0.3, x_ref=REF, tolerance=1e-12
        )


class TestContractOfGaussianLatent(ItemAcquisitionContract):
    def make(self) -> ExpertAugmentedLCB:
        return ExpertAugmentedLCB(by_hand(fixed=True), label_gp(), 2.0, 1.3)


class TestContractOfTheExpertAlone(ItemAcquisitionContract):
    def make(self) -> OptimisticAcceptance:
        return OptimisticAcceptance(label_set(), tolerance=1e-12)

    @pytest.mark.filterwarnings(
        "ignore:Failed to extract X_baseline:botorch.exceptions.warnings.BotorchWarning"
    )
    def test_starts_around_observed_items(self) -> None:
        """There is no posterior mean that would say where: BoTorch warns, and goes on."""
        super().test_starts_around_observed_items()


@torch.no_grad()
@pytest.mark.parametrize("beta", [0.0, 1.5, -1.0])
@pytest.mark.parametrize("weight", [0.0, 0.4, 3])
def test_value_is_the_sum_of_its_parts(beta: float, weight: float) -> None:
    mean, deviation = regression(POINTS, standardised(Y))
    judged, gaussian = label_set(), label_gp()
    latent = gaussian.posterior(AT)
    gaussian_upper = latent.mean.flatten() + latent.variance.flatten().sqrt()
    for labels, upper in ((judged, judged.upper(POINTS)), (gaussian, gaussian_upper)):
        rule = ExpertAugmentedLCB(with_standardize(), labels, beta, weight)
        expected = mean + beta * deviation + weight * upper
        torch.testing.assert_close(rule(AT), expected, atol=1e-8, rtol=0)
        alone = OptimisticAcceptance(labels)(AT)
        torch.testing.assert_close(alone, upper, atol=1e-8, rtol=0)


def test_other_signs_are_those_of_the_paper() -> None:
    """Minimise ``mean - beta sd + weight lower`` of ``-y``, where the label 1 rejects."""
    cost, rejecting = with_standardize(-Y), label_set(1.0 - ACCEPT)
    # With the sign of the values, that of the prior's mean changes as well.
    cost.mean_module.initialize(constant=-cost.mean_module.constant.detach())
    posterior = cost.posterior(AT)
    scale = cost.outcome_transform.stdvs.squeeze()
    mean = (posterior.mean.flatten() + Y.mean()) / scale
    deviation = posterior.variance.flatten().sqrt() / scale
    theirs = mean - 1.5 * deviation + 0.8 * rejecting.lower(POINTS)
    ours = ExpertAugmentedLCB(with_standardize(), label_set(), 1.5, 0.8)
    torch.testing.assert_close(ours(AT), -theirs, atol=1e-7, rtol=0)
    # What a rejection may be, at most, is what acceptance is at least.
    torch.testing.assert_close(
        label_set().lower(POINTS), -rejecting.upper(POINTS), atol=1e-7, rtol=0
    )


@torch.no_grad()
def test_without_a_weight_nothing_is_solved() -> None:
    labels = label_set()
    rule = ExpertAugmentedLCB(with_standardize(), labels, 1.5, 0.0)
    values = rule(AT)
    assert labels.status is None
    expected = UpperConfidenceBound(by_hand(), beta=1.5**2)(AT)
    torch.testing.assert_close(values, expected, atol=1e-8, rtol=0)
    torch.testing.assert_close(ExpertAugmentedLCB(by_hand(), None, 1.5, 0)(AT), values)


def test_pairs_determine_the_latent_up_to_a_constant() -> None:
    """The latent is that over a reference, where it is 0 in both ways of asking."""
    items, rows = rand(6, 2, seed=3), torch.tensor([[0, 1], [2, 3], [4, 0], [5, 1]])
    options: dict[str, Any] = {"covar_module": unit_kernel(2), "norm_bound": 2.0, "slack": 0.3}
    none = LikelihoodRatioModel.from_labels(
        items[:0], torch.empty(0, dtype=torch.double), **options
    )
    answers = torch.tensor([1.0, 0.0, 1.0, 1.0]).double()
    asked = none.condition_on_pairs(items[rows], answers)
    swapped = none.condition_on_pairs(items[rows].flip(-2), 1.0 - answers)
    gp = with_standardize()
    plain = ExpertAugmentedLCB(gp, None, 1.0, 0.0)
    alone = plain(AT)
    for x_ref in (items[2], REF):
        rules = [ExpertAugmentedLCB(gp, m, 1.0, 0.6, x_ref=x_ref) for m in (asked, swapped)]
        found, other = ((rule(AT) - alone) / 0.6 for rule in rules)
        torch.testing.assert_close(found, other, atol=1e-6, rtol=0)
        pairs = torch.stack([POINTS, x_ref.expand_as(POINTS)], dim=-2)
        torch.testing.assert_close(found, asked.advantage(pairs), atol=1e-8, rtol=0)
        at_reference = x_ref.view(1, 1, 2)
        assert torch.equal(rules[0](at_reference), plain(at_reference))


@torch.no_grad()
def test_preferences_with_a_gaussian_latent() -> None:
    model = make_model()
    mean, variance = model.difference_moments(torch.stack([POINTS, REF.expand_as(POINTS)], dim=-2))
    for labels in (model, make_botorch_model()):
        upper = OptimisticAcceptance(labels, x_ref=REF)(AT)
        torch.testing.assert_close(upper, mean + variance.sqrt(), atol=1e-5, rtol=0)
