r"""The conductivity of a made-up electrolyte: a stand-in for a study whose data are not public.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
.. [Casteel1972] J. F. Casteel, E. S. Amis. Specific Conductance of Concentrated Solutions of
    Magnesium Salts in Water-Ethanol System. J. Chem. Eng. Data 17(1), 1972.
"""

from __future__ import annotations

from torch import Tensor

from botorch_pref.problems.base import PreferenceProblem

# The best electrolyte, and what it conducts, in mS/cm.
_BEST_MOLARITY, _BEST_DMC, _BEST_EC, _BEST_CONDUCTIVITY = 1.0, 0.7, 0.3, 13.0


class ElectrolyteStandIn(PreferenceProblem):
    r"""A stand-in for the lithium electrolyte of [Xu2024b], App. J.3 (EC, DMC, EMC and LiPF6).

    An item is the molarity ``m`` of LiPF6 (0 to 2 mol/l), the share ``r`` of DMC in DMC and EMC,
    and the share ``e`` of EC in all carbonates. The utility is the ionic conductivity in mS/cm, in
    the form of [Casteel1972],

    .. math::
        \kappa = \kappa_{\max} \left( \frac m \mu \right)^A
                 \exp\left( b (m - \mu)^2 - A \frac{m - \mu}{\mu} \right),

    which is :math:`\kappa_{\max}` at its only peak, ``m = mu``. **The coefficients are this
    package's own, and of no measured data**: smooth functions of the composition,

    .. math::
        \kappa_{\max} &= 13 \exp(-3.5 (e - 0.3 + 0.1 (r - 0.7))^2 - 0.5 (r - 0.7)^2), \\
        \mu &= 1 + 0.4 (e - 0.3) + 0.2 (r - 0.7), \\
        A &= 1.2 + 0.3 e, \qquad b = -0.25 + 0.1 e,

    chosen so that the best electrolyte lies where the experts of [Xu2024b] expected it, at 30 %
    EC and 1 mol/l, with 70 % DMC, and conductivities between 0, without salt, and 13 mS/cm. The
    paper publishes neither what was fitted to measurements nor the labels of its experts.

    Attributes:
        rho_range: The smallest and the largest utility, for a
            :class:`~botorch_pref.problems.SyntheticExpert`.
    """

    name = "electrolytestandin"
    rho_range = (0.0, _BEST_CONDUCTIVITY)
    _optimal_value = _BEST_CONDUCTIVITY

    def __init__(self) -> None:
        self._optimizers = [(_BEST_MOLARITY, _BEST_DMC, _BEST_EC)]
        super().__init__(bounds=[(0.0, 2.0), (0.0, 1.0), (0.0, 1.0)])

    def _evaluate_true(self, X: Tensor) -> Tensor:
        molarity, dmc, ec = X.unbind(dim=-1)
        dmc, ec = dmc - _BEST_DMC, ec - _BEST_EC
        highest = _BEST_CONDUCTIVITY * (-3.5 * (ec + 0.1 * dmc).square() - 0.5 * dmc.square()).exp()
        peak = _BEST_MOLARITY + 0.4 * ec + 0.2 * dmc
        # At least 1, so that the slope is finite where there is no salt.
        power = 1.29 + 0.3 * ec
        curvature = -0.22 + 0.1 * ec
        away = molarity - peak
        falls = (curvature * away.square() - power * away / peak).exp()
        return highest * (molarity / peak).pow(power) * falls
