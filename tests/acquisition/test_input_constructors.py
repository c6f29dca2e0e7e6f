"""The rules in BoTorch's registry: arguments, defaults, and reloading."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.acquisition.preference import (
    AnalyticExpectedUtilityOfBestOption,
    qExpectedUtilityOfBestOption,
)
from botorch.models import PairwiseGP
from botorch.optim import optimize_acqf
from torch import Tensor

import botorch_pref.acquisition
from botorch_pref.acquisition import (
    AdvantageUCB,
    DuelingThompsonSampling,
    MaxMinLCB,
    OptimisticAdvantage,
    PairAsPoint,
    PairVariance,
)
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import ProbitLikelihood
from botorch_pref.models import PreferenceGP
from tests.acquisition.common import make_batched_model, make_botorch_model, make_model
from tests.contracts.generators import global_states
from tests.models.common import make_kernel, rand
from tests.models.judged import make_set

BOX = [(0.0, 1.0), (-1.0, 3.0)]  # as BoTorch's other constructors take it
RULES: list[type[AcquisitionFunction]] = [
    PairVariance,
    DuelingThompsonSampling,
    MaxMinLCB,
    AdvantageUCB,
]


def build(cls: type[AcquisitionFunction], model: Any, **kwargs: Any) -> Any:
    return cls(**get_acqf_input_constructor(cls)(model=model, **kwargs))


@pytest.mark.parametrize("cls", RULES)
@pytest.mark.parametrize("make", [make_model, make_botorch_model])
def test_every_rule_from_a_model_alone(cls: type[AcquisitionFunction], make: Any) -> None:
    if cls is DuelingThompsonSampling and make is make_botorch_model:
        pytest.skip("paths of PairwiseGP are unknown to BoTorch")
    model = make()
    # What BoTorch hands to every constructor, looked at or not.
    rule = build(
        cls, model, training_data=None, objective=None, posterior_transform=None, X_pending=None
    )
    assert type(rule) is cls
    assert rule.model is model
    q = 1 if cls in (MaxMinLCB, AdvantageUCB) else 2
    torch.manual_seed(0)
    bounds = torch.tensor(BOX).double().T
    best, _ = optimize_acqf(
        rule, bounds, q=q, num_restarts=1, raw_samples=8, retry_on_optimization_warning=False
    )
    assert best.shape == (q, 2)


def test_optimistic_advantage() -> None:
    model, table = make_set(), rand(6, 2)
    words = {"training_data": None, "objective": None, "posterior_transform": None}
    rule = build(OptimisticAdvantage, model, **words, X_pending=None)
    assert rule.model is model
    assert torch.equal(rule.x_ref, model.items[model.mle(model.items).argmax()])
    torch.manual_seed(0)
    best, _ = optimize_acqf(
        rule,
        torch.tensor(BOX).double().T,
        q=1,
        num_restarts=1,
        raw_samples=8,
        retry_on_optimization_warning=False,
    )
    assert best.shape == (1, 2)
    rule = build(OptimisticAdvantage, model, x_ref=table[0], tolerance=1e-4)
    assert rule.tolerance == 1e-4
    assert torch.equal(rule.x_ref, table[0])
    with pytest.raises(ComparisonDataError, match="Give `x_ref`"):
        build(OptimisticAdvantage, make_set(0, 0))
    for options in ({}, {"x_ref": table[0]}):
        with pytest.raises(UnsupportedError, match="LikelihoodRatioModel"):
            build(OptimisticAdvantage, make_model(), **options)


@pytest.mark.parametrize("cls", [*RULES, OptimisticAdvantage, PairAsPoint])
def test_pending_points_and_unknown_words_are_refused(cls: type[AcquisitionFunction]) -> None:
    options = {"acq_function_class": PairVariance} if cls is PairAsPoint else {}
    with pytest.raises(UnsupportedError, match=cls.__name__):
        build(cls, make_model(), X_pending=rand(1, 2), **options)
    with pytest.raises(TypeError, match="betta"):
        build(cls, make_model(), betta=1.0, **options)


def test_arguments_reach_the_rules() -> None:
    model, pairs = make_model(), rand(4, 2, 2)
    draw = build(DuelingThompsonSampling, model, scale=2.0, seed=5)
    assert torch.equal(draw(pairs), DuelingThompsonSampling(model, 2.0, 5)(pairs))
    link, table = ProbitLikelihood(), rand(6, 2)
    rule = build(
        MaxMinLCB, model, beta=0.5, followers=table, likelihood=link, diagonal="exclude", bounds=BOX
    )
    assert (rule.beta, rule.diagonal) == (0.5, "exclude")
    assert rule.likelihood is link
    assert torch.equal(rule.followers, table)
    advantage = build(AdvantageUCB, model, x_ref=table[0], beta=3.0)
    assert advantage.beta == 3.0
    assert torch.equal(advantage.x_ref, table[0])


@pytest.mark.parametrize("bounds", [BOX, torch.tensor(BOX)])
def test_default_followers(bounds: Any) -> None:
    model, states = make_model(), global_states()
    items = model.items
    assert torch.equal(build(MaxMinLCB, model).followers, items)
    followers = build(MaxMinLCB, model, bounds=bounds, num_followers=64).followers
    assert followers.shape == (len(items) + 64, 2)
    assert torch.equal(followers[: len(items)], items)
    sample = followers[len(items) :]
    lower, upper = torch.tensor(BOX).double().T
    assert ((sample >= lower) & (sample <= upper)).all()
    assert (sample.amin(0) < lower + 0.1 * (upper - lower)).all()
    assert (sample.amax(0) > upper - 0.1 * (upper - lower)).all()
    again, other = (
        build(MaxMinLCB, model, bounds=bounds, num_followers=64, seed=seed) for seed in (0, 1)
    )
    assert torch.equal(again.followers, followers)
    assert not torch.equal(other.followers, followers)
    assert global_states() == states


def test_default_reference_is_the_best_item() -> None:
    for model in (make_model(), make_botorch_model()):
        rule = build(AdvantageUCB, model)
        mean = model.posterior(model.datapoints).mean.squeeze(-1)
        assert torch.equal(rule.x_ref, model.datapoints[mean.argmax()])


def priors() -> list[Any]:
    none = torch.empty(0, 2).double(), torch.empty(0, 2).long()
    ours = PreferenceGP(*none, covar_module=make_kernel(2))
    return [ours, PairwiseGP(None, None, covar_module=make_kernel(2))]


@pytest.mark.parametrize("model", priors())
def test_without_data(model: Any) -> None:
    with pytest.raises(ComparisonDataError, match="`x_ref`"):
        build(AdvantageUCB, model)
    with pytest.raises(ComparisonDataError, match="`followers` or `bounds`"):
        build(MaxMinLCB, model)
    rule = build(MaxMinLCB, model, bounds=BOX, num_followers=16)
    assert rule.followers.shape == (16, 2)
    assert rule.followers.dtype == torch.double


def test_batched_model_has_no_one_table() -> None:
    model, _ = make_batched_model()
    for cls in (MaxMinLCB, AdvantageUCB):
        with pytest.raises(UnsupportedError, match="batched model"):
            build(cls, model)


@pytest.mark.parametrize("bounds", [[(0.0, 1.0)], [(0.0, 0.0), (1.0, 1.0)], [(0.0, 1.0, 2.0)] * 2])
def test_bad_bounds(bounds: Any) -> None:
    """The second is a ``2 x d`` tensor's form."""
    with pytest.raises(ComparisonDataError, match=r"`bounds` must be d pairs"):
        build(MaxMinLCB, make_model(), bounds=bounds)


