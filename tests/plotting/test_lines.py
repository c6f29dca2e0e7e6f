"""Whole numbers, levels and logarithmic scales along an abscissa: whether they can be read."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.collections import Collection, LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from botorch_pref.models import PreferenceGP
from botorch_pref.plotting import plot_utility
from botorch_pref.space import SearchSpace
from tests.models.common import make_duels, make_kernel


def space_of(lower: list[float], upper: list[float], **kinds: list[int]) -> SearchSpace:
    return SearchSpace(torch.tensor([lower, upper], dtype=torch.float64), **kinds)


def model_of(space: SearchSpace) -> PreferenceGP:
    return PreferenceGP(
        space.sample(8, seed=0),
        make_duels(8, 12, 1)[1],
        covar_module=make_kernel(space.num_features),
        input_transform=space.input_transform(),
    )


def drawn(space: SearchSpace) -> Figure:
    figure = plot_utility(model_of(space), space)
    figure.draw_without_rendering()
    return figure


def mean_and_band(axes: Axes) -> tuple[Line2D, Collection]:
    (mean,) = (line for line in axes.get_lines() if line.get_label() == "mean")
    (band,) = (found for found in axes.collections if found.get_label() == "95 % band")
    return mean, band


def places(axes: Axes, x: np.ndarray) -> np.ndarray:
    """Where numbers are on the page, in points from the left."""
    found = axes.get_xaxis_transform().transform(np.stack([x, 0.0 * x], -1))
    return found[:, 0] * 72.0 / axes.get_figure().dpi


MANY = {
    "one": space_of([0], [1000], integer=[0]),
    "beside a real number": space_of([0, 0], [100, 1], integer=[0]),
    "logarithmic": space_of([1], [1000], integer=[0], log=[0]),
    "logarithmic beside": space_of([1, 0], [30, 1], integer=[0], log=[0]),
}


@pytest.mark.parametrize("space", MANY.values(), ids=[*MANY])
def test_many_whole_numbers_have_a_stepwise_band(space: SearchSpace) -> None:
    """Bars side by side would be a block, in which the mean is lost."""
    figure = drawn(space)
    axes = figure.axes[0]
    mean, band = mean_and_band(axes)
    assert mean.get_drawstyle() == "steps-mid"
    assert mean.get_linewidth() > 1.0
    assert not isinstance(band, LineCollection)
    assert band.get_alpha() < 0.5
    # The band is level around each number, and the mean in its middle.
    x, y = mean.get_xydata().T
    assert np.array_equal(x, x.round())
    vertices = band.get_paths()[0].vertices
    middles = 0.5 * (x[1:] + x[:-1])
    for value, left, right in zip(y[1:-1], middles[:-1], middles[1:], strict=True):
        ends = [{*vertices[vertices[:, 0] == middle, 1]} for middle in (left, right)]
        level = ends[0] & ends[1]
        assert 0.5 * (min(level) + max(level)) == pytest.approx(value)
    shown = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    assert shown["95 % band"] is band
    assert shown["mean"] is mean


@pytest.mark.parametrize("last", [4, 9, 20, 30])
@pytest.mark.parametrize("scale", [{}, {"log": [0]}], ids=["linear", "logarithmic"])
def test_bars_leave_room_between_them(last: int, scale: dict[str, list[int]]) -> None:
    axes = drawn(space_of([1], [last], integer=[0], **scale)).axes[0]
    mean, band = mean_and_band(axes)
    gap = np.diff(places(axes, mean.get_xdata())).min()
    if isinstance(band, LineCollection):
        assert band.get_linewidth()[0] < 0.7 * gap
        assert mean.get_markersize() < 0.95 * gap
    else:
        assert gap < 8.0
    assert isinstance(band, LineCollection) or last > 9


def overlaps(axes: Axes) -> list[tuple[str, str]]:
    """The labels of the abscissa that run into each other."""
    ticks = [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)]
    ends = axes.get_window_extent().intervalx + np.array([-0.5, 0.5])
    ticks = [
        t
        for t in ticks
        if t.get_text() and ends[0] <= t.get_transform().transform(t.get_position())[0] <= ends[1]
    ]
    found = sorted(((t.get_window_extent(), t.get_text()) for t in ticks), key=lambda b: b[0].x0)
    return [(a[1], b[1]) for a, b in pairwise(found) if a[0].x1 > b[0].x0]


WHOLE = [(3, 5), (10, 1000), (7, 30000), (1, 2), (70000, 90000)]
REAL = [(300, 2000), (0.05, 9.0), (1e-6, 1e6), (3e-7, 8e-7), (0.98, 1.01), (1.2345, 1.2346)]


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize(
    ("ends", "whole"),
    [*((ends, True) for ends in WHOLE), *((ends, False) for ends in REAL)],
)
def test_logarithmic_scales_can_be_read(
    ends: tuple[float, float], whole: bool, others: int
) -> None:
    lower, upper = ends
    kinds = {"log": [0], "integer": [0] if whole else []}
    space = space_of([lower] + [0.0] * others, [upper] + [1.0] * others, **kinds)
    axes = drawn(space).axes[0]
    assert not overlaps(axes)
    first, last = axes.get_xlim()
    ticks = [
        tick
        for tick, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if text.get_text() and first <= tick * (1 + 1e-9) and tick <= last * (1 + 1e-9)
    ]
    assert len(ticks) >= 2
    texts = [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)]
    assert {text.get_fontsize() for text in texts} == {7.0}
    if whole:
        everything = np.array([*axes.get_xticks(), *axes.get_xticks(minor=True)])
        inside = everything[(first <= everything) & (everything <= last)]
        np.testing.assert_allclose(inside, inside.round(), rtol=1e-12)


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (1, 8, "1 2 4 8"),
        (2, 8, "2 3 4 6 8"),
        (1, 30, "1 2 5 10 20"),
        (0.01, 0.3, "0.01 0.02 0.05 0.1 0.2"),
        (1.5, 2.5, "1.6 1.8 2 2.2 2.4"),
    ],
)
def test_narrow_logarithmic_scales_have_plain_numbers(
    lower: float, upper: float, expected: str
) -> None:
    axes = drawn(space_of([lower], [upper], log=[0])).axes[0]
    assert " ".join(text.get_text() for text in axes.get_xticklabels()) == expected


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("ends", [(0, 9), (-999999, 0), (0, 12345678)])
def test_labels_of_whole_numbers_stay_apart(ends: tuple[float, float], others: int) -> None:
    lower, upper = ends
    space = space_of([lower] + [0.0] * others, [upper] + [1.0] * others, integer=[0])
    axes = drawn(space).axes[0]
    assert not overlaps(axes)
    first, last = axes.get_xlim()
    inside = [tick for tick in axes.get_xticks() if first <= tick <= last]
    assert len(inside) >= 2
    assert inside == [round(tick) for tick in inside]
