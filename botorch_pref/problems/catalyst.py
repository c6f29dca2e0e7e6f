r"""Catalysts for CO2 reduction: a problem made of laboratory measurements.

References:
.. [Abed2024] J. Abed et al. Open Catalyst Experiments 2024 (OCx24): Bridging
    Experiments and Computational Models. arXiv:2411.11783, 2024. Data under CC-BY-4.0.
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

import csv
from importlib import resources
from typing import Literal

import torch

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import TableProblem

_ELEMENTS = ("x_ag", "x_au", "x_zn")
_FILE = "ocx24_ag_au_zn_co2r_300.csv"


class Catalyst(TableProblem):
    r"""Hydrogen yield of silver/gold/zinc catalysts ([Lazzaro2026], Sec. 5).

    An item is a composition: the fractions of silver, gold and zinc, which sum to 1 up
    to the rounding of the data (0.001). The utility is the measured Faradaic efficiency
    of hydrogen at 300 mA/cm2, divided by 10: from 0 to 10 for 0 to 100
    percent. Only the measured compositions can be evaluated.

    Attributes:
        names: The composition of each choice, such as ``"Au-0.6-Zn-0.4"``.
        dedupe: What was done with repeated measurements.
    """

    name = "catalyst"
    _bounds = [(0.0, 1.0)] * 3
    _kind = "measured composition"
    _remedy = ", or load the problem with dedupe='mean'"

    def __init__(self, dedupe: Literal["keep", "mean"] = "keep") -> None:
        r"""Load the measurements.

        Args:
            dedupe: Two compositions were measured more than once, with different
                results. ``"keep"`` keeps all 63 measurements, as the paper does; the
                utility is then not a function of the composition, and the repeated ones
                have to be named by their index. ``"mean"`` averages them, which leaves
                60 choices.

        Raises:
            UnsupportedError: If ``dedupe`` is neither.
        """
        if dedupe not in ("keep", "mean"):
            raise UnsupportedError(f"dedupe must be 'keep' or 'mean', got {dedupe!r}.")
        names, items, yields = _load()
        if dedupe == "mean":
            replicates: dict[str, list[int]] = {}
            for row, composition in enumerate(names):
                replicates.setdefault(composition, []).append(row)
            items = [items[rows[0]] for rows in replicates.values()]
            yields = [sum(yields[row] for row in rows) / len(rows) for rows in replicates.values()]
            names = list(replicates)
        percent = torch.tensor(yields, dtype=torch.double)
        super().__init__(torch.tensor(items, dtype=torch.double), percent / 10.0)
        self.names = tuple(names)
        self.dedupe = dedupe

    def _name_of(self, index: int) -> str:
        return self.names[index]


def _load() -> tuple[list[str], list[list[float]], list[float]]:
    """The compositions' names, their fractions, and their yields in percent."""
    path = resources.files("botorch_pref.problems") / "data" / _FILE
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [row["composition"] for row in rows]
    items = [[float(row[element]) for element in _ELEMENTS] for row in rows]
    return names, items, [float(row["fe_h2"]) for row in rows]
