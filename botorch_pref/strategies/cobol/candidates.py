r"""Searches for COBOL's candidates, and what the models say of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from gpytorch.settings import lazily_evaluate_kernels
from torch import Tensor

from botorch_pref.acquisition.standard_units import standardised_posterior
from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.space import Maximum, SearchSpace
from botorch_pref.strategies.apart import apart

RAW_SAMPLES = 512
TOLERANCE = 1e-6  # of bounds within a line search, logits
SCREENING = 1e-2  # of bounds that only tell where a line search begins
# Line searches from samples, and from items that are known. Were the best of all taken, these would
# soon be crowded around one that was asked, and the search would be a local one.
_FAR, _NEAR = 4, 2
_KEPT = 64  # of what a coarse screen has seen
_CHUNK = 256

# The row of an item in the choices, or the rows of a pair; None in a box.
Rows = int | tuple[int, int] | None


class Candidate(NamedTuple):
    """An item, and its row in the choices."""

    item: Tensor
    row: int | None

    @classmethod
    def of(cls, found: Maximum) -> Candidate:
        """What a search of items found."""
        return cls(found.items[0], None if found.indices is None else found.indices[0])


def named_item(space: SearchSpace, item: Tensor) -> Candidate:
    r"""What a person named, as a candidate.

    Args:
        space: The domain.
        item: ``d``-dim item.

    Returns:
        A copy, and the first row of the choices where it stands.

    Raises:
        SearchSpaceError: If it is none of the space's.
    """
    try:
        item = torch.as_tensor(item).detach().to(space.bounds, copy=True)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SearchSpaceError(f"`item` cannot be read: {error}") from error
    if item.shape != (space.dim,):
        raise SearchSpaceError(f"`item` must be {space.dim}-dim, got {tuple(item.shape)}.")
    if space.choices is None:
        if not bool(space.contains(item)):
            raise SearchSpaceError(
                f"`item` is {item.tolist()}, which is not within the bounds, or not feasible."
            )
        return Candidate(item, None)
    rows = (space.choices == item).all(dim=-1).nonzero()
    if not len(rows):
        raise SearchSpaceError(f"`item` is {item.tolist()}, which is none of the choices.")
    return Candidate(item, int(rows[0]))


@torch.no_grad()
def moments_at(model: SingleTaskGP, *items: Tensor) -> list[tuple[float, float]]:
    """The standardised mean and deviation of the latent objective at each ``d``-dim item."""
    mean, deviation = standardised_posterior(model, torch.stack(items).unsqueeze(-2))
    return list(zip(mean.flatten().tolist(), deviation.flatten().tolist(), strict=True))


@torch.no_grad()
def belief_ends(
    model: LikelihoodRatioModel, item: Tensor, x_ref: Tensor | None
) -> tuple[float, float]:
    """Both ends of the belief at a ``d``-dim item, or of its difference to another, logits."""
    if x_ref is None:
        return float(model.lower(item)), float(model.upper(item))
    pair = torch.stack([item, x_ref])
    return -float(model.advantage(pair.flip(0))), float(model.advantage(pair))


def best(
    space: SearchSpace,
    rule: AcquisitionFunction,
    seed: int,
    starts: Tensor,
    screens: Sequence[AcquisitionFunction] = (),
    avoid: Tensor | None = None,
) -> Maximum:
    r"""Where a rule is largest.

    Args:
        space: The domain.
        rule: The rule, of single items.
        seed: Of everything random.
        starts: ``s x d``-dim further items from which a search of a box may begin.
        screens: The rule to tolerances that tell where a search should begin, the coarser first.
        avoid: ``k x d``-dim items that another one is taken for.

    Returns:
        The item; in a box no worse than any of those it began with.
    """
    with lazily_evaluate_kernels(False):  # small matrices, whose bookkeeping takes the time
        if space.choices is None:
            found = _best_in_box(space, rule, seed, starts, screens or (rule,))
        else:
            found = space.maximize(rule, seed=seed)
        return found if avoid is None else apart(found, space, rule, seed, avoid)


def _best_in_box(
    space: SearchSpace,
    rule: AcquisitionFunction,
    seed: int,
    starts: Tensor,
    screens: Sequence[AcquisitionFunction],
) -> Maximum:
    *coarse, fine = screens
    sampled = space.sample(RAW_SAMPLES, seed)
    with torch.no_grad():
        for screen in coarse:
            sampled, starts = (
                _largest(screen, items, _KEPT).squeeze(-2) for items in (sampled, starts)
            )
        raw = torch.cat([_largest(fine, sampled, _FAR), _largest(fine, starts, _NEAR)])
        values = rule(raw)
    found = space.maximize(rule, seed=seed, starts=raw, raw_samples=0)
    top = int(values.argmax())
    if float(values[top]) > float(found.value):
        return Maximum(raw[top], values[top], None)
    return found


def _largest(rule: AcquisitionFunction, items: Tensor, number: int) -> Tensor:
    """The ``number x 1 x d``-dim items, or all there are, of the largest values."""
    points = items.unsqueeze(-2)
    if len(items) <= number:
        return points
    values = torch.cat([rule(part) for part in points.split(_CHUNK)])
    return points[values.topk(number).indices]
