r"""Catalysts for CO2 reduction: a problem made of laboratory measurements.

References:
.. [Abed2024] J. Abed et al. Open Catalyst Experiments 2024 (OCx24): Bridging
    Experiments and Computational Models. arXiv:2411.11783, 2024. Data under CC-BY-4.0.
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

from importlib import resources
from typing import Literal

import pandas as pd
import torch

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import TableProblem

_ELEMENTS = ["x_ag", "x_au", "x_zn"]
_FILE = "ocx24_ag_au_zn_co2r_300.csv"


class Catalyst(TableProblem):
    r"""Hydrogen yield of silver/gold/zinc catalysts ([Lazzaro2026], Sec. 5).

    An item is a composition: the fractions of silver, gold and zinc, which sum to 1 up to the
    rounding of the data (0.001). The utility is the measured Faradaic efficiency of hydrogen at
    300 mA/cm2, divided by 10: from 0 to 10 for 0 to 100 percent. Only the measured compositions
    can be evaluated.

    Attributes:
        names: The composition of each choice, such as ``"Au-0.6-Zn-0.4"``.
    """

    name = "catalyst"
    _bounds = [(0.0, 1.0)] * 3

    def __init__(self, dedupe: Literal["keep", "mean"] = "keep") -> None:
        r"""Load the measurements.

        Args:
            dedupe: Two compositions were measured more than once, with different results.
                ``"keep"`` keeps all 63 measurements, as the paper does; the utility is then not a
                function of the composition, and the repeated ones have to be named by their
                index. ``"mean"`` averages them, which leaves 60 choices.

        Raises:
            UnsupportedError: If ``dedupe`` is neither.
        """
        if dedupe not in ("keep", "mean"):
            raise UnsupportedError(f"dedupe must be 'keep' or 'mean', got {dedupe!r}.")
        with (resources.files("botorch_pref.problems") / "data" / _FILE).open() as file:
            table = pd.read_csv(file, converters=dict.fromkeys([*_ELEMENTS, "fe_h2"], float))
        if dedupe == "mean":
            measured = table.groupby("composition", sort=False)
            table = measured.first().assign(fe_h2=measured["fe_h2"].mean()).reset_index()
        percent = torch.tensor(table["fe_h2"].to_numpy())
        super().__init__(torch.tensor(table[_ELEMENTS].to_numpy()), percent / 10.0)
        self.names = tuple(table["composition"])
