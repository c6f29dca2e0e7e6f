r"""One closed loop on a public test function, for :mod:`experiments.defaults.closed_loop`.

Each loop asks ``horizon`` duels. The first four pairs are quasi-random, and the same for
all models under one seed. Every later duel compares the item of the largest posterior mean with
the item whose expected utility of the better one (EUBO) is largest, under a model that is built
and fitted to all answers so far, from the modes of its priors. The model recommends the item of
the largest posterior mean in the whole box.

Utilities are shifted and scaled to mean 0 and standard deviation ``spread`` over 4096
quasi-random items, so differences are in logits. Items live in the unit cube. A
recommendation is measured by the share of the box that is better than it.

Under one seed all models meet the same judge, so differences between them are paired.
"""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from functools import cached_property
from time import process_time
from typing import cast, get_args

import torch
from botorch.acquisition import AcquisitionFunction, PosteriorMean
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.exceptions.warnings import OptimizationWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseGP, PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import InputTransform
from botorch.optim import optimize_acqf
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import AdditiveKernel, Kernel
from torch import Size, Tensor

from botorch_pref.exceptions import LaplaceConvergenceWarning, UnsupportedError
from botorch_pref.kernels import NuggetKernel
from botorch_pref.kernels.items import KernelName, default_covar_module
from botorch_pref.models import PreferenceGP
from botorch_pref.models.base import Inference
from botorch_pref.problems import LogisticJudge, PreferenceProblem, get_problem
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.runner import num_threads
from botorch_pref.space import SearchSpace

SPREAD = 3.0
NUM_INITIAL = 4
PAIRWISE_GP, DEFAULT = "pairwise-gp", "default"
_REFERENCE = 2**17  # items that a recommendation is compared with

PreferenceModel = PreferenceGP | PairwiseGP


class WeightedSum(PreferenceProblem):
    r"""``sum_i sqrt(i) x_i``, the utility of BoTorch's tutorial: its best item is a corner."""

    def __init__(self, dim: int) -> None:
        super().__init__(bounds=[(0.0, 1.0)] * dim)
        self._optimal_value = float(self._weights(torch.ones(1, dtype=torch.double)).sum())

    def _weights(self, X: Tensor) -> Tensor:
        return torch.arange(1, self.dim + 1).to(X).sqrt()

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X @ self._weights(X)


class Bowl(PreferenceProblem):
    r"""``-sum_i sqrt(i) (x_i - c_i)^2``, whose best item ``c`` is off the centre."""

    _optimal_value = 0.0

    def __init__(self, dim: int) -> None:
        super().__init__(bounds=[(0.0, 1.0)] * dim)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        number = torch.arange(1, self.dim + 1).to(X)
        centre = 0.5 + 0.3 * torch.cos(2.0 * number)
        return -(X - centre).square() @ number.sqrt()


MULTIMODAL: dict[str, PreferenceProblem] = {
    "branin": get_problem("branin"),
    "sixhumpcamel": get_problem("sixhumpcamel"),
    "ackley": get_problem("ackley", dim=3),
    "hartmann3": get_problem("hartmann3"),
    "levy": get_problem("levy", dim=5),
    "hartmann6": get_problem("hartmann6"),
}
SMOOTH: dict[str, PreferenceProblem] = {
    "linear4": WeightedSum(4),
    "linear8": WeightedSum(8),
    "quadratic6": Bowl(6),
}
FUNCTIONS = MULTIMODAL | SMOOTH


class StandardisedProblem(PreferenceProblem):
    r"""A problem whose utility has mean 0 and a given spread over its box."""

    def __init__(self, problem: PreferenceProblem, spread: float = SPREAD) -> None:
        """Measure the utility on 4096 quasi-random items."""
        self.name = problem.name
        super().__init__(bounds=[(float(a), float(b)) for a, b in problem.bounds.T])
        items = draw_sobol_samples(problem.bounds, n=4096, q=1, seed=0).squeeze(-2)
        utilities = problem(items)
        self.problem = problem
        self._mean = float(utilities.mean())
        self._scale = spread / float(utilities.std())
        self._optimal_value = self._scale * (problem.optimal_value - self._mean)

    @property
    def space(self) -> SearchSpace:
        return self.problem.space

    def _evaluate_true(self, X: Tensor) -> Tensor:
        utilities: Tensor = self._scale * (self.problem(X) - self._mean)
        return utilities


