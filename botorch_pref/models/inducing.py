r"""A GPyTorch kernel as the covariance of items and inducing items, and their selection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from botorch.models.utils.inducing_point_allocators import GreedyVarianceReduction
from gpytorch.kernels import Kernel, MaternKernel, ScaleKernel
from torch import Size, Tensor
from torch.nn import Parameter

from botorch_pref.data.blocks import match_items
from botorch_pref.kernels.evaluation import dense_covariance
from botorch_pref.randomness import derive_seed

_CANDIDATES = 4096  # of which the inducing items are chosen
_NEGLIGIBLE = 1e-3  # of the prior variance, that inducing items need not explain


class InducingKernel:
    r"""What :class:`~botorch_pref.inference.InducingSystem` asks of a kernel.

    Args:
        kernel: A kernel without a batch.
        items: ``n x d``-dim transformed items.
        inducing: ``p x d``-dim transformed inducing items.
        scaling: ``n``-dim factors of the items' utilities in inference; ``None`` for ones.

    Attributes:
        inputs: The tensors above and the parameters of the kernel.
        num_inducing: ``p``.
    """

    def __init__(
        self, kernel: Kernel, items: Tensor, inducing: Tensor, scaling: Tensor | None
    ) -> None:
        self._kernel, self._items, self._inducing = kernel, items, inducing
        self._scaling = scaling
        factors = () if scaling is None else (scaling,)
        self.inputs: Sequence[Tensor] = (items, inducing, *factors, *kernel.parameters())
        self.num_inducing = len(inducing)

    def bound(self, inputs: Sequence[Tensor]) -> Self:
        """The same as a function of other items and factors; parameters are the kernel's."""
        scaling = None if self._scaling is None else inputs[2]
        return type(self)(self._kernel, inputs[0], inputs[1], scaling)

    def inducing(self) -> Tensor:
        """``p x p``-dim covariance of the inducing items."""
        return dense_covariance(self._kernel, self._inducing, self._inducing)

    def cross(self, items: Tensor | None) -> Tensor:
        """``q x p``-dim covariance of ``q`` items, by index, or of all, with inducing ones."""
        rows, scaling = slice(None) if items is None else items, self._scaling
        found = dense_covariance(self._kernel, self._items[rows], self._inducing)
        return found if scaling is None else scaling[rows].unsqueeze(-1) * found

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """``q``-dim covariances of items with items, by index."""
        items, scaling = self._items, self._scaling
        found = dense_covariance(self._kernel, items[first], items[second], diag=True)
        return found if scaling is None else scaling[first] * scaling[second] * found


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
    generator = torch.Generator().manual_seed(derive_seed(0, "inducing items", len(inputs)))
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
