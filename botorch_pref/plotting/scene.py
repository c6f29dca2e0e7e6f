r"""What all figures of a utility have: the domain, the items on it, and what it is relative to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypedDict, Unpack

import torch
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.plotting.beliefs import (
    Moments,
    as_items,
    asked_items,
    check_model,
    difference_moments,
    is_relative,
    moved,
    utility_moments,
)
from botorch_pref.space import SearchSpace


class UtilityOptions(TypedDict, total=False):
    r"""Options of all figures of a utility.

    Attributes:
        relative_to: What is subtracted from the utility: ``"recommended"``, a ``d``-dim item,
            or ``None`` for nothing. By default (``"auto"``) the recommended item for a model
            that has seen comparisons alone, as these tell a utility up to a constant, and
            nothing for others.
        asked: ``n x d``-dim items to be marked; by default those that a model of comparisons
            knows. Other models do not tell.
        recommended: The ``d``-dim recommended item; by default the one of the asked items whose
            posterior mean is largest.
        names: The names of the ``d`` dimensions, with their units; ``x1, x2, ...`` if omitted.
        levels: The names of the levels of a category, by the number of the dimension; 0, 1, ... if
            omitted.
        unit: The unit of the utility, such as ``"logits"``.
    """

    relative_to: Tensor | Literal["auto", "recommended"] | None
    asked: Tensor | None
    recommended: Tensor | None
    names: Sequence[str] | None
    levels: Mapping[int, Sequence[str]] | None
    unit: str | None


@dataclass(frozen=True)
class Scene:
    r"""Checked arguments.

    Attributes:
        model: The model.
        space: The domain.
        bounds: The ``2 x d``-dim box, where the model is.
        asked: The ``n x d``-dim items in the box that are to be marked, if there are any.
        recommended: The ``d``-dim recommended item, if there is one.
        reference: The ``d``-dim item whose utility is subtracted, if there is one.
        names: The names of the dimensions.
        levels: The names of the levels of every category, by the number of the dimension.
        label: What is drawn, with its unit.
    """

    model: Model
    space: SearchSpace
    bounds: Tensor
    asked: Tensor | None
    recommended: Tensor | None
    reference: Tensor | None
    names: tuple[str, ...]
    levels: Mapping[int, tuple[str, ...]]
    label: str

    def moments(self, items: Tensor) -> Moments:
        """Those of the utility, less that of the reference, of ``n x d``-dim items."""
        if self.reference is None:
            return utility_moments(self.model, items)
        return difference_moments(self.model, items, self.reference)

    def contains(self, items: Tensor) -> Tensor:
        """Whether ``... x d``-dim items are in the box; ``...``-dim."""
        return ((items >= self.bounds[0]) & (items <= self.bounds[1])).all(-1)

    def line(self, dimension: int, size: int) -> Tensor:
        """``size`` even steps of a dimension's scale at most; whole numbers are whole."""
        lower, upper = self.space.bounds[:, dimension].tolist()
        if self.is_discrete(dimension) and upper - lower < size:
            steps = torch.arange(lower, upper + 1.0, dtype=torch.double)
        elif self.is_log(dimension):
            ends = math.log(lower), math.log(upper)
            steps = torch.linspace(*ends, size, dtype=torch.double).exp().clamp(lower, upper)
        else:
            steps = torch.linspace(lower, upper, size, dtype=torch.double)
        steps = steps.round().unique() if self.is_discrete(dimension) else steps
        return steps.to(self.bounds)

    def is_discrete(self, dimension: int) -> bool:
        """Whether a dimension is a whole number or a category."""
        return dimension in self.space.parameters.discrete

    def is_log(self, dimension: int) -> bool:
        """Whether a dimension is on a logarithmic scale."""
        return dimension in self.space.parameters.log


def scene_of(
    model: Model, bounds: Tensor | SearchSpace, **options: Unpack[UtilityOptions]
) -> Scene:
    r"""Check the arguments of a figure.

    Args:
        model: The model.
        bounds: ``2 x d``-dim lower and upper bounds, or a space.
        **options: See :class:`UtilityOptions`.

    Returns:
        The scene.

    Raises:
        ComparisonDataError: If items have a wrong shape or are not finite.
        SearchSpaceError: If the bounds are none.
        UnsupportedError: If the model is a batch, has several outputs or items of another
            dimension, an option is unknown, or there is no recommended item to be relative to.
    """
    check_model(model)
    unknown = {*options} - {*UtilityOptions.__annotations__}
    if unknown:
        raise UnsupportedError(f"Options {sorted(unknown)} are unknown.")
    space = bounds if isinstance(bounds, SearchSpace) else SearchSpace(bounds=bounds)
    box = moved(model, space.bounds)
    dim = box.shape[-1]
    names = _names(dim, options.get("names"))
    levels = _levels(space, options.get("levels") or {})
    asked = options.get("asked")
    known = asked_items(model) if asked is None else as_items("asked", asked, "n", dim)
    known = None if known is None or not len(known) else moved(model, known)
    if known is not None and known.shape[-1] != dim:
        raise UnsupportedError(f"bounds must be 2 x {known.shape[-1]}, not 2 x {dim}.")
    recommended = options.get("recommended")
    if recommended is not None:
        recommended = moved(model, as_items("recommended", recommended, dim))
    elif known is not None:
        recommended = known[int(utility_moments(model, known).mean.argmax())]
    reference, label = _reference(model, dim, recommended, options.get("relative_to", "auto"))
    unit = options.get("unit")
    label += f" ({unit})" if unit else ""
    scene = Scene(model, space, box, known, recommended, reference, names, levels, label)
    return scene if known is None else replace(scene, asked=known[scene.contains(known)])


def _names(dim: int, given: Sequence[str] | None) -> tuple[str, ...]:
    """The names of the dimensions."""
    names = given or [f"x{number}" for number in range(1, dim + 1)]
    if isinstance(names, str) or len(names) != dim:
        raise UnsupportedError(f"names must be {dim} names, got {names!r}.")
    return tuple(names)


def _levels(space: SearchSpace, given: Mapping[int, Sequence[str]]) -> dict[int, tuple[str, ...]]:
    """The names of all levels of all categories."""
    levels = {
        dimension: tuple(given.get(dimension) or map(str, range(number)))
        for dimension, number in space.parameters.levels.items()
    }
    wanted = space.parameters.levels
    if not {*given} <= {*wanted} or any(len(levels[i]) != number for i, number in wanted.items()):
        raise UnsupportedError(f"levels must name those of categories, {wanted}, got {given!r}.")
    return levels


def _reference(
    model: Model, dim: int, recommended: Tensor | None, relative_to: Tensor | str | None
) -> tuple[Tensor | None, str]:
    """The item that is subtracted, and what is left."""
    if isinstance(relative_to, Tensor):
        item = moved(model, as_items("relative_to", relative_to, dim))
        return item, "utility minus that of the reference item"
    if relative_to not in ("auto", "recommended", None):
        raise UnsupportedError(
            f'relative_to must be "auto", "recommended", an item or None, got {relative_to!r}.'
        )
    relative = is_relative(model)
    if relative_to == "recommended" or (relative_to == "auto" and relative):
        if recommended is not None:
            return recommended, "utility minus that of the recommended item"
        if relative_to == "recommended":
            raise UnsupportedError("recommended must be given: `model` knows no asked items.")
    return None, "utility, known up to a constant" if relative else "utility"
