"""Rankings, grades, ratings and annotators: oracles, gradients, identities, and what is refused."""

from __future__ import annotations

import copy
import io
import itertools
import math
import pickle
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.optim.utils import sample_all_priors
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import RBFKernel, ScaleKernel
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.data import Choices, Comparisons, Grades, Rankings, Ratings
from botorch_pref.data.blocks import Block
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference import PrimalSystem, find_mode
from botorch_pref.likelihoods import (
    AnnotatedLikelihood,
    BernoulliLikelihood,
    IntervalLikelihood,
    LogitLikelihood,
    ProbitLikelihood,
    SoftmaxLikelihood,
)
from botorch_pref.models import (
    AnnotatorEffects,
    FullyBayesianPreferenceGP,
    LaplaceMarginalLogLikelihood,
    PreferenceGP,
    pairwise_cross_validation,
)
from botorch_pref.models.answer_parameters import People
from tests.models.common import (
    assert_laplace,
    assert_same_posterior,
    make_duels,
    make_kernel,
    parameter_gradients,
    rand,
    utility,
)

X, POINTS = rand(7, 2, seed=5), rand(3, 2, seed=9)
QUICK = settings(max_examples=20, deadline=None, database=None, derandomize=True)
LINKS = [LogitLikelihood(), ProbitLikelihood(0.8)]
every_link = pytest.mark.parametrize("link", LINKS, ids=["logit", "probit"])


GENERATOR = torch.Generator().manual_seed(1)
ONE, LONG = torch.ones(()), torch.ones((), dtype=torch.long)


def _numbered(who: int) -> Comparisons:
    data = duels(2)
    return Comparisons(X, data.pairs, data.wins, data.count, torch.tensor([0, who]))


def pairs(number: int, seed: int = 0) -> Tensor:
    return rand(number, len(X), seed=seed).argsort(-1)[:, :2]


def duels(number: int = 14, people: int | None = 3) -> Comparisons:
    rows = pairs(number)
    gap = utility(X)[rows[:, 0]] - utility(X)[rows[:, 1]]
    wins = (rand(number, seed=1) < torch.sigmoid(gap)).double()
    who = None if people is None else torch.arange(number) % people
    return Comparisons(X, rows, wins, torch.ones(number).double(), who)


def grades(number: int = 12, num_grades: int = 5, people: int | None = None) -> Grades:
    rows = pairs(number, seed=3)
    gap = utility(X)[rows[:, 0]] - utility(X)[rows[:, 1]] + rand(number, seed=4) - 0.5
    edges = torch.linspace(-2.0, 2.0, num_grades + 1)[1:-1].double()
    who = None if people is None else torch.arange(number) % people
    return Grades(X, rows, torch.bucketize(gap, edges), num_grades, who)


def ratings(people: int | None = 2) -> Ratings:
    rows = torch.arange(len(X)).repeat(2)
    values = utility(X)[rows] + 2.0 * rand(len(rows), seed=6)
    found = torch.bucketize(values, torch.tensor([0.5, 2.0, 3.5]).double())
    who = None if people is None else torch.arange(len(rows)) % people
    return Ratings(X, rows, found, 4, who)


def rankings(k: int = 4, number: int = 5, people: int | None = None, **options: Any) -> Rankings:
    rows = rand(number, len(X), seed=7).argsort(-1)[:, :k]
    if people is not None:
        options |= {"annotator": torch.arange(number) % people, "first": torch.arange(number) % k}
    return Rankings(X, rows, **options)


def favourites(k: int = 3, number: int = 6, people: int | None = None) -> Choices:
    who = None if people is None else torch.arange(number) % people
    rows = rand(number, len(X), seed=8).argsort(-1)[:, :k]
    return Choices(X, rows, torch.arange(number) % k, who)


def contradictions() -> Rankings:
    """The same order again and again, and once its reverse."""
    rows = torch.tensor([[3, 1, 5]]).repeat(10, 1)
    rows[-1] = rows[-1].flip(0)
    number = torch.arange(10)
    return Rankings(X, rows, annotator=number % 3, first=number % 3)


def make(*choices: Any, data: Comparisons | None = None, **options: Any) -> PreferenceGP:
    items = None if data is None else data.datapoints
    model = PreferenceGP(items, data, choices=choices, covar_module=make_kernel(2), **options)
    # People differ, and the bounds are no round numbers.
    with torch.no_grad():
        for name, value in model.learnt.named_parameters():
            value += 0.4 * rand(*value.shape, seed=len(name)) - 0.2
    return model


def softmax_of(
    f: Tensor, left: list[int], chosen: int, sign: float = 1.0, lapse: float | Tensor = 0.0
) -> Tensor:
    of_all = torch.logsumexp(torch.stack([sign * f[i] for i in left]), 0)
    return ((1.0 - lapse) * (sign * f[chosen] - of_all).exp() + lapse / len(left)).log()


def log_ranking(
    f: Tensor, items: list[int], best: int, worst: int, lapse: float | Tensor = 0.0
) -> Tensor:
    left, total = list(items), f.new_zeros(())
    for item in items[:best]:
        if len(left) > 1:
            total = total + softmax_of(f, left, item, 1.0, lapse)
        left.remove(item)
    for item in reversed(items[len(items) - worst :]):
        if item in left and len(left) > 1:
            total = total + softmax_of(f, left, item, -1.0, lapse)
            left.remove(item)
    return total


def _latent(block: Block, f: Tensor) -> Tensor:
    latent = f[block.items] @ torch.tensor(block.design).double().T
    return latent.squeeze(-1) if block.latent_dim == 1 else latent


# ------------------------------------------------------------------- against brute force


@pytest.mark.parametrize(("best", "worst"), [(None, 0), (1, 0), (2, 0), (1, 1), (0, 2), (2, 2)])
def test_rankings_against_brute_force(best: int | None, worst: int) -> None:
    data = rankings(num_best=best, num_worst=worst)
    first = 4 - worst if best is None else best

    def log_likelihood(f: Tensor) -> Tensor:
        return sum(log_ranking(f, items, first, worst) for items in data.items.tolist())

    assert_laplace(make(data), POINTS, log_likelihood)


