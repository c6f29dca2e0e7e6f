r"""The test functions of [Xu2024], Table 2, and the positive Ackley function of [Kayal2025].

References:
.. [Kayal2025] A. Kayal, S. Vakili, L. Toni, D. Shiu, A. Bernacchia. Bayesian Optimization
    from Human Feedback: Near-Optimal Regret Bounds. ICML 2025.
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
.. [Surjanovic2013] S. Surjanovic, D. Bingham. Virtual Library of Simulation Experiments:
    Test Functions and Datasets. Simon Fraser University, 2013.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Literal, NamedTuple

import torch
from botorch.test_functions import synthetic as botorch_synthetic
from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.synthetic import Ackley, SyntheticProblem

# Where the derivative of log |sin| is that of the norm over pi, in either coordinate.
CROSS_IN_TRAY_BEST: list[tuple[float, ...]] = list(
    product((1.3494066171539108, -1.3494066171539108), repeat=2)
)
LEVY13_BEST: list[tuple[float, ...]] = [(1.0, 1.0)]
_BOTH = [0, 1]  # of the coordinates


def product_grid(bounds: Sequence[tuple[float, float]], per_side: int) -> Tensor:
    """A ``per_side^d x d``-dim product of even steps on every side; the last changes fastest."""
    if per_side < 2:
        raise SearchSpaceError(f"a grid needs at least 2 points on a side, got {per_side}.")
    sides = [torch.linspace(*side, per_side, dtype=torch.double) for side in bounds]
    return torch.stack(torch.meshgrid(*sides, indexing="ij"), dim=-1).flatten(end_dim=-2)


class PositiveAckley(PreferenceProblem):
    r"""Ackley's function to be maximised, on 100 even steps of [-5, 5] ([Kayal2025], Sec. 5).

    Its largest and its smallest utility differ by 3. The choices next to -4.5975 and 4.5975 are
    best.
    """

    name = "ackley"

    def __init__(self) -> None:
        usual = Ackley(num_choices=100, unit_cube=False)
        super().__init__(bounds=usual._bounds, choices=usual.choices)
        self.usual = usual
        self._scale = 3.0 / float(usual.utilities.max() - usual.utilities.min())

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -self._scale * self.usual(X)


class CrossInTray(SyntheticTestFunction):
    r"""The cross-in-tray function ([Surjanovic2013]).

    .. math::
        f(x) = -10^{-4} \left( \left| \sin x_1 \sin x_2
               e^{| 100 - \|x\| / \pi |} \right| + 1 \right)^{0.1}

    on ``[-10, 10]^2``. Its four minima, -2.06261, are where both ``|x_i|`` are 1.3494.
    """

    dim = 2
    continuous_inds = _BOTH
    _bounds = [(-10.0, 10.0)] * dim
    _optimal_value = -2.062611870822737
    _optimizers = CROSS_IN_TRAY_BEST

    def _evaluate_true(self, X: Tensor) -> Tensor:
        # e^100 is no number in single precision: it is taken out of the power.
        exponent = (100.0 - X.norm(dim=-1) / math.pi).abs()
        waves = X.sin().prod(dim=-1).abs()
        return -1e-4 * (0.1 * exponent).exp() * (waves + (-exponent).exp()).pow(0.1)


class Levy13(SyntheticTestFunction):
    r"""Levy's function number 13 ([Surjanovic2013]); not BoTorch's ``Levy`` in two dimensions.

    .. math::
        f(x) = \sin^2 3 \pi x_1 + (x_1 - 1)^2 (1 + \sin^2 3 \pi x_2)
               + (x_2 - 1)^2 (1 + \sin^2 2 \pi x_2)

    on ``[-10, 10]^2``. Its minimum is 0 at (1, 1).
    """

    dim = 2
    continuous_inds = _BOTH
    _bounds = [(-10.0, 10.0)] * dim
    _optimal_value = 0.0
    _optimizers = LEVY13_BEST

    def _evaluate_true(self, X: Tensor) -> Tensor:
        first, second = X.unbind(dim=-1)
        along = (first - 1.0).square() * (1.0 + (3.0 * math.pi * second).sin().square())
        across = (second - 1.0).square() * (1.0 + (2.0 * math.pi * second).sin().square())
        return (3.0 * math.pi * first).sin().square() + along + across


GRID_SIDE = 20
_SHRINKAGE = 1e-6
_VALUE_BOUND = 3.0


class StandardisedSettings(NamedTuple):
    r"""What POP-BO is run with on one of the functions.

    Attributes:
        norm_bound: The bound ``B`` on the norm of the standardised utility.
        beta0: The slack is ``beta0 sqrt(t)`` in the paper, ``beta0 sqrt(t + 1)`` in the
            authors' toolbox.
        kernel: ``"matern"``, which is Matern-5/2 with unit variance, or ``None`` where
            the paper does not say.
        lengthscale: In the function's own units; ``None`` where it is fitted.
        value_bound: The bound on the absolute standardised utility, or ``None``.
    """

    norm_bound: float
    beta0: float
    kernel: str | None = None
    lengthscale: float | None = None
    value_bound: float | None = None


class _Function(NamedTuple):
    """A function to be minimised, where it is least, and the toolbox's settings."""

    make: Callable[[], SyntheticTestFunction]
    best: Sequence[tuple[float, ...]]  # in more digits than BoTorch has
    norm_bound: float
    beta0: float
    lengthscale: float


