"""Objectives in standardised units: the same, whatever a model was fitted to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.deterministic import GenericDeterministicModel
from botorch.models.transforms.outcome import Log, Standardize, StratifiedStandardize
from botorch.settings import validate_input_scaling

from botorch_pref.acquisition.standard_units import StandardUnits, standardised_posterior
from botorch_pref.exceptions import UnsupportedError
from tests.acquisition.common import make_botorch_model, make_model
from tests.acquisition.expert import (
    POINTS,
    X,
    Y,
    by_hand,
    label_gp,
    label_set,
    objective,
    regression,
    standardised,
    with_standardize,
)
from tests.models.common import make_kernel, numerical_gradient

OFFSET, SCALE = float(Y.mean()), float(Y.std())
MODELS: dict[str, Callable[[], Any]] = {
    "by hand": by_hand,
    "Standardize": with_standardize,
    "1000 y + 5": lambda: with_standardize(1000 * Y + 5),
    "1e-7 y": lambda: with_standardize(1e-7 * Y),
    "fixed noise": lambda: with_standardize(fixed=True),
    "raw": lambda: objective(units=(OFFSET, SCALE)),
    "raw, 1e-7 y": lambda: objective(1e-7 * Y, units=(1e-7 * OFFSET, 1e-7 * SCALE)),
}


@torch.no_grad()
@pytest.mark.parametrize("name", MODELS)
def test_moments_are_those_of_standardised_values(name: str) -> None:
    model, expected = MODELS[name](), regression(POINTS, standardised(Y))
    for shape in ((20, 1), (1, 20), (4, 5)):
        found = standardised_posterior(model, POINTS.view(*shape, 2))
        for one, other in zip(found, expected, strict=True):
            torch.testing.assert_close(one, other.view(shape), atol=1e-8, rtol=0)
    units = StandardUnits(model)
    posterior = model.posterior(POINTS.unsqueeze(-2), posterior_transform=units)
    torch.testing.assert_close(posterior.mean.flatten(), expected[0], atol=1e-8, rtol=0)
    deviation = posterior.variance.flatten().sqrt()
    torch.testing.assert_close(deviation, expected[1], atol=1e-8, rtol=0)
    given = {"1000 y + 5": 1000 * Y + 5, "1e-7 y": 1e-7 * Y, "raw, 1e-7 y": 1e-7 * Y}
    values = given.get(name, standardised(Y) if "by hand" in name else Y).unsqueeze(-1)
    torch.testing.assert_close(units.evaluate(values), standardised(Y), atol=1e-8, rtol=0)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:Data .outcome observations. is not standardized")
@pytest.mark.filterwarnings("ignore:Using an outcome transform")
def test_a_batch_of_models() -> None:
    values = torch.stack([Y, 10 * Y.flip(0) - 4, Y.square()]).unsqueeze(-1)
    kernel = make_kernel(2, batch_shape=(3,))
    batch = SingleTaskGP(X.expand(3, -1, -1), values, covar_module=kernel).eval()
    mean, deviation = standardised_posterior(batch, POINTS.view(20, 1, 1, 2))
    assert mean.shape == deviation.shape == (20, 3, 1)
    raw = batch.posterior(POINTS.view(20, 1, 1, 2))
    offset, scale = values.mean(1), values.std(1)
    torch.testing.assert_close(mean, (raw.mean.squeeze(-1) - offset) / scale)
    torch.testing.assert_close(deviation, raw.variance.squeeze(-1).sqrt() / scale)


@torch.no_grad()
@pytest.mark.parametrize("transform", [True, False])
def test_values_that_do_not_differ_are_only_centred(transform: bool) -> None:
    for y in (torch.full((9,), 7.0).double(), Y[:1]):
        options = {"outcome_transform": Standardize(1) if transform else None}
        with validate_input_scaling(False):
            model = SingleTaskGP(X[: len(y)], y.unsqueeze(-1), **options)
        units = StandardUnits(model)
        assert units.offset.tolist() == [pytest.approx(float(y[0]))]
        assert units.scale.tolist() == [1.0]


def test_gradient() -> None:
    model = with_standardize(1e-7 * Y)
    for k in (0, 1):
        at = POINTS[:3].unsqueeze(-2).clone().requires_grad_()
        (gradient,) = torch.autograd.grad(standardised_posterior(model, at)[k].sum(), at)
        numerical = numerical_gradient(lambda x, k=k: standardised_posterior(model, x)[k].sum(), at)
        torch.testing.assert_close(gradient, numerical, atol=1e-7, rtol=1e-5)


def transformed(transform: Any) -> SingleTaskGP:
    model = with_standardize()
    model.outcome_transform = transform
    return model


def deterministic() -> GenericDeterministicModel:
    return GenericDeterministicModel(lambda x: x[..., :1])


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (make_botorch_model, "PairwiseGP has no units"),
        (make_model, "PreferenceGP has no units"),
        (label_gp, "BernoulliGP has no units"),
        (label_set, "LikelihoodRatioModel has no units"),
        (lambda: SingleTaskGP(X, torch.stack([Y, Y], dim=-1)), "one output, but has 2"),
        (lambda: transformed(Log()), "transform Log leaves no"),
        (
            lambda: transformed(StratifiedStandardize(0, torch.zeros(1).long())),
            "StratifiedStandardize leaves no",
        ),
        (deterministic, "GenericDeterministicModel are not known"),
    ],
)
def test_models_without_units(make: Callable[[], Any], match: str) -> None:
    with pytest.raises(UnsupportedError, match=match):
        StandardUnits(make())


def test_posterior_that_is_not_gaussian() -> None:
    model = deterministic()
    model.train_targets = Y
    with pytest.raises(UnsupportedError, match="must be Gaussian, but is a EnsemblePosterior"):
        standardised_posterior(model, POINTS.unsqueeze(-2))
