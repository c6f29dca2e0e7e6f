"""The rules in BoTorch's registry: arguments, defaults, and reloading."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.models import PairwiseGP
from botorch.models.model import Model
from botorch.optim import optimize_acqf

import botorch_pref.acquisition
from botorch_pref.acquisition import (
    AdvantageUCB,
    ComparisonFilteredUCB,
    DiscreteKnowledgeGradient,
    DuelingKnowledgeGradient,
    DuelingThompsonSampling,
    ExpertAugmentedLCB,
    ItemAcquisitionFunction,
    LogHumanConstrainedEI,
    MaxMinLCB,
    OptimisticAdvantage,
    PairVariance,
)
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.models import BordaGP, PreferenceGP
from tests.acquisition.common import (
    REF,
    REFERENCE,
    biased_model,
    make_batched_model,
    make_botorch_model,
    make_model,
    project,
)
from tests.acquisition.expert import X, Y, label_gp, with_standardize
from tests.contracts.generators import global_states
from tests.models.common import make_kernel, rand
from tests.models.confidence_sets import make_set

Rule = type[AcquisitionFunction]
BOX = [(0.0, 1.0), (-1.0, 3.0)]  # as BoTorch's other constructors take it
AT = {1: rand(5, 1, 2, seed=4), 2: rand(5, 2, 2, seed=4)}
TABLE = rand(6, 2)
BORDA = BordaGP.from_duels(X, (Y.median() < Y).double())
EXPERT = {"x_ref": REF, "tolerance": 1e-4}
KNOWLEDGE = {"reference": REFERENCE}
UTILITY_RULES: list[Rule] = [
    PairVariance,
    DuelingThompsonSampling,
    DuelingKnowledgeGradient,
    MaxMinLCB,
    AdvantageUCB,
    DiscreteKnowledgeGradient,
]


def build(cls: Rule, model: Model, **kwargs: Any) -> Any:
    return cls(**get_acqf_input_constructor(cls)(model=model, **kwargs))


@pytest.mark.parametrize(
    ("cls", "make"),
    [
        *((cls, make_model) for cls in UTILITY_RULES),
        # BoTorch has no paths of PairwiseGP.
        *((cls, make_botorch_model) for cls in UTILITY_RULES if cls != DuelingThompsonSampling),
        (OptimisticAdvantage, make_set),
    ],
)
def test_every_rule_from_a_model_alone(cls: Rule, make: Any) -> None:
    model = make()
    # What BoTorch gives to every constructor, used or not.
    words = {"training_data": None, "objective": None, "posterior_transform": None}
    rule = build(cls, model, **words, X_pending=None)
    assert type(rule) is cls
    assert rule.model is model
    q = 2 if isinstance(rule, botorch_pref.acquisition.PairAcquisitionFunction) else 1
    torch.manual_seed(0)
    options = {"num_restarts": 1, "raw_samples": 8, "options": {"maxiter": 5}}
    bounds = torch.tensor(BOX).double().T
    best, _ = optimize_acqf(rule, bounds, q=q, **options, retry_on_optimization_warning=False)
    assert best.shape == (q, 2)


@torch.no_grad()
@pytest.mark.parametrize(
    ("cls", "q", "model", "given", "expected"),
    [
        (DuelingThompsonSampling, 2, make_model(), {"scale": 2.0, "seed": 5}, None),
        (
            MaxMinLCB,
            1,
            make_model(),
            {"beta": 0.5, "followers": TABLE, "diagonal": "exclude"},
            None,
        ),
        (AdvantageUCB, 1, make_model(), {"x_ref": REF, "beta": 3.0}, None),
        (OptimisticAdvantage, 1, make_set(), {"x_ref": REF, "tolerance": 1e-4}, None),
        (DiscreteKnowledgeGradient, 1, make_model(), {"noise": 0.5, **KNOWLEDGE}, None),
        (DuelingKnowledgeGradient, 2, make_model(), {"project": lambda X: X, **KNOWLEDGE}, None),
        (
            ComparisonFilteredUCB,
            1,
            with_standardize(),
            {"borda_model": BORDA, "borda_slack": 0.02, "lower_bound": 0.4},
            {"beta": 2.0},
        ),
        (
            ExpertAugmentedLCB,
            1,
            with_standardize(),
            {"label_model": label_gp(), "beta": 0.5, "weight": 0.3, **EXPERT},
            None,
        ),
        (
            LogHumanConstrainedEI,
            1,
            with_standardize(),
            {"label_model": label_gp(), "best_f": 1.0, "x_ref": REF},
            None,
        ),
    ],
)
def test_arguments_reach_the_rules(
    cls: Any, q: int, model: Model, given: Any, expected: Any
) -> None:
    rule = build(cls, model, **given)
    direct = cls(model, **given, **(expected or {}))
    torch.testing.assert_close(rule(AT[q]), direct(AT[q]), atol=1e-8, rtol=0)
    with pytest.raises(UnsupportedError, match=cls.__name__):
        build(cls, model, X_pending=rand(1, 2), **given)
    with pytest.raises(TypeError, match="betta"):
        build(cls, model, betta=1.0, **given)


def test_default_followers() -> None:
    model, states = make_model(), global_states()
    assert torch.equal(build(MaxMinLCB, model).followers, model.items)
    followers = build(MaxMinLCB, model, bounds=BOX).followers
    items, sample = followers.split([len(model.items), 128])
    assert torch.equal(items, model.items)
    lower, upper = torch.tensor(BOX).double().T
    assert ((sample >= lower) & (sample <= upper)).all()
    assert (sample.amax(0) - sample.amin(0) > 0.9 * (upper - lower)).all()
    again = build(MaxMinLCB, model, bounds=torch.tensor(BOX))
    assert torch.equal(again.followers, followers)
    assert global_states() == states


def test_default_references() -> None:
    for model in (make_model(), make_botorch_model()):
        mean = model.posterior(model.datapoints).mean.squeeze(-1)
        assert torch.equal(build(AdvantageUCB, model).x_ref, model.datapoints[mean.argmax()])
    model = make_set()
    found = build(OptimisticAdvantage, model).x_ref
    assert torch.equal(found, model.items[model.mle(model.items).argmax()])
    for cls in (DiscreteKnowledgeGradient, DuelingKnowledgeGradient):
        assert torch.equal(build(cls, make_model()).reference, make_model().items)
        wide = build(cls, make_model(), bounds=BOX)
        assert len(wide.reference) == len(make_model().items) + 64
    seen = build(DuelingKnowledgeGradient, biased_model(), project=project)
    assert torch.equal(seen.reference, project(biased_model().items))


EMPTY = PairwiseGP(None, None, covar_module=make_kernel(2))


@pytest.mark.parametrize(
    ("cls", "model", "options", "error", "message"),
    [
        (AdvantageUCB, EMPTY, {}, ComparisonDataError, "`x_ref`"),
        (MaxMinLCB, EMPTY, {}, ComparisonDataError, "`followers` or `bounds`"),
        (DuelingKnowledgeGradient, EMPTY, {}, ComparisonDataError, "`reference` or `bounds`"),
        (OptimisticAdvantage, make_set(0, 0), {}, ComparisonDataError, "Give `x_ref`"),
        (LogHumanConstrainedEI, with_standardize(), {}, ComparisonDataError, "Give `label_model`"),
        (MaxMinLCB, make_batched_model()[0], {}, UnsupportedError, "batched model"),
        (OptimisticAdvantage, make_model(), {}, UnsupportedError, "LikelihoodRatioModel"),
        *(
            (MaxMinLCB, make_model(), {"bounds": bounds}, ComparisonDataError, "must be d pairs")
            # The second is a ``2 x d`` tensor's form.
            for bounds in ([(0.0, 1.0)], [(0.0, 0.0), (1.0, 1.0)], [(0.0, 1.0, 2.0)] * 2)
        ),
    ],
)
def test_what_is_refused(
    cls: Rule, model: Any, options: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        build(cls, model, **options)


def test_without_data() -> None:
    for model in (EMPTY, PreferenceGP(None, None, covar_module=make_kernel(2))):
        rule = build(MaxMinLCB, model, bounds=BOX)
        assert rule.followers.shape == (128, 2)
        assert rule.followers.dtype == torch.double


class Nearness(ItemAcquisitionFunction):
    """A rule of one's own, of which nothing is said anywhere else."""

    def __init__(self, model: Model, x_ref: torch.Tensor, *, power: float = 2.0) -> None:
        super().__init__(model=model)
        self.x_ref, self.power = x_ref, power

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return -(X - self.x_ref).abs().pow(self.power).sum(dim=(-1, -2))


def test_a_rule_is_registered_by_its_definition() -> None:
    rule = build(Nearness, make_model(), x_ref=REF, power=4.0, training_data=None)
    bounds = torch.tensor(BOX).double().T
    best, _ = optimize_acqf(rule, bounds, q=1, num_restarts=2, raw_samples=16)
    torch.testing.assert_close(best.squeeze(0), REF, atol=0.05, rtol=0)
    derived = build(Nearness, make_model()).x_ref
    assert torch.equal(derived, build(AdvantageUCB, make_model()).x_ref)
    with pytest.raises(TypeError, match="pover"):
        build(Nearness, make_model(), pover=1.0)