HOLDER_BEST = (8.055023475736563, 9.664590019241273)  # in the positive quadrant
_BRANIN = [(-math.pi, 12.275), (math.pi, 2.275), (3.0 * math.pi, 2.475)]
_HOLDER = list(product(*((best, -best) for best in HOLDER_BEST)))
_TABLE: dict[str, _Function] = {
    "beale": _Function(botorch_synthetic.Beale, [(3.0, 0.5)], 6.0, 1.0, 4.5),
    "branin": _Function(botorch_synthetic.Branin, _BRANIN, 10.0, 10.0, 10.0),
    "bukin": _Function(botorch_synthetic.Bukin, [(-10.0, 1.0)], 4.0, 3.0, 1.0),
    "crossintray": _Function(CrossInTray, CROSS_IN_TRAY_BEST, 6.0, 1.0, 10.0),
    "eggholder": _Function(
        botorch_synthetic.EggHolder, [(512.0, 404.2318051137578)], 3.0, 0.5, 80.0
    ),
    "holdertable": _Function(botorch_synthetic.HolderTable, _HOLDER, 6.0, 1.0, 2.0),
    "levy13": _Function(Levy13, LEVY13_BEST, 6.0, 1.0, 2.0),
}
STANDARDISED_FUNCTIONS = tuple(_TABLE)
"""The names of the functions."""


