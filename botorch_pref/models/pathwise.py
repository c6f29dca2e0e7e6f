r"""Pathwise draws of the utility (Wilson et al. 2021, *Pathwise Conditioning*).

Notation as in :mod:`botorch_pref.inference.systems`. With a prior path ``f0``, the curvature
``W`` of the covariance and ``S = W^1/2``, a posterior path is

    f(x) = m(x) + f0(x) + c(x)^T [a - t],   (I + W P) t = W H f0(X) + S e,   e ~ N(0, I)

whose covariance is the model's wherever that of ``f0`` is the prior's. Through inducing items,
in the notation of ``botorch_pref.inference.inducing`` and without a pass over the data,

    f(x) = m(x) + f0(x) + k(x, Z) L^-T [z - L^-1 f0(Z) + M^-1/2 e]

Importing this module registers the draws with BoTorch.
"""

from __future__ import annotations

import copy
import warnings
from typing import Any, cast

import torch
from botorch.models.transforms.input import InputTransform
from botorch.sampling.pathwise.features import FeatureMap, KernelEvaluationMap, gen_kernel_features
from botorch.sampling.pathwise.paths import GeneralizedLinearPath, SamplePath
from botorch.sampling.pathwise.posterior_samplers import DrawMatheronPaths, MatheronPath
from botorch.sampling.pathwise.prior_samplers import (
    DrawKernelFeaturePaths,
    TPathwisePriorSampler,
)
from botorch.sampling.pathwise.utils import GetTrainInputs
from gpytorch.kernels import Kernel
from gpytorch.means import Mean
from linear_operator import to_dense
from torch import Size, Tensor
from torch.nn import Module
from torch.nn.functional import pad
from torch.quasirandom import SobolEngine

from botorch_pref.exceptions import PathwiseResidualWarning, UnsupportedError
from botorch_pref.inference.inducing import draw_weights
from botorch_pref.inference.systems import ExactFactor, keep_pages
from botorch_pref.kernels.comparison_bias import ComparisonBiasKernel
from botorch_pref.models.base import LaplaceGP

NUM_FEATURES = 4096
NUM_NYSTROM_POINTS = 512
_NUM_RESIDUAL_POINTS = 256


@DrawKernelFeaturePaths.register(LaplaceGP)  # type: ignore[untyped-decorator]
def draw_prior_paths(
    model: LaplaceGP, sample_shape: Size, num_features: int = NUM_FEATURES
) -> SamplePath:
    r"""Draw functions from the prior, as random features or as a Nystrom expansion.

    Args:
        model: The model whose prior is drawn from.
        sample_shape: How many independent functions.
        num_features: The number of Fourier features, even; for kernels that have none,
            a Nystrom expansion warns of the variance that it lacks.

    Returns:
        A differentiable path from items to ``sample_shape x batch_shape x ...`` values.

    Raises:
        UnsupportedError: If nothing says how many dimensions an item has, or the input transform
            makes several rows of one.
    """
    if isinstance(model.covar_module, ComparisonBiasKernel):
        return _views(model, model.covar_module, sample_shape, num_features)
    feature_map: FeatureMap
    try:
        features = _features(model, model.covar_module, num_features)
    except NotImplementedError:
        feature_map, weight = _nystrom(model, sample_shape)
    else:
        feature_map = features
        # Independent, not quasi-random: two Sobol weights would repel each other, and
        # the two arms of a duel are to be independent draws.
        shape = (*sample_shape, *model.batch_shape, features.num_outputs)
        weight = _normal(shape, model.items)
    return GeneralizedLinearPath(
        feature_map=feature_map,
        weight=weight,
        bias_module=model.mean_module,
        input_transform=_transform(model),
    )


