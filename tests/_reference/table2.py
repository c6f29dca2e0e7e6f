"""The seven test functions of Xu et al. (2024), Table 2, in NumPy: to be maximised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

PI = np.pi


class Function(NamedTuple):
    utility: Callable[[Any, Any], Any]
    box: tuple[float, float, float, float]  # lower and upper x, lower and upper y


def beale(x: Any, y: Any) -> Any:
    return -((1.5 - x + x * y) ** 2 + (2.25 - x + x * y**2) ** 2 + (2.625 - x + x * y**3) ** 2)


def branin(x: Any, y: Any) -> Any:
    parabola = y - 5.1 / (4 * PI**2) * x**2 + 5 / PI * x - 6
    return -(parabola**2 + 10 * (1 - 1 / (8 * PI)) * np.cos(x) + 10)


def bukin(x: Any, y: Any) -> Any:
    return -(100 * np.sqrt(np.abs(y - 0.01 * x**2)) + 0.01 * np.abs(x + 10))


def cross_in_tray(x: Any, y: Any) -> Any:
    inner = np.sin(x) * np.sin(y) * np.exp(np.abs(100 - np.hypot(x, y) / PI))
    return 1e-4 * (np.abs(inner) + 1) ** 0.1


def egg_holder(x: Any, y: Any) -> Any:
    return (y + 47) * np.sin(np.sqrt(np.abs(y + x / 2 + 47))) + x * np.sin(
        np.sqrt(np.abs(x - (y + 47)))
    )


def holder_table(x: Any, y: Any) -> Any:
    return np.abs(np.sin(x) * np.cos(y) * np.exp(np.abs(1 - np.hypot(x, y) / PI)))


def levy13(x: Any, y: Any) -> Any:
    return -(
        np.sin(3 * PI * x) ** 2
        + (x - 1) ** 2 * (1 + np.sin(3 * PI * y) ** 2)
        + (y - 1) ** 2 * (1 + np.sin(2 * PI * y) ** 2)
    )


TABLE2 = {
    "beale": Function(beale, (-4.5, 4.5, -4.5, 4.5)),
    "branin": Function(branin, (-5.0, 10.0, 0.0, 15.0)),
    "bukin": Function(bukin, (-15.0, -5.0, -3.0, 3.0)),
    "crossintray": Function(cross_in_tray, (-10.0, 10.0, -10.0, 10.0)),
    "eggholder": Function(egg_holder, (-512.0, 512.0, -512.0, 512.0)),
    "holdertable": Function(holder_table, (-10.0, 10.0, -10.0, 10.0)),
    "levy13": Function(levy13, (-10.0, 10.0, -10.0, 10.0)),
}
