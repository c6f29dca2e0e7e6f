r"""An ellipsoid in place of a confidence set, for when many points are only to be ranked."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_pref.likelihood_ratio.constraints import Constraints

_LEAST_SLACK = 1e-9


class Ellipsoid:
    r"""Where ball and log likelihood, as a quadratic around its maximum, hold in the mean.

    With the maximum ``v``, the gradient ``b`` and the Hessian ``-H`` of the log likelihood there,
    the set of a slack ``alpha`` is about that of ``d = p - v`` with ``d^T H d / 2 - b^T d <=
    alpha`` and ``|p|^2 <= 1``. The ellipsoid ``(d^T H d / 2 - b^T d) / alpha + |p|^2 <= 2`` is
    around it, and its largest values need one factorisation for all points. The box is left out.

    Args:
        constraints: The answers, in coordinates in which the norm ball is the unit ball.
        v: ``q``-dim maximum of the likelihood.
        slack: What a function may lack of the maximal log likelihood; 0 to infinity.
    """

    def __init__(self, constraints: Constraints, v: Tensor, slack: float) -> None:
        alpha = max(slack, _LEAST_SLACK)
        likelihood = constraints.likelihood(constraints.rows @ v)
        rows = constraints.answer_rows
        quadratic = likelihood.curvature.quadratic(rows) / (2.0 * alpha)
        towards = quadratic @ v + 0.5 * likelihood.gradient / alpha
        whole = quadratic + torch.eye(len(v)).to(v)
        self.factor = torch.linalg.cholesky_ex(whole).L
        self.centre = torch.cholesky_solve(towards.unsqueeze(-1), self.factor).squeeze(-1)
        constant = v @ quadratic @ v + likelihood.gradient @ v / alpha
        self.radius = (2.0 - constant + self.centre @ towards).clamp_min(0.0).sqrt()

    def upper(self, linear: Tensor) -> Tensor:
        """The ``k``-dim largest values of ``k x (q + 1)``-dim linear functions."""
        inner = linear[:, :-1]
        solved = torch.linalg.solve_triangular(self.factor, inner.mT, upper=False)
        squares = solved.square().sum(0) + linear[:, -1].square()
        return inner @ self.centre + self.radius * squares.sqrt()
