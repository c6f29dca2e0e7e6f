"""Moments of a difference, and the checks of the rules' arguments."""

from __future__ import annotations

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.likelihoods.pairwise import (
    PairwiseLogitLikelihood,
    PairwiseProbitLikelihood,
)

from botorch_pref.acquisition import AdvantageUCB, PairAsPoint, PairVariance
from botorch_pref.acquisition.utils import checked_beta, difference_moments, link_of
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import PreferenceGP
from tests.acquisition.common import botorch_model, make_model, tables
from tests.models.common import LinearMean, rand


def model_of_values() -> SingleTaskGP:
    X = rand(8, 2)
    model = SingleTaskGP(X, (3 * X).sin().sum(-1, keepdim=True))
    model.eval()
    return model


def sloped() -> PreferenceGP:
    return make_model(mean_module=LinearMean(1.7))


@torch.no_grad()
@pytest.mark.parametrize("make", [sloped, botorch_model, model_of_values])
def test_moments_are_those_of_the_joint_posterior(make: object) -> None:
    model, items = make(), rand(6, 2, seed=4)  # type: ignore[operator]
    joint = model.posterior(items)
    mean, deviation = tables(joint.mean.squeeze(-1), joint.covariance_matrix)
    rows = torch.cartesian_prod(torch.arange(6), torch.arange(6))
    found_mean, variance = difference_moments(model, items[rows].view(6, 6, 2, 2))
    torch.testing.assert_close(found_mean, mean, atol=1e-8, rtol=0.0)
    off = ~torch.eye(6, dtype=torch.bool)
    # BoTorch's model adds jitter to a batch in which two items are one.
    jitter = 1e-5 if make is botorch_model else 1e-8
    torch.testing.assert_close(variance[off], deviation[off].square(), atol=jitter, rtol=1e-6)
    assert torch.equal(found_mean.diagonal(), torch.zeros(6).double())
    assert torch.equal(variance.diagonal(), torch.zeros(6).double())


def test_link() -> None:
    own = make_model(likelihood=ProbitLikelihood(scale=0.3))
    assert link_of(own) is own.likelihood
    other = LogitLikelihood(scale=2.0)
    assert link_of(own, other) is other
    h = torch.linspace(-3, 3, 7).double()
    utility, D = torch.stack([h, 0 * h], -1), torch.tensor([[1.0, -1.0]]).double()
    for theirs in (PairwiseLogitLikelihood(), PairwiseProbitLikelihood()):
        torch.testing.assert_close(link_of(own, theirs)(h), theirs.p(utility, D).squeeze(-1))
    assert isinstance(link_of(botorch_model()), LogitLikelihood)
    with pytest.raises(UnsupportedError, match="GaussianLikelihood of SingleTaskGP has no known"):
        link_of(model_of_values())
    with pytest.raises(UnsupportedError, match="Identity of PreferenceGP"):
        link_of(own, torch.nn.Identity())


def test_beta() -> None:
    assert [checked_beta(beta) for beta in (0, 0.0, 2)] == [0.0, 0.0, 2.0]
    for beta in (-1.0, float("nan"), float("inf"), "one", None):
        with pytest.raises(ComparisonDataError, match="`beta`"):
            checked_beta(beta)  # type: ignore[arg-type]


def test_other_columns_than_the_models_are_refused_by_name() -> None:
    model = PreferenceGP(rand(4, 2), torch.tensor([[0, 1], [2, 3]]))
    with pytest.raises(ComparisonDataError, match="`x_ref` must have 2 columns"):
        AdvantageUCB(model, rand(3), 1.0)
    with pytest.raises(ComparisonDataError, match="`X` must be b x q x 2d pairs"):
        PairAsPoint(PairVariance(model))(rand(3, 1, 3))
    with pytest.raises(ComparisonDataError, match="`X` must be b x q x d points"):
        model.posterior(rand(2))
    # Without data a model knows no columns.
    assert AdvantageUCB(PreferenceGP(None, None), rand(3), 1.0)(rand(2, 1, 3)).shape == (2,)
