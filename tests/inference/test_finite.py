"""The finite-set posterior against the explicit matrices of ``_reference``, and against itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special, stats
from torch import Tensor

from botorch_pref.data import Comparisons
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.finite import (
    FinitePosterior,
    PairVarianceTable,
    argmax_with_random_ties,
)
from botorch_pref.likelihoods import ProbitLikelihood
from botorch_pref.models import PreferenceGP
from botorch_pref.problems import Catalyst
from tests._reference import finite as reference
from tests._reference import kernels, laplace

NUM_ITEMS = 8
GRID = np.linspace(0.0, 1.0, NUM_ITEMS)[:, None]
KERNEL = kernels.gram("matern52", GRID, GRID, 0.2)
PENALTY = 0.2
regularizers = pytest.mark.parametrize("regularizer", reference.REGULARIZERS)
# Few rows are solved on the system of the answers, many on that of the items.
numbers = pytest.mark.parametrize("num_duels", [5, 40])


def make_duels(
    num_duels: int, seed: int = 0, identical: bool = False, num_items: int = NUM_ITEMS
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs in any order, repeated where there are many, and answers with some ties."""
    rng = np.random.default_rng(seed)
    first = rng.integers(num_items, size=num_duels)
    step = rng.integers(0 if identical else 1, num_items, size=num_duels)
    answers = rng.choice([0.0, 0.5, 1.0], size=num_duels, p=[0.3, 0.1, 0.6])
    return np.stack([first, (first + step) % num_items], axis=1), answers


def make(
    pairs: np.ndarray, answers: np.ndarray, kernel: np.ndarray = KERNEL, **kwargs: object
) -> FinitePosterior:
    posterior = FinitePosterior(torch.from_numpy(kernel), **{"penalty": PENALTY, **kwargs})
    for pair, answer in zip(pairs, answers, strict=True):
        posterior.append(pair, answer)
    return posterior


def differences(covariance: Tensor | np.ndarray) -> np.ndarray:
    """``D C D^T`` for the table of all ordered pairs."""
    D = laplace.incidence(reference.all_pairs(len(covariance)), len(covariance))
    return D @ np.asarray(covariance) @ D.T


def draw(posterior: FinitePosterior, num: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    sizes = posterior.mean.shape[-1], posterior.num_pairs
    prior, answer = (
        torch.randn(num, size, generator=generator, dtype=torch.float64) for size in sizes
    )
    return posterior.sample(prior, answer, scale)


# The mean.


@regularizers
@pytest.mark.parametrize("identical", [False, True])
@numbers
def test_mean_is_that_of_the_dual_form(regularizer: str, identical: bool, num_duels: int) -> None:
    pairs, answers = make_duels(num_duels, identical=identical)
    theta = reference.coefficients(KERNEL, pairs, answers, PENALTY, regularizer)
    mean = make(pairs, answers, regularizer=regularizer).mean.numpy()
    np.testing.assert_allclose(mean, reference.utilities(KERNEL, pairs, theta), atol=1e-7)
    h = reference.differences(KERNEL, pairs, theta)
    np.testing.assert_allclose(mean[:, None] - mean, h, atol=1e-7)
    np.testing.assert_allclose(h + h.T, 0.0, atol=1e-10)
    np.testing.assert_allclose(h[:, :, None] + h[None], h[:, None] + 0 * h[None], atol=1e-10)


@regularizers
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), num_duels=st.integers(1, 30))
def test_order_and_orientation_do_not_matter(regularizer: str, seed: int, num_duels: int) -> None:
    pairs, answers = make_duels(num_duels, seed, identical=True)
    rng = np.random.default_rng(seed)
    swap, order = rng.random(num_duels) < 0.5, rng.permutation(num_duels)
    other = np.where(swap[:, None], pairs[:, ::-1], pairs)[order].copy()
    flipped = np.where(swap, 1 - answers, answers)[order]
    one = make(pairs, answers, regularizer=regularizer)
    two = make(other, flipped, regularizer=regularizer)
    torch.testing.assert_close(one.mean, two.mean, atol=1e-8, rtol=0.0)
    torch.testing.assert_close(one.covariance, two.covariance, atol=1e-8, rtol=0.0)
    negated = make(pairs, 1 - answers, regularizer=regularizer)
    torch.testing.assert_close(negated.mean, -one.mean, atol=1e-8, rtol=0.0)


