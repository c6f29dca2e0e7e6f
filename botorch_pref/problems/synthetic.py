r"""Synthetic utilities: Ackley's function, and BoTorch's own test functions.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

import torch
from botorch.test_functions import synthetic as botorch_synthetic
from botorch.test_functions.base import ConstrainedBaseTestProblem
from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems.base import PreferenceProblem, evenly_spaced

_HALF_WIDTH = 5.0  # of Ackley's box


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
            function: A test function of real variables without constraints. Its observation noise
                is not used.
            unit_cube: If true, items live in ``[0, 1]^d``; else within the function's own bounds.
            choices: An ``n x d``-dim tensor of items, or ``None`` for the whole box.
            name: What to call the problem; the function's class name if omitted.

        Raises:
            UnsupportedError: If the function is constrained, or has whole-number or categorical
                variables.
        """
        kind = type(function).__name__
        if isinstance(function, ConstrainedBaseTestProblem):
            raise UnsupportedError(f"{kind} has constraints, which are not supported.")
        if function.discrete_inds or function.categorical_inds:
            raise UnsupportedError(f"{kind} has variables that are not real numbers.")
        bounds = function.get_buffer("bounds")
        lower, upper = bounds
        if function._optimizers is not None:
            optima = torch.tensor(function._optimizers, dtype=bounds.dtype)
            if unit_cube:
                optima = ((optima - lower) / (upper - lower)).clamp(0.0, 1.0)
            self._optimizers = [tuple(row) for row in optima.tolist()]
        if function._optimal_value is not None:
            sign = -1.0 if function.is_minimization_problem else 1.0
            self._optimal_value = sign * function.optimal_value + 0.0  # never -0.0
        self._check_grad_at_opt = function._check_grad_at_opt
        self.name = name or kind.lower()
        box = [(0.0, 1.0)] * function.dim if unit_cube else [*map(tuple, bounds.T.tolist())]
        super().__init__(bounds=box, choices=choices)
        self.unit_cube = unit_cube
        self.function = function

    def _evaluate_true(self, X: Tensor) -> Tensor:
        # In the function's own dtype: some of BoTorch's convert themselves to that of their input,
        # and would stay in single precision.
        lower, upper = self.function.get_buffer("bounds")
        raw = X.to(lower)
        if self.unit_cube:
            raw = torch.lerp(lower, upper, raw)
        values: Tensor = self.function(raw.clamp(min=lower, max=upper), noise=False)
        if self.function.is_minimization_problem:
            values = -values
        return values.to(X)


class Ackley(SyntheticProblem):
    r"""Ackley's function on ``[-5, 5]^d``, negated ([Lazzaro2026], Eq. (32)).

    .. math::
        f(x) = 20 e^{-0.2 \sqrt{\frac1d \sum_i x_i^2}}
               + e^{\frac1d \sum_i \cos 2 \pi x_i} - 20 - e

    The maximum is 0 at 0. The experiment of [Lazzaro2026] has ``num_choices=40``: no choice lies
    at 0, and two are best.
    """

    def __init__(
        self, dim: int = 1, num_choices: int | None = None, unit_cube: bool = True
    ) -> None:
        r"""Set up the box, or the grid.

        Args:
            dim: The dimension ``d``.
            num_choices: The number of evenly spaced choices, in one dimension only; ``None`` for
                the whole box.
            unit_cube: If true, the box is mapped to ``[0, 1]^d``.

        Raises:
            SearchSpaceError: If ``dim`` or ``num_choices`` is too small.
            UnsupportedError: If ``num_choices`` is given for ``dim > 1``.
        """
        if dim < 1:
            raise SearchSpaceError(f"dim must be at least 1, got {dim}.")
        if num_choices is not None and dim != 1:
            raise UnsupportedError(f"num_choices needs dim=1, got dim={dim}.")
        side = (-_HALF_WIDTH, _HALF_WIDTH)
        choices = None
        if num_choices is not None:
            choices = evenly_spaced(*((0.0, 1.0) if unit_cube else side), num_choices)
        function = botorch_synthetic.Ackley(dim=dim, bounds=[side] * dim)
        super().__init__(function, unit_cube=unit_cube, choices=choices, name="ackley")
