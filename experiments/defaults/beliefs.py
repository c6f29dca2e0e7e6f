r"""Held-out log probabilities: which inference believes rightly with learnt hyperparameters.

A simulated judge answers random duels; each model is built and fitted to them and then predicts
4096 other random pairs. The score of a model is the expected log probability of an answer, known
as the judge's own probabilities are. Utilities are Hartmann's function in six dimensions and the
yields of 60 catalysts, standardised and multiplied by the root of the output scale, in logits; the
problems of :mod:`experiments.defaults.strategies` may be named in their place.
Light fields were compared by people (see ``data``): half of the pairs are held out, and the share
of their answers stands for the probability.

``sampling`` is elliptical slice sampling under the kernel that fits the noiseless utilities: what
exact inference with the right hyperparameters would believe. ``laplace+ep`` learns by Laplace's
evidence and predicts by expectation propagation; ``samples`` and ``samples+ep`` have samples of the
hyperparameters and predict by either. A model's name may end in a kernel and the modes of its
priors, ``ep@rbf:0.4:4``, ``ep@matern+nugget:0.8:4``, a sum, ``laplace@matern:0.8:2&rbf:0.4:1``, or
several, ``laplace@matern:0.8:4|rbf:0.4:3``, of which the one with the largest evidence predicts; or
in ``known``, the kernel of ``sampling``, and is then compared with the probabilities that longer
chains of it find. The error of these is half of what two halves of the chains differ by. Run it
with ``python -m experiments beliefs --seeds 20``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from pathlib import Path
from time import process_time
from typing import NamedTuple, cast

import joblib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import torch
from botorch.exceptions.warnings import BotorchWarning
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseLaplaceMarginalLogLikelihood
from botorch.posteriors import GPyTorchPosterior
from botorch.utils.sampling import draw_sobol_samples
from gpytorch.kernels import Kernel
from torch import Tensor
from torch.nn.functional import logsigmoid

from botorch_pref.cli.parser import count
from botorch_pref.exceptions import LaplaceConvergenceWarning, UnsupportedError
from botorch_pref.models import FullyBayesianPreferenceGP, PreferenceGP
from botorch_pref.models.base import Inference, LaplaceMarginalLogLikelihood
from botorch_pref.problems import PreferenceProblem, get_problem
from botorch_pref.progress import tracked
from botorch_pref.randomness import derive_seed, seeded
from botorch_pref.runner import num_threads
from experiments.arguments import Parser, add_seeds, positive
from experiments.defaults.loop import PAIRWISE_GP, build_model, check_model
from experiments.defaults.strategies import PROBLEMS, make_problem

PEOPLE = "light-field"
FUNCTIONS = ("catalyst", "hartmann6", PEOPLE)
SAMPLING, KNOWN = "sampling", "known"
_SAMPLES = {"samples": "laplace", "samples+ep": "ep"}
MODELS = ("laplace", "ep", "laplace+ep", *_SAMPLES, PAIRWISE_GP, SAMPLING)
_NUM_TEST, _NUM_KNOWN, _NUM_BINS = 4096, 512, 10
_CHAINS, _BURN_IN, _STEPS = 100, 300, 600
_LONG_STEPS = 3000  # of chains that an inference is compared with


class Beliefs(NamedTuple):
    r"""One model fitted to duels of one seed.

    Attributes:
        function: One of ``FUNCTIONS``, or of the closed loops' ``PROBLEMS``.
        output_scale: The variance of the utilities, in squared logits; 0 for people's answers.
        num_duels: How many answers there are.
        seed: Of pairs and answers, which all models share.
        model: One of ``MODELS``, or an inference, ``@`` and the name of a kernel.
    """

    function: str
    output_scale: float
    num_duels: int
    seed: int
    model: str

    @num_threads()
    def run(self) -> dict[str, str | int | float]:
        """The row of the table."""
        X, answers, test, truth = self._duels()
        start = process_time()
        with warnings.catch_warnings(record=True) as caught, seeded(self.seed):
            warnings.simplefilter("always")
            found = self._predict(X, answers, test)
        score = truth * found.log() + (1.0 - truth) * torch.log1p(-found)
        kinds = (LaplaceConvergenceWarning, BotorchWarning)
        warned = sum(issubclass(w.category, kinds) for w in caught)
        to_sampling = own_error = math.nan
        if self.model.endswith(f"@{KNOWN}"):
            halves = _halves(self._replace(model=SAMPLING))
            to_sampling = float((found - halves.mean(0)).abs().mean())
            own_error = float(halves.diff(dim=0).abs().mean()) / 2.0
        return self._asdict() | {
            "log_probability": float(score.mean()),
            "error": float((found - truth).abs().mean()),
            "to_sampling": to_sampling,
            "sampling_error": own_error,
            "seconds": process_time() - start,
            "warnings": warned,
            **_reliability(found, truth),
        }

    def _duels(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Pairs and their answers, test pairs, and the probability that the first of each wins."""
        generator = torch.Generator().manual_seed(derive_seed(self.seed, self.function, 0))
        if self.function == PEOPLE:
            pairs, shares = _people()
            order = torch.randperm(len(pairs), generator=generator)
            test, rest = order[::2], order[1::2]
            asked = rest[torch.randint(len(rest), (self.num_duels,), generator=generator)]
            wins = torch.rand(len(asked), generator=generator, dtype=shares.dtype) < shares[asked]
            return pairs[asked], wins.double(), pairs[test], shares[test]
        known, utilities = _known(self.function)
        num = self.num_duels + _NUM_TEST
        drawn = torch.stack(
            [torch.randperm(len(known), generator=generator)[:2] for _ in range(num)]
        )
        gaps = self.output_scale**0.5 * utilities[drawn].diff(dim=-1).squeeze(-1).neg()
        wins = torch.rand(num, generator=generator, dtype=gaps.dtype) < torch.sigmoid(gaps)
        (X, test), own = known[drawn].split([self.num_duels, _NUM_TEST]), slice(self.num_duels)
        return X, wins[own].double(), test, torch.sigmoid(gaps[self.num_duels :])

    def _sample(self, X: Tensor, answers: Tensor, test: Tensor, steps: int = _STEPS) -> Tensor:
        """What two halves of the chains of slice sampling find."""
        kernel = _true_kernel(self.function, self.output_scale)
        seed = derive_seed(self.seed, "ess", 0)
        return sampled_probabilities(kernel, X, answers, test, seed, steps)

    def _predict(self, X: Tensor, answers: Tensor, test: Tensor) -> Tensor:
        """Probabilities that the first of each test pair wins."""
        if self.model == SAMPLING:
            return self._sample(X, answers, test).mean(0)
        datapoints = X.flatten(0, 1)
        order = torch.where(answers.unsqueeze(-1) > 0, 0, 1) ^ torch.tensor([0, 1])
        comparisons = order + 2 * torch.arange(len(X)).unsqueeze(-1)
        inference, _, prior = self.model.partition("@")
        if inference == PAIRWISE_GP:
            model = build_model(PAIRWISE_GP, datapoints, comparisons)
            fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
            found = []
            for part in test.split(256):  # each pair is one of a batch, with all data
                with torch.no_grad():
                    posterior = cast(GPyTorchPosterior, model.posterior(part))
                covariance, mean = posterior.distribution.covariance_matrix, posterior.mean
                variance = covariance.diagonal(dim1=-2, dim2=-1).sum(-1)
                variance = (variance - 2.0 * covariance[..., 0, 1]).clamp_min(0.0)
                gap = (mean[:, 0] - mean[:, 1]).squeeze(-1)
                found.append(torch.special.ndtr(gap / (2.0 + variance).sqrt()))
            return torch.cat(found).clamp(1e-12, 1 - 1e-12)
        if inference in _SAMPLES:
            sampled = FullyBayesianPreferenceGP(
                datapoints, comparisons, inference=cast(Inference, _SAMPLES[inference])
            )
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(sampled.likelihood, sampled))
            with torch.no_grad():
                return torch.cat([sampled.win_probability(part) for part in test.split(256)])
        fitted = [self._fitted(one, datapoints, comparisons) for one in prior.split("|")]
        _, model = max(fitted, key=lambda models: float(models[0].log_evidence()))
        with torch.no_grad():
            return model.win_probability(test)

    def _fitted(
        self, prior: str, datapoints: Tensor, comparisons: Tensor
    ) -> tuple[PreferenceGP, PreferenceGP]:
        """The model that learns under a kernel, and the one that predicts."""
        learn, _, predict = self.model.partition("@")[0].partition("+")
        kernel = None
        if prior == KNOWN:
            kernel = _true_kernel(self.function, self.output_scale)
        elif prior:
            kernel = build_model(prior, datapoints, comparisons).covar_module
        learnt, model = (
            PreferenceGP(
                datapoints, comparisons, covar_module=kernel, inference=cast(Inference, name)
            )
            for name in (learn, predict or learn)
        )
        if prior != KNOWN:
            fit_gpytorch_mll(LaplaceMarginalLogLikelihood(learnt.likelihood, learnt))
        model.load_state_dict(learnt.state_dict())
        return learnt, model


