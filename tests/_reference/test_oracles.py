"""The oracles against scikit-learn and closed forms; our code is compared with each of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

from tests._reference import kernels, laplace, links


def test_labels_agree_with_scikit_learn() -> None:
    pytest.importorskip("sklearn", minversion="1.9")  # which gives the moments of the latent
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


@pytest.mark.parametrize("scale", [0.1, 100.0])
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_mode_is_stationary_for_a_consistent_judge(link: str, scale: float) -> None:
    x = np.linspace(0, 1, 8)[:, None]
    K = scale * kernels.gram("matern52", x, x, 0.3)
    A = laplace.incidence([[i + 1, i] for i in range(7)] * 2, 8)
    fitted = laplace.fit(K, 0.0, A, np.ones(14), link=link)
    np.testing.assert_allclose(fitted.utilities, K @ A.T @ fitted.score, atol=1e-9)
    assert (np.diff(fitted.utilities) > 0).all()


def test_quadrature_agrees_with_the_closed_form_of_the_probit() -> None:
    for mean, variance in [(0.3, 1e-8), (-2.0, 0.25), (9.0, 10.0), (-60.0, 1e4)]:
        exact = norm.cdf(3 * mean / np.sqrt(1 + 9 * variance))
        got = links.expected_probability(mean, variance, "probit", 3.0)
        assert float(got) == pytest.approx(exact, abs=1e-14)
