r"""Thermal comfort of a room: Fanger's predicted mean vote by ISO 7730.

References:
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
.. [ISO7730] ISO 7730:2005. Ergonomics of the thermal environment: analytical
    determination and interpretation of thermal comfort using calculation of the PMV and
    PPD indices and local thermal comfort criteria.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.problems.base import PreferenceProblem

BEST_PPD = 5.0
_RADIANT = 25.0
_HUMIDITY = 50.0
_RANGES = {
    "air_temperature": (20.0, 30.0),
    "air_speed": (0.05, 1.0),
    "radiant_temperature": (20.0, 30.0),
    "humidity": (30.0, 70.0),
}
# Air temperatures at which the predicted mean vote is 0, by the air speed; the radiant
# temperature and the humidity are those of two dimensions.
_COMFORTABLE = ((24.29599406823525, 0.05), (25.88800880425025, 0.2), (27.963669850159064, 1.0))
_GRID_SIDES = {2: 20, 4: 10}
_ABSOLUTE_ZERO = -273.0  # degrees Celsius, as in the standard
_RADIATION = 3.96e-8
_NEWTON_STEPS = 100
_SMALLEST = 1e-12  # of a difference of temperatures whose power is differentiated


class ThermalComfort(PreferenceProblem):
    r"""The comfort of a room, in two or four dimensions (after [Xu2024], App. P.2).

    An item is air temperature (20 to 30 degrees Celsius) and air speed (0.05 to 1 m/s); in four
    dimensions also mean radiant temperature (20 to 30 degrees Celsius) and relative humidity (30 to
    70 percent), which are 25 and 50 in two. People sit at light work (1.2 met) in summer clothes
    (0.5 clo). The utility is the percentage who are dissatisfied, negated, over its standard
    deviation on a grid: 20 points a side in two dimensions, 10 in four.

    [Xu2024] names the variables and the predicted mean vote, and nothing else: ranges, met, clo,
    the fixed values, the utility and its scale are this package's own choice.

    The best items, of utility ``-5 / standard_deviation``, are those with a vote of 0. They are a
    whole surface (in two dimensions a curve), so a recommendation is as good as its utility, never
    as its distance to one of ``optimizers``, which are examples.

    Attributes:
        variables: The names of an item's entries.
        standard_deviation: Of the percentage over the grid.
    """

    name = "thermalcomfort"

    def __init__(self, dim: Literal[2, 4] = 2) -> None:
        """Set up the room; ``dim`` is 2 or 4, else it raises a ``SearchSpaceError``."""
        if dim not in _GRID_SIDES:
            raise SearchSpaceError(f"dim must be 2 or 4, got {dim!r}.")
        self.variables = tuple(_RANGES)[:dim]
        bounds = [_RANGES[variable] for variable in self.variables]
        self._optimizers = [(*point, _RADIANT, _HUMIDITY)[:dim] for point in _COMFORTABLE]
        super().__init__(bounds=bounds)
        sides = [torch.linspace(*side, _GRID_SIDES[dim], dtype=torch.double) for side in bounds]
        percentages = predicted_dissatisfied(self.vote(torch.cartesian_prod(*sides)))
        self.standard_deviation = float(percentages.std(correction=0))
        self._optimal_value = -BEST_PPD / self.standard_deviation

    def vote(self, X: Tensor) -> Tensor:
        """The ``batch_shape``-dim predicted mean votes of ``batch_shape x d``-dim items.

        Raises:
            ItemError: If ``X`` does not hold items within the bounds; names the first row.
        """
        self._validate_items(X, argument="X")
        air, speed, *others = X.unbind(dim=-1)
        radiant, humidity = others or (_RADIANT, _HUMIDITY)
        return predicted_mean_vote(air, radiant, speed, humidity)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return -predicted_dissatisfied(self.vote(X)) / self.standard_deviation


def predicted_mean_vote(
    air_temperature: Tensor,
    radiant_temperature: Tensor | float,
    air_speed: Tensor | float,
    humidity: Tensor | float,
    met: Tensor | float = 1.2,
    clo: Tensor | float = 0.5,
) -> Tensor:
    """The mean vote of many people on a scale from -3, cold, to 3, hot ([ISO7730]).

    External work is 0. The temperature of the clothes, which the standard defines by a
    fixed-point iteration, is found to rounding. The vote has first derivatives in all arguments
    where the air moves, but for the kinks of the standard itself; second derivatives are not those
    of the function.

    Arguments and votes are ``...``-dim: temperatures in degrees Celsius, the speed of the air in
    m/s relative to the body, the relative humidity in percent, the metabolic rate in met
    (58.15 W/m^2) and the insulation of the clothes in clo (0.155 m^2 K/W). Votes are not cut off
    at -3 and 3.
    """
    rest = [radiant_temperature, air_speed, humidity, met, clo]
    radiant, speed, moisture, rate, clothes = (
        torch.as_tensor(x, dtype=air_temperature.dtype, device=air_temperature.device) for x in rest
    )
    power, insulation = 58.15 * rate, 0.155 * clothes
    thin = insulation <= 0.078
    body = _Clothing(
        air=air_temperature,
        radiant=radiant,
        forced=12.1 * speed.sqrt(),
        insulation=insulation,
        area=torch.where(thin, 1.0 + 1.29 * insulation, 1.05 + 0.645 * insulation),
        skin=35.7 - 0.028 * power,
    )
    surface = body.temperature()
    dry = body.area * (body.radiation(surface) + body.convection(surface))
    vapour = 10.0 * moisture * (16.6536 - 4030.183 / (air_temperature + 235.0)).exp()
    diffusion = 3.05e-3 * (5733.0 - 6.99 * power - vapour)
    sweat = 0.42 * (power - 58.15).clamp(min=0.0)
    breath = 1.7e-5 * power * (5867.0 - vapour) + 0.0014 * power * (34.0 - air_temperature)
    load = power - (diffusion + sweat + breath) - dry
    return (0.303 * (-0.036 * power).exp() + 0.028) * load


def predicted_dissatisfied(vote: Tensor) -> Tensor:
    """The percentage of people who are dissatisfied (PPD, [ISO7730]), 5 where the vote is 0."""
    square = vote.square()
    return BEST_PPD - 95.0 * torch.expm1(-0.03353 * square.square() - 0.2179 * square)


class _Clothing(NamedTuple):
    """What the surface temperature ``t`` of the clothes depends on."""

    air: Tensor
    radiant: Tensor
    forced: Tensor  # the least coefficient of convection, by the speed of the air
    insulation: Tensor
    area: Tensor
    skin: Tensor

    def convection(self, t: Tensor) -> Tensor:
        """Heat lost to the air, a unit of the clothes' area, in W/m^2."""
        difference = t - self.air
        natural = 2.38 * difference.abs().clamp(min=_SMALLEST).pow(0.25)
        return torch.maximum(natural, self.forced) * difference

    def radiation(self, t: Tensor) -> Tensor:
        """Heat radiated, a unit of the clothes' area, in W/m^2."""
        fourth = (t - _ABSOLUTE_ZERO).pow(4) - (self.radiant - _ABSOLUTE_ZERO).pow(4)
        return _RADIATION * fourth

    def excess(self, t: Tensor) -> Tensor:
        """Increasing in ``t``, and 0 at the temperature of the clothes."""
        lost = self.area * (self.radiation(t) + self.convection(t))
        return t - self.skin + self.insulation * lost

    def slope(self, t: Tensor) -> Tensor:
        """The derivative of the excess, at least 1."""
        natural = 1.25 * 2.38 * (t - self.air).abs().pow(0.25)
        convection = torch.where(natural / 1.25 > self.forced, natural, self.forced)
        radiation = 4.0 * _RADIATION * (t - _ABSOLUTE_ZERO).pow(3)
        return 1.0 + self.insulation * self.area * (radiation + convection)

    def temperature(self) -> Tensor:
        """The temperature of the clothes in degrees Celsius, by Newton steps within a bracket."""
        with torch.no_grad():
            low = torch.minimum(torch.minimum(self.skin, self.air), self.radiant)
            high = torch.maximum(torch.maximum(self.skin, self.air), self.radiant)
            t = 0.5 * (low + high)
            tolerance = 1e3 * torch.finfo(t.dtype).eps
            for _ in range(_NEWTON_STEPS):
                excess = self.excess(t)
                low, high = torch.where(excess < 0, t, low), torch.where(excess > 0, t, high)
                newton = t - excess / self.slope(t)
                step = torch.where((newton < low) | (newton > high), 0.5 * (low + high), newton) - t
                t = t + step
                if bool((step.abs() <= tolerance).all()):
                    break
            slope = self.slope(t)
        # One more step, for the derivatives: those of the implicit function.
        return t - self.excess(t) / slope