@lru_cache(1)
def _halves(cell: Beliefs) -> Tensor:
    """What two halves of long chains find."""
    X, answers, test, _ = cell._duels()
    return cell._sample(X, answers, test, _LONG_STEPS)


def _reliability(found: Tensor, truth: Tensor) -> dict[str, float]:
    """Sums of what was predicted and of what was so, and counts, by bins of the prediction."""
    # Each pair stands for its reverse as well.
    both, so = torch.cat([found, 1.0 - found]), torch.cat([truth, 1.0 - truth])
    bins = (both * _NUM_BINS).long().clamp_max(_NUM_BINS - 1)
    parts = {"predicted": both, "so": so, "pairs": torch.ones_like(so)}
    return {
        f"{name}_{i}": float(values[bins == i].sum())
        for name, values in parts.items()
        for i in range(_NUM_BINS)
    }


@lru_cache
def _people() -> tuple[Tensor, Tensor]:
    """Pairs of light fields, and the share of answers in which the first of each won."""
    table = pd.read_csv(Path(__file__).parent / "data" / "light_field_pairs.csv")
    types = sorted({*table["type_1"], *table["type_2"]} - {"Reference"})
    sides = []
    for i in ("1", "2"):
        kinds = table[f"type_{i}"].to_numpy()[:, None] == types
        level = table[[f"level_{i}"]].to_numpy() / table["level_1"].max()
        sides.append(torch.as_tensor(np.hstack([kinds, level])))
    return torch.stack(sides, dim=1), torch.as_tensor((table["wins_1"] / table["answers"]).array)


