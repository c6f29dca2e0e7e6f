"""Predictions from cached weights against the oracle, the design's fixture and scikit-learn."""

from __future__ import annotations

import pytest
import torch
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import ConstantKernel, Matern
from torch import Tensor

from botorch_pref.inference import (
    Block,
    LaplacePosterior,
    Observations,
    System,
    laplace_posterior,
    log_evidence,
)
from botorch_pref.likelihoods import LogitLikelihood
from tests._reference import laplace as reference
from tests.inference.common import (
    LABEL,
    LINKS,
    SIDES,
    as_tensor,
    assert_equal,
    design,
    likelihood,
    make,
    matern,
    oracle,
    prior_latent,
    rand,
    randn,
)

N, M, LABELS, Q = 7, 12, 3, 5
X, POINTS = rand(N, 2), rand(Q, 2, seed=20)
DUPLICATED = X[[0, 1, 1, 2, 0, 3, 4]]

both_sides = pytest.mark.parametrize("wanted", SIDES)
every_link = pytest.mark.parametrize(("link", "scale"), LINKS)
both_judges = pytest.mark.parametrize("judge", ["noisy", "consistent"])
every_outputscale = pytest.mark.parametrize("outputscale", [0.1, 1.0, 10.0, 100.0])


def prior_mean(X: Tensor) -> Tensor:
    return X.sum(-1) - 0.5


def fit(
    observations: Observations,
    wanted: type[System],
    outputscale: float = 4.0,
    items: Tensor = X,
    variance_weight: Tensor | None = None,
) -> LaplacePosterior:
    K = matern(items, outputscale=outputscale)
    latent = prior_latent(observations, prior_mean(items))
    return laplace_posterior(wanted(K, latent, observations), variance_weight)


def predict(
    fitted: LaplacePosterior, outputscale: float = 4.0, items: Tensor = X, points: Tensor = POINTS
) -> tuple[Tensor, Tensor]:
    prior = matern(points, outputscale=outputscale)
    cross = matern(points, items, outputscale=outputscale)
    return fitted.predict(prior_mean(points), prior, cross)


@both_sides
@every_link
@both_judges
@every_outputscale
@pytest.mark.parametrize("items", [X, DUPLICATED], ids=["distinct", "duplicated"])
def test_joint_posterior_against_the_oracle(
    wanted: type[System], link: str, scale: float, judge: str, outputscale: float, items: Tensor
) -> None:
    observations = make(items, M, LABELS, judge=judge, link=likelihood(link, scale), padding=2)
    mean, covariance = predict(fit(observations, wanted, outputscale, items), outputscale, items)
    K = matern(items, outputscale=outputscale)
    expected = reference.predict(
        oracle(K, prior_mean(items), observations, link, scale),
        K.numpy(),
        design(observations),
        matern(POINTS, items, outputscale=outputscale).numpy(),
        matern(POINTS, outputscale=outputscale).numpy(),
        prior_mean(POINTS).numpy(),
    )
    assert_equal(mean, expected[0])
    assert_equal(covariance, expected[1])
    assert float(torch.linalg.eigvalsh(covariance).min()) > -1e-10 * outputscale


@both_sides
class TestAnswerFreeVariance:
    @pytest.mark.parametrize("kappa", [0.1, 1.0, 4.0])
    @every_outputscale
    def test_against_the_oracle(
        self, wanted: type[System], kappa: float, outputscale: float
    ) -> None:
        observations = make(X, M, LABELS, padding=2)
        fitted = fit(observations, wanted, outputscale, X, observations.weight / kappa)
        mean, covariance = predict(fitted, outputscale)
        K = matern(X, outputscale=outputscale)
        expected = reference.answer_free_covariance(
            matern(POINTS, outputscale=outputscale).numpy(),
            matern(POINTS, X, outputscale=outputscale).numpy(),
            K.numpy(),
            design(observations),
            observations.weight.numpy(),
            kappa,
        )
        assert_equal(covariance, expected)
        assert torch.equal(mean, predict(fit(observations, wanted, outputscale), outputscale)[0])


@both_sides
class TestCombinations:
    def test_differences_are_those_of_the_joint_posterior(self, wanted: type[System]) -> None:
        fitted = fit(make(X, M, LABELS), wanted)
        mean, covariance = predict(fitted)
        A = torch.zeros(4, Q, dtype=torch.float64)
        A[torch.arange(4), torch.arange(4)], A[torch.arange(4), torch.arange(1, 5)] = 1.0, -1.0
        prior, cross = matern(POINTS), matern(POINTS, X)
        found = fitted.predict_differences(
            A @ prior_mean(POINTS), (A @ prior @ A.T).diagonal(), A @ cross
        )
        assert_equal(found[0], A @ mean, 1e-12)
        assert_equal(found[1], (A @ covariance @ A.T).diagonal(), 1e-12)

    def test_no_variance_is_negative(self, wanted: type[System]) -> None:
        # Duels asked a million times leave a variance of 1e-6, below the rounding of K Gamma K.
        observations = make(X, M)
        weight = torch.full((M,), 1e6, dtype=torch.float64)
        fitted = fit(observations, wanted, 100.0, X, weight)
        A, K = torch.from_numpy(design(observations)), matern(X, outputscale=100.0)
        zero, prior = torch.zeros(M, dtype=torch.float64), (A @ K @ A.T).diagonal()
        _, variance = fitted.predict_differences(zero, prior, A @ K)
        assert (variance >= 0).all()
        assert (variance < 1e-2).all()
        # A prior variance that is rounded down by more than what is left.
        _, variance = fitted.predict_differences(zero, prior - 1e-2, A @ K)
        assert (variance == 0).all()


@both_sides
@pytest.mark.parametrize("outputscale", [0.5, 4.0, 50.0])
def test_against_scikit_learn(wanted: type[System], outputscale: float) -> None:
    items = rand(25, 2, seed=8)
    accept = (items.sum(-1) + 0.3 * randn(25, seed=9)) > 1.0
    kernel = ConstantKernel(outputscale) * Matern(0.4, nu=2.5)
    classifier = GaussianProcessClassifier(kernel, optimizer=None)
    classifier.fit(items.numpy(), accept.numpy())
    block = Block(
        torch.arange(25).unsqueeze(-1),
        LABEL,
        accept.double(),
        torch.ones(25, dtype=torch.float64),
        LogitLikelihood(),
    )
    zero = torch.zeros(25, dtype=torch.float64)
    K = as_tensor(kernel(items.numpy()))
    system = wanted(K, zero, Observations([block], 25))
    mean, covariance = laplace_posterior(system).predict(
        torch.zeros(Q, dtype=torch.float64),
        as_tensor(kernel(POINTS.numpy())),
        as_tensor(kernel(POINTS.numpy(), items.numpy())),
    )
    evidence = classifier.log_marginal_likelihood(classifier.kernel_.theta)
    assert_equal(log_evidence(system)[0], evidence, 1e-6, scale=1.0)
    expected = classifier.latent_mean_and_variance(POINTS.numpy())
    assert_equal(mean, expected[0], 1e-6, scale=1.0)
    assert_equal(covariance.diagonal(), expected[1], 1e-6, scale=1.0)
