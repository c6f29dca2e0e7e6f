r"""A model's posterior of the utility and what it was told, as arrays to be drawn."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from numpy.typing import NDArray
from torch import Tensor

from botorch_pref.acquisition.utils import given_items
from botorch_pref.data.checks import check_items, finite, refuse
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.models.preference_gp import PreferenceGP

Array = NDArray[np.float64]
_CHUNK = 256  # points whose joint posterior is asked for at once


class Moments(NamedTuple):
    """Mean and standard deviation, each ``n``-dim, in units of the utility."""

    mean: Array
    deviation: Array


def check_model(model: Model) -> None:
    """Raise ``UnsupportedError`` unless a model has one output and no batch."""
    if model.num_outputs != 1:
        raise UnsupportedError(f"`model` has {model.num_outputs} outputs; see subset_output.")
    if model.batch_shape:
        raise UnsupportedError(f"`model` is a batch of {tuple(model.batch_shape)} models.")


def checked_items(model: Model, argument: str, items: Tensor, *sizes: int | str) -> Tensor:
    """Finite items of a shape, of the type and on the device of the model's parameters."""
    check_items(argument, items, *sizes, batch=False)
    refuse(finite(argument, items if items.dim() > 1 else items.unsqueeze(0)))
    return like_model(model, items.detach())


def like_model(model: Model, items: Tensor) -> Tensor:
    """Items of the type and on the device of a model's parameters."""
    return items.to(next(model.parameters(), items))


@torch.no_grad()
def utility_moments(model: Model, items: Tensor, reference: Tensor | None = None) -> Moments:
    """Those of ``f(x)``, or of ``f(x) - f(reference)``, of ``n x d``-dim items."""
    means, variances = [], []
    for X in like_model(model, items).split(_CHUNK):
        if reference is None:
            posterior = _gaussian(model, X)
            mean, variance = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)
        elif isinstance(model, PreferenceGP):  # more exact for items that are close
            pairs = torch.stack([X, like_model(model, reference).expand_as(X)], dim=-2)
            mean, variance = model.difference_moments(pairs)
        else:
            posterior = _gaussian(model, torch.cat([like_model(model, reference)[None], X]))
            mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
            variance = (covariance.diagonal() + covariance[0, 0] - 2.0 * covariance[0])[1:]
            mean = mean[1:] - mean[0]
        means.append(mean)
        variances.append(variance)
    mean, variance = torch.cat(means), torch.cat(variances)
    if not bool(mean.isfinite().all() and variance.isfinite().all()):
        raise ComparisonDataError("The posterior of `model` is NaN or infinite.")
    return Moments(as_array(mean), as_array(variance.clamp_min(0.0).sqrt()))


def asked_items(model: Model) -> Tensor | None:
    """The ``n x d``-dim items that a model of comparisons knows, compared and measured ones."""
    if isinstance(model, PreferenceGP):
        return given_items(model).detach() if model.num_observations else None
    items = getattr(model, "datapoints", None)
    return items.detach() if isinstance(items, Tensor) else None


def asked_pairs(model: Model) -> Tensor | None:
    """The ``m x 2 x d``-dim duels that a model of comparisons knows, each once."""
    if isinstance(model, PreferenceGP):
        data = model.merged_data
        if data is None:
            return None
        width = given_items(model).shape[-1]  # without a column of whose view is meant
        return data.datapoints[data.pairs].detach()[..., :width]
    rows, items = getattr(model, "comparisons", None), asked_items(model)
    return None if rows is None or items is None else items[rows.long()].detach()


def is_relative(model: Model) -> bool:
    """Whether a model has seen comparisons alone, which tell a utility up to a constant."""
    if isinstance(model, PreferenceGP):
        return model.values is None
    return asked_pairs(model) is not None


def as_array(values: Tensor) -> Array:
    """A tensor's values in double precision."""
    array: Array = values.detach().cpu().double().numpy()
    return array


def _gaussian(model: Model, X: Tensor) -> GPyTorchPosterior:
    """The joint posterior at ``q x d``-dim points."""
    posterior = model.posterior(X)
    if not isinstance(posterior, GPyTorchPosterior):
        raise UnsupportedError(
            f"The posterior of `model` is a {type(posterior).__name__}, not a Gaussian."
        )
    return posterior
