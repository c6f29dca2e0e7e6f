r"""Bounds over a likelihood-ratio set: one batch, against one solve after another.

Problem (24) of [Xu2024] at 64 points, ``max c^T p`` over ``|p| <= B`` and
``sum_i log(1 + exp(-a_i^T p)) <= b``, as it is solved here in one batch, by CVXPY with
Clarabel and, as the paper's authors solve it, by CasADi with IPOPT. The others get the form
that was fastest for them: one parametrised problem in the triangular basis of a Cholesky
factor, which keeps the rows sparse, for Clarabel; one solver in whitened coordinates, with
derivatives and exact Hessian written out, for IPOPT. Both are built, and the
largest likelihood is known, before the clock starts. All values agree to 1e-6.

References:
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from linear_operator import to_dense
from torch import Size, Tensor

from botorch_pref.inference import Block, Observations
from botorch_pref.kernels.items import default_covar_module
from botorch_pref.likelihood_ratio import ConfidenceSet, whiten
from botorch_pref.likelihoods import LogitLikelihood
from experiments.speed.timing import Case, Side

NUM_POINTS = 64
NORM_BOUND = 6.0
_NORM = 5.5  # of the utility that the judge has
_JITTER = 1e-6
_CONIC, _IPOPT = "CVXPY + Clarabel", "CasADi + IPOPT"
# Of the options tried: a coarser tolerance, the monotone rule and other initial barriers are no
# faster; relaxed bounds cost accuracy.
_IPOPT_OPTIONS = {
    "print_time": False,
    "ipopt.print_level": 0,
    "ipopt.sb": "yes",
    "ipopt.tol": 1e-7,
    "ipopt.bound_relax_factor": 0.0,
    "ipopt.nlp_scaling_method": "none",
    "ipopt.mu_strategy": "adaptive",
}

Values = Callable[[], np.ndarray]


class Instance(NamedTuple):
    r"""Bounds that are wanted.

    Attributes:
        confidence: The set.
        g: ``k x r``-dim coefficients of advantages over the item asked last.
        s: ``k``-dim coefficients of what the function has beyond the items.
        rows: ``m x r``-dim map of the coordinates to the margins of the duels' winners.
    """

    confidence: ConfidenceSet
    g: Tensor
    s: Tensor
    rows: Tensor

    @property
    def excess(self) -> float:
        """What the negative log likelihood may be at most."""
        return self.confidence.slack - float(self.confidence.mle.log_likelihood)


def likelihood_ratio_cases(section: str, device: torch.device, quick: bool) -> list[Case]:
    """The rows of bounds."""
    sizes = ((30, 2, 0.3),) if quick else ((30, 2, 0.3), (100, 6, 1.0))
    cases = []
    for num_items, dim, lengthscale in sizes:
        data = instance(num_items, dim, lengthscale, device=device)
        others = (
            Side(_CONIC, partial(conic, data), needs=("cvxpy", "clarabel"), knows_devices=False),
            Side(_IPOPT, partial(ipopt, data), needs=("casadi",), knows_devices=False),
        )
        ours = Side("ConfidenceSet", partial(batched, data), 21)
        name, where = f"{NUM_POINTS} bounds in one batch", f"{num_items} items, d={dim}"
        cases.append(Case(section, name, where, None, ours, others, _agreement))
    return cases


def _agreement(results: Sequence[object]) -> str:
    found = [cast(np.ndarray, values) for values in results if values is not None]
    return f"bounds agree to {max(np.abs(values - found[0]).max() for values in found):.0e}"


def instance(
    num_items: int,
    dim: int,
    lengthscale: float,
    num_points: int = NUM_POINTS,
    device: torch.device | None = None,
) -> Instance:
    """The set after a chain of duels, each item against the one before, as POP-BO asks them."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(num_items + num_points, dim, generator=generator, dtype=torch.double)
    kernel = default_covar_module(None, Size(), "rbf").base_kernel.to(X)
    kernel.lengthscale = lengthscale
    with torch.no_grad():
        covariance = to_dense(kernel(X)) + _JITTER * torch.eye(len(X), dtype=X.dtype)
    whitening = whiten(covariance[:num_items, :num_items])
    true = torch.randn(whitening.root.shape[1], generator=generator, dtype=torch.double)
    utilities = whitening.root @ (_NORM * true / true.norm())
    asked = torch.stack([torch.arange(1, num_items), torch.arange(num_items - 1)], dim=-1)
    advantage = utilities[asked[:, 0]] - utilities[asked[:, 1]]
    uniform = torch.rand(len(asked), generator=generator, dtype=torch.double)
    wins = (uniform < torch.sigmoid(advantage)).unsqueeze(-1)
    pairs = torch.where(wins, asked, asked.flip(-1)).to(device)
    ones = torch.ones(len(pairs), dtype=torch.double, device=device)
    block = Block(pairs, (1.0, -1.0), ones, ones, LogitLikelihood())
    root = whitening.root.to(device)
    a, s = whitening.split(covariance[num_items:, :num_items], covariance.diagonal()[num_items:])
    confidence = ConfidenceSet(
        root,
        Observations([block], num_items),
        norm_bound=NORM_BOUND,
        slack=math.sqrt(len(asked)),
    )
    rows = root[pairs[:, 0]] - root[pairs[:, 1]]
    return Instance(confidence, a.to(device) - root[-1], s.to(device), rows)


