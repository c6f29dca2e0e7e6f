"""Moments of a difference, and the checks of the rules' arguments."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from botorch.models import ModelListGP, SingleTaskGP
from botorch.models.likelihoods.pairwise import PairwiseLogitLikelihood, PairwiseProbitLikelihood

from botorch_pref.acquisition import (
    AdvantageUCB,
    ComparisonFilteredUCB,
    DiscreteKnowledgeGradient,
    ExpertAugmentedLCB,
    LogHumanConstrainedEI,
    MaxMinLCB,
    OptimisticAdvantage,
    PairAsPoint,
    PairVariance,
)
from botorch_pref.acquisition.utils import difference_moments
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import ProbitLikelihood, link_of
from botorch_pref.models import BordaGP, PreferenceGP
from tests.acquisition.common import (
    REF,
    botorch_model,
    make_batched_model,
    make_botorch_model,
    make_model,
    tables,
)
from tests.acquisition.expert import X, Y, by_hand, label_gp, label_set
from tests.models.common import LinearMean, rand
from tests.models.confidence_sets import make_set


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
    h = torch.linspace(-3, 3, 7).double()
    utility, D = torch.stack([h, 0 * h], -1), torch.tensor([[1.0, -1.0]]).double()
    for theirs in (PairwiseLogitLikelihood(), PairwiseProbitLikelihood()):
        model = make_botorch_model(likelihood=theirs)
        torch.testing.assert_close(link_of(model)(h), theirs.p(utility, D).squeeze(-1))
    with pytest.raises(UnsupportedError, match="GaussianLikelihood of SingleTaskGP has no known"):
        link_of(model_of_values())


MODEL, EMPTY = make_model(), PreferenceGP(None, None)
NAN = math.nan
TWO = ModelListGP(by_hand(), by_hand())
BORDA = BordaGP.from_duels(X, (Y.median() < Y).double())
BUILD: dict[Any, dict[str, Any]] = {
    AdvantageUCB: {"model": MODEL, "x_ref": REF, "beta": 1.0},
    MaxMinLCB: {"model": MODEL, "beta": 1.0, "followers": rand(5, 2)},
    OptimisticAdvantage: {"model": make_set(), "x_ref": REF},
    DiscreteKnowledgeGradient: {"model": MODEL, "reference": rand(6, 2)},
    ComparisonFilteredUCB: {"value_model": by_hand(), "borda_model": BORDA},
    ExpertAugmentedLCB: {"objective_model": by_hand(), "label_model": label_gp()},
    LogHumanConstrainedEI: {"objective_model": by_hand(), "label_model": label_gp(), "best_f": 1.0},
}


@pytest.mark.parametrize(
    ("rule", "argument", "wrong"),
    [
        *((rule, "beta", (-1.0, NAN, math.inf, "one", None)) for rule in (AdvantageUCB, MaxMinLCB)),
        (ComparisonFilteredUCB, "beta", (-1.0, NAN)),
        (ExpertAugmentedLCB, "beta", (NAN, math.inf, "one", None, True)),
        *(
            (rule, "x_ref", (REF.unsqueeze(0), REF[:1], REF.repeat(2), REF[0], REF * NAN))
            for rule in (AdvantageUCB, OptimisticAdvantage, ExpertAugmentedLCB)
        ),
        (MaxMinLCB, "followers", (rand(2), rand(0, 2), rand(5, 3), rand(5, 2) * NAN)),
        (MaxMinLCB, "diagonal", ("drop",)),
        (OptimisticAdvantage, "tolerance", (0.0, -1.0, NAN)),
        (OptimisticAdvantage, "model", (MODEL,)),
        (DiscreteKnowledgeGradient, "reference", (rand(2), rand(0, 2))),
        (DiscreteKnowledgeGradient, "noise", (-1.0, math.inf)),
        (DiscreteKnowledgeGradient, "model", (make_batched_model()[0],)),
        (ComparisonFilteredUCB, "borda_slack", (-0.1,)),
        (ComparisonFilteredUCB, "lower_bound", (NAN,)),
        (ComparisonFilteredUCB, "borda_model", (by_hand(),)),
        (ComparisonFilteredUCB, "value_model", (TWO,)),
        (ExpertAugmentedLCB, "weight", (-1.0, NAN, math.inf, "one")),
        (ExpertAugmentedLCB, "tolerance", (0.0, -1.0, NAN)),
        (ExpertAugmentedLCB, "label_model", (None, by_hand())),
        (LogHumanConstrainedEI, "best_f", (NAN, math.inf, torch.zeros(2))),
    ],
)
def test_bad_arguments(rule: Any, argument: str, wrong: tuple[Any, ...]) -> None:
    given = {"weight": 1.0} if rule is ExpertAugmentedLCB else {}
    for value in wrong:
        with pytest.raises((ComparisonDataError, UnsupportedError), match=f"`{argument}`"):
            rule(**{**BUILD[rule], **given, argument: value})


def test_points_with_other_columns() -> None:
    with pytest.raises(ComparisonDataError, match="`X` must be b x q x 2d pairs"):
        PairAsPoint(PairVariance(MODEL))(rand(3, 1, 3))
    with pytest.raises(ComparisonDataError, match="`X`"):
        ExpertAugmentedLCB(by_hand(), label_set())(rand(3, 1, 2) * NAN)
    # Without data a model knows no columns.
    assert AdvantageUCB(EMPTY, rand(3), 1.0)(rand(2, 1, 3)).shape == (2,)
