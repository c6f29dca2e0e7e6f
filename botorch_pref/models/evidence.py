r"""The evidence of a model: warm starts, and batches in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.autograd import Function

from botorch_pref._memory import keep_pages
from botorch_pref.inference import System, log_evidence
from botorch_pref.inference.evidence import refuse_second_derivatives
from botorch_pref.models.pieces import Pieces, piece_size, worth_splitting

if TYPE_CHECKING:
    from botorch_pref.models.laplace_gp import LaplaceGP


class EvidenceEvaluator:
    r"""Evaluates the log evidence of one model, time after time.

    Each mode is looked for from the last one, which is close by while hyperparameters are
    fitted. The posterior starts from zero. A copy or a pickle forgets the last mode.
    """

    def __init__(self) -> None:
        self._starts: Tensor | None = None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(self), ()

    def clear(self) -> None:
        """Forget the last mode."""
        self._starts = None

    def __call__(self, model: LaplaceGP, elements: Tensor | None = None) -> Tensor:
        r"""The differentiable log evidence.

        Args:
            model: The model.
            elements: Which elements of a batch of models with items of their own; all of
                them, whatever their kind, by default.

        Returns:
            ``batch_shape``-dim values, or one for each of ``elements``.
        """
        keep_pages()
        items = model.transformed_items()
        if elements is None and not worth_splitting(model, items):
            value, self._starts = _find(model.side(items), self._starts)
            return value
        if self._starts is None:
            with torch.inference_mode(False):
                self._starts = items.new_zeros(len(items), model.num_observations)
        self._starts = self._starts.to(items)  # which may have been moved since
        if elements is not None and len(elements) == piece_size(items) == 1:
            i = int(elements)
            value, self._starts[i] = _find(Pieces(model, items).element(i), self._starts[i])
            return value.view(1)
        pieces = Pieces(model, items, elements)
        rows = slice(None) if elements is None else elements
        starts = self._starts[rows].split(pieces.size)
        found: list[Tensor] = []

        def value_of(i: int, *parts: Tensor) -> Tensor:
            single = len(parts[0]) == 1
            value, start = _find(pieces.side(i, *parts), starts[i][0] if single else starts[i])
            found.append(start.view_as(starts[i]))
            return value.view(len(parts[0]))

        if len(starts) == 1:
            value = value_of(0, *pieces.inputs)
        else:
            value = _Pieces.apply(value_of, pieces.size, *pieces.inputs)
        self._starts[rows] = torch.cat(found)
        return value


def _find(side: System, start: Tensor | None) -> tuple[Tensor, Tensor]:
    """The evidence, and where to start from next time."""
    if start is not None:
        start = start.to(side.covariance)
        # Zeros are no former mode to be patient with; on a device it would take a transfer to see.
        if start.device.type == "cpu" and not bool(start.any()):
            start = None
    value, mode = log_evidence(side, start=start)
    with torch.inference_mode(False):  # what is kept serves where gradients are taken, too
        # What did not converge is no place to start from.
        return value, mode.weights.masked_fill(~mode.converged.unsqueeze(-1), 0.0)


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
