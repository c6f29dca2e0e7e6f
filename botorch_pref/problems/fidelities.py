r"""Functions with a low fidelity, by which duels are decided: CurrinExp.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
.. [Xiong2013] S. Xiong, P. Z. G. Qian, C. F. J. Wu. Sequential Design and Analysis of
    High-Accuracy and Low-Accuracy Computer Codes. Technometrics 55, 2013.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem

Zeta: TypeAlias = Literal["paper", "tight"]
Point: TypeAlias = tuple[float, ...]

_STEP = 0.05  # of CurrinExp's low fidelity
# Below this, 1 - exp(-1 / (2 x)) is 1 to e^-500, and its derivative would be 0 times infinity.
_FLAT = 1e-3


class FidelityFacts(NamedTuple):
    """What is known of the two fidelities ``f`` and ``f_c`` of a problem, over its domain.

    Attributes:
        utility_range: The smallest and the largest ``f``.
        low_range: The smallest and the largest ``f_c``.
        low_at_best: ``f_c(x*)`` where ``f`` is largest.
    """

    utility_range: tuple[float, float]
    low_range: tuple[float, float]
    low_at_best: float


class FidelityProblem(PreferenceProblem):
    r"""An expensive utility ``f``, and ``f_c``, near to it, by which duels are decided.

    The utility is ``f``: regrets are of ``f``, and ``f_c`` is never told.
    """

    _low_optimal_value: float | None = None

    def low_fidelity(self, items: Tensor) -> Tensor:
        r"""The low fidelity ``f_c``.

        Args:
            items: ``... x d``-dim items within the bounds.

        Returns:
            ``...``-dim values, in the units of the utility.

        Raises:
            ItemError: If these are no items of the problem; names the first such row.
        """
        self._validate_items(items, argument="items")
        return self._low_fidelity(items)

    @abstractmethod
    def _low_fidelity(self, items: Tensor) -> Tensor:
        """The low fidelity of valid items."""

    def low_problem(self) -> PreferenceProblem:
        """The low fidelity as a problem of its own, with the same domain."""
        return _LowFidelity(self)

    def facts(self) -> FidelityFacts:
        r"""What is known of the fidelities: over the choices where there are any, else the box.

        Raises:
            UnsupportedError: If the problem does not know its ranges.
        """
        if self.choices is None:
            return self._box_facts()
        high, low = self.utilities, self.low_fidelity(self.choices)
        (low_least, low_most), (least, most) = low.aminmax(), high.aminmax()
        return FidelityFacts(
            (float(least), float(most)),
            (float(low_least), float(low_most)),
            float(low[high.argmax()]),
        )

    def _box_facts(self) -> FidelityFacts:
        raise UnsupportedError(f"the ranges of {self.name} are not known over its whole box.")

    def zeta(self, convention: Zeta = "tight") -> float:
        r"""The bias of comparisons ``zeta``, in units of the utility.

        Args:
            convention: ``"paper"`` for ``f(x*) - f_c(x*)``, which the experiments of [Xu2020]
                use, though a constant added to ``f_c`` changes it; or ``"tight"`` for
                ``f_c* - f_c(x*)``, which suffices for the best item to pass the filter.

        Returns:
            The bias, at least 0 but for ``"paper"``.

        Raises:
            UnsupportedError: If there is no such convention, or the problem does not know it.
        """
        if convention not in ("paper", "tight"):
            raise UnsupportedError(f"convention must be 'paper' or 'tight', got {convention!r}.")
        facts = self.facts()
        high = facts.utility_range[1] if convention == "paper" else facts.low_range[1]
        return high - facts.low_at_best


class _LowFidelity(PreferenceProblem):
    """The low fidelity of a problem as a utility."""

    def __init__(self, problem: FidelityProblem) -> None:
        self.name = f"{problem.name}low"
        if problem.choices is None:
            self._optimal_value = problem._low_optimal_value
        bounds: Tensor = problem.bounds
        super().__init__(
            [(lower, upper) for lower, upper in bounds.T.tolist()],
            problem.choices,
            bounds.dtype,
        )
        self.problem = problem

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self.problem._low_fidelity(X)


class TwoFormulas(FidelityProblem):
    r"""Two formulas, and where in the unit cube they are extreme."""

    _best: ClassVar[Point]
    _worst: ClassVar[Point]
    _low_best: ClassVar[Point]
    _low_worst: ClassVar[Point]

    def __init__(self, unit_range: bool = False, choices: Tensor | None = None) -> None:
        r"""Set the units, and the domain.

        Args:
            unit_range: If true, both fidelities are divided by the largest minus the smallest
                ``f`` over the box, so that biases and thresholds are fractions of it.
            choices: An ``n x d``-dim tensor of items in the unit cube, or ``None`` for all
                of it.

        Raises:
            SearchSpaceError: If the choices are no table of items within the bounds.
        """
        self._unit = 1.0
        self._bounds = [(0.0, 1.0)] * len(self._best)
        if unit_range:
            least, most = self._box_facts().utility_range
            self._unit = most - least
        facts = self._box_facts()
        self._optimizers = [self._best]
        self._optimal_value, self._low_optimal_value = facts.utility_range[1], facts.low_range[1]
        super().__init__(choices=choices)

    @abstractmethod
    def _formula(self, items: Tensor, low: bool) -> Tensor:
        """The fidelity in its own units."""

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self._formula(X, low=False) / self._unit

    def _low_fidelity(self, items: Tensor) -> Tensor:
        return self._formula(items, low=True) / self._unit

    def _box_facts(self) -> FidelityFacts:
        points = [self._worst, self._best, self._low_worst, self._low_best]
        items = torch.tensor(points, dtype=torch.double)
        high, low = self._evaluate_true(items).tolist(), self._low_fidelity(items).tolist()
        return FidelityFacts((high[0], high[1]), (low[2], low[3]), low[1])


class CurrinExp(TwoFormulas):
    r"""Currin's exponential function in two dimensions, with the low fidelity of [Xiong2013].

    .. math::
        f(x) = \left(1 - e^{-1 / (2 x_2)}\right)
               \frac{2300 x_1^3 + 1900 x_1^2 + 2092 x_1 + 60}{100 x_1^3 + 500 x_1^2 + 4 x_1 + 20}

    on the unit square, the first factor being 1 where ``x_2 = 0``; and ``f_c(x)`` is the mean
    of ``f`` at ``x_1 +- 0.05`` and ``x_2 + 0.05, max(x_2 - 0.05, 0)``, which may leave the
    square. ``f`` lies between 1.18040 and 13.79872 at (13/60, 0), and is flat there in
    ``x_2``; ``f_c`` is largest, 13.58265, at (0.23575, 0).

    Gradients are finite everywhere, ``x_2 = 0`` included.
    """

    name = "currinexp"
    _best = (13.0 / 60.0, 0.0)
    _worst = (0.0, 1.0)
    _low_best = (0.23575291994755336, 0.0)
    _low_worst = (0.0, 1.0)

    def _formula(self, items: Tensor, low: bool) -> Tensor:
        first, second = items.unbind(dim=-1)
        if not low:
            return _decay(second) * _ratio(first)
        below = (second - _STEP).clamp(min=0.0)
        along = _ratio(first + _STEP) + _ratio(first - _STEP)
        return 0.25 * (_decay(second + _STEP) + _decay(below)) * along


def _decay(x: Tensor) -> Tensor:
    """``1 - exp(-1 / (2 x))``."""
    safe = torch.where(x > _FLAT, x, 1.0)
    return torch.where(x > _FLAT, -torch.expm1(-0.5 / safe), 1.0)


def _ratio(x: Tensor) -> Tensor:
    """The second factor of CurrinExp."""
    above = ((2300.0 * x + 1900.0) * x + 2092.0) * x + 60.0
    return above / (((100.0 * x + 500.0) * x + 4.0) * x + 20.0)
