r"""Synthetic utilities: Ackley's function, and BoTorch's own test functions.

References:
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
.. [Kayal2025] A. Kayal, S. Vakili, L. Toni, D. Shiu, A. Bernacchia. Bayesian Optimization
    from Human Feedback: Near-Optimal Regret Bounds. ICML 2025.
"""

from __future__ import annotations

import torch
from botorch.test_functions import synthetic as botorch_synthetic
from botorch.test_functions.base import ConstrainedBaseTestProblem
from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems.base import PreferenceProblem, check_positive, evenly_spaced

# Largest minus smallest value of Ackley's function on [-5, 5]^d, the same for every d: it
# is 0 at 0, and largest where all coordinates are at 4.5975 (of either sign).
_ACKLEY_HALF_WIDTH = 5.0
ACKLEY_BOX_RANGE = 14.302667500265276
ACKLEY_FARTHEST = 4.597534750355417


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


class _PositiveAckley(botorch_synthetic.Ackley):
    """Ackley's function where it is to be maximised."""

    _is_minimization_by_default = False
    _optimal_value = ACKLEY_BOX_RANGE
    _check_grad_at_opt = True

    def __init__(self, dim: int, bounds: list[tuple[float, float]]) -> None:
        super().__init__(dim=dim, bounds=bounds)
        # Two of the 2^d corners, all of which tie.
        self._optimizers = [(-ACKLEY_FARTHEST,) * dim, (ACKLEY_FARTHEST,) * dim]
        self.optimizers = torch.tensor(self._optimizers, dtype=torch.double)


class Ackley(SyntheticProblem):
    r"""Ackley's function on ``[-5, 5]^d``, negated ([Lazzaro2026], Eq. (32)) or not.

    .. math::
        f(x) = 20 e^{-0.2 \sqrt{\frac1d \sum_i x_i^2}}
               + e^{\frac1d \sum_i \cos 2 \pi x_i} - 20 - e

    The experiment of [Lazzaro2026] has ``num_choices=40``: no choice lies at 0, and two
    are best. That of [Kayal2025] has ``num_choices=100, unit_cube=False,
    utility_scale=3.0, negate=False``: the choices next to -4.5975 and 4.5975 are best.
    """

    def __init__(
        self,
        dim: int = 1,
        num_choices: int | None = None,
        unit_cube: bool = True,
        utility_scale: float | None = None,
        negate: bool = True,
    ) -> None:
        r"""Set up the box, or the grid.

        Args:
            dim: The dimension ``d``.
            num_choices: The number of evenly spaced choices, in one dimension only;
                ``None`` for the whole box.
            unit_cube: If true, the box is mapped to ``[0, 1]^d``.
            utility_scale: If given, the utility is multiplied so that its largest and
                its smallest value differ by this much: over the choices where there
                are any, else over the box.
            negate: If true, the utility is the ``f`` above, with its maximum 0 at 0; if
                false it is ``-f``, from 0 at 0 to 14.3 where all ``|x_i|`` are 4.5975.

        Raises:
            SearchSpaceError: If ``dim`` or ``num_choices`` is too small, or
                ``utility_scale`` is not positive.
            UnsupportedError: If ``num_choices`` is given for ``dim > 1``.
        """
        if dim < 1:
            raise SearchSpaceError(f"dim must be at least 1, got {dim}.")
        if num_choices is not None and dim != 1:
            raise UnsupportedError(f"num_choices needs dim=1, got dim={dim}.")
        if utility_scale is not None:
            check_positive(utility_scale=utility_scale)
        box = [(-_ACKLEY_HALF_WIDTH, _ACKLEY_HALF_WIDTH)]
        choices = None
        if num_choices is not None:
            lower, upper = (0.0, 1.0) if unit_cube else box[0]
            choices = evenly_spaced(lower, upper, num_choices)
        kind = botorch_synthetic.Ackley if negate else _PositiveAckley
        function = kind(dim=dim, bounds=box * dim)
        super().__init__(function, unit_cube=unit_cube, choices=choices, name="ackley")
        self._scale = 1.0
        if utility_scale is not None:
            width = ACKLEY_BOX_RANGE
            if self.choices is not None:
                values = super()._evaluate_true(self.choices)
                width = float(values.max() - values.min())
            self._scale = utility_scale / width
        self._optimal_value = 0.0 if negate else self._scale * ACKLEY_BOX_RANGE

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self._scale * super()._evaluate_true(X)
