"""The gain of a question of any kind, against quadrature over its items that shares no code."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from scipy import special

from botorch_pref.acquisition import SeenTable, gain_of_question
from botorch_pref.acquisition.knowledge_gradient import gains_of_pairs
from botorch_pref.data import Choices, Grades, Rankings
from botorch_pref.data.blocks import Block
from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.models.answer_parameters import CutPoints
from tests.acquisition.common import Array
from tests.models.common import rand

LINK = LogitLikelihood(1.3)
ROWS = [4, 0, 2]  # of the items asked
ORDERS = torch.tensor([*itertools.permutations(range(3))])


def table_of(seen: bool) -> SeenTable:
    generator = torch.Generator().manual_seed(5)
    root = torch.randn(12, 15, generator=generator, dtype=torch.double)
    mean = 0.4 * torch.randn(12, generator=generator, dtype=torch.double)
    covariance = root @ root.mT / 8
    if seen:
        return SeenTable.of_both(mean, covariance)
    return SeenTable.of_one(mean[:6], covariance[:6, :6])


def blocks_of(kind: str) -> list[Block]:
    """All answers to a question of three items, or of the first two."""
    items = rand(3, 2)
    if kind == "best":
        return Choices(items, torch.arange(3).expand(3, 3), torch.arange(3)).blocks(LINK)
    if kind == "rank":
        return Rankings(items, ORDERS).blocks(LINK)
    pairs, bounds = torch.tensor([0, 1]).expand(4, 2), CutPoints(4, True, 0, torch.Size())
    return Grades(items, pairs, torch.arange(4), 4).blocks(LINK, learnt=bounds)


def chances(kind: str, f: Array) -> Array:
    """``A x ...``-dim probabilities of the answers, of ``... x 3``-dim utilities."""
    e = np.exp(1.3 * f)
    if kind == "best":
        return np.stack([e[..., i] / e.sum(-1) for i in range(3)])
    if kind == "rank":
        orders = ORDERS.tolist()
        last = [e[..., a] / e.sum(-1) * e[..., b] / (e[..., b] + e[..., c]) for a, b, c in orders]
        return np.stack(last)
    gap = np.exp(-0.2)  # where the bounds begin
    below = [special.expit(1.3 * (b - f[..., 0] + f[..., 1])) for b in (-gap, 0.0, gap)]
    zero = np.zeros_like(below[0])
    return np.diff(np.stack([zero, *below, zero + 1.0]), axis=0)


def quadrature(table: SeenTable, kind: str, repeats: int) -> float:
    """By all sequences of answers, on a grid of the three utilities."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    z = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij"), -1).reshape(-1, 3)
    weight = np.prod(np.stack(np.meshgrid(*[weights] * 3, indexing="ij"), -1), -1).ravel()
    weight /= weight.sum()
    root = np.linalg.cholesky(table.seen_covariance[ROWS][:, ROWS].numpy())
    likely = chances(kind, table.seen_mean[ROWS].numpy() + z @ root.T)
    cross = np.linalg.solve(root, table.cross[ROWS].numpy()).T
    mean = table.mean.numpy()
    total = -mean.max()
    for answers in itertools.product(range(len(likely)), repeat=repeats):
        both = weight * np.prod(likely[[*answers]], axis=0)
        total += (both.sum() * mean + cross @ (both @ z)).max()
    return float(total)


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("kind", ["best", "rank", "grade"])
def test_by_quadrature(kind: str, seen: bool) -> None:
    table = table_of(seen)
    for repeats, found in enumerate(gain_of_question(table, ROWS, blocks_of(kind), (1, 2)), 1):
        wanted = quadrature(table, kind, repeats)
        assert found == pytest.approx(wanted, rel=0.07, abs=0.0), repeats
        assert repeats > 1 or found == pytest.approx(wanted, abs=2e-3)


@pytest.mark.parametrize("seen", [False, True])
def test_best_of_two_is_a_duel(seen: bool) -> None:
    table, items = table_of(seen), rand(2, 2)
    best = Choices(items, torch.arange(2).expand(2, 2), torch.arange(2)).blocks(LINK)
    rank = Rankings(items, torch.tensor([[0, 1], [1, 0]])).blocks(LINK)
    for pair in ([0, 1], [4, 2], [3, 5]):
        one, many = (float(gains_of_pairs(table, torch.tensor([pair]), LINK, n)) for n in (1, 16))
        found = gain_of_question(table, pair, best, (1, 16))
        assert found[0] == pytest.approx(one, abs=3e-3)
        assert found[1] == pytest.approx(many, rel=0.05)
        assert gain_of_question(table, pair, rank, (1, 16)) == pytest.approx(found, abs=1e-9)


def test_what_is_known_tells_nothing() -> None:
    """An item and itself, and items that are equal up to what is added to all."""
    table, best = table_of(False), blocks_of("best")
    assert gain_of_question(table, [1, 1, 1], best) == pytest.approx([0.0] * 5, abs=1e-9)
    shared = torch.ones(6, 6).double()
    flat = SeenTable.of_one(table.mean, shared)
    assert gain_of_question(flat, ROWS, best) == pytest.approx([0.0] * 5, abs=1e-9)


def test_more_is_worth_more() -> None:
    """A ranking tells the favourite, too."""
    table = table_of(False)
    gains = [gain_of_question(table, ROWS, blocks_of(kind), (1,)) for kind in ("best", "rank")]
    assert gains[1] > gains[0] > [0.0]
