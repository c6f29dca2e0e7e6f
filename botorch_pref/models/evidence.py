r"""The Laplace evidence of a model, and that of a large batch one element after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from gpytorch import kernels
from torch import Tensor
from torch.autograd import Function

from botorch_pref.inference.laplace import log_evidence, refuse_second_derivatives
from botorch_pref.inference.observations import Observations
from botorch_pref.inference.systems import System, choose_system
from botorch_pref.kernels.evaluation import KernelFunction

_CACHED_ENTRIES = 2**20  # of a batch of matrices on a CPU: beyond these 8 MiB a loop is faster
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


def evidence_from(system: System, start: Tensor | None) -> tuple[Tensor, Tensor]:
    r"""The differentiable evidence of a system, with its mode sought from a former one.

    Args:
        system: The prior and the observations.
        start: Weights of a mode near by, zeros where none is known; ``None`` for none.

    Returns:
        The evidence, and where to start from next time.
    """
    if start is not None:
        start = start.to(system.covariance)
        # On a device it would take a transfer to see whether a mode is known.
        if start.device.type == "cpu" and not bool(start.any()):
            start = None
    value, mode = log_evidence(system, start=start)
    with torch.inference_mode(False):  # the start is used where gradients are taken, too
        # What did not converge is no place to start from.
        return value, mode.weights.masked_fill(~mode.converged.unsqueeze(-1), 0.0)


def scaled(covariance: Tensor, factors: Tensor | None) -> Tensor:
    """``D K D`` for ``... x n x n`` ``K`` and ``... x n`` factors; ``None`` are ones."""
    if factors is None:
        return covariance
    return factors.unsqueeze(-1) * covariance * factors.unsqueeze(-2)


def is_large_batch(kernel: kernels.Kernel, items: Tensor) -> bool:
    r"""Whether a batch of models is evaluated faster one by one: large matrices on a CPU.

    Args:
        kernel: The kernel, whose hyperparameters are shared or have the batch's dimension.
        items: ``b x n x d``-dim items.
    """
    large = items.device.type == "cpu" and items.dim() == 3 and len(items) > 1
    if not large or len(items) * items.shape[-2] ** 2 <= _CACHED_ENTRIES:
        return False
    parts = (part for part in kernel.modules() if isinstance(part, kernels.Kernel))
    return (
        kernel.batch_shape in (items.shape[:1], ())
        and all(type(part) in _SEPARABLE for part in parts)
        and (not kernel.batch_shape or all(len(p) == len(items) for p in kernel.parameters()))
    )


class BatchElements:
    r"""The evidence of a large batch of models, one element after the other.

    Args:
        kernel: The kernel.
        items: ``b x n x d``-dim transformed items.
        prior_latent: ``b x m``-dim prior mean of the latent values.
        observations: What was observed, of the same batch.
        scaling: ``b x n`` factors of the utilities; ``None`` for ones.
        starts: ``b x m`` weights to start from, which are replaced by the modes found.
    """

    def __init__(
        self,
        kernel: kernels.Kernel,
        items: Tensor,
        prior_latent: Tensor,
        observations: Observations,
        scaling: Tensor | None,
        starts: Tensor,
    ) -> None:
        self._kernel, self._observations, self._starts = (
            KernelFunction(kernel),
            observations,
            starts,
        )
        parameters = self._kernel.parameters
        if not kernel.batch_shape:
            parameters = tuple(value.expand(len(items), *value.shape) for value in parameters)
        self._is_scaled = scaling is not None
        factors = () if scaling is None else (scaling,)
        self._inputs = (items, prior_latent, *factors, *parameters)

    def evidence(self) -> Tensor:
        """The ``b``-dim log evidence, differentiable."""
        value: Tensor = _OneByOne.apply(self._evidence_of, *self._inputs)
        return value

    def evidence_of(self, i: int) -> Tensor:
        """That of one element."""
        return self._evidence_of(i, *(whole[i] for whole in self._inputs))

    def _evidence_of(self, i: int, items: Tensor, latent: Tensor, *own: Tensor) -> Tensor:
        factors, parameters = (own[0], own[1:]) if self._is_scaled else (None, own)
        covariance = scaled(self._kernel(parameters, items), factors)
        system = choose_system(covariance, latent, self._observations.select(i))
        value, self._starts[i] = evidence_from(system, self._starts[i])
        return value


class _OneByOne(Function):
    """A function of each row of the inputs, evaluated and differentiated row by row.

    One graph over all rows would keep every covariance until the backward pass, in new memory
    each time, which costs more than the evaluations.
    """

    @staticmethod
    def forward(ctx: Any, function: Callable[..., Tensor], *whole: Tensor) -> Tensor:
        values, grads = [], []
        wanted = ctx.needs_input_grad[1:]
        for i, parts in enumerate(zip(*whole, strict=True)):
            leaves = [p.detach().requires_grad_(w) for p, w in zip(parts, wanted, strict=True)]
            with torch.set_grad_enabled(any(wanted)):
                value = function(i, *leaves)
            values.append(value.detach())
            if any(wanted):
                needed = [leaf for leaf in leaves if leaf.requires_grad]
                grads.append(torch.autograd.grad(value, needed, materialize_grads=True))
        ctx.dims = [t.dim() if w else 0 for t, w in zip(whole, wanted, strict=True)]
        ctx.save_for_backward(*(torch.stack(parts) for parts in zip(*grads, strict=True)))
        return torch.stack(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        saved = iter(ctx.saved_tensors)
        own = (
            next(saved).mul(grads[0].view(-1, *([1] * (dims - 1)))) if dims else None
            for dims in ctx.dims
        )
        return None, *own