@DrawMatheronPaths.register(LaplaceGP)  # type: ignore[untyped-decorator]
def draw_posterior_paths(
    model: LaplaceGP,
    sample_shape: Size,
    prior_sampler: TPathwisePriorSampler = draw_prior_paths,
    update_strategy: Module | None = None,
) -> MatheronPath:
    r"""Draw functions from the posterior of the utility.

    Args:
        model: The model whose posterior is drawn from.
        sample_shape: How many independent functions.
        prior_sampler: Draws the prior paths.
        update_strategy: Not used: BoTorch's are for measured values, ours is for all observations.

    Returns:
        A differentiable path from items to ``sample_shape x batch_shape x ...`` values.
    """
    keep_pages()  # for evaluations of the paths
    prior = prior_sampler(model, sample_shape)
    nodes = model.nodes().detach()
    weight = nodes.new_zeros(*sample_shape, *model.batch_shape, nodes.shape[-2])
    if model.num_observations:
        with torch.no_grad():
            weight = _update_weight(model, prior)
    update = GeneralizedLinearPath(
        feature_map=KernelEvaluationMap(model.covar_module, nodes),
        weight=weight,
        input_transform=_transform(model),
    )
    return MatheronPath(prior_paths=prior, update_paths=update)


def _update_weight(model: LaplaceGP, prior: SamplePath) -> Tensor:
    """``H^T (a - t)``, one weight an item or inducing item, for prior paths drawn before.

    Where inference scales the items' utilities, so are the values that enter and the weights.
    """
    items, found = model.laplace_posterior()
    incidence, factor = found.system.observations.incidence, found.factor
    deviation = prior.forward(items) - model.mean_module(items)  # shape: (..., n)
    if not isinstance(factor, ExactFactor):
        return draw_weights(found, deviation, _normal(deviation.shape, deviation))
    scaling = model.node_scaling()
    latent = incidence.apply(deviation if scaling is None else scaling * deviation)
    moved = factor.solve_noisy(latent, _normal(latent.shape, latent))
    weight = incidence.adjoint(found.mode.weights - moved)
    return weight if scaling is None else scaling * weight


class PathOfViews(SamplePath):
    r"""A path of a utility, and of the views of it: ``f`` and ``f + delta_z``.

    Args:
        feature_map: Features of the utility's kernel.
        weight: ``... x (A + 1) x D``-dim weights of the utility and of each view.
        mean_module: The prior mean.
        input_transform: That of the model.
    """

    def __init__(
        self,
        feature_map: FeatureMap,
        weight: Tensor,
        mean_module: Mean,
        input_transform: InputTransform | None,
    ) -> None:
        super().__init__()
        self.feature_map, self.mean_module = feature_map, mean_module
        self.input_transform = input_transform
        self.register_buffer("weight", weight)

    def set_ensemble_as_batch(self, ensemble_as_batch: bool) -> None:
        """Nothing: no model of this package is an ensemble."""

    def forward(self, x: Tensor, **kwargs: Any) -> Tensor:
        """``sample_shape x ...`` values at ``... x (d + 1)`` inputs; the last column is a view."""
        features = self.feature_map(x[..., :-1])
        values = features.flatten(end_dim=-2) @ cast(Tensor, self.weight).mT
        view = x[..., -1].detach().round().long().reshape(-1, 1)
        values = values.gather(-1, view.expand(*values.shape[:-1], 1))
        return values.view(*values.shape[:-2], *x.shape[:-1]) + self.mean_module(x)


def _views(
    model: LaplaceGP, kernel: ComparisonBiasKernel, sample_shape: Size, num_features: int
) -> PathOfViews:
    """A prior path of a utility and of independent biases of all views, of the same features."""
    if model.batch_shape:
        raise UnsupportedError("Paths of views are of one model, not of a batch.")
    features = _features(model, kernel.base_kernel, num_features, columns=1)
    weight = _normal((*sample_shape, kernel.number + 1, features.num_outputs), model.items)
    bias = kernel.bias.detach().to(weight).expand(kernel.number)
    weight = weight * pad(bias.sqrt(), (1, 0), value=1.0).unsqueeze(-1)
    shared = pad(weight[..., :1, :].expand(*sample_shape, kernel.number, -1), (0, 0, 1, 0))
    return PathOfViews(features, weight + shared, model.mean_module, _transform(model))


