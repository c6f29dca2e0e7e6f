r"""The COBOL paper's functions, and its experts with normal beliefs or changing accuracy.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple, TypeAlias

import torch
from botorch.test_functions import synthetic as botorch_synthetic
from botorch.test_functions.synthetic import SyntheticTestFunction
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.models import LikelihoodRatioModel, NormalBelief
from botorch_pref.problems.base import ItemError, PreferenceProblem
from botorch_pref.problems.judges import SyntheticExpert, checked_rho_range, utilities_of
from botorch_pref.problems.synthetic import SyntheticProblem
from botorch_pref.queries import Label, Query
from botorch_pref.randomness import derive_seed, derive_uniform
from experiments.problems.functions import HOLDER_BEST

Range: TypeAlias = tuple[float, float]

_LENGTHSCALE = 0.25  # of the belief of a fitted expert, times the root of the dimension
_NORM_LIMIT = 4.0  # of that belief


class _Function(NamedTuple):
    """A function to be minimised, where and what it is least, and what it is at most."""

    make: Callable[[], SyntheticTestFunction]
    best: tuple[float, ...]  # in more digits than BoTorch has
    lowest: float
    highest: float  # over the box
    authors_highest: float  # what the authors' public code takes it to be


_MICHALEWICZ = (
    2.2029055201726093,
    math.pi / 2.0,
    1.2849915705529245,
    1.9230584698663629,
    1.7204697725658413,
)
_TABLE: dict[str, _Function] = {
    # Largest where one coordinate is 1 and the others are 0.61052, of either sign; 3.62538 is
    # the value at a corner.
    "ackley4": _Function(
        partial(botorch_synthetic.Ackley, dim=4, bounds=[(-1.0, 1.0)] * 4),
        (0.0,) * 4,
        0.0,
        4.705610173629071,
        3.62538,
    ),
    "holder2": _Function(
        partial(botorch_synthetic.HolderTable, bounds=[(0.0, 10.0)] * 2),
        HOLDER_BEST,
        -19.208502567886732,
        0.0,
        0.0,
    ),
    "rastrigin2": _Function(
        partial(botorch_synthetic.Rastrigin, dim=2), (0.0,) * 2, 0.0, 80.70658038767792, 80.0
    ),
    "michalewicz5": _Function(
        partial(botorch_synthetic.Michalewicz, dim=5), _MICHALEWICZ, -4.687658179088146, 0.0, 0.0
    ),
    "rosenbrock3": _Function(
        partial(botorch_synthetic.Rosenbrock, dim=3), (1.0,) * 3, 0.0, 1912662.0, 1.5e4
    ),
}
EXPERT_BENCHMARKS = tuple(_TABLE)
"""The names of the functions."""


class ExpertBenchmark(SyntheticProblem):
    r"""A test function of [Xu2024b], App. J.2.1, negated: the utility is ``-f``.

    ================ === =============== ========== ==================== ===============
    name             d   box of ``f``    largest    smallest utility     of the authors'
                                         utility    (true range)         code
    ================ === =============== ========== ==================== ===============
    ``ackley4``      4   [-1, 1]^4       0          -4.70561             -3.62538
    ``holder2``      2   [0, 10]^2       19.2085    0                    0
    ``rastrigin2``   2   [-5.12, 5.12]^2 0          -80.7066             -80
    ``michalewicz5`` 5   [0, pi]^5       4.687658   0                    0
    ``rosenbrock3``  3   [-5, 10]^3      0          -1912662             -15000
    ================ === =============== ========== ==================== ===============

    The range is what a :class:`~botorch_pref.problems.SyntheticExpert` maps to [-3, 3], and
    so it decides how much the expert knows. An expert of accuracy 1 accepts a uniformly drawn
    item of ``rosenbrock3`` with a mean probability of 0.865 by the true range, and is nearly
    useless; by the authors' it is 0.138. On ``ackley4`` they are 0.162 and 0.057; elsewhere
    the two ranges agree, or nearly so.

    Attributes:
        ranges: The ``"true"`` and the ``"authors"`` range: lowest and highest, in units of the
            utility. The highest is the true maximum in both.
        rho_range: The range that was chosen.
    """

    def __init__(
        self,
        which: str = "ackley4",
        rho_range: Literal["true", "authors"] | Range = "true",
        unit_cube: bool = True,
    ) -> None:
        r"""Set up a function.

        Args:
            which: ``"ackley4"``, ``"holder2"``, ``"rastrigin2"``, ``"michalewicz5"`` or
                ``"rosenbrock3"``; case, hyphens and underscores do not matter.
            rho_range: ``"true"``, ``"authors"``, or the lowest and the highest utility of
                the range. These are of the utility, to be maximised: the range (0, 4.7) of a
                function to be minimised is (-4.7, 0).
            unit_cube: If true, items live in ``[0, 1]^d``; else within the function's own
                bounds.

        Raises:
            SearchSpaceError: If there is no such function or range, or a range is not a lower
                and a higher number, the lower one below the largest utility.
        """
        key = which.lower().replace("-", "").replace("_", "")
        if key not in _TABLE:
            raise SearchSpaceError(f"which must be one of {', '.join(_TABLE)}, got {which!r}.")
        entry = _TABLE[key]
        best = 0.0 - entry.lowest  # never -0.0
        self.ranges: dict[str, Range] = {
            "true": (0.0 - entry.highest, best),
            "authors": (0.0 - entry.authors_highest, best),
        }
        if isinstance(rho_range, str):
            if rho_range not in self.ranges:
                raise SearchSpaceError(
                    "rho_range must be 'true', 'authors', or a lowest and a highest utility, "
                    f"got {rho_range!r}."
                )
            rho_range = self.ranges[rho_range]
        self.rho_range = checked_rho_range(rho_range, best)
        function = entry.make()
        # Holder's other three optima lie outside this box.
        function._optimizers, function._optimal_value = [entry.best], entry.lowest
        super().__init__(function, unit_cube=unit_cube, name=f"expert{key}")


BeliefMean: TypeAlias = Literal["strong", "weak", "wrong"]


class MVNExpert:
    r"""Answers by a :class:`~botorch_pref.models.NormalBelief` ([Xu2024b], H.3).

    The paper has the identity as the covariance, and does not say in which coordinates; here they
    are those of the problem's items. In the unit cube the identity is a weak belief: nowhere is the
    probability less than ``exp(-d / 2)``.

    Attributes:
        belief: That belief.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        mean: BeliefMean | Tensor = "strong",
        covariance: Tensor | float = 1.0,
        *,
        seed: int = 0,
    ) -> None:
        r"""Set the belief.

        Args:
            problem: The objective.
            mean: The ``d``-dim mean, anywhere; or ``"strong"``, ``"weak"`` or
                ``"wrong"``, see :func:`belief_mean`.
            covariance: The ``d x d``-dim matrix, positive definite; or a number, for so many times
                the identity.
            seed: The seed of the labels.

        Raises:
            ComparisonDataError: If ``covariance`` is not positive definite.
            ItemError: If ``mean`` is no finite ``d``-dim tensor.
            SearchSpaceError: If ``mean`` is no such word.
            UnsupportedError: If ``mean`` is a word and the problem does not know where its
                maximum is.
        """
        self.problem, self.seed = problem, seed
        self.belief = normal_belief(problem, mean, covariance)

    def __call__(self, query: Query, t: int) -> float:
        """1 to accept an item and 0 to reject it, or the value; ``t`` is the step."""
        if query.measures:
            return float(utilities_of(self.problem, query))
        if not isinstance(query, Label):
            raise UnsupportedError(f"query: this expert answers no {query.kind}.")
        uniform = derive_uniform(self.seed, "label", t, query.annotator)
        return float(uniform < self.belief.probability(query.items.to(self.problem.bounds)))


