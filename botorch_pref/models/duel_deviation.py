r"""The answer-free widths of POP-BO's theory, by the locations of duels alone."""

from __future__ import annotations

from typing import Literal

import torch
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.data.checks import checked_positive
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.kernels import AdditivePairKernel, DuelingKernel, PairKernel
from botorch_pref.likelihood_ratio.theory import sequential_deviations

PairKernelName = Literal["additive", "difference"]
_KINDS: dict[str, type[PairKernel]] = {"additive": AdditivePairKernel, "difference": DuelingKernel}


def duel_deviation(
    covar_module: Kernel, asked: Tensor, pairs: Tensor, kind: PairKernelName, penalty: float
) -> Tensor:
    r"""``sigma`` of pairs given the duels asked, Xu et al. (2024), eq. (16).

    Args:
        covar_module: The kernel over items.
        asked: ``m x 2 x d``-dim duels, in the order of their arms.
        pairs: ``... x 2 x d``-dim pairs.
        kind: ``"additive"``, as in the paper, or ``"difference"``: the dueling kernel, which
            vanishes where an item meets itself. At the same penalty it is at most
            ``sqrt(2)`` times as large.
        penalty: ``lambda``, which is added to the variance of each asked duel.

    Returns:
        ``...``-dim deviations.

    Raises:
        ComparisonDataError: If ``kind`` is another word, or ``penalty`` is not positive.
    """
    kernel, penalty = _pair_kernel(covar_module, kind), checked_positive("penalty", penalty)
    flat = pairs.reshape(-1, 2 * pairs.shape[-1])
    variance = to_dense(kernel(flat, diag=True))
    if len(asked):
        rows = asked.flatten(start_dim=-2)
        eye = torch.eye(len(rows), dtype=rows.dtype, device=rows.device)
        factor = torch.linalg.cholesky(to_dense(kernel(rows)) + penalty * eye)
        cross = to_dense(kernel(rows, flat))
        explained = torch.linalg.solve_triangular(factor, cross, upper=False)
        variance = variance - explained.square().sum(-2)
    return variance.clamp_min(0.0).sqrt().view(pairs.shape[:-2])


def asked_deviations(
    covar_module: Kernel, asked: Tensor, kind: PairKernelName, penalty: float
) -> Tensor:
    r"""``sigma_t`` of every one of ``m x 2 x d`` duels, given those asked before it.

    Arguments, returned values and errors as of :func:`duel_deviation`.
    """
    kernel = _pair_kernel(covar_module, kind)
    return sequential_deviations(to_dense(kernel(asked.flatten(start_dim=-2))), penalty)


def _pair_kernel(covar_module: Kernel, kind: str) -> PairKernel:
    if kind not in _KINDS:
        raise ComparisonDataError(f"`kernel` must be one of {', '.join(_KINDS)}, not {kind!r}.")
    return _KINDS[kind](covar_module)
