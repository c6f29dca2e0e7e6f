r"""The confidence set's convex programs as they are printed, by CVXPY and Clarabel.

The points are the items and any further ones, all values :math:`Z = L y` for a root
``L`` of the covariance of all of them, so that :math:`\|y\|^2 = Z^\top K^{-1} Z`. Every row
:math:`\eta = A Z` has the log likelihood
:math:`w \{ a \log \sigma(s \eta) + (1 - a) \log \sigma(-s \eta) \}`. The norm is a second-order
cone and the likelihood a sum of exponential cones. Or the answers are favourites among some of
the points, of log likelihood :math:`s Z_r - \log \sum_j \exp(s Z_j)`. Nothing here knows of
whitened ranks, of eliminated values or of barriers.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import cvxpy as cp
import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
_TOLERANCES = {"tol_gap_abs": 1e-10, "tol_gap_rel": 1e-10, "tol_feas": 1e-10}


@dataclasses.dataclass(frozen=True)
class Answers:
    """Rows of a dense map from all values to latent values, with answers and weights."""

    design: Array
    answer: Array
    weight: Array
    scale: float = 1.0


@dataclasses.dataclass(frozen=True)
class Choices:
    """For each question the values that were shown, and which of these is the favourite."""

    shown: list[list[int]]
    favourite: list[int]
    scale: float = 1.0


@dataclasses.dataclass(frozen=True)
class Found:
    """A maximum: its value, the values ``Z`` there, and whether the solver is sure."""

    value: float
    values: Array
    exact: bool


def log_likelihood(answers: Answers, values: Array) -> float:
    """The log likelihood of values, written out."""
    eta = answers.scale * (answers.design @ values)
    won, lost = np.logaddexp(0.0, -eta), np.logaddexp(0.0, eta)
    return float(-answers.weight @ (answers.answer * won + (1.0 - answers.answer) * lost))


def maximum_likelihood(
    covariance: Array,
    answers: Answers | Choices,
    norm_bound: float,
    box: ArrayLike | None = None,
) -> Found:
    """The largest log likelihood in the ball; ``box`` bounds each absolute value."""
    values, constraints = _ball(covariance, norm_bound, box)
    return _solve(cp.Problem(cp.Maximize(_expression(answers, values)), constraints), values)


def largest(
    covariance: Array,
    answers: Answers | Choices | None,
    norm_bound: float,
    objective: Array,
    level: float,
    box: ArrayLike | None = None,
) -> Found:
    """The largest ``objective @ Z`` in the ball with a log likelihood of at least ``level``.

    Of several objectives, one a row, the largest smallest one.
    """
    values, constraints = _ball(covariance, norm_bound, box)
    if answers is not None and np.isfinite(level):
        constraints.append(_expression(answers, values) >= level)
    return _solve(cp.Problem(cp.Maximize(cp.min(objective @ values)), constraints), values)


def _ball(covariance: Array, norm_bound: float, box: ArrayLike | None) -> tuple[Any, list[Any]]:
    eigenvalues, vectors = np.linalg.eigh(covariance)
    y = cp.Variable(len(covariance))
    values = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ y
    constraints = [cp.norm(y) <= norm_bound]
    if box is not None:
        bounded = np.isfinite(np.broadcast_to(np.asarray(box, dtype=float), len(covariance)))
        bound = np.broadcast_to(np.asarray(box, dtype=float), len(covariance))[bounded]
        constraints.append(cp.abs(values[np.flatnonzero(bounded)]) <= bound)
    return values, constraints


def _expression(answers: Answers | Choices, values: Any) -> Any:
    if isinstance(answers, Choices):
        scaled = answers.scale * values
        asked = zip(answers.shown, answers.favourite, strict=True)
        return sum(scaled[shown[r]] - cp.log_sum_exp(scaled[shown]) for shown, r in asked)
    eta = answers.scale * (answers.design @ values)
    won = cp.multiply(answers.weight * answers.answer, cp.logistic(-eta))
    lost = cp.multiply(answers.weight * (1.0 - answers.answer), cp.logistic(eta))
    return -cp.sum(won) - cp.sum(lost)


def _solve(problem: cp.Problem, values: Any) -> Found:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=cp.CLARABEL, **_TOLERANCES)
    return Found(float(problem.value), np.asarray(values.value), problem.status == cp.OPTIMAL)
