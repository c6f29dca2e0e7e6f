"""Evidence and posterior: against the oracle, dense algebra, quadrature and finite differences."""

from __future__ import annotations

import gc
import math
import time
import weakref
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd.functional import hessian, jacobian

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference import (
    Block,
    ExactSystem,
    LaplacePosterior,
    Observations,
    choose_system,
    laplace_posterior,
    log_evidence,
)
from tests._reference import laplace as reference
from tests.inference.common import (
    LINKS,
    SIDES,
    assert_equal,
    choices,
    design,
    duels,
    likelihood,
    make,
    matern,
    mixed,
    numerical_gradient,
    oracle,
    prior_latent,
    questions,
    rand,
    randn,
)
from tests.inference.inducing import inducing_side

N, D, M, LABELS, Q = 7, 2, 10, 3, 3
X, POINTS = rand(N, D), rand(Q, D, seed=20)
DUPLICATED = X[[0, 1, 1, 2, 0, 3, 4]]

both_sides = pytest.mark.parametrize("wanted", SIDES)
every_link = pytest.mark.parametrize(("link", "scale"), LINKS)
both_judges = pytest.mark.parametrize("judge", ["noisy", "consistent"])
every_outputscale = pytest.mark.parametrize("outputscale", [0.1, 3.0, 100.0])

QUESTIONS: dict[str, Callable[[], Observations]] = {
    "choices": lambda: Observations([questions(2, 3, N)], N),
    "pairs": lambda: Observations([questions(6, 2, N)], N),
    "mixed": lambda: mixed(1, N),
    "many": lambda: mixed(8, N),
}
every_kind = pytest.mark.parametrize("kind", QUESTIONS)


def answers(link: str, scale: float, judge: str, items: Tensor = X) -> Observations:
    return make(items, M, LABELS, judge=judge, link=likelihood(link, scale), padding=1)


def parameters(outputscale: float, items: Tensor = X) -> Tensor:
    """Two log lengthscales, log output scale, constant and slope of the mean, items, points."""
    head = torch.tensor([0.4, 0.6, outputscale], dtype=torch.float64).log()
    mean = torch.tensor([0.3, 0.5], dtype=torch.float64)
    return torch.cat([head, mean, items.flatten(), POINTS.flatten()])


class Model:
    """A system, and the prior of the points, as functions of ``... x p`` parameters."""

    def __init__(
        self, theta: Tensor, observations: Observations, wanted: type[ExactSystem]
    ) -> None:
        self.theta = theta
        self.items = theta[..., 5 : 5 + N * D].unflatten(-1, (N, D))
        self.points = theta[..., 5 + N * D :].unflatten(-1, (Q, D))
        latent = observations.incidence.apply(self.mean(self.items))
        self.system = wanted(self.kernel(self.items, self.items), latent, observations)

    def mean(self, x: Tensor) -> Tensor:
        return self.theta[..., 3, None] + self.theta[..., 4, None] * x.sum(-1)

    def kernel(self, x: Tensor, z: Tensor) -> Tensor:
        scales = self.theta[..., None, None, :3].exp()
        return matern(x, z, scales[..., :2], scales[..., 2])

    def evidence(self) -> Tensor:
        return log_evidence(self.system)[0]

    def posterior(self, kappa: float | None = None) -> tuple[LaplacePosterior, Tensor, Tensor]:
        weight = None if kappa is None else self.system.observations.weight / kappa
        found = laplace_posterior(self.system, weight)
        prior, cross = self.kernel(self.points, self.points), self.kernel(self.points, self.items)
        return found, *found.predict(self.mean(self.points), prior, cross)

    def functionals(self) -> Tensor:
        """The evidence, and all entries of every part of the posterior: ``... x 7``."""
        found, mean, covariance = self.posterior()
        free, _, other = self.posterior(kappa=1.0)
        size = found.weights.shape[-1]
        R, S = randn(size, size, seed=32), randn(Q, Q, seed=34)
        return torch.stack(
            [
                self.evidence(),
                found.weights @ randn(size, seed=31),
                (found.gamma * R).sum((-2, -1)),
                (free.gamma * R).sum((-2, -1)),
                mean @ randn(Q, seed=33),
                (covariance * S).sum((-2, -1)),
                (other * S).sum((-2, -1)),
            ],
            dim=-1,
        )


