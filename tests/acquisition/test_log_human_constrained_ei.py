"""HCEI: the product in its own units, far in the tails, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.stats import norm

from botorch_pref.acquisition import LogHumanConstrainedEI
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from tests.acquisition.common import REF, make_model
from tests.acquisition.expert import (
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
from tests.models.confidence_sets import make_set


class TestContract(ItemAcquisitionContract):
    def make(self) -> LogHumanConstrainedEI:
        return LogHumanConstrainedEI(with_standardize(), label_set(), Y.max())


@torch.no_grad()
@pytest.mark.parametrize("unit", [1.0, 1000.0, 1e-6])
def test_value_is_the_product(unit: float) -> None:
    mean, deviation = regression(POINTS, standardised(Y))
    u = ((mean - standardised(Y).max()) / deviation).numpy()
    improvement = deviation.numpy() * (norm.pdf(u) + u * norm.cdf(u))
    judged, gaussian = label_set(), label_gp()
    latents = judged.mle(POINTS), gaussian.posterior(AT).mean.flatten()
    for labels, latent in zip((judged, gaussian), latents, strict=True):
        expected = torch.from_numpy(improvement).log() - torch.log1p((-latent).exp())
        gp, best = with_standardize(unit * Y + 5 * unit), unit * (Y.max() + 5)
        for best_f in (best, float(best), best.view(1)):
            values = LogHumanConstrainedEI(gp, labels, best_f)(AT)
            torch.testing.assert_close(values, expected, atol=1e-6, rtol=1e-6)


@torch.no_grad()
@pytest.mark.parametrize("link", [LogitLikelihood(scale=2.0), ProbitLikelihood()])
def test_probability_is_that_of_the_models_link(link: Any) -> None:
    labels = label_set(likelihood=link)
    rule = LogHumanConstrainedEI(by_hand(), labels, 0.5)
    expected = rule.log_ei(AT) + link(labels.mle(POINTS)).log()
    torch.testing.assert_close(rule(AT), expected, atol=1e-10, rtol=0)


@torch.no_grad()
def test_over_a_reference() -> None:
    judged, gaussian = make_set(slack=0.5), make_model()
    pairs = torch.stack([POINTS, REF.expand_as(POINTS)], dim=-2)
    difference = judged.mle(POINTS) - judged.mle(REF.unsqueeze(0))
    mean, _ = gaussian.difference_moments(pairs)
    for model, latent in ((judged, difference), (gaussian, mean)):
        rule = LogHumanConstrainedEI(by_hand(), model, 0.5, x_ref=REF)
        expected = rule.log_ei(AT) + torch.sigmoid(latent).log()
        torch.testing.assert_close(rule(AT), expected, atol=1e-8, rtol=0)


def test_hopeless_items_still_have_a_gradient() -> None:
    sure = label_set(norm_bound=1e4, slack=0.01)
    rule = LogHumanConstrainedEI(with_standardize(), sure, 1e3 * Y.max())
    at = AT.clone().requires_grad_()
    values = rule(at)
    assert float(values.detach().max()) < -1e4
    (gradient,) = torch.autograd.grad(values.sum(), at)
    assert values.isfinite().all()
    assert gradient.isfinite().all()
    assert (gradient.norm(dim=-1) > 0).all()