def _nystrom(model: LaplaceGP, sample_shape: Size) -> tuple[KernelEvaluationMap, Tensor]:
    """A prior path spanned by the kernel at the items and at points that fill their box."""
    kernel, items = model.covar_module, model.nodes().detach()
    if model.batch_shape:
        raise UnsupportedError(
            f"{type(kernel).__name__} has no random features, and a Nystrom path is not "
            "available for batched models."
        )
    unit = items.new_tensor([[0.0], [1.0]]).expand(2, items.shape[-1])
    low, high = torch.cat([items, unit]).aminmax(dim=-2)
    seed = int(torch.randint(2**31, ()))
    sobol = SobolEngine(items.shape[-1], scramble=True, seed=seed)
    filling = sobol.draw(NUM_NYSTROM_POINTS + _NUM_RESIDUAL_POINTS, dtype=items.dtype)
    filling = low + (high - low) * filling.to(items.device)
    points = torch.cat([items, filling[:NUM_NYSTROM_POINTS]])
    values, vectors = torch.linalg.eigh(to_dense(kernel(points)).detach())
    keep = values > 1e-10 * values[-1]
    root = vectors[:, keep] / values[keep].sqrt()  # K^+ = root root^T
    probes = filling[NUM_NYSTROM_POINTS:]
    with torch.no_grad():
        variance = to_dense(kernel(probes, diag=True))
        spanned = (to_dense(kernel(probes, points)) @ root).square().sum(-1)
        residual = ((variance - spanned) / variance).clamp_min(0.0)
    warnings.warn(
        f"{type(kernel).__name__} has no random features: prior paths are a Nystrom "
        f"expansion over {len(points)} points that lacks {residual.mean():.1e} of the "
        f"prior variance on average and {residual.max():.1e} at most.",
        PathwiseResidualWarning,
        stacklevel=3,
    )
    draw = _normal((*sample_shape, int(keep.sum())), root)
    return KernelEvaluationMap(kernel, points), draw @ root.transpose(-1, -2)


def _features(model: LaplaceGP, kernel: Kernel, num_features: int, columns: int = 0) -> FeatureMap:
    """Random Fourier features of a kernel, which does not see some of the last columns.

    On another device they are those that the CPU draws.
    """
    device = model.items.device
    parts = (part for part in kernel.modules() if isinstance(part, Kernel))
    if not model.items.shape[-2] and all(part.ard_num_dims is None for part in parts):
        raise UnsupportedError(
            "A path of a model without data needs to know how many dimensions an item has: give "
            "a `covar_module` with `ard_num_dims`."
        )
    there = device.type != "cpu"
    drawn: FeatureMap = gen_kernel_features(
        kernel=copy.deepcopy(kernel).cpu() if there else kernel,
        num_inputs=model.transformed_items().shape[-1] - columns,
        num_outputs=num_features,
    )
    return drawn.to(device) if there else drawn


def _normal(shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Independent standard normals, the same ones on every device."""
    return torch.randn(shape, dtype=like.dtype, device="cpu").to(like.device)


def _transform(model: LaplaceGP) -> InputTransform | None:
    """A copy of the model's transform, as a path is a fixed function, whatever mode that is in."""
    transform: InputTransform | None = getattr(model, "input_transform", None)
    if transform is None:
        return None
    if model.items.shape[-2]:
        model.transform_rows(model.items[..., :1, :])  # which raises where a path would be no path
    return copy.deepcopy(transform).eval()


@GetTrainInputs.register(LaplaceGP)  # type: ignore[untyped-decorator]
def _get_train_inputs(model: LaplaceGP, transformed: bool = False) -> tuple[Tensor]:
    return (model.transformed_items() if transformed else model.items,)
