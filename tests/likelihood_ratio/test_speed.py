"""One batch against one conic solve after another, on one thread and in processor time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import cvxpy as cp
import numpy as np
import pytest

from botorch_pref.likelihood_ratio import ConfidenceSet
from tests.laplace.common import design
from tests.likelihood_ratio.common import case


def seconds(function: Callable[[], object], repeats: int) -> float:
    """The smallest of a few times."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize(("n", "dim", "lengthscale", "factor"), [(30, 2, 0.3, 10), (100, 6, 1, 3)])
def test_a_batch_of_64_points(n: int, dim: int, lengthscale: float, factor: float) -> None:
    problem = case(n, n, num_points=64, dim=dim, lengthscale=lengthscale)
    program, slack = problem.program(), math.sqrt(n)
    confidence = ConfidenceSet(program, slack)
    g, s = problem.advantage()

    # CVXPY's fastest: one parametrised problem, in the triangular basis of a Cholesky factor.
    rotation, upper = np.linalg.qr(program.root.numpy().T)
    observations, answers = problem.observations, problem.answers()
    assert observations is not None
    assert answers is not None
    rows = design(observations) @ upper.T
    rows[np.abs(rows) < 1e-12] = 0.0
    objectives = np.column_stack([g.numpy() @ rotation, s.numpy()])
    objective, p = cp.Parameter(n + 1), cp.Variable(n + 1)
    won = cp.multiply(answers.weight * answers.answer, cp.logistic(-rows @ p[:-1]))
    lost = cp.multiply(answers.weight * (1 - answers.answer), cp.logistic(rows @ p[:-1]))
    level = float(confidence.mle.log_likelihood) - slack
    within = [cp.norm(p) <= problem.norm_bound, cp.sum(won) + cp.sum(lost) <= -level]
    conic = cp.Problem(cp.Maximize(objective @ p), within)
    values = np.zeros(64)

    def one_by_one() -> None:
        for i, row in enumerate(objectives):
            objective.value = row
            conic.solve(solver=cp.CLARABEL, max_threads=1)
            values[i] = conic.value

    bound = confidence.upper(g, s)
    one_by_one()
    assert bound.converged.all()
    np.testing.assert_allclose(bound.value.numpy(), values, atol=1e-5)
    assert seconds(one_by_one, 3) >= factor * seconds(lambda: confidence.upper(g, s), 5)