class FittedExpert(SyntheticExpert):
    r"""An expert who answers by a model of a few labels, as people are simulated ([Xu2024b], J.3).

    The labels are a :class:`SyntheticExpert`'s, of uniform items, before any value is known. The
    most likely function of them is taken for the belief: ``P(accept) = sigmoid(mle(x))``.

    Attributes:
        model: The model of the labels.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        accuracy: float,
        rho_range: Sequence[float] | None = None,
        *,
        number: int = 50,
        seed: int = 0,
    ) -> None:
        r"""Ask the expert for labels, and fit the model.

        Args:
            problem: The objective, on a box.
            accuracy: As for :class:`SyntheticExpert`, of the labels.
            rho_range: Likewise.
            number: How many labels.
            seed: The seed of all labels.

        Raises:
            SearchSpaceError: As for :class:`SyntheticExpert`.
            UnsupportedError: Likewise.
        """
        super().__init__(problem, accuracy, rho_range, seed=seed)
        generator = torch.Generator().manual_seed(derive_seed(seed, "fitted", 0))
        unit = torch.rand(number, problem.dim + 1, generator=generator, dtype=torch.double)
        items = torch.lerp(*problem.bounds, unit[:, 1:])
        accept = (unit[:, 0] < super().probability(items)).to(items)
        kernel = RBFKernel().double()
        kernel.lengthscale = _LENGTHSCALE * math.sqrt(problem.dim)
        model = LikelihoodRatioModel.from_labels(
            items,
            accept,
            covar_module=kernel,
            norm_bound=1.0,
            box=3.0,
            slack={"rule": "sqrt", "scale": 0.01, "offset": 1.0, "times_bound": True},
            input_transform=problem.space.input_transform(),
        )
        self.model = model.adapt_norm_bound(limit=_NORM_LIMIT)

    def __call__(self, query: Query, t: int) -> float:
        """1 to accept an item and 0 to reject it, or the value; ``t`` is the step."""
        if query.measures:
            return super().__call__(query, t)
        if not isinstance(query, Label):
            raise UnsupportedError(f"query: this expert answers no {query.kind}.")
        uniform = derive_uniform(self.seed, "label", t, query.annotator)
        return float(uniform < self.probability(query.items))

    def probability(self, items: Tensor) -> Tensor:
        """The ``...``-dim probabilities that ``... x d``-dim items are accepted."""
        return torch.sigmoid(self.model.mle(items))


def belief_mean(problem: PreferenceProblem, mean: BeliefMean | Tensor) -> Tensor:
    r"""Where an expert believes the best item to be ([Xu2024b], App. H.3).

    Args:
        problem: The problem.
        mean: ``"strong"``, the best item, the first where there are several; ``"wrong"``, the
            item farthest from it (of a box, a corner); ``"weak"``, the middle between the two;
            or a ``d``-dim tensor, which is returned as it is. Distances are Euclidean, in the
            problem's own coordinates.

    Returns:
        A ``d``-dim tensor of the dtype of the problem's bounds.

    Raises:
        ItemError: If ``mean`` is a tensor of another shape, or not finite.
        SearchSpaceError: If ``mean`` is no such word.
        UnsupportedError: If the problem does not know where its maximum is.
    """
    if isinstance(mean, Tensor):
        if mean.shape != (problem.dim,) or not mean.isfinite().all():
            raise ItemError(
                f"mean must be a finite tensor of shape ({problem.dim},), got shape "
                f"{tuple(mean.shape)}{'' if mean.isfinite().all() else ', not finite'}."
            )
        return mean.to(problem.bounds)
    if mean not in ("strong", "weak", "wrong"):
        raise SearchSpaceError(
            f"mean must be 'strong', 'weak', 'wrong' or a d-dim tensor, got {mean!r}."
        )
    best = _best_item(problem)
    if mean == "strong":
        return best
    farthest = _farthest_item(problem, best)
    return farthest if mean == "wrong" else 0.5 * (best + farthest)


def normal_belief(
    problem: PreferenceProblem, mean: BeliefMean | Tensor, covariance: Tensor | float
) -> NormalBelief:
    """A belief about the items of a problem; arguments as of :class:`MVNExpert`."""
    matrix = torch.as_tensor(covariance).to(problem.bounds)
    if matrix.dim() == 0:
        matrix = matrix * torch.eye(problem.dim).to(problem.bounds)
    return NormalBelief(belief_mean(problem, mean), matrix)


def _best_item(problem: PreferenceProblem) -> Tensor:
    """The first best item."""
    if problem.choices is not None:
        return problem.choices[problem.utilities.argmax()]
    optimizers = getattr(problem, "optimizers", None)
    if optimizers is None:
        raise UnsupportedError(
            f"mean must be a tensor: {problem.name} does not know where its maximum is."
        )
    best: Tensor = optimizers[0].to(problem.bounds)
    return best


def _farthest_item(problem: PreferenceProblem, item: Tensor) -> Tensor:
    """The choice, or else the corner of the box, that is farthest from an item."""
    if problem.choices is not None:
        return problem.choices[(problem.choices - item).norm(dim=-1).argmax()]
    lower, upper = problem.bounds
    return torch.where(upper - item >= item - lower, upper, lower)


@dataclass(frozen=True)
class AccuracySchedule:
    r"""The accuracy of an expert who has seen ``n`` values ([Xu2024b], App. I.1).

    The text has an expert who gets better, which is ``a_n = limit (1 - exp(-rate n))``, the
    form ``"rising"``. The formula that is printed there, ``a_n = limit (1 - exp(-rate / n))``,
    falls from ``limit`` to 0: the form ``"printed"``.

    Attributes:
        rate: The rate, which the paper does not give.
        form: ``"rising"`` or ``"printed"``.
        limit: The accuracy to which the first form rises, and from which the second falls.
    """

    rate: float
    form: Literal["rising", "printed"] = "rising"
    limit: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.rate < math.inf:
            raise SearchSpaceError(f"rate must be positive and finite, got {self.rate}.")
        if not math.isfinite(self.limit):
            raise UnsupportedError(f"limit must be a finite accuracy, got {self.limit!r}.")
        if self.form not in ("rising", "printed"):
            raise SearchSpaceError(f"form must be 'rising' or 'printed', got {self.form!r}.")

    def __call__(self, num_evaluations: int) -> float:
        r"""The accuracy.

        Args:
            num_evaluations: The number ``n`` of values seen, at least 0.

        Returns:
            The accuracy ``a_n``.
        """
        if self.form == "rising":
            return -self.limit * math.expm1(-self.rate * num_evaluations)
        if num_evaluations == 0:
            return self.limit
        return -self.limit * math.expm1(-self.rate / num_evaluations)


class TimeVaryingExpert(SyntheticExpert):
    r"""A :class:`SyntheticExpert` whose accuracy depends on the number of values told so far.

    It remembers at which steps it told a value, and a label at step ``t`` counts those before
    ``t``. So every run needs an expert of its own.

    Attributes:
        schedule: The accuracy by the number of values.
        rho_range: The range, in units of the utility.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        schedule: Callable[[int], float],
        rho_range: Sequence[float] | None = None,
        *,
        initial_evaluations: int = 0,
        seed: int = 0,
    ) -> None:
        r"""Set what the expert knows, and will know.

        Args:
            problem: The objective.
            schedule: The accuracy by the number of values, as :class:`AccuracySchedule`.
            rho_range: As for :class:`SyntheticExpert`.
            initial_evaluations: The number of values known before the first step.
            seed: The seed of the labels.

        Raises:
            SearchSpaceError: As for :class:`SyntheticExpert`.
            UnsupportedError: As for :class:`SyntheticExpert`, or if ``initial_evaluations``
                is negative.
        """
        super().__init__(problem, schedule(initial_evaluations), rho_range, seed=seed)
        if initial_evaluations < 0:
            raise UnsupportedError(
                f"initial_evaluations must be at least 0, got {initial_evaluations!r}."
            )
        self.schedule = schedule
        self._initial = initial_evaluations
        self._told: set[int] = set()

    def __call__(self, query: Query, t: int) -> float:
        """Answer a query with the accuracy at its step, and remember the step of a value."""
        self.accuracy = self.schedule(self._initial + sum(told < t for told in self._told))
        answer = super().__call__(query, t)
        if query.measures:
            self._told.add(t)
        return answer
