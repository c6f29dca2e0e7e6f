r"""The five functions of [Xu2024b], with the ranges that its synthetic experts judge by.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

from botorch.test_functions import synthetic as botorch_synthetic
from botorch.test_functions.synthetic import SyntheticTestFunction

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems.synthetic import SyntheticProblem
from botorch_pref.problems.utility_experts import Range, checked_rho_range
from experiments.problems.standardised import HOLDER_BEST


class _Function(NamedTuple):
    """A function to be minimised, where and what it is least, and what it is at most."""

    make: Callable[[], SyntheticTestFunction]
    best: tuple[float, ...]  # in more digits than BoTorch has
    lowest: float
    highest: float  # over the box
    authors_highest: float  # what the authors' public code takes it to be


_MICHALEWICZ = (
    2.2029055201726093,
    math.pi / 2.0,
    1.2849915705529245,
    1.9230584698663629,
    1.7204697725658413,
)
_TABLE: dict[str, _Function] = {
    # Largest where one coordinate is 1 and the others are 0.61052, of either sign; 3.62538 is
    # the value at a corner.
    "ackley4": _Function(
        partial(botorch_synthetic.Ackley, dim=4, bounds=[(-1.0, 1.0)] * 4),
        (0.0,) * 4,
        0.0,
        4.705610173629071,
        3.62538,
    ),
    "holder2": _Function(
        partial(botorch_synthetic.HolderTable, bounds=[(0.0, 10.0)] * 2),
        HOLDER_BEST,
        -19.208502567886732,
        0.0,
        0.0,
    ),
    "rastrigin2": _Function(
        partial(botorch_synthetic.Rastrigin, dim=2), (0.0,) * 2, 0.0, 80.70658038767792, 80.0
    ),
    "michalewicz5": _Function(
        partial(botorch_synthetic.Michalewicz, dim=5), _MICHALEWICZ, -4.687658179088146, 0.0, 0.0
    ),
    "rosenbrock3": _Function(
        partial(botorch_synthetic.Rosenbrock, dim=3), (1.0,) * 3, 0.0, 1912662.0, 1.5e4
    ),
}
EXPERT_BENCHMARKS = tuple(_TABLE)
"""The names of the functions."""


class ExpertBenchmark(SyntheticProblem):
    r"""A test function of [Xu2024b], App. J.2.1, negated: the utility is ``-f``.

    ================ === =============== ========== ==================== ===============
    name             d   box of ``f``    largest    smallest utility     of the authors'
                                         utility    (true range)         code
    ================ === =============== ========== ==================== ===============
    ``ackley4``      4   [-1, 1]^4       0          -4.70561             -3.62538
    ``holder2``      2   [0, 10]^2       19.2085    0                    0
    ``rastrigin2``   2   [-5.12, 5.12]^2 0          -80.7066             -80
    ``michalewicz5`` 5   [0, pi]^5       4.687658   0                    0
    ``rosenbrock3``  3   [-5, 10]^3      0          -1912662             -15000
    ================ === =============== ========== ==================== ===============

    The range is what a :class:`~botorch_pref.problems.SyntheticExpert` maps to [-3, 3], and
    so it decides how much the expert knows. An expert of accuracy 1 accepts a uniformly drawn
    item of ``rosenbrock3`` with a mean probability of 0.865 by the true range, and is nearly
    useless; by the authors' it is 0.138. On ``ackley4`` they are 0.162 and 0.057; elsewhere
    the two ranges agree, or nearly so.

    Attributes:
        ranges: The ``"true"`` and the ``"authors"`` range: lowest and highest, in units of the
            utility. The highest is the true maximum in both.
        rho_range: The range that was chosen.
    """

    def __init__(
        self,
        which: str = "ackley4",
        rho_range: Literal["true", "authors"] | Range = "true",
        unit_cube: bool = True,
    ) -> None:
        r"""Set up a function.

        Args:
            which: ``"ackley4"``, ``"holder2"``, ``"rastrigin2"``, ``"michalewicz5"`` or
                ``"rosenbrock3"``; case, hyphens and underscores do not matter.
            rho_range: ``"true"``, ``"authors"``, or the lowest and the highest utility of
                the range. These are of the utility, to be maximised: the range (0, 4.7) of a
                function to be minimised is (-4.7, 0).
            unit_cube: If true, items live in ``[0, 1]^d``; else within the function's own
                bounds.

        Raises:
            SearchSpaceError: If there is no such function or range, or a range is not a lower
                and a higher number, the lower one below the largest utility.
        """
        key = which.lower().replace("-", "").replace("_", "")
        if key not in _TABLE:
            raise SearchSpaceError(f"which must be one of {', '.join(_TABLE)}, got {which!r}.")
        entry = _TABLE[key]
        best = 0.0 - entry.lowest  # never -0.0
        self.ranges: dict[str, Range] = {
            "true": (0.0 - entry.highest, best),
            "authors": (0.0 - entry.authors_highest, best),
        }
        if isinstance(rho_range, str):
            if rho_range not in self.ranges:
                raise SearchSpaceError(
                    "rho_range must be 'true', 'authors', or a lowest and a highest utility, "
                    f"got {rho_range!r}."
                )
            rho_range = self.ranges[rho_range]
        self.rho_range = checked_rho_range(rho_range, best)
        function = entry.make()
        # Holder's other three optima lie outside this box.
        function._optimizers, function._optimal_value = [entry.best], entry.lowest
        super().__init__(function, unit_cube=unit_cube, name=f"expert{key}")
