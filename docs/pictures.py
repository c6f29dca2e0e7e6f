r"""Draws the pictures of the README, which are kept in docs/_static.

python docs/pictures.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.fit import fit_gpytorch_mll
from botorch.optim import optimize_acqf
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Polygon, Rectangle
from torch import Tensor

from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.plotting import COLOURS, save_figure
from botorch_pref.plotting.drawing import GREY
from botorch_pref.plotting.with_matplotlib import SMALL, heading, new_panels
from botorch_pref.queries import Duel
from botorch_pref.randomness import seeded
from botorch_pref.strategies import CostAwareKG, DuelingKG

STATIC = Path(__file__).parent / "_static"

BLUE, VERMILION, GREEN = COLOURS[:3]
STAR = {"marker": "*", "color": "#F0E442", "mec": "black", "mew": 0.7, "ms": 11.0, "ls": "none"}
WIDTH, HEIGHT = 2.1, 2.0  # inches, of a panel


def _fitted(model: PreferenceGP) -> PreferenceGP:
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    return model


def _cup(axes: object, left: float, milk: float, text: str) -> None:
    """A glass with coffee below and milk above."""
    low, high = 0.25, 0.25 + 0.55 * (0.4 + 0.6 * milk)
    middle = 0.25 + 0.55 * 0.4

    def slice_of(bottom: float, top: float, **style: object) -> Polygon:
        def half(y: float) -> float:
            return 0.14 + 0.06 * (y - 0.25) / 0.6

        b, t = half(bottom), half(top)
        corners = [(left - b, bottom), (left + b, bottom), (left + t, top), (left - t, top)]
        return Polygon(corners, **style)

    axes.add_patch(slice_of(low, middle, facecolor="#6F4E37"))
    axes.add_patch(slice_of(middle, high, facecolor="#E8D5B7"))
    axes.add_patch(slice_of(0.25, 0.87, fill=False, edgecolor=GREY, linewidth=1.2))
    axes.text(left, 0.18, text, ha="center", va="top", fontsize=SMALL)


def coffee() -> Figure:
    """A question, and what fifteen answers tell."""
    figure, (question, taste) = new_panels(1, 2, width=WIDTH, height=HEIGHT)
    question.set_axis_off()
    question.set(xlim=(0, 1), ylim=(0, 1))
    _cup(question, 0.26, 0.25, "1\n15 ml of milk\n72 °C")
    _cup(question, 0.74, 0.75, "2\n55 ml of milk\n66 °C")
    heading(question, "Which is better?")

    bounds = torch.tensor([[0.0, 60.0], [80.0, 96.0]], dtype=torch.double)
    best, width = torch.tensor([30.0, 70.0]), torch.tensor([80.0, 36.0])
    strategy = DuelingKG(bounds=bounds, seed=0)
    pairs, answers = [], []
    for _ in range(15):
        query = strategy.ask()
        first, second = ((query.items - best) / width).norm(dim=-1)
        strategy.tell(query, float(first < second))
        pairs.append((query.items - bounds[0]) / width)
        answers.append(float(first < second))
    model = _fitted(PreferenceGP.from_pairs(torch.stack(pairs), torch.tensor(answers).double()))
    _map(taste, model, bounds)
    milk, temperature = strategy.recommend().tolist()
    taste.plot(milk, temperature, **STAR)
    style = {"color": "white", "fontsize": SMALL, "ha": "center", "va": "top"}
    taste.text(milk, temperature - 2, "recommended", **style)
    taste.set(xlabel="milk (ml)", ylabel="temperature (°C)")
    heading(taste, "15 answers: dark is good")
    return figure


@torch.no_grad()
def _map(axes: Axes, model: PreferenceGP, bounds: Tensor) -> None:
    """The posterior mean over a box, of a model of its unit square."""
    axes.grid(visible=False)
    side = torch.linspace(0, 1, 41, dtype=torch.double)
    grid = torch.cartesian_prod(side, side)
    mean = model.posterior(grid).mean.reshape(41, 41).T.numpy()
    ticks = [np.linspace(*bounds[:, i].tolist(), 41) for i in (0, 1)]
    axes.contourf(*ticks, mean, levels=9, cmap="Blues")


def chemist() -> Figure:
    """Duels and measurements of one setting, and what both tell together."""

    def reached(x: Tensor) -> Tensor:
        return 3 * torch.exp(-12 * (x - 0.62).square()).sum(-1)

    bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    strategy = CostAwareKG(
        bounds=bounds, seed=1, budget=5, num_initial_duels=10, num_initial_values=1
    )
    items, duels, measured = [], [], []
    while not strategy.finished:
        query = strategy.ask()
        if isinstance(query, Duel):
            first, second = reached(query.items)
            strategy.tell(query, float(first > second))
            number = len(items)
            items += [*query.items]
            duels.append([number, number + 1] if first > second else [number + 1, number])
        else:
            strategy.tell(query, float(reached(query.items)))
            measured.append(query.items)
    X, at = torch.stack(items), torch.stack(measured)
    values = (at, reached(at).unsqueeze(-1), torch.full((len(at), 1), 1e-4).double())
    model = _fitted(PreferenceGP(X, torch.tensor(duels), values=values))
    figure, (axes,) = new_panels(1, 1, width=1.5 * WIDTH, height=HEIGHT)
    line = torch.linspace(0, 1, 101, dtype=torch.double)
    with torch.no_grad():
        posterior = model.posterior(line.unsqueeze(-1))
        mean, band = posterior.mean.squeeze(-1), 1.96 * posterior.variance.squeeze(-1).sqrt()
    celsius = 20 + 60 * line
    axes.fill_between(celsius, mean - band, mean + band, color=BLUE, alpha=0.25, lw=0)
    axes.plot(celsius, mean, color=BLUE)
    axes.plot(20 + 60 * at, values[1], "s", color=VERMILION, ms=5, label="measured")
    foot = float((mean - band).min()) - 0.6
    for row, (winner, loser) in enumerate(duels):
        y = foot - 0.11 * row
        axes.plot(20 + 60 * X[[winner, loser], 0], [y, y], color=GREY, lw=0.7)
        axes.plot(
            20 + 60 * X[winner, 0], y, "o", color=GREEN, ms=2.5, label="won a duel" * (row == 0)
        )
    best = 20 + 60 * float(strategy.recommend())
    axes.plot(best, float(mean.max()) + 1.0, **STAR, label="recommended")
    axes.set(xlabel="temperature (°C)", ylabel="yield (g)", yticks=[-2, 0, 2])
    axes.set_ylim(top=float(mean.max()) + 5.0)
    style = {"handletextpad": 0.0, "columnspacing": 0.8, "fontsize": SMALL, "frameon": False}
    axes.legend(loc="upper left", ncols=3, **style)
    heading(axes, f"{len(duels)} duels and {len(at)} measurements")
    return figure


def loop() -> Figure:
    """Two names change; and the pairs that BoTorch's loop asks then."""
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    X = torch.tensor([[0.4, 0.2], [0.9, 0.8]], dtype=torch.double)
    comparisons = torch.tensor([[0, 1]])
    for _ in range(15):
        model = _fitted(PreferenceGP(X, comparisons))
        rule = AnalyticExpectedUtilityOfBestOption(pref_model=model)
        pair, _ = optimize_acqf(rule, bounds, q=2, num_restarts=4, raw_samples=64)
        first, second = (pair - 0.3).norm(dim=-1)
        n = len(X)
        X = torch.cat([X, pair])
        new = torch.tensor([[n, n + 1] if first < second else [n + 1, n]])
        comparisons = torch.cat([comparisons, new])
    figure, (code, axes) = new_panels(1, 2, width=WIDTH, height=HEIGHT)
    code.set_axis_off()
    code.set(xlim=(0, 1), ylim=(0, 1))
    heading(code, "Two names change")
    lines = [
        ("- PairwiseGP", "#FFEBE9"),
        ("+ PreferenceGP", "#DAFBE1"),
        ("- PairwiseLaplace\n    MarginalLogLikelihood", "#FFEBE9"),
        ("+ Laplace\n    MarginalLogLikelihood", "#DAFBE1"),
    ]
    y = 0.92
    for text, colour in lines:
        deep = 0.12 + 0.07 * text.count("\n")
        code.add_patch(Rectangle((-0.05, y - deep), 1.08, deep, facecolor=colour, clip_on=False))
        style = {"family": "monospace", "fontsize": SMALL - 0.5, "va": "top"}
        code.text(-0.02, y - 0.025, text, **style)
        y -= deep + 0.03
    model = _fitted(PreferenceGP(X, comparisons))
    _map(axes, model, bounds)
    for winner, loser in comparisons.tolist():
        axes.plot(*X[[winner, loser]].T, color=GREY, lw=0.7)
        axes.plot(*X[winner], "o", color=GREEN, ms=3.0, clip_on=False)
        axes.plot(*X[loser], "o", mfc="white", mec=GREY, ms=3.0, clip_on=False)
    axes.plot(*X[model.posterior(X).mean.argmax()], **STAR)
    heading(axes, "All 16 pairs: green won")
    return figure


if __name__ == "__main__":
    for picture in (coffee, chemist, loop):
        with seeded(0):
            save_figure(picture(), STATIC / f"{picture.__name__}.png")