# Values.


@both_sides
@every_link
@both_judges
@every_outputscale
@pytest.mark.parametrize("items", [X, DUPLICATED], ids=["distinct", "duplicated"])
def test_against_the_oracle(
    wanted: type[ExactSystem],
    link: str,
    scale: float,
    judge: str,
    outputscale: float,
    items: Tensor,
) -> None:
    observations = answers(link, scale, judge, items)
    model = Model(parameters(outputscale, items), observations, wanted)
    K, H = model.kernel(items, items), design(observations)
    expected = oracle(K, model.mean(items), observations, link, scale)
    found, mode = log_evidence(model.system)
    assert_equal(found, expected.log_evidence)
    assert_equal(mode.latent, expected.differences)
    cross, prior = model.kernel(POINTS, items).numpy(), model.kernel(POINTS, POINTS).numpy()
    exact = reference.predict(expected, K.numpy(), H, cross, prior, model.mean(POINTS).numpy())
    _, mean, covariance = model.posterior()
    assert_equal(mean, exact[0])
    assert_equal(covariance, exact[1])
    assert float(torch.linalg.eigvalsh(covariance).min()) > -1e-10 * outputscale
    for kappa in (0.1, 4.0):
        weight = observations.weight.numpy()
        free = reference.answer_free_covariance(prior, cross, K.numpy(), H, weight, kappa)
        _, same, covariance = model.posterior(kappa)
        assert torch.equal(same, mean)
        assert_equal(covariance, free)


@every_kind
@both_sides
def test_questions_against_dense_algebra(kind: str, wanted: type[ExactSystem]) -> None:
    """At the mode, which is where the gradient of the log joint vanishes."""
    observations = QUESTIONS[kind]()
    model = Model(parameters(4.0), observations, wanted)
    value, mode = log_evidence(model.system)
    K, H = model.kernel(X, X), observations.incidence.dense(X)
    P = H @ K @ H.T
    assert mode.converged

    def log_prob(eta: Tensor) -> Tensor:
        return observations.log_prob(eta).sum()

    latent = H @ model.mean(X) + P @ mode.weights
    assert_equal(mode.latent, latent, 1e-9)
    assert_equal(mode.weights, jacobian(log_prob, latent), 1e-9)
    W = -hessian(log_prob, latent)
    B = torch.eye(len(W), dtype=torch.float64) + W @ P
    joint = log_prob(latent) - 0.5 * mode.weights @ P @ mode.weights
    assert_equal(value, joint - 0.5 * B.logdet(), 1e-9)
    cross, (_, mean, covariance) = model.kernel(POINTS, X), model.posterior()
    explained = cross @ H.T @ torch.linalg.solve(B, W) @ H @ cross.T
    assert_equal(mean, model.mean(POINTS) + cross @ H.T @ mode.weights, 1e-9)
    assert_equal(covariance, model.kernel(POINTS, POINTS) - explained, 1e-9)


