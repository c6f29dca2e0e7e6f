"""What the tests of rules with an expert share: objectives, labels, and an exact regression."""

from __future__ import annotations

from typing import Any

import torch
from botorch.models import SingleTaskGP
from botorch.models.transforms.outcome import Standardize
from botorch.settings import validate_input_scaling
from gpytorch.constraints import Positive
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.means import ConstantMean
from torch import Tensor

from botorch_pref.models import BernoulliGP, LikelihoodRatioModel
from tests.models.common import make_kernel, rand, utility
from tests.models.confidence_sets import unit_kernel

X = rand(9, 2, seed=11)
Y = 3.0 + 2.0 * utility(X)
MEAN, NOISE, OUTPUTSCALE = 0.3, 0.02, 1.5
POINTS = rand(20, 2, seed=4)
AT = POINTS.unsqueeze(-2)


def standardised(y: Tensor) -> Tensor:
    return (y - y.mean()) / y.std()


def double(value: float) -> Tensor:
    """GPyTorch takes plain numbers as single precision."""
    return torch.tensor(value, dtype=torch.double)


def objective(
    y: Tensor = Y, *, units: tuple[float, float] = (0.0, 1.0), fixed: bool = False, **options: Any
) -> SingleTaskGP:
    """A regression whose hyperparameters are fixed, in units of the values that it is given."""
    offset, scale = units
    kernel = make_kernel(2)
    kernel.outputscale = double(OUTPUTSCALE * scale**2)
    # A transform standardises these variances as well; so they are given as measured.
    measured = float(y.std()) ** 2 if options.get("outcome_transform") is not None else scale**2
    floorless = Positive(transform=torch.exp, inv_transform=torch.log)  # whatever the unit
    likelihood = GaussianLikelihood(noise_constraint=floorless).double()
    variances = torch.full((len(y), 1), NOISE * measured).double()
    with validate_input_scaling(False):
        model = SingleTaskGP(
            X,
            y.unsqueeze(-1),
            train_Yvar=variances if fixed else None,
            likelihood=None if fixed else likelihood,
            covar_module=kernel,
            mean_module=ConstantMean().double(),
            **{"outcome_transform": None, **options},
        )
    model.mean_module.initialize(constant=double(offset + MEAN * scale))
    if not fixed:
        likelihood.noise = double(NOISE * scale**2)
    return model.eval()


def with_standardize(y: Tensor = Y, **options: Any) -> SingleTaskGP:
    return objective(y, outcome_transform=Standardize(1), **options)


def by_hand(y: Tensor = Y, **options: Any) -> SingleTaskGP:
    return objective(standardised(y), **options)


def regression(points: Tensor, z: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and deviation of the latent at ``k x 2`` points, written out for standardised values."""
    kernel = make_kernel(2, outputscale=OUTPUTSCALE)
    with torch.no_grad():
        joint = kernel(torch.cat([X, points])).to_dense()
    n = len(X)
    gram = joint[:n, :n] + NOISE * torch.eye(n, dtype=torch.double)
    weights = torch.linalg.solve(gram, joint[:n, n:]).T
    mean = MEAN + weights @ (z - MEAN)
    return mean, (joint[n:, n:] - weights @ joint[:n, n:]).diagonal().sqrt()


LABELLED = rand(10, 2, seed=21)
ACCEPT = (utility(LABELLED) > utility(LABELLED).median()).double()


def label_set(accept: Tensor = ACCEPT, **options: Any) -> LikelihoodRatioModel:
    defaults: dict[str, Any] = {
        "covar_module": unit_kernel(2),
        "norm_bound": 3.0,
        "slack": 0.5,
    }
    return LikelihoodRatioModel.from_labels(LABELLED, accept, **{**defaults, **options})


def label_gp() -> BernoulliGP:
    return BernoulliGP(LABELLED, ACCEPT.unsqueeze(-1), covar_module=make_kernel(2))
