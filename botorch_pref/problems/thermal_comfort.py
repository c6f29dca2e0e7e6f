r"""Thermal comfort of a room: Fanger's predicted mean vote by ISO 7730.

References:
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
.. [ISO7730] ISO 7730:2005. Ergonomics of the thermal environment: analytical
    determination and interpretation of thermal comfort using calculation of the PMV and
    PPD indices and local thermal comfort criteria.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems.base import PreferenceProblem

_BEST_PPD = 5.0
_RADIANT, _HUMIDITY = 25.0, 50.0  # those of two dimensions
# Air temperature, air speed, mean radiant temperature and humidity.
_BOUNDS = ((20.0, 30.0), (0.05, 1.0), (20.0, 30.0), (30.0, 70.0))
# Air temperatures at which the predicted mean vote is 0 in two dimensions, by the air speed.
_COMFORTABLE = ((24.29599406823525, 0.05), (25.88800880425025, 0.2), (27.963669850159064, 1.0))
_GRID_SIDES = {2: 20, 4: 10}
_POWER = 58.15 * 1.2  # metabolic rate at light work, in W/m^2
_INSULATION = 0.155 * 0.5  # of summer clothes, in m^2 K/W
_AREA = 1.0 + 1.29 * _INSULATION  # of the clothes over that of the skin
_SKIN = 35.7 - 0.028 * _POWER  # degrees Celsius
_ABSOLUTE_ZERO = -273.0  # degrees Celsius, as in the standard
_RADIATION = 3.96e-8
_NEWTON_STEPS = 50  # at most; they end at rounding


class ThermalComfort(PreferenceProblem):
    r"""The comfort of a room, in two or four dimensions (after [Xu2024], App. P.2).

    An item is air temperature (20 to 30 degrees Celsius) and air speed (0.05 to 1 m/s); in four
    dimensions also mean radiant temperature (20 to 30 degrees Celsius) and relative humidity (30 to
    70 percent), which are 25 and 50 in two. People sit at light work (1.2 met) in summer clothes
    (0.5 clo). The utility is the percentage who are dissatisfied, negated, over its standard
    deviation on a grid: 20 points a side in two dimensions, 10 in four.

    [Xu2024] names the variables and the predicted mean vote, and nothing else: ranges, met, clo,
    the fixed values, the utility and its scale are this package's own choice.

    The best items, of 5 percent, are those with a vote of 0. They are a whole surface (in two
    dimensions a curve), and ``optimizers`` are examples: a recommendation is as good as its
    utility, never as its distance to one of them.
    """

    name = "thermalcomfort"

    def __init__(self, dim: Literal[2, 4] = 2) -> None:
        """Set up the room; ``dim`` is 2 or 4, else it raises a ``SearchSpaceError``."""
        if dim not in _GRID_SIDES:
            raise SearchSpaceError(f"dim must be 2 or 4, got {dim!r}.")
        bounds = _BOUNDS[:dim]
        self._optimizers = [(*point, _RADIANT, _HUMIDITY)[:dim] for point in _COMFORTABLE]
        super().__init__(bounds=bounds)
        sides = [torch.linspace(*side, _GRID_SIDES[dim], dtype=torch.double) for side in bounds]
        self._scale = float(_dissatisfied(torch.cartesian_prod(*sides)).std(correction=0))
        self._optimal_value = -_BEST_PPD / self._scale

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -_dissatisfied(X) / self._scale


def predicted_mean_vote(X: Tensor) -> Tensor:
    """The votes of ``d``-dim items from -3, cold, to 3, hot ([ISO7730]), not cut off there.

    First derivatives are exact but for the kinks of the standard; second ones are not.
    """
    air, speed, *others = X.unbind(dim=-1)
    radiant, humidity = others or (torch.full_like(air, _RADIANT), _HUMIDITY)
    dry = (_SKIN - _clothes_temperature(air, radiant, 12.1 * speed.sqrt())) / _INSULATION
    vapour = 10.0 * humidity * (16.6536 - 4030.183 / (air + 235.0)).exp()
    diffusion = 3.05e-3 * (5733.0 - 6.99 * _POWER - vapour)
    sweat = 0.42 * (_POWER - 58.15)
    breath = 1.7e-5 * _POWER * (5867.0 - vapour) + 0.0014 * _POWER * (34.0 - air)
    load = _POWER - (diffusion + sweat + breath) - dry
    return (0.303 * math.exp(-0.036 * _POWER) + 0.028) * load


def _dissatisfied(X: Tensor) -> Tensor:
    """The percentage of people who are dissatisfied (PPD, [ISO7730]), 5 where the vote is 0."""
    square = predicted_mean_vote(X).square()
    return _BEST_PPD - 95.0 * torch.expm1(-0.03353 * square.square() - 0.2179 * square)


def _clothes_temperature(air: Tensor, radiant: Tensor, forced: Tensor) -> Tensor:
    """The temperature of the clothes, by Newton's method; all temperatures in degrees Celsius.

    The standard's equation is increasing and convex where the clothes are warmer than the air, as
    within the bounds, so steps from the skin's temperature, which is above, stay above. The least
    coefficient of convection, ``forced``, follows from the speed of the air.
    """

    def excess(t: Tensor) -> Tensor:
        radiation = _RADIATION * ((t - _ABSOLUTE_ZERO).pow(4) - (radiant - _ABSOLUTE_ZERO).pow(4))
        convection = torch.maximum(2.38 * (t - air).pow(0.25), forced) * (t - air)
        return t - _SKIN + _INSULATION * _AREA * (radiation + convection)

    def slope(t: Tensor) -> Tensor:
        natural = 2.38 * (t - air).pow(0.25)
        convection = torch.where(natural > forced, 1.25 * natural, forced)
        return 1.0 + _INSULATION * _AREA * (
            4.0 * _RADIATION * (t - _ABSOLUTE_ZERO).pow(3) + convection
        )

    with torch.no_grad():
        t = torch.full_like(air, _SKIN)
        for _ in range(_NEWTON_STEPS):
            step = excess(t) / slope(t)
            t = t - step
            if bool((step.abs() <= 1e3 * torch.finfo(t.dtype).eps).all()):
                break
        rate = slope(t)
    return t - excess(t) / rate  # one more step, for the derivatives of the implicit function
