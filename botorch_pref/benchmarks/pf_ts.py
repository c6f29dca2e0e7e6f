r"""PF-TS as its paper configures it: cumulative regret on finite sets, many runs at once.

All replicates are one batch of :class:`~botorch_pref.finite.FiniteEngine`. Regret is the
dueling regret of Lazzaro et al. (2026), eq. (2), summed over the rounds.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import torch
from linear_operator import to_dense
from torch import Tensor
from tqdm.auto import tqdm

from botorch_pref.finite import FiniteEngine, argmax_with_random_ties
from botorch_pref.models.fitting import default_covar_module
from botorch_pref.problems import Ackley, Catalyst, RKHSFunction
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.regret import dueling_regret, random_play_regret
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies.schedules import Schedule

PENALTY = 0.05
LENGTHSCALE = 0.1


class Setting(NamedTuple):
    r"""One row of the table.

    Attributes:
        name: What the row is called.
        problem: The problem; its choices are on the unit cube.
        unit: The width of the items' range in the units of the lengthscale.
        horizon: The number of rounds.
    """

    name: str
    problem: PreferenceProblem
    unit: float
    horizon: int


def settings() -> list[Setting]:
    """The paper's finite problems; "raw" is Ackley with a lengthscale of 0.1 on [-5, 5]."""
    ackley = Ackley(num_choices=40)
    return [
        Setting("ackley raw", ackley, 10.0, 300),
        Setting("ackley", ackley, 1.0, 300),
        Setting("ackley raw range 3", Ackley(num_choices=40, utility_scale=3.0), 10.0, 300),
        Setting("catalyst", Catalyst(), 1.0, 800),
        Setting("rkhs x1", RKHSFunction(scale=1.0), 1.0, 200),
        Setting("rkhs x5", RKHSFunction(scale=5.0), 1.0, 200),
    ]


def cumulative_regret(
    setting: Setting, kappa: float, replicates: int, seed: int, progress: bool = False
) -> tuple[Tensor, Tensor]:
    r"""Run PF-TS in the paper's setting.

    Args:
        setting: The problem and its horizon.
        kappa: The ridge is ``rho = 0.05 kappa``.
        replicates: The number of runs, in one batch.
        seed: The seed of all of them.
        progress: Whether to show a progress bar.

    Returns:
        The cumulative dueling regret of each run, and its share of identical pairs.
    """
    utilities, choices = setting.problem.utilities, setting.problem.choices
    if choices is None:
        raise ValueError(f"{setting.name} has no choices.")
    kernel = default_covar_module(None, torch.Size(), "matern").base_kernel.to(choices)
    kernel.lengthscale = LENGTHSCALE / setting.unit
    with torch.no_grad():
        covariance = to_dense(kernel(choices))
    engine = FiniteEngine(covariance, penalty=PENALTY, kappa=kappa, batch_shape=(replicates,))
    generator = torch.Generator().manual_seed(derive_seed(seed, "pair", 0))
    judge = torch.Generator().manual_seed(derive_seed(seed, "label", 0))
    regret, identical = torch.zeros(2, replicates, dtype=covariance.dtype)
    shape = (replicates, len(utilities))
    for step in tqdm(range(1, setting.horizon + 1), setting.name, disable=not progress):
        posterior = engine.posterior()
        scale = PENALTY**0.5 * Schedule("paper").scale(step, PENALTY, kappa, 0.0)
        rows = (replicates, posterior.curvature.shape[-1])
        prior_noise = torch.randn(2, *shape, generator=generator, dtype=torch.double)
        answer_noise = torch.randn(2, *rows, generator=generator, dtype=torch.double)
        draws = posterior.sample(prior_noise, answer_noise, scale)
        ties = torch.rand(2, *shape, generator=generator, dtype=torch.double)
        pairs = argmax_with_random_ties(draws, ties).T
        first, second = utilities[pairs].unbind(-1)
        regret = regret + dueling_regret(utilities.max(), first, second)
        identical = identical + (pairs[:, 0] == pairs[:, 1])
        uniform = torch.rand(replicates, generator=judge, dtype=torch.double)
        engine.append(pairs, (uniform < torch.sigmoid(first - second)).double())
    return regret, identical / setting.horizon


def pf_ts_table(
    kappas: Sequence[float] = (1.0, 4.0),
    replicates: int = 30,
    seed: int = 0,
    horizon: int | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    r"""The table behind ``botorch-pref bench pf-ts``.

    Args:
        kappas: Each sets the ridge ``rho = 0.05 kappa``.
        replicates: The number of runs of a row.
        seed: The seed of the table.
        horizon: Overrides the number of rounds of every row.
        progress: Whether to show progress bars.

    Returns:
        A row for each problem and ridge: mean, standard error and median of the cumulative
        dueling regret, its expectation under random play, and the share of identical pairs.
    """
    table = []
    for setting in settings():
        if horizon is not None:
            setting = setting._replace(horizon=horizon)
        for kappa in kappas:
            regret, identical = cumulative_regret(setting, kappa, replicates, seed, progress)
            random = float(random_play_regret(setting.problem.utilities)) * setting.horizon
            table.append(
                {
                    "problem": setting.name,
                    "horizon": setting.horizon,
                    "ridge": PENALTY * kappa,
                    "mean": regret.mean().item(),
                    "standard_error": regret.std().item() / math.sqrt(replicates),
                    "median": regret.median().item(),
                    "random": random,
                    "identical": identical.mean().item(),
                }
            )
    return pd.DataFrame(table)


def pf_ts_text(table: pd.DataFrame) -> str:
    """The table for a terminal."""
    return table.to_string(index=False, float_format=lambda value: f"{value:.3g}")


def main(argv: Sequence[str] | None = None) -> int:
    """``botorch-pref bench pf-ts``."""
    parser = argparse.ArgumentParser(prog="botorch-pref bench pf-ts", description=__doc__)
    parser.add_argument("--replicates", type=int, default=30, help="runs a row (default 30)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the table (default 0)")
    parser.add_argument("--horizon", type=int, help="rounds of every row (default: the paper's)")
    parser.add_argument("--out", type=Path, help="also write the table to this CSV file")
    arguments = parser.parse_args(argv)
    for name in ("replicates", "horizon"):
        value = getattr(arguments, name)
        if value is not None and value < (2 if name == "replicates" else 1):
            parser.error(f"--{name} is too small: {value}")
    table = pf_ts_table(
        replicates=arguments.replicates, seed=arguments.seed, horizon=arguments.horizon
    )
    print(pf_ts_text(table))
    if arguments.out is not None:
        table.to_csv(arguments.out, index=False)
    return 0