def check_model(name: str) -> None:
    """Raise ``UnsupportedError`` unless a name is that of a model."""
    if name not in (DEFAULT, PAIRWISE_GP):
        _inference_and_kernel(name, 1)


def build_model(
    name: str, datapoints: Tensor, comparisons: Tensor, transform: InputTransform | None = None
) -> PreferenceModel:
    """The model of a name, with its hyperparameters at the modes of their priors."""
    if name == PAIRWISE_GP:
        return PairwiseGP(datapoints, comparisons, input_transform=transform)
    if name == DEFAULT:
        return PreferenceGP(datapoints, comparisons, input_transform=transform)
    inference, kernel = _inference_and_kernel(name, datapoints.shape[-1])
    return PreferenceGP(
        datapoints,
        comparisons,
        covar_module=kernel,
        input_transform=transform,
        inference=inference,
    )


def _inference_and_kernel(name: str, dim: int) -> tuple[Inference, Kernel]:
    """What ``ep@matern+nugget:0.8:4`` says; inference is Laplace's if it is not said."""
    inference, _, kernels = name.rpartition("@")
    inference = inference or "laplace"
    parts = [_kernel(text, dim) for text in kernels.split("&")]
    if inference not in get_args(Inference) or None in parts:
        raise UnsupportedError(
            f"unknown model {name!r}; there are {DEFAULT}, {PAIRWISE_GP} and names such as "
            "rbf:0.4:4 and ep@matern+nugget:0.8:4, of an inference, a kernel, and the prior modes "
            "of its lengthscales and output scale; or of a sum, matern:0.8:2&rbf:0.4:1."
        )
    kernel = cast(Kernel, parts[0])
    return cast(Inference, inference), kernel if len(parts) == 1 else AdditiveKernel(*parts)


def _kernel(text: str, dim: int) -> Kernel | None:
    """What ``matern+nugget:0.8:4`` says, if anything."""
    try:
        kind, *numbers = text.split(":")
        lengthscale, outputscale = map(float, numbers)
    except ValueError:
        return None
    kind, _, own = kind.partition("+")
    is_known = kind in get_args(KernelName) and own in ("", "nugget")
    if not is_known or not min(lengthscale, outputscale) > 0.0:
        return None
    modes = {"lengthscale": lengthscale, "outputscale": outputscale}
    found = default_covar_module(dim, Size(), cast(KernelName, kind), **modes)
    if own:
        found.base_kernel = NuggetKernel(found.base_kernel)
    return found


@dataclass(frozen=True)
class Cell:
    r"""One closed loop.

    Attributes:
        function: A key of ``FUNCTIONS``.
        spread: The standard deviation of its utility, in logits.
        seed: The seed of the initial pairs, the judge and the rule.
        model: The name of a model, see :func:`check_model`.
        horizon: The number of duels, the initial ones included; at least 12.
    """

    function: str
    spread: float
    seed: int
    model: str
    horizon: int

    def run(self) -> dict[str, str | int | float]:
        """Run the loop on one thread and return one row of the table."""
        with num_threads():
            return asdict(self) | _Loop(self).run()