def test_evidence_against_quadrature() -> None:
    """Of one question of three items, whose evidence is an integral in two differences."""
    block = choices(torch.tensor([[0, 1, 2]]), torch.tensor([1]), 3)
    errors = []
    for outputscale in (0.01, 0.1):
        K = matern(rand(3, 2, seed=5), None, 0.4, outputscale)
        zero = torch.zeros(3, dtype=torch.float64)
        value, _ = log_evidence(choose_system(K, zero, Observations([block], 3)))
        contrast = torch.tensor([[1.0, -1.0, 0.0], [0.0, -1.0, 1.0]], dtype=torch.float64)
        root = torch.linalg.cholesky(contrast @ K @ contrast.T)
        grid = torch.linspace(-8.0, 8.0, 201, dtype=torch.float64)
        z = torch.cartesian_prod(grid, grid)
        others = (z @ root.T).exp().sum(-1)
        density = torch.exp(-0.5 * z.square().sum(-1)) / (2 * torch.pi) * (grid[1] - grid[0]) ** 2
        errors.append(float((value - (density / (1.0 + others)).sum().log()).abs()))
    # The approximation is exact for a narrow prior, to second order in its variance.
    assert errors[0] < 1e-5
    assert errors[1] < 1e-3


@both_sides
def test_differences_are_those_of_the_joint_posterior(wanted: type[ExactSystem]) -> None:
    model = Model(parameters(4.0), make(X, M, LABELS), wanted)
    found, mean, covariance = model.posterior()
    A = torch.tensor([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]], dtype=torch.float64)
    prior, cross = model.kernel(POINTS, POINTS), model.kernel(POINTS, X)
    own = found.predict_differences(A @ model.mean(POINTS), (A @ prior @ A.T).diagonal(), A @ cross)
    assert_equal(own[0], A @ mean, 1e-12)
    assert_equal(own[1], (A @ covariance @ A.T).diagonal(), 1e-12)


@both_sides
def test_no_variance_is_negative(wanted: type[ExactSystem]) -> None:
    # Duels asked a million times leave a variance of 1e-6, below the rounding of K Gamma K.
    observations, K = make(X, M), matern(X, outputscale=100.0)
    zero = torch.zeros(M, dtype=torch.float64)
    fitted = laplace_posterior(wanted(K, zero, observations), zero + 1e6)
    A = torch.from_numpy(design(observations))
    prior = (A @ K @ A.T).diagonal()
    _, variance = fitted.predict_differences(zero, prior, A @ K)
    assert (variance >= 0).all()
    assert (variance < 1e-2).all()
    # A prior variance that is rounded down by more than what is left.
    _, variance = fitted.predict_differences(zero, prior - 1e-2, A @ K)
    assert (variance == 0).all()


@both_sides
@every_link
def test_gaps_of_a_thousand_are_finite(wanted: type[ExactSystem], link: str, scale: float) -> None:
    observations = make(X, M, link=likelihood(link, scale))
    mean = torch.linspace(-1000.0, 1000.0, N, dtype=torch.float64)
    K = matern(X, outputscale=0.1).requires_grad_()
    latent = prior_latent(observations, mean).requires_grad_()
    found, mode = log_evidence(wanted(K, latent, observations))
    assert mode.latent.abs().max() > 1000
    assert_equal(found, oracle(K, mean, observations, link, scale).log_evidence)
    for grad in torch.autograd.grad(found, (K, latent)):
        assert torch.isfinite(grad).all()


# Gradients.


def check_gradients(function: Callable[[Tensor], Tensor], theta: Tensor) -> Tensor:
    """Compare the gradients of ``... x p`` to ``... x k`` with differences; return them."""
    theta = theta.clone().requires_grad_()
    expected, found = numerical_gradient(function, theta), []
    for value, numerical in zip(function(theta), expected, strict=True):
        found += torch.autograd.grad(value, theta, retain_graph=True)
        assert_equal(found[-1], numerical, 1e-6)
    return torch.stack(found)


@both_sides
@every_link
@both_judges
@every_outputscale
def test_gradients(
    wanted: type[ExactSystem], link: str, scale: float, judge: str, outputscale: float
) -> None:
    """In hyperparameters, mean, items and points."""
    observations = answers(link, scale, judge)
    functionals = check_gradients(
        lambda theta: Model(theta, observations, wanted).functionals(), parameters(outputscale)
    )
    assert (functionals[0, : 5 + N * D].abs() > 1e-6).all()


