"""Expectation propagation against closed forms, quadrature and a sequential implementation."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from torch.autograd import gradcheck

from botorch_pref.data.blocks import DUEL, ITEM, Block
from botorch_pref.exceptions import LaplaceConvergenceWarning, UnsupportedError
from botorch_pref.inference.expectation_propagation import ep_evidence, ep_posterior, find_sites
from botorch_pref.inference.laplace import laplace_posterior, log_evidence
from botorch_pref.inference.observations import Observations
from botorch_pref.inference.systems import DualSystem, PrimalSystem, choose_system
from botorch_pref.likelihoods import (
    AnnotatedLikelihood,
    LogitLikelihood,
    ProbitLikelihood,
    SoftmaxLikelihood,
    StandardNormal,
)

SYSTEMS = (DualSystem, PrimalSystem)


def tensor(values):
    return torch.tensor(values, dtype=torch.double)


def random_covariance(num_items, seed, scale=1.0):
    root = torch.randn(num_items, num_items, generator=torch.Generator().manual_seed(seed)).double()
    return scale * (root @ root.T / num_items + 0.1 * torch.eye(num_items))


def random_duels(num_items, num_rows, seed, link=None, weight=None, answers=(1.0, 0.0)):
    generator = torch.Generator().manual_seed(seed)
    items = torch.stack(
        [torch.randperm(num_items, generator=generator)[:2] for _ in range(num_rows)]
    )
    chosen = torch.randint(len(answers), (num_rows,), generator=generator)
    weight = torch.ones(num_rows).double() if weight is None else weight
    return Block(items, DUEL, tensor(answers)[chosen], weight, link or LogitLikelihood())


def system_of(covariance, *blocks, prior=None, system=None):
    observations = Observations(blocks, covariance.shape[-1])
    covariance = covariance + 1e-8 * torch.eye(covariance.shape[-1])
    prior = torch.zeros(observations.num_rows).double() if prior is None else prior
    return (system or choose_system)(covariance, prior, observations)


def mixed_blocks(num_items, num_duels, seed):
    """Duels, of which some are ties and some repeated, values with one padded row, labels."""
    weight = tensor([1.0, 3.0, 1.0, 40.0] * num_duels)[:num_duels]
    return (
        random_duels(num_items, num_duels, seed, weight=weight, answers=(1.0, 0.0, 0.5)),
        Block(torch.tensor([[0], [3]]), ITEM, tensor([0.3, -1.0]), tensor([2.0, 0.0]), NORMAL),
        Block(torch.tensor([[1], [4]]), ITEM, tensor([1.0, 0.0]), tensor([1.0, 1.0]), PROBIT),
    )


NORMAL, PROBIT = StandardNormal(), ProbitLikelihood(0.7)


def choices(items, favourite, weight=None, scale=1.0):
    """Of the best item of each row."""
    identity = tuple(map(tuple, torch.eye(len(items[0])).tolist()))
    weight = torch.ones(len(items)).double() if weight is None else tensor(weight)
    likelihood = SoftmaxLikelihood(scale)
    return Block(torch.tensor(items), identity, tensor(favourite), weight, likelihood)


CHOICES = choices([[0, 1, 2], [3, 4, 1]], [2.0, 0.0], [1.0, 2.0], scale=1.3)


# One row: the tilted distribution is the posterior, and its mass the evidence.

LINKS = {
    "logit": LogitLikelihood(),
    "probit": ProbitLikelihood(2**-0.5),
    "steep": LogitLikelihood(9.0),
}


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(
    ("answer", "weight"), [(1, 1), (0, 1), (0.5, 1), (1, 400), (0.5, 400), (0.875, 32)]
)
@pytest.mark.parametrize("variance", [1e-4, 0.3, 4.0, 12.0, 50.0, 1e4])
@pytest.mark.parametrize("mean", [0.0, 3.0, -20.0])
def test_one_row_has_the_moments_of_its_integral(link, answer, weight, variance, mean):
    likelihood = LINKS[link]
    block = Block(torch.tensor([[0]]), ITEM, tensor([answer]), tensor([weight]), likelihood)
    system = DualSystem(tensor([[variance]]), tensor([mean]), Observations([block], 1))
    sites = find_sites(system)
    assert bool(sites.converged)
    latent, spread = float(sites.latent), float(1.0 / (1.0 / variance + sites.precision)) ** 0.5

    def log_density(h):
        own = likelihood.log_prob(torch.as_tensor(h), tensor(answer), tensor(weight)).numpy()
        return own + stats.norm.logpdf(h, mean, variance**0.5)

    # A trapezoidal rule, whose points are dense around the mean and reach far out.
    z = np.linspace(-1.0, 1.0, 20_001)
    h = latent + spread * 40.0 * np.sinh(6.0 * z) / np.sinh(6.0)
    logs = log_density(h) + np.log(spread * 240.0 * np.cosh(6.0 * z) / np.sinh(6.0) * (z[1] - z[0]))
    mass = special.logsumexp(logs)
    density = np.exp(logs - mass)
    expected = density @ h
    deviation = (density @ (h - expected) ** 2) ** 0.5
    assert float(sites.log_evidence) == pytest.approx(mass, rel=1e-8, abs=1e-8)
    assert abs(latent - expected) <= 2e-6 * deviation
    assert spread == pytest.approx(deviation, rel=2e-6)


@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize(("variance", "weight"), [(4.0, 20), (50.0, 20), (400.0, 4), (1e4, 400)])
def test_sites_are_found_from_far_away(link, variance, weight):
    """Where answers contradict the prior, Newton's method for the mode overshoots."""
    block = Block(torch.tensor([[0]]), ITEM, tensor([1.0]), tensor([weight]), LINKS[link])
    system = DualSystem(tensor([[variance]]), tensor([-20.0]), Observations([block], 1))
    sites, near = find_sites(system, start=tensor([[1e-6], [0.0]])), find_sites(system)
    assert bool(sites.converged)
    torch.testing.assert_close(sites.log_evidence, near.log_evidence, rtol=1e-8, atol=1e-8)
    torch.testing.assert_close(sites.stacked, near.stacked, rtol=1e-4, atol=1e-8)