def test_ties_in_rankings_against_brute_force() -> None:
    tied = torch.tensor([[1, 0, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], [0, 0, 0]]).bool()
    data = rankings(tied=tied)

    def log_likelihood(f: Tensor) -> Tensor:
        total = f.new_zeros(())
        for items, own in zip(data.items.tolist(), tied.tolist(), strict=True):
            start = 0
            for place, item in enumerate(items):
                start = start if place and own[place - 1] else place
                total = total + softmax_of(f, items[start:], item)
        return total

    assert_laplace(make(data), POINTS, log_likelihood)


@pytest.mark.parametrize(("link", "num_grades"), [(LINKS[0], 3), (LINKS[1], 4), (LINKS[0], 5)])
def test_grades_against_brute_force(link: BernoulliLikelihood, num_grades: int) -> None:
    data = grades(num_grades=num_grades)
    model = make(data, likelihood=link)
    bounds = model.learnt["choices[0]"].values().detach()[0].tolist()

    def log_likelihood(f: Tensor) -> Tensor:
        total = f.new_zeros(())
        for (i, j), grade in zip(data.pairs.tolist(), data.grade.tolist(), strict=True):
            above = link(f[i] - f[j] - bounds[grade - 1]) if grade else 1.0
            beyond = link(f[i] - f[j] - bounds[grade]) if grade < num_grades - 1 else 0.0
            total = total + (above - beyond).log()
        return total

    assert_laplace(model, POINTS, log_likelihood)
    assert bounds == pytest.approx([-bound for bound in reversed(bounds)])


def test_ratings_of_several_people_against_brute_force() -> None:
    data = ratings()
    model = make(data)
    bounds = model.learnt["choices[0]"].values().detach().tolist()
    size, _, lapse = (value.detach() for value in model.learnt["annotators"].values())

    def log_likelihood(f: Tensor) -> Tensor:
        total, rows = f.new_zeros(()), (data.items, data.rating, data.annotator)
        for item, rating, who in zip(*(row.tolist() for row in rows), strict=True):
            own, value = [-torch.inf, *bounds[who], torch.inf], size[who] * f[item]
            chance = torch.sigmoid(value - own[rating]) - torch.sigmoid(value - own[rating + 1])
            total = total + ((1 - lapse[who]) * chance + lapse[who] / 4).log()
        return total

    assert_laplace(model, POINTS, log_likelihood)


@every_link
def test_annotators_against_brute_force(link: BernoulliLikelihood) -> None:
    data = duels()
    model = make(data=data, likelihood=link)
    effects = [value.detach().tolist() for value in model.learnt["annotators"].values()]

    def log_likelihood(f: Tensor) -> Tensor:
        total, rows = f.new_zeros(()), (data.pairs, data.wins, data.annotator)
        for (i, j), won, who in zip(*(row.tolist() for row in rows), strict=True):
            size, offset, lapse = (effect[who] for effect in effects)
            value = size * (f[i] - f[j]) + offset
            chance = (1 - lapse) * link(value if won else -value) + lapse / 2
            total = total + chance.log()
        return total

    score = torch.autograd.functional.jacobian(log_likelihood, torch.zeros(len(X)).double())
    assert score.abs().amax() > 0.1
    assert_laplace(model, POINTS, log_likelihood)


def test_who_gave_other_answers_against_brute_force() -> None:
    """One reliability, offset and rate of lapses a person, whatever they are asked."""
    both = {"num_best": 1, "num_worst": 1}
    data = [favourites(people=3), rankings(people=2), grades(people=3), rankings(people=3, **both)]
    model = make(*data, data=duels(6))
    size = model.learnt["annotators"].values().reliability.detach()
    assert size.shape == (5,)
    bounds = model.learnt["choices[2]"].values().detach()[0].tolist()
    offset, lapse = (value.detach() for value in model.learnt["annotators"].values()[1:])

    def log_likelihood(every: Tensor) -> Tensor:
        f = every.view(5, len(X))  # the items of each kind of answers are its own
        total, own = every.new_zeros(()), [-torch.inf, *bounds, torch.inf]
        for (i, j), won, who in zip(*map(Tensor.tolist, _rows(model.data)), strict=True):
            value = size[who] * (f[0, i] - f[0, j]) + offset[who]
            chance = torch.sigmoid(value if won else -value)
            total = total + ((1 - lapse[who]) * chance + lapse[who] / 2).log()
        first = torch.eye(len(X)).double()
        for rows, k, who in zip(*map(Tensor.tolist, _rows(data[0])), strict=True):
            values = size[who] * f[1] + offset[who] * first[rows[0]]
            total = total + softmax_of(values, rows, rows[k], 1.0, lapse[who])
        for own_f, part, ends in ((f[2], data[1], (4, 0)), (f[4], data[3], (1, 1))):
            for rows, place, who in zip(*map(Tensor.tolist, _rows(part)), strict=True):
                values = size[who] * own_f + offset[who] * first[rows[place]]
                total = total + log_ranking(values, rows, *ends, lapse[who])
        for (i, j), grade, who in zip(*map(Tensor.tolist, _rows(data[2])), strict=True):
            gap = size[who] * (f[3, i] - f[3, j]) + offset[who]
            chance = torch.sigmoid(gap - own[grade]) - torch.sigmoid(gap - own[grade + 1])
            total = total + ((1 - lapse[who]) * chance + lapse[who] / 5).log()
        return total

    assert_laplace(model, POINTS, log_likelihood)


def _rows(data: Any) -> list[Tensor]:
    names = {Comparisons: "pairs wins", Choices: "items favourite", Grades: "pairs grade"}
    names[Rankings] = "items first"
    return [getattr(data, name) for name in [*names[type(data)].split(), "annotator"]]


def test_who_is_typical_is_as_nobody_is_told_apart() -> None:
    kinds = [favourites, rankings, grades]
    told = make(*(kind(people=2) for kind in kinds))
    pooled = make(*(kind() for kind in kinds))
    with torch.no_grad():
        for value in told.learnt["annotators"].parameters():
            value.zero_()
        told.learnt["annotators"].typical_logit_lapse.fill_(-45.0)
        for name, value in pooled.learnt.named_parameters():
            dict(told.learnt.named_parameters())[name].copy_(value)
    torch.testing.assert_close(told.log_evidence(), pooled.log_evidence(), atol=1e-10, rtol=0)
    assert_same_posterior(told.posterior(POINTS), pooled.posterior(POINTS))


