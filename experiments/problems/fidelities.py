r"""The borehole function, and the Borda function: how often an item beats a random opponent.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
.. [Xiong2013] S. Xiong, P. Z. G. Qian, C. F. J. Wu. Sequential Design and Analysis of
    High-Accuracy and Low-Accuracy Computer Codes. Technometrics 55, 2013.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.fidelities import TwoFormulas
from botorch_pref.problems.judges import DuelingChoiceJudge
from botorch_pref.randomness import SEED_BITS, derive_seed

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


NUM_OPPONENTS = 2**13
_CHUNK = 2**22  # duels at a time


def uniform_items(problem: PreferenceProblem, number: int = NUM_OPPONENTS, seed: int = 0) -> Tensor:
    r"""Items that stand for a uniform draw from the domain.

    Args:
        problem: The problem.
        number: How many of a scrambled Sobol sequence, where the domain is a box; best a
            power of two.
        seed: The seed of the scrambling.

    Returns:
        The choices, ``n x d``-dim, where there are any; else ``number x d``-dim items of the
        box.

    Raises:
        UnsupportedError: If ``number`` is not positive.
    """
    if problem.choices is not None:
        return problem.choices
    if number < 1:
        raise UnsupportedError(f"number must be at least 1, got {number}.")
    lower, upper = problem.bounds
    scrambling = derive_seed(seed, "problem", 0) >> (SEED_BITS - 31)
    sobol = SobolEngine(problem.dim, scramble=True, seed=scrambling)
    return torch.lerp(lower, upper, sobol.draw(number, dtype=torch.double).to(lower))


class BordaFunction:
    r"""``f_r(x) = P(x beats X)`` under a judge, ``X`` uniform on a set of opponents.

    The set is fixed and each of its items counts alike: it is the quadrature of [Xu2020],
    Sec. 2. Its mean over the opponents themselves is 1/2 to rounding, whatever the judge.

    Attributes:
        judge: The judge.
        opponents: The ``m x d``-dim opponents.
        best: The largest ``f_r``, which is where ``f_c`` is largest.
    """

    def __init__(
        self,
        judge: DuelingChoiceJudge,
        opponents: Tensor | None = None,
        *,
        num_opponents: int = NUM_OPPONENTS,
        seed: int = 0,
    ) -> None:
        r"""Set the opponents.

        Args:
            judge: The judge, who gives the values that are compared and the link.
            opponents: ``m x d``-dim items of the problem; those of :func:`uniform_items` if
                omitted.
            num_opponents: How many those are, where the domain is a box.
            seed: The seed of those.

        Raises:
            ItemError: If the opponents are no items of the problem.
            UnsupportedError: If there are none.
        """
        problem = judge.comparison
        if opponents is None:
            opponents = uniform_items(problem, num_opponents, seed)
        if opponents.dim() != 2 or len(opponents) == 0:
            raise UnsupportedError(
                "opponents must be a non-empty m x d tensor of items, got shape "
                f"{tuple(opponents.shape)}."
            )
        self.judge = judge
        self.opponents = opponents
        is_table = opponents is problem.choices  # where an item may be listed twice
        values = problem.utilities if is_table else problem(opponents)
        self._sorted: Tensor = values.detach().sort().values
        try:
            highest = problem.optimal_value
        except NotImplementedError:
            highest = float(self._sorted[-1])
        self.best = float(self.scores(self._sorted.new_tensor(highest)))

    def __call__(self, items: Tensor) -> Tensor:
        r"""The Borda function.

        Args:
            items: ``... x d``-dim items of the problem.

        Returns:
            ``...``-dim probabilities.

        Raises:
            ItemError: If these are no items of the problem; names the first such row.
        """
        return self.scores(self.judge.comparison(items))

    def scores(self, values: Tensor) -> Tensor:
        r"""The Borda function of items by what they are compared by.

        Args:
            values: ``...``-dim values ``f_c``.

        Returns:
            ``...``-dim probabilities, of the dtype of the values.
        """
        link, against = self.judge.link, self._sorted.to(values)
        if link.kind == "deterministic":
            # Opponents below count 1 and ties 1/2.
            flat = values.detach().contiguous()
            below = torch.searchsorted(against, flat, side="left")
            not_above = torch.searchsorted(against, flat, side="right")
            return 0.5 * (below + not_above).to(values) / len(against)
        rows = values.reshape(-1, 1).split(max(1, _CHUNK // len(against)))
        return torch.cat([link(part - against).mean(dim=-1) for part in rows]).view(values.shape)
