r"""Values and differences of a function as linear functions of its whitened coordinates.

Notation of :mod:`botorch_pref.likelihood_ratio.program`. An item of the model is a node: its
value is a row of the root. A point may be a node that would be appended, with a jitter of its
own, so that Xu et al. (2024), problem (24), holds as printed; or the value there of the function
without the part that the jitter adds at items, as in Xu et al. (2024b), COBOL.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from gpytorch.kernels import Kernel
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.kernels import dueling_variance
from botorch_pref.kernels.dense import dense_covariance
from botorch_pref.likelihood_ratio.program import FLOOR, Whitening


@dataclass(frozen=True, eq=False)
class Functionals:
    r"""What points have to do with the items of a model.

    Attributes:
        covar_module: The kernel.
        items: ``n x d``-dim items, as they were given.
        nodes: The same, as the kernel sees them.
        whitening: The root of their covariance.
        jitter: What is added to the variance of a node.
        appended: Whether a point is a node, and one equal to an item is that item.
    """

    covar_module: Kernel
    items: Tensor
    nodes: Tensor
    whitening: Whitening
    jitter: float
    appended: bool

    @property
    def scale(self) -> float:
        """The largest prior deviation of an item; 1 where there is none."""
        return float(self.whitening.root.norm(dim=-1).amax()) if len(self.items) else 1.0

    def value(self, X: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""The coefficients of ``f(x)``.

        Args:
            X: ``... x d``-dim points, as they were given.
            inputs: The same, as the kernel sees them.

        Returns:
            ``... x r``-dim ``a`` and ``...``-dim ``s``.
        """
        flat = inputs.reshape(-1, inputs.shape[-1])
        variance = to_dense(self.covar_module(flat, diag=True))
        variance = variance + self.jitter if self.appended else variance
        a, s = self.whitening.split(self._cross(flat).double(), variance.double())
        a, s = a.view(*X.shape[:-1], a.shape[-1]), s.view(X.shape[:-1])
        return self._at_nodes(X, a, s) if self.appended else (a, s)

    def difference(self, X: Tensor, inputs: Tensor) -> tuple[Tensor, Tensor]:
        r"""The coefficients of ``f(x) - f(x')``.

        Args:
            X: ``... x 2 x d``-dim pairs, as they were given.
            inputs: The same, as the kernel sees them.

        Returns:
            ``... x r``-dim and ``...``-dim coefficients, 0 where an item meets itself.
        """
        a, s = self.value(X, inputs)
        g = a[..., 0, :] - a[..., 1, :]
        arms = inputs.unsqueeze(-3).unbind(dim=-2)  # shapes: (..., 1, d)
        prior = dueling_variance(self.covar_module, *arms).squeeze(-1).double()
        jitter = 2.0 * self.jitter if self.appended else 0.0
        beyond = (prior + jitter - g.square().sum(-1)).clamp_min(FLOOR).sqrt()
        if self.appended:
            first, second = (self._rows(X) < len(self.items)).unbind(dim=-1)
            beyond = torch.where(first, s[..., 1], torch.where(second, s[..., 0], beyond))
        same = (X[..., 0, :] == X[..., 1, :]).all(-1)
        return g.masked_fill(same.unsqueeze(-1), 0.0), beyond.masked_fill(same, 0.0)

    def _cross(self, inputs: Tensor) -> Tensor:
        return dense_covariance(self.covar_module, inputs, self.nodes)

    def _at_nodes(self, X: Tensor, a: Tensor, s: Tensor) -> tuple[Tensor, Tensor]:
        """The same, with items' own rows, whose gradient is that beside the item."""
        row = self._rows(X)
        node = row < len(self.items)
        if not len(self.items) or not bool(node.any()):
            return a, s
        own = self.whitening.root[row.clamp_max(len(self.items) - 1)]
        a = torch.where(node.unsqueeze(-1), a + (own - a).detach(), a)
        return a, s.masked_fill(node, 0.0)

    def _rows(self, X: Tensor) -> Tensor:
        """The item that each point is, and their number where it is none."""
        equal = (X.detach().unsqueeze(-2) == self.items).all(-1)
        last = equal.new_ones(*equal.shape[:-1], 1)
        return torch.cat([equal, last], dim=-1).to(torch.uint8).argmax(-1)
