r"""What kernels share that are made of another one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpytorch.kernels import Kernel
from torch import Size, Tensor


class WrapperKernel(Kernel):
    r"""A kernel made of one base kernel, whose batch shape it has.

    Args:
        base_kernel: The kernel inside.
        active_dims: The columns of its inputs; all by default.
    """

    def __init__(
        self, base_kernel: Kernel, active_dims: Sequence[int] | Tensor | None = None
    ) -> None:
        super().__init__(active_dims=active_dims)
        self.base_kernel = base_kernel

    # A second one beside the base kernel's would go stale under ``expand_batch`` and indexing;
    # and GPyTorch asks many times a call, and would search all modules each time.
    @property
    def batch_shape(self) -> Size:
        """The batch shape of the base kernel."""
        return self.base_kernel.batch_shape

    @batch_shape.setter
    def batch_shape(self, val: Size) -> None:
        self.base_kernel.batch_shape = val

    def named_sub_kernels(self) -> Iterable[tuple[str, Kernel]]:
        """The base kernel alone; it recurses into its own sub-kernels itself."""
        yield "base_kernel", self.base_kernel
