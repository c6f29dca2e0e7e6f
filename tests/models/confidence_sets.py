"""What the tests of confidence sets share: models, and the printed programs of their bounds."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import MaternKernel, RBFKernel
from torch import Tensor

from botorch_pref.models import LikelihoodRatioModel
from tests._reference import likelihood_ratio as reference
from tests.inference.common import matern
from tests.models.common import make_duels

JITTER = 1e-6


def unit_kernel(dim: int, lengthscale: float = 0.4) -> MaternKernel:
    """Matern-5/2 of unit variance, whose lengthscales differ."""
    kernel = MaternKernel(nu=2.5, ard_num_dims=dim).double()
    kernel.lengthscale = lengthscales(dim, lengthscale)
    return kernel.requires_grad_(False)


def lengthscales(dim: int, lengthscale: float = 0.4) -> Tensor:
    return lengthscale * torch.linspace(1.0, 1.5, dim, dtype=torch.float64)


def rbf(lengthscale: float, dim: int = 1) -> RBFKernel:
    kernel = RBFKernel(ard_num_dims=dim).double()
    kernel.lengthscale = lengthscale
    return kernel


def make_set(
    num_items: int = 8, num_duels: int = 12, dim: int = 2, seed: int = 0, **options: Any
) -> LikelihoodRatioModel:
    """The set of a logistic judge's duels."""
    items, duels = make_duels(max(num_items, 2), num_duels, dim, seed=seed)
    defaults: dict[str, Any] = {"covar_module": unit_kernel(dim), "norm_bound": 3.0}
    return LikelihoodRatioModel.from_comparisons(
        items[:num_items], duels, **{**defaults, **options}
    )


def with_norm_bound(model: LikelihoodRatioModel, norm_bound: float) -> LikelihoodRatioModel:
    """A copy with another bound."""
    new = copy.deepcopy(model)
    new.norm_bound = norm_bound
    return new


def answers_of(model: LikelihoodRatioModel, num_points: int) -> reference.Answers:
    """All judgements, one row each, over the values at the items and at further points."""
    rows, answer, weight, scale = [], [], [], 1.0
    for block in model.blocks:
        for indices, y, w in zip(block.items, block.answer, block.weight, strict=True):
            row = np.zeros(len(model.items) + num_points)
            for index, coefficient in zip(indices.tolist(), block.coefficients, strict=True):
                row[index] += coefficient
            rows.append(row)
            answer.append(float(y))
            weight.append(float(w))
        scale = block.likelihood.scale  # type: ignore[attr-defined]
    return reference.Answers(np.array(rows), np.array(answer), np.array(weight), scale)


def printed(model: LikelihoodRatioModel, points: Tensor, weights: list[float]) -> reference.Found:
    r"""Problem (24): the largest weighted sum of values at ``k x d`` points.

    With a Matern kernel of :func:`unit_kernel`. Points equal to an item are that item, others
    are appended, and all have the jitter.
    """
    items, nodes, where = model.items, [], []
    for point in points:
        match = (items == point).all(-1).nonzero().flatten().tolist()
        where.append(match[0] if match else len(items) + len(nodes))
        nodes += [] if match else [point]
    X = torch.cat([items, *(node.unsqueeze(0) for node in nodes)])
    K = matern(X, lengthscale=lengthscales(X.shape[-1]), outputscale=1.0)
    K = (K + JITTER * torch.eye(len(X), dtype=X.dtype)).numpy()
    answers = answers_of(model, len(nodes))
    box = None
    if model.box is not None:
        box = np.array([model.box] * len(items) + [np.inf] * len(nodes))
    best = reference.maximum_likelihood(K, answers, model.norm_bound, box)
    objective = np.zeros(len(X))
    np.add.at(objective, where, weights)
    level = best.value - model.slack_rule(model.num_answers, model.norm_bound)
    return reference.largest(K, answers, model.norm_bound, objective, level, box)