class _Loop:
    """The state of one closed loop: what was asked and answered, and what went wrong."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        # Functions are seeded apart; models meet the same pairs and judge.
        self.seed = derive_seed(cell.seed, cell.function, 0)
        self.problem = StandardisedProblem(FUNCTIONS[cell.function], cell.spread)
        self.judge = LogisticJudge(self.problem, seed=self.seed)
        initial = draw_sobol_samples(
            self.problem.bounds, n=NUM_INITIAL, q=2, seed=self.seed % 2**31
        )
        self.pairs = list(initial)
        self.answers = [self.judge(pair, t) for t, pair in enumerate(initial)]
        self.fits = self.failed = self.warned = self.failed_asks = 0
        self.fit_seconds = self.ask_seconds = 0.0

    def run(self) -> dict[str, str | int | float]:
        horizon = self.cell.horizon
        thirds = {horizon * (i + 1) // 3: f"share_{i + 1}" for i in range(3)}
        shares: dict[str, float] = {}
        for t in range(NUM_INITIAL, horizon + 1):
            model = self.fitted()
            if t in thirds:
                shares[thirds[t]] = float(self.share(self.maximiser(model, t, restarts=8)))
            if t < horizon:
                pair = self.ask(model, t)
                self.pairs.append(pair)
                self.answers.append(self.judge(pair, t))
        rank = self.share(torch.stack(self.pairs[NUM_INITIAL:])).mean(-1).sum()
        return {
            "dim": self.problem.dim,
            **shares,
            "rank": float(rank),
            "fits": self.fits,
            "failed_fits": self.failed,
            "warned_fits": self.warned,
            "failed_asks": self.failed_asks,
            "fit_seconds": self.fit_seconds,
            "ask_seconds": self.ask_seconds,
        }

    @cached_property
    def reference(self) -> Tensor:
        """Sorted utilities of quasi-random items."""
        items = draw_sobol_samples(self.problem.bounds, n=_REFERENCE, q=1, seed=1).squeeze(-2)
        return self.problem(items).sort().values

    def share(self, X: Tensor) -> Tensor:
        """The share of the box that is better than each of some items, at least half an item's."""
        utilities = self.problem(X)
        better = len(self.reference) - torch.searchsorted(
            self.reference, utilities.contiguous(), right=True
        )
        return better.clamp_min(0.5) / len(self.reference)

    def fitted(self) -> PreferenceModel:
        """A model of all answers; at the start of its priors where the fit failed."""
        items = torch.cat(self.pairs)
        rows = torch.arange(len(items)).view(-1, 2)
        first = torch.tensor(self.answers).unsqueeze(-1) > 0.5
        comparisons = torch.where(first, rows, rows.flip(-1))
        start = process_time()
        self.fits += 1
        with seeded(derive_seed(self.seed, "optimizer", self.fits)):
            model = build_model(self.cell.model, items, comparisons)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
                except Exception:  # whatever it is, it is what is counted here
                    self.failed += 1
                    model = build_model(self.cell.model, items, comparisons)
        self.warned += any(
            issubclass(one.category, (OptimizationWarning, LaplaceConvergenceWarning))
            for one in caught
        )
        self.fit_seconds += process_time() - start
        return model

    def maximiser(self, model: PreferenceModel, t: int, restarts: int = 4) -> Tensor:
        """The ``d``-dim item of the largest posterior mean in the box."""
        return self.maximise(PosteriorMean(model), derive_seed(self.seed, "mean", t), restarts)

    def maximise(self, rule: AcquisitionFunction, seed: int, restarts: int = 4) -> Tensor:
        """The ``d``-dim item of the largest value; a random one where the search failed."""
        start = process_time()
        with seeded(seed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                item, _ = optimize_acqf(
                    rule, self.problem.bounds, q=1, num_restarts=restarts, raw_samples=128
                )
            except Exception:  # counted, as above
                self.failed_asks += 1
                item = draw_sobol_samples(self.problem.bounds, n=1, q=1)[0]
        self.ask_seconds += process_time() - start
        return item.detach().squeeze(-2)

    def ask(self, model: PreferenceModel, t: int) -> Tensor:
        """The ``2 x d``-dim pair of step ``t``."""
        first = self.maximiser(model, t)
        rule = AnalyticExpectedUtilityOfBestOption(model, previous_winner=first.unsqueeze(0))
        second = self.maximise(rule, derive_seed(self.seed, "pair", t))
        if torch.equal(first, second):  # a corner may be the best of both
            second = draw_sobol_samples(self.problem.bounds, n=1, q=1)[0, 0]
        return torch.stack([first, second])
