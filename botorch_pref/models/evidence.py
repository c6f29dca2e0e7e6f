r"""The evidence of a model: warm starts, and batches in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from gpytorch import settings
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor
from torch.func import functional_call
from torch.nn import Module

from botorch_pref.laplace import Observations, Side, choose_side, log_evidence

if TYPE_CHECKING:
    from botorch_pref.models.laplace_gp import LaplaceGP

_CACHED_ENTRIES = 2**18  # of one matrix: 2 MiB in double precision


class EvidenceEvaluator:
    r"""Evaluates the log evidence of one model, time after time.

    Each mode is looked for from the last one, which is close by while hyperparameters are
    fitted. The posterior is not: it always starts from zero, so that it depends on the
    data and the hyperparameters alone. A copy or a pickle starts afresh.
    """

    def __init__(self) -> None:
        self._starts: list[Tensor] = []

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(self), ()

    def clear(self) -> None:
        """Forget the last mode."""
        self._starts = []

    def __call__(self, model: LaplaceGP) -> Tensor:
        r"""The ``batch_shape``-dim log evidence, differentiable."""
        values, starts, good = [], [], True
        for i, side in enumerate(_sides(model)):
            start = self._starts[i].to(side.covariance) if i < len(self._starts) else None
            value, mode = log_evidence(side, start=start)
            values.append(value)
            starts.append(mode.weights)
            good = good and bool(mode.converged.all())
        # What did not converge is no place to start from.
        self._starts = starts if good else []
        return values[0] if len(values) == 1 else torch.cat(values)


def _sides(model: LaplaceGP) -> Iterator[Side]:
    items = model.transformed_items()
    size = _chunk_size(items)
    if model.batch_shape != items.shape[:-2] or size >= len(items) or items.dim() == 2:
        yield model.side(items)
        return
    observations = model.observations()
    latent = observations.map.apply(model.mean_module(items))
    yield from _chunked_sides(model.covar_module, items, latent, observations, size)


def _chunk_size(items: Tensor) -> int:
    """How many of ``b x n x d``-dim sets of items to treat at once: all, but on a CPU."""
    if items.dim() != 3 or items.device.type != "cpu":
        return max(len(items), 1)
    return max(1, _CACHED_ENTRIES // max(items.shape[-2], 1) ** 2)


def _chunked_sides(
    covar_module: Kernel, items: Tensor, latent: Tensor, observations: Observations, size: int
) -> Iterator[Side]:
    r"""The sides of a batch of models, ``size`` of them at a time.

    Args:
        covar_module: A kernel of batch shape ``b``, or of none.
        items: ``b x n x d``-dim items.
        latent: ``b x m``-dim prior mean of the latent values.
        observations: Observations of batch shape ``b``.
        size: The number of models in a piece.

    Yields:
        Sides that carry the graph of the whole kernel's parameters, of which each piece
        sees its own slice.
    """
    dense = _Dense(covar_module)
    pieces = {
        name: value.split(size)
        for name, value in dense.named_parameters()
        if covar_module.batch_shape and value.shape[:1] == items.shape[:1]
    }
    parts = zip(items.split(size), latent.split(size), observations.split(size), strict=True)
    for i, (own_items, own_latent, own_observations) in enumerate(parts):
        parameters = {name: split[i] for name, split in pieces.items()}
        covariance = functional_call(dense, parameters, (own_items,))
        yield choose_side(covariance, own_latent, own_observations)


class _Dense(Module):
    """A kernel that is evaluated at once, while its parameters are those of the call."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, items: Tensor) -> Tensor:
        """The covariance of ``... x n x d`` items."""
        with settings.lazily_evaluate_kernels(False):
            return to_dense(self.kernel(items))