@pytest.mark.parametrize("kind", [favourites, rankings, grades])
def test_who_answers_by_chance_is_found_out(kind: Any) -> None:
    number = 120
    rows = torch.stack([torch.randperm(len(X), generator=GENERATOR)[:3] for _ in range(number)])
    f, who = 6.0 * utility(X), torch.arange(number) % 2
    chance = torch.rand(number, 3, generator=GENERATOR).double()
    seen = torch.where(who.unsqueeze(-1) == 0, f[rows], 0.0) - (-chance.log()).log()
    order = seen.argsort(-1, descending=True)
    gap = torch.bucketize(seen[:, 0] - seen[:, 1], torch.tensor([-2.0, 2.0]).double())
    data = {
        favourites: Choices(X, rows, order[:, 0], who),
        rankings: Rankings(X, rows.gather(-1, order), annotator=who),
        grades: Grades(X, rows[:, :2], gap, 3, who),
    }[kind]
    model = PreferenceGP(None, None, choices=data)
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    table = model.annotators
    assert table.loc[0, "reliability"] > 2.0 * table.loc[1, "reliability"]
    error = table["reliability_error"] / table["reliability"]
    assert error[0] < error["typical"]


@pytest.mark.parametrize("inference", ["laplace", "ep"])
@pytest.mark.parametrize("kind", [favourites, rankings, grades])
def test_offsets_are_learnt_from_other_answers(kind: Any, inference: Any) -> None:
    planted = torch.tensor([1.2, -0.8] if kind is grades else [0.9, -0.6]).double()
    table = _learnt_of_two(kind, 1.0 if kind is grades else 1.5, planted, 0.0, inference)
    found, error = (torch.tensor(table[f"offset{end}"].to_numpy()) for end in ("", "_error"))
    assert bool((found.sign() == planted.sign()).all())
    assert bool(((found - planted).abs() < 2.5 * error).all())
    assert error.max() < 0.25


@pytest.mark.parametrize("kind", [favourites, rankings, grades])
def test_lapses_are_learnt_from_other_answers(kind: Any) -> None:
    table = _learnt_of_two(kind, 12.0, torch.zeros(2).double(), 0.35)
    assert abs(table.loc[0, "lapse"] - 0.35) < 2.5 * table.loc[0, "lapse_error"]
    assert table.loc[0, "lapse_error"] < 0.1
    assert table.loc[1, "lapse"] < 0.05


def _learnt_of_two(
    kind: Any, scale: float, offset: Tensor, lapse: float, inference: Any = "laplace"
) -> pd.DataFrame:
    """What is learnt of two people, of whom the first answers by chance now and then."""
    number, generator = 400, torch.Generator().manual_seed(0)
    rows = torch.rand(number, len(X), generator=generator).argsort(-1)[:, :3]
    who = torch.arange(number) % 2
    noise = -(-torch.rand(number, 3, generator=generator).double().log()).log()
    values = scale * utility(X)[rows]
    values[:, 0] += offset[who]
    by_chance = (torch.rand(number, generator=generator) < lapse) & (who == 0)
    order = (torch.where(by_chance.unsqueeze(-1), 0.0, values) + noise).argsort(-1, descending=True)
    gap = values[:, 0] - values[:, 1] + noise[:, 0] - noise[:, 1]
    grade = torch.bucketize(gap, torch.tensor([-2.0, -0.7, 0.7, 2.0]).double())
    grade = torch.where(by_chance, torch.randint(5, (number,), generator=generator), grade)
    first = (order == 0).int().argmax(-1)
    data = {
        favourites: Choices(X, rows, order[:, 0], who),
        rankings: Rankings(X, rows.gather(-1, order), annotator=who, first=first),
        grades: Grades(X, rows[:, :2], grade, 5, who),
    }[kind]
    model = PreferenceGP(None, None, choices=data, inference=inference)
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    return model.annotators.loc[[0, 1]]


@pytest.mark.parametrize("kind", [favourites, rankings])
def test_one_reliable_person_is_a_larger_scale_by_expectation_propagation(kind: Any) -> None:
    told = make(kind(people=1), inference="ep")
    effects = told.learnt["annotators"]
    with torch.no_grad():
        effects.log_reliability.fill_(math.log(2.5))
        effects.typical_offset.sub_(effects.values().offset[0])
        effects.typical_logit_lapse.fill_(-45.0)
    scaled = make(kind(), likelihood=LogitLikelihood(2.5), inference="ep")
    assert_same_posterior(told.posterior(POINTS), scaled.posterior(POINTS), atol=1e-6)
    scaled.inference = "laplace"  # whose evidence it is where annotators are told apart
    torch.testing.assert_close(told.log_evidence(), scaled.log_evidence(), atol=1e-8, rtol=0)


@pytest.mark.parametrize("kind", [favourites, rankings, grades])
def test_annotators_of_other_answers_are_checked(kind: Any) -> None:
    data = kind(people=2)
    with pytest.raises(ComparisonDataError, match="annotator"):
        replace(data, annotator=torch.where(data.annotator == 1, -2, 0))


