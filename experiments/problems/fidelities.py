r"""Problems with a low fidelity, by which duels are decided, their judge and their Borda function.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
.. [Xiong2013] S. Xiong, P. Z. G. Qian, C. F. J. Wu. Sequential Design and Analysis of
    High-Accuracy and Low-Accuracy Computer Codes. Technometrics 55, 2013.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.quasirandom import SobolEngine

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.queries import Query
from botorch_pref.randomness import SEED_BITS, derive_seed

_LARGEST, _SMALLEST = 13.798722044728434, 1.1804080208620997  # utilities of CurrinExp
_STEP = 0.05  # of its low fidelity
# Below this, 1 - exp(-1 / (2 x)) is 1 to e^-500, and its derivative would be 0 times infinity.
_FLAT = 1e-3
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


class FidelityProblem(PreferenceProblem):
    r"""An expensive utility ``f``, and ``f_c``, near to it, by which duels are decided.

    The utility is ``f``: regrets are of ``f``, and ``f_c`` is never told.
    """

    def low_fidelity(self, items: Tensor) -> Tensor:
        r"""The low fidelity ``f_c``.

        Args:
            items: ``... x d``-dim items within the bounds.

        Returns:
            ``...``-dim values, in the units of the utility.

        Raises:
            ItemError: If these are no items of the problem; names the first such row.
        """
        self._validate_items(items, argument="items")
        return self._low_fidelity(items)

    @abstractmethod
    def _low_fidelity(self, items: Tensor) -> Tensor:
        """The low fidelity of valid items."""


class CurrinExp(FidelityProblem):
    r"""Currin's exponential function in two dimensions, with the low fidelity of [Xiong2013].

    .. math::
        f(x) = \left(1 - e^{-1 / (2 x_2)}\right)
               \frac{2300 x_1^3 + 1900 x_1^2 + 2092 x_1 + 60}{100 x_1^3 + 500 x_1^2 + 4 x_1 + 20}

    on the unit square, the first factor being 1 where ``x_2 = 0``; and ``f_c(x)`` is the mean
    of ``f`` at ``x_1 +- 0.05`` and ``x_2 + 0.05, max(x_2 - 0.05, 0)``, which may leave the
    square. ``f`` lies between 1.18040 at (0, 1) and 13.79872 at (13/60, 0), and is flat there in
    ``x_2``; ``f_c`` is largest, 13.58265, at (0.23575, 0). Gradients are finite everywhere.
    """

    name = "currinexp"
    _bounds = [(0.0, 1.0)] * 2
    _optimizers = [(13.0 / 60.0, 0.0)]  # noqa: RUF012

    def __init__(self, unit_range: bool = False, choices: Tensor | None = None) -> None:
        r"""Set the units, and the domain.

        Args:
            unit_range: If true, both fidelities are divided by the largest minus the smallest
                ``f`` over the box, so that biases and thresholds are fractions of it.
            choices: An ``n x d``-dim tensor of items in the unit square, or ``None`` for all
                of it.

        Raises:
            SearchSpaceError: If the choices are no table of items within the bounds.
        """
        self._unit = _LARGEST - _SMALLEST if unit_range else 1.0
        self._optimal_value = _LARGEST / self._unit
        super().__init__(choices=choices)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        first, second = X.unbind(dim=-1)
        return _decay(second) * _ratio(first) / self._unit

    def _low_fidelity(self, items: Tensor) -> Tensor:
        first, second = items.unbind(dim=-1)
        below = (second - _STEP).clamp(min=0.0)
        along = _ratio(first + _STEP) + _ratio(first - _STEP)
        return 0.25 * (_decay(second + _STEP) + _decay(below)) * along / self._unit


def _decay(x: Tensor) -> Tensor:
    """``1 - exp(-1 / (2 x))``."""
    safe = torch.where(x > _FLAT, x, 1.0)
    return torch.where(x > _FLAT, -torch.expm1(-0.5 / safe), 1.0)


def _ratio(x: Tensor) -> Tensor:
    """The second factor of CurrinExp."""
    above = ((2300.0 * x + 1900.0) * x + 2092.0) * x + 60.0
    return above / (((100.0 * x + 500.0) * x + 4.0) * x + 20.0)


class Borehole(FidelityProblem):
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
    _bounds = [(0.0, 1.0)] * 8
    _optimizers = [(1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0)]  # noqa: RUF012
    _optimal_value = 309.5755876604079

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return self._formula(X, 2.0 * math.pi, 1.0)

    def _low_fidelity(self, items: Tensor) -> Tensor:
        return self._formula(items, 5.0, 1.5)

    def _formula(self, items: Tensor, numerator: float, constant: float) -> Tensor:
        lower, upper = items.new_tensor(_BOX).T
        radius, reach, upper_flow, upper_head, lower_flow, lower_head, length, conductivity = (
            torch.lerp(lower, upper, items).unbind(dim=-1)
        )
        log = (reach / radius).log()
        along = 2.0 * length * upper_flow / (log * radius.square() * conductivity)
        resistance = log * (constant + along + upper_flow / lower_flow)
        return numerator * upper_flow * (upper_head - lower_head) / resistance


def deterministic_link(differences: Tensor) -> Tensor:
    """``P(first wins)``: 1 where the difference is positive, 0 where negative, 1/2 at a tie."""
    return 0.5 * (1.0 + differences.sign())


class DuelingChoiceJudge(LogisticJudge):
    r"""Tells values of ``f`` without noise, and decides duels by ``f_c`` ([Xu2020], Sec. 2).

    ``P(first wins) = sigma(f_c(x) - f_c(x'))``; so a constant added to ``f_c`` changes no
    answer. Where the deterministic link ties, a fair coin decides.
    """

    problem: FidelityProblem

    def __init__(
        self,
        problem: FidelityProblem,
        seed: int = 0,
        link: Callable[[Tensor], Tensor] = deterministic_link,
    ) -> None:
        r"""Set what is told.

        Args:
            problem: The problem with the two fidelities.
            seed: The seed of the answers.
            link: The link ``sigma``, elementwise in the difference of low fidelities.
        """
        super().__init__(problem, seed, link, value_noise=0.0)

    def _compared(self, query: Query) -> Tensor:
        return self.problem.low_fidelity(query.items.to(self.problem.bounds))


class FidelityFacts(NamedTuple):
    """What is known of the two fidelities ``f`` and ``f_c`` over the box.

    Attributes:
        least: The smallest ``f``.
        most: The largest ``f``.
        low_most: The largest ``f_c``.
        low_at_best: ``f_c(x*)`` where ``f`` is largest.
    """

    least: float
    most: float
    low_most: float
    low_at_best: float

    @property
    def zeta(self) -> float:
        """The bias ``f(x*) - f_c(x*)`` of [Xu2020]; a constant added to ``f_c`` changes it."""
        return self.most - self.low_at_best

    @property
    def tight_zeta(self) -> float:
        """``f_c* - f_c(x*)``, which suffices for the best item to pass the filter."""
        return self.low_most - self.low_at_best


# Where f is smallest and where f_c is largest.
_EXTREMES = {
    CurrinExp: ((0.0, 1.0), (0.23575291994755336, 0.0)),
    Borehole: ((0.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0), Borehole._optimizers[0]),
}


def facts_of(problem: CurrinExp | Borehole) -> FidelityFacts:
    """What is known of the fidelities of a problem."""
    worst, low_best = _EXTREMES[type(problem)]
    items = torch.tensor([worst, problem._optimizers[0], low_best], dtype=torch.double)
    high, low = problem(items).tolist(), problem.low_fidelity(items).tolist()
    return FidelityFacts(high[0], high[1], low[2], low[1])


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
        if opponents is None:
            opponents = uniform_items(judge.problem, num_opponents, seed)
        if opponents.dim() != 2 or len(opponents) == 0:
            raise UnsupportedError(
                "opponents must be a non-empty m x d tensor of items, got shape "
                f"{tuple(opponents.shape)}."
            )
        self.judge = judge
        self.opponents = opponents
        self._sorted: Tensor = judge.problem.low_fidelity(opponents).sort().values
        highest = self._sorted[-1]
        if judge.problem.choices is None and isinstance(judge.problem, CurrinExp | Borehole):
            highest = highest.new_tensor(facts_of(judge.problem).low_most)
        self.best = float(self.scores(highest))

    def __call__(self, items: Tensor) -> Tensor:
        r"""The Borda function.

        Args:
            items: ``... x d``-dim items of the problem.

        Returns:
            ``...``-dim probabilities.

        Raises:
            ItemError: If these are no items of the problem; names the first such row.
        """
        return self.scores(self.judge.problem.low_fidelity(items))

    def scores(self, values: Tensor) -> Tensor:
        r"""The Borda function of items by what they are compared by.

        Args:
            values: ``...``-dim values ``f_c``.

        Returns:
            ``...``-dim probabilities, of the dtype of the values.
        """
        link, against = self.judge.likelihood, self._sorted.to(values)
        if link is deterministic_link:
            # Opponents below count 1 and ties 1/2.
            flat = values.detach().contiguous()
            below = torch.searchsorted(against, flat, side="left")
            not_above = torch.searchsorted(against, flat, side="right")
            return 0.5 * (below + not_above).to(values) / len(against)
        rows = values.reshape(-1, 1).split(max(1, _CHUNK // len(against)))
        return torch.cat([link(part - against).mean(dim=-1) for part in rows]).view(values.shape)
