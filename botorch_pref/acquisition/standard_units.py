r"""An objective's posterior in standardised units, whatever its model was fitted to.

A sum of an objective and a latent of labels has a meaning only where the objective's unit is
fixed. It is that of its measured values: 0 is their mean and 1 their standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models import ModelList, PairwiseGP
from botorch.models.model import Model
from botorch.models.transforms.outcome import (
    Bilog,
    ChainedOutcomeTransform,
    Log,
    Standardize,
    StratifiedStandardize,
)
from botorch.posteriors import GPyTorchPosterior, Posterior, TransformedPosterior
from gpytorch.distributions import MultivariateNormal
from linear_operator import to_dense, to_linear_operator
from torch import Tensor
from torch.nn import Module, ModuleList

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.likelihoods import BernoulliLikelihood
from botorch_pref.models.moments import safe_deviation


class StandardUnits(PosteriorTransform):
    r"""From the units of a model's posterior to standardised ones.

    If the model's outcome transform ends in a ``Standardize``, mean and standard deviation are
    those that it has learnt; else they are those of the training targets, with ``n - 1`` degrees of
    freedom. ``Log`` and ``Bilog`` are not undone: units are then of the transformed values, whose
    posterior is Gaussian. Values that do not differ are only centred, as by ``Standardize``.

    Attributes:
        offset: ``batch_shape x 1``-dim value, before those transforms are undone, that becomes 0.
        scale: ``batch_shape x 1``-dim difference that becomes 1.
    """

    offset: Tensor
    scale: Tensor

    def __init__(self, model: Model) -> None:
        r"""Find the units, as they are now.

        Args:
            model: A model of measured values with one output.

        Raises:
            UnsupportedError: If it has several outputs, or none that is measured, or another
                outcome transform; or neither ``Standardize`` nor training targets.
        """
        super().__init__()
        model = _single(model)
        chain = _chain(getattr(model, "outcome_transform", None))
        head = len(chain)
        while head and isinstance(chain[head - 1], Standardize):
            head -= 1
        tail = [cast(Standardize, one) for one in chain[head:]] or [_of_targets(model)]
        offset, scale = (part.squeeze(-1) for part in (tail[-1].means, tail[-1].stdvs))
        for one in reversed(tail[:-1]):
            means, stdvs = one.means.squeeze(-1), one.stdvs.squeeze(-1)
            offset, scale = means + stdvs * offset, stdvs * scale
        self.head = ModuleList(chain[:head])
        self.register_buffer("offset", offset.detach().clone())
        self.register_buffer("scale", scale.detach().clone())

    def evaluate(self, Y: Tensor, X: Tensor | None = None) -> Tensor:
        r"""Measured values in standardised units.

        Args:
            Y: ``... x q x 1``-dim values, as they were measured.
            X: Not looked at.

        Returns:
            ``... x q``-dim values.
        """
        self.head.eval()  # Standardize would learn from Y
        for transform in self.head:
            Y, _ = transform(Y)
        return (Y.squeeze(-1) - self.offset) / self.scale

    def forward(self, posterior: Posterior, X: Tensor | None = None) -> GPyTorchPosterior:
        r"""The posterior in standardised units.

        Args:
            posterior: One of the model, over ``... x q x 1`` values.
            X: Not looked at.

        Raises:
            UnsupportedError: If the posterior is not Gaussian.
        """
        normal = self.normal(posterior)
        mean = (normal.mean - self.offset) / self.scale
        covariance = to_dense(normal.lazy_covariance_matrix) / self.scale.unsqueeze(-1).square()
        return GPyTorchPosterior(MultivariateNormal(mean, to_linear_operator(covariance)))

    def normal(self, posterior: Posterior) -> MultivariateNormal:
        """The distribution that :attr:`offset` and :attr:`scale` are for; errors as above."""
        while len(self.head) and isinstance(posterior, TransformedPosterior):
            posterior = posterior._posterior
        if isinstance(posterior, GPyTorchPosterior):
            return posterior.distribution
        raise UnsupportedError(
            f"The objective's posterior must be Gaussian, but is a {type(posterior).__name__}."
        )


def standardised_posterior(model: Model, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""Mean and standard deviation of an objective, in standardised units.

    Args:
        model: A model of measured values with one output.
        X: ``... x q x d``-dim points.

    Returns:
        ``... x q``-dim mean and standard deviation of the latent value, that is without
        observation noise; a batch of models comes before ``q``.

    Raises:
        UnsupportedError: As :class:`~botorch_pref.acquisition.standard_units.StandardUnits` does.
    """
    units = StandardUnits(model)
    normal = units.normal(model.posterior(X))
    # Not `variance`, which GPyTorch rounds up to a constant of the units that Y is in.
    variance = normal.lazy_covariance_matrix.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)
    return (normal.mean - units.offset) / units.scale, safe_deviation(variance) / units.scale


def _single(model: Model) -> Model:
    """The model itself, or the only one of a list."""
    linked = isinstance(getattr(model, "likelihood", None), BernoulliLikelihood)
    if linked or isinstance(model, PairwiseGP):
        raise UnsupportedError(
            f"{type(model).__name__} has no units: its utility is judged, not measured. The "
            "objective's model must be one of measured values, such as SingleTaskGP."
        )
    if model.num_outputs != 1:
        raise UnsupportedError(
            f"The objective's model must have one output, but has {model.num_outputs}."
        )
    return cast(Model, model.models[0]) if isinstance(model, ModelList) else model


def _chain(transform: Module | None) -> Sequence[Module]:
    """An outcome transform as a list, in the order in which it was applied."""
    if transform is None:
        return []
    if isinstance(transform, ChainedOutcomeTransform):
        return [one for part in transform.values() for one in _chain(part)]
    known = isinstance(transform, Standardize | Log | Bilog)
    if known and not isinstance(transform, StratifiedStandardize):
        return [transform]
    raise UnsupportedError(
        f"The outcome transform {type(transform).__name__} leaves no standardised units: use "
        "Standardize, Log or Bilog, or a chain of these."
    )


def _of_targets(model: Model) -> Standardize:
    """What ``Standardize`` learns from a model's training targets."""
    inner = getattr(model, "model", None)  # where variational models keep them
    targets = getattr(model, "train_targets", getattr(inner, "train_targets", None))
    if not isinstance(targets, Tensor) or not targets.numel():
        raise UnsupportedError(
            f"The units of {type(model).__name__} are not known: it has neither a Standardize "
            "outcome transform nor training targets."
        )
    found = Standardize(1, batch_shape=targets.shape[:-1])
    with torch.no_grad():
        found(targets.unsqueeze(-1))
    return found