class StandardisedFunction(SyntheticProblem):
    r"""A test function divided by its standard deviation over a grid ([Xu2024], Sec. 6.2).

    There are two recipes. ``"text"`` is what the paper says: the function, to be
    maximised, over its standard deviation. ``"toolbox"`` is what the authors' public code
    does: the mean over the grid is subtracted as well, and every side of the box loses
    1e-6 at both ends. Both take the population's standard deviation over 20 x 20 points,
    the corners included.

    The largest utility is the true one, over the box, wherever the problem has no
    choices. The authors' code measures regret against :attr:`grid_maximum`, which falls
    short of it by up to 0.39 (Holder's table), so that their regret may be negative.

    Attributes:
        recipe: ``"text"`` or ``"toolbox"``.
        settings: What the recipe runs POP-BO with.
        standard_deviation: Of the function over the grid, in its own units.
        offset: What is subtracted from the function before it is divided.
    """

    def __init__(
        self,
        which: str = "branin",
        recipe: Literal["text", "toolbox"] = "text",
        unit_cube: bool = True,
        choices_per_side: int | None = None,
    ) -> None:
        r"""Standardise a function.

        Args:
            which: ``"beale"``, ``"branin"``, ``"bukin"``, ``"crossintray"``,
                ``"eggholder"``, ``"holdertable"`` or ``"levy13"``; case, hyphens and
                underscores do not matter.
            recipe: ``"text"`` or ``"toolbox"``.
            unit_cube: If true, items live in ``[0, 1]^2``; else within the function's own
                bounds.
            choices_per_side: If given, only a grid of so many points on a side may be
                asked; it has no part in the standardisation.

        Raises:
            SearchSpaceError: If there is no such function or recipe, or a grid has fewer
                than 2 points on a side.
        """
        key = which.lower().replace("-", "").replace("_", "")
        if key not in _TABLE:
            raise SearchSpaceError(f"which must be one of {', '.join(_TABLE)}, got {which!r}.")
        if recipe not in ("text", "toolbox"):
            raise SearchSpaceError(f"recipe must be 'text' or 'toolbox', got {recipe!r}.")
        entry = _TABLE[key]
        function = _restricted(entry, _SHRINKAGE if recipe == "toolbox" else 0.0)
        lower, upper = function.get_buffer("bounds").tolist()
        sides = list(zip(lower, upper, strict=True))
        choices = None
        if choices_per_side is not None:
            box = [(0.0, 1.0)] * 2 if unit_cube else sides
            choices = product_grid(box, choices_per_side)
        name = f"standardised{key}"
        super().__init__(function, unit_cube=unit_cube, choices=choices, name=name)
        self.recipe = recipe
        self.settings = _settings(entry, recipe)
        values = -function(product_grid(sides, GRID_SIDE), noise=False)
        self.standard_deviation = float(values.std(correction=0))
        self.offset = float(values.mean()) if recipe == "toolbox" else 0.0
        self._grid_maximum = self._standardised(float(values.max()))
        assert self._optimal_value is not None  # every function of the table has one
        self._optimal_value = self._standardised(self._optimal_value)

    @property
    def grid_maximum(self) -> float:
        """The largest utility on the grid of 20 x 20 points."""
        return self._grid_maximum

    @property
    def unit_lengthscale(self) -> list[float] | None:
        """The lengthscale of the settings, each dimension over the side of the box."""
        if self.settings.lengthscale is None:
            return None
        lower, upper = self.function.get_buffer("bounds").tolist()
        return [self.settings.lengthscale / (b - a) for a, b in zip(lower, upper, strict=True)]

    def _standardised(self, value: float) -> float:
        return (value - self.offset) / self.standard_deviation

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return (super()._evaluate_true(X) - self.offset) / self.standard_deviation


def _settings(entry: _Function, recipe: str) -> StandardisedSettings:
    """The run of a recipe; that of the paper's text is the same for all functions."""
    if recipe == "text":
        return StandardisedSettings(norm_bound=6.0, beta0=1.0)
    return StandardisedSettings(
        entry.norm_bound, entry.beta0, "matern", entry.lengthscale, _VALUE_BOUND
    )


def _restricted(entry: _Function, shrinkage: float) -> SyntheticTestFunction:
    """The function on its box, or on a slightly smaller one, with its minimum there."""
    function = entry.make()
    bounds = function.get_buffer("bounds")
    inwards = torch.tensor([[1.0], [-1.0]], dtype=bounds.dtype)
    lower, upper = function.bounds = bounds + shrinkage * inwards
    # Only the egg holder's best point lies on the edge, where the function is monotone.
    best = torch.tensor(entry.best, dtype=bounds.dtype).clamp(min=lower, max=upper)
    function._optimizers, function.optimizers = [tuple(point) for point in best.tolist()], best
    function._optimal_value = float(function(best, noise=False).min())
    return function