@regularizers
def test_an_identical_pair_matters_only_beside_a_mean(regularizer: str) -> None:
    pairs, answers = make_duels(10, seed=5)
    posterior = make(pairs, answers, regularizer=regularizer, kappa=2.0)
    mean, covariance = posterior.mean, posterior.covariance
    posterior.append((3, 3), 1.0)
    assert (posterior.num_asked, posterior.num_pairs) == (11, len({frozenset(p) for p in pairs}))
    torch.testing.assert_close(posterior.covariance, covariance, atol=1e-10, rtol=0.0)
    change = (posterior.mean - mean).abs().max()
    assert (change > 1e-3) if regularizer == "theta_mean" else (change < 1e-10)


# The covariance.


@pytest.mark.parametrize("kappa", [1.0, 4.0])
@numbers
def test_answer_free_covariance(kappa: float, num_duels: int) -> None:
    pairs, answers = make_duels(num_duels, seed=6, identical=True)
    posterior = make(pairs, answers, kappa=kappa)
    unit, ridge = PENALTY * posterior.covariance.numpy(), PENALTY * kappa
    items = reference.item_covariance(KERNEL, pairs, ridge)
    np.testing.assert_allclose(unit, items, atol=1e-8)
    table = make_table(pairs, ridge)[0].covariance.numpy()  # without an answer
    np.testing.assert_allclose(unit, table, atol=1e-10)
    np.testing.assert_allclose(
        differences(unit), reference.pair_covariance(KERNEL, pairs, ridge), atol=1e-10
    )


@numbers
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_laplace_covariance(num_duels: int, link: str) -> None:
    pairs, answers = make_duels(num_duels, seed=7)
    likelihood = ProbitLikelihood() if link == "probit" else None
    posterior = make(pairs, answers, likelihood=likelihood)
    D = laplace.incidence(pairs, NUM_ITEMS)
    fitted = laplace.fit(KERNEL / PENALTY, 0.0, D, answers, link=link)
    np.testing.assert_allclose(posterior.mean.numpy(), fitted.utilities, atol=1e-8)
    np.testing.assert_allclose(posterior.covariance.numpy(), fitted.covariance, atol=1e-8)
    linked = reference.pair_covariance(KERNEL, pairs, PENALTY / fitted.curvature)
    np.testing.assert_allclose(differences(posterior.covariance), linked / PENALTY, atol=1e-8)


def test_a_true_kappa_is_conservative() -> None:
    pairs, answers = make_duels(40, seed=8)
    exact = make(pairs, answers)
    h = laplace.incidence(pairs, NUM_ITEMS) @ exact.mean.numpy()
    free = make(pairs, answers, kappa=float(1 / (special.expit(h) * special.expit(-h)).min()))
    excess = np.linalg.eigvalsh((free.covariance - exact.covariance).numpy())
    assert excess.min() > -1e-10
    assert excess.max() > 1e-2


@pytest.mark.parametrize("kappa", ["laplace", 2.0])
@numbers
def test_equals_the_model_on_the_same_items(kappa: str | float, num_duels: int) -> None:
    pairs, answers = make_duels(num_duels, seed=12)
    items = torch.from_numpy(GRID)
    kernel = ScaleKernel(MaternKernel(nu=2.5)).double()
    kernel.base_kernel.lengthscale, kernel.outputscale = 0.2, 1 / PENALTY
    data = Comparisons.from_comparisons(items, torch.zeros(0, 2, dtype=torch.long))
    data = data.append_indices(torch.from_numpy(pairs), torch.from_numpy(answers))
    model = PreferenceGP(items, data, covar_module=kernel, variance=kappa)
    with torch.no_grad():
        expected = model.posterior(items)
        gram = kernel.base_kernel(items).to_dense().numpy()
    found = make(pairs, answers, gram, kappa=kappa)
    torch.testing.assert_close(found.mean, expected.mean.squeeze(-1), atol=1e-8, rtol=0.0)
    torch.testing.assert_close(found.covariance, expected.covariance_matrix, atol=1e-8, rtol=0.0)


def test_items_measured_twice_share_their_posterior() -> None:
    """The catalyst's 63 choices have 60 distinct features, so ``K`` is singular."""
    choices = Catalyst("keep").choices.numpy()
    K = kernels.gram("matern52", choices, choices, 0.1)
    assert np.linalg.matrix_rank(K, tol=1e-12) == 60
    for num_duels in (30, 200):
        pairs, answers = make_duels(num_duels, seed=13, num_items=63)
        D = laplace.incidence(pairs, 63)
        fitted = laplace.fit(K / PENALTY, 0.0, D, answers)
        found = make(pairs, answers, K)
        np.testing.assert_allclose(found.mean.numpy(), fitted.utilities, atol=1e-7)
        np.testing.assert_allclose(found.covariance.numpy(), fitted.covariance, atol=1e-7)
        same = np.argwhere(np.triu((choices[:, None] == choices).all(-1), 1))
        assert len(same) == 4
        draws = draw(found, 50)
        assert (draws[:, same[:, 0]] - draws[:, same[:, 1]]).abs().max() < 1e-6