@every_kind
@both_sides
def test_gradients_of_questions(kind: str, wanted: type[ExactSystem]) -> None:
    observations = QUESTIONS[kind]()
    check_gradients(lambda theta: Model(theta, observations, wanted).functionals(), parameters(4.0))


@both_sides
def test_duels_have_no_slope_in_a_constant_nor_in_other_items(wanted: type[ExactSystem]) -> None:
    observations = Observations([duels(X[:-1], M)], N)
    theta = parameters(10.0).requires_grad_()
    (slope,) = torch.autograd.grad(Model(theta, observations, wanted).evidence(), theta)
    assert abs(float(slope[3])) < 1e-12
    assert (slope[5 + (N - 1) * D :] == 0).all()


@pytest.mark.parametrize("outputscale", [1.0, 100.0])
@both_sides
def test_singular_covariance(wanted: type[ExactSystem], outputscale: float) -> None:
    """Along a direction that keeps the rank, which both systems see alike."""
    features, other = randn(N, 2), randn(Q, 2, seed=1)
    observations = make(X, M, LABELS)
    latent = torch.zeros(M + LABELS, dtype=torch.float64)

    def function(theta: Tensor) -> Tensor:
        items, points = (f * theta.exp().unsqueeze(-2) for f in (features, other))
        system, found = wanted(items @ items.mT, latent, observations), []
        found.append(log_evidence(system)[0])
        for weight in (None, observations.weight):
            fitted = laplace_posterior(system, weight)
            zero = torch.zeros(Q, dtype=torch.float64)
            mean, covariance = fitted.predict(zero, points @ points.mT, points @ items.mT)
            found.append(mean @ randn(Q, seed=2) + (covariance * randn(Q, Q, seed=3)).sum((-2, -1)))
        return torch.stack(found, dim=-1)

    theta = torch.tensor([0.0, 0.7], dtype=torch.float64) + 0.5 * math.log(outputscale)
    check_gradients(function, theta)


@both_sides
def test_a_second_derivative_is_refused(wanted: type[ExactSystem]) -> None:
    theta = parameters(1.0).requires_grad_()
    model = Model(theta, make(X, M), wanted)
    for value in (model.evidence(), model.posterior()[1].sum()):
        with pytest.raises(UnsupportedError, match="first derivatives only"):
            torch.autograd.grad(value, theta, create_graph=True)


# Batches, and what must not matter.


def element(observations: Observations, *index: int) -> Observations:
    blocks = [
        replace(b, items=b.items[index], answer=b.answer[index], weight=b.weight[index])
        for b in observations.blocks
    ]
    return Observations(blocks, observations.num_items)


@pytest.mark.parametrize("kind", ["shared", "own", "mixed"])
@both_sides
def test_two_leading_dimensions_are_a_loop(wanted: type[ExactSystem], kind: str) -> None:
    items = rand(2, 3, N, D)
    observations = mixed(5, N) if kind == "mixed" else make(X if kind == "shared" else items, M, 3)
    theta = parameters(4.0).expand(2, 3, -1).clone()
    theta[..., :5] += 0.5 * randn(2, 3, 5)
    theta[..., 5 : 5 + N * D] = items.flatten(-2)
    theta.requires_grad_()
    found = Model(theta, observations, wanted).functionals()
    weights = 1.0 + rand(2, 3, 7)
    (grad,) = torch.autograd.grad((weights * found).sum(), theta)
    assert found.shape == (2, 3, 7)
    for i, j in np.ndindex(2, 3):
        one = element(observations, i, j) if kind == "own" else observations
        alone = theta[i, j].detach().requires_grad_()
        expected = Model(alone, one, wanted).functionals()
        (slope,) = torch.autograd.grad((weights[i, j] * expected).sum(), alone)
        assert_equal(found[i, j], expected, 1e-12)
        assert_equal(grad[i, j], slope, 1e-9)


