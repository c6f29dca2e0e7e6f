r"""Fitting the elements of a batch each on its own, with one evaluation for all that go on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from botorch.exceptions.warnings import OptimizationWarning
from botorch.optim.batched_lbfgs_b import fmin_l_bfgs_b_batched
from botorch.optim.core import OptimizationResult, OptimizationStatus
from botorch.optim.utils import get_parameters_and_bounds
from gpytorch import Module
from gpytorch.mlls import MarginalLogLikelihood
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch import Tensor

from botorch_pref.models.fitting import log_hyperpriors
from botorch_pref.models.pieces import is_separable, piece_size

if TYPE_CHECKING:
    from botorch_pref.models.laplace_gp import LaplaceGP

Array = NDArray[np.float64]
Bound = float | Tensor | None
Bounds = dict[str, tuple[Bound, Bound]]
_MAX_RESTARTS = 2  # of a line search that rounding brought to a halt
# SciPy's names of options that the batched search has, and its own.
_OPTIONS = {"gtol": "pgtol"} | {
    name: name for name in ("factr", "ftol", "maxcor", "maxiter", "maxls", "pgtol", "tol")
}


def is_independent(model: LaplaceGP) -> bool:
    r"""Whether a model is a batch of models that share neither items nor hyperparameters."""
    shape = model.batch_shape
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return (
        len(shape) == 1
        and model.num_observations > 0
        and is_separable(model, model.items)
        and model.covar_module.batch_shape == shape
        and all(parameter.shape[:1] == shape for parameter in learnt)
        and all(getattr(part, "batch_shape", None) == shape for part in _fitted_parts(model))
    )


def _fitted_parts(model: LaplaceGP) -> Iterator[torch.nn.Module]:
    """Means and transforms that learn or have priors: as many dimensions look like a batch."""
    for root in (model.mean_module, getattr(model, "input_transform", None)):
        for part in () if root is None else root.modules():
            priors = part.named_priors() if isinstance(part, Module) else ()
            learns = any(p.requires_grad for p in part.parameters(recurse=False))
            if learns or any(owner is part for _, owner, *_ in priors):
                yield part


def understands(optimizer_kwargs: dict[str, Any]) -> bool:
    r"""Whether :func:`fit_independently` can do what an optimizer of BoTorch is asked for."""
    return (
        optimizer_kwargs.keys() <= {"parameters", "bounds", "options"}
        and (optimizer_kwargs.get("options") or {}).keys() <= _OPTIONS.keys()
    )


def fit_independently(
    mll: MarginalLogLikelihood,
    parameters: dict[str, Tensor] | None = None,
    bounds: Bounds | None = None,
    closure: None = None,
    options: dict[str, Any] | None = None,
) -> OptimizationResult:
    r"""Maximise the objective of each element of a batch by an L-BFGS-B of its own.

    An optimizer for :func:`botorch.fit.fit_gpytorch_mll`, which these models hand to it
    where :func:`is_independent`. A joint search would evaluate every element until the
    last one has converged.

    Args:
        mll: The marginal log likelihood of a batched model.
        parameters: What to optimise, by name; by default all that require gradients.
        bounds: Of ``parameters``, beside those of their constraints.
        closure: Not used: BoTorch hands ``None`` on.
        options: SciPy's, or for ``fmin_l_bfgs_b_batched``, such as ``maxiter``.

    Returns:
        The steps of the slowest element and the sum of the objectives.
    """
    known, own_bounds = get_parameters_and_bounds(mll, requires_grad=True)
    search = _Search(mll, parameters or known)
    limits = search.limits({**own_bounds, **(bounds or {})})
    size = piece_size(search.model.items)
    known_options = {_OPTIONS[name]: value for name, value in (options or {}).items()}
    if "ftol" in known_options:
        known_options["factr"] = None  # the same in other units
    value, steps, early = 0.0, 0, []
    # SciPy hands its tiny products to threads, which then spin beside ours; BoTorch limits them
    # around its own searches likewise.
    with threadpool_limits(limits=1, user_api="blas"):
        for start in range(0, search.size, size):
            rows = list(range(search.size))[start : start + size]
            found = search.run(rows, limits, known_options)
            value, steps = value + found.value, max(steps, found.steps)
            early.extend(found.early)
    if early:
        warnings.warn(
            f"The fit of elements {early} of the batch ended early.",
            OptimizationWarning,
            stacklevel=2,
        )
    status = OptimizationStatus.FAILURE if early else OptimizationStatus.SUCCESS
    return OptimizationResult(step=steps, fval=value, status=status)


class _Found(NamedTuple):
    """What came of a search: the sum of the values, the most steps, who ended early."""

    value: float
    steps: int
    early: list[int]


class _Search:
    """The negative objective of some elements as a function of arrays."""

    def __init__(self, mll: MarginalLogLikelihood, parameters: dict[str, Tensor]) -> None:
        self.mll, self.parameters = mll, parameters
        self.model: LaplaceGP = mll.model
        (self.size,) = self.model.batch_shape

    def values(self) -> Array:
        """``b x p``-dim current parameters."""
        return self._rows([p.detach() for p in self.parameters.values()])

    def limits(self, bounds: Bounds) -> list[tuple[float, float]]:
        """A lower and an upper bound for each of ``p`` columns."""
        limits: list[tuple[float, float]] = []
        for name, parameter in self.parameters.items():
            lower, upper = bounds.get(name, (None, None))
            ends = (
                _numbers(lower, -torch.inf, parameter[0]),
                _numbers(upper, torch.inf, parameter[0]),
            )
            limits.extend(zip(*ends, strict=True))
        return limits

    def run(
        self, rows: list[int], limits: list[tuple[float, float]], options: dict[str, Any]
    ) -> _Found:
        """Search for some elements until each has converged, and set their parameters."""
        x, value, steps = self.values()[rows], np.zeros(len(rows)), 0
        open_rows = np.arange(len(rows))
        for _ in range(1 + _MAX_RESTARTS):
            chosen = [rows[i] for i in open_rows]
            x[open_rows], value[open_rows], results = fmin_l_bfgs_b_batched(
                lambda x, batch_indices, chosen=chosen: self([chosen[i] for i in batch_indices], x),
                x[open_rows],
                bounds=limits,
                pass_batch_indices=True,
                **options,
            )
            steps += max(result.nit for result in results)
            open_rows = open_rows[[result.status == 2 for result in results]]
            if not len(open_rows):
                break
        self.set(rows, x)
        return _Found(float(value.sum()), steps, [rows[i] for i in open_rows])

    @torch.no_grad()
    def set(self, rows: list[int], x: Array) -> Tensor:
        """Set the parameters of some elements; returns these as a tensor."""
        elements = torch.tensor(rows, device=self.model.items.device)
        columns = torch.from_numpy(x)
        for parameter in self.parameters.values():
            mine, columns = columns.tensor_split([parameter[0].numel()], dim=-1)
            mine = mine.reshape(len(rows), *parameter.shape[1:]).to(parameter)
            parameter.index_copy_(0, elements, mine)
        return elements

    def __call__(self, rows: list[int], x: Array) -> tuple[Array, Array]:
        """Values ``len(rows)`` and gradients ``len(rows) x p`` at the parameters ``x``."""
        elements = self.set(rows, x)
        log_prior = log_hyperpriors(self.mll, self.size).index_select(0, elements)
        value = -self.model.element_evidence(elements) - log_prior
        grads = torch.autograd.grad(
            value.sum(), [*self.parameters.values()], materialize_grads=True
        )
        own = [grad.index_select(0, elements) for grad in grads]
        return value.detach().cpu().double().numpy(), self._rows(own)

    @staticmethod
    def _rows(tensors: list[Tensor]) -> Array:
        rows = torch.cat([t.reshape(len(t), -1).double() for t in tensors], dim=-1)
        return rows.cpu().numpy().copy()


def _numbers(bound: Bound, none: float, like: Tensor) -> list[float]:
    """One bound for each entry of an element's parameter."""
    value = torch.as_tensor(none if bound is None else bound, dtype=torch.double, device="cpu")
    numbers: list[float] = value.expand(like.shape).flatten().tolist()
    return numbers
