r"""Problems whose items are shown as parameters of several kinds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from botorch_pref.problems import PreferenceProblem, get_problem
from experiments.defaults.loop import StandardisedProblem

Kind = Literal["real", "log", "whole", "category"]

LOG_RANGE = (1e-5, 1e-1)
WHOLE = 20  # from 0 on
# Coordinates of the levels of a category, in an order that says nothing.
LEVELS = {"ash": 0.15, "birch": 0.95, "cedar": 0.55, "elm": 0.35, "fir": 0.75}


class ShownProblem(StandardisedProblem):
    r"""A utility of the unit cube whose coordinates are shown as parameters.

    It has mean 0 and a standard deviation of 3 logits over the cube; an item is a point of the
    cube, whatever is shown.

    Attributes:
        kinds: What each coordinate is shown as: itself (``"real"``), a number from 1e-5 to 0.1 on
            a logarithmic scale (``"log"``), a whole number from 0 to 20 (``"whole"``) or one of
            five names (``"category"``).
    """

    def __init__(
        self, problem: PreferenceProblem, kinds: Sequence[Kind] = (), name: str | None = None
    ) -> None:
        """Standardise a problem."""
        super().__init__(problem)
        plain: list[Kind] = ["real"] * problem.dim
        self.kinds = tuple(kinds or plain)
        self.name = name or problem.name


def shown_problems() -> tuple[ShownProblem, ...]:
    """Branin, Hartmann-6, and Levy's function whose four parameters are of all kinds."""
    # Levy's maximum has 0.55 for every coordinate: the whole number 11, and cedar.
    kinds: tuple[Kind, ...] = ("real", "log", "whole", "category")
    return (
        ShownProblem(get_problem("branin")),
        ShownProblem(get_problem("hartmann6")),
        ShownProblem(get_problem("levy", dim=4), kinds, "mixed-levy"),
    )