# Draws.


@pytest.mark.parametrize("num_duels", [0, 5, 40])
@pytest.mark.parametrize("kappa", ["laplace", 2.0])
def test_moments_of_draws(num_duels: int, kappa: str | float) -> None:
    num, scale = 20_000, 1.7
    pairs, answers = make_duels(num_duels, seed=14)
    posterior = make(pairs, answers, kappa=kappa)
    draws, covariance = draw(posterior, num, scale), scale**2 * posterior.covariance
    error = (draws.mean(0) - posterior.mean).abs()
    assert (error <= 5 * covariance.diagonal().sqrt() / math.sqrt(num)).all()
    spread = differences(torch.cov(draws.T)).diagonal()
    exact = differences(covariance).diagonal()
    np.testing.assert_allclose(spread, exact, rtol=5 * math.sqrt(2 / num), atol=1e-12)


def test_the_anchor_does_not_change_the_law_of_the_best_item() -> None:
    """Draws of ``h(x, x0)`` from eq. (9) have the argmax of draws of the utility."""
    pairs, answers = make_duels(6, seed=16)
    posterior = make(pairs, answers, kappa=2.0)
    num = 5000
    utility = np.bincount(draw(posterior, num).argmax(-1).numpy(), minlength=NUM_ITEMS)
    pair_covariance = reference.pair_covariance(KERNEL, pairs, 2.0 * PENALTY) / PENALTY
    mean = posterior.mean.numpy()
    rng = np.random.default_rng(0)
    for anchor in (0, 3):
        rows = np.arange(NUM_ITEMS) * NUM_ITEMS + anchor
        values, vectors = np.linalg.eigh(pair_covariance[np.ix_(rows, rows)])
        root = vectors * np.sqrt(values.clip(min=0.0))
        draws = mean - mean[anchor] + rng.standard_normal((num, NUM_ITEMS)) @ root.T
        anchored = np.bincount(draws.argmax(-1), minlength=NUM_ITEMS)
        table = np.stack([utility, anchored])
        assert stats.chi2_contingency(table[:, table.sum(0) > 20]).pvalue > 1e-3
        # Without the square root of the scale the law is another: the test has power.
        wide = np.bincount((mean + 3 * (draws - mean)).argmax(-1), minlength=NUM_ITEMS)
        assert stats.chi2_contingency(np.stack([utility, wide])).pvalue < 1e-3


@regularizers
def test_before_any_answer(regularizer: str) -> None:
    kernel = torch.from_numpy(KERNEL)
    posterior = FinitePosterior(kernel, penalty=PENALTY, regularizer=regularizer)
    assert torch.equal(posterior.mean, torch.zeros(NUM_ITEMS, dtype=torch.float64))
    torch.testing.assert_close(posterior.covariance, torch.from_numpy(KERNEL) / PENALTY)
    best = np.bincount(draw(posterior, 5000).argmax(-1).numpy(), minlength=NUM_ITEMS)
    assert stats.chi2_contingency(np.stack([best, best[::-1]])).pvalue > 1e-3
    assert (best > 0).all()


def test_warm_starts_change_nothing() -> None:
    pairs, answers = make_duels(30, seed=17)
    posterior = make(pairs[:0], answers[:0])
    for pair, answer in zip(pairs, answers, strict=True):
        posterior.append(pair, answer)
        assert posterior.mean.isfinite().all()
    cold = make(pairs, answers)
    torch.testing.assert_close(posterior.mean, cold.mean, atol=1e-9, rtol=0.0)
    torch.testing.assert_close(posterior.covariance, cold.covariance, atol=1e-9, rtol=0.0)


# Bad input, and ties.


def test_bad_options() -> None:
    kernel = torch.from_numpy(KERNEL)
    for options in (
        *({"penalty": value} for value in (0.0, -1.0, math.nan)),
        *({"kappa": value} for value in (0.0, -1.0, math.nan, "bound")),
        {"regularizer": "ridge"},
    ):
        with pytest.raises(ComparisonDataError, match=f"`{next(iter(options))}`"):
            FinitePosterior(kernel, **options)  # type: ignore[arg-type]
    with pytest.raises(ComparisonDataError, match="`ridge`"):
        PairVarianceTable(kernel, 0.0)


