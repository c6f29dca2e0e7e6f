r"""Utilities from the RKHS of a kernel on the unit interval.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
.. [Kayal2025] A. Kayal, S. Vakili, L. Toni, D. Shiu, A. Bernacchia. Bayesian Optimization
    from Human Feedback: Near-Optimal Regret Bounds. ICML 2025.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems.base import PreferenceProblem, evenly_spaced

# The anchor values of [Kayal2025], its lengthscale, in units of ``x``, and its ridge.
_ANCHOR_VALUES = (-0.5, 0.0, 0.5, 1.0, 0.7, 0.2, 0.2, 0.5, 0.95, 0.7)
_LENGTHSCALE, _RIDGE = 0.1, 0.05
# Kernels of unit variance, elementwise in the distance over the lengthscale.
_KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "matern25": lambda r: (1.0 + 5.0**0.5 * r + 5.0 / 3.0 * r.square()) * (-(5.0**0.5) * r).exp(),
    "matern15": lambda r: (1.0 + 3.0**0.5 * r) * (-(3.0**0.5) * r).exp(),
    "se": lambda r: (-0.5 * r.square()).exp(),
}


class RKHSFunction(PreferenceProblem):
    r"""A utility from the RKHS of a kernel ([Lazzaro2026], App. F; [Kayal2025], Sec. 5).

    Kernel ridge regression through ten evenly spaced anchors ``a`` on ``[0, 1]`` with values ``v``:
    ``f(x) = scale k(x, a) (k(a, a) + ridge I)^{-1} v``. The three functions of [Kayal2025] are
    those of the three kernels with ``num_choices=100``.
    """

    name = "rkhs"
    choices: Tensor
    anchors: Tensor
    weights: Tensor

    def __init__(
        self,
        scale: float = 5.0,
        num_choices: int = 30,
        kernel: Literal["matern25", "matern15", "se"] = "matern25",
    ) -> None:
        r"""Fit the function.

        Args:
            scale: What the function is multiplied by: 5 as in the code of [Kayal2025], or 1 as in
                the papers.
            num_choices: The number of evenly spaced choices.
            kernel: Matern-5/2, Matern-3/2, or squared exponential.

        Raises:
            SearchSpaceError: If ``scale`` is not positive, ``num_choices`` is too small, or there
                is no such kernel.
        """
        if not 0 < scale < math.inf:
            raise SearchSpaceError(f"scale must be positive and finite, got {scale}.")
        if kernel not in _KERNELS:
            raise SearchSpaceError(f"kernel must be one of {', '.join(_KERNELS)}, got {kernel!r}.")
        super().__init__(bounds=[(0.0, 1.0)], choices=evenly_spaced(0.0, 1.0, num_choices))
        self.kernel = kernel
        values = torch.tensor(_ANCHOR_VALUES, dtype=torch.double)
        anchors = torch.linspace(0.0, 1.0, len(values), dtype=torch.double)
        self.register_buffer("anchors", anchors.unsqueeze(-1))
        system = self._kernel(self.anchors) + _RIDGE * torch.eye(len(values), dtype=torch.double)
        self.register_buffer("weights", scale * torch.linalg.solve(system, values))

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self._kernel(X) @ self.weights.to(X)

    def _kernel(self, X: Tensor) -> Tensor:
        """``... x num_anchors``-dim kernel between ``... x 1``-dim items and anchors."""
        distance = (X - self.anchors.squeeze(-1).to(X)).abs()
        return _KERNELS[self.kernel](distance / _LENGTHSCALE)
