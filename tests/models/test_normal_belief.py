r"""A belief that is given as a function, against SciPy, finite differences and in rules."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from botorch.acquisition import AcquisitionFunction
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from botorch.utils.sampling import draw_sobol_samples
from scipy.special import logit
from scipy.stats import multivariate_normal
from torch import Tensor
from torch.autograd import gradcheck

from botorch_pref.acquisition import (
    ExpertAugmentedLCB,
    LogHumanConstrainedEI,
    OptimisticAcceptance,
)
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models import NormalBelief

MEAN = torch.tensor([0.3, 0.7], dtype=torch.double)
ROOT = torch.tensor([[0.2, 0.0], [0.1, 0.3]], dtype=torch.double)
COVARIANCE = ROOT @ ROOT.T
ITEMS = torch.rand(100, 2, generator=torch.Generator().manual_seed(0), dtype=torch.double)


def test_it_is_a_normal_density_whose_peak_is_one() -> None:
    law = multivariate_normal(MEAN.numpy(), COVARIANCE.numpy())
    expected = torch.as_tensor(law.pdf(ITEMS.numpy()) / law.pdf(MEAN.numpy()))
    belief = NormalBelief(MEAN, COVARIANCE)
    torch.testing.assert_close(belief.probability(ITEMS), expected, rtol=1e-9, atol=0.0)
    torch.testing.assert_close(belief.latent(ITEMS), torch.as_tensor(logit(expected.numpy())))
    bounded = NormalBelief(MEAN, COVARIANCE, bound=3.0)
    torch.testing.assert_close(bounded.latent(ITEMS), belief.latent(ITEMS).clamp(-3.0, 3.0))
    assert float(bounded.latent(MEAN)) == 3.0
    assert 30.0 < float(belief.latent(MEAN)) < 40.0
    assert float(belief.latent(MEAN + 1e6)) < -1e6


def test_its_posterior_has_no_variance_and_keeps_batches() -> None:
    belief = NormalBelief(MEAN, COVARIANCE, bound=3.0)
    posterior = belief.posterior(ITEMS.view(5, 4, 5, 2))
    torch.testing.assert_close(posterior.mean.squeeze(-1), belief.latent(ITEMS).view(5, 4, 5))
    assert float(posterior.distribution.covariance_matrix.abs().max()) == 0.0


def test_gradients() -> None:
    belief = NormalBelief(MEAN, COVARIANCE)
    assert gradcheck(belief.latent, (ITEMS[:10].clone().requires_grad_(),))
    at_mean = MEAN.clone().requires_grad_()
    belief.latent(at_mean).backward()
    assert at_mean.grad is not None
    assert bool(at_mean.grad.isfinite().all())


RULES: dict[str, Callable[[SingleTaskGP, NormalBelief], AcquisitionFunction]] = {
    "lcb": lambda gp, belief: ExpertAugmentedLCB(gp, belief, weight=2.0),
    "hcei": lambda gp, belief: LogHumanConstrainedEI(gp, belief, best_f=0.1),
    "optimistic": lambda gp, belief: OptimisticAcceptance(belief),
}


@pytest.mark.parametrize("name", RULES)
def test_rules_look_where_it_is_large(name: str) -> None:
    X = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    gp = SingleTaskGP(X, torch.tensor([[0.0], [0.1], [-0.1]], dtype=torch.double))
    rule = RULES[name](gp, NormalBelief(MEAN, 0.05**2 * torch.eye(2, dtype=torch.double)))
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
    grid = draw_sobol_samples(bounds, n=1024, q=1, seed=0)
    assert float((grid[rule(grid).argmax()] - MEAN).norm()) < 0.05
    if name == "hcei":  # smooth also at the mean
        torch.manual_seed(0)
        found, _ = optimize_acqf(rule, bounds, q=1, num_restarts=4, raw_samples=256)
        assert float((found - MEAN).norm()) < 0.05


@pytest.mark.parametrize(
    ("mean", "covariance", "named"),
    [
        (MEAN, -COVARIANCE, "`covariance` must be symmetric and positive definite"),
        (MEAN, torch.tensor([[1.0, 0.5], [0.0, 1.0]]).double(), "`covariance` must be symmetric"),
        (MEAN, torch.eye(3).double(), "`covariance` must have shape 2 x 2"),
        (MEAN * torch.nan, COVARIANCE, "`mean` row 0"),
        (MEAN, COVARIANCE * torch.inf, "`covariance` row 0"),
        (MEAN.unsqueeze(0), COVARIANCE, "`mean` must have shape d"),
    ],
)
def test_errors_name_the_argument(mean: Tensor, covariance: Tensor, named: str) -> None:
    with pytest.raises(ComparisonDataError, match=named):
        NormalBelief(mean, covariance)
    with pytest.raises(ComparisonDataError, match="`bound`"):
        NormalBelief(MEAN, COVARIANCE, bound=-1.0)