@both_sides
def test_one_prior_of_many_data_sets(wanted: type[ExactSystem]) -> None:
    observations, K = make(rand(2, 3, N, D), M, LABELS), matern(X).requires_grad_()
    latent = torch.zeros(M + LABELS, dtype=torch.float64)
    found, _ = log_evidence(wanted(K, latent, observations))
    (grad,) = torch.autograd.grad(found.sum(), K)
    total = torch.zeros_like(K)
    for i, j in np.ndindex(2, 3):
        expected, _ = log_evidence(wanted(K, latent, element(observations, i, j)))
        assert_equal(found[i, j], expected, 1e-12)
        total += torch.autograd.grad(expected, K)[0]
    assert_equal(grad, total, 1e-9)


def evaluate(block: Block, wanted: type[ExactSystem]) -> tuple[Tensor, Tensor]:
    theta = parameters(10.0).requires_grad_()
    value = Model(theta, Observations([block], N), wanted).evidence()
    return value.detach(), torch.autograd.grad(value, theta)[0]


@both_sides
@settings(max_examples=20, deadline=None, database=None, derandomize=True)
@given(seed=st.integers(0, 10**6), data=st.data())
def test_order_of_rows_and_of_items(
    wanted: type[ExactSystem], seed: int, data: st.DataObject
) -> None:
    block = duels(X, M, seed=seed)
    order = torch.tensor(data.draw(st.permutations(range(M))))
    flip = torch.tensor(data.draw(st.lists(st.booleans(), min_size=M, max_size=M)))
    items = torch.where(flip[:, None], block.items.flip(-1), block.items)
    answer = torch.where(flip, 1.0 - block.answer, block.answer)
    moved = replace(block, items=items, answer=answer).select(order)
    values, slopes = zip(*(evaluate(b, wanted) for b in (block, moved)), strict=True)
    assert_equal(values[1], values[0], 1e-10)
    assert_equal(slopes[1], slopes[0])


@both_sides
def test_repeated_rows_are_a_weight(wanted: type[ExactSystem]) -> None:
    block = duels(X, M)
    repeated = block.select(torch.arange(M).repeat_interleave(block.weight.long()))
    repeated = replace(repeated, weight=torch.ones_like(repeated.weight))
    values, slopes = zip(*(evaluate(b, wanted) for b in (block, repeated)), strict=True)
    assert_equal(values[1], values[0])
    assert_equal(slopes[1], slopes[0])


# Costs and limits.


@pytest.mark.slow
def test_costs_few_factorisations() -> None:
    items, size = rand(400, 6), 400
    zero = torch.zeros(size, dtype=torch.float64)
    system = choose_system(matern(items), zero, make(items, size))
    system.covariance.requires_grad_()
    matrix = matern(items) + torch.eye(size, dtype=torch.float64)

    def fastest(function: Callable[[], object]) -> float:
        times = []
        for _ in range(15):
            start = time.perf_counter()
            function()
            times.append(time.perf_counter() - start)
        return min(times)

    evidence = fastest(lambda: torch.autograd.grad(log_evidence(system)[0], system.covariance))
    # The aim is 15; the margin is for machines on which this is not the only job.
    assert evidence <= 30.0 * fastest(lambda: torch.linalg.cholesky(matrix))


@both_sides
def test_a_posterior_is_freed_without_the_collector(wanted: type[ExactSystem]) -> None:
    K = matern(X).requires_grad_()
    latent = torch.zeros(M, dtype=torch.float64)
    gc.disable()
    try:
        found = laplace_posterior(wanted(K, latent, make(X, M)))
        (found.weights.sum() + found.gamma.sum()).backward()
        system = weakref.ref(found.system)
        del found
        assert system() is None
    finally:
        gc.enable()


def test_inducing_items_take_single_latent_values() -> None:
    with pytest.raises(UnsupportedError, match="all items"):
        inducing_side(X, X[:3], mixed(2, N), X.sum(-1))