# Several rows: a sequential implementation for the probit link, which shares no code.


def sequential_ep(covariance, signs, sweeps=200):
    """Rasmussen and Williams 2006, algorithm 3.5, for ``Phi(sign * f)``."""
    size = len(signs)
    precision, shift = np.zeros(size), np.zeros(size)
    for _ in range(sweeps):
        for i in range(size):
            sigma = np.linalg.solve(np.eye(size) + covariance * precision, covariance)
            mean = sigma @ shift
            v = 1.0 / (1.0 / sigma[i, i] - precision[i])
            m = v * (mean[i] / sigma[i, i] - shift[i])
            z = signs[i] * m / np.sqrt(1.0 + v)
            ratio = np.exp(stats.norm.logpdf(z) - stats.norm.logcdf(z))
            new_mean = m + signs[i] * v * ratio / np.sqrt(1.0 + v)
            new_variance = v - v**2 * ratio * (z + ratio) / (1.0 + v)
            precision[i], shift[i] = 1 / new_variance - 1 / v, new_mean / new_variance - m / v
    sigma = np.linalg.solve(np.eye(size) + covariance * precision, covariance)
    mean, var = sigma @ shift, sigma.diagonal()
    v = 1.0 / (1.0 / var - precision)
    m = v * (mean / var - shift)
    mass = stats.norm.logcdf(signs * m / np.sqrt(1.0 + v))
    # The normaliser of each site is found from N(m, v + 1 / precision) at its own mean.
    own = shift / precision
    log_sites = mass - stats.norm.logpdf(own, m, np.sqrt(v + 1.0 / precision))
    total = stats.multivariate_normal.logpdf(own, cov=covariance + np.diag(1.0 / precision))
    return precision, shift, total + log_sites.sum()


@pytest.mark.parametrize("system", SYSTEMS)
def test_sites_and_evidence_of_sequential_updates(system):
    covariance = random_covariance(6, seed=0, scale=3.0)
    block = random_duels(6, 5, seed=1, link=ProbitLikelihood())
    found = find_sites(system_of(covariance, block, system=system))
    differences = torch.zeros(5, 6).double()
    differences[torch.arange(5), block.items[:, 0]] = 1.0
    differences[torch.arange(5), block.items[:, 1]] = -1.0
    covariance = covariance + 1e-8 * torch.eye(6)
    gram = differences @ covariance @ differences.T
    precision, shift, evidence = sequential_ep(gram.numpy(), 2 * block.answer.numpy() - 1)
    np.testing.assert_allclose(found.precision, precision, rtol=1e-5)
    np.testing.assert_allclose(found.shift, shift, rtol=1e-5)
    assert float(found.log_evidence) == pytest.approx(evidence, rel=1e-9)


