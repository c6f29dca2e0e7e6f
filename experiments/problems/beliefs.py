r"""Experts with a Gaussian belief about where the best item is.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems.base import ItemError, PreferenceProblem
from botorch_pref.problems.experts import Expert

BeliefMean: TypeAlias = Literal["strong", "weak", "wrong"]


class MVNExpert(Expert):
    r"""Believes in one place: ``P(accept) = exp(-(x - m)' C^{-1} (x - m) / 2)`` ([Xu2024b], H.3).

    The paper has the identity as ``C``, and does not say in which coordinates; here they are
    those of the problem's items. In the unit cube the identity is a weak belief: nowhere is
    the probability less than ``exp(-d / 2)``.

    Attributes:
        mean: The ``d``-dim item ``m`` that is always accepted.
    """

    def __init__(
        self,
        problem: PreferenceProblem,
        mean: BeliefMean | Tensor = "strong",
        covariance: Tensor | float = 1.0,
        *,
        seed: int = 0,
        value_noise: float = 0.0,
        absence: float = 0.0,
    ) -> None:
        r"""Set the belief.

        Args:
            problem: The objective.
            mean: The ``d``-dim mean ``m``, anywhere; or ``"strong"``, ``"weak"`` or
                ``"wrong"``, see :func:`belief_mean`.
            covariance: The ``d x d``-dim matrix ``C``, positive definite; or a number, for
                so many times the identity.
            seed: As for :class:`~botorch_pref.problems.Expert`, as are the rest.
            value_noise: See there.
            absence: See there.

        Raises:
            ItemError: If ``mean`` is no finite ``d``-dim tensor.
            SearchSpaceError: If ``mean`` is no such word, or ``covariance`` is not positive
                definite.
            UnsupportedError: If ``mean`` is a word and the problem does not know where its
                maximum is, or as for :class:`~botorch_pref.problems.Expert`.
        """
        super().__init__(problem, seed=seed, value_noise=value_noise, absence=absence)
        self.mean = belief_mean(problem, mean)
        self._factor = _checked_factor(problem, covariance)

    def _probability(self, items: Tensor, t: int | None) -> Tensor:
        away = (items.to(self.mean) - self.mean).unsqueeze(-1)
        whitened = torch.linalg.solve_triangular(self._factor, away, upper=False).squeeze(-1)
        return (-0.5 * whitened.square().sum(dim=-1)).exp().to(items)


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


def _checked_factor(problem: PreferenceProblem, covariance: Tensor | float) -> Tensor:
    """The Cholesky factor of a covariance of items, in the dtype of the problem's bounds."""
    bounds = problem.bounds
    matrix = torch.as_tensor(covariance).to(bounds)
    if matrix.dim() == 0:
        matrix = matrix * torch.eye(problem.dim).to(bounds)
    if matrix.shape == (problem.dim, problem.dim) and matrix.isfinite().all():
        factor, failed = torch.linalg.cholesky_ex(matrix)
        if not failed and torch.allclose(matrix, matrix.mT):
            return factor
    raise SearchSpaceError(
        f"covariance must be a positive number, or a symmetric positive definite {problem.dim} x "
        f"{problem.dim} matrix, got {covariance!r}."
    )


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
