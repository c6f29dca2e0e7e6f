from __future__ import annotations

import pytest
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from botorch_pref.integrations.optuna.parameters import Parameters
from tests.integrations.optuna.common import MIXED

FREE = {name: distribution for name, distribution in MIXED.items() if not distribution.single()}


def test_values_are_of_their_distributions_and_come_back() -> None:
    parameters = Parameters(FREE)
    seen: dict[str, set[object]] = {name: set() for name in FREE}
    for item in parameters.space.sample(128, seed=1):
        values = parameters.values(item)
        for name, value in values.items():
            assert FREE[name]._contains(FREE[name].to_internal_repr(value)), (name, value)
            assert type(value) is int or not isinstance(FREE[name], IntDistribution)
            seen[name].add(value)
        again = parameters.item(values, FREE)
        assert again is not None
        torch.testing.assert_close(again, item, rtol=1e-12, atol=1e-12)
    assert seen["layers"] == {3, 4, 5, 6, 7, 8, 9}
    assert seen["even"] == {2, 4, 6, 8}
    assert seen["kind"] == {"red", None, 3}
    assert sorted(seen["share"]) == pytest.approx([0.1, 0.3, 0.5, 0.7])  # type: ignore[type-var]


def test_the_ends_of_a_grid_and_of_a_scale_are_reached() -> None:
    parameters = Parameters(FREE)
    low, high = (parameters.values(end) for end in parameters.space.bounds)
    assert (low["share"], high["share"]) == (0.1, 0.7)
    assert (low["width"], high["width"]) == (1, 1000)
    assert (low["rate"], high["rate"]) == (1e-4, 1.0)


def test_logarithmic_scales_are_filled_evenly() -> None:
    parameters = Parameters({"rate": FloatDistribution(1e-4, 1.0, log=True)})
    items = parameters.space.sample(256, seed=0)
    assert abs(float((items < 1e-2).double().mean()) - 0.5) < 0.02


@pytest.mark.parametrize(
    ("own", "value"),
    [
        (FloatDistribution(0.0, 2.0), 1.5),  # beyond the range
        (IntDistribution(0, 1), 1),  # of another kind
        (None, None),  # not there
    ],
)
def test_what_is_elsewhere_has_no_item(own: FloatDistribution | None, value: float) -> None:
    parameters = Parameters({"x": FloatDistribution(0.0, 1.0)})
    given = {} if own is None else {"x": own}
    assert parameters.item({"x": value}, given) is None


def test_values_beside_the_grid_and_other_choices_have_no_item() -> None:
    grid = Parameters({"x": FloatDistribution(0.0, 1.0, step=0.25)})
    assert grid.item({"x": 0.3}, {"x": FloatDistribution(0.0, 1.0)}) is None
    choice = Parameters({"c": CategoricalDistribution(["a", "b"])})
    assert choice.item({"c": "b"}, {"c": CategoricalDistribution(["b", "a"])}) is None
