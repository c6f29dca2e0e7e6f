r"""What all figures of a utility have: the domain, the items on it, and what it is relative to."""

from __future__ import annotations

from collections.abc import Sequence
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
        unit: The unit of the utility, such as ``"logits"``.
    """

    relative_to: Tensor | Literal["auto", "recommended"] | None
    asked: Tensor | None
    recommended: Tensor | None
    names: Sequence[str] | None
    unit: str | None


@dataclass(frozen=True)
class Scene:
    r"""Checked arguments.

    Attributes:
        model: The model.
        bounds: The ``2 x d``-dim box, where the model is.
        asked: The ``n x d``-dim items in the box that are to be marked, if there are any.
        recommended: The ``d``-dim recommended item, if there is one.
        reference: The ``d``-dim item whose utility is subtracted, if there is one.
        names: The names of the dimensions.
        label: What is drawn, with its unit.
    """

    model: Model
    bounds: Tensor
    asked: Tensor | None
    recommended: Tensor | None
    reference: Tensor | None
    names: tuple[str, ...]
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
        """``size`` even steps from the lower to the upper bound of a dimension."""
        lower, upper = self.bounds[:, dimension].tolist()
        box = self.bounds
        return torch.linspace(lower, upper, size, dtype=box.dtype, device=box.device)


def scene_of(model: Model, bounds: Tensor, **options: Unpack[UtilityOptions]) -> Scene:
    r"""Check the arguments of a figure.

    Args:
        model: The model.
        bounds: ``2 x d``-dim lower and upper bounds.
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
    box = moved(model, SearchSpace(bounds=bounds).bounds)
    dim = box.shape[-1]
    names = options.get("names") or [f"x{number}" for number in range(1, dim + 1)]
    if isinstance(names, str) or len(names) != dim:
        raise UnsupportedError(f"names must be {dim} names, got {names!r}.")
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
    scene = Scene(model, box, known, recommended, reference, tuple(names), label)
    return scene if known is None else replace(scene, asked=known[scene.contains(known)])


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
