r"""The figures of the gallery: each function makes one of the package's plots.

Sphinx draws them when it builds the site, and shows the functions as they stand here.
"""

from __future__ import annotations

import pandas as pd
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms import Normalize
from matplotlib.figure import Figure

from botorch_pref.models import (
    LaplaceMarginalLogLikelihood,
    Leaderboard,
    PreferenceGP,
    pairwise_cross_validation,
)
from botorch_pref.plotting import (
    plot_calibration,
    plot_experiment,
    plot_ranking,
    plot_regret,
    plot_utility,
    plot_win_probabilities,
)
from botorch_pref.problems import get_problem
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.runner import run_experiment, simulate
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import PFTS, DuelingKG, RandomPairs


def answered(space: SearchSpace, best: torch.Tensor, duels: int = 60) -> PreferenceGP:
    """A model of noisy answers about random items; the nearer to `best` an item is, the better."""
    generator = torch.Generator().manual_seed(0)
    X = space.sample(20, seed=0)
    utility = -12 * ((X - best) / (space.bounds[1] - space.bounds[0])).square().sum(-1)
    first = torch.randint(20, (duels,), generator=generator)
    pairs = torch.stack([first, (first + torch.randint(1, 20, (duels,), generator=generator)) % 20])
    wins = (
        torch.rand(duels, generator=generator) < (utility[pairs[0]] - utility[pairs[1]]).sigmoid()
    )
    comparisons = torch.where(wins, pairs, pairs.flip(0)).T
    model = PreferenceGP(X, comparisons, input_transform=Normalize(len(best), bounds=space.bounds))
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    return model


def utility_of_one_setting() -> Figure:
    """A curve."""
    space = SearchSpace(torch.tensor([[0.0], [80.0]], dtype=torch.double))
    model = answered(space, torch.tensor([30.0], dtype=torch.double))
    return plot_utility(model, space, names=["milk (ml)"], unit="logits")


def utility_of_two_settings() -> Figure:
    """Two maps."""
    space = SearchSpace(torch.tensor([[0.0, 60.0], [80.0, 96.0]], dtype=torch.double))
    model = answered(space, torch.tensor([30.0, 70.0], dtype=torch.double))
    return plot_utility(model, space, names=["milk (ml)", "temperature (°C)"], unit="logits")


def utility_of_many_settings() -> Figure:
    """Slices, one of them of whole numbers."""
    bounds = torch.tensor([[0.0, 60.0, 1.0], [80.0, 96.0, 4.0]], dtype=torch.double)
    space = SearchSpace(bounds, integer=[2])
    model = answered(space, torch.tensor([30.0, 70.0, 2.0], dtype=torch.double))
    names = ["milk (ml)", "temperature (°C)", "shots"]
    return plot_utility(model, space, names=names, unit="logits")


def who_wins() -> Figure:
    """The six best items."""
    space = SearchSpace(torch.tensor([[0.0, 60.0], [80.0, 96.0]], dtype=torch.double))
    model = answered(space, torch.tensor([30.0, 70.0], dtype=torch.double))
    return plot_win_probabilities(model, model.datapoints, top=6)


def ranking_without_features() -> Figure:
    """Six players."""
    generator = torch.Generator().manual_seed(0)
    names = ["Ada", "Ben", "Cleo", "Dan", "Eve", "Finn"]
    first = torch.randint(6, (80,), generator=generator)
    other = (first + torch.randint(1, 6, (80,), generator=generator)) % 6
    first_wins = torch.rand(80, generator=generator) < (0.6 * (other - first)).sigmoid()
    rows = zip(first.tolist(), other.tolist(), first_wins.tolist(), strict=True)
    games = [(names[i], names[j]) if wins else (names[j], names[i]) for i, j, wins in rows]
    return plot_ranking(Leaderboard(pd.DataFrame(games, columns=["winner", "loser"])).table)


def calibration() -> Figure:
    """Of 120 answers."""
    space = SearchSpace(torch.tensor([[0.0, 60.0], [80.0, 96.0]], dtype=torch.double))
    model = answered(space, torch.tensor([30.0, 70.0], dtype=torch.double), duels=120)
    return plot_calibration(pairwise_cross_validation(model, folds=5))


def regret_of_one_run() -> Figure:
    """Twenty-five duels."""
    problem = get_problem("catalyst")
    strategy = DuelingKG(choices=problem.choices, seed=0)
    history = simulate(strategy, problem, LogisticJudge(problem, seed=0), 25, progress=False)
    return plot_regret(history, title="Catalysts: one run")


def regret_of_several_strategies() -> Figure:
    """Thirty duels, four seeds."""
    strategies = {"pf-ts": PFTS, "random": RandomPairs}
    problem = get_problem("catalyst")
    table = run_experiment(problem, strategies, horizon=30, seeds=4, progress=False)
    return plot_experiment(table, title="Catalysts: four runs each")