@lru_cache
def _known(function: str) -> tuple[Tensor, Tensor]:
    """Items in the unit cube that duels are between, and their standardised utilities."""
    if function == "catalyst":
        problem: PreferenceProblem = get_problem(function, dedupe="mean")
    else:
        problem = make_problem(function)
    items = problem.choices
    if items is None:
        items = draw_sobol_samples(problem.bounds, n=2**13, q=1, seed=0).squeeze(-2)
    utilities = problem(items)
    low, high = problem.bounds
    return (items - low) / (high - low), (utilities - utilities.mean()) / utilities.std()


@lru_cache
def _true_kernel(function: str, output_scale: float) -> Kernel:
    """The kernel that fits noiseless utilities best."""
    items, utilities = (part[:_NUM_KNOWN] for part in _known(function))
    values = output_scale**0.5 * utilities.unsqueeze(-1)
    model = PreferenceGP(None, None, values=(items, values, torch.full_like(values, 1e-4)))
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    return model.covar_module.requires_grad_(False)


@torch.no_grad()
def sampled_probabilities(
    kernel: Kernel, X: Tensor, answers: Tensor, test: Tensor, seed: int, steps: int = _STEPS
) -> Tensor:
    """Elliptical slice sampling (Murray, Adams and MacKay 2010), chains side by side.

    Returns:
        ``2 x p``-dim probabilities that the first of each test pair wins, by halves of the chains.
    """
    generator = torch.Generator().manual_seed(seed)

    def noise(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, dtype=X.dtype)

    def covariance(first: Tensor, second: Tensor) -> Tensor:
        full: Tensor = kernel(first.flatten(0, 1), second.flatten(0, 1)).to_dense()
        rows = full.view(len(first), 2, len(second), 2).diff(dim=1).squeeze(1)
        return rows.diff(dim=-1).squeeze(-1)

    size = len(X)
    prior = covariance(X, X)
    prior.diagonal().add_(1e-6 * prior.diagonal().mean())
    root = torch.linalg.cholesky(prior)
    signs = 2.0 * answers - 1.0

    def draw() -> Tensor:
        normal = torch.randn(_CHAINS, size, generator=generator, dtype=X.dtype)
        return normal @ root.T

    def log_likelihood(latent: Tensor) -> Tensor:
        return logsigmoid(signs * latent).sum(-1)

    weights = torch.cholesky_solve(covariance(X, test), root)
    own = covariance(test, test[:1]).new_empty(len(test))
    for rows in torch.arange(len(test)).split(256):
        own[rows] = covariance(test[rows], test[rows]).diagonal()
    left = (own - (covariance(X, test) * weights).sum(0)).clamp_min(0.0)
    state, total = draw(), own.new_zeros(2, len(own))
    for step in range(_BURN_IN + steps):
        other, level = draw(), log_likelihood(state) + noise(_CHAINS).log()
        angle = 2 * torch.pi * noise(_CHAINS)
        low, high = angle - 2 * torch.pi, angle.clone()
        new, is_open = state.clone(), torch.ones(_CHAINS, dtype=torch.bool)
        while bool(is_open.any()):
            moved = state * angle.cos().unsqueeze(-1) + other * angle.sin().unsqueeze(-1)
            fits = is_open & (log_likelihood(moved) > level)
            new[fits] = moved[fits]
            is_open = is_open & ~fits
            low = torch.where(is_open & (angle < 0), angle, low)
            high = torch.where(is_open & (angle >= 0), angle, high)
            angle = torch.where(is_open, low + (high - low) * noise(_CHAINS), angle)
        state = new
        if step >= _BURN_IN and step % 10 == 0:
            rest = left.sqrt() * torch.randn(_CHAINS, len(left), generator=generator, dtype=X.dtype)
            total += torch.sigmoid(state @ weights + rest).unflatten(0, (2, -1)).mean(1)
    return total / len(range(_BURN_IN, _BURN_IN + steps, 10))


