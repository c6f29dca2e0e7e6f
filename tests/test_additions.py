"""What somebody else adds: a link as one class, a kind of answer as one block and one query."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from botorch_pref.data.blocks import Block, BlockData
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, SoftmaxLikelihood
from botorch_pref.models import BernoulliGP, PreferenceGP
from botorch_pref.problems import Ackley
from botorch_pref.problems.judges import LogisticJudge
from botorch_pref.queries import Query
from botorch_pref.strategies import EUBO
from tests.models.common import (
    assert_laplace,
    make_duels,
    make_kernel,
    parameter_gradients,
    rand,
    utility,
)

POINTS = rand(4, 2, seed=9)


class SechLikelihood(BernoulliLikelihood):
    """``mu(h) = 2 / pi arctan(exp(h))``, the distribution function of the hyperbolic secant."""

    def _link(self, value: Tensor) -> Tensor:
        return 2 / math.pi * torch.atan(value.exp())

    def _log_link(self, value: Tensor) -> Tensor:
        return self._link(value).log()

    def _log_link_derivatives(self, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        ratio = 0.5 / (torch.cosh(value) * torch.atan(value.exp()))
        slope = torch.tanh(value)
        second = -ratio * (slope + ratio)
        third = -second * (slope + ratio) - ratio * (1 - slope**2 + second)
        return ratio, second, third


class PlackettLuce:
    """Of ``k`` utilities in order of preference: the best is chosen of all, the next of the rest.

    Each of the choices is a softmax, whose derivatives are added up.
    """

    has_bounded_score = True

    def __init__(self, scale: float) -> None:
        self.softmax = SoftmaxLikelihood(scale)

    def log_prob(self, latent: Tensor, answer: Tensor, weight: Tensor) -> Tensor:
        k = latent.shape[-1]
        rest = [latent[..., i:] for i in range(k - 1)]
        return sum(self.softmax.log_prob(one, 0 * answer, weight) for one in rest)

    def derivatives(
        self, latent: Tensor, answer: Tensor, weight: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        k = latent.shape[-1]
        score = torch.zeros_like(latent)
        curvature, third = (latent.new_zeros(*latent.shape, *[k] * i) for i in (1, 2))
        for i in range(k - 1):
            first, root, own = self.softmax.derivatives(latent[..., i:], 0 * answer, weight)
            score[..., i:] += first
            curvature[..., i:, i:] += root @ root.mT
            third[..., i:, i:, i:] += own
        values, vectors = torch.linalg.eigh(curvature)
        return score, vectors * values.clamp_min(0.0).sqrt().unsqueeze(-2), third


@dataclass(frozen=True, eq=False)
class Rankings(BlockData):
    """Rankings of ``k`` items: ``... x m x k`` rows of the datapoints, the best first."""

    _dims: ClassVar = {"datapoints": 2, "items": 2}
    datapoints: Tensor
    items: Tensor

    def __post_init__(self) -> None:
        self._broadcast()

    def blocks(self, likelihood: BernoulliLikelihood, learnt: Any = None) -> list[Block]:
        design = tuple(map(tuple, torch.eye(self.items.shape[-1]).tolist()))
        weight = self.datapoints.new_ones(self.items.shape[:-1])
        ranking = PlackettLuce(likelihood.scale)
        return [Block(self.items, design, torch.zeros_like(weight), weight, ranking)]


@pytest.fixture
def ranking(monkeypatch: pytest.MonkeyPatch) -> type[Query]:
    """A query for the order of its items; its answer is the number of a permutation."""
    monkeypatch.setattr(Query, "_kinds", dict(Query._kinds))

    class Ranking(Query):
        kind = "ranking"
        compares = True
        prompt = "The items from the best to the worst, such as 213"
        example = "a word such as 213"
        _item_shape = (3, "d")

        @property
        def orders(self) -> list[tuple[int, ...]]:
            return list(itertools.permutations(range(len(self.items))))

        @property
        def answers(self) -> tuple[float, ...]:
            return tuple(map(float, range(len(self.orders))))

        def read(self, word: str) -> float | None:
            known = {"".join(str(i + 1) for i in order): a for a, order in enumerate(self.orders)}
            return float(known[word]) if word in known else None

        def comparisons(self, answer: float) -> list[tuple[Tensor, float]]:
            order = self.orders[int(answer)]
            return [(self.items[[i, j]], 1.0) for i, j in itertools.pairwise(order)]

        def probabilities(self, utilities: Tensor, link: Any) -> dict[float, float]:
            values = utilities[torch.tensor(self.orders)]
            none, one = values.new_zeros(len(values)), values.new_ones(len(values))
            chances = PlackettLuce(1.0).log_prob(values, none, one).exp()
            return dict(zip(self.answers, chances.tolist(), strict=True))

    return Ranking


def rankings(number: int, k: int, seed: int = 3) -> Rankings:
    items = rand(number * k, 2, seed=seed)
    rows = torch.arange(number * k).view(number, k)
    order = utility(items)[rows].argsort(dim=-1, descending=True)
    order[::3] = order[::3].flip(-1)  # some are contrary
    return Rankings(items, rows.gather(-1, order))


def models() -> Iterator[PreferenceGP]:
    covar_module = make_kernel(2)
    yield PreferenceGP(None, None, covar_module=covar_module, choices=rankings(4, 4))
    X, rows = make_duels(5, 4, 2)
    yield PreferenceGP(X, rows, covar_module=covar_module, choices=[rankings(6, 3), rankings(2, 2)])


@pytest.mark.parametrize("case", [0, 1])
def test_rankings_against_brute_force(case: int) -> None:
    model = list(models())[case]
    items, observations = model.items, model.observed().observations
    H = observations.incidence.dense(items)

    def log_likelihood(f: Tensor) -> Tensor:
        return observations.log_prob(H @ f).sum()

    assert_laplace(model, POINTS, log_likelihood)
    for name, exact, numerical in parameter_gradients(model, model.log_evidence):
        torch.testing.assert_close(exact, numerical, atol=1e-6, rtol=1e-6, msg=name)


def test_a_ranking_is_asked_answered_and_stored(ranking: Any) -> None:
    query = ranking(4, rand(3, 1))
    assert Query.from_json(query.to_json()) == query
    assert query.checked(query.read("213")) == 2.0
    assert [pair.tolist() for pair, _ in query.comparisons(2.0)] == [
        query.items[[1, 0]].tolist(),
        query.items[[0, 2]].tolist(),
    ]
    judge, chances = LogisticJudge(Ackley()), torch.zeros(6).double()
    for t in range(2000):
        chances[int(judge(query, t))] += 1 / 2000
    expected = query.probabilities(Ackley()(query.items), torch.sigmoid)
    assert sum(expected.values()) == pytest.approx(1.0)
    torch.testing.assert_close(
        chances, torch.tensor([*expected.values()]).double(), atol=0.04, rtol=0
    )


@pytest.mark.parametrize("scale", [1.0, 0.6])
def test_a_link_is_one_class(scale: float) -> None:
    link = SechLikelihood(scale)
    h = torch.linspace(-8.0, 8.0, 33, dtype=torch.float64, requires_grad=True)
    value = link.log_cdf(h)
    for found in link.log_cdf_derivatives(h.detach()):
        (value,) = torch.autograd.grad(value.sum(), h, create_graph=True)
        torch.testing.assert_close(found, value, atol=1e-8, rtol=1e-6)
    mean, sd = torch.tensor([-1.0, 0.0, 2.0]).double(), torch.tensor([0.2, 1.0, 5.0]).double()
    z = torch.linspace(-9.0, 9.0, 20001, dtype=torch.float64)
    weight = torch.distributions.Normal(0.0, 1.0).log_prob(z).exp() * (z[1] - z[0])
    expected = (link(mean[:, None] + sd[:, None] * z) * weight).sum(-1)
    found = link.expected_probability(mean, sd.square())
    torch.testing.assert_close(found, expected, atol=1e-8, rtol=0)
    X, rows = make_duels(8, 12, 2)
    model = PreferenceGP(X, rows, likelihood=link, covar_module=make_kernel(2))
    for name, exact, numerical in parameter_gradients(model, model.log_evidence):
        torch.testing.assert_close(exact, numerical, atol=1e-6, rtol=1e-6, msg=name)
    assert 0.0 < model.win_probability(X[:2]).item() < 1.0
    labels = BernoulliGP(X, (utility(X) > 1.0).double().unsqueeze(-1), likelihood=link)
    assert labels.probability(POINTS).isfinite().all()


def test_a_strategy_takes_a_new_link_and_reads_it_back() -> None:
    strategy = EUBO(choices=rand(6, 2), seed=1, likelihood=SechLikelihood(2.0))
    strategy.tell(strategy.ask(), 1.0)
    again = EUBO.from_state_dict(strategy.state_dict())
    assert isinstance(again.likelihood, SechLikelihood)
    assert again.likelihood.scale == 2.0
    assert again.ask() == strategy.ask()
    assert not isinstance(again.likelihood, LogitLikelihood)
