r"""The loop of BoTorch's tutorial ``preference_bo`` under several models, side by side.

Utility is a weighted sum of four coordinates; the judge sees the utilities of a pair with normal
noise of standard deviation 0.1. Two random items begin; then BoTorch's EUBO chooses both items of
every query by ``optimize_acqf``, with 3 restarts and 512 raw samples, under a model of items that
``Normalize`` maps to the range of those asked so far, refitted for every query.
Run it with ``python -m experiments tutorial --seeds 10``.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import NamedTuple, cast

import joblib
import pandas as pd
import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.fit import fit_gpytorch_mll
from botorch.models import PairwiseLaplaceMarginalLogLikelihood
from botorch.models.transforms.input import Normalize
from botorch.optim import optimize_acqf
from botorch.posteriors import GPyTorchPosterior
from scipy.stats import kendalltau
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.progress import tracked
from botorch_pref.randomness import seeded
from botorch_pref.runner import num_threads
from experiments.arguments import Parser, add_seeds
from experiments.defaults.loop import (
    DEFAULT,
    PAIRWISE_GP,
    PreferenceModel,
    WeightedSum,
    build_model,
    check_model,
)

MODELS = (PAIRWISE_GP, "rbf:0.21:1.5", DEFAULT)
_DIM, _NOISE, _NUM_TEST = 4, 0.1, 1000
_CHECKPOINTS = (10, 20)


class TutorialLoop(NamedTuple):
    r"""One loop of 20 queries.

    Attributes:
        model: See :func:`~experiments.defaults.loop.check_model`.
        seed: Of all draws.
    """

    model: str
    seed: int

    def run(self) -> dict[str, str | int | float]:
        """Best item of all asked and Kendall's tau of fresh items, after 10 and 20 queries."""
        row: dict[str, str | int | float] = {"model": self.model, "seed": self.seed}
        utility = WeightedSum(_DIM)
        with num_threads(), seeded(self.seed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PairwiseGP warns of its jitter
            test = torch.rand(_NUM_TEST, _DIM, dtype=torch.double)
            items = torch.rand(2, _DIM, dtype=torch.double)
            comparisons = _answer(utility(items), 0)
            for query in range(1, max(_CHECKPOINTS) + 1):
                rule = AnalyticExpectedUtilityOfBestOption(self._fitted(items, comparisons))
                pair, _ = optimize_acqf(rule, utility.bounds, q=2, num_restarts=3, raw_samples=512)
                comparisons = torch.cat([comparisons, _answer(utility(pair), len(items))])
                items = torch.cat([items, pair])
                if query in _CHECKPOINTS:
                    model = self._fitted(items, comparisons)
                    posterior = cast(GPyTorchPosterior, model.posterior(test))
                    mean = posterior.mean.squeeze(-1).detach()
                    row[f"best_{query}"] = float(utility(items).max())
                    row[f"tau_{query}"] = float(kendalltau(mean, utility(test)).statistic)
        return row

    def _fitted(self, items: Tensor, comparisons: Tensor) -> PreferenceModel:
        model = build_model(self.model, items, comparisons, Normalize(d=_DIM))
        fit_gpytorch_mll(PairwiseLaplaceMarginalLogLikelihood(model.likelihood, model))
        return model


def _answer(utilities: Tensor, first: int) -> Tensor:
    """The row ``[winner, loser]`` of a pair of items, the first of which has that number."""
    noisy = utilities + _NOISE * torch.randn(2, dtype=torch.double)
    return (first + noisy.argsort(descending=True)).unsqueeze(0)


def tutorial_table(
    models: Sequence[str] = MODELS, seeds: Sequence[int] = range(10), n_jobs: int = 1
) -> pd.DataFrame:
    """Run the loop under several models and seeds.

    Raises:
        UnsupportedError: If a model is unknown.
    """
    for name in models:
        check_model(name)
    loops = [TutorialLoop(model, seed) for seed in seeds for model in models]
    rows = joblib.Parallel(n_jobs=n_jobs, return_as="generator")(
        joblib.delayed(loop.run)() for loop in loops
    )
    return pd.DataFrame([*tracked(rows, "loops", len(loops))])


def summary_text(table: pd.DataFrame) -> str:
    """Means and standard errors, and paired differences to the first model, as text."""
    first = table["model"].iloc[0]
    shown: dict[str, dict[str, str]] = {}
    for metric in [f"{name}_{query}" for query in _CHECKPOINTS for name in ("best", "tau")]:
        wide = table.pivot_table(metric, "seed", "model", sort=False)
        for model in wide.columns:
            parts = {model: wide[model]}
            if model != first:
                parts[f"{model} - {first}"] = wide[model] - wide[first]
            for title, part in parts.items():
                values = part.to_numpy(dtype=float)
                error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
                text = f"{values.mean():.3f} ± {error:.3f}"
                shown.setdefault(title, {})[metric] = text
    return pd.DataFrame(shown).T.to_string()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the loops from the command line."""
    parser = Parser(
        prog="experiments tutorial",
        description="The loop of BoTorch's tutorial preference_bo under several models: best item "
        f"(of {WeightedSum(_DIM).optimal_value:.3f}) and Kendall's tau after 10 and 20 queries.",
    )
    add_seeds(parser, 10)
    parser.add_argument("--models", nargs="+", default=list(MODELS), metavar="MODEL")
    arguments = parser.parse_args(argv)
    first = arguments.first_seed
    try:
        table = tutorial_table(
            arguments.models, range(first, first + arguments.seeds), arguments.jobs
        )
    except UnsupportedError as error:
        parser.error(str(error))
    print(summary_text(table))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