def beliefs_table(
    functions: Sequence[str] = FUNCTIONS,
    models: Sequence[str] = MODELS,
    output_scales: Sequence[float] = (4.0, 50.0),
    num_duels: Sequence[int] = (30, 200),
    seeds: Sequence[int] = range(20),
    n_jobs: int = 1,
) -> pd.DataFrame:
    """One row for each function, scale, number of duels, seed and model.

    Raises:
        UnsupportedError: If a function or a model is unknown.
    """
    known = (*FUNCTIONS, *PROBLEMS)
    for name in set(functions).difference(known):
        raise UnsupportedError(f"unknown function {name!r}; there are {', '.join(known)}.")
    for name in models:
        inference, _, prior = name.partition("@")
        if inference not in MODELS:
            raise UnsupportedError(f"unknown model {name!r}; there are {', '.join(MODELS)}.")
        if prior and prior != KNOWN:
            for one in prior.split("|"):
                check_model(one)
    cells = [
        Beliefs(function, scale, *others, model)
        for function in functions
        for scale in ((0.0,) if function == PEOPLE else output_scales)
        for others in product(num_duels, seeds)
        for model in models
        if function != PEOPLE or not model.endswith((SAMPLING, KNOWN))
    ]
    runs = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        joblib.delayed(cell.run)() for cell in cells
    )
    return pd.DataFrame([*tracked(runs, "beliefs", len(cells))])


