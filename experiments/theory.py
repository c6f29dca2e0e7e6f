r"""What the theorems of the MR-LPF and PF-TS papers bound, as numbers.

All in the papers' units: a kernel ``k <= 1``, penalty ``lambda``, curvature ``kappa``, the norm
``B`` of the utility. The gain is that of duels of ``n`` items.

References:
.. [Kayal2025] A. Kayal, S. Vakili, L. Toni, D. Shiu, A. Bernacchia. Bayesian Optimization
    from Human Feedback: Near-Optimal Regret Bounds. ICML 2025.
.. [Lazzaro2026] A. Lazzaro, D. Buffelli, D. Shiu, S. Vakili. A Finite Time Analysis of
    Thompson Sampling for Bayesian Optimization with Preferential Feedback.
    arXiv:2604.25025, 2026.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.inference.finite import PairVarianceTable
from botorch_pref.inference.systems import prior_root
from botorch_pref.kernels.items import KernelName
from botorch_pref.problems import RKHSFunction
from botorch_pref.strategies.mr_lpf import round_sizes
from botorch_pref.strategies.utility import kernel_of
from experiments.arguments import Parser
from experiments.model_settings import PENALTY

SLOPE = 0.25  # L, the largest slope of the logistic link
LATE_KAPPA = 6.0  # kappa_r of [Kayal2025] from the second round on
_PF_TS = 85.0  # C' of [Lazzaro2026], eq. (31)

Gain = Callable[[int], float]
"""``Gamma(t)`` by the number of duels."""


class GreedyGain:
    r"""The information gain of duels that are chosen greedily, by largest variance.

    [Kayal2025], eq. (13), and [Lazzaro2026], eq. (11), have the largest gain of any duels,
    ``Gamma(t) = max 1/2 logdet(I + K_t / rho)``, which is at most ``1 / (1 - 1 / e)`` times this.
    Of more duels than ``limit`` it is that of the first ones, each repeated as often as it takes.

    Args:
        covariance: ``n x n``-dim kernel of the items.
        ridge: ``rho``.
        limit: The number of duels that are chosen.
    """

    def __init__(self, covariance: Tensor, ridge: float, limit: int = 2000) -> None:
        self.ridge = ridge
        table = PairVarianceTable(covariance, ridge)
        root = prior_root(covariance)
        precision = covariance.new_zeros(root.shape[-1], root.shape[-1])
        self.gains = [0.0]
        for _ in range(limit):
            pair = torch.stack(torch.unravel_index(table.variance.argmax(), covariance.shape))
            contrast = root[pair[0]] - root[pair[1]]
            precision += torch.outer(contrast, contrast)
            self.gains.append(
                self.gains[-1] + 0.5 * math.log1p(float(table.variance.max()) / ridge)
            )
            table.append(pair)
        self._spectrum = torch.linalg.eigvalsh(precision).clamp_min(0.0) / limit

    def __call__(self, number: int) -> float:
        """``Gamma`` of so many duels."""
        if number < len(self.gains):
            return self.gains[number]
        return 0.5 * float((number * self._spectrum / self.ridge).log1p().sum())


def curvature(spread: float) -> float:
    """``kappa`` of the largest difference of utilities: [Kayal2025], eq. (2)."""
    return 2.0 + 2.0 * math.cosh(spread)


def interval_width(norm: float, kappa: float, penalty: float, delta: float) -> float:
    """``beta(delta)`` of one pair, a multiple of ``sigma``: [Kayal2025], Theorem 4.7, eq. (45)."""
    return SLOPE * (norm + 0.5 * math.sqrt(2.0 * kappa / penalty * math.log(2.0 / delta)))


def round_width(
    norm: float, kappa: float, penalty: float, delta: float, num_items: int, num_rounds: int
) -> float:
    """``beta_(r)(delta)`` of all pairs in all rounds, of ``kappa_r``: [Kayal2025], eq. (14)."""
    number = math.log(2.0 * num_rounds * num_items / delta)
    return SLOPE * (norm + math.sqrt(kappa / penalty * number))


def largest_deviation(gain: float, number: int, ridge: float) -> float:
    """A bound on ``sigma`` of all active pairs after so many duels: [Kayal2025], eq. (21)."""
    return math.sqrt(8.0 / math.log1p(4.0 / ridge) * gain / number)


def least_horizon(width: float, gain: Gain, ridge: float) -> int:
    """``T_0``, from which Theorem 4.1 holds: [Kayal2025], eq. (27).

    Args:
        width: ``beta_(1)``.
        gain: That of duels with the first round's ridge.
        ridge: ``lambda kappa``.
    """

    def holds(number: int) -> bool:
        return 2.0 * width * largest_deviation(gain(number), number, ridge) <= 0.25

    number = _least(holds)  # ceil(sqrt(T_0))
    return (number - 1) ** 2 + 1


def _constant(penalty: float) -> float:
    """``C`` of Theorem 4.1."""
    return 2.0 * math.sqrt(2.0 / math.log1p(4.0 / (LATE_KAPPA * penalty)))


def regret_bound(horizon: int, width: float, gain: Gain, penalty: float) -> float:
    """``R(T)`` from ``T_0`` on with probability ``1 - delta``: [Kayal2025], Theorem 4.1.

    Args:
        horizon: ``T``.
        width: ``beta_(R)``, of the last round.
        gain: That of duels with the ridge ``4 lambda``.
        penalty: ``lambda``.
    """
    rounds = len(round_sizes(horizon))
    root = math.sqrt(gain(horizon))
    return 2.0 * _constant(penalty) * rounds * width * root * (math.sqrt(horizon) + 1.0)


def simple_regret_bound(horizon: int, width: float, gain: Gain, penalty: float) -> float:
    """``P(x* beats the recommendation) - 1/2``: [Kayal2025], Corollary 4.4, eq. (16)."""
    rounds = math.ceil(math.log2(max(1.0, math.log2(horizon)))) + 1 if horizon > 1 else 1
    return 2.0 * width * _constant(penalty) * math.sqrt(rounds * gain(horizon) / horizon)


def sample_complexity(error: float, width: float, gain: Gain, penalty: float) -> int:
    """The duels after which Corollary 4.4 is at most an error: [Kayal2025], Corollary 4.5.

    The corollary has the order of this number for each kernel; here it is the number itself.
    """
    return _least(lambda horizon: simple_regret_bound(horizon, width, gain, penalty) <= error)


def sampling_width(norm: float, kappa: float, penalty: float, delta: float, gain: float) -> float:
    """``beta_t(delta)``, the scale of draws, of ``Gamma(t)``: [Lazzaro2026], eq. (12)."""
    inner = 2.0 * kappa / penalty * (gain + math.log(1.0 / delta))
    return 4.0 * norm + 2.0 * math.sqrt(inner)


def sampling_regret_bound(
    horizon: int,
    norm: float,
    kappa: float,
    penalty: float,
    delta: float,
    gain: Gain,
    num_items: int,
) -> float:
    """``R(T)`` of PF-TS with probability ``1 - 2 delta``: [Lazzaro2026], Theorem 1 by eq. (31).

    The sum of deviations is that of Lemma 10, the number of items that of a finite set. Its
    constants hold from round 8 on. A diagnostic: it is far above ``T / 2``, which is certain.
    """
    ridge, total = penalty * kappa, gain(horizon)
    draws = 1.0 + math.sqrt(2.0 * math.log(num_items**2 * horizon**2))
    scale = _PF_TS * SLOPE * draws * sampling_width(norm, kappa, penalty, delta, total)  # eq. (25)
    deviations = math.sqrt(8.0 * horizon * total / math.log1p(4.0 / ridge))
    noise = math.sqrt(2.0 * horizon * math.log(1.0 / delta))
    rest = SLOPE + 1.0
    return scale * deviations + rest * math.pi**2 / 6.0 + (0.5 + scale + rest) * noise


def _least(holds: Callable[[int], bool]) -> int:
    """The smallest number from which on something holds, found by doubling and halving."""
    high = 1
    while not holds(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


_PANELS: tuple[tuple[Literal["se", "matern15", "matern25"], KernelName], ...] = (
    ("se", "rbf"),
    ("matern15", "matern15"),
    ("matern25", "matern"),
)


def bounds_text(horizon: int, delta: float) -> str:
    """All bounds on the RKHS functions of [Kayal2025], as a table."""
    rows = [
        "| kernel | kappa | B | beta_(1) | beta_(R) | T_0 | gain | Theorem 4.1 | Corollary 4.4 | "
        "Corollary 4.5 at 0.1 | PF-TS's Theorem 1 |",
        "|" + " --- |" * 11,
    ]
    for which, name in _PANELS:
        problem = RKHSFunction(num_choices=100, scale=5.0, kernel=which)
        assert problem.choices is not None
        values = {"kernel": name, "lengthscale": 0.1, "outputscale": 1.0}
        with torch.no_grad():
            covariance = to_dense(kernel_of(values, problem.space)(problem.choices))
        utility = problem.utilities
        weights = torch.linalg.lstsq(covariance, utility.unsqueeze(-1), driver="gelsd").solution
        norm = float(utility @ weights) ** 0.5
        kappa = curvature(float(utility.max() - utility.min()))
        common = (PENALTY, delta, len(utility), len(round_sizes(horizon)))
        first, last = (round_width(norm, one, *common) for one in (kappa, LATE_KAPPA))
        wide, narrow = (GreedyGain(covariance, PENALTY * one) for one in (kappa, 4.0))
        numbers = [
            kappa,
            norm,
            first,
            last,
            least_horizon(first, wide, PENALTY * kappa),
            narrow(horizon),
            regret_bound(horizon, last, narrow, PENALTY),
            simple_regret_bound(horizon, last, narrow, PENALTY),
            sample_complexity(0.1, last, narrow, PENALTY),
            sampling_regret_bound(horizon, norm, kappa, PENALTY, delta, wide, len(utility)),
        ]
        rows.append(f"| {which} | " + " | ".join(f"{number:.3g}" for number in numbers) + " |")
    return "\n".join(rows)


def main(argv: Sequence[str]) -> int:
    """Print the bounds."""
    parser = Parser("experiments bounds", "What the theorems bound on functions of three RKHS.")
    parser.add_argument("--horizon", type=int, default=300, help="default: 300")
    parser.add_argument("--delta", type=float, default=0.05, help="default: 0.05")
    args = parser.parse_args(argv)
    print(bounds_text(args.horizon, args.delta))
    return 0
