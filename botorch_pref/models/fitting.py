r"""What hyperparameters are fitted by, and the defaults they start from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Self

import torch
from botorch.exceptions.warnings import OptimizationWarning
from botorch.fit import fit_gpytorch_mll
from botorch.optim.core import OptimizationResult, OptimizationStatus, scipy_minimize
from botorch.optim.utils import get_parameters_and_bounds
from botorch.utils.constraints import LogTransformedInterval
from gpytorch import Module
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.mlls import MarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from torch import Size, Tensor

from botorch_pref.models.evidence import is_large_batch

# Modes of the prior, each a lengthscale and an output scale, and the standard deviations of the
# logarithms around them.
DEFAULT_MODES = ((0.21, 1.5), (0.7, 4.0))
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


class ScalesPrior(MovablePrior):
    r"""Log-normal lengthscales and output scale around one of several joint modes.

    All dimensions share the mode, so that their answers decide together, and all modes are
    equally high. Draws are around the lengthscale of the first.

    Args:
        modes: Pairs of a lengthscale, in units of the inputs, and an output scale.
        lengthscale_width: The standard deviation of the logarithm of each lengthscale.
        outputscale_width: The same of the output scale.
    """

    def __init__(
        self,
        modes: Sequence[tuple[float, float]],
        lengthscale_width: float,
        outputscale_width: float,
    ) -> None:
        super().__init__(math.log(modes[0][0]) + lengthscale_width**2, lengthscale_width)
        self.modes = tuple(modes)
        self.widths = (lengthscale_width, outputscale_width)

    def log_prob(self, x: Tensor) -> Tensor:
        r"""The log density, up to a constant.

        Args:
            x: ``... x (d + 1)``-dim lengthscales of one kernel, and then its output scale.

        Returns:
            ``...``-dim values.
        """
        logs, heights = x.log(), []
        for mode in self.modes:
            far = [
                ((part - math.log(at)) / width).square().sum(-1)
                for part, at, width in zip(
                    (logs[..., :-1], logs[..., -1:]), mode, self.widths, strict=True
                )
            ]
            heights.append(-0.5 * (far[0] + far[1]))
        return torch.stack(heights).logsumexp(0)


def read_scales(kernel: ScaleKernel) -> Tensor:
    """The ``... x 1 x (d + 1)``-dim lengthscales of a kernel, and then its output scale."""
    scale = kernel.outputscale[..., None, None]
    return torch.cat([kernel.base_kernel.lengthscale, scale], dim=-1)


def write_scales(kernel: ScaleKernel, value: Tensor) -> None:
    """Set what :func:`read_scales` reads."""
    kernel.base_kernel.lengthscale = value[..., :-1]
    kernel.outputscale = value[..., 0, -1]


def has_modes(kernel: Module) -> bool:
    """Whether a kernel's scales are learnt under a :class:`ScalesPrior`."""
    if not isinstance(getattr(kernel, "scales_prior", None), ScalesPrior):
        return False
    return all(
        raw.requires_grad for raw in (kernel.raw_outputscale, *kernel.base_kernel.parameters())
    )


def _are_allowed(kernel: ScaleKernel, scales: Tensor) -> bool:
    """Whether scales are within the constraints of a kernel, which a user may have narrowed."""
    lengthscales, outputscale = scales[..., :-1], scales[..., 0, -1]
    return bool(
        kernel.base_kernel.raw_lengthscale_constraint.check(lengthscales)
        and kernel.raw_outputscale_constraint.check(outputscale)
    )


@torch.no_grad()
def start_at_best_mode(model: Module, log_evidence: Callable[[], Tensor]) -> None:
    r"""Set scales to the mode of their prior under which the data are most likely.

    A search from one mode may end in a local maximum around it. The values that the kernel has
    are kept where they are better than all modes; scales that are not learnt, and modes outside
    their constraints, are left alone.

    Args:
        model: A model, of whose kernels those with a :class:`ScalesPrior` are set.
        log_evidence: Its log evidence, one value for each element of its batch.
    """
    for kernel in model.modules():
        if not has_modes(kernel):
            continue
        prior, now = kernel.scales_prior, read_scales(kernel)
        starts = [now]
        for lengthscale, outputscale in prior.modes:
            mode = torch.full_like(now, lengthscale)
            mode[..., -1] = outputscale
            if not torch.equal(mode, now) and _are_allowed(kernel, mode):
                starts.append(mode)
        if len(starts) == 1:
            continue
        values = []
        for start in starts:
            write_scales(kernel, start)
            evidence = log_evidence().sum_to_size(kernel.batch_shape)
            values.append(evidence.unsqueeze(-1) + prior.log_prob(start))
        best = torch.stack(values).argmax(0)  # shape: (*batch_shape, 1)
        for number, start in enumerate(starts):
            now = torch.where((best == number).unsqueeze(-1), start, now)
        write_scales(kernel, now)


def fit_from_best_mode(
    model: Any, mll: MarginalLogLikelihood, closure: Any = None, **kwargs: Any
) -> MarginalLogLikelihood:
    r"""Fit hyperparameters from the best mode of their prior; elements of large batches alone.

    Args:
        model: A model of this package.
        mll: Its marginal log likelihood.
        closure: As of :func:`botorch.fit.fit_gpytorch_mll`.
        **kwargs: Likewise.

    Returns:
        ``mll``, with its hyperparameters set.
    """
    start_at_best_mode(model, model.log_evidence)
    options = kwargs.get("optimizer_kwargs") or {}
    plain = closure is None and kwargs.get("closure_kwargs") is None
    if plain and options.keys() <= {"method", "options"} and fits_by_element(model):
        kwargs.setdefault("optimizer", fit_by_element)
    return fit_gpytorch_mll(mll, closure=closure, **kwargs)