@pytest.mark.parametrize(
    ("kind", "inference"),
    [
        *((kind, "ep") for kind in ("rankings", "grades", "ratings", "of people")),
        # whose evidence is Laplace's
        *((kind, "laplace") for kind in ("annotators", "mixed", "reliability", "contradictions")),
    ],
)
def test_gradients_of_the_evidence_are_those_of_finite_differences(kind: str, inference: Any):
    cases: dict[str, tuple[list[Any], Comparisons | None]] = {
        "rankings": ([rankings(num_best=1, num_worst=1)], None),
        "grades": ([grades()], None),
        "of people": (
            [favourites(people=3), favourites(2, people=2), rankings(people=2), grades(people=3)],
            None,
        ),
        "ratings": ([ratings()], None),
        "contradictions": ([contradictions(), favourites(people=3)], None),
        "annotators": ([], duels(30)),
        "reliability": (
            [favourites(people=3), favourites(2, people=2), rankings(people=2), grades(people=3)],
            duels(6),
        ),
        "mixed": ([grades(num_grades=4), rankings(3, 2), ratings(None)], duels(16, 2)),
    }
    choices, data = cases[kind]
    model = make(*choices, data=data, inference=inference)
    # Some answers are where the likelihood is not log-concave.
    if kind in ("annotators", "mixed", "contradictions"):
        with torch.no_grad():
            model.learnt["annotators"].typical_logit_lapse.fill_(-3.0)
            model.learnt["annotators"].log_reliability.add_(2.0)
        observed = model.observed().observations
        model.inference = "laplace"
        mode = observed.incidence.apply(model.posterior(model.items).mean.squeeze(-1))
        places = torch.arange(mode.shape[-1]).to(
            mode
        )  # no excess of a choice is seen by equal ones
        cut = [block.latent_dim for block in observed.blocks]
        parts = observed.split(observed.derivatives(mode)[1].apply_excess(places))
        found = {
            dim for dim, part in zip(cut, parts, strict=True) if bool((part.abs() > 1e-4).any())
        }
        assert found if kind != "contradictions" else 3 in found
        model.inference = inference
    for name, exact, numerical in parameter_gradients(model, model.log_evidence):
        torch.testing.assert_close(exact, numerical, atol=2e-6, rtol=2e-6, msg=name)


@every_link
@pytest.mark.parametrize("cavity", [0.3, 4.0, 20.0])
def test_one_answer_is_exact_by_expectation_propagation(link: Any, cavity: float) -> None:
    """The evidence of one answer is a one-dimensional integral, also of a sharp, biased person."""
    h = torch.linspace(-200.0, 200.0, 2_000_001, dtype=torch.double)
    kernel = make_kernel(2, outputscale=cavity**2)
    with torch.no_grad():
        K = kernel(X[:2]).to_dense()
        spread = (K[0, 0] + K[1, 1] - 2 * K[0, 1]).sqrt()
    density = torch.distributions.Normal(0.0, spread).log_prob(h).exp() * (h[1] - h[0])
    rows = torch.tensor([[0, 1]])
    for grade in range(3):
        asked = Grades(X[:2], rows, torch.tensor([grade]), 3)
        options = {"covar_module": kernel, "likelihood": link, "inference": "ep"}
        model = PreferenceGP(None, None, choices=asked, **options)
        low, high = model.learnt["choices[0]"].values().detach()[0].tolist()
        expected = (density * _graded(link, h, low, high)[grade]).sum().log()
        torch.testing.assert_close(model.log_evidence().detach(), expected, atol=1e-6, rtol=0)
    one = torch.ones(1).double()
    duel = PreferenceGP(X[:2], Comparisons(X[:2], rows, one, one, rows[:, 0]), **options)
    graded = [
        PreferenceGP(
            None, None, choices=replace(asked, grade=grade, annotator=rows[:, 0]), **options
        )
        for grade in torch.arange(3).unsqueeze(-1)
    ]
    value = torch.tensor(1.5).exp() * h - 6.0
    seen = [link(value), *_graded(link, value, low, high)]
    models = zip([duel, *graded], seen, (2, 3, 3, 3), strict=True)
    for (model, chance, number), lapse in itertools.product(models, (1e-15, 0.05)):
        effects = model.learnt["annotators"]
        with torch.no_grad():
            effects.log_reliability.fill_(1.5)
            effects.typical_offset.fill_(-6.0)
            effects.typical_logit_lapse.fill_(math.log(lapse / (1.0 - lapse)))
        tilted = density * ((1.0 - lapse) * chance + lapse / number)
        tilted = tilted / tilted.sum()
        mean = (tilted * h).sum()
        variance = (tilted * (h - mean).square()).sum()
        found = model.difference_moments(X[:2])
        torch.testing.assert_close(found[0], mean, atol=1e-4 * cavity, rtol=0)
        # No site of positive precision makes a variance larger than the prior's.
        least = torch.minimum(variance, spread.square())
        torch.testing.assert_close(found[1], least, atol=1e-4 * cavity**2, rtol=0)


def _graded(link: BernoulliLikelihood, value: Tensor, low: float, high: float) -> list[Tensor]:
    below, above = link(value - low), link(value - high)
    return [1 - below, below - above, above]


# ------------------------------------------------------------------- identities


@every_link
@QUICK
@given(st.floats(-30.0, 30.0), st.integers(2, 9), st.floats(0.05, 3.0))
def test_chances_of_all_grades_sum_to_one(link: Any, at: float, number: int, gap: float) -> None:
    inner = gap * (torch.arange(number - 1).double() - (number - 2) / 2)
    edges = torch.cat([inner.new_tensor([-1e9]), inner, inner.new_tensor([1e9])])
    between = IntervalLikelihood(link, edges[:-1], edges[1:])
    one, h = torch.ones(number).double(), torch.full((number,), at, dtype=torch.double)
    assert between.log_prob(h, one, one).exp().sum().item() == pytest.approx(1.0, abs=1e-12)


