"""The oracles against each other, scikit-learn and worked numbers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tests._reference import finite, kernels, laplace, links


def test_worked_example_of_three_items() -> None:
    x = np.array([[0.0], [0.1], [0.3]])
    K = 20 * kernels.gram("matern52", x, x, 0.1)
    A = laplace.incidence([[0, 1], [2, 1], [0, 1]], 3)
    free = laplace.answer_free_covariance(K, K, K, A, np.ones(3), kappa=1.0)
    assert free[0, 0] == pytest.approx(9.807, abs=5e-4)
    variance = free[0, 0] + free[1, 1] - 2 * free[0, 1]
    assert variance == pytest.approx(0.48614, abs=5e-6)
    C = laplace.fit(K, 0.0, A, np.ones(3)).covariance
    assert C[0, 0] + C[1, 1] - 2 * C[0, 1] == pytest.approx(5.88105, abs=5e-6)


def test_labels_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(3)
    x, new = rng.uniform(size=(15, 2)), rng.uniform(size=(4, 2))
    y = (rng.uniform(size=15) < 0.5).astype(float)
    y[:2] = 0.0, 1.0
    K, cross = (4 * kernels.gram("rbf", a, x, 0.3) for a in (x, new))
    prior = 4 * kernels.gram("rbf", new, new, 0.3)
    fitted = laplace.fit(K, 0.0, np.eye(15), y)
    mean, covariance = laplace.predict(fitted, K, np.eye(15), cross, prior)
    kernel = ConstantKernel(4.0, "fixed") * RBF(0.3, "fixed")
    theirs = GaussianProcessClassifier(kernel, optimizer=None).fit(x, y)
    latent_mean, latent_variance = theirs.latent_mean_and_variance(new)
    evidence = theirs.log_marginal_likelihood_value_
    assert fitted.log_evidence == pytest.approx(evidence, abs=1e-8)
    np.testing.assert_allclose(mean, latent_mean, atol=1e-5)
    np.testing.assert_allclose(np.diag(covariance), latent_variance, atol=1e-5)


@pytest.mark.parametrize("link", ["logit", "probit"])
def test_elementwise_derivatives_agree_with_mpmath(link: str) -> None:
    eta = np.array([-30.0, -3.0, 0.0, 0.4, 8.0])
    value, score, curvature = laplace.log_prob(eta, np.full(5, 0.5), np.full(5, 2.0), link, 0.7)
    for i, h in enumerate(eta):
        exact = links.log_prob_derivatives(h, 0.5, 2.0, link, 0.7)
        got = (value[i], score[i], -curvature[i])
        np.testing.assert_allclose(got, [float(e) for e in exact[:3]], rtol=1e-10)


@pytest.mark.parametrize("scale", [0.1, 100.0])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_mode_is_stationary_for_a_consistent_judge(link: str, scale: float) -> None:
    x = np.linspace(0, 1, 8)[:, None]
    K = scale * kernels.gram("matern52", x, x, 0.3)
    A = laplace.incidence([[i + 1, i] for i in range(7)] * 2, 8)
    fitted = laplace.fit(K, 0.0, A, np.ones(14), link=link)
    np.testing.assert_allclose(fitted.utilities, K @ A.T @ fitted.score, atol=1e-9)
    assert (np.diff(fitted.utilities) > 0).all()


def test_finite_set_quantities_agree_with_laplace() -> None:
    rng = np.random.default_rng(5)
    x = np.linspace(0, 1, 6)[:, None]
    K = kernels.gram("matern52", x, x, 0.2)
    pairs = np.array([[0, 1], [2, 1], [1, 0], [4, 5], [3, 0], [0, 1], [5, 2]])
    y = rng.integers(0, 2, size=7).astype(float)
    A = laplace.incidence(pairs, 6)
    fitted = laplace.fit(K / 0.05, 0.0, A, y)
    theta = finite.coefficients(K, pairs, y, 0.05)
    g = finite.utilities(K, pairs, theta)
    np.testing.assert_allclose(g, fitted.utilities, atol=1e-8)
    h = finite.differences(K, pairs, theta)
    np.testing.assert_allclose(h, g[:, None] - g[None, :], atol=1e-9)
    ridge = 0.05 / fitted.curvature
    k_t = finite.item_covariance(K, pairs, ridge)
    np.testing.assert_allclose(k_t / 0.05, fitted.covariance, atol=1e-9)
    D = laplace.incidence(finite.all_pairs(6), 6)
    k_pairs = finite.pair_covariance(K, pairs, ridge)
    np.testing.assert_allclose(k_pairs, D @ k_t @ D.T, atol=1e-11)


@pytest.mark.parametrize("regularizer", finite.REGULARIZERS)
def test_penalties_are_priors(regularizer: str) -> None:
    x = np.linspace(0, 1, 6)[:, None]
    K = kernels.gram("matern52", x, x, 0.2)
    pairs = [[0, 1], [2, 1], [1, 0], [4, 5], [3, 0], [0, 1]]
    y = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.5])
    G = finite.dueling_gram(K, pairs, pairs)
    prior = {"rkhs": G, "theta": G @ G, "theta_mean": G @ G / 6}[regularizer] / 0.05
    fitted = laplace.fit(prior, 0.0, np.eye(6), y)
    theta = finite.coefficients(K, pairs, y, 0.05, regularizer)
    np.testing.assert_allclose(G @ theta, fitted.utilities, atol=1e-8)


def test_quadrature_agrees_with_the_closed_form_of_the_probit() -> None:
    for mean, variance in [(0.3, 1e-8), (-2.0, 0.25), (9.0, 10.0), (-60.0, 1e4)]:
        exact = norm.cdf(3 * mean / np.sqrt(1 + 9 * variance))
        got = links.expected_probability(mean, variance, "probit", 3.0)
        assert float(got) == pytest.approx(exact, abs=1e-14)