def fits_by_element(model: Any) -> bool:
    r"""Whether a model is a large batch of models that share neither items nor hyperparameters.

    A joint search would evaluate every element until the last one has converged.
    """
    shape = model.batch_shape
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return (
        is_large_batch(model.covar_module, model.items)
        and model.num_observations > 0
        and model.covar_module.batch_shape == shape
        and all(parameter.shape[:1] == shape for parameter in learnt)
        and all(getattr(part, "batch_shape", None) == shape for part in _fitted_parts(model))
    )


def _fitted_parts(model: Any) -> Iterator[torch.nn.Module]:
    """Means and transforms that learn or have priors: as many dimensions look like a batch."""
    for root in (model.mean_module, getattr(model, "input_transform", None)):
        for part in () if root is None else root.modules():
            priors = part.named_priors() if isinstance(part, Module) else ()
            learns = any(p.requires_grad for p in part.parameters(recurse=False))
            if learns or any(owner is part for _, owner, *_ in priors):
                yield part


def fit_by_element(
    mll: MarginalLogLikelihood, closure: None = None, **kwargs: Any
) -> OptimizationResult:
    r"""Maximise the objective of each element of a batch by a search of its own.

    An optimizer for :func:`botorch.fit.fit_gpytorch_mll`.

    Args:
        mll: The marginal log likelihood of a batched model; see :func:`fits_by_element`.
        closure: Not used: BoTorch hands ``None`` on.
        **kwargs: Of :func:`botorch.optim.core.scipy_minimize`.

    Returns:
        The steps of the slowest element and the sum of the objectives.
    """
    known, bounds = get_parameters_and_bounds(mll, requires_grad=True)
    parameters = list(known.values())
    results = []
    for i in range(len(parameters[0])):
        own = {name: parameter[i].detach().clone() for name, parameter in known.items()}

        def evaluate(i: int = i, own: dict[str, Tensor] = own) -> tuple[Tensor, list[Tensor]]:
            with torch.no_grad():
                for parameter, value in zip(parameters, own.values(), strict=True):
                    parameter[i] = value
            loss = -mll.model.element_evidence(i) - log_hyperpriors(mll, len(parameters[0]))[i]
            grads = torch.autograd.grad(loss, parameters, materialize_grads=True)
            return loss, [grad[i] for grad in grads]

        limits = {
            name: (_of(lower, known[name], i), _of(upper, known[name], i))
            for name, (lower, upper) in bounds.items()
        }
        results.append(scipy_minimize(evaluate, own, limits, **kwargs))
        evaluate()  # the last evaluation of a search need not be its best
    failed = [result for result in results if result.status != OptimizationStatus.SUCCESS]
    for result in failed[:1]:
        warnings.warn(
            f"The fit of {len(failed)} elements of the batch ended early: {result.message}",
            OptimizationWarning,
            stacklevel=2,
        )
    return OptimizationResult(
        step=max(result.step for result in results),
        fval=sum(float(result.fval) for result in results),
        status=failed[0].status if failed else OptimizationStatus.SUCCESS,
    )


def _of(bound: Any, parameter: Tensor, i: int) -> Any:
    """The bound of one element of a batch; all may have one."""
    return bound[i] if isinstance(bound, Tensor) and bound.dim() == parameter.dim() else bound


def default_covar_module(
    dim: int | None,
    batch_shape: Size,
    kind: KernelName = "rbf",
    *,
    modes: Sequence[tuple[float, float]] = DEFAULT_MODES,
) -> ScaleKernel:
    r"""A scaled kernel with one lengthscale a dimension, for items in the unit cube.

    The prior is given by its modes, near which a fit stays where the answers say little: all
    lengthscales lie around 0.21 (90 % between 0.11 and 1.5) and the output scale around 1.5
    squared logits (0.79 and 21); or around 0.7 (0.36 and 4.9) and 4 (2.1 and 56). A fit starts
    from the mode that the answers favour. Around each the prior is log-normal, and both kinds of
    scales are optimised on the log scale. ``python -m experiments defaults`` and ``tutorial``
    are what chose them.

    Args:
        dim: The number of dimensions of an item; one shared lengthscale if ``None``.
        batch_shape: The batch shape of the hyperparameters.
        kind: ``"rbf"``, ``"matern"`` for Matern-5/2, or ``"matern15"`` for Matern-3/2.
        modes: The modes of the prior, each a lengthscale and an output scale.

    Returns:
        The kernel, at the first mode.
    """
    lengthscale, outputscale = modes[0]
    options = {
        "ard_num_dims": dim,
        "batch_shape": batch_shape,
        "lengthscale_constraint": LogTransformedInterval(1e-3, 1e2, initial_value=lengthscale),
    }
    smoothness = _SMOOTHNESS.get(kind)
    kernel = ScaleKernel(
        MaternKernel(nu=smoothness, **options) if smoothness else RBFKernel(**options),
        batch_shape=batch_shape,
        outputscale_constraint=LogTransformedInterval(1e-3, 1e4, initial_value=outputscale),
    )
    prior = ScalesPrior(modes, _LENGTHSCALE_WIDTH, _OUTPUT_SCALE_WIDTH)
    kernel.register_prior("scales_prior", prior, read_scales, write_scales)
    return kernel
