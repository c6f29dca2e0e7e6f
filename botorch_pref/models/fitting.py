r"""What hyperparameters are fitted by, and the defaults they start from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, Self

from botorch.utils.constraints import LogTransformedInterval
from gpytorch import Module
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor

DEFAULT_LENGTHSCALE = 0.4
DEFAULT_OUTPUT_SCALE = 4.0

KernelName = Literal["rbf", "matern", "matern15"]
_SMOOTHNESS = {"matern": 2.5, "matern15": 1.5}


class LaplaceMarginalLogLikelihood(MarginalLogLikelihood):
    r"""The Laplace evidence of a model plus the log density of its priors.

    For :func:`botorch.fit.fit_gpytorch_mll`. BoTorch's own
    ``PairwiseLaplaceMarginalLogLikelihood`` works on these models as well and fits the
    very same objective: both defer to the model.

    Example:
        >>> mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
        >>> fit_gpytorch_mll(mll)
    """

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        r"""The objective; a sum over the model's batch.

        Args:
            *args: Ignored: a Laplace evidence is a function of the model alone. They
                are accepted because GPyTorch calls ``mll(model_output, targets)``.
            **kwargs: Ignored likewise.

        Returns:
            A scalar, the log evidence plus the log density of all priors.
        """
        return log_hyperposterior(self, self.model.log_evidence())


def log_hyperposterior(module: Module, log_evidence: Tensor) -> Tensor:
    r"""The sum of ``log_evidence`` and of the log densities of a module's priors.

    Args:
        module: The marginal log likelihood, whose named priors are added.
        log_evidence: ``batch_shape``-dim log evidence.

    Returns:
        A scalar.
    """
    value = log_evidence.sum()
    for log_prob in _log_priors(module):
        value = value + log_prob.sum()
    return value


def log_hyperpriors(module: Module, size: int) -> Tensor:
    r"""The log density of a module's priors, one value for each element of its batch.

    Args:
        module: The marginal log likelihood, whose priors are all on batched parameters.
        size: The number of elements.

    Returns:
        ``size``-dim values.
    """
    value = next(module.parameters()).new_zeros(size)
    for log_prob in _log_priors(module):
        value = value + log_prob.reshape(size, -1).sum(-1)
    return value


def _log_priors(module: Module) -> Iterator[Tensor]:
    for _, owner, prior, closure, _ in module.named_priors():
        yield prior.log_prob(closure(owner))


class MovablePrior(LogNormalPrior):
    """GPyTorch's log-normal prior, whose draws are where it was moved to."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Torch's, of what moves a module; GPyTorch moves copies of the parameters alone."""
        super()._apply(fn, recurse)
        self.base_dist.loc, self.base_dist.scale = self._buffered_loc, self._buffered_scale
        return self


def default_covar_module(
    dim: int | None, batch_shape: Size, kind: KernelName = "rbf"
) -> ScaleKernel:
    r"""A scaled kernel with one lengthscale a dimension, for items in the unit cube.

    The priors are log-normal: the median lengthscale is 0.4, the median output scale 4
    in logits squared. Both are optimised on the log scale, on which these priors are
    quadratic. ``botorch-pref bench defaults`` is what chose them.

    Args:
        dim: The number of dimensions of an item; one shared lengthscale if ``None``.
        batch_shape: The batch shape of the hyperparameters.
        kind: ``"rbf"``, ``"matern"`` for Matern-5/2, or ``"matern15"`` for Matern-3/2.

    Returns:
        The kernel.
    """
    options = {
        "ard_num_dims": dim,
        "batch_shape": batch_shape,
        "lengthscale_prior": MovablePrior(math.log(DEFAULT_LENGTHSCALE), 0.8),
        "lengthscale_constraint": LogTransformedInterval(
            1e-3, 1e2, initial_value=DEFAULT_LENGTHSCALE
        ),
    }
    smoothness = _SMOOTHNESS.get(kind)
    return ScaleKernel(
        MaternKernel(nu=smoothness, **options) if smoothness else RBFKernel(**options),
        batch_shape=batch_shape,
        outputscale_prior=MovablePrior(math.log(DEFAULT_OUTPUT_SCALE), 1.0),
        outputscale_constraint=LogTransformedInterval(
            1e-3, 1e4, initial_value=DEFAULT_OUTPUT_SCALE
        ),
    )
