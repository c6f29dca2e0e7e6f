"""What may be given as a model's likelihood."""

from __future__ import annotations

import pytest
import torch
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood, PairwiseProbitLikelihood
from gpytorch.likelihoods import GaussianLikelihood
from torch.nn import Module

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import BernoulliGP, PreferenceGP
from tests.models.common import rand

PAIRS = torch.tensor([[0, 1], [2, 1], [3, 0], [2, 4]])


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (PairwiseLogitLikelihood(), LogitLikelihood()),
        (PairwiseProbitLikelihood(), ProbitLikelihood(scale=2**-0.5)),
    ],
)
def test_those_of_botorch_are_taken_for_ours(theirs: Module, ours: Module) -> None:
    X = rand(5, 2)
    found, wanted = (PreferenceGP(X, PAIRS, likelihood) for likelihood in (theirs, ours))
    torch.testing.assert_close(found.log_evidence(), wanted.log_evidence())
    torch.testing.assert_close(found.win_probability(X[:2]), wanted.win_probability(X[:2]))
    # BoTorch's probability of the first item, at two given utilities.
    utility = torch.tensor([0.3, -0.4]).double()
    probability = wanted.likelihood(utility[0] - utility[1])
    torch.testing.assert_close(
        torch.as_tensor(theirs.p(utility, torch.tensor([[1.0, -1.0]]).double())).squeeze(),
        probability,
    )


def test_others_are_refused_at_once() -> None:
    labels = torch.tensor([[1.0], [0.0], [1.0]]).double()
    with pytest.raises(UnsupportedError, match=r"`likelihood` must be .* GaussianLikelihood"):
        PreferenceGP(rand(5, 2), PAIRS, GaussianLikelihood())
    with pytest.raises(UnsupportedError, match="`likelihood`"):
        BernoulliGP(rand(3, 2), labels, likelihood=GaussianLikelihood())
