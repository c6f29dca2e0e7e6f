"""One Thompson path an arm: independence, scale, seeds, and what ``optimize_acqf`` finds."""

from __future__ import annotations

import math

import pytest
import torch
from botorch.models import SingleTaskGP
from botorch.models.model import Model
from botorch.optim import optimize_acqf

from botorch_pref.acquisition import DuelingThompsonSampling, PairAsPoint
from tests.acquisition.common import make_batched_model, make_model
from tests.contracts.acquisition import PairAcquisitionContract
from tests.contracts.generators import global_states
from tests.models.common import rand


class TestContract(PairAcquisitionContract):
    def make(self) -> DuelingThompsonSampling:
        return DuelingThompsonSampling(make_model(), seed=3)


def test_value_is_a_sum_over_the_arms() -> None:
    rule, pairs = DuelingThompsonSampling(make_model(), seed=0), rand(6, 2, 2)
    one, two = rule.arm(0, pairs[:, 0]), rule.arm(1, pairs[:, 1])
    torch.testing.assert_close(rule(pairs), one + two)
    assert not torch.allclose(rule.arm(0, pairs[:, 0]), rule.arm(1, pairs[:, 0]), atol=1e-2)
    # So a swapped pair has another value, but the same from the other way of summing.
    crossed = rule.arm(0, pairs[:, 1]) + rule.arm(1, pairs[:, 0])
    torch.testing.assert_close(rule(pairs.flip(-2)), crossed)


@torch.no_grad()
def test_scale_multiplies_the_standard_deviation_alone() -> None:
    model, items = make_model(), rand(9, 2)
    mean = model.posterior(items).mean.squeeze(-1)
    plain, half, triple = (DuelingThompsonSampling(model, s, seed=1) for s in (1.0, 0.5, 3.0))
    for arm in (0, 1):
        deviation = plain.arm(arm, items) - mean
        assert deviation.abs().max() > 0.1
        torch.testing.assert_close(half.arm(arm, items) - mean, 0.5 * deviation)
        torch.testing.assert_close(triple.arm(arm, items) - mean, 3.0 * deviation)


@torch.no_grad()
def test_arms_are_independent_and_exchangeable() -> None:
    model, items, num = make_model(), rand(4, 2, seed=6), 120
    rules = [DuelingThompsonSampling(model, seed=seed) for seed in range(num)]
    draws = torch.stack([torch.stack([path(items) for path in rule.paths]) for rule in rules], 1)
    posterior = model.posterior(items)
    mean, spread = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1).sqrt()
    assert ((draws.mean(1) - mean).abs() <= 5 * spread / math.sqrt(num)).all()
    # Every rule has features of its own, so their error averages out.
    variance = draws.var(1)
    assert ((variance / spread.square() - 1).abs() <= 5 * math.sqrt(2 / num)).all()
    centred = draws - mean
    cross = centred[0].T @ centred[1] / num
    assert (cross.abs() <= 5 * spread[:, None] * spread / math.sqrt(num)).all()
    best = draws.argmax(-1)
    counts = torch.zeros(4, 4).index_put_(tuple(best), torch.ones(num), accumulate=True)
    upper = torch.triu_indices(4, 4, 1)
    one, two = counts[upper[0], upper[1]], counts[upper[1], upper[0]]
    assert ((one - two).abs() <= 4 * (one + two).sqrt()).all()


def model_of_values() -> SingleTaskGP:
    X = rand(8, 2)
    return SingleTaskGP(X, (3 * X).sin().sum(-1, keepdim=True)).eval()


@pytest.mark.parametrize("model", [make_model(), model_of_values()])
def test_seed_decides_and_leaves_the_generators_alone(model: Model) -> None:
    pairs = rand(4, 2, 2)
    states = global_states()
    one, two, other = (DuelingThompsonSampling(model, seed=seed) for seed in (5, 5, 6))
    assert torch.equal(one(pairs), two(pairs))
    assert not torch.allclose(one(pairs), other(pairs), atol=1e-2)
    assert global_states() == states
    torch.manual_seed(0)
    free, again = DuelingThompsonSampling(model), DuelingThompsonSampling(model)
    torch.manual_seed(0)
    assert torch.equal(DuelingThompsonSampling(model)(pairs), free(pairs))
    assert not torch.allclose(free(pairs), again(pairs), atol=1e-2)


@pytest.mark.parametrize(("dim", "scale"), [(1, 2.0), (2, 1.0)])
def test_joint_optimum_is_that_of_a_dense_grid(dim: int, scale: float) -> None:
    """Property 19."""
    rule = DuelingThompsonSampling(make_model(dim), scale=scale, seed=7)
    bounds = torch.tensor([[0.0] * dim, [1.0] * dim], dtype=torch.float64)
    torch.manual_seed(0)
    pair, value = optimize_acqf(
        rule, bounds, q=2, num_restarts=4, raw_samples=256, options={"maxiter": 200}
    )
    axis = torch.linspace(0.0, 1.0, 2001 if dim == 1 else 81, dtype=torch.float64)
    grid = torch.cartesian_prod(*[axis] * dim).view(-1, dim)
    with torch.no_grad():
        best = sum(rule.arm(i, grid).max() for i in (0, 1))
        arms = [rule.arm(i, pair[i]) for i in (0, 1)]
    assert float(value) >= float(best) - 1e-6
    assert float(value) == pytest.approx(float(sum(arms)))


def test_batched_model() -> None:
    rule = DuelingThompsonSampling(make_batched_model()[0], seed=0)
    pairs = rand(5, 1, 2, 2)
    values = rule(pairs.expand(5, 3, 2, 2))
    assert values.shape == (5, 3)
    alone = torch.cat([rule(pair.expand(1, 3, 2, 2)) for pair in pairs])
    torch.testing.assert_close(alone, values, atol=1e-10, rtol=0.0)
    scaled = DuelingThompsonSampling(rule.model, scale=2.0, seed=0)(pairs.expand(5, 3, 2, 2))
    mean = rule.model.posterior(pairs.expand(5, 3, 2, 2)).mean.squeeze(-1).sum(-1)
    torch.testing.assert_close(scaled - mean, 2.0 * (values - mean))


def test_every_pair_of_a_batch_that_is_improved_in_turns_is_another_draw() -> None:
    """As ``optimize_acqf_cyclic`` does, with the others of the batch pending each time."""
    rule, pairs = DuelingThompsonSampling(make_model(), seed=5), rand(4, 2, 2)
    point = PairAsPoint(rule)
    found = []
    for number in (1, 2, 2, 2):
        point.set_X_pending(rand(number, 4))
        found.append(rule(pairs))
    point.set_X_pending(None)
    found.append(rule(pairs))
    for i, one in enumerate(found):
        assert not any(torch.allclose(one, other, atol=1e-2) for other in found[:i])