def summary_text(table: pd.DataFrame) -> str:
    """Means and standard errors, and paired differences to the first model, as text."""
    first, cell = table["model"].iloc[0], ["function", "output_scale", "num_duels"]
    rows = []
    for key, part in table.groupby(cell, sort=False):
        wide = part.pivot_table("log_probability", "seed", "model", sort=False)
        row = dict(zip(cell, key, strict=True))
        row[first] = f"{wide[first].mean():.4f} ± {wide[first].sem():.4f}"
        for model in wide.columns.drop(first):
            gain = wide[model] - wide[first]
            row[f"{model} - {first}"] = f"{gain.mean():+.4f} ± {gain.sem():.4f}"
        rows.append(row)
    by_model = table.groupby("model", sort=False)
    costs = by_model.agg(seconds=("seconds", "mean"), warnings=("warnings", "sum"))
    parts = [pd.DataFrame(rows).to_string(index=False), costs.to_string()]
    if not (known := table.dropna(subset="to_sampling")).empty:
        far = known.pivot_table("to_sampling", cell, "model", ["mean", "sem"], sort=False)
        far["sampling's own error"] = known.groupby(cell, sort=False)["sampling_error"].mean()
        parts.append(f"mean absolute difference to sampling\n{far.round(4).to_string()}")
    return "\n\n".join(parts)


def save_reliability(table: pd.DataFrame, path: Path) -> None:
    """A reliability diagram for each function, all scales and numbers of duels taken together."""
    functions = table["function"].unique()
    figure, axes = plt.subplots(
        1, len(functions), figsize=(4.0 * len(functions), 4.0), sharey=True, squeeze=False
    )
    for axis, function in zip(axes[0], functions, strict=True):
        axis.plot([0, 1], [0, 1], color="0.7", linewidth=1.0)
        for model, rows in table[table["function"] == function].groupby("model", sort=False):
            sums = {
                name: rows[[f"{name}_{i}" for i in range(_NUM_BINS)]].sum().to_numpy()
                for name in ("predicted", "so", "pairs")
            }
            kept = sums["pairs"] > 0
            predicted, so = (sums[n][kept] / sums["pairs"][kept] for n in ("predicted", "so"))
            axis.plot(predicted, so, marker="o", markersize=4, label=model)
        axis.set(title=function, xlabel="predicted probability", aspect="equal")
    axes[0, 0].set_ylabel("share that won")
    axes[0, 0].legend(frameon=False)
    figure.savefig(path, dpi=150, bbox_inches="tight")
    plt.close(figure)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table from the command line."""
    parser = Parser(
        prog="experiments beliefs",
        description="Expected log probability of held-out answers, with learnt hyperparameters.",
    )
    add_seeds(parser, 20)
    parser.add_argument("--functions", nargs="+", default=list(FUNCTIONS), metavar="NAME")
    parser.add_argument("--models", nargs="+", default=list(MODELS), metavar="MODEL")
    parser.add_argument("--scales", nargs="+", type=positive, default=[4.0, 50.0], metavar="S")
    parser.add_argument("--duels", nargs="+", type=count, default=[30, 200], metavar="N")
    parser.add_argument(
        "--out",
        metavar="CSV",
        help="save all rows here, and beside it a diagram of what was predicted and what was so",
    )
    arguments = parser.parse_args(argv)
    first = arguments.first_seed
    try:
        table = beliefs_table(
            arguments.functions,
            arguments.models,
            arguments.scales,
            arguments.duels,
            range(first, first + arguments.seeds),
            arguments.jobs,
        )
    except UnsupportedError as error:
        parser.error(str(error))
    if arguments.out:
        table.to_csv(arguments.out, index=False)
        save_reliability(table, Path(arguments.out).with_suffix(".png"))
    print(summary_text(table))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
