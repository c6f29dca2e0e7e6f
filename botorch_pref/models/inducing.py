r"""Which items are inducing items."""

from __future__ import annotations

import torch
from botorch.models.utils.inducing_point_allocators import GreedyVarianceReduction
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from torch import Size, Tensor
from torch.nn import Parameter

from botorch_pref.data.blocks import match_items

_CANDIDATES = 4096  # of which the inducing items are chosen
_SEED = 0
_NEGLIGIBLE = 1e-3  # of the prior variance, that inducing items need not explain


@torch.no_grad()
def most_varied(kernel: Kernel, inputs: Tensor, number: int) -> Tensor:
    r"""Items that explain much of the prior variance of all, greedily one after the other.

    A pivoted Cholesky of the prior covariance (Burt, Rasmussen and van der Wilk 2020), of a
    random part of the items where there are many. Where this kernel leaves nothing more to
    explain, the rest are spread over the items: a fit may find shorter lengthscales.

    Args:
        kernel: The prior covariance.
        inputs: ``n x d``-dim transformed items.
        number: How many items.

    Returns:
        The indices of ``number`` items; fewer if no more of the candidates differ.
    """
    generator = torch.Generator().manual_seed(_SEED)
    order = torch.randperm(len(inputs), generator=generator).to(inputs.device)
    part = order[: max(_CANDIDATES, 2 * number)].sort().values
    candidates = inputs[part]
    relative = ScaleKernel(kernel)  # to its largest variance
    relative.raw_outputscale = Parameter(relative.raw_outputscale.to(candidates))
    largest = kernel(candidates, diag=True).amax()
    relative.outputscale = largest.reciprocal()
    chosen = _pivots(relative, candidates, number)
    if len(chosen) < number:
        rough = MaternKernel(nu=0.5, ard_num_dims=candidates.shape[-1]).to(candidates)
        extent = candidates.amax(0) - candidates.amin(0)
        rough.lengthscale = torch.where(extent > 0, extent, 1.0)
        spread = _pivots(rough, candidates, number)
        chosen = torch.cat([chosen, spread[~torch.isin(spread, chosen)]])[:number]
    return part[chosen]


def _pivots(kernel: Kernel, items: Tensor, number: int) -> Tensor:
    """Those of a pivoted Cholesky; it ends where a millionth of a variance of one is left."""
    found = GreedyVarianceReduction().allocate_inducing_points(items, kernel, number, Size())
    return match_items(items, found)[0]
