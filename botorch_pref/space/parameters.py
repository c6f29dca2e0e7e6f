r"""What kind of number each dimension of an item is, and what a model sees of it.

Real and whole numbers, on a linear or a logarithmic scale, are mapped to ``[0, 1]``. A category
of ``k`` levels becomes ``k`` columns (one-hot encoding; Garrido-Merchan and Hernandez-Lobato,
2020), of which its own is ``12 ** -0.5`` and the others are 0: under equal lengthscales any two
levels are as far apart, ``6 ** -0.5``, as two random numbers of a range are in the root mean
square. A model may learn a lengthscale for each level. It does not see names: of a table, a
category that every row has another level of tells nothing of what rows have in common.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import partial

import torch
from botorch.models.transforms.input import (
    ChainedInputTransform,
    FilterFeatures,
    InputTransform,
    Log10,
    Normalize,
    NumericToCategoricalEncoding,
)
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_pref.data.checks import LARGEST
from botorch_pref.exceptions import SearchSpaceError

_LEVEL_WIDTH = 12.0**0.5
_MOST_LEVELS = 1000
_LEAST_WIDTH = 1e-12  # of a range, relative to its numbers


class Parameters:
    """The dimensions of a space, sorted, by the kind of number that each is.

    Attributes:
        integer: Whole numbers.
        categorical: Categories, by the index of their level; ``levels`` has their numbers.
        log: Numbers on a logarithmic scale.
        discrete: Whole numbers and categories.
        real: All others.
        seen: Those that a model sees: all but names.

    Raises:
        SearchSpaceError: If the kinds contradict each other or the bounds.
    """

    def __init__(
        self,
        bounds: Tensor,
        integer: Sequence[int] = (),
        categorical: Sequence[int] = (),
        log: Sequence[int] = (),
        choices: Tensor | None = None,
    ) -> None:
        dim = bounds.shape[-1]
        self.bounds = bounds
        self.integer = checked_dimensions("integer", integer, dim)
        self.categorical = checked_dimensions("categorical", categorical, dim)
        self.log = checked_dimensions("log", log, dim)
        if both := sorted({*self.categorical} & {*self.integer, *self.log}):
            raise SearchSpaceError(
                f"Dimension {both[0]} is in `categorical`, so it cannot be in `integer` or `log`."
            )
        self.check("bounds", bounds)
        if above := [i for i in self.categorical if bounds[0, i] != 0.0]:
            raise SearchSpaceError(f"`bounds` column {above[0]}: a category's first level is 0.")
        self.discrete = tuple(sorted({*self.integer, *self.categorical}))
        self.real = tuple(i for i in range(dim) if i not in self.discrete)
        names = () if choices is None else _names(choices, self.categorical)
        self.seen = tuple(i for i in range(dim) if i not in names)
        modelled = [i for i in self.categorical if i not in names]
        if many := [i for i in modelled if bounds[1, i] >= _MOST_LEVELS]:
            raise SearchSpaceError(
                f"`categorical` dimension {many[0]} has more than {_MOST_LEVELS} levels: a model "
                "has a column for each."
            )
        self.levels = {i: round(float(bounds[1, i])) + 1 for i in self.categorical}
        self._log_real = [i for i in self.log if i in self.real]

    def check(self, name: str, table: Tensor) -> None:
        """Raise a ``SearchSpaceError`` for a number of a table that its dimension cannot have."""
        fractional = table != table.round()
        no_level = fractional | (table < 0.0) | (table > self.bounds[1])
        for kind, wrong, reason in (
            (self.integer, fractional, "`integer` needs whole numbers"),
            (self.categorical, no_level, "`categorical` needs the levels 0, 1, ..."),
            (self.log, table <= 0.0, "`log` needs positive numbers"),
        ):
            bad = [(row, i) for i in kind for row in wrong[:, i].nonzero().flatten().tolist()]
            if bad:
                row, column = bad[0]
                value = float(table[row, column])
                raise SearchSpaceError(
                    f"`{name}` row {row} has {value} in column {column}, but {reason}."
                )

    @property
    def num_features(self) -> int:
        """How many columns a model sees: one for each number, one for each level."""
        return sum(self.levels.get(i, 1) for i in self.seen)

    def from_unit(self, unit: Tensor) -> Tensor:
        """``... x d`` uniform numbers in ``[0, 1]`` as items, all whole ones equally likely."""
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

    def perturbed(self, items: Tensor, noise: Tensor, scale: float) -> Tensor:
        """``... x d`` items moved by noise, in shares of every range; levels move in a circle."""
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
        """What maps items to what a model sees, further columns of markers left as they are."""
        seen, dim = list(self.seen), self.bounds.shape[-1]
        bounds, size = self.bounds[:, seen], len(seen)
        log = [seen.index(i) for i in self.log]
        levels = {seen.index(i): k for i, k in self.levels.items() if i in seen}
        steps: dict[str, InputTransform] = {}
        if size < dim:
            steps["seen"] = FilterFeatures(torch.tensor([*seen, *range(dim, dim + num_markers)]))
        if log:
            bounds[:, log] = bounds[:, log].log10()
            steps["log"] = Log10(indices=log)
        columns = [bounds[:, i : i + 1] for i in range(size)]
        if levels:
            encoders: dict[int, Callable[[Tensor], Tensor]] = {
                i: partial(one_hot, num_classes=k) for i, k in levels.items()
            }
            steps["levels"] = NumericToCategoricalEncoding(size + num_markers, levels, encoders)
            for i, k in levels.items():
                columns[i] = bounds.new_tensor([[0.0], [_LEVEL_WIDTH]]).expand(2, k)
        box = torch.cat(columns, dim=-1)
        size = box.shape[-1]
        if num_markers:
            box = torch.cat([box, box.new_tensor([[0.0], [1.0]]).expand(2, num_markers)], dim=-1)
            unit = Normalize(size + num_markers, indices=list(range(size)), bounds=box)
        else:
            unit = Normalize(size, bounds=box)
        return ChainedInputTransform(**steps, unit=unit) if steps else unit


def _names(choices: Tensor, categorical: Sequence[int]) -> list[int]:
    """Categories of ``n x d``-dim choices with ``n`` levels, if rows differ without them as well.

    Else a model could not tell some of them apart by what it sees.
    """
    number = len(choices)
    found = [i for i in categorical if len(choices[:, i : i + 1].unique()) == number]
    others = [i for i in range(choices.shape[-1]) if i not in found]
    if found and others and len(choices[:, others].unique(dim=0)) == number:
        return found
    return []


def checked_table(name: str, table: object) -> Tensor:
    """A copy of a two-dimensional tensor of finite numbers."""
    if not isinstance(table, Tensor) or table.dim() != 2 or not table.numel():
        raise SearchSpaceError(f"`{name}` must be a two-dimensional tensor that is not empty.")
    if not table.is_floating_point():
        raise SearchSpaceError(f"`{name}` must be floating point, but is {table.dtype}.")
    table = table.detach().to(torch.double, copy=True)  # the caller may change theirs
    bad = (~(table.abs() <= LARGEST)).any(dim=-1).nonzero()
    if len(bad):
        row = int(bad[0])
        why = "NaN or infinite" if not table[row].isfinite().all() else f"above {LARGEST:g}"
        raise SearchSpaceError(f"`{name}` row {row} is {table[row].tolist()}: {why}.")
    return table


def checked_bounds(
    bounds: object, choices: Tensor | None = None, categorical: Sequence[int] = ()
) -> Tensor:
    """A copy of ``2 x d``-dim bounds; the bounding box of the choices where none are given."""
    if bounds is None:
        if choices is None:
            raise SearchSpaceError("Give `bounds`, `choices`, or both.")
        lower, upper = choices.amin(0), choices.amax(0)
        levels = list(checked_dimensions("categorical", categorical, choices.shape[-1]))
        lower[levels] = lower[levels].clamp_max(0.0)  # a category's first level
        upper[levels] = upper[levels].clamp_min(1.0)
        # A constant column stays a dimension, of unit width if that is seen beside it.
        width = (lower.abs() * 1e-9).clamp_min(1.0)
        bounds = torch.stack([lower, torch.where(lower == upper, lower + width, upper)])
        _check_widths("choices", bounds)
    checked = checked_table("bounds", bounds)
    if len(checked) != 2:
        raise SearchSpaceError(f"`bounds` must be 2 x d, but is {tuple(checked.shape)}.")
    bad = (checked[0] >= checked[1]).nonzero()
    if len(bad):
        column = int(bad[0])
        raise SearchSpaceError(
            f"`bounds` column {column} is {checked[:, column].tolist()}: the lower bound must "
            "be below the upper."
        )
    _check_widths("bounds", checked)
    return checked + 0.0  # -0 becomes 0: items at a bound are shown to people


def _check_widths(name: str, bounds: Tensor) -> None:
    """Raise for a range in which numbers cannot be told apart, or which has no inverse."""
    width, largest = bounds[1] - bounds[0], bounds.abs().amax(0)
    bad = (width < (largest * _LEAST_WIDTH).clamp_min(1 / LARGEST)).nonzero()
    if len(bad):
        column = int(bad[0])
        raise SearchSpaceError(
            f"`{name}` column {column} is within {bounds[:, column].tolist()}: a range of at "
            f"least {1 / LARGEST:g}, and {_LEAST_WIDTH:g} of its numbers, is needed."
        )


def checked_dimensions(name: str, indices: Sequence[int], dim: int) -> tuple[int, ...]:
    """Sorted dimensions of a ``d``-dim space, none of them twice."""
    try:
        found = sorted(map(operator.index, indices))
    except TypeError as error:
        raise SearchSpaceError(
            f"`{name}` must be a list of whole numbers, got {indices!r}."
        ) from error
    for index in found:
        if not 0 <= index < dim:
            raise SearchSpaceError(f"`{name}` has {index}, but dimensions are 0 to {dim - 1}.")
    if len(set(found)) < len(found):
        raise SearchSpaceError(f"`{name}` has a dimension more than once: {found}.")
    return tuple(found)
