r"""The posterior of a model, kept so that one of more data can be built from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_pref.data import Comparisons, Values
from botorch_pref.inference import LaplacePosterior, choose_system, extend, laplace_posterior
from botorch_pref.inference.extension import bordered
from botorch_pref.inference.incidence import complement
from botorch_pref.kernels.dense import dense_covariance

if TYPE_CHECKING:
    from botorch_pref.models.comparison_model import ComparisonModel

_GROWING = ("datapoints", "pairs", "wins", "count", "items", "targets", "variances")


class Seen(NamedTuple):
    r"""The rows and items of a model without a batch, for those of more data to be found among.

    Attributes:
        pairs: ``r x 2``-dim distinct pairs of the comparisons.
        num_compared: How many of the items come before those measured.
        num_items: The number of items.
    """

    pairs: Tensor
    num_compared: int
    num_items: int

    @classmethod
    def by(cls, model: ComparisonModel) -> Seen:
        """What a model has seen."""
        data, items = model.merged_data, model.items
        none = torch.empty(0, 2, dtype=torch.long, device=items.device)
        if data is None:
            return cls(none, 0, len(items))
        return cls(data.pairs, data.num_items, len(items))

    def among(self, now: Seen) -> tuple[Tensor, Tensor]:
        """Where these rows, and these items, are among those of more data."""
        device = now.pairs.device
        items = _positions(self.num_compared, now.num_compared, self.num_items, device)
        places = (p[:, 0] * now.num_items + p[:, 1] for p in (now.pairs, self.pairs))
        rows = torch.searchsorted(*places)
        num_values = self.num_items - self.num_compared
        return torch.cat([rows, _positions(0, len(now.pairs), num_values, device)]), items


class Solved(NamedTuple):
    r"""What a model caches.

    Attributes:
        items: ``... x n x d``-dim transformed items, or inducing items.
        found: What predictions need.
        seen: What it was found from, if it can be added to.
        covariance: ``n x n``-dim prior covariance of the items, likewise; none of inducing items.
    """

    items: Tensor
    found: LaplacePosterior
    seen: Seen | None = None
    covariance: Tensor | None = None


def solve(model: ComparisonModel, former: Solved | None) -> Solved:
    r"""The posterior of an exact model without a batch; no graph is kept.

    Args:
        model: The model.
        former: That of the same model when it had fewer data, if it is known: then the
            kernel is evaluated at what is new alone.
    """
    items, weight, seen = model.transformed_items(), model.variance_weight(), Seen.by(model)
    if former is None or former.covariance is None or former.seen is None:
        covariance = dense_covariance(model.covar_module, items)
        found = laplace_posterior(choose_system(*model.parts(items, covariance)), weight)
        return Solved(items, found, seen, covariance)
    rows, kept = former.seen.among(seen)
    covariance = grown_covariance(model.covar_module, items, former.covariance, kept)
    found = extend(former.found, *model.parts(items, covariance), rows, kept, weight)
    return Solved(items, found, seen, covariance)


def grown_covariance(kernel: Kernel, items: Tensor, former: Tensor, kept: Tensor) -> Tensor:
    r"""The prior covariance of items, some of whose rows and columns are known.

    Args:
        kernel: The kernel, which is evaluated at the other rows alone.
        items: ``n x d``-dim transformed items.
        former: ``n0 x n0``-dim covariance of those that are known.
        kept: Where these are, ascending.

    Returns:
        ``n x n``-dim covariance.
    """
    new = complement(kept, len(items))
    if not len(new):
        return former
    cross = dense_covariance(kernel, items[new], items[kept])
    corner = dense_covariance(kernel, items[new])
    return bordered(former, kept, new, cross, corner)


def begins_with(whole: Comparisons | Values | None, part: Comparisons | Values | None) -> bool:
    """Whether data without a batch begin with all rows of others of their kind."""
    if part is None:
        return True
    if whole is None or whole.batch_shape or part.batch_shape:
        return False
    fields = ((getattr(data, name, None) for data in (whole, part)) for name in _GROWING)
    return all(
        a is b or (a is not None and b is not None and torch.equal(a[: len(b)].to(b), b))
        for a, b in fields
    )


def _positions(num_first: int, now: int, size: int, device: torch.device) -> Tensor:
    """Where ``size`` rows are after rows were added behind the first of them."""
    rows = torch.arange(size, device=device)
    return torch.where(rows < num_first, rows, rows + now - num_first)