def batched(data: Instance) -> Values:
    """This package: all bounds in one batch, each certified to 1e-9."""
    return lambda: data.confidence.upper(data.g, data.s).value.cpu().numpy()


def conic(data: Instance) -> Values:
    """CVXPY with Clarabel: one parametrised problem, solved at one point after another."""
    import cvxpy as cp

    confidence = data.confidence
    rotation = np.linalg.qr(confidence.root.cpu().numpy().T)[0]
    rows = data.rows.cpu().numpy() @ rotation
    rows[np.abs(rows) < 1e-12] = 0.0
    linear = np.column_stack([data.g.cpu().numpy() @ rotation, data.s.cpu().numpy()])
    objective, p = cp.Parameter(linear.shape[1]), cp.Variable(linear.shape[1])
    loss = cp.sum(cp.logistic(-rows @ p[:-1]))
    within = [cp.norm(p) <= confidence.norm_bound, loss <= data.excess]
    problem = cp.Problem(cp.Maximize(objective @ p), within)

    def solve(row: np.ndarray) -> float:
        objective.value = row
        return float(problem.solve(solver=cp.CLARABEL, max_threads=1))

    solve(linear[0])  # compiles the problem
    return lambda: np.array([solve(row) for row in linear])


def ipopt(data: Instance) -> Values:
    """CasADi with IPOPT: one solver, started at one point after another from the most likely."""
    confidence = data.confidence
    linear = np.column_stack([data.g.cpu().numpy(), data.s.cpu().numpy()])
    rows = np.pad(data.rows.cpu().numpy(), ((0, 0), (0, 1)))
    solver = _ipopt_solver(rows)
    start = np.append(confidence.mle.coordinates.cpu().numpy(), 0.0)
    limits = [confidence.norm_bound**2, data.excess]

    def solve(row: np.ndarray) -> float:
        return -float(solver(x0=start, p=row, lbg=-np.inf, ubg=limits)["f"])

    return lambda: np.array([solve(row) for row in linear])


def _ipopt_solver(rows: np.ndarray) -> Any:
    """``min -c^T p`` under the ball and the sum of the losses, for any ``c``."""
    import casadi as ca

    matrix = ca.DM(rows)
    p, c = ca.MX.sym("p", rows.shape[1]), ca.MX.sym("c", rows.shape[1])
    margins = ca.mtimes(matrix, p)
    loss = ca.sum1(ca.fmax(-margins, 0) + ca.log1p(ca.exp(-ca.fabs(margins))))
    constraints = ca.vertcat(ca.sumsqr(p), loss)
    value = -ca.dot(c, p)
    wrong = 1 / (1 + ca.exp(margins))
    slope = ca.densify(-ca.mtimes(wrong.T, matrix))
    of_value, of_rest = ca.MX.sym("lam_f"), ca.MX.sym("lam_g", 2)
    curvature = ca.mtimes(matrix.T, ca.mtimes(ca.diag(wrong * (1 - wrong)), matrix))
    hessian = ca.densify(2 * of_rest[0] * ca.MX.eye(rows.shape[1]) + of_rest[1] * curvature)
    options: dict[str, Any] = {
        **_IPOPT_OPTIONS,
        "grad_f": ca.Function("nlp_grad_f", [p, c], [value, -c], ["x", "p"], ["f", "grad_f_x"]),
        "jac_g": ca.Function(
            "nlp_jac_g",
            [p, c],
            [constraints, ca.vertcat(2 * p.T, slope)],
            ["x", "p"],
            ["g", "jac_g_x"],
        ),
        "hess_lag": ca.Function(
            "nlp_hess_l",
            [p, c, of_value, of_rest],
            [ca.triu(hessian)],
            ["x", "p", "lam_f", "lam_g"],
            ["triu_hess_gamma_x_x"],
        ),
    }
    program: dict[str, Any] = {"x": p, "p": c, "f": value, "g": constraints}
    return ca.nlpsol("solver", "ipopt", program, options)