def test_ties_are_broken_uniformly() -> None:
    generator = torch.Generator().manual_seed(0)
    values = torch.tensor([1.0, 3.0, 2.0, 3.0 - 1e-13, 3.0], dtype=torch.float64)
    noise = torch.rand(3000, 5, generator=generator, dtype=torch.float64)
    best = argmax_with_random_ties(values.expand(3000, 5), noise)
    counts = torch.bincount(best, minlength=5)
    assert counts[[0, 2]].tolist() == [0, 0]
    assert stats.chisquare(counts[[1, 3, 4]].numpy()).pvalue > 1e-3
    clear = torch.tensor([[0.0, 1e-6], [1e-6, 0.0], [-torch.inf, -5.0]], dtype=torch.float64)
    assert argmax_with_random_ties(clear, torch.zeros(3, 2)).tolist() == [1, 0, 1]
    assert argmax_with_random_ties(clear, 1 - torch.eye(3)[:, :2]).tolist() == [1, 0, 1]


# The table of answer-free variances, eq. (10).

RIDGE = 0.05


def make_table(pairs: np.ndarray, ridge: float = RIDGE, kernel: np.ndarray = KERNEL) -> tuple:
    table, before = PairVarianceTable(torch.from_numpy(kernel), ridge), []
    for pair in pairs:
        before.append(float(table.variance[tuple(pair)]))
        table.append(torch.from_numpy(pair))
    return table, before


def information_gain(variances: list[float], ridge: float = RIDGE) -> float:
    """Of duels with these variances when they were asked."""
    return 0.5 * float(np.log1p(np.array(variances) / ridge).sum())


def direct(pairs: np.ndarray, ridge: float = RIDGE) -> np.ndarray:
    """Eq. (10) at all ordered pairs, ``n x n``."""
    table = reference.pair_covariance(KERNEL, pairs, ridge)
    return np.diag(table).reshape(NUM_ITEMS, NUM_ITEMS)


@pytest.mark.parametrize("num", [0, 1, 300])
def test_downdates_are_the_direct_formula(num: int) -> None:
    pairs = make_duels(num)[0]
    table, before = make_table(pairs)
    np.testing.assert_allclose(table.variance.numpy(), direct(pairs), atol=1e-10)
    gain = reference.information_gain(KERNEL, pairs, RIDGE) if num else 0.0
    assert information_gain(before) == pytest.approx(gain, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), num=st.integers(1, 25))
def test_properties_of_the_table(seed: int, num: int) -> None:
    pairs = make_duels(num, seed)[0]
    table, _ = make_table(pairs)
    rng = np.random.default_rng(seed)
    swap = rng.random(num) < 0.5
    other = np.where(swap[:, None], pairs[:, ::-1], pairs)[rng.permutation(num)].copy()
    shuffled, _ = make_table(other)
    table.append(torch.tensor([3, 3]))  # changes nothing
    torch.testing.assert_close(shuffled.covariance, table.covariance, atol=1e-10, rtol=0.0)
    variance = table.variance.numpy()
    np.testing.assert_allclose(variance, variance.T, atol=1e-12)
    assert np.abs(np.diag(variance)).max() <= 1e-12
    for other in (make_table(pairs[:-1])[0], make_table(pairs, 2 * RIDGE)[0]):
        assert (variance <= other.variance.numpy() + 1e-10).all()
    sd = np.sqrt(variance)
    assert (sd[:, None] <= sd[:, :, None] + sd.T[None] + 1e-6).all()


def test_reference_values_of_greedy_rounds() -> None:
    grid = np.linspace(0.0, 1.0, 100)[:, None]
    gram: Tensor = torch.from_numpy(kernels.gram("rbf", grid, grid, 0.1))
    table = PairVarianceTable(gram, 0.05)
    selected, left = [], []
    for _ in range(300):
        variance = table.variance
        selected.append(float(variance.max()))
        table.append(torch.tensor(divmod(int(variance.argmax()), len(variance))))
        left.append(float(table.variance.max()))
    for step, deviation in ((18, 0.21), (92, 0.085), (300, 0.048)):
        assert math.sqrt(left[step - 1]) == pytest.approx(deviation, rel=0.05)
    assert information_gain(selected) == pytest.approx(35.7, rel=0.03)
    assert sum(selected) == pytest.approx(13.6, rel=0.05)
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(selected))
    assert all(b <= a + 1e-12 for a, b in zip(selected, left, strict=True))
