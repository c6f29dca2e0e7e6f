r"""A batch of models, taken a few elements at a time so that these stay in the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpytorch import kernels
from torch import Tensor

from botorch_pref.inference import (
    LaplacePosterior,
    Observations,
    System,
    choose_system,
    laplace_posterior,
)
from botorch_pref.kernels.dense import KernelFunction

if TYPE_CHECKING:
    from botorch_pref.models.laplace_gp import LaplaceGP

_CACHED_ENTRIES = 2**20  # of one matrix: 8 MiB in double precision; more is slower at 400 duels
# Kernels that are functions of inputs and parameters alone; others look at the batch shape
# that they were made with, or have buffers of that shape.
_SEPARABLE = (
    kernels.AdditiveKernel,
    kernels.CosineKernel,
    kernels.LinearKernel,
    kernels.MaternKernel,
    kernels.PeriodicKernel,
    kernels.PiecewisePolynomialKernel,
    kernels.ProductKernel,
    kernels.RBFKernel,
    kernels.RQKernel,
    kernels.ScaleKernel,
    kernels.SpectralMixtureKernel,
)


class Pieces:
    r"""Sides of a batched model, one piece after the other.

    Args:
        model: A model of one batch dimension, that of its items.
        items: ``b x n x d``-dim transformed items.
        elements: Which elements of the batch; all by default.

    Attributes:
        inputs: Tensors with one row an element: all that a side depends on.
        scaled: Whether the first of them after the latent prior mean are the items' factors.
        size: The number of elements of a piece.
    """

    def __init__(self, model: LaplaceGP, items: Tensor, elements: Tensor | None = None) -> None:
        observations, kernel = model.observations(), model.covar_module
        self._kernel = KernelFunction(kernel)
        parameters = self._kernel.parameters
        if not kernel.batch_shape:
            parameters = tuple(value.expand(len(items), *value.shape) for value in parameters)
        latent = model.prior_latent(model.mean_module(items), observations)
        scaling = model.scaling()
        self.scaled = scaling is not None
        rows = [items, latent, *([] if scaling is None else [scaling]), *parameters]
        self.size = piece_size(items)
        if elements is not None:
            observations = observations.select(elements)
            rows = [value[elements] for value in rows]
        self.inputs = tuple(rows)
        self.observations = observations

    def __iter__(self) -> Iterator[System]:
        """The sides of all pieces, in order."""
        for i, parts in enumerate(zip(*(t.split(self.size) for t in self.inputs), strict=True)):
            yield self.side(i, *parts)

    def side(self, i: int, *parts: Tensor) -> System:
        """The side of piece ``i`` from its rows of the inputs; without a batch if it is one."""
        start = i * self.size
        if len(parts[0]) == 1:
            return self._side(self.observations.select(start), *(part[0] for part in parts))
        return self._side(self.observations.select(slice(start, start + self.size)), *parts)

    def element(self, i: int) -> System:
        """The side of one element, without a batch: its matrices go through cheaper routines."""
        return self._side(self.observations.select(i), *(whole[i] for whole in self.inputs))

    def _side(
        self, observations: Observations, items: Tensor, latent: Tensor, *own: Tensor
    ) -> System:
        scaling, own = (own[0], own[1:]) if self.scaled else (None, own)
        covariance = scaled(self._kernel(own, items), scaling)
        return choose_system(covariance, latent, observations)


def represent_pieces(model: LaplaceGP, items: Tensor, weight: Tensor | None) -> LaplacePosterior:
    r"""The posterior of a batch of models, found a piece at a time.

    Args:
        model: A model of one batch dimension, that of its items.
        items: ``b x n x d``-dim transformed items.
        weight: ``b x m``-dim curvature for the covariance; ``None`` for that at the mode.
    """
    pieces = Pieces(model, items)
    weights = [None] * len(items) if weight is None else weight.split(pieces.size)
    parts = (
        laplace_posterior(side, own if own is None else own.view(side.prior_latent.shape))
        for side, own in zip(pieces, weights, strict=False)
    )
    return LaplacePosterior.stacked(parts, pieces.observations)


def scaled(covariance: Tensor, factors: Tensor | None) -> Tensor:
    r"""``D K D`` for ``... x n x n`` ``K`` and ``... x n`` factors; ``None`` are ones."""
    if factors is None:
        return covariance
    return factors.unsqueeze(-1) * covariance * factors.unsqueeze(-2)


def worth_splitting(model: LaplaceGP, items: Tensor) -> bool:
    r"""Whether a model's ``b x n x d``-dim items are too many to be treated at once."""
    return is_separable(model, items) and piece_size(items) < len(items)


def is_separable(model: LaplaceGP, items: Tensor) -> bool:
    r"""Whether a model's batch is one dimension of its items, and can be taken apart."""
    kernel = model.covar_module
    parts = (part for part in kernel.modules() if isinstance(part, kernels.Kernel))
    return (
        items.dim() == 3
        and model.batch_shape == items.shape[:-2]
        and all(type(part) in _SEPARABLE for part in parts)
        # Hyperparameters are all of the batch's, or all shared.
        and (
            not kernel.batch_shape
            or all(p.shape[:1] == items.shape[:1] for p in kernel.parameters())
        )
    )


def piece_size(items: Tensor) -> int:
    r"""How many of ``b x n x d``-dim sets of items to treat at once: all, but on a CPU."""
    if items.device.type != "cpu":
        return max(len(items), 1)
    return max(1, _CACHED_ENTRIES // max(items.shape[-2], 1) ** 2)
