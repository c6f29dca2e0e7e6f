r"""What hyperparameters are fitted by, and the defaults they start from."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self

import torch
from botorch.utils.constraints import LogTransformedInterval
from gpytorch import Module
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor

# Modes of the priors, and the standard deviations of the logarithms around them.
DEFAULT_LENGTHSCALES = (0.3, 0.7)
DEFAULT_OUTPUT_SCALE = 4.0
_LENGTHSCALE_WIDTH, _OUTPUT_SCALE_WIDTH = 0.8, 1.0

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


class LengthscalePrior(MovablePrior):
    r"""Log-normal lengthscales around one of several modes, the same one for all dimensions.

    The modes are equally high, so that answers decide between them, and few can: dimensions
    vote together. Draws are around the first mode.

    Args:
        modes: The modes, in units of the inputs.
        width: The standard deviation of the logarithm around each.
    """

    def __init__(self, modes: Sequence[float], width: float) -> None:
        super().__init__(math.log(modes[0]) + width**2, width)
        self.modes, self.width = tuple(modes), width

    def log_prob(self, x: Tensor) -> Tensor:
        r"""The log density, up to a constant.

        Args:
            x: ``... x d``-dim lengthscales of one kernel.

        Returns:
            ``...``-dim values.
        """
        logs = x.log()
        distances = [((logs - math.log(mode)) / self.width).square().sum(-1) for mode in self.modes]
        return torch.stack([-0.5 * distance for distance in distances]).logsumexp(0)


@torch.no_grad()
def start_at_best_mode(model: Module, log_evidence: Callable[[], Tensor]) -> None:
    r"""Set lengthscales to the mode of their prior under which the data are most likely.

    A search from one mode may end in a local maximum around it. The values that the kernel has
    are kept where they are better than all modes.

    Args:
        model: A model, of whose kernels those with a :class:`LengthscalePrior` are set.
        log_evidence: Its log evidence, one value for each element of its batch.
    """
    for kernel in model.modules():
        prior = getattr(kernel, "lengthscale_prior", None)
        if not isinstance(prior, LengthscalePrior):
            continue
        now = kernel.lengthscale.clone()
        modes = (torch.full_like(now, mode) for mode in prior.modes)
        starts = [now, *(mode for mode in modes if not torch.equal(mode, now))]
        if len(starts) == 1:
            continue
        values = []
        for start in starts:
            kernel.lengthscale = start
            evidence = log_evidence().sum_to_size(kernel.batch_shape)
            values.append(evidence.unsqueeze(-1) + prior.log_prob(start))
        best = torch.stack(values).argmax(0)  # shape: (*batch_shape, 1)
        for number, start in enumerate(starts):
            now = torch.where((best == number).unsqueeze(-1), start, now)
        kernel.lengthscale = now


def default_covar_module(
    dim: int | None,
    batch_shape: Size,
    kind: KernelName = "rbf",
    *,
    lengthscales: Sequence[float] = DEFAULT_LENGTHSCALES,
    outputscale: float = DEFAULT_OUTPUT_SCALE,
) -> ScaleKernel:
    r"""A scaled kernel with one lengthscale a dimension, for items in the unit cube.

    The priors are log-normal and given by their modes, near which a fit stays where the answers
    say little. Lengthscales lie around 0.3 (90 % between 0.15 and 2.1) or around 0.7 (0.36 and
    4.9), the same mode for all dimensions; a fit starts from the mode that the answers favour.
    The output scale has its mode at 4 squared logits (90 % between 2.1 and 56). Both are
    optimised on the log scale. ``botorch-pref bench defaults`` and ``bench tutorial`` are what
    chose them.

    Args:
        dim: The number of dimensions of an item; one shared lengthscale if ``None``.
        batch_shape: The batch shape of the hyperparameters.
        kind: ``"rbf"``, ``"matern"`` for Matern-5/2, or ``"matern15"`` for Matern-3/2.
        lengthscales: The modes of the prior of the lengthscales.
        outputscale: The mode of the prior of the output scale, in squared logits.

    Returns:
        The kernel.
    """
    options = {
        "ard_num_dims": dim,
        "batch_shape": batch_shape,
        "lengthscale_prior": LengthscalePrior(lengthscales, _LENGTHSCALE_WIDTH),
        "lengthscale_constraint": LogTransformedInterval(1e-3, 1e2, initial_value=lengthscales[0]),
    }
    smoothness = _SMOOTHNESS.get(kind)
    return ScaleKernel(
        MaternKernel(nu=smoothness, **options) if smoothness else RBFKernel(**options),
        batch_shape=batch_shape,
        outputscale_prior=_prior_with_mode(outputscale, _OUTPUT_SCALE_WIDTH),
        outputscale_constraint=LogTransformedInterval(1e-3, 1e4, initial_value=outputscale),
    )


def _prior_with_mode(mode: float, width: float) -> MovablePrior:
    """The log-normal prior with that mode whose logarithm has that standard deviation."""
    return MovablePrior(math.log(mode) + width**2, width)
