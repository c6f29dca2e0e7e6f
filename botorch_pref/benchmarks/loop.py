r"""One closed loop on a public test function, for :mod:`botorch_pref.benchmarks.closed_loop`.

Each loop asks ``horizon`` duels. The first four pairs are quasi-random, and the same for
all models under one seed; every later one is chosen by a rule under a model that is built
anew and fitted, from the start of its priors, to all answers so far. After the last duel
the model is fitted once more and recommends, of all items that were asked, the one with
the largest posterior mean.

Utilities are shifted and scaled to mean 0 and standard deviation ``SPREAD`` over 4096
quasi-random items, so regrets are in logits: the better of two random items wins about
nine duels in ten. Relative regrets are divided by that of the mean utility, which makes
functions comparable: 0 is the best item, 1 an average one. Items live in the unit cube.

Under one seed all models meet the same judge, so differences between them are paired.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import process_time
from typing import cast

import torch
from botorch.acquisition import AcquisitionFunction
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.exceptions.warnings import OptimizationWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.model import Model
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor

from botorch_pref.acquisition import DuelingThompsonSampling
from botorch_pref.exceptions import LaplaceConvergenceWarning
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.models.fitting import default_covar_module
from botorch_pref.problems import (
    LogisticJudge,
    PreferenceProblem,
    dueling_regret,
    get_problem,
    simple_regret,
    utility_regret,
)
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.runner.threads import num_threads

SPREAD = 3.0
NUM_INITIAL = 4

FUNCTIONS: dict[str, dict[str, int]] = {
    "branin": {},
    "sixhumpcamel": {},
    "ackley": {"dim": 3},
    "hartmann3": {},
    "rosenbrock": {"dim": 4},
    "levy": {"dim": 5},
    "hartmann6": {},
    "cosine8": {},
}


class StandardisedProblem(PreferenceProblem):
    r"""A problem whose utility has mean 0 and a given spread over its box."""

    def __init__(self, problem: PreferenceProblem, spread: float = SPREAD) -> None:
        r"""Measure the utility on 4096 quasi-random items.

        Args:
            problem: A problem on a box, which knows its maximum.
            spread: The standard deviation of the utility, in logits.
        """
        self.name = problem.name
        super().__init__(bounds=[(float(a), float(b)) for a, b in problem.bounds.T])
        items = draw_sobol_samples(problem.bounds, n=4096, q=1, seed=0).squeeze(-2)
        utilities = problem(items)
        self.problem = problem
        self._mean = float(utilities.mean())
        self._scale = spread / float(utilities.std())
        self._optimal_value = self._scale * (problem.optimal_value - self._mean)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        utilities: Tensor = self._scale * (self.problem(X) - self._mean)
        return utilities


def _matern(pairs: Tensor, answers: Tensor) -> Model:
    covar_module = default_covar_module(pairs.shape[-1], Size(), "matern")
    return PreferenceGP.from_pairs(pairs, answers, covar_module=covar_module)


def _rbf(pairs: Tensor, answers: Tensor) -> Model:
    return PreferenceGP.from_pairs(pairs, answers)


def _pairwise(pairs: Tensor, answers: Tensor) -> Model:
    rows = torch.arange(2 * len(pairs)).view(-1, 2)
    winners_first = torch.where(answers.unsqueeze(-1) > 0, rows, rows.flip(-1))
    return PairwiseGP(pairs.flatten(end_dim=1), winners_first)


def _eubo(model: Model, seed: int) -> AcquisitionFunction:
    return AnalyticExpectedUtilityOfBestOption(pref_model=model)


def _pf_ts(model: Model, seed: int) -> AcquisitionFunction:
    return DuelingThompsonSampling(model, seed=seed)


def _dimension_scaled(pairs: Tensor, answers: Tensor) -> Model:
    """The Matern-5/2 kernel under BoTorch's usual prior, whose lengthscales grow with ``d``."""
    dim = pairs.shape[-1]
    covar_module = default_covar_module(dim, Size(), "matern")
    matern = covar_module.base_kernel
    prior = LogNormalPrior(math.sqrt(2.0) + 0.5 * math.log(dim), math.sqrt(3.0))
    matern.register_prior("lengthscale_prior", prior, "lengthscale")
    matern.lengthscale = prior.mode
    return PreferenceGP.from_pairs(pairs, answers, covar_module=covar_module)


MODELS: dict[str, Callable[[Tensor, Tensor], Model]] = {
    "matern": _matern,
    "rbf": _rbf,
    "matern-dimension-scaled": _dimension_scaled,
    "pairwise-gp": _pairwise,
}
RULES: dict[str, Callable[[Model, int], AcquisitionFunction]] = {"eubo": _eubo, "pf-ts": _pf_ts}


