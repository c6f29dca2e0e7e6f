r"""Utilities from the RKHS of a kernel on the unit interval.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
.. [Kayal2025] A. Kayal, S. Vakili, L. Toni, D. Shiu, A. Bernacchia. Bayesian Optimization
    from Human Feedback: Near-Optimal Regret Bounds. ICML 2025.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems.base import PreferenceProblem, check_positive, evenly_spaced
from botorch_pref.randomness import derive_seed

# The anchor values of [Kayal2025], and so the range that random ones are drawn from.
ANCHOR_VALUES = (-0.5, 0.0, 0.5, 1.0, 0.7, 0.2, 0.2, 0.5, 0.95, 0.7)
# Kernels of unit variance, elementwise in the distance over the lengthscale.
_KERNELS: dict[str, Callable[[Tensor], Tensor]] = {
    "matern25": lambda r: (1.0 + 5.0**0.5 * r + 5.0 / 3.0 * r.square()) * (-(5.0**0.5) * r).exp(),
    "matern15": lambda r: (1.0 + 3.0**0.5 * r) * (-(3.0**0.5) * r).exp(),
    "se": lambda r: (-0.5 * r.square()).exp(),
}


class RKHSFunction(PreferenceProblem):
    r"""A utility from the RKHS of a kernel ([Lazzaro2026], App. F; [Kayal2025], Sec. 5).

    Kernel ridge regression through a few evenly spaced anchors ``a`` on ``[0, 1]`` with
    values ``v``: ``f(x) = scale k(x, a) (k(a, a) + ridge I)^{-1} v``. The three functions
    of [Kayal2025] are those of the three kernels with ``num_choices=100``.
    """

    choices: Tensor
    anchors: Tensor
    weights: Tensor

    def __init__(
        self,
        lengthscale: float = 0.1,
        num_anchors: int = 10,
        ridge: float = 0.05,
        scale: float = 5.0,
        values: Sequence[float] | Literal["random"] | None = None,
        num_choices: int = 30,
        seed: int = 0,
        kernel: Literal["matern25", "matern15", "se"] = "matern25",
    ) -> None:
        r"""Fit the function.

        Args:
            lengthscale: The kernel's lengthscale, in units of ``x``.
            num_anchors: The number of anchors.
            ridge: What is added to the diagonal of the kernel matrix.
            scale: What the function is multiplied by: 5 as in the code of [Kayal2025],
                or 1 as in the papers.
            values: The ``num_anchors`` values; ``"random"`` draws them uniformly from
                ``[-0.5, 1]``; ``None`` takes the ten of [Kayal2025].
            num_choices: The number of evenly spaced choices.
            seed: The seed of random values.
            kernel: Matern-5/2, Matern-3/2, or squared exponential.

        Raises:
            SearchSpaceError: If ``lengthscale``, ``ridge`` or ``scale`` is not
                positive, there are not ``num_anchors`` finite values, ``num_choices``
                is too small, or there is no such kernel.
        """
        check_positive(lengthscale=lengthscale, ridge=ridge, scale=scale)
        if kernel not in _KERNELS:
            raise SearchSpaceError(f"kernel must be one of {', '.join(_KERNELS)}, got {kernel!r}.")
        super().__init__(bounds=[(0.0, 1.0)], choices=evenly_spaced(0.0, 1.0, num_choices))
        self.name = "rkhs"
        self.lengthscale = lengthscale
        self.kernel = kernel
        targets = _anchor_values(values, num_anchors, seed)
        anchors = torch.linspace(0.0, 1.0, num_anchors, dtype=torch.double)
        self.register_buffer("anchors", anchors.unsqueeze(-1))
        gram = self._kernel(self.anchors)
        system = gram + ridge * torch.eye(num_anchors, dtype=torch.double)
        weights = scale * torch.linalg.solve(system, targets)
        self.register_buffer("weights", weights)

    @property
    def norm(self) -> float:
        """The RKHS norm of the utility, under the unit-variance kernel."""
        return float((self.weights @ self._kernel(self.anchors) @ self.weights).sqrt())

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self._kernel(X) @ self.weights.to(X)

    def _kernel(self, X: Tensor) -> Tensor:
        """``... x num_anchors``-dim kernel between ``... x 1``-dim items and anchors."""
        distance = (X - self.anchors.squeeze(-1).to(X)).abs()
        return _KERNELS[self.kernel](distance / self.lengthscale)


def _anchor_values(
    values: Sequence[float] | Literal["random"] | None, num_anchors: int, seed: int
) -> Tensor:
    """The ``num_anchors``-dim values at the anchors."""
    if isinstance(values, str):
        if values != "random":
            raise SearchSpaceError(f"values must be numbers, 'random' or None, got {values!r}.")
        generator = torch.Generator().manual_seed(derive_seed(seed, "problem", 0))
        uniform = torch.rand(num_anchors, generator=generator, dtype=torch.double)
        lower, upper = min(ANCHOR_VALUES), max(ANCHOR_VALUES)
        return lower + (upper - lower) * uniform
    fixed = ANCHOR_VALUES if values is None else values
    targets = torch.as_tensor(fixed, dtype=torch.double)
    if targets.shape != (num_anchors,) or not targets.isfinite().all():
        raise SearchSpaceError(
            f"values must be {num_anchors} finite numbers, one an anchor, got {tuple(fixed)}."
        )
    return targets
