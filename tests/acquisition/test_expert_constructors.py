"""The rules with an expert in BoTorch's registry."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch
from botorch.acquisition.input_constructors import get_acqf_input_constructor
from botorch.utils.datasets import SupervisedDataset

import botorch_pref.acquisition
from botorch_pref.acquisition import ExpertAugmentedLCB, LogHumanConstrainedEI
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from tests.acquisition.expert import X, Y, label_gp, label_set, with_standardize
from tests.models.common import rand

AT = rand(5, 1, 2, seed=4)
REF = torch.tensor([0.35, 0.6], dtype=torch.float64)
DATA = SupervisedDataset(X, Y.unsqueeze(-1), feature_names=["a", "b"], outcome_names=["y"])


def build(cls: Any, model: Any, **kwargs: Any) -> Any:
    return cls(**get_acqf_input_constructor(cls)(model=model, **kwargs))


def test_expert_augmented_lcb() -> None:
    gp, labels = with_standardize(), label_set()
    words = {"training_data": DATA, "objective": None, "posterior_transform": None}
    rule = build(ExpertAugmentedLCB, gp, label_model=labels, **words, X_pending=None)
    expected = ExpertAugmentedLCB(gp, labels, 1.0, 1.0)(AT)
    torch.testing.assert_close(rule(AT), expected, atol=1e-8, rtol=0)
    plain = build(ExpertAugmentedLCB, gp, beta=2.0)
    assert torch.equal(plain(AT), ExpertAugmentedLCB(gp, None, 2.0, 0.0)(AT))
    rule = build(
        ExpertAugmentedLCB,
        gp,
        label_model=label_gp(),
        beta=0.5,
        weight=0.3,
        label_beta=2.0,
        x_ref=REF,
        tolerance=1e-4,
    )
    expected = ExpertAugmentedLCB(gp, label_gp(), 0.5, 0.3, label_beta=2.0, x_ref=REF)(AT)
    torch.testing.assert_close(rule(AT), expected, atol=1e-8, rtol=0)
    assert rule.belief.tolerance == 1e-4


def test_log_human_constrained_ei() -> None:
    gp, labels = with_standardize(), label_set()
    for options in ({"training_data": DATA}, {"best_f": Y.max()}):
        rule = build(LogHumanConstrainedEI, gp, label_model=labels, **options)
        expected = LogHumanConstrainedEI(gp, labels, Y.max())(AT)
        torch.testing.assert_close(rule(AT), expected, atol=1e-8, rtol=0)
    options = {"acceptance": "upper", "label_beta": 2.0, "x_ref": REF, "tolerance": 1e-4}
    rule = build(LogHumanConstrainedEI, gp, label_model=label_gp(), best_f=1.0, **options)
    expected = LogHumanConstrainedEI(gp, label_gp(), 1.0, **options)(AT)
    torch.testing.assert_close(rule(AT), expected, atol=1e-8, rtol=0)
    with pytest.raises(ComparisonDataError, match="Give `best_f` or `training_data`"):
        build(LogHumanConstrainedEI, gp, label_model=labels)


@pytest.mark.parametrize("cls", [ExpertAugmentedLCB, LogHumanConstrainedEI])
def test_pending_points_and_unknown_words_are_refused(cls: Any) -> None:
    options: dict[str, Any] = {"label_model": label_set(), "training_data": DATA}
    with pytest.raises(UnsupportedError, match=cls.__name__):
        build(cls, with_standardize(), X_pending=rand(1, 2), **options)
    with pytest.raises(TypeError, match="betta"):
        build(cls, with_standardize(), betta=1.0, **options)


def test_importing_again_does_no_harm() -> None:
    importlib.reload(botorch_pref.acquisition.expert_constructors)
    importlib.reload(botorch_pref.acquisition)
    rule = build(ExpertAugmentedLCB, with_standardize(), label_model=label_set())
    assert type(rule) is ExpertAugmentedLCB
