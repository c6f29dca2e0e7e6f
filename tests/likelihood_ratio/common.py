"""What these tests share: items, answers, programs and their printed form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from botorch_pref.inference import Block, Observations
from botorch_pref.likelihood_ratio import ConfidenceSet, whiten
from botorch_pref.likelihoods import LogitLikelihood
from tests._reference import likelihood_ratio as reference
from tests.inference.common import DUEL, choices, design, duels, labels, matern, rand

JITTER = 1e-6


class Case(NamedTuple):
    """Items with answers, and further points."""

    items: Tensor
    points: Tensor
    observations: Observations | None
    norm_bound: float
    box: float | None = None
    lengthscale: float = 0.4
    chosen: reference.Choices | None = None

    def covariance(self) -> Tensor:
        """Of items and then points; every one has its own jitter."""
        X = torch.cat([self.items, self.points])
        return self.kernel(X, X) + JITTER * torch.eye(len(X), dtype=X.dtype)

    def kernel(self, X: Tensor, Z: Tensor) -> Tensor:
        return matern(X, Z, lengthscale=self.lengthscale, outputscale=1.0)

    def confidence(self, slack: float = math.inf) -> ConfidenceSet:
        n = len(self.items)
        root = whiten(self.covariance()[:n, :n], cutoff=1e-14).root
        options = {"norm_bound": self.norm_bound, "slack": slack, "box": self.box}
        return ConfidenceSet(root, self.observations, **options)  # type: ignore[arg-type]

    def coefficients(self, points: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """``a`` and ``s`` of function values at the points."""
        points = self.points if points is None else points
        n = len(self.items)
        whitening = whiten(self.covariance()[:n, :n], cutoff=1e-14)
        variance = torch.full((len(points),), 1.0 + JITTER, dtype=points.dtype)
        return whitening.split(self.kernel(points, self.items), variance)

    def advantage(self, points: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Coefficients of the advantage over the first item."""
        a, s = self.coefficients(points)
        return a - self.confidence().root[0], s

    def opposed(self, opponents: Sequence[int], points: Tensor | None = None) -> tuple[Tensor, ...]:
        """Coefficients of the advantages over several items."""
        a, s = self.coefficients(points)
        return a.unsqueeze(-2) - self.confidence().root[list(opponents)], s

    def answers(self) -> reference.Answers | reference.Choices | None:
        """The answers over the values at items and points."""
        if self.observations is None or self.chosen is not None:
            return self.chosen
        rows = design(self.observations)
        padded = np.pad(rows, ((0, 0), (0, len(self.points))))
        blocks = self.observations.blocks
        return reference.Answers(
            padded,
            torch.cat([b.answer for b in blocks]).numpy(),
            torch.cat([b.weight for b in blocks]).numpy(),
            blocks[0].likelihood.scale,
        )

    def boxed(self) -> np.ndarray | None:
        """The box on the items; the points have none."""
        if self.box is None:
            return None
        sides = np.full(len(self.items) + len(self.points), np.inf)
        sides[: len(self.items)] = self.box
        return sides

    def printed(self, objective: np.ndarray, level: float) -> reference.Found:
        """The largest value by the printed program."""
        return reference.largest(
            self.covariance().numpy(),
            self.answers(),
            self.norm_bound,
            objective,
            level,
            self.boxed(),
        )


def case(
    n: int = 8,
    m: int = 12,
    *,
    num_labels: int = 0,
    num_points: int = 4,
    norm_bound: float = 3.0,
    box: float | None = None,
    judge: str = "noisy",
    scale: float = 1.0,
    dim: int = 2,
    seed: int = 0,
    lengthscale: float = 0.4,
) -> Case:
    X = rand(n, dim, seed=100 * seed)
    link = LogitLikelihood(scale)
    blocks = [duels(X, m, seed=10 * seed, judge=judge, link=link)]
    if num_labels:
        blocks.append(labels(X, num_labels, seed=10 * seed, judge=judge, link=link))
    observations = Observations(blocks, n) if m + num_labels else None
    points = rand(num_points, dim, seed=100 * seed + 50)
    return Case(X, points, observations, norm_bound, box, lengthscale)


def asked(
    sizes: dict[int, int], n: int = 10, *, scale: float = 1.0, norm_bound: float = 3.0
) -> Case:
    """Favourites among several items: so many questions of each size, with noise."""
    blocks, shown, favourites = [], [], []
    for k, m in sizes.items():
        items = rand(m, n, seed=10 * k).argsort(-1)[:, :k]
        utility = 3.0 * rand(n, seed=10 * k + 1)[items] + rand(m, k, seed=10 * k + 2)
        blocks.append(choices(items, utility.argmax(-1), n, scale=scale))
        shown += items.tolist()
        favourites += utility.argmax(-1).tolist()
    X, points = rand(n, 2, seed=7), rand(3, 2, seed=8)
    chosen = reference.Choices(shown, favourites, scale)
    return Case(X, points, Observations(blocks, n), norm_bound, chosen=chosen)


def duel_block(pairs: list[list[int]], answers: list[float], weight: float = 1.0) -> Block:
    answer = torch.tensor(answers, dtype=torch.float64)
    return Block(
        torch.tensor(pairs), DUEL, answer, torch.full_like(answer, weight), LogitLikelihood()
    )


def assert_inside(confidence: ConfidenceSet, u: Tensor, w: Tensor) -> None:
    """Within the ball, the level and the box; the last digit is rounding of the coordinates."""
    norm = (u.square().sum(-1) + w.square()).sqrt()
    assert (norm <= confidence.norm_bound * (1 + 1e-13)).all()
    lack = confidence.mle.log_likelihood - confidence.log_likelihood(u)
    assert (lack <= confidence.slack + 1e-12).all()
    if confidence.box is not None:
        assert ((u @ confidence.root.T).abs() <= confidence.box * (1 + 1e-13)).all()
