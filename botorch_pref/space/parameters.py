r"""What kind of number each dimension of an item is, and what a model sees of it.

Real and whole numbers, on a linear or a logarithmic scale, are mapped to ``[0, 1]``. A category
of ``k`` levels becomes ``k`` columns (one-hot encoding; Garrido-Merchan and Hernandez-Lobato,
2020), of which its own is ``12 ** -0.5`` and the others are 0: under equal lengthscales any two
levels are as far apart, ``6 ** -0.5``, as two random numbers of a range are in the root mean
square. A model may learn a lengthscale for each level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from botorch.models.transforms.input import (
    ChainedInputTransform,
    InputTransform,
    Log10,
    Normalize,
    NumericToCategoricalEncoding,
)
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.space.checks import checked_dimensions

_LEVEL_WIDTH = 12.0**0.5


class Parameters:
    r"""The dimensions of a space.

    Args:
        bounds: ``2 x d``-dim bounds.
        integer: Dimensions that are whole numbers.
        categorical: Dimensions that are the index of a level, from 0.
        log: Dimensions on a logarithmic scale.

    Attributes:
        bounds: ``2 x d``-dim bounds.
        integer: See above, sorted; so the others.
        categorical: See above.
        log: See above.
        levels: The number of levels of each category.
        discrete: Whole numbers and categories.
        real: All others.

    Raises:
        SearchSpaceError: If they contradict each other or the bounds.
    """

    def __init__(
        self,
        bounds: Tensor,
        integer: Sequence[int] = (),
        categorical: Sequence[int] = (),
        log: Sequence[int] = (),
    ) -> None:
        dim = bounds.shape[-1]
        self.bounds = bounds
        self.integer = checked_dimensions("integer", integer, dim)
        self.categorical = checked_dimensions("categorical", categorical, dim)
        self.log = checked_dimensions("log", log, dim)
        _check_kinds(bounds, self.integer, self.categorical, self.log)
        self.discrete = tuple(sorted({*self.integer, *self.categorical}))
        self.real = tuple(i for i in range(dim) if i not in self.discrete)
        self.levels = {i: round(float(bounds[1, i])) + 1 for i in self.categorical}
        self._log_real = [i for i in self.log if i in self.real]

    @property
    def num_features(self) -> int:
        """How many columns a model sees: one for each number, one for each level."""
        return self.bounds.shape[-1] + sum(number - 1 for number in self.levels.values())

    def from_unit(self, unit: Tensor) -> Tensor:
        """``... x d`` uniform numbers in ``[0, 1]`` as items, all whole ones equally likely."""
        lower, upper = self.bounds
        if not self.discrete and not self.log:
            return lower + (upper - lower) * unit.to(self.bounds)
        cells = self.bounds.clone()
        cells[:, list(self.discrete)] += cells.new_tensor([[-0.5], [0.5]])
        cells[:, list(self.log)] = cells[:, list(self.log)].log()
        items = cells[0] + (cells[1] - cells[0]) * unit.to(cells)
        items[..., list(self.log)] = items[..., list(self.log)].exp()
        return self.rounded(items)

    def rounded(self, items: Tensor) -> Tensor:
        """``... x d`` items within the bounds, whole numbers rounded to the nearest."""
        items, discrete = items.clone(), list(self.discrete)
        items[..., discrete] = items[..., discrete].round()
        return torch.minimum(torch.maximum(items, self.bounds[0]), self.bounds[1]) + 0.0  # no -0

    def contains(self, items: Tensor) -> Tensor:
        """Which of ``... x d`` items are within the bounds, and whole where they should be."""
        inside = ((self.bounds[0] <= items) & (items <= self.bounds[1])).all(-1)
        discrete = items[..., list(self.discrete)]
        return inside & (discrete == discrete.round()).all(-1)

    def moved(self, items: Tensor, noise: Tensor, scale: float) -> Tensor:
        r"""Items near others.

        Args:
            items: ``... x d``-dim items.
            noise: ``... x d``-dim steps.
            scale: What a step of 1 is, as a share of every range; levels follow one another in a
                circle, since none is at an end.
        """
        lower, upper = self.coordinate_bounds
        steps = scale * (upper - lower) * noise.to(items)
        found = self.items(self.coordinates(items) + steps)
        for i, number in self.levels.items():
            level = items[..., i] + (scale * number * noise[..., i].to(items)).round()
            found[..., i] = level.remainder(number)
        return self.rounded(found)

    @property
    def coordinate_bounds(self) -> Tensor:
        """The bounds of :meth:`coordinates`."""
        return self.coordinates(self.bounds)

    def coordinates(self, items: Tensor) -> Tensor:
        """``... x d`` items in the coordinates of a line search: the logarithm of log scales."""
        if not self._log_real:
            return items
        found = items.clone()
        found[..., self._log_real] = items[..., self._log_real].log()
        return found

    def items(self, coordinates: Tensor) -> Tensor:
        """What :meth:`coordinates` was taken of, up to rounding errors; differentiable."""
        if not self._log_real:
            return coordinates
        found = coordinates.clone()
        found[..., self._log_real] = coordinates[..., self._log_real].exp()
        return found

    def input_transform(self, num_markers: int = 0) -> InputTransform:
        r"""What maps items to what a model sees.

        Args:
            num_markers: The number of further columns of the items, which are left alone.
        """
        dim = self.bounds.shape[-1]
        bounds = self.bounds
        steps: dict[str, InputTransform] = {}
        if self.log:
            log = list(self.log)
            bounds = bounds.clone()
            bounds[:, log] = bounds[:, log].log10()
            steps["log"] = Log10(indices=log)
        columns = [bounds[:, i : i + 1] for i in range(dim)]
        if self.categorical:
            encoders: dict[int, Callable[[Tensor], Tensor]] = {
                i: partial(one_hot, num_classes=k) for i, k in self.levels.items()
            }
            steps["levels"] = NumericToCategoricalEncoding(dim + num_markers, self.levels, encoders)
            for i, k in self.levels.items():
                columns[i] = bounds.new_tensor([[0.0], [_LEVEL_WIDTH]]).expand(2, k)
        box = torch.cat(columns, dim=-1)
        size = box.shape[-1]
        if num_markers:
            box = torch.cat([box, box.new_tensor([[0.0], [1.0]]).expand(2, num_markers)], dim=-1)
            unit = Normalize(size + num_markers, indices=list(range(size)), bounds=box)
        else:
            unit = Normalize(size, bounds=box)
        return ChainedInputTransform(**steps, unit=unit) if steps else unit


def _check_kinds(
    bounds: Tensor, integer: Sequence[int], categorical: Sequence[int], log: Sequence[int]
) -> None:
    if both := sorted({*categorical} & {*integer, *log}):
        raise SearchSpaceError(
            f"Dimension {both[0]} is in `categorical`, so it cannot be in `integer` or `log`."
        )
    for name, dimensions in (("integer", integer), ("categorical", categorical)):
        for i in dimensions:
            ends = bounds[:, i]
            if not torch.equal(ends, ends.round()):
                raise SearchSpaceError(
                    f"`bounds` column {i} is {ends.tolist()}, but `{name}` needs whole numbers."
                )
    for i in categorical:
        if float(bounds[0, i]) != 0.0:
            raise SearchSpaceError(
                f"`bounds` column {i} is {bounds[:, i].tolist()}, but the levels of a category "
                "are 0, 1, ..."
            )
    for i in log:
        if float(bounds[0, i]) <= 0.0:
            raise SearchSpaceError(
                f"`bounds` column {i} is {bounds[:, i].tolist()}, but `log` needs positive numbers."
            )