def test_values_are_a_regression():
    covariance, values = random_covariance(5, seed=2), tensor([0.4, -1.0, 2.0])
    noise = 0.3
    # In units of the noise: the latent value is `(f - y) / noise`, with answer 0.
    block = Block(
        torch.tensor([[0], [2], [4]]), ITEM, values / noise, torch.ones(3).double(), NORMAL
    )
    scaled = covariance / noise**2
    system = system_of(scaled, block)
    value, _ = ep_evidence(system)
    gram = (scaled + 1e-8 * torch.eye(5))[::2, ::2].numpy() + np.eye(3)
    expected = stats.multivariate_normal.logpdf(values.numpy() / noise, cov=gram)
    assert float(value) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("more", [(), (CHOICES,)], ids=["", "choices"])
@pytest.mark.parametrize("num_duels", [2, 9])
def test_dual_and_primal_system_agree(num_duels, more):
    covariance = random_covariance(6, seed=3, scale=5.0)
    blocks = (*mixed_blocks(6, num_duels, 4), *more)
    prior = torch.linspace(-1, 1, num_duels + 4 + 6 * len(more)).double()
    dual, primal = (
        find_sites(system_of(covariance, *blocks, prior=prior, system=system)) for system in SYSTEMS
    )
    torch.testing.assert_close(dual.stacked, primal.stacked, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(dual.log_evidence, primal.log_evidence, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("more", [(), (CHOICES,)], ids=["", "choices"])
@pytest.mark.parametrize("system", SYSTEMS)
def test_gradients_are_those_of_differences(system, more):
    duels, values, labels = mixed_blocks(5, 2, seed=5)
    blocks = (duels, values, *(more or [labels]))
    # One direction each: a gradient of every entry would take as long and tell no more.
    generator = torch.Generator().manual_seed(6)
    root, slope = torch.randn(2, 5, 5, generator=generator, dtype=torch.double)
    prior = torch.linspace(-0.4, 0.5, 10 if more else 6).double()
    point = torch.zeros(2).double().requires_grad_()

    def at(point):
        moved = root + point[0] * slope
        covariance = moved @ moved.T + 0.1 * torch.eye(5)
        return covariance, system_of(covariance, *blocks, prior=prior + point[1], system=system)

    def posterior(point, weight=None):
        covariance, own = at(point)
        found = ep_posterior(own, weight)
        columns = own.columns(covariance)
        explained = columns @ found.gamma @ columns.mT
        return (columns @ found.weights).sin().sum() + explained.cos().sum()

    options = {"eps": 1e-4, "atol": 1e-5, "rtol": 1e-5, "check_undefined_grad": not more}
    assert gradcheck(lambda x: ep_evidence(at(x)[1])[0], point, **options)
    assert gradcheck(posterior, point, **options)
    assert gradcheck(lambda x: posterior(x, torch.ones_like(prior)), point, **options)


def test_a_batch_is_its_elements():
    covariance = torch.stack(
        [random_covariance(6, seed, scale) for seed, scale in enumerate([0.1, 9.0])]
    )
    blocks = [random_duels(6, 8, seed) for seed in (7, 8)]
    items, answers = (
        torch.stack([getattr(b, name) for b in blocks]) for name in ("items", "answer")
    )
    both = Block(items, DUEL, answers, torch.ones(2, 8).double(), LogitLikelihood())
    found = find_sites(system_of(covariance, both, prior=torch.zeros(2, 8).double()))
    for i in range(2):
        single = find_sites(system_of(covariance[i], blocks[i]))
        torch.testing.assert_close(found.stacked[i], single.stacked, rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(found.log_evidence[i], single.log_evidence, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 1000), st.floats(-2, 3))
@settings(max_examples=15, deadline=None)
def test_swapped_and_permuted_rows_are_the_same(seed, log_scale):
    covariance = random_covariance(5, seed, scale=10**log_scale)
    block = random_duels(5, 7, seed)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(seed))
    swapped = Block(
        block.items.flip(-1)[order], DUEL, 1.0 - block.answer[order], block.weight, block.likelihood
    )
    first, second = (find_sites(system_of(covariance, own)) for own in (block, swapped))
    torch.testing.assert_close(first.precision[order], second.precision, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(first.shift[order], -second.shift, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(first.log_evidence, second.log_evidence, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("case", ["unanimous", "contradictory", "separable", "random"])
def test_hard_data_converge(scale, case):
    """Every warning is an error."""
    items = torch.linspace(0, 1, 30).double()
    covariance = scale * torch.exp(-0.5 * ((items[:, None] - items) / 0.3) ** 2)
    block = random_duels(30, 60, seed=9)
    if case == "separable":
        block = Block(
            block.items.sort(-1).values,
            DUEL,
            torch.ones(60).double(),
            block.weight,
            block.likelihood,
        )
    elif case != "random":
        answer = torch.ones(60).double() if case == "unanimous" else torch.arange(60).double() % 2
        block = Block(torch.tensor([[3, 20]] * 60), DUEL, answer, block.weight, block.likelihood)
    sites = find_sites(system_of(covariance, block, system=DualSystem))
    assert bool(sites.converged)
    assert bool((sites.precision >= 0).all())
    assert float(sites.log_evidence) < 0


@pytest.mark.parametrize("scale", [1e-2, 1.0, 1e2, 1e4])
@pytest.mark.parametrize("case", ["unanimous", "contradictory", "ranked", "random"])
def test_hard_choices_converge(scale, case):
    items = torch.linspace(0, 1, 12).double()
    covariance = scale * torch.exp(-0.5 * ((items[:, None] - items) / 0.3) ** 2)
    generator = torch.Generator().manual_seed(15)
    shown = torch.stack([torch.randperm(12, generator=generator)[:4] for _ in range(20)])
    favourite = torch.randint(4, (20,), generator=generator)
    if case == "ranked":
        favourite = shown.argmax(-1)
    elif case != "random":
        shown = torch.tensor([[1, 4, 8, 10]] * 20)
        favourite = torch.zeros(20) if case == "unanimous" else torch.arange(20) % 4
    block = choices(shown.tolist(), favourite.tolist())
    for system in SYSTEMS:
        sites = find_sites(system_of(covariance, block, system=system))
        assert bool(sites.converged)
        assert float(sites.log_evidence) < 0


def test_a_start_nearby_saves_steps(monkeypatch):
    covariance, block = random_covariance(12, seed=10, scale=9.0), random_duels(12, 10, seed=11)
    first = find_sites(system_of(covariance, block))
    again = find_sites(system_of(1.01 * covariance, block), start=first.stacked, max_steps=6)
    new = find_sites(system_of(1.01 * covariance, block))
    torch.testing.assert_close(again.log_evidence, new.log_evidence, rtol=1e-10, atol=1e-10)


def test_what_does_not_converge_is_said():
    covariance, block = random_covariance(12, seed=10, scale=99.0), random_duels(12, 10, seed=11)
    with pytest.warns(LaplaceConvergenceWarning, match="did not converge for 1 of 1 models"):
        sites = find_sites(system_of(covariance, block), max_steps=1)
    assert not bool(sites.converged)


# Choices: the largest noisy utility as one more latent value, with a wide prior.


class Level:
    """``exp(-first z - exp(-z))``, written out for one row."""

    has_bounded_score = True
    scale = 2.0

    def __init__(self, first):
        self.first = first

    def log_prob(self, latent, answer, weight):
        return -weight * (self.first * latent + torch.exp(-latent.clamp_min(-300)))

    def derivatives(self, latent, answer, weight):
        fall = weight * torch.exp(-latent.clamp_min(-300))
        return fall - weight * self.first, fall, fall


def with_levels(covariance, items, favourite, wide=1e7):
    """The system of an item more a choice, and what its evidence lacks."""
    n, (m, k) = len(covariance), items.shape
    level = n + torch.arange(m)
    joint = torch.block_diag(covariance, wide * torch.eye(m).double())
    blocks, ones = [], torch.ones(m).double()
    for j in range(k):
        for first in (0.0, 1.0):
            weight = (favourite.long() == j).double() if first else 1.0 - (favourite == j).double()
            pair = torch.stack([level, items[:, j]], -1)
            blocks.append(Block(pair, DUEL, ones, weight, Level(first)))
    system = system_of(joint, *blocks, system=PrimalSystem)
    return system, 0.5 * m * np.log(2 * np.pi * wide)


@pytest.mark.parametrize("scale", [1.0, 30.0])
@pytest.mark.parametrize("size", [2, 4])
def test_choices_are_rows_of_the_largest_noisy_utility(scale, size):
    covariance = random_covariance(7, seed=12, scale=scale) + 1e-8 * torch.eye(7)
    generator = torch.Generator().manual_seed(13)
    items = torch.stack([torch.randperm(7, generator=generator)[:size] for _ in range(5)])
    favourite = torch.randint(size, (5,), generator=generator).double()
    block = choices(items.tolist(), favourite.tolist())
    found = ep_posterior(system_of(covariance, block, system=PrimalSystem))
    system, lacking = with_levels(covariance, items, favourite)
    expected = ep_posterior(system)
    torch.testing.assert_close(found.weights, expected.weights[:7], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(found.gamma, expected.gamma[:7, :7], rtol=1e-4, atol=1e-5)
    evidence = float(expected.mode.log_evidence) + lacking
    assert float(found.mode.log_evidence) == pytest.approx(evidence, abs=1e-5)


@pytest.mark.parametrize("scale", [4.0, 16.0, 64.0])
@pytest.mark.parametrize(("people", "lapse"), [(None, 0.0), ((0.5, 3.0), 1e-12), ((0.5, 3.0), 0.2)])
def test_choices_beside_quadrature(scale, people, lapse):
    """Two choices among three items, whose utilities have a grid, of two people."""
    covariance = scale * torch.eye(3).double()
    block = choices([[0, 1, 2], [1, 2, 0]], [0.0, 2.0])
    sizes, places = people or (1.0, 1.0), np.zeros((2, 3))
    if people is not None:
        places[:, 0] = 0.7, -0.4  # for the first
        own = AnnotatedLikelihood(
            block.likelihood, tensor(people), tensor(places), tensor([lapse] * 2), num_answers=3
        )
        block = dataclasses.replace(block, likelihood=own)
    system = system_of(covariance, block)
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    f = np.stack(np.meshgrid(nodes, nodes, nodes, indexing="ij")) * scale**0.5
    mass = np.einsum("i,j,k->ijk", weights, weights, weights) / weights.sum() ** 3
    asked = zip(sizes, places, ([0, 1, 2], [1, 2, 0]), (0, 2), strict=True)
    for size, place, items, chosen in asked:
        values = size * f[items] + place[:, None, None, None]
        chance = np.exp(values[chosen] - special.logsumexp(values, axis=0))
        mass *= (1 - lapse) * chance + lapse / 3
    expected = (mass * special.expit(f[0] - f[1])).sum() / mass.sum()
    errors, columns = [], system.columns(tensor([[1.0, -1.0, 0.0]]) @ covariance)
    for posterior, evidence in ((laplace_posterior, log_evidence), (ep_posterior, ep_evidence)):
        found = posterior(system)
        variance = 2 * scale - (columns @ found.gamma * columns).sum(-1)
        chance = LogitLikelihood().expected_probability(columns @ found.weights, variance)
        log_mass = float(evidence(system)[0])
        if posterior is ep_posterior and lapse < 0.1:  # whose evidence there would be
            log_mass = float(found.mode.log_evidence)
        errors.append((abs(float(chance) - expected), abs(log_mass - np.log(mass.sum()))))
    if lapse > 0.1:  # how likely an answer was by chance is not found by expectation propagation
        assert errors[1][0] < 0.25 * errors[0][0]
        return
    assert errors[1][0] < 0.2 * errors[0][0]
    assert errors[1][1] < 0.12
    if people is None:  # else Laplace's errors, of either sign, may cancel out
        assert errors[1][1] < 0.7 * errors[0][1]


def test_weights_of_choices_are_repetitions():
    covariance = random_covariance(5, seed=14, scale=9.0)
    once = choices([[0, 1, 2], [3, 4, 1]], [2.0, 0.0], [1.0, 3.0])
    repeated = choices([[0, 1, 2], *[[3, 4, 1]] * 3], [2.0, 0.0, 0.0, 0.0])
    first, second = (ep_posterior(system_of(covariance, own)) for own in (once, repeated))
    columns = [found.system.columns(covariance) for found in (first, second)]
    torch.testing.assert_close(
        columns[0] @ first.weights, columns[1] @ second.weights, rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(
        first.mode.log_evidence, second.mode.log_evidence, rtol=1e-7, atol=1e-7
    )


class Unknown:
    """A likelihood of several latent values that is no choice."""

    has_bounded_score = True


def test_other_answers_of_several_values_are_refused():
    block = dataclasses.replace(CHOICES, likelihood=Unknown())
    with pytest.raises(UnsupportedError, match="Unknown"):
        find_sites(system_of(random_covariance(5, seed=0), block))