def test_rules_of_botorch_as_points() -> None:
    model, pairs = make_model(), rand(5, 2, 2)
    point = build(
        PairAsPoint,
        model,
        acq_function_class=AnalyticExpectedUtilityOfBestOption,
        training_data=None,
    )
    expected = AnalyticExpectedUtilityOfBestOption(pref_model=model)(pairs)
    torch.testing.assert_close(point(pairs.view(5, 1, 4)), expected)
    point = build(PairAsPoint, model, acq_function_class=qExpectedUtilityOfBestOption)
    assert isinstance(point.acq_function, qExpectedUtilityOfBestOption)
    torch.manual_seed(0)
    box: Tensor = torch.tensor([[0.0] * 4, [1.0] * 4]).double()
    chosen, _ = optimize_acqf(point, box, q=2, sequential=True, num_restarts=1, raw_samples=8)
    assert chosen.shape == (2, 4)


def test_our_rules_as_points() -> None:
    model, pairs = make_model(), rand(5, 2, 2)
    point = build(
        PairAsPoint,
        model,
        acq_function_class=DuelingThompsonSampling,
        acq_function_kwargs={"scale": 2.0, "seed": 5},
    )
    expected = DuelingThompsonSampling(model, 2.0, 5)(pairs)
    assert torch.equal(point(pairs.view(5, 1, 4)), expected)
    with pytest.raises(RuntimeError, match="not registered"):
        build(PairAsPoint, model, acq_function_class=AcquisitionFunction)


def test_importing_again_does_no_harm() -> None:
    importlib.reload(botorch_pref.acquisition.input_constructors)
    importlib.reload(botorch_pref.acquisition)
    assert type(build(PairVariance, make_model())) is PairVariance
