r"""The pictures of the page on concepts, which Sphinx draws when it builds the site."""

from __future__ import annotations

import numpy as np
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel
from matplotlib.figure import Figure
from scipy.special import expit
from torch import Tensor

from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import PreferenceGP
from botorch_pref.plotting import COLOURS, DASHES
from botorch_pref.plotting.drawing import GREY
from botorch_pref.plotting.with_matplotlib import SMALL, heading, new_panels

BLUE, VERMILION, GREEN = COLOURS[:3]


def _line_model() -> tuple[PreferenceGP, Tensor]:
    """Eight duels on a line, won by what is nearer to 0.6; and a grid."""
    X = torch.tensor([0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95], dtype=torch.double).unsqueeze(-1)
    duels = torch.tensor([[1, 0], [2, 1], [3, 2], [4, 2], [4, 5], [5, 6], [3, 6], [4, 0]])
    kernel = ScaleKernel(MaternKernel(nu=2.5)).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = 0.4, 4.0
    model = PreferenceGP(X, duels, covar_module=kernel)
    return model, torch.linspace(0, 1, 101, dtype=torch.double)


@torch.no_grad()
def utility() -> Figure:
    """Utilities that differ by a constant explain the same answers."""
    model, line = _line_model()
    mean = model.posterior(line.unsqueeze(-1)).mean.squeeze(-1)
    figure, (axes,) = new_panels(1, 1)
    for shift, dash in zip((1.5, 0.0, -1.5), DASHES, strict=False):
        axes.plot(line, mean + shift, color=BLUE, ls=dash)
    low, high = float(mean[20]), float(mean[65])
    axes.plot([0.2, 0.65], [low, high], "o", color=VERMILION, ms=4)
    axes.annotate(
        "", (0.65, high), (0.65, low), arrowprops={"arrowstyle": "<->", "color": VERMILION}
    )
    axes.plot([0.2, 0.65], [low, low], color=VERMILION, lw=0.7)
    style = {"color": VERMILION, "fontsize": SMALL, "ha": "right", "va": "center"}
    axes.text(0.63, (low + high) / 2, "difference h", **style)
    axes.set(xlabel="item x", ylabel="utility f(x)")
    heading(axes, "The same differences, so the same answers")
    return figure


@torch.no_grad()
def link() -> Figure:
    """How often the better item wins, by how much better it is."""
    figure, (axes,) = new_panels(1, 1)
    h = torch.linspace(-5, 5, 201, dtype=torch.double)
    for (name, one), dash, colour in zip(
        {"logit": LogitLikelihood(), "probit": ProbitLikelihood()}.items(),
        DASHES,
        COLOURS,
        strict=False,
    ):
        axes.plot(h, one.to(h)(h), ls=dash, color=colour, label=name)
    axes.set(xlabel="difference h of the utilities", ylabel="P(the first wins)")
    axes.legend(loc="upper left", fontsize=SMALL, frameon=False)
    return figure


@torch.no_grad()
def inference() -> Figure:
    """Utilities before and after eight answers, each less its value at 0.5."""
    model, line = _line_model()
    X = line.unsqueeze(-1)
    prior = model.covar_module(X).to_dense() + 1e-8 * torch.eye(101).double()
    posterior = model.posterior(X)
    spread = posterior.distribution.covariance_matrix + 1e-8 * torch.eye(101).double()
    normal = torch.randn(101, 6, generator=torch.Generator().manual_seed(3), dtype=torch.double)
    figure, panels = new_panels(1, 2, width=2.6, share=True)
    means = (torch.zeros(101).double(), posterior.mean.squeeze(-1))
    titles = ("Prior", "Posterior of eight answers")
    for axes, mean, covariance, title in zip(panels, means, (prior, spread), titles, strict=True):
        draws = mean.unsqueeze(-1) + torch.linalg.cholesky(covariance) @ normal
        axes.plot(line, draws - draws[50], color=BLUE, lw=0.8, alpha=0.7)
        axes.set_xlabel("item x")
        heading(axes, title)
    for row, (winner, loser) in enumerate(model.comparisons.tolist()):
        ends, y = model.datapoints[[winner, loser], 0], -6.0 - 0.35 * row
        panels[1].plot(ends, [y, y], color=GREY, lw=0.7)
        panels[1].plot(ends[0], y, "o", color=GREEN, ms=3)
    panels[1].text(0.05, -5.6, "eight duels: green won", fontsize=SMALL)
    panels[0].set_ylabel("utility less that of 0.5")
    return figure


def _one_difference(wins: int, inference: str) -> tuple[float, float, float]:
    """Mean, standard deviation and win probability of one item after so many wins over another."""
    kernel = ScaleKernel(MaternKernel(nu=2.5)).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = 0.01, 8.0  # the items tell nothing
    X = torch.tensor([[0.0], [1.0]], dtype=torch.double)
    duels = torch.tensor([[0, 1]]).expand(wins, 2)
    model = PreferenceGP(X, duels, covar_module=kernel, inference=inference)
    with torch.no_grad():
        posterior = model.pair_posterior(X)
        chance = model.win_probability(X)
    return float(posterior.mean), float(posterior.variance.sqrt()), float(chance)


