r"""The model of measured values, standardised by BoTorch's transform."""

from __future__ import annotations

import torch
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.settings import validate_input_scaling
from gpytorch.constraints import GreaterThan
from gpytorch.kernels import RBFKernel
from gpytorch.means import ZeroMean
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.space import SearchSpace
from botorch_pref.strategies.standardised import standardising


def objective_kernel(dim: int, prior: bool) -> RBFKernel:
    r"""A squared exponential kernel with ARD and unit variance, to be fitted.

    Args:
        dim: The dimension ``d``.
        prior: Whether lengthscales have BoTorch's prior; if not, they are bounded as with it, for
            without any bound distances in lengthscales can have no digits left.
    """
    if not prior:
        return RBFKernel(ard_num_dims=dim, lengthscale_constraint=GreaterThan(2.5e-2)).double()
    kernel = get_covar_module_with_dim_scaled_prior(ard_num_dims=dim)
    assert isinstance(kernel, RBFKernel)
    return kernel.double()


def objective_model(
    space: SearchSpace, items: Tensor, values: Tensor, noise: float, kernel: RBFKernel
) -> SingleTaskGP:
    r"""A zero-mean model of standardised values.

    Args:
        space: The domain, whose unit cube lengthscales are measured in.
        items: ``n x d``-dim items.
        values: ``n``-dim values in any unit.
        noise: The variance of the noise, in squared standard deviations of the values.
        kernel: Of unit variance.

    Returns:
        The model, in evaluation mode.
    """
    units, targets = standardising(values), values.unsqueeze(-1).to(items)
    units(targets)
    with validate_input_scaling(False):  # the box is the unit cube, not what was measured
        model = SingleTaskGP(
            items,
            targets,
            (noise * units.stdvs.square()).expand_as(targets),
            covar_module=kernel,
            mean_module=ZeroMean(),
            input_transform=space.input_transform(),
            outcome_transform=standardising(values),
        )
    return model.eval()


@torch.no_grad()
def information_gain(model: SingleTaskGP, noise: float) -> float:
    """``log |I + K / r| / 2`` of the values of an objective model, ``r`` being their noise."""
    covariance = to_dense(model.covar_module(model.train_inputs[0]))
    eigenvalues = torch.linalg.eigvalsh(covariance)  # which repeated items do not trouble
    return 0.5 * float((eigenvalues.clamp_min(0.0) / noise).log1p().sum())
