r"""What the strategies of the POP-BO experiments know of a utility before the first duel.

References:
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from gpytorch.kernels import RBFKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_pref.problems import PreferenceProblem, ThermalComfort
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.runner.experiment import StrategyFactory
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import DTS, EUBO, PFTS, POPBO, RandomPairs, UtilityStrategy
from botorch_pref.strategies.pop_bo import Report
from experiments.baselines import SGP
from experiments.problems import GPSample, StandardisedFunction

ON_A_BOX = (
    "On a box POP-BO recommends the maximiser of the most likely utility, eubo, dts, pf-ts and "
    "random the best item asked, sgp the last winner."
)
NORM_FACTOR = 1.1  # of the true norm, where it is known
NUM_FITTED = 64
_STARTS = (0.03, 0.1, 0.3)


class Belief(NamedTuple):
    r"""A kernel, which all strategies share, and the set that is POP-BO's alone.

    Attributes:
        hyperparameters: Of the kernel; lengthscales on the unit cube.
        norm_bound: ``B``, in the norm of that kernel.
        slack: The rule of the slack.
        value_bound: The largest absolute utility, or ``None``.
    """

    hyperparameters: dict[str, Any]
    norm_bound: float
    slack: dict[str, Any]
    value_bound: float | None = None


BeliefRule = Callable[[PreferenceProblem], Belief]


def methods(belief: BeliefRule) -> dict[str, StrategyFactory]:
    """POP-BO and what it is compared with, under one kernel."""
    kinds: dict[str, type[UtilityStrategy]]
    kinds = {"eubo": EUBO, "dts": DTS, "sgp": SGP, "pf-ts": PFTS, "random": RandomPairs}
    peers = {name: partial(peer, kind, belief) for name, kind in kinds.items()}
    return {"pop-bo": partial(pop_bo, belief), **peers}


def peer(
    kind: type[UtilityStrategy],
    belief: BeliefRule,
    problem: PreferenceProblem,
    space: SearchSpace,
    seed: int,
) -> UtilityStrategy:
    """A strategy with the kernel of a belief."""
    return kind(space=space, seed=seed, hyperparameters=belief(problem).hyperparameters)


def pop_bo(
    belief: BeliefRule,
    problem: PreferenceProblem,
    space: SearchSpace,
    seed: int,
    report: Report = "max-mle",
) -> POPBO:
    """POP-BO with a belief, and a norm bound that stays as it is."""
    known = belief(problem)
    return POPBO(
        space=space,
        seed=seed,
        hyperparameters=known.hyperparameters,
        norm_bound=known.norm_bound,
        slack=known.slack,
        value_bound=known.value_bound,
        adapt_norm_bound=False,
        report=report,
    )


def of_gp_sample(problem: PreferenceProblem) -> Belief:
    """The true kernel, and 1.1 times the true norm ([Xu2024], App. P)."""
    assert isinstance(problem, GPSample)
    kernel = _squared_exponential(problem.unit_lengthscale, problem.variance)
    return Belief(kernel, NORM_FACTOR * problem.norm, _slack(1.0))


def of_function(problem: PreferenceProblem) -> Belief:
    """A fitted lengthscale, unit variance and the paper's bound ([Xu2024], App. P)."""
    assert isinstance(problem, StandardisedFunction)
    settings = problem.settings
    kernel = _squared_exponential(fitted_lengthscale(problem.name.removeprefix("standardised")))
    return Belief(kernel, settings.norm_bound, _slack(settings.beta0))


def of_toolbox(problem: PreferenceProblem) -> Belief:
    """The settings of the authors' toolbox."""
    assert isinstance(problem, StandardisedFunction)
    settings = problem.settings
    kernel = {"kernel": settings.kernel, "lengthscale": problem.unit_lengthscale}
    slack = _slack(settings.beta0, offset=1.0)
    return Belief({**kernel, "outputscale": 1.0}, settings.norm_bound, slack, settings.value_bound)


def of_comfort(problem: PreferenceProblem) -> Belief:
    """The kernel of the authors' example of one dimension, and half of every range."""
    assert isinstance(problem, ThermalComfort)
    bound = {2: 3.0, 4: 6.0}[problem.dim]
    return Belief(_squared_exponential(0.5, 4.0), bound, _slack(1.0))


@cache
def fitted_lengthscale(which: str) -> float:
    """The most likely lengthscale of a test function on the unit square.

    BoTorch's ``SingleTaskGP`` with a squared exponential kernel of unit variance and one
    lengthscale, fitted to the standardised utilities of 64 uniform points, always the same,
    from three starts, as the likelihood has several maxima. Its noise is learnt as well, and
    takes up ripples that are shorter than the distances of the points.
    """
    problem = StandardisedFunction(which)
    generator = torch.Generator().manual_seed(derive_seed(0, "fit", 0))
    X = torch.rand(NUM_FITTED, problem.dim, generator=generator, dtype=torch.double)
    Y = problem(X).unsqueeze(-1)
    found: list[tuple[float, float]] = []
    for start in _STARTS:
        kernel = RBFKernel().to(X)  # without a prior, and in the unit of the norm bound
        kernel.lengthscale = start
        model = SingleTaskGP(X, Y - Y.mean(), covar_module=kernel, outcome_transform=None)
        mll = ExactMarginalLogLikelihood(model.likelihood, model)
        with seeded(derive_seed(0, "fit", 1)):
            fit_gpytorch_mll(mll)
        mll.train()
        with torch.no_grad():
            likelihood = float(mll(model(X), model.train_targets))
        found.append((likelihood, float(kernel.lengthscale.detach())))
    return max(found)[1]


def _squared_exponential(lengthscale: float, variance: float = 1.0) -> dict[str, Any]:
    return {"kernel": "rbf", "lengthscale": lengthscale, "outputscale": variance}


def _slack(scale: float, offset: float = 0.0) -> dict[str, Any]:
    return {"rule": "sqrt", "scale": scale, "offset": offset}
