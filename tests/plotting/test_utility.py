"""What is drawn of a utility, against the model's own posterior."""

from __future__ import annotations

import warnings
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from botorch.models import PairwiseGP, SingleTaskGP
from botorch.models.transforms.input import Normalize
from botorch.models.transforms.outcome import Log
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.contour import QuadContourSet
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError, UnsupportedError
from botorch_pref.models import PreferenceGP
from botorch_pref.plotting import plot_utility
from botorch_pref.space import SearchSpace
from tests.models.common import make_duels, make_kernel, rand


def box(dim: int) -> Tensor:
    return torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, dim)


def model_of(dim: int, **options: Any) -> PreferenceGP:
    X, comparisons = make_duels(8, 12, dim)
    return PreferenceGP(X, comparisons, covar_module=make_kernel(dim), **options)


def model_on(space: SearchSpace) -> PreferenceGP:
    return PreferenceGP(
        space.sample(8, seed=0),
        make_duels(8, 12, 1)[1],
        covar_module=make_kernel(space.num_features),
        input_transform=space.input_transform(),
    )


def best_of(model: PreferenceGP) -> Tensor:
    return model.items[model.posterior(model.items).mean.argmax()]


def difference(model: PreferenceGP, X: Tensor, item: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of ``f(x) - f(item)`` from the joint posterior of all points."""
    posterior = model.posterior(torch.cat([X, item.unsqueeze(0)]))
    mean, covariance = posterior.mean.squeeze(-1).detach(), posterior.covariance_matrix.detach()
    variance = covariance.diagonal() + covariance[-1, -1] - 2 * covariance[:, -1]
    deviation = variance.clamp_min(0).sqrt()
    return (mean - mean[-1])[:-1].numpy(), deviation[:-1].numpy()


def lines(axes: Axes) -> dict[str, np.ndarray]:
    return {str(line.get_label()): line.get_xydata() for line in axes.get_lines()}


def band(axes: Axes) -> tuple[np.ndarray, np.ndarray]:
    """The lower and the upper end of the only band."""
    (found,) = axes.collections
    vertices = found.get_paths()[0].vertices
    ends = [vertices[vertices[:, 0] == x, 1] for x in np.unique(vertices[:, 0])]
    return np.array([end.min() for end in ends]), np.array([end.max() for end in ends])


def curve(axes: Axes) -> tuple[Tensor, np.ndarray]:
    """The items (of one dimension) and the means of a curve."""
    x, mean = lines(axes)["mean"].T
    return torch.tensor(x, dtype=torch.float64).unsqueeze(-1), mean


def values(X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    Y = X.sum(-1, keepdim=True)
    return X, Y, torch.full_like(Y, 0.01)


def test_on_a_line() -> None:
    model = model_of(1)
    axes = plot_utility(model, box(1), unit="logits", names=["milk"]).axes[0]
    (X, drawn_mean), best, drawn = curve(axes), best_of(model), lines(axes)
    assert X.flatten().tolist() == pytest.approx(np.linspace(0, 1, 201))
    mean, deviation = difference(model, X, best)
    np.testing.assert_allclose(drawn_mean, mean, atol=1e-6)
    lower, upper = band(axes)
    np.testing.assert_allclose(upper - lower, 2 * 1.959964 * deviation, atol=1e-5)
    np.testing.assert_allclose(upper + lower, 2 * mean, atol=1e-6)
    expected = np.stack([model.items[:, 0], difference(model, model.items, best)[0]], -1)
    np.testing.assert_allclose(drawn["asked items"], expected, atol=1e-6)
    np.testing.assert_allclose(drawn["recommended item"], [[float(best), 0.0]])
    assert axes.get_xlabel() == "milk"
    label = " ".join(axes.get_ylabel().split())
    assert label == "utility minus that of the recommended item (logits)"


def test_values_tell_the_constant() -> None:
    measured = model_of(1, values=values(rand(3, 1, seed=1)))
    axes = plot_utility(measured, box(1)).axes[0]
    assert axes.get_ylabel() == "utility"
    X, mean = curve(axes)
    posterior = measured.posterior(X)
    np.testing.assert_allclose(mean, posterior.mean.squeeze(-1).detach().numpy(), atol=1e-8)
    lower, upper = band(axes)
    half = 1.959964 * posterior.variance.squeeze(-1).sqrt().detach().numpy()
    np.testing.assert_allclose(upper - lower, 2 * half, atol=1e-6)
    assert len(lines(axes)["asked items"]) == 8 + 3


def test_on_a_plane() -> None:
    model = model_of(2)
    bounds = torch.tensor([[0.0, 0.1], [1.0, 0.8]], dtype=torch.float64)
    figure = plot_utility(model, bounds, names=["a", "b"])
    mean, deviation = figure.axes[:2]
    size = len(mean.get_images()[0].get_array())
    x, y = np.linspace(0, 1, size), np.linspace(0.1, 0.8, size)
    X = torch.tensor([[a, b] for b in y for a in x], dtype=torch.float64)  # a row a value of b
    found = difference(model, X[::7], best_of(model))
    for axes, expected in zip((mean, deviation), found, strict=True):
        (image,) = axes.get_images()
        assert image.get_array().shape == (size, size)
        np.testing.assert_allclose(image.get_array().flatten()[::7], expected, atol=1e-5)
        # The outermost pixels are centred on the bounds.
        half = 0.5 / (size - 1)
        extent = [-half, 1 + half, 0.1 - 0.7 * half, 0.8 + 0.7 * half]
        np.testing.assert_allclose(image.get_extent(), extent)
        assert (axes.get_xlim(), axes.get_ylim()) == ((0.0, 1.0), (0.1, 0.8))
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("a", "b")
        duels = next(c for c in axes.collections if c.get_label() == "a duel")
        data = model.merged_data
        np.testing.assert_allclose(duels.get_segments(), data.datapoints[data.pairs].numpy())
        np.testing.assert_allclose(lines(axes)["recommended item"], best_of(model).unsqueeze(0))
    assert figure.get_suptitle() == "Utility minus that of the recommended item"
    inside = ((model.items >= bounds[0]) & (model.items <= bounds[1])).all(-1)
    assert 0 < len(lines(mean)["asked items"]) == inside.sum() < len(inside)


def test_slices() -> None:
    model = model_of(4)
    figure = plot_utility(model, box(4))
    assert figure.get_suptitle().startswith("Slices")
    assert [axes.get_xlabel() for axes in figure.axes[:4]] == ["x1", "x2", "x3", "x4"]
    assert not any(axes.axison for axes in figure.axes[4:])
    assert "minus that of the recommended item" in figure.get_supylabel().replace("\n", " ")
    assert len({axes.get_ylim() for axes in figure.axes[:4]}) == 1
    best = best_of(model)
    for dimension, axes in enumerate(figure.axes[:4]):
        x, mean = curve(axes)
        X = best.repeat(len(x), 1)
        X[:, dimension] = x.flatten()
        np.testing.assert_allclose(mean, difference(model, X, best)[0], atol=1e-6)
        drawn = lines(axes)
        np.testing.assert_allclose(drawn["recommended item"], [[float(best[dimension]), 0.0]])
        np.testing.assert_allclose(drawn["asked items"][:, 0], model.items[:, dimension])


def test_a_mixed_space_is_drawn_as_it_is() -> None:
    """Whole numbers and levels as points, a logarithmic scale as such, in even steps of it."""
    ends = torch.tensor([[0.0, 1.0, 1e-3, 0.0], [1.0, 4.0, 10.0, 2.0]], dtype=torch.float64)
    space = SearchSpace(ends, integer=[1], log=[2], categorical=[3])
    model = model_on(space)
    names = ["a", "b", "c (mm)", "d"]
    panels = plot_utility(model, space, names=names).axes
    assert [axes.get_xlabel() for axes in panels[:4]] == names
    best = best_of(model)
    steps = {1: [1.0, 2.0, 3.0, 4.0], 3: [0.0, 1.0, 2.0]}
    steps[2] = np.geomspace(1e-3, 10.0, 101).tolist()
    for dimension, expected in steps.items():
        drawn = lines(panels[dimension])["mean"]
        assert drawn[:, 0] == pytest.approx(expected)
        items = best.repeat(len(expected), 1)
        items[:, dimension] = torch.tensor(expected, dtype=torch.float64)
        assert drawn[:, 1] == pytest.approx(difference(model, items, best)[0], abs=1e-6)
    assert [axes.get_xscale() for axes in panels[:4]] == ["linear", "linear", "log", "linear"]


def test_models_of_botorch() -> None:
    X, comparisons = make_duels(8, 12, 1)
    theirs = PairwiseGP(X, comparisons)
    axes = plot_utility(theirs, box(1)).axes[0]
    moved = theirs.posterior(box(1)).mean.flatten().diff().item()
    mean = curve(axes)[1]
    assert mean[-1] - mean[0] == pytest.approx(moved, abs=1e-6)
    assert len(lines(axes)["asked items"]) == 8
    assert "minus" in axes.get_ylabel()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of data that are not standardised
        values_model = SingleTaskGP(X, 5 + 100 * X)
        axes = plot_utility(values_model, box(1), recommended=X.max(dim=0).values).axes[0]
        assert axes.get_ylabel() == "utility"
        grid, mean = curve(axes)
        expected = values_model.posterior(grid).mean.squeeze(-1).detach().numpy()
        np.testing.assert_allclose(mean, expected)
        assert lines(axes)["recommended item"][0, 0] == pytest.approx(float(X.max()))
        assert {*lines(plot_utility(values_model, box(1)).axes[0])} == {"mean"}


def test_what_cannot_be_drawn() -> None:
    model, X = model_of(2), rand(4, 3)
    nan = torch.tensor([0.5, torch.nan], dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of data that are not standardised
        two = SingleTaskGP(X[:, :1], X[:, :2], input_transform=Normalize(1))
        log = SingleTaskGP(X[:, :1], 1 + X[:, :1], outcome_transform=Log())
        three = SingleTaskGP(X, X[:, :1])
    batch = PreferenceGP(rand(2, 3, 1), torch.tensor([[[0, 1]], [[1, 2]]]))
    wrong: list[tuple[Any, Tensor, dict[str, Any], type[Exception], str]] = [
        (model, box(2), {"names": ("a",)}, UnsupportedError, "names must be 2 names"),
        (model, box(2), {"names": "ab"}, UnsupportedError, "names must be 2 names"),
        (model, box(2), {"recommended": nan}, ComparisonDataError, "`recommended` row 0 is .*: N"),
        (model, box(2), {"recommended": nan[:1]}, ComparisonDataError, "`recommended` must have"),
        (model, box(2).flip(0), {}, SearchSpaceError, "`bounds` column 0"),
        (model, box(3), {}, UnsupportedError, "bounds must be 2 x 2, not 2 x 3"),
        (batch, box(1), {}, UnsupportedError, r"a batch of \(2,\) models"),
        (two, box(1), {}, UnsupportedError, "`model` has 2 outputs"),
        (log, box(1), {}, UnsupportedError, "TransformedPosterior, not a Gaussian"),
        (three, box(3), {}, UnsupportedError, "recommended must be given"),
    ]
    for drawn, bounds, options, error, message in wrong:
        with pytest.raises(error, match=message):
            plot_utility(drawn, bounds, **options)


# Whole numbers, levels and logarithmic scales along an abscissa: whether they can be read.


def space_of(ends: tuple[float, float], others: int = 0, **kinds: list[int]) -> SearchSpace:
    """A dimension with these ends, and others between 0 and 1."""
    lower, upper = [ends[0]] + [0.0] * others, [ends[1]] + [1.0] * others
    return SearchSpace(torch.tensor([lower, upper], dtype=torch.float64), **kinds)


def panel(space: SearchSpace) -> Axes:
    """The panel of the first dimension."""
    figure = plot_utility(model_on(space), space)
    figure.draw_without_rendering()
    return figure.axes[0]


@pytest.mark.parametrize(
    "space",
    [
        space_of((0, 1000), integer=[0]),
        space_of((0, 100), 1, integer=[0]),
        space_of((1, 1000), integer=[0], log=[0]),
    ],
)
def test_many_whole_numbers_have_a_stepwise_band(space: SearchSpace) -> None:
    """Bars side by side would be a block, in which the mean is lost."""
    axes = panel(space)
    (mean,) = (line for line in axes.get_lines() if line.get_label() == "mean")
    (band,) = (found for found in axes.collections if found.get_label() == "95 % band")
    assert mean.get_drawstyle() == "steps-mid"
    assert not isinstance(band, LineCollection)
    assert np.array_equal(mean.get_xdata(), mean.get_xdata().round())


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize(
    ("ends", "integer", "log"),
    [
        *(((lower, upper), [0], [0]) for lower, upper in [(3, 5), (10, 1000), (70000, 90000)]),
        *((ends, [], [0]) for ends in [(300, 2000), (1e-6, 1e6), (3e-7, 8e-7), (1.2345, 1.2346)]),
        *((ends, [0], []) for ends in [(0, 9), (-999999, 0), (0, 12345678)]),
    ],
)
def test_scales_can_be_read(
    ends: tuple[float, float], integer: list[int], log: list[int], others: int
) -> None:
    """Labels do not run into each other, and of whole numbers they are whole."""
    axes = panel(space_of(ends, others, integer=integer, log=log))
    first, last = np.array(axes.get_xlim()) * (1.0 + np.array([-1e-9, 1e-9]))
    texts = [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)]
    assert {text.get_fontsize() for text in texts} == {7.0}
    shown = [t for t in texts if t.get_text() and first <= t.get_position()[0] <= last]
    assert len(shown) >= 2
    boxes = sorted((text.get_window_extent() for text in shown), key=lambda box: box.x0)
    assert all(one.x1 <= other.x0 for one, other in pairwise(boxes))
    if integer:
        ticks = np.array([*axes.get_xticks(), *axes.get_xticks(minor=True)])
        inside = ticks[(first <= ticks) & (ticks <= last)]
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
    axes = panel(space_of((lower, upper), log=[0]))
    assert " ".join(text.get_text() for text in axes.get_xticklabels()) == expected


def test_labels_of_contours_are_free() -> None:
    """They are within the panel, and not under a mark."""
    X, comparisons = make_duels(20, 40, 2)
    figure = plot_utility(PreferenceGP(X, comparisons), box(2))
    for axes in figure.axes[:2]:
        contours = next(one for one in axes.collections if isinstance(one, QuadContourSet))
        places = np.array([text.get_position() for text in contours.labelTexts])
        assert len(places) > 3
        assert places.min() > 0.03
        assert places.max() < 0.97
        gaps = np.linalg.norm(places[:, None] - X.numpy(), axis=-1)
        assert gaps.min() > 0.03
