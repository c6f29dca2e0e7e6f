r"""The flow of water through a borehole, a function with a low fidelity.

References:
.. [Xiong2013] S. Xiong, P. Z. G. Qian, C. F. J. Wu. Sequential Design and Analysis of
    High-Accuracy and Low-Accuracy Computer Codes. Technometrics 55, 2013.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_pref.problems.fidelities import TwoFormulas

_BOX = (
    (0.05, 0.15),
    (100.0, 50000.0),
    (63070.0, 115600.0),
    (990.0, 1110.0),
    (63.1, 116.0),
    (700.0, 820.0),
    (1120.0, 1680.0),
    (9855.0, 12045.0),
)


class Borehole(TwoFormulas):
    r"""The flow of water through a borehole, with the low fidelity of [Xiong2013].

    .. math::
        f_{a, b} = \frac{a T_u (H_u - H_l)}{\log(r / r_w) \left(b + \frac{2 L T_u}{
            \log(r / r_w) r_w^2 K_w} + \frac{T_u}{T_l} \right)}, \qquad
        f = f_{2 \pi, 1}, \quad f_c = f_{5, 1.5}

    in m^3 a year. An item is ``(r_w, r, T_u, H_u, T_l, H_l, L, K_w)``, scaled to the unit cube
    from [0.05, 0.15], [100, 50000], [63070, 115600], [990, 1110], [63.1, 116], [700, 820],
    [1120, 1680] and [9855, 12045]. ``f`` lies between 7.820 and 309.576, and both fidelities
    are largest at the same corner, (1, 0, 1, 1, 1, 0, 0, 1).
    """

    name = "borehole"
    _best = (1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0)
    _worst = (0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0)
    _low_best = _best
    _low_worst = _worst
    _most_biased = (0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0)

    def _formula(self, items: Tensor, low: bool) -> Tensor:
        lower, upper = items.new_tensor(_BOX).T
        radius, reach, upper_flow, upper_head, lower_flow, lower_head, length, conductivity = (
            torch.lerp(lower, upper, items).unbind(dim=-1)
        )
        numerator, constant = (5.0, 1.5) if low else (2.0 * math.pi, 1.0)
        log = (reach / radius).log()
        along = 2.0 * length * upper_flow / (log * radius.square() * conductivity)
        resistance = log * (constant + along + upper_flow / lower_flow)
        return numerator * upper_flow * (upper_head - lower_head) / resistance
