import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems import Catalyst, ItemError, PreferenceProblem
from experiments.problems import EXPERT_BENCHMARKS, ExpertBenchmark, MVNExpert, belief_mean
from experiments.problems.beliefs import BeliefMean


def uniform(problem: PreferenceProblem, *shape: int) -> Tensor:
    cube = torch.rand(
        *shape, problem.dim, dtype=torch.double, generator=torch.Generator().manual_seed(0)
    )
    return torch.lerp(*problem.bounds, cube)


def test_beliefs() -> None:
    problem = ExpertBenchmark("holder2", unit_cube=False)
    items = uniform(problem, 4, 25)
    root = torch.tensor([[1.0, 0.0], [0.5, 2.0]], dtype=torch.double)
    covariance = root @ root.T
    mean = torch.tensor([3.0, 7.0], dtype=torch.double)
    law = multivariate_normal(mean.numpy(), covariance.numpy())
    expected = torch.as_tensor(law.pdf(items.numpy())) / law.pdf(mean.numpy())
    found = MVNExpert(problem, mean, covariance).probability(items)
    assert torch.allclose(found, expected, rtol=1e-9)
    plain = MVNExpert(problem, mean)
    assert torch.allclose(
        plain.probability(items), MVNExpert(problem, mean, torch.eye(2)).probability(items)
    )
    assert float(plain.probability(mean)) == 1.0
    assert float(plain.probability(mean + torch.tensor([0.0, 2.0]))) == pytest.approx(
        math.exp(-2.0)
    )
    assert float(MVNExpert(problem, mean, 4.0).probability(mean + 2.0)) == pytest.approx(
        math.exp(-1.0)
    )
    assert plain.probability(items.float()).dtype == torch.float32


@pytest.mark.parametrize("which", EXPERT_BENCHMARKS)
def test_means_of_beliefs(which: str) -> None:
    problem = ExpertBenchmark(which)
    kinds: tuple[BeliefMean, ...] = ("strong", "weak", "wrong")
    strong, weak, wrong = (belief_mean(problem, kind) for kind in kinds)
    assert torch.equal(strong, problem.optimizers[0])
    assert ((wrong == 0.0) | (wrong == 1.0)).all()
    assert (wrong - strong).norm() >= (uniform(problem, 5000) - strong).norm(dim=-1).max()
    assert torch.allclose(weak, (strong + wrong) / 2)
    accepts = [float(MVNExpert(problem, kind).probability(strong)) for kind in kinds]
    assert accepts[0] == 1.0
    assert accepts == sorted(accepts, reverse=True)
    assert accepts[2] >= math.exp(-problem.dim / 2)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (partial(MVNExpert, mean="best"), SearchSpaceError, "mean must be 'strong', .*got 'best'"),
        (partial(MVNExpert, mean=torch.zeros(3)), ItemError, r"mean must .*got shape \(3,\)\."),
        (
            partial(MVNExpert, mean=torch.tensor([0.0, 0.0, float("nan"), 0.0])),
            ItemError,
            r"mean must .*\(4,\), not finite",
        ),
        (partial(MVNExpert, covariance=0.0), SearchSpaceError, "covariance must be a positive"),
        (partial(MVNExpert, covariance=-torch.eye(4)), SearchSpaceError, "covariance must be a"),
        (partial(MVNExpert, covariance=torch.eye(3)), SearchSpaceError, "positive definite 4 x 4"),
        (
            partial(MVNExpert, covariance=torch.eye(4) + 0.1 * torch.eye(4).roll(1, 0).tril()),
            SearchSpaceError,
            "covariance must be a positive number, or a symmetric",
        ),
    ],
)
def test_bad_options(make: Callable[..., object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make(ExpertBenchmark("ackley4"))


def test_choices() -> None:
    problem = Catalyst()
    best = belief_mean(problem, "strong")
    assert torch.equal(best, problem.choices[problem.utilities.argmax()])
    distances = (problem.choices - best).norm(dim=-1)
    wrong = belief_mean(problem, "wrong")
    assert float((wrong - best).norm()) == float(distances.max())
    assert (wrong == problem.choices).all(dim=-1).any()


def test_a_problem_without_a_known_optimum() -> None:
    with pytest.raises(UnsupportedError, match="mean must be a tensor: unknown does not know"):
        MVNExpert(Unknown())
    assert MVNExpert(Unknown(), torch.tensor([0.5])).mean.dtype == torch.float64


class Unknown(PreferenceProblem):
    _bounds = [(0.0, 1.0)]  # noqa: RUF012 (as in BoTorch)

    def _evaluate_true(self, X: Tensor) -> Tensor:
        return X.squeeze(-1)
