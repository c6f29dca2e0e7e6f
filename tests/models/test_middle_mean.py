"""The prior mean that is the highest in the middle of a box."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from botorch_pref.models import MiddleMean, PreferenceGP
from botorch_pref.space import SearchSpace
from tests.models.common import rand


@given(st.integers(1, 12), st.floats(1e-3, 1e3))
@settings(max_examples=20, deadline=None)
def test_it_is_the_formula(dim: int, fall: float) -> None:
    """In every column alike, the highest in the middle, and lower by a sqrt(d) in a corner."""
    mean, items = MiddleMean(dim, fall), rand(3, 5, dim)
    found = mean(items)
    assert found.shape == (3, 5)
    for row, values in zip(items.flatten(0, 1).tolist(), found.flatten().tolist(), strict=True):
        away = sum((2.0 * x - 1.0) ** 2 for x in row)
        assert values == pytest.approx(-fall * away / math.sqrt(dim))
    torch.testing.assert_close(mean(1.0 - items), found)
    torch.testing.assert_close(mean(items.flip(-1)), found)
    middle, corner = mean(items.new_full((1, dim), 0.5)), mean(items.new_zeros(1, dim))
    assert (middle - corner).item() == pytest.approx(fall * math.sqrt(dim))


@pytest.mark.parametrize("dim", [1, 3, 20])
def test_it_varies_as_much_in_any_number_of_dimensions(dim: int) -> None:
    spread = MiddleMean(dim, 2.0)(rand(200_000, dim)).std()
    assert spread.item() == pytest.approx(2.0 * math.sqrt(4 / 45), rel=0.02)


def test_further_columns_and_categories_do_not_count() -> None:
    """Those of markers are ignored, and all levels of a category are alike."""
    items = rand(6, 3)
    mean = MiddleMean(2, 1.0)
    torch.testing.assert_close(mean(items), mean(items[:, :2]))
    bounds = torch.tensor([[0.0, 0.0], [4.0, 2.0]], dtype=torch.double)
    space = SearchSpace(bounds, categorical=[1])
    unit, mean = space.input_transform(), MiddleMean(space.num_features, 1.0)
    levels = torch.tensor([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], dtype=torch.double)
    assert mean(unit(levels)).unique().numel() == 1


def test_it_is_where_a_model_starts() -> None:
    """Without answers it is the posterior mean; with them it is what the evidence compares."""
    mean, items = MiddleMean(2, 3.0), rand(20, 2, seed=3)
    blank = PreferenceGP(None, None, mean_module=mean)
    torch.testing.assert_close(blank.posterior(items).mean.squeeze(-1), mean(items))
    values = -8.0 * (items - 0.5).square().sum(-1)
    order = (values[0::2] < values[1::2]).long()
    pairs = torch.stack([2 * torch.arange(10) + order, 2 * torch.arange(10) + 1 - order], dim=-1)
    for rows, better in (pairs, mean), (pairs.flip(-1), None):
        found = {
            one: PreferenceGP(items, rows, mean_module=one).log_evidence() for one in (mean, None)
        }
        assert max(found, key=lambda one: found[one].item()) is better