def _exactly(wins: int) -> tuple[np.ndarray, np.ndarray, float]:
    """The same by quadrature: a grid of differences, their density, and the win probability."""
    h = np.linspace(-25, 45, 7001)
    density = np.exp(-(h**2) / 32) * expit(h) ** wins
    density /= density.sum() * (h[1] - h[0])
    return h, density, float((density * expit(h)).sum() * (h[1] - h[0]))


def shrinkage() -> Figure:
    """One item has won three duels against another: the difference of their utilities."""
    figure, (left, right) = new_panels(1, 2, width=2.6)
    h, density, _ = _exactly(3)
    shown = (h > -5) & (h < 18)
    left.plot(h[shown], density[shown], color="black", label="exact")
    counts = range(1, 11)
    right.plot(counts, [_exactly(n)[2] for n in counts], color="black")
    names = {"laplace": "Laplace", "ep": "EP"}
    for kind, dash, colour in zip(names, DASHES[1:], COLOURS, strict=False):
        mean, deviation, _ = _one_difference(3, kind)
        normal = np.exp(-(((h - mean) / deviation) ** 2) / 2) / deviation / np.sqrt(2 * np.pi)
        left.plot(h[shown], normal[shown], ls=dash, color=colour, label=names[kind])
        right.plot(counts, [_one_difference(n, kind)[2] for n in counts], ls=dash, color=colour)
    left.set(xlabel="difference h", ylabel="density")
    left.legend(loc="upper right", fontsize=SMALL, frameon=False)
    heading(left, "After three wins")
    right.set(xlabel="wins in a row", ylabel="P(it wins the next)")
    heading(right, "What is predicted")
    return figure


def sites() -> Figure:
    """The likelihood of one win and the Gaussian that stands for it."""
    figure, (axes,) = new_panels(1, 1)
    h = np.linspace(-6, 12, 361)
    variance = 16.0  # of the difference, before the answer
    axes.plot(h, np.log(expit(h)), color="black", label="log likelihood of a win")
    for kind, dash, colour in zip(("laplace", "ep"), DASHES[1:], COLOURS, strict=False):
        mean, deviation, _ = _one_difference(1, kind)
        precision = 1 / deviation**2 - 1 / variance
        centre = mean / deviation**2 / precision
        # A site is known up to a factor: drawn so that it touches at the posterior mean.
        site = -precision * (h - centre) ** 2 / 2
        site += np.log(expit(mean)) + precision * (mean - centre) ** 2 / 2
        axes.plot(
            h, site, ls=dash, color=colour, label={"ep": "site of EP"}.get(kind, "site of Laplace")
        )
        axes.plot(mean, np.log(expit(mean)), "o", color=colour, ms=4)
    axes.set(xlabel="difference h", ylabel="log likelihood, log site", ylim=(-6, 0.8))
    axes.legend(loc="lower right", fontsize=SMALL, frameon=False)
    return figure


@torch.no_grad()
def evidence() -> Figure:
    """How probable forty answers are under a short and a long lengthscale."""
    generator = torch.Generator().manual_seed(2)
    X = torch.rand(15, 1, generator=generator, dtype=torch.double)
    first = torch.randint(15, (40,), generator=generator)
    other = (first + torch.randint(1, 15, (40,), generator=generator)) % 15
    worth = 3 * torch.sin(6 * X.squeeze(-1))
    wins = torch.rand(40, generator=generator) < (worth[first] - worth[other]).sigmoid()
    duels = torch.where(
        wins.unsqueeze(-1), torch.stack([first, other], -1), torch.stack([other, first], -1)
    )
    lengthscales = np.geomspace(0.03, 3, 40)
    found = []
    for lengthscale in lengthscales:
        kernel = ScaleKernel(MaternKernel(nu=2.5)).double()
        kernel.base_kernel.lengthscale, kernel.outputscale = float(lengthscale), 4.0
        found.append(float(PreferenceGP(X, duels, covar_module=kernel).log_evidence()))
    figure, (axes,) = new_panels(1, 1)
    axes.semilogx(lengthscales, found, color=BLUE)
    axes.axhline(40 * np.log(0.5), color=GREY, ls=DASHES[1], lw=0.8)
    axes.text(3, 40 * np.log(0.5), "guessing", fontsize=SMALL, color=GREY, va="bottom", ha="right")
    axes.plot(lengthscales[int(np.argmax(found))], max(found), "o", color=VERMILION, ms=4)
    axes.set(xlabel="lengthscale", ylabel="log evidence of 40 answers")
    return figure
