"""What these tests share: data, kernels, finite differences, the brute-force oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
import torch
from torch import Tensor

from botorch_pref.data import Choices
from botorch_pref.inference import Block, DualSystem, Observations, PrimalSystem
from botorch_pref.likelihoods import (
    BernoulliLikelihood,
    LogitLikelihood,
    ProbitLikelihood,
    StandardNormal,
)
from tests._reference import laplace as reference
from tests.models.common import rand as rand

SIDES = [DualSystem, PrimalSystem]
LINKS: list[tuple[str, float]] = [("logit", 1.0), ("probit", 1.0), ("probit", 2**-0.5)]
DUEL, LABEL = (1.0, -1.0), (1.0,)


def randn(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def likelihood(link: str = "logit", scale: float = 1.0) -> BernoulliLikelihood:
    return LogitLikelihood(scale) if link == "logit" else ProbitLikelihood(scale)


def matern(
    X: Tensor,
    Z: Tensor | None = None,
    lengthscale: float | Tensor = 0.4,
    outputscale: float | Tensor = 4.0,
) -> Tensor:
    """A Matern-5/2 kernel, smooth in everything, also where items coincide."""
    Z = X if Z is None else Z
    gap = (X.unsqueeze(-2) - Z.unsqueeze(-3)).div(lengthscale).square().sum(-1)
    r = (5 * gap + 1e-30).sqrt()
    return outputscale * (1 + r + r**2 / 3) * torch.exp(-r)


def utility(X: Tensor) -> Tensor:
    return 2 * torch.sin(3 * X).sum(-1) - (X - 0.6).square().sum(-1)


def duels(
    X: Tensor,
    num_rows: int,
    *,
    seed: int = 0,
    judge: str = "noisy",
    link: BernoulliLikelihood | None = None,
    padding: int = 0,
) -> Block:
    """A block of duels with weights; the noisy judge also has no preference at times."""
    shape, n = X.shape[:-2], X.shape[-2]
    first = (rand(*shape, num_rows, seed=seed + 1) * n).long()
    second = (first + 1 + (rand(*shape, num_rows, seed=seed + 2) * (n - 1)).long()) % n
    items = torch.stack([first, second], dim=-1)
    f = utility(X)
    difference = f.gather(-1, first) - f.gather(-1, second)
    weight = torch.ones(*shape, num_rows, dtype=X.dtype)
    if judge == "noisy":
        answer = (rand(*shape, num_rows, seed=seed + 3) * 3).floor() / 2
        weight = weight + (rand(*shape, num_rows, seed=seed + 4) * 4).floor()
    else:
        answer = (difference > 0).to(X)
    if padding:
        weight[..., -padding:] = 0.0
    return Block(items, DUEL, answer, weight, link or LogitLikelihood())


def labels(
    X: Tensor,
    num_rows: int,
    *,
    seed: int = 0,
    judge: str = "noisy",
    link: BernoulliLikelihood | None = None,
) -> Block:
    """A block of labels of items, accepted where their utility is high."""
    shape, n = X.shape[:-2], X.shape[-2]
    items = (rand(*shape, num_rows, seed=seed + 5) * n).long()
    accept = utility(X).gather(-1, items) > 1.5
    if judge == "noisy":
        accept = accept ^ (rand(*shape, num_rows, seed=seed + 6) < 0.25)
    weight = torch.ones(*shape, num_rows, dtype=X.dtype)
    return Block(items.unsqueeze(-1), LABEL, accept.to(X), weight, link or LogitLikelihood())


def choices(
    items: Tensor,
    favourite: Tensor,
    num_items: int,
    weight: Tensor | None = None,
    scale: float = 1.0,
) -> Block:
    """A block of choices of the best, between items of which only the numbers matter."""
    X = torch.zeros(num_items, 1, dtype=torch.float64)
    [block] = Choices(X, items, favourite).blocks(LogitLikelihood(scale))
    return block if weight is None else replace(block, weight=weight)


def questions(num: int, k: int, num_items: int, scale: float = 1.3) -> Block:
    """Questions of ``k`` different items, of which one is padding."""
    items = rand(num, num_items, seed=k).argsort(-1)[:, :k]
    favourite = (k * rand(num, seed=k + 1)).long()
    weight = (1.0 + 2.0 * rand(num, seed=k + 2)).floor()
    weight[-1] = 0.0
    return choices(items, favourite, num_items, weight, scale)


def mixed(num: int, num_items: int) -> Observations:
    """Choices of two sizes with a tie and a measured value between."""
    one = torch.ones(1, dtype=torch.float64)
    tie = Block(torch.tensor([[2, 5]]), DUEL, 0.5 * one, 2.0 * one, LogitLikelihood())
    value = Block(torch.tensor([[3]]), LABEL, 0.0 * one, one, StandardNormal())
    blocks = [questions(num, 3, num_items), tie, value, questions(2, 4, num_items)]
    return Observations(blocks, num_items)


def make(
    X: Tensor,
    num_duels: int,
    num_labels: int = 0,
    *,
    seed: int = 0,
    judge: str = "noisy",
    link: BernoulliLikelihood | None = None,
    padding: int = 0,
) -> Observations:
    blocks = [duels(X, num_duels, seed=seed, judge=judge, link=link, padding=padding)]
    if num_labels:
        blocks.append(labels(X, num_labels, seed=seed, judge=judge, link=link))
    return Observations(blocks, X.shape[-2])


def design(observations: Observations) -> np.ndarray:
    """The dense map of unbatched observations, built row by row."""
    rows = []
    for block in observations.blocks:
        for items, coefficients in product(block.items.tolist(), block.design):
            row = np.zeros(observations.num_items)
            for item, coefficient in zip(items, coefficients, strict=True):
                row[item] += coefficient
            rows.append(row)
    return np.array(rows)


def prior_latent(observations: Observations, mean: Tensor) -> Tensor:
    """The prior mean of unbatched latent values, from that of the items."""
    return torch.from_numpy(design(observations)) @ mean


def oracle(
    K: Tensor, mean: Tensor, observations: Observations, link: str, scale: float
) -> reference.Laplace:
    answers = torch.cat([block.answer for block in observations.blocks], dim=-1)
    weights = torch.cat([block.weight for block in observations.blocks], dim=-1)
    return reference.fit(
        K.detach().numpy(),
        mean.detach().numpy(),
        design(observations),
        answers.numpy(),
        weights.numpy(),
        link,
        scale,
    )


def assert_equal(
    found: Tensor, expected: object, tolerance: float = 1e-8, scale: float | None = None
) -> None:
    """Equality relative to the largest entry, or to 1 where all are smaller."""
    if not isinstance(expected, Tensor):
        expected = torch.as_tensor(np.array(expected), dtype=torch.float64)
    if scale is None:
        scale = max(1.0, float(expected.detach().abs().max()))
    torch.testing.assert_close(found, expected, rtol=0.0, atol=tolerance * scale)


def numerical_gradient(
    function: Callable[[Tensor], Tensor], at: Tensor, step: float = 2e-3
) -> Tensor:
    """Central differences of sixth order of a function that takes ``b x p`` to ``b x ...``.

    All points of the stencil are evaluated in one batch.

    Returns:
        ``... x p``.
    """
    at = at.detach()
    weights = torch.tensor([45.0, -9.0, 1.0], dtype=at.dtype) / (60 * step)
    offsets = step * torch.tensor([1.0, 2.0, 3.0], dtype=at.dtype)
    moves = offsets[:, None, None] * torch.eye(len(at), dtype=at.dtype)
    with torch.no_grad():
        points = torch.cat([at + moves, at - moves]).flatten(0, 1)
        values = function(points).unflatten(0, (2, 3, len(at)))
    return torch.tensordot(weights, values[0] - values[1], 1).movedim(0, -1)