@every_link
@pytest.mark.parametrize("width", [0.01, 1.0, 50.0])
def test_intervals_keep_their_digits_far_away(link: BernoulliLikelihood, width: float) -> None:
    """Derivatives are those of autograd near zero; far from an interval they are the tail's."""
    h = torch.linspace(-6.0, 6.0, 25, dtype=torch.double, requires_grad=True)
    one = torch.ones_like(h)
    lower = torch.full_like(h, -width / 2).detach()
    between, expected = IntervalLikelihood(link, lower, -lower), []
    value = between.log_prob(h, one, one)
    for _ in range(3):
        (value,) = torch.autograd.grad(value.sum(), h, create_graph=True)
        expected.append(value.detach())
    score, curvature, third = between.derivatives(h.detach(), one, one)
    torch.testing.assert_close(score, expected[0], atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(curvature, -expected[1], atol=1e-7, rtol=1e-7)
    torch.testing.assert_close(third, expected[2], atol=1e-5, rtol=1e-5)
    far = torch.tensor([-1e3, -300.0, 300.0, 1e3]).double()
    width = max(width, 1.0)  # of a narrow one, both bounds matter
    bounds = torch.full_like(far, -width / 2), torch.full_like(far, width / 2)
    between, one = IntervalLikelihood(link, *bounds), torch.ones_like(far)
    score, curvature, third = between.derivatives(far, one, one)
    edge = far.sign() * (far.abs() - width / 2)
    tail = link.log_cdf_derivatives(-edge.abs())  # the nearer bound alone
    torch.testing.assert_close(score, -far.sign() * tail[0], rtol=1e-6, atol=0)
    assert bool(((curvature + tail[1]).abs() <= 1e-5).all())
    assert third.isfinite().all()
    assert between.log_prob(far, one, one).isfinite().all()


@pytest.mark.parametrize(("best", "worst"), [(4, 0), (1, 0), (1, 1)])
def test_chances_of_all_rankings_sum_to_one(best: int, worst: int) -> None:
    f, seen, total = utility(X)[:4], set(), 0.0
    for order in itertools.permutations(range(4)):
        if (ends := (order[:best], order[4 - worst :])) in seen:
            continue
        seen.add(ends)
        data = Rankings(X[:4], torch.tensor([order]), num_best=best, num_worst=worst)
        blocks = data.blocks(LogitLikelihood())
        total += sum(
            block.likelihood.log_prob(_latent(block, f), block.answer, block.weight)
            for block in blocks
        ).exp()
    assert float(total) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_two_items_are_a_duel_whatever_they_are_called(inference: Any) -> None:
    data = duels(people=None)
    data = Comparisons(X, *(row[:5] for row in (data.pairs, data.wins, data.count)))
    assert len(data.merged().pairs) == 5  # else sites of one answer and of two differ
    duel = make(data=data, inference=inference)
    won = data.wins.bool()
    order = torch.where(won.unsqueeze(-1), data.pairs, data.pairs.flip(-1))
    others = [
        Rankings(X, order),
        Rankings(X, order, num_best=0, num_worst=1),
        Choices(X, data.pairs, (~won).long()),
        Grades(X, data.pairs, won.long(), 2),
    ]
    for other in others:
        model = make(other, inference=inference)
        torch.testing.assert_close(model.log_evidence(), duel.log_evidence(), atol=1e-7, rtol=0)
        assert_same_posterior(model.posterior(POINTS), duel.posterior(POINTS), atol=1e-6)


def test_no_width_of_indifference_is_a_duel() -> None:
    data = duels(people=None)
    model = make(Grades.of_ties(data))
    with torch.no_grad():
        model.learnt["choices[0]"].log_gap.fill_(-30.0)
    assert_same_posterior(model.posterior(POINTS), make(data=data).posterior(POINTS), atol=1e-7)


def test_ties_are_of_who_gave_them_in_the_order_shown() -> None:
    data = duels(people=3)
    found = Grades.of_ties(replace(data, wins=data.wins.index_fill(0, torch.tensor([4]), 0.5)))
    assert torch.equal(found.annotator, data.annotator)
    assert torch.equal(found.pairs, data.pairs)
    assert found.grade[4] == 1


def test_swapping_both_items_turns_grades_around() -> None:
    data = grades()
    turned = Grades(X, data.pairs.flip(-1), 4 - data.grade, 5)
    torch.testing.assert_close(make(data).log_evidence(), make(turned).log_evidence())


@pytest.mark.parametrize("inference", ["laplace", "ep"])
@pytest.mark.parametrize(
    "data", [duels(), grades(), grades(people=2), ratings(), rankings(), favourites()]
)
def test_the_order_of_answers_and_of_items_does_not_matter(data: Any, inference: Any) -> None:
    fields = data._tensors()
    rows = {name: value for name, value in fields.items() if name != "datapoints"}
    number = len(rows["items" if "items" in rows else "pairs"])
    order, items = rand(number, seed=8).argsort(), rand(len(X), seed=3).argsort()
    place = items.argsort()  # where each item went
    moved = {name: value[order] for name, value in rows.items()}
    for name in {"pairs", "items"} & moved.keys():
        moved[name] = place[moved[name]]
    other = replace(data, datapoints=X[items], **moved)
    one, two = (
        make(data=part, inference=inference)
        if isinstance(part, Comparisons)
        else make(part, inference=inference)
        for part in (data, other)
    )
    torch.testing.assert_close(one.log_evidence(), two.log_evidence(), atol=1e-7, rtol=0)
    assert_same_posterior(one.posterior(POINTS), two.posterior(POINTS), atol=1e-6)


@every_link
@pytest.mark.parametrize("lapse", [1e-15, 0.02, 0.5])
def test_both_answers_of_a_person_and_their_derivatives(
    link: BernoulliLikelihood, lapse: float
) -> None:
    """Their chances sum to one; derivatives are autograd's, also where they are not concave."""
    h = torch.linspace(-8.0, 8.0, 33, dtype=torch.double, requires_grad=True)
    size, offset = torch.full_like(h, 1.7).detach(), torch.full_like(h, -0.6).detach()
    person = AnnotatedLikelihood(link, size, offset, torch.full_like(size, lapse))
    one = torch.ones_like(size)
    chances = [person.log_prob(h, answer * one, one).exp() for answer in (0.0, 1.0)]
    torch.testing.assert_close(sum(chances), one, atol=1e-14, rtol=0)
    seen = (1.0 - lapse) * link(1.7 * h - 0.6) + 0.5 * lapse
    torch.testing.assert_close(chances[1], seen, atol=1e-14, rtol=0)
    weight, answer = 3.0 * one, 0.25 * one
    value, expected = person.log_prob(h, answer, weight), []
    for _ in range(3):
        (value,) = torch.autograd.grad(value.sum(), h, create_graph=True)
        expected.append(value.detach())
    score, curvature, third = person.derivatives(h.detach(), answer, weight)
    torch.testing.assert_close(score, expected[0], atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(curvature, -expected[1], atol=1e-8, rtol=1e-8)
    torch.testing.assert_close(third, expected[2], atol=1e-6, rtol=1e-6)
    assert bool((curvature < -0.01).any()) or lapse < 0.01
    far = torch.tensor([-1e3, 1e3]).double()
    person = person.select(slice(2))
    for value in (
        person.log_prob(far, one[:2], one[:2]),
        *person.derivatives(far, one[:2], one[:2]),
    ):
        assert bool(value.isfinite().all())


@pytest.mark.parametrize("lapse", [1e-15, 0.02, 0.5])
@pytest.mark.parametrize("size", [1.7, 40.0])
def test_choices_of_a_person_and_their_derivatives(lapse: float, size: float) -> None:
    """Their chances sum to one; without the excess the curvature is minus autograd's Hessian."""
    latent = (0.1 * torch.arange(20).double().sin()).view(5, 4)
    one, answer = torch.ones(5).double(), torch.tensor([0, 3, 1, 2, 0]).double()
    offset = torch.tensor([-0.6, 0.0, 0.0, 0.0]).double().expand(5, 4)
    kind = SoftmaxLikelihood(0.7)
    person = AnnotatedLikelihood(kind, size * one, offset, lapse * one, num_answers=4)
    chances = [person.log_prob(latent, a * one, one).exp() for a in range(4)]
    torch.testing.assert_close(sum(chances), one, atol=1e-14, rtol=0)
    seen = (0.7 * (size * latent + offset)).softmax(-1)[0, 0]
    assert float(chances[0][0]) == pytest.approx(float((1 - lapse) * seen + lapse / 4))
    weight = 3.0 * one

    def total(at: Tensor) -> Tensor:
        return person.log_prob(at, answer, weight).sum()

    def curvature(at: Tensor) -> Tensor:
        root = person.derivatives(at, answer, weight)[1]
        return (root @ root.mT).sum(0)

    score, root, third = person.derivatives(latent, answer, weight)
    torch.testing.assert_close(score, torch.autograd.functional.jacobian(total, latent))
    hessian = torch.autograd.functional.hessian(total, latent)
    hessian = torch.stack([hessian[i, :, i] for i in range(5)])
    excess = person.excess(latent, answer, weight)
    found = root @ root.mT - excess.unsqueeze(-1) * excess.unsqueeze(-2)
    torch.testing.assert_close(found, -hessian, atol=1e-10, rtol=1e-8)
    turned = torch.autograd.functional.jacobian(curvature, latent).permute(2, 3, 0, 1)
    torch.testing.assert_close(third, -turned, atol=1e-8, rtol=1e-7)
    assert bool((excess.abs() > 1e-3).any()) == ((lapse > 0.01 and size > 2.0) or lapse == 0.5)
    far = AnnotatedLikelihood(kind, 1e6 * one, offset, lapse * one, num_answers=4)
    parts = far.log_prob(latent, answer, one), *far.derivatives(latent, answer, one)
    assert all(bool(part.isfinite().all()) for part in parts)


@every_link
@QUICK
@given(st.floats(-20.0, 20.0), st.floats(0.05, 5.0), st.floats(0.01, 10.0))
def test_intervals_are_log_concave(link: Any, at: float, width: float, step: float) -> None:
    """The log chance in the middle of two places is at least the mean of those there."""
    places = torch.tensor([at - step, at, at + step], dtype=torch.double)
    lower = torch.full_like(places, -width / 2)
    one = torch.ones_like(places)
    before, here, after = IntervalLikelihood(link, lower, -lower).log_prob(places, one, one)
    assert float(here - 0.5 * (before + after)) >= -1e-12 * float(1.0 + here.abs())


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_one_typical_annotator_is_the_pooled_model(inference: Any) -> None:
    data = duels(5, people=1)
    model = PreferenceGP(X, data, covar_module=make_kernel(2), inference=inference)
    pooled = PreferenceGP(X, data.pooled(), covar_module=make_kernel(2), inference=inference)
    with torch.no_grad():
        model.learnt["annotators"].typical_logit_lapse.fill_(-45.0)
    assert_same_posterior(model.posterior(POINTS), pooled.posterior(POINTS), atol=1e-6)


# ------------------------------------------------------------------- annotators in a model


def test_who_is_reliable_and_who_prefers_the_first_is_learnt() -> None:
    generator = torch.Generator().manual_seed(0)
    number, items = 1200, rand(12, 2, seed=2)
    rows = torch.rand(number, 12, generator=generator).argsort(-1)[:, :2]
    who = torch.arange(number) % 4
    size = torch.tensor([3.0, 1.0, 0.3, 1.0]).double()[who]
    offset = torch.tensor([0.0, 0.0, 0.0, 1.5]).double()[who]
    f = utility(items)
    value = size * (f[rows[:, 0]] - f[rows[:, 1]]) + offset
    chance = torch.rand(number, generator=generator, dtype=torch.double)
    wins = (chance < torch.sigmoid(value)).double()
    model = PreferenceGP(items, Comparisons(items, rows, wins, torch.ones_like(wins), who))
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    table = model.annotators
    assert [*table.index] == [0, 1, 2, 3, "typical"]
    assert table.loc[0, "reliability"] > 1.6 * table.loc[1, "reliability"]
    assert table.loc[2, "reliability"] < 0.6 * table.loc[1, "reliability"]
    assert abs(table.loc[3, "offset"] - 1.5) < 3 * table.loc[3, "offset_error"]
    assert bool((table.loc[[0, 1, 2, 3], "offset_error"] < 0.4).all())
    pair = items[[0, 1]]
    own = model.win_probability(pair.expand(4, 2, 2), torch.tensor([0, 1, 2, 3]))
    new = [model.win_probability(pair, torch.tensor(who)) for who in (4, 9)]
    assert torch.equal(*new)  # new ones are typical
    by_hand = table.loc[3, ["reliability", "offset", "lapse"]].tolist()
    given = AnnotatedLikelihood(model.likelihood, *torch.tensor(by_hand).double())
    mean, variance = model.difference_moments(pair)
    torch.testing.assert_close(own[3], given.expected_probability(mean, variance))
    swapped = model.win_probability(pair.flip(0), torch.tensor(3))
    assert (own[3] + swapped).item() > 1.1  # the first is preferred
    both = model.win_probability(pair) + model.win_probability(pair.flip(0))
    assert both.item() == pytest.approx(1.0)


def test_annotators_of_a_batch_of_models_are_those_of_each() -> None:
    data, pair = duels(), rand(5, 2, 2, seed=3)
    expanded = data.expand(torch.Size([2]))
    both = PreferenceGP(expanded.datapoints, expanded, covar_module=make_kernel(2))
    with torch.no_grad():
        both.learnt["annotators"].log_reliability.copy_(torch.tensor([[0.5, 0, -1], [0, 1, 0.2]]))
        both.learnt["annotators"].typical_offset.copy_(torch.tensor([[0.3], [-0.4]]))
    who = torch.tensor([0, 1, 2, -1, 7])
    evidence, together = both.log_evidence(), both.win_probability(pair[:, None], who[:, None])
    for i in range(2):
        one = PreferenceGP(X, data, covar_module=make_kernel(2))
        for name, value in both.learnt["annotators"].named_parameters():
            dict(one.learnt["annotators"].named_parameters())[name].data.copy_(value[i])
        torch.testing.assert_close(one.log_evidence(), evidence[i])
        torch.testing.assert_close(one.win_probability(pair, who), together[:, i])


@pytest.mark.parametrize("inference", ["laplace", "ep"])
def test_other_answers_of_people_in_a_batch_of_models_are_those_of_each(inference: Any) -> None:
    parts = [favourites(people=2), rankings(people=2), grades(people=2)]
    both = make(*(part.expand(torch.Size([2])) for part in parts), inference=inference)
    evidence, posterior = both.log_evidence(), both.posterior(POINTS)
    for i in range(2):
        one = make(*parts, inference=inference)
        for name, value in both.learnt.named_parameters():
            dict(one.learnt.named_parameters())[name].data.copy_(value[i])
        torch.testing.assert_close(one.log_evidence(), evidence[i])
        own = one.posterior(POINTS)
        torch.testing.assert_close(own.mean, posterior.mean[i], atol=1e-6, rtol=0)
        covariance = posterior.covariance_matrix[i]
        torch.testing.assert_close(own.covariance_matrix, covariance, atol=1e-6, rtol=0)


def test_more_answers_of_known_new_and_unknown_people() -> None:
    model = make(data=duels())
    pair, one = X[:2].unsqueeze(0), torch.ones(1)
    effects = model.learnt["annotators"]
    with torch.no_grad():
        effects.typical_offset.fill_(2.0)
    new = model.with_comparisons(model.data.append(pair, one, torch.tensor([9])))
    assert [*new.annotators.index] == [*model.annotators.index]
    # Of unknown ones the order is unknown, too: the same answer is the same, whichever way.
    first = model.condition_on_pairs(pair, one)
    second = model.condition_on_pairs(pair.flip(1), 1 - one)
    assert_same_posterior(first.posterior(POINTS), second.posterior(POINTS))
    rows = model.condition_on_observations(X[:2], torch.tensor([[0, 1]]))
    assert rows.posterior(POINTS).mean.isfinite().all()
    model.set_train_data(X, duels().pooled())
    with pytest.raises(ComparisonDataError, match="no annotators now"):
        _ = model.annotators


def test_priors_are_drawn_from_where_a_fit_is_tried_again() -> None:
    model = make(grades(), data=duels())
    mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
    model.covar_module = ScaleKernel(RBFKernel()).double()  # without priors
    sample_all_priors(model)
    drawn = [value.clone() for value in model.learnt.parameters()]
    sample_all_priors(model)
    assert not any(
        torch.equal(*both) for both in zip(drawn, model.learnt.parameters(), strict=True)
    )
    fit_gpytorch_mll(mll, pick_best_of_all_attempts=True, max_attempts=2)
    assert model.log_evidence().isfinite()


def test_errors_of_annotators_are_by_the_curvature() -> None:
    model = make(data=duels(40))
    effects, table = model.learnt["annotators"], model.annotators
    f = model.posterior(X).mean.squeeze(-1).detach()

    def total(own: Tensor) -> Tensor:
        size, offset, lapse = own[0].exp(), own[1], own[2].sigmoid()
        data, mine = model.data, model.data.annotator == 1
        i, j = data.pairs[mine].unbind(-1)
        value = size * (f[i] - f[j]) + offset
        value = torch.where(data.wins[mine] == 1, value, -value)
        chance = (1 - lapse) * torch.sigmoid(value) + lapse / 2
        prior = (
            (own[0] / 0.5) ** 2 + ((own[1] - typical[1]) / 0.5) ** 2 + (own[2] - typical[2]) ** 2
        )
        return chance.log().sum() - prior / 2

    size, offset, lapse = (value.detach() for value in effects.values())
    typical = [size[-1].log(), offset[-1], lapse[-1].logit()]
    at = torch.stack([size[1].log(), offset[1], lapse[1].logit()])
    errors = torch.linalg.inv(-torch.autograd.functional.hessian(total, at)).diagonal().sqrt()
    errors = errors * torch.stack([size[1], torch.ones(()), lapse[1] * (1 - lapse[1])])
    found = table.loc[1, ["reliability_error", "offset_error", "lapse_error"]].tolist()
    assert found == pytest.approx(errors.tolist(), rel=1e-8)


def test_copies_pickles_and_more_answers_keep_what_was_learnt() -> None:
    model = make(grades(), ratings(), data=duels())
    expected = model.posterior(POINTS)
    assert_same_posterior(copy.deepcopy(model).posterior(POINTS), expected)
    assert_same_posterior(pickle.loads(pickle.dumps(model)).posterior(POINTS), expected)
    fresh = PreferenceGP(X, duels(), choices=[grades(), ratings()], covar_module=make_kernel(2))
    fresh.load_state_dict(model.state_dict())
    assert_same_posterior(fresh.posterior(POINTS), expected)
    more = model.condition_on_pairs(X[:2].unsqueeze(0), torch.ones(1))
    assert more.num_observations == model.num_observations + 1
    stored = io.BytesIO()
    torch.save(model, stored)
    assert stored.tell() > 0


def test_fantasies_of_graded_duels_are_a_batch() -> None:
    model = make(grades(), data=duels())
    sampler = SobolQMCNormalSampler(torch.Size([3]), seed=0)
    fantasies = model.fantasize(rand(2, 2, 2, seed=4), sampler)
    assert fantasies.posterior(POINTS).mean.shape == (3, 2, 3, 1)


def test_fitting_learns_everything() -> None:
    X, rows = make_duels(8, 30, 2)
    data = Comparisons.from_comparisons(X, rows)
    model = PreferenceGP(None, None, choices=[Grades.of_ties(data)])
    before = model.log_evidence().item()
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    assert model.log_evidence().item() > before
    # There were no ties, so the width of indifference is smaller than its prior's.
    assert model.learnt["choices[0]"].log_gap.item() < -0.2


# ------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("message", "build"),
    [
        ("`items` row 1 .*has an item once", lambda: Rankings(X, torch.tensor([[0, 1], [2, 2]]))),
        ("`num_best`", lambda: rankings(num_best=3, num_worst=2)),
        ("`num_best`", lambda: rankings(num_best=0)),
        ("at least 2 items", lambda: Rankings(X, torch.tensor([[0]]))),
        ("`tied`", lambda: rankings(tied=torch.zeros(5, 3))),
        ("`grade` row 1 is 5.*0 to 4", lambda: Grades(X, pairs(2), torch.tensor([0, 5]), 5)),
        ("`grade` row 0 is -1", lambda: Grades(X, pairs(1), torch.tensor([-1]), 5)),
        ("`num_grades`", lambda: Grades(X, pairs(1), torch.tensor([0]), 1)),
        ("with itself", lambda: Grades(X, torch.tensor([[1, 1]]), torch.tensor([0]), 3)),
        ("`rating` row 0", lambda: Ratings(X, torch.tensor([1]), torch.tensor([4]), 4)),
        ("`first` row 1 is 4.*0 to 3", lambda: rankings(first=torch.tensor([0, 4, 0, 1, 2]))),
        ("`first`", lambda: rankings(first=torch.zeros(5))),
        ("`items` row 0", lambda: Ratings(X, torch.tensor([9]), torch.tensor([0]), 4)),
        (
            "`annotator` row 0",
            lambda: Ratings(X, torch.tensor([1]), torch.tensor([0]), 4, torch.tensor([-2])),
        ),
        ("`tied` row 0", lambda: rankings(num_best=2, tied=torch.ones(5, 3).bool())),
        ("`annotator` goes up to 4000", lambda: make(data=_numbered(4000))),
        ("`annotator` has shape", lambda: make(data=duels()).win_probability(X[:2], torch.ones(3))),
        (
            "`annotator` must be of an integer",
            lambda: make(data=duels()).win_probability(X[:2], ONE),
        ),
        ("`annotator` row 0 is -5", lambda: make(data=duels()).win_probability(X[:2], -5 * LONG)),
        ("annotators", lambda: make(data=duels(people=None)).annotators),
        ("annotators", lambda: make().win_probability(X[:2], torch.tensor(0))),
    ],
)
def test_bad_answers_are_refused_by_name(message: str, build: Any) -> None:
    with pytest.raises(ComparisonDataError, match=message):
        build()


def test_what_cannot_be_learnt_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="inducing_points"):
        make(grades(), inducing_points=3).log_evidence()
    assert make(grades(), inducing_points=500).posterior(POINTS).mean.isfinite().all()
    exact = make(grades()).posterior(POINTS)
    found = make(grades(), inducing_points=grades().datapoints).posterior(POINTS)
    torch.testing.assert_close(found.mean, exact.mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.variance, exact.variance, rtol=1e-5, atol=1e-6)
    with pytest.raises(UnsupportedError, match="variance"):
        make(data=duels(), variance=4.0)
    with pytest.raises(UnsupportedError, match="held out"):
        pairwise_cross_validation(make(data=duels()))
    with pytest.raises(UnsupportedError, match="sampled"):
        FullyBayesianPreferenceGP(X, duels())
    merged = Comparisons.from_comparisons(X, torch.tensor([[0, 1], [0, 1]])).merged()
    with pytest.raises(UnsupportedError, match="one answer"):
        Grades.of_ties(merged)


