r"""Kernels over items: the default one and its prior, and values of any one as plain tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, Self

import torch
from botorch.utils.constraints import LogTransformedInterval
from gpytorch import settings
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior
from linear_operator import to_dense
from torch import Size, Tensor

# Modes of the prior, each a lengthscale and an output scale, and the standard deviations of the
# logarithms around them.
DEFAULT_MODES = ((0.21, 1.5), (0.7, 4.0))
LENGTHSCALE_WIDTH, OUTPUT_SCALE_WIDTH = 0.8, 1.0

KernelName = Literal["rbf", "matern", "matern15"]
_SMOOTHNESS = {"matern": 2.5, "matern15": 1.5}


class ScalesPrior(LogNormalPrior):
    r"""Log-normal lengthscales and output scale around one of several joint modes.

    All dimensions share the mode, and all modes are equally high. Draws are around the lengthscale
    of the first.

    Args:
        modes: Pairs of a lengthscale, in units of the inputs, and an output scale.
    """

    def __init__(self, modes: Sequence[tuple[float, float]]) -> None:
        super().__init__(math.log(modes[0][0]) + LENGTHSCALE_WIDTH**2, LENGTHSCALE_WIDTH)
        self.modes = tuple(modes)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Torch's, of what moves a module; GPyTorch's draws would stay on the former device."""
        super()._apply(fn, recurse)
        self.base_dist.loc, self.base_dist.scale = self._buffered_loc, self._buffered_scale
        return self

    def log_prob(self, x: Tensor) -> Tensor:
        r"""The log density, up to a constant.

        Args:
            x: ``... x (d + 1)``-dim lengthscales of one kernel, and then its output scale.

        Returns:
            ``...``-dim values.
        """
        logs, heights = x.log(), []
        for lengthscale, outputscale in self.modes:
            far = ((logs[..., :-1] - math.log(lengthscale)) / LENGTHSCALE_WIDTH).square().sum(-1)
            last = ((logs[..., -1] - math.log(outputscale)) / OUTPUT_SCALE_WIDTH).square()
            heights.append(-0.5 * (far + last))
        return torch.stack(heights).logsumexp(0)


def smooth_part(kernel: ScaleKernel) -> Kernel:
    """The part of a default kernel that has lengthscales, which a nugget may surround."""
    base: Kernel = kernel.base_kernel
    return getattr(base, "base_kernel", base)


def read_scales(kernel: ScaleKernel) -> Tensor:
    """The ``... x 1 x (d + 1)``-dim lengthscales of a kernel, and then its output scale."""
    scale = kernel.outputscale[..., None, None]
    return torch.cat([smooth_part(kernel).lengthscale, scale], dim=-1)


def write_scales(kernel: ScaleKernel, value: Tensor) -> None:
    """Set what :func:`read_scales` reads."""
    smooth_part(kernel).lengthscale = value[..., :-1]
    kernel.outputscale = value[..., 0, -1]


def possible_starts(kernel: ScaleKernel) -> list[tuple[Tensor, Tensor]]:
    """The scales of a kernel, where all are learnt, and the other modes of their prior.

    Each comes with its log density under the prior. Modes outside of the constraints, which a
    user may have narrowed, are left out.
    """
    prior = getattr(kernel, "scales_prior", None)
    if not isinstance(prior, ScalesPrior) or not all(p.requires_grad for p in kernel.parameters()):
        return []
    starts, base = [read_scales(kernel)], smooth_part(kernel)
    for lengthscale, outputscale in prior.modes:
        mode = torch.full_like(starts[0], lengthscale)
        mode[..., -1] = outputscale
        is_allowed = base.raw_lengthscale_constraint.check(mode[..., :-1])
        is_allowed = is_allowed and kernel.raw_outputscale_constraint.check(mode[..., 0, -1])
        if is_allowed and not torch.equal(mode, starts[0]):
            starts.append(mode)
    return [(start, prior.log_prob(start)) for start in starts]


def default_covar_module(
    dim: int | None,
    batch_shape: Size,
    kind: KernelName = "rbf",
    *,
    modes: Sequence[tuple[float, float]] = DEFAULT_MODES,
) -> ScaleKernel:
    r"""A scaled kernel with one lengthscale a dimension, for items in the unit cube.

    The prior is given by its modes, near which a fit stays where the answers say little: all
    lengthscales lie around 0.21 (90 % between 0.11 and 1.5) and the output scale around 1.5
    squared logits (0.79 and 21); or around 0.7 (0.36 and 4.9) and 4 (2.1 and 56). Around each the
    prior is log-normal; a fit starts from the mode that the answers favour and searches on the log
    scale. ``python -m experiments defaults`` and ``tutorial`` chose the modes.

    Args:
        dim: The number of dimensions of an item; one shared lengthscale if ``None``.
        batch_shape: The batch shape of the hyperparameters.
        kind: ``"rbf"``, ``"matern"`` for Matern-5/2, or ``"matern15"`` for Matern-3/2.
        modes: The modes of the prior, each a lengthscale and an output scale.

    Returns:
        The kernel, at the first mode.
    """
    lengthscale, outputscale = modes[0]
    options = {
        "ard_num_dims": dim,
        "batch_shape": batch_shape,
        "lengthscale_constraint": LogTransformedInterval(1e-3, 1e2, initial_value=lengthscale),
    }
    smoothness = _SMOOTHNESS.get(kind)
    kernel = ScaleKernel(
        MaternKernel(nu=smoothness, **options) if smoothness else RBFKernel(**options),
        batch_shape=batch_shape,
        outputscale_constraint=LogTransformedInterval(1e-3, 1e4, initial_value=outputscale),
    )
    kernel.register_prior("scales_prior", ScalesPrior(modes), read_scales, write_scales)
    return kernel


def dense_covariance(
    kernel: Kernel, left: Tensor, right: Tensor | None = None, diag: bool = False
) -> Tensor:
    """The ``... x p x q``-dim covariance of points as a tensor, or its ``... x p``-dim diagonal.

    A lazily evaluated kernel, GPyTorch's default, costs a fifth more where points are few.

    Args:
        kernel: Any kernel.
        left: ``... x p x d``-dim points.
        right: ``... x q x d``-dim points; ``left`` by default.
        diag: Whether only the diagonal is wanted, where ``p = q``.
    """
    with settings.lazily_evaluate_kernels(False):
        covariance: Tensor = to_dense(kernel(left, right, diag=diag))
        return covariance


def dueling_variance(base_kernel: Kernel, first: Tensor, second: Tensor, **params: Any) -> Tensor:
    """Prior variances of ``f(x) - f(x')``, one for each pair, with all their digits.

    Args:
        base_kernel: A kernel over items; its distances are not expanded into squares.
        first: ``... x n x d``-dim first items.
        second: ``... x n x d``-dim second items.
        **params: Passed to the base kernel.
    """
    own = to_dense(base_kernel(first, first, diag=True, **params))
    own = own + to_dense(base_kernel(second, second, diag=True, **params))
    cross = to_dense(base_kernel(first, second, diag=True, **params))
    return (own - 2.0 * cross).clamp_min(0.0)


def safe_deviation(variance: Tensor) -> Tensor:
    r"""The square root of ``...``-dim variances, of gradient zero where they are zero."""
    positive = variance > 0
    return torch.where(positive, torch.where(positive, variance, 1.0).sqrt(), 0.0)
