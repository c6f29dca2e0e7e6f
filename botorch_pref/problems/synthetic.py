r"""Synthetic utilities: Ackley, RKHS functions, and BoTorch's own test functions.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
.. [Kayal2025] A. Kayal, S. Vakili, L. Toni, A. Bernacchia. Bayesian Optimization from
    Human Feedback: Near-Optimal Regret Bounds. ICML 2025.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import torch
from botorch.test_functions import synthetic as botorch_synthetic
from botorch.test_functions.base import ConstrainedBaseTestProblem
from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.randomness import derive_seed

# The anchor values of [Kayal2025], and so the range that random ones are drawn from.
ANCHOR_VALUES = (-0.5, 0.0, 0.5, 1.0, 0.7, 0.2, 0.2, 0.5, 0.95, 0.7)
# Largest minus smallest utility of Ackley on [-5, 5]^d: the same for every d, as the
# worst point has all coordinates at 4.5975.
ACKLEY_BOX_RANGE = 14.302667500265276


class SyntheticProblem(PreferenceProblem):
    r"""Any of BoTorch's synthetic test functions as a preference problem.

    Items live in the unit cube. The utility is the function itself where it is to be
    maximised and its negative where it is to be minimised, in its own units.
    """

    def __init__(
        self,
        function: SyntheticTestFunction,
        unit_cube: bool = True,
        choices: Tensor | None = None,
        name: str | None = None,
    ) -> None:
        r"""Wrap a test function.

        Args:
            function: A test function of real variables without constraints. Its
                observation noise is not used.
            unit_cube: If true, items live in ``[0, 1]^d``; else within the function's
                own bounds.
            choices: An ``n x d``-dim tensor of items, or ``None`` for the whole box.
            name: What to call the problem; the function's class name if omitted.

        Raises:
            UnsupportedError: If the function is constrained, or has whole-number or
                categorical variables.
        """
        kind = type(function).__name__
        if isinstance(function, ConstrainedBaseTestProblem):
            raise UnsupportedError(f"{kind} has constraints, which are not supported.")
        if function.discrete_inds or function.categorical_inds:
            raise UnsupportedError(f"{kind} has variables that are not real numbers.")
        bounds = function.get_buffer("bounds")
        lower, upper = bounds
        optimizers = function._optimizers
        if optimizers is not None:
            optima = torch.tensor(optimizers, dtype=bounds.dtype)
            if unit_cube:
                optima = ((optima - lower) / (upper - lower)).clamp(0.0, 1.0)
            self._optimizers = [tuple(row) for row in optima.tolist()]
        if function._optimal_value is not None:
            sign = -1.0 if function.is_minimization_problem else 1.0
            self._optimal_value = sign * function.optimal_value + 0.0  # never -0.0
        self._check_grad_at_opt = function._check_grad_at_opt
        self.name = name or kind.lower()
        super().__init__(
            bounds=[(0.0, 1.0)] * function.dim
            if unit_cube
            else list(zip(lower.tolist(), upper.tolist(), strict=True)),
            choices=choices,
            dtype=bounds.dtype,
        )
        self.unit_cube = unit_cube
        self.function = function

    def _evaluate_true(self, X: Tensor) -> Tensor:
        # In the function's own dtype: some of BoTorch's convert themselves to that of
        # their input, and would stay in single precision.
        lower, upper = self.function.get_buffer("bounds")
        raw = X.to(lower)
        if self.unit_cube:
            raw = torch.lerp(lower, upper, raw)
        values: Tensor = self.function(raw.clamp(min=lower, max=upper), noise=False)
        if self.function.is_minimization_problem:
            values = -values
        return values.to(X)


class Ackley(SyntheticProblem):
    r"""Ackley's function on ``[-5, 5]^d``, maximised ([Lazzaro2026], Eq. (32)).

    .. math::
        f(x) = 20 e^{-0.2 \sqrt{\frac1d \sum_i x_i^2}}
               + e^{\frac1d \sum_i \cos 2 \pi x_i} - 20 - e

    The paper's experiment has ``num_choices=40``: no choice lies at 0, and two are best.
    """

    def __init__(
        self,
        dim: int = 1,
        num_choices: int | None = None,
        unit_cube: bool = True,
        utility_scale: float | None = None,
    ) -> None:
        r"""Set up the box, or the grid.

        Args:
            dim: The dimension ``d``.
            num_choices: The number of evenly spaced choices, in one dimension only;
                ``None`` for the whole box.
            unit_cube: If true, ``[-5, 5]^d`` is mapped to ``[0, 1]^d``.
            utility_scale: If given, the utility is multiplied so that its largest and
                its smallest value differ by this much: over the choices where there
                are any, else over the box.

        Raises:
            SearchSpaceError: If ``dim`` or ``num_choices`` is too small, or
                ``utility_scale`` is not positive.
            UnsupportedError: If ``num_choices`` is given for ``dim > 1``.
        """
        if dim < 1:
            raise SearchSpaceError(f"dim must be at least 1, got {dim}.")
        if num_choices is not None and dim != 1:
            raise UnsupportedError(f"num_choices needs dim=1, got dim={dim}.")
        if utility_scale is not None and not 0 < utility_scale < math.inf:
            raise SearchSpaceError(
                f"utility_scale must be positive and finite, got {utility_scale}."
            )
        choices = None
        if num_choices is not None:
            lower, upper = (0.0, 1.0) if unit_cube else (-5.0, 5.0)
            choices = _grid(lower, upper, num_choices)
        function = botorch_synthetic.Ackley(dim=dim, bounds=[(-5.0, 5.0)] * dim)
        super().__init__(function, unit_cube=unit_cube, choices=choices, name="ackley")
        self._scale = 1.0
        if utility_scale is not None:
            width = ACKLEY_BOX_RANGE
            if self.choices is not None:
                values = super()._evaluate_true(self.choices)
                width = float(values.max() - values.min())
            self._scale = utility_scale / width

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self._scale * super()._evaluate_true(X)


class RKHSFunction(PreferenceProblem):
    r"""A utility from the RKHS of a Matern-5/2 kernel ([Lazzaro2026], App. F).

    Kernel ridge regression through a few evenly spaced anchors ``a`` on ``[0, 1]`` with
    values ``v``: ``f(x) = scale k(x, a) (k(a, a) + ridge I)^{-1} v``.
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

        Raises:
            SearchSpaceError: If ``lengthscale``, ``ridge`` or ``scale`` is not
                positive, there are not ``num_anchors`` finite values, or
                ``num_choices`` is too small.
        """
        for argument, value in (
            ("lengthscale", lengthscale),
            ("ridge", ridge),
            ("scale", scale),
        ):
            if not 0 < value < math.inf:
                raise SearchSpaceError(f"{argument} must be positive and finite, got {value}.")
        super().__init__(bounds=[(0.0, 1.0)], choices=_grid(0.0, 1.0, num_choices))
        self.name = "rkhs"
        self.lengthscale = lengthscale
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
        s = math.sqrt(5.0) / self.lengthscale * distance
        return (1.0 + s + s.square() / 3.0) * torch.exp(-s)


def _grid(lower: float, upper: float, num_choices: int) -> Tensor:
    """``num_choices x 1``-dim evenly spaced items, both ends included."""
    if num_choices < 2:
        raise SearchSpaceError(f"num_choices must be at least 2, got {num_choices}.")
    grid = torch.linspace(lower, upper, num_choices, dtype=torch.double)
    # Bitwise symmetric about the middle, so that the ties of a symmetric utility are.
    half = num_choices // 2
    grid[:half] = lower + upper - grid.flip(0)[:half]
    return grid.unsqueeze(-1)


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