def test_an_error_that_the_curvature_does_not_tell_is_none() -> None:
    """All answers contradict the differences, where the likelihood is not log-concave."""
    effects, none = AnnotatorEffects(1, torch.Size()), torch.zeros(200, dtype=torch.double)
    who, gap = torch.zeros(200, dtype=torch.long), torch.full_like(none, 6.0)
    rows = torch.tensor([[0, 1]]).expand(200, 2)

    def log_prob(people: People) -> Tensor:
        data = Comparisons(X, rows, none, none + 1.0, who)
        [block] = data.blocks(LogitLikelihood())
        told = people.told(data, block).likelihood
        return told.log_prob(gap, none, none + 1.0).sum()

    table = effects.table(log_prob)
    assert table.loc[0, ["reliability_error", "offset_error", "lapse_error"]].isna().all()
    assert (table.loc["typical"] >= 0).all()


@torch.no_grad()
def test_searches_with_lapses_converge_as_quickly_as_without() -> None:
    """With what is not log-concave steps count curvature below zero; else they were over 20."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(12, 2, generator=generator).double()
    pairs = torch.randint(12, (900, 2), generator=generator)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    utility = 9.0 * X.sum(-1)
    wins = (utility[pairs[:, 0]] > utility[pairs[:, 1]]).double()
    lapsed = torch.rand(len(pairs), generator=generator) < 0.2
    wins[lapsed] = 1.0 - wins[lapsed]
    who = torch.randint(2, (len(pairs),), generator=generator)
    model = PreferenceGP(X, Comparisons(X, pairs, wins, torch.ones_like(wins), who))
    model.covar_module.outputscale = 50.0
    model.learnt["annotators"].typical_logit_lapse.fill_(-1.5)
    system = model.system(model.transformed_items(), model.observed())
    assert isinstance(system, PrimalSystem)
    mode = find_mode(system)
    assert mode.state.curvature.excess.max() > 0.01
    assert bool(mode.converged)
    assert int(mode.num_steps) <= 12
    assert float(mode.state.distance) < 1e-10
