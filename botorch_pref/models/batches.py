r"""Batches of models on a CPU, in pieces that stay in its cache."""

from __future__ import annotations

from collections.abc import Iterator

from gpytorch import settings
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor
from torch.func import functional_call
from torch.nn import Module

_CACHED_ENTRIES = 2**18  # of one matrix: 2 MiB in double precision


def chunk_size(items: Tensor) -> int:
    r"""How many of ``b x n x d``-dim sets of items to treat at once.

    Returns:
        A number of batch elements; all of them on a device other than a CPU, or where
        there is no single batch dimension.
    """
    if items.dim() != 3 or items.device.type != "cpu":
        return max(len(items), 1)
    return max(1, _CACHED_ENTRIES // max(items.shape[-2], 1) ** 2)


def chunked_covariance(covar_module: Kernel, items: Tensor, size: int) -> Iterator[Tensor]:
    r"""The covariances of ``b x n x d``-dim items, ``size`` batch elements at a time.

    Args:
        covar_module: A kernel of batch shape ``b``, or of none.
        items: The items.
        size: The number of batch elements in a piece.

    Yields:
        ``size x n x n``-dim covariances that carry the graph of the whole kernel's
        parameters, of which each piece sees its own slice.
    """
    dense = _Dense(covar_module)
    batch = len(items)
    pieces = {
        name: value.split(size)
        for name, value in dense.named_parameters()
        if covar_module.batch_shape and value.shape[:1] == (batch,)
    }
    for i, part in enumerate(items.split(size)):
        own = {name: split[i] for name, split in pieces.items()}
        yield functional_call(dense, own, (part,))


class _Dense(Module):
    """A kernel that is evaluated at once, while its parameters are those of the call."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, items: Tensor) -> Tensor:
        """The covariance of ``... x n x d`` items."""
        with settings.lazily_evaluate_kernels(False):
            return to_dense(self.kernel(items))
