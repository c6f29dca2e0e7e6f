r"""How a difference of values decides a duel, and how far it tells values apart.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import check_positive

LinkKind: TypeAlias = Literal["deterministic", "logistic", "probit", "linear"]

_KINDS = ("deterministic", "logistic", "probit", "linear")


class BordaConstants(NamedTuple):
    r"""``L_1`` and ``L_2`` of Assumption 2 of [Xu2020].

    They bound the gaps of the Borda function ``f_r`` by those of the values ``f_c``:
    ``(f_c* - f_c(x)) / L_1 <= f_r* - f_r(x) <= L_2 (f_c* - f_c(x))``.

    Attributes:
        l1: ``L_1``, in units of ``f_c``; infinite if there is no bound.
        l2: ``L_2``, in units of 1 over ``f_c``.
    """

    l1: float
    l2: float


@dataclass(frozen=True)
class DuelLink:
    r"""``P(first wins)`` as a function of the difference ``u`` of two values.

    ================= ========================================================
    kind              probability
    ================= ========================================================
    ``deterministic`` 1 if ``u > 0``, 0 if ``u < 0``, 1/2 if they tie
    ``logistic``      ``1 / (1 + exp(-u / scale))``, Bradley-Terry-Luce
    ``probit``        the normal cdf of ``u / scale``, Thurstone
    ``linear``        ``(1 + u / scale) / 2``, cut off at 0 and 1
    ================= ========================================================

    Attributes:
        kind: One of these.
        scale: The scale, in units of the values; without effect on the first.
    """

    kind: LinkKind = "deterministic"
    scale: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise UnsupportedError(f"kind must be one of {', '.join(_KINDS)}, got {self.kind!r}.")
        check_positive(scale=self.scale)

    def __call__(self, differences: Tensor) -> Tensor:
        r"""The probability that the first item wins.

        Args:
            differences: ``...``-dim, value of the first minus value of the second.

        Returns:
            ``...``-dim probabilities.
        """
        if self.kind == "deterministic":
            return 0.5 * (1.0 + differences.sign())
        scaled = differences / self.scale
        if self.kind == "logistic":
            return scaled.sigmoid()
        if self.kind == "probit":
            return torch.special.ndtr(scaled)
        return (0.5 * (1.0 + scaled)).clamp(0.0, 1.0)

    def constants(self, width: float) -> BordaConstants:
        r"""The constants that follow from the link alone (Proposition 1 of [Xu2020]).

        ``L_2`` is the steepest slope of the link and ``1 / L_1`` its least, over the
        differences that occur; at 0 and at ``width`` for the logistic and the probit link.

        Args:
            width: The largest minus the smallest value ``f_c``.

        Returns:
            The constants.

        Raises:
            SearchSpaceError: If ``width`` is not positive and finite.
            UnsupportedError: If the link is deterministic: it has no slope.
        """
        check_positive(width=width)
        far = width / self.scale
        if self.kind == "logistic":
            # e^-far leaves the digits that sigmoid(far) loses.
            decay = math.exp(-far)
            most, least = 0.25, decay / (1.0 + decay) ** 2
        elif self.kind == "probit":
            most = 1.0 / math.sqrt(2.0 * math.pi)
            least = most * math.exp(-0.5 * far**2)
        elif self.kind == "linear":
            most, least = 0.5, 0.5 if far <= 1.0 else 0.0
        else:
            raise UnsupportedError(
                "a deterministic comparator has no slope: its constants depend on the values."
            )
        return BordaConstants(self.scale / least if least else math.inf, most / self.scale)