@dataclass(frozen=True)
class Cell:
    r"""One closed loop.

    Attributes:
        function: A key of ``FUNCTIONS``.
        seed: The seed of the initial pairs, the judge and the rule.
        model: A key of ``MODELS``.
        rule: A key of ``RULES``.
        horizon: The number of duels, the initial ones included.
    """

    function: str
    seed: int
    model: str
    rule: str
    horizon: int

    def run(self) -> dict[str, str | int | float]:
        """Run the loop on one thread and return one row of the table."""
        with num_threads():
            return asdict(self) | _Loop(self).run()


class _Loop:
    """The state of one closed loop: what was asked and answered, and what went wrong."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        # Functions are seeded apart; models and rules meet the same pairs and judge.
        self.seed = derive_seed(cell.seed, cell.function, 0)
        self.problem = StandardisedProblem(get_problem(cell.function, **FUNCTIONS[cell.function]))
        self.judge = LogisticJudge(self.problem, seed=self.seed)
        initial = draw_sobol_samples(
            self.problem.bounds, n=NUM_INITIAL, q=2, seed=self.seed % 2**31
        )
        self.pairs = list(initial)
        self.answers = [self.judge(pair, t) for t, pair in enumerate(initial)]
        self.asked: list[Tensor] = []
        self.fits = self.failed = self.warned = self.failed_asks = 0
        self.fit_seconds = self.ask_seconds = 0.0

    def run(self) -> dict[str, str | int | float]:
        for t in range(NUM_INITIAL, self.cell.horizon):
            pair = self.ask(t)
            self.asked.append(pair)
            # PF-TS may choose one item for both arms, which is nothing to learn from.
            if not torch.equal(pair[0], pair[1]):
                self.pairs.append(pair)
                self.answers.append(self.judge(pair, t))
        items = torch.cat(self.pairs)
        model = self.fitted()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PairwiseGP tells of its jitter
            posterior = cast(GPyTorchPosterior, model.posterior(items))
        mean = posterior.mean.squeeze(-1)
        best = self.problem.optimal_value
        recommended = self.problem(items[mean.argmax()])
        first, second = self.problem(torch.stack(self.asked)).unbind(dim=-1)
        return {
            "dim": self.problem.dim,
            "regret": float(simple_regret(best, recommended)),
            "relative_regret": float(simple_regret(best, recommended)) / best,
            "duel_regret": float(dueling_regret(best, first, second).mean()),
            "relative_duel_regret": float(utility_regret(best, first, second).mean()) / best,
            "fits": self.fits,
            "failed_fits": self.failed,
            "warned_fits": self.warned,
            "failed_asks": self.failed_asks,
            "identical": NUM_INITIAL + len(self.asked) - len(self.pairs),
            "fit_seconds": self.fit_seconds,
            "ask_seconds": self.ask_seconds,
        }

    def fitted(self) -> Model:
        """A model of all answers; at the start of its priors where the fit failed."""
        data = torch.stack(self.pairs), torch.tensor(self.answers, dtype=torch.double)
        build = MODELS[self.cell.model]
        start = process_time()
        self.fits += 1
        with seeded(derive_seed(self.seed, "optimizer", self.fits)):
            model = build(*data)
            kind = (
                LaplaceMarginalLogLikelihood
                if isinstance(model, PreferenceGP)
                else PairwiseLaplaceMarginalLogLikelihood
            )
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    fit_gpytorch_mll(kind(model.likelihood, model))
                except Exception:  # whatever it is, it is what is counted here
                    self.failed += 1
                    model = build(*data)
        self.warned += any(
            issubclass(one.category, (OptimizationWarning, LaplaceConvergenceWarning))
            for one in caught
        )
        self.fit_seconds += process_time() - start
        return model

    def ask(self, t: int) -> Tensor:
        """The ``2 x d``-dim pair of step ``t``; a random one where the rule failed."""
        model = self.fitted()
        start = process_time()
        with seeded(derive_seed(self.seed, "pair", t)), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                pair, _ = optimize_acqf(
                    RULES[self.cell.rule](model, derive_seed(self.seed, "path", t)),
                    self.problem.bounds,
                    q=2,
                    num_restarts=4,
                    raw_samples=128,
                )
            except Exception:  # counted, as above
                self.failed_asks += 1
                pair = draw_sobol_samples(self.problem.bounds, n=1, q=2)[0]
        self.ask_seconds += process_time() - start
        return pair.detach()
