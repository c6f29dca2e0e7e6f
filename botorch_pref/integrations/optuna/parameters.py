r"""Optuna's distributions as a search space, and its values as items."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from torch import Tensor

from botorch_pref.space import SearchSpace

_ON_THE_GRID = 1e-6


class Parameters:
    r"""Named parameters of one trial as a ``d``-dim item, in the order of the names.

    A category is the index of its choice. What has a step, whole numbers on a linear scale
    included, is the number of steps from the lower end.

    Args:
        distributions: Optuna's distributions, none of a single value.

    Attributes:
        distributions: See above, sorted by name.
        space: The search space.
    """

    def __init__(self, distributions: Mapping[str, BaseDistribution]) -> None:
        self.distributions = dict(sorted(distributions.items()))
        kinds: dict[str, Any] = {"integer": [], "categorical": [], "log": []}
        ends = []
        for i, distribution in enumerate(self.distributions.values()):
            ends.append(_ends(distribution))
            if isinstance(distribution, CategoricalDistribution):
                kinds["categorical"].append(i)
                continue
            if _step(distribution) is not None or isinstance(distribution, IntDistribution):
                kinds["integer"].append(i)
            if _is_log(distribution):
                kinds["log"].append(i)
        self.space = SearchSpace(torch.tensor(ends, dtype=torch.double).T, **kinds)

    def item(
        self, values: Mapping[str, Any], distributions: Mapping[str, BaseDistribution]
    ) -> Tensor | None:
        r"""The item of a trial.

        Args:
            values: The trial's values by name.
            distributions: The trial's own distributions.

        Returns:
            The ``d``-dim item, or ``None`` where a value is missing or not of this space.
        """
        numbers = []
        for name, distribution in self.distributions.items():
            own = distributions.get(name)
            if type(own) is not type(distribution):
                return None
            if isinstance(distribution, CategoricalDistribution) and own != distribution:
                return None
            numbers.append(_number(distribution, values[name]))
        item = torch.tensor(numbers, dtype=torch.double)
        return item if bool(self.space.contains(item)) else None

    def values(self, item: Tensor) -> dict[str, Any]:
        """What an item of the space is to Optuna: a value for each name."""
        pairs = zip(self.distributions.items(), item.tolist(), strict=True)
        return {name: _value(distribution, number) for (name, distribution), number in pairs}


def _is_log(distribution: Any) -> bool:
    return bool(distribution.log)


def _step(distribution: Any) -> float | None:
    """The step of a grid; a whole number on a logarithmic scale counts for itself."""
    return None if distribution.log else distribution.step


def _ends(distribution: Any) -> tuple[float, float]:
    if isinstance(distribution, CategoricalDistribution):
        return 0.0, len(distribution.choices) - 1.0
    step = _step(distribution)
    if step is None:
        return float(distribution.low), float(distribution.high)
    return 0.0, float(round((distribution.high - distribution.low) / step))


def _number(distribution: Any, value: Any) -> float:
    if isinstance(distribution, CategoricalDistribution):
        return float(distribution.to_internal_repr(value))
    step = _step(distribution)
    if step is None:
        return float(value)
    number = (value - distribution.low) / step
    # A value beside the grid, of an earlier distribution, stays beside it.
    return float(round(number)) if abs(number - round(number)) < _ON_THE_GRID else number


def _value(distribution: Any, number: float) -> Any:
    if isinstance(distribution, CategoricalDistribution):
        return distribution.to_external_repr(round(number))
    step = _step(distribution)
    if step is not None:
        number = min(distribution.low + step * round(number), distribution.high)
    return round(number) if isinstance(distribution, IntDistribution) else float(number)
