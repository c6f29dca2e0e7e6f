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
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_pref.problems import PreferenceProblem, ThermalComfort
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.runner.experiment import StrategyFactory
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import DTS, EUBO, PFTS, POPBO, RandomPairs, UtilityStrategy
from botorch_pref.strategies.pop_bo import Report
from botorch_pref.strategies.utility import KernelArgument
from experiments.baselines import SGP
from experiments.model_settings import fixed_kernel
from experiments.problems import GPSample, LinearSample, StandardisedFunction

ON_A_BOX = (
    "On a box POP-BO recommends the maximiser of the most likely utility, eubo, pf-ts and random "
    "that of the posterior mean, dts the best item asked, sgp the last winner."
)
NORM_FACTOR = 1.1  # of the true norm, where it is known
NUM_FITTED = 64
_VARIANCE = 9.0
_ACKLEY_NORM = 6.0  # the paper's bound of standardised functions
_STARTS = (0.03, 0.1, 0.3)


class Belief(NamedTuple):
    r"""A kernel, which all strategies share, and the set that is POP-BO's alone.

    Attributes:
        hyperparameters: Of the kernel; lengthscales on the unit cube.
        norm_bound: ``B``, in the norm of that kernel.
        slack: The rule of the slack.
        value_bound: The largest absolute utility, or ``None``.
        kernel: In place of the hyperparameters, where these have no name for it.
    """

    hyperparameters: dict[str, Any]
    norm_bound: float
    slack: dict[str, Any]
    value_bound: float | None = None
    kernel: KernelArgument = None

    @property
    def of_model(self) -> dict[str, Any]:
        """The arguments of a strategy that say what the kernel is."""
        if self.kernel is not None:
            return {"covar_module": self.kernel}
        return {"hyperparameters": self.hyperparameters}


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
    return kind(space=space, seed=seed, **belief(problem).of_model)


def pop_bo(
    belief: BeliefRule,
    problem: PreferenceProblem,
    space: SearchSpace,
    seed: int,
    report: Report = "max-mle",
    slack: float | None = None,
) -> POPBO:
    """POP-BO with a belief, and a norm bound that stays as it is.

    With ``slack`` that of one answer is another one than the belief's.
    """
    known = belief(problem)
    known = known if slack is None else known._replace(slack=_slack(slack))
    return POPBO(
        space=space,
        seed=seed,
        **known.of_model,
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


def of_linear(problem: PreferenceProblem) -> Belief:
    """The true linear kernel, and 1.1 times the true norm."""
    assert isinstance(problem, LinearSample)
    return Belief({}, NORM_FACTOR * problem.norm, _slack(1.0), kernel=_linear)


def of_ackley(problem: PreferenceProblem) -> Belief:
    """A squared exponential kernel of unit variance, and the bound of Table 2."""
    kernel = _squared_exponential(0.3 * problem.dim**0.5)
    return Belief(kernel, _ACKLEY_NORM, _slack(1.0))


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


def _linear(dim: int) -> ScaleKernel:
    kernel = fixed_kernel("linear", [1.0] * dim, dim)
    kernel.outputscale = _VARIANCE
    return kernel


def _squared_exponential(lengthscale: float, variance: float = 1.0) -> dict[str, Any]:
    return {"kernel": "rbf", "lengthscale": lengthscale, "outputscale": variance}


def _slack(scale: float, offset: float = 0.0) -> dict[str, Any]:
    return {"rule": "sqrt", "scale": scale, "offset": offset}
