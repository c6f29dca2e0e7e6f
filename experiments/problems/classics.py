r"""Classical test functions that BoTorch lacks, in BoTorch's own style: to be minimised.

References:
.. [Molga2005] M. Molga, C. Smutnicki. Test functions for optimization needs. 2005.
.. [Surjanovic2013] S. Surjanovic, D. Bingham. Virtual Library of Simulation Experiments:
    Test Functions and Datasets. Simon Fraser University, 2013.
"""

from __future__ import annotations

import math
from itertools import product

from botorch.test_functions.synthetic import SyntheticTestFunction
from torch import Tensor

# Where the derivative of log |sin| is that of the norm over pi, in either coordinate.
CROSS_IN_TRAY_BEST: list[tuple[float, ...]] = list(
    product((1.3494066171539108, -1.3494066171539108), repeat=2)
)
LEVY13_BEST: list[tuple[float, ...]] = [(1.0, 1.0)]
_BOTH = [0, 1]  # of the coordinates


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
