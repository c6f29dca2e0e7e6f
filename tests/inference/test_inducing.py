"""Inference through inducing items against dense matrices and against the exact systems."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from botorch_pref.inference import (
    Block,
    InducingSystem,
    Observations,
    choose_system,
    find_mode,
    inducing,
    laplace_posterior,
    log_evidence,
)
from botorch_pref.inference.inducing import draw_weights
from botorch_pref.likelihoods import StandardNormal
from tests.inference.common import (
    LABEL,
    LINKS,
    assert_equal,
    duels,
    labels,
    likelihood,
    make,
    matern,
    rand,
    randn,
)
from tests.inference.inducing import Dense, inducing_side

N, M, P = 12, 30, 7
X, Z, POINTS = rand(N, 2, seed=1), rand(P, 2, seed=5), rand(5, 2, seed=9)
MEAN = randn(N, seed=3)
ZERO = torch.zeros(5, dtype=torch.float64)


def predictions(system: InducingSystem, weight: Tensor | None = None) -> tuple[Tensor, Tensor]:
    nodes = system.kernel.inputs[1]
    return laplace_posterior(system, weight).predict(ZERO, matern(POINTS), matern(POINTS, nodes))


@pytest.mark.parametrize(("link", "scale"), LINKS)
class TestDense:
    def test_mode_evidence_and_posterior(self, link: str, scale: float) -> None:
        observations = make(X, M, 6, link=likelihood(link, scale))
        dense = Dense(X, Z, observations, MEAN, link, scale)
        value, mode = log_evidence(inducing_side(X, Z, observations, MEAN))
        assert bool(mode.converged)
        assert_equal(mode.latent, dense.fitted.differences, 1e-10)
        assert_equal(value, dense.log_evidence, 1e-10)
        mean, covariance = predictions(inducing_side(X, Z, observations, MEAN))
        expected = dense.predict(POINTS)
        assert_equal(mean, expected[0], 1e-9)
        assert_equal(covariance, expected[1], 1e-9)

    def test_answer_free_covariance(self, link: str, scale: float) -> None:
        observations = make(X, M, link=likelihood(link, scale))
        weight = observations.weight / 0.7
        dense = Dense(X, Z, observations, MEAN, link, scale)
        mean, covariance = predictions(inducing_side(X, Z, observations, MEAN), weight)
        assert_equal(mean, dense.predict(POINTS)[0], 1e-9)
        assert_equal(covariance, dense.answer_free(POINTS, weight), 1e-9)


class TestExact:
    """With all items as inducing items nothing is lost."""

    def systems(self) -> tuple[InducingSystem, Tensor, Observations]:
        observations = make(X, M, 6)
        return inducing_side(X, X, observations, MEAN), matern(X), observations

    def test_repeated_inducing_items_change_nothing(self) -> None:
        system, _, observations = self.systems()
        twice = inducing_side(X, torch.cat([X, X[:4]]), observations, MEAN)
        assert_equal(log_evidence(twice)[0], log_evidence(system)[0], 1e-7)
        mean, covariance = predictions(twice)
        expected = predictions(system)
        assert_equal(mean, expected[0], 1e-7)
        assert_equal(covariance, expected[1], 1e-7)

    def test_precise_values_beside_duels(self) -> None:
        rows = torch.arange(N).unsqueeze(-1)
        zero, one = torch.zeros(N).double(), torch.ones(N).double()
        values = Block(rows, LABEL, zero, one, StandardNormal())
        observations = Observations([duels(X, M), values], N)
        factors = 1e3 * one
        latent = observations.incidence.apply(factors * MEAN)
        system = inducing_side(X, X, observations, MEAN, factors)
        K = factors.unsqueeze(-1) * matern(X) * factors
        exact = laplace_posterior(choose_system(K, latent, observations))
        found = laplace_posterior(system)
        assert bool(found.mode.converged)
        cross = matern(POINTS, X)
        mean, covariance = found.predict(ZERO, matern(POINTS), cross)
        expected = exact.predict(ZERO, matern(POINTS), cross * factors)
        assert_equal(mean, expected[0], 1e-5)
        assert_equal(covariance, expected[1], 1e-5)


class TestBlocks:
    @pytest.mark.parametrize("is_streamed", [False, True])
    def test_nothing_depends_on_them(
        self, is_streamed: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        observations = make(X, M, 6)
        value, mode = log_evidence(inducing_side(X, Z, observations, MEAN))
        expected = predictions(inducing_side(X, Z, observations, MEAN))
        monkeypatch.setattr(inducing, "_BLOCK_ENTRIES", 5 * P)
        if is_streamed:
            monkeypatch.setattr(inducing, "_STORED_ENTRIES", 4 * P)
            monkeypatch.setattr(inducing, "_LAST_TOLERANCE", 0.0)
        system = inducing_side(X, Z, observations, MEAN)
        assert system.is_expensive is is_streamed
        sizes = [block.observations.num_rows for block in system.blocks]
        assert sizes == [5] * 7 + [1]
        found_value, found_mode = log_evidence(system)
        assert_equal(found_value, value, 1e-11)
        assert_equal(found_mode.latent, mode.latent, 1e-11)
        for found, wanted in zip(predictions(system), expected, strict=True):
            assert_equal(found, wanted, 1e-11)

    @pytest.mark.parametrize("kappa", [None, 4.0])
    def test_a_streamed_posterior_is_the_same(
        self, kappa: float | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        observations = make(X, 4000, judge="consistent")
        weight = None if kappa is None else observations.weight / kappa
        expected = predictions(inducing_side(X, Z, observations), weight)
        monkeypatch.setattr(inducing, "_STORED_ENTRIES", 50 * P)
        system = inducing_side(X, Z, observations)
        assert system.is_expensive
        for found, wanted in zip(predictions(system, weight), expected, strict=True):
            assert_equal(found, wanted, 1e-8)

    def test_a_part_of_the_rows_is_a_good_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        observations = make(X, 2000, judge="consistent")
        late = find_mode(inducing_side(X, Z, observations))
        monkeypatch.setattr(inducing, "_STORED_ENTRIES", 50 * P)
        early = find_mode(inducing_side(X, Z, observations))
        assert early.num_steps < late.num_steps
        assert_equal(early.latent, late.latent, 1e-5)


def test_some_rows() -> None:
    observations = Observations([duels(X, 8), labels(X, 5)], N)
    latent = randn(13)
    for chosen in (slice(0, 13, 3), slice(1, 12, 5), slice(6, 10), slice(0, 2), slice(9, 13)):
        part = observations.rows(chosen)
        assert_equal(part.log_prob(latent[chosen]), observations.log_prob(latent)[chosen], 0.0)
        f = randn(N, seed=2)
        assert_equal(part.incidence.apply(f), observations.incidence.apply(f)[chosen], 0.0)


def test_draws_have_the_posterior_of_the_weights() -> None:
    system = inducing_side(X, Z, make(X, M), MEAN)
    found = laplace_posterior(system)
    num = 40_000
    prior = randn(num, P, seed=1) @ system.cholesky.mT
    with torch.random.fork_rng():
        weights = draw_weights(found, prior, randn(num, P, seed=2))
    # k(x, Z) applied to the weights, and the prior path: the part that inducing items explain.
    values = weights @ system.covariance + prior
    cross = matern(Z)
    mean, covariance = found.predict(torch.zeros(P).double(), cross, cross)
    assert_equal(values.mean(0), mean, 5 / num**0.5, scale=2.0)
    assert_equal(values.T.cov(), covariance, 5 / num**0.5, scale=4.0)


def test_what_has_no_root_is_not_finite() -> None:
    system = inducing_side(X, Z.clone().fill_(torch.nan), make(X, M))
    with pytest.warns(Warning, match="was not found"):
        assert not bool(find_mode(system).converged)
