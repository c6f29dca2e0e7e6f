"""The finite-set engine against the explicit matrices of ``_reference``, and against itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, special, stats
from torch import Tensor

from botorch_pref.data import Comparisons
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference.finite import FiniteEngine, FinitePosterior, argmax_with_random_ties
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


def make_engine(
    pairs: np.ndarray, answers: np.ndarray, kernel: np.ndarray = KERNEL, **kwargs: object
) -> FiniteEngine:
    engine = FiniteEngine(torch.from_numpy(kernel), **{"penalty": PENALTY, **kwargs})
    for pair, answer in zip(pairs, answers, strict=True):
        engine.append(torch.from_numpy(pair), torch.tensor(answer))
    return engine


def differences(covariance: Tensor | np.ndarray) -> np.ndarray:
    """``D C D^T`` for the table of all ordered pairs."""
    D = laplace.incidence(reference.all_pairs(len(covariance)), len(covariance))
    return D @ np.asarray(covariance) @ D.T


def draw(posterior: FinitePosterior, num: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    sizes = posterior.mean.shape[-1], posterior.curvature.shape[-1]
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
    mean = make_engine(pairs, answers, regularizer=regularizer).posterior().mean.numpy()
    np.testing.assert_allclose(mean, reference.utilities(KERNEL, pairs, theta), atol=1e-7)
    h = reference.differences(KERNEL, pairs, theta)
    np.testing.assert_allclose(mean[:, None] - mean, h, atol=1e-7)
    np.testing.assert_allclose(h + h.T, 0.0, atol=1e-10)
    np.testing.assert_allclose(h[:, :, None] + h[None], h[:, None] + 0 * h[None], atol=1e-10)


def test_one_duel_solves_a_scalar_equation() -> None:
    gram = reference.dueling_gram(KERNEL, [[1, 4]], [[1, 4]])[0, 0]
    theta = optimize.brentq(lambda a: PENALTY * a - special.expit(-a * gram), 0.0, 1 / PENALTY)
    mean = make_engine(np.array([[1, 4]]), np.ones(1)).posterior().mean
    assert float(mean[1] - mean[4]) == pytest.approx(theta * gram, abs=1e-10)


@regularizers
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), num_duels=st.integers(1, 30))
def test_order_and_orientation_do_not_matter(regularizer: str, seed: int, num_duels: int) -> None:
    pairs, answers = make_duels(num_duels, seed, identical=True)
    rng = np.random.default_rng(seed)
    swap, order = rng.random(num_duels) < 0.5, rng.permutation(num_duels)
    other = np.where(swap[:, None], pairs[:, ::-1], pairs)[order].copy()
    flipped = np.where(swap, 1 - answers, answers)[order]
    one = make_engine(pairs, answers, regularizer=regularizer).posterior()
    two = make_engine(other, flipped, regularizer=regularizer).posterior()
    torch.testing.assert_close(one.mean, two.mean, atol=1e-8, rtol=0.0)
    torch.testing.assert_close(one.covariance, two.covariance, atol=1e-8, rtol=0.0)
    negated = make_engine(pairs, 1 - answers, regularizer=regularizer).posterior()
    torch.testing.assert_close(negated.mean, -one.mean, atol=1e-8, rtol=0.0)


def test_theta_mean_is_theta_whose_penalty_grows() -> None:
    pairs, answers = make_duels(9, seed=4)
    mean = make_engine(pairs, answers, regularizer="theta_mean").posterior().mean
    other = make_engine(pairs, answers, regularizer="theta", penalty=9 * PENALTY).posterior().mean
    torch.testing.assert_close(mean, other, atol=1e-8, rtol=0.0)


@regularizers
def test_an_identical_pair_matters_only_beside_a_mean(regularizer: str) -> None:
    pairs, answers = make_duels(10, seed=5)
    engine = make_engine(pairs, answers, regularizer=regularizer, kappa=2.0)
    before = engine.posterior()
    engine.append(torch.tensor([3, 3]), torch.tensor(1.0))
    after = engine.posterior()
    torch.testing.assert_close(after.covariance, before.covariance, atol=1e-10, rtol=0.0)
    change = (after.mean - before.mean).abs().max()
    assert (change > 1e-3) if regularizer == "theta_mean" else (change < 1e-10)


# The covariance.


@pytest.mark.parametrize("kappa", [1.0, 4.0])
@numbers
def test_answer_free_covariance(kappa: float, num_duels: int) -> None:
    pairs, answers = make_duels(num_duels, seed=6, identical=True)
    posterior = make_engine(pairs, answers, kappa=kappa).posterior()
    unit, ridge = PENALTY * posterior.covariance.numpy(), PENALTY * kappa
    items = reference.item_covariance(KERNEL, pairs, ridge)
    np.testing.assert_allclose(unit, items, atol=1e-8)
    np.testing.assert_allclose(
        differences(unit), reference.pair_covariance(KERNEL, pairs, ridge), atol=1e-10
    )
    gain = reference.information_gain(KERNEL, pairs, ridge)
    assert float(posterior.factor.log_det) / 2 == pytest.approx(gain, abs=1e-9)


@numbers
@pytest.mark.parametrize("link", ["logit", "probit"])
def test_laplace_covariance(num_duels: int, link: str) -> None:
    pairs, answers = make_duels(num_duels, seed=7)
    likelihood = ProbitLikelihood() if link == "probit" else None
    posterior = make_engine(pairs, answers, likelihood=likelihood).posterior()
    D = laplace.incidence(pairs, NUM_ITEMS)
    fitted = laplace.fit(KERNEL / PENALTY, 0.0, D, answers, link=link)
    np.testing.assert_allclose(posterior.mean.numpy(), fitted.utilities, atol=1e-8)
    np.testing.assert_allclose(posterior.covariance.numpy(), fitted.covariance, atol=1e-8)
    linked = reference.pair_covariance(KERNEL, pairs, PENALTY / fitted.curvature)
    np.testing.assert_allclose(differences(posterior.covariance), linked / PENALTY, atol=1e-8)


def test_a_true_kappa_is_conservative() -> None:
    pairs, answers = make_duels(40, seed=8)
    exact = make_engine(pairs, answers).posterior()
    D = laplace.incidence(pairs, NUM_ITEMS)
    slope = special.expit(D @ exact.mean.numpy()) * special.expit(-D @ exact.mean.numpy())
    free = make_engine(pairs, answers, kappa=float(1 / slope.min())).posterior()
    excess = np.linalg.eigvalsh((free.covariance - exact.covariance).numpy())
    assert excess.min() > -1e-10
    assert excess.max() > 1e-2


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_duel_never_adds_variance_and_gains_information(seed: int) -> None:
    pairs, answers = make_duels(20, seed)
    engine = make_engine(pairs[:0], answers[:0], kappa=4.0)
    previous, gain = differences(engine.posterior().covariance), 0.0
    for (first, second), answer in zip(pairs, answers, strict=True):
        gain += 0.5 * math.log1p(previous[first * NUM_ITEMS + second].max() / 4.0)
        engine.append(torch.tensor([first, second]), torch.tensor(answer))
        posterior = engine.posterior()
        now = differences(posterior.covariance)
        assert (np.diag(now) <= np.diag(previous) + 1e-10).all()
        assert np.diag(now).min() >= -1e-10
        previous = now
        assert float(posterior.factor.log_det) / 2 > 0.0
    variance = np.diag(previous).clip(min=0.0).reshape(NUM_ITEMS, NUM_ITEMS)
    sd = np.sqrt(variance)
    assert (sd[:, None] <= sd[:, :, None] + sd.T[None] + 1e-6).all()


def test_information_gain_is_the_sum_of_the_steps() -> None:
    pairs, answers = make_duels(25, seed=9)
    engine, kappa, gain = make_engine(pairs[:0], answers[:0], kappa=3.0), 3.0, 0.0
    for pair, answer in zip(torch.from_numpy(pairs), torch.from_numpy(answers), strict=True):
        covariance = engine.posterior().covariance
        contrast = covariance[:, pair[0]] - covariance[:, pair[1]]
        gain += 0.5 * math.log1p(float(contrast[pair[0]] - contrast[pair[1]]) / kappa)
        engine.append(pair, answer)
    assert float(engine.posterior().factor.log_det) / 2 == pytest.approx(gain, abs=1e-9)


def test_answers_reach_only_the_laplace_covariance() -> None:
    pairs, answers = make_duels(12, seed=10)
    free, other = (make_engine(pairs, y, kappa=2.0).posterior() for y in (answers, 1 - answers**2))
    assert torch.equal(free.covariance, other.covariance)
    assert not torch.allclose(free.mean, other.mean, atol=1e-2)
    exact, other = (make_engine(pairs, y).posterior() for y in (answers, 1 - answers**2))
    assert not torch.allclose(exact.covariance, other.covariance, atol=1e-3)


def test_worked_fixture() -> None:
    x = np.array([[0.0], [0.1], [0.3]])
    K = kernels.gram("matern52", x, x, 0.1)
    pairs, answers = np.array([[0, 1], [2, 1], [0, 1]]), np.ones(3)
    free = make_engine(pairs, answers, K, penalty=0.05, kappa=1.0).posterior().covariance
    assert float(free[0, 0]) == pytest.approx(9.807, abs=5e-4)
    assert float(free[0, 0] + free[1, 1] - 2 * free[0, 1]) == pytest.approx(0.48614, abs=5e-6)
    exact = make_engine(pairs, answers, K, penalty=0.05).posterior().covariance
    assert float(exact[0, 0] + exact[1, 1] - 2 * exact[0, 1]) == pytest.approx(5.88105, abs=5e-6)


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
    found = make_engine(pairs, answers, gram, kappa=kappa).posterior()
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
        found = make_engine(pairs, answers, K).posterior()
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
    posterior = make_engine(pairs, answers, kappa=kappa).posterior()
    draws, covariance = draw(posterior, num, scale), scale**2 * posterior.covariance
    error = (draws.mean(0) - posterior.mean).abs()
    assert (error <= 5 * covariance.diagonal().sqrt() / math.sqrt(num)).all()
    spread = differences(torch.cov(draws.T)).diagonal()
    exact = differences(covariance).diagonal()
    np.testing.assert_allclose(spread, exact, rtol=5 * math.sqrt(2 / num), atol=1e-12)


def test_the_anchor_does_not_change_the_law_of_the_best_item() -> None:
    """Draws of ``h(x, x0)`` from eq. (9) have the argmax of draws of the utility."""
    pairs, answers = make_duels(6, seed=16)
    posterior = make_engine(pairs, answers, kappa=2.0).posterior()
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


def test_before_any_answer() -> None:
    engine = FiniteEngine(torch.from_numpy(KERNEL), penalty=PENALTY)
    posterior = engine.posterior()
    assert engine.num_items == NUM_ITEMS
    assert torch.equal(posterior.mean, torch.zeros(NUM_ITEMS, dtype=torch.float64))
    torch.testing.assert_close(posterior.covariance, torch.from_numpy(KERNEL) / PENALTY)
    assert float(posterior.factor.log_det) == 0.0
    best = np.bincount(draw(posterior, 5000).argmax(-1).numpy(), minlength=NUM_ITEMS)
    assert stats.chi2_contingency(np.stack([best, best[::-1]])).pvalue > 1e-3
    assert (best > 0).all()


# Batches and caches.


@regularizers
@pytest.mark.parametrize("kappa", ["laplace", 2.0])
def test_batch_equals_loop(regularizer: str, kappa: str | float) -> None:
    batch = (2, 3)
    gram = torch.from_numpy(
        np.stack([kernels.gram("matern52", GRID, GRID, ell) for ell in (0.1, 0.2, 0.4)])
    )
    options = {"penalty": PENALTY, "kappa": kappa, "regularizer": regularizer}
    together = FiniteEngine(gram, batch_shape=(2, 1), **options)
    assert together.batch_shape == batch
    alone = [FiniteEngine(gram[i % 3], **options) for i in range(6)]
    generator = torch.Generator().manual_seed(0)
    for step in range(25):
        # The first element meets two pairs only, so its other rows are padding.
        pairs = torch.randint(NUM_ITEMS, (*batch, 2), generator=generator)
        pairs[0, 0] = torch.tensor([[1, 4], [4, 2]][step % 2])
        answers = torch.randint(3, batch, generator=generator) / 2
        together.append(pairs, answers)
        for i, engine in enumerate(alone):
            engine.append(pairs.view(6, 2)[i], answers.view(6)[i])
        if step not in (0, 4, 24):
            continue
        found = together.posterior()
        noise = torch.randn(2, *batch, NUM_ITEMS, generator=generator, dtype=torch.float64)
        rows = found.curvature.shape[-1]
        errors = torch.randn(2, *batch, rows, generator=generator, dtype=torch.float64)
        scale = torch.linspace(0.5, 2.0, 6, dtype=torch.float64).view(batch)
        draws = found.sample(noise, errors, scale)
        count = together.count.expand(*batch, rows)
        for i, engine in enumerate(alone):
            where, one = divmod(i, 3), engine.posterior()
            used = count[where] > 0
            assert int(used.sum()) == one.curvature.shape[-1]
            torch.testing.assert_close(found.mean[where], one.mean, atol=1e-8, rtol=0.0)
            torch.testing.assert_close(found.covariance[where], one.covariance, atol=1e-8, rtol=0.0)
            error = errors[:, *where][:, used]
            expected = one.sample(noise[:, *where], error, float(scale[where]))
            torch.testing.assert_close(draws[:, *where], expected, atol=1e-7, rtol=0.0)


def test_posterior_is_found_once_and_warm_starts_change_nothing() -> None:
    pairs, answers = make_duels(30, seed=17)
    engine = make_engine(pairs[:0], answers[:0])
    for pair, answer in zip(pairs, answers, strict=True):
        engine.append(torch.from_numpy(pair), torch.tensor(answer))
        assert engine.posterior() is engine.posterior()
    cold = make_engine(pairs, answers).posterior()
    torch.testing.assert_close(engine.posterior().mean, cold.mean, atol=1e-9, rtol=0.0)
    torch.testing.assert_close(engine.posterior().covariance, cold.covariance, atol=1e-9, rtol=0.0)


def test_repeated_duels_are_one_row() -> None:
    pairs = np.array([[0, 1], [1, 0], [0, 1], [2, 0], [3, 3]])
    engine = make_engine(pairs, np.array([1.0, 1.0, 0.5, 0.0, 1.0]))
    assert engine.pairs.tolist() == [[0, 1], [0, 2]]
    assert engine.wins.tolist() == [1.5, 1.0]
    assert engine.count.tolist() == [3.0, 1.0]
    assert float(engine.num_asked) == 5.0


# Bad input, and ties.


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"penalty": 0.0}, "penalty"),
        ({"penalty": -1.0}, "penalty"),
        ({"penalty": math.nan}, "penalty"),
        ({"regularizer": "ridge"}, "regularizer"),
        ({"kappa": 0.0}, "kappa"),
        ({"kappa": -1.0}, "kappa"),
        ({"kappa": math.nan}, "kappa"),
        ({"kappa": "bound"}, "kappa"),
    ],
)
def test_bad_options(options: dict[str, object], argument: str) -> None:
    with pytest.raises(ComparisonDataError, match=f"`{argument}`"):
        FiniteEngine(torch.from_numpy(KERNEL), **options)


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


# End to end.
