import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.problems import (
    Ackley,
    Catalyst,
    PreferenceProblem,
    RKHSFunction,
    dueling_regret,
    random_play_regret,
    scalar_regret,
    simple_regret,
)

UTILITIES = st.lists(st.floats(-15.0, 15.0), min_size=2, max_size=12)


def vector(values: list[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.double)


def test_by_hand() -> None:
    first, second = vector([1.0, 3.0]), vector([2.0, 3.0])
    mu1, mu2 = 1 / (1 + 2.718281828459045**-1), 1 / (1 + 2.718281828459045**-2)
    expected = vector([0.5 * (mu2 + mu1 - 1.0), 0.0])
    assert torch.allclose(dueling_regret(3.0, first, second), expected)
    assert torch.equal(simple_regret(3.0, first), vector([2.0, 0.0]))
    assert torch.allclose(scalar_regret(3.0, first), vector([mu2 - 0.5, 0.0]))


def test_the_link_is_free() -> None:
    first, second, best = torch.randn(3, 5, dtype=torch.double)
    best = best.abs() + 5.0
    logit = dueling_regret(best, first, second, link=LogitLikelihood())
    assert torch.allclose(logit, dueling_regret(best, first, second))
    probit = dueling_regret(best, first, second, link=ProbitLikelihood(scale=0.1))
    mu = torch.special.ndtr(0.1 * (best - torch.stack([first, second])))
    assert torch.allclose(probit, 0.5 * (mu.sum(dim=0) - 1.0))
    utilities = torch.randn(4, 6, dtype=torch.double)
    means = random_play_regret(utilities, link=ProbitLikelihood())
    assert not torch.allclose(means, random_play_regret(utilities))


@given(UTILITIES)
def test_sandwich(values: list[float]) -> None:
    """``(mu(D) - 1/2) / D u <= r <= u / 4`` for the width ``D`` of the utilities."""
    utilities = vector(values)
    best = utilities.max()
    first, second = utilities.unsqueeze(-1), utilities.unsqueeze(-2)
    dueling = dueling_regret(best, first, second)
    utility = best - 0.5 * (first + second)
    width = best - utilities.min()
    slope = (torch.sigmoid(width) - 0.5) / width if width > 1e-6 else 0.25
    assert (dueling >= slope * utility * (1 - 1e-9) - 1e-14).all()
    assert (dueling <= 0.25 * utility + 1e-14).all()


@given(UTILITIES)
def test_range_and_symmetry(values: list[float]) -> None:
    utilities = vector(values)
    best = utilities.max()
    first, second = utilities, utilities.flip(0)
    dueling = dueling_regret(best, first, second)
    assert (dueling >= 0.0).all()
    assert (dueling < 0.5).all()
    assert torch.equal(dueling, dueling_regret(best, second, first))
    assert dueling_regret(best, best, best).item() == 0.0
    shifted = dueling_regret(best + 1.0, first + 1.0, second + 1.0)
    assert torch.allclose(shifted, dueling, atol=1e-12)


@given(UTILITIES)
def test_random_play_is_the_mean_over_pairs(values: list[float]) -> None:
    utilities = vector(values)
    table = dueling_regret(utilities.max(), utilities.unsqueeze(-1), utilities.unsqueeze(-2))
    mean = random_play_regret(utilities)
    assert torch.allclose(mean, table.mean())
    distinct = ~torch.eye(len(values), dtype=torch.bool)
    assert torch.allclose(mean, table[distinct].mean())


@pytest.mark.parametrize(
    ("problem", "horizon", "reference"),
    [
        (Ackley(num_choices=40), 300, 139.3),
        (Ackley(num_choices=40, unit_cube=False), 300, 139.3),
        (Ackley(num_choices=40, utility_scale=3.0), 300, 97.4),
        (Catalyst(), 800, 316.3),
        (RKHSFunction(scale=1.0), 200, 24.8),
        (RKHSFunction(scale=5.0), 200, 68.7),
    ],
)
def test_random_play_of_the_papers_problems(
    problem: PreferenceProblem, horizon: int, reference: float
) -> None:
    total = horizon * random_play_regret(problem.utilities).item()
    assert total == pytest.approx(reference, abs=0.051)
