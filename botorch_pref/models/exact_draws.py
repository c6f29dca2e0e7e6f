r"""Pathwise draws of BoTorch's exact models that are the same on every device."""

from __future__ import annotations

from typing import Any

import torch
from botorch.sampling.pathwise.paths import GeneralizedLinearPath
from botorch.sampling.pathwise.update_strategies import gaussian_update
from botorch.sampling.pathwise.utils import get_train_inputs
from gpytorch.models import ExactGP
from linear_operator.operators import SumLinearOperator, ZeroLinearOperator
from torch import Tensor


def update_with_cpu_noise(
    model: ExactGP, sample_values: Tensor, target_values: Tensor, **kwargs: Any
) -> GeneralizedLinearPath:
    r"""BoTorch's ``gaussian_update``, with noise that the CPU draws wherever the model is.

    Args:
        model: The model.
        sample_values: ``... x n``-dim values of a prior path at the model's items.
        target_values: ``... x n``-dim values that were measured there.
        **kwargs: Passed on.

    Returns:
        What is added to the prior path.
    """
    (points,) = get_train_inputs(model, transformed=True)
    noise = model.likelihood.noise_covar(shape=points.shape[:-1])
    normal = torch.randn(sample_values.shape, dtype=sample_values.dtype, device="cpu")
    drawn = noise.cholesky() @ normal.to(sample_values.device).unsqueeze(-1)
    return gaussian_update(
        model,
        sample_values + drawn.squeeze(-1),
        target_values=target_values,
        noise_covariance=ZeroLinearOperator(*noise.shape, dtype=points.dtype, device=points.device),
        scale_tril=SumLinearOperator(model.covar_module(points), noise).cholesky(),
        **kwargs,
    )
