r"""The evidence of a model: warm starts, and batches in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from gpytorch import settings
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor
from torch.autograd import Function
from torch.func import functional_call
from torch.nn import Module

from botorch_pref.laplace import Side, choose_side, log_evidence
from botorch_pref.laplace.evidence import refuse_second_derivatives

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
        items = model.transformed_items()
        size = _chunk_size(items)
        starts, self._starts = self._starts, []
        if model.batch_shape != items.shape[:-2] or items.dim() == 2 or size >= len(items):
            return self._find(model.side(items), starts, 0)
        observations = model.observations()
        latent = observations.map.apply(model.mean_module(items))
        pieces = observations.split(size)
        dense = _Dense(model.covar_module)
        batched = bool(model.covar_module.batch_shape)
        parameters = {
            name: value if batched else value.expand(len(items), *value.shape)
            for name, value in dense.named_parameters()
        }

        def value(i: int, items: Tensor, latent: Tensor, *own: Tensor) -> Tensor:
            own_parameters = dict(zip(parameters, own, strict=True))
            covariance = functional_call(dense, own_parameters, (items,))
            if len(items) > 1:
                return self._find(choose_side(covariance, latent, pieces[i]), starts, i)
            # Matrices without a batch go through cheaper routines.
            side = choose_side(covariance.squeeze(0), latent.squeeze(0), pieces[i].squeeze())
            return self._find(side, starts, i).unsqueeze(0)

        return _Pieces.apply(value, size, items, latent, *parameters.values())

    def _find(self, side: Side, starts: list[Tensor], i: int) -> Tensor:
        start = starts[i].to(side.covariance) if i < len(starts) else None
        value, mode = log_evidence(side, start=start)
        # What did not converge is no place to start from; later pieces then start afresh, too.
        if len(self._starts) == i and bool(mode.converged.all()):
            self._starts.append(mode.weights)
        return value


class _Pieces(Function):
    """Independent batch elements, evaluated and differentiated a piece at a time.

    One graph over all pieces would keep every covariance until the backward pass: memory
    that is fresh each time, and slower to get than the pieces are to evaluate.
    """

    @staticmethod
    def forward(ctx: Any, value: Callable[..., Tensor], size: int, *whole: Tensor) -> Tensor:
        values, grads = [], []
        wanted = ctx.needs_input_grad[2:]
        for i, parts in enumerate(zip(*(t.split(size) for t in whole), strict=True)):
            leaves = [p.detach().requires_grad_(w) for p, w in zip(parts, wanted, strict=True)]
            with torch.set_grad_enabled(any(wanted)):
                part = value(i, *leaves)
                total = part.sum()
            values.append(part.detach())
            if any(wanted):
                needed = [leaf for leaf in leaves if leaf.requires_grad]
                grads.append(torch.autograd.grad(total, needed, materialize_grads=True))
        ctx.dims = (0, 0, *(t.dim() if w else 0 for t, w in zip(whole, wanted, strict=True)))
        ctx.save_for_backward(*(torch.cat(parts) for parts in zip(*grads, strict=True)))
        return torch.cat(values)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        refuse_second_derivatives()
        (grad,) = grads
        saved = iter(ctx.saved_tensors)
        return tuple(
            next(saved).mul(grad.view(-1, *([1] * (whole - 1)))) if whole else None
            for whole in ctx.dims
        )


def _chunk_size(items: Tensor) -> int:
    """How many of ``b x n x d``-dim sets of items to treat at once: all, but on a CPU."""
    if items.dim() != 3 or items.device.type != "cpu":
        return max(len(items), 1)
    return max(1, _CACHED_ENTRIES // max(items.shape[-2], 1) ** 2)


class _Dense(Module):
    """A kernel that is evaluated at once, while its parameters are those of the call."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, items: Tensor) -> Tensor:
        """The covariance of ``... x n x d`` items."""
        with settings.lazily_evaluate_kernels(False):
            return to_dense(self.kernel(items))
