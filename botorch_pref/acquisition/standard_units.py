r"""An objective's posterior in standardised units, whatever its model was fitted to.

A sum of an objective and a latent of labels has a meaning only where the objective's unit is
fixed. It is that of its measured values: 0 is their mean and 1 their standard deviation.
"""

from __future__ import annotations

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models import PairwiseGP
from botorch.models.model import Model
from botorch.models.transforms.outcome import Standardize
from botorch.posteriors import GPyTorchPosterior, Posterior
from gpytorch.distributions import MultivariateNormal
from linear_operator import to_dense, to_linear_operator
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.kernels.items import safe_deviation
from botorch_pref.likelihoods import BernoulliLikelihood


class StandardUnits(PosteriorTransform):
    r"""From the units of a model's posterior to standardised ones.

    Mean and standard deviation are those that the model's outcome transform ``Standardize`` has
    learnt; without one those of the training targets, with ``n - 1`` degrees of freedom. Values
    that do not differ are only centred, as by ``Standardize``. The ``batch_shape x 1``-dim
    ``offset`` becomes 0, and a difference of ``scale`` becomes 1.
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
        units = _standardize_of(model)
        self.register_buffer("offset", units.means.squeeze(-1).detach().clone())
        self.register_buffer("scale", units.stdvs.squeeze(-1).detach().clone())

    def evaluate(self, Y: Tensor, X: Tensor | None = None) -> Tensor:
        r"""``... x q``-dim standardised values of ``... x q x 1``-dim ``Y``, as measured."""
        return (Y.squeeze(-1) - self.offset) / self.scale

    def forward(self, posterior: Posterior, X: Tensor | None = None) -> GPyTorchPosterior:
        r"""The posterior of the model, over ``... x q x 1`` values, in standardised units.

        Raises:
            UnsupportedError: If the posterior is not Gaussian.
        """
        if not isinstance(posterior, GPyTorchPosterior):
            raise UnsupportedError(
                f"The objective's posterior must be Gaussian, but is a {type(posterior).__name__}."
            )
        normal = posterior.distribution
        mean = (normal.mean - self.offset) / self.scale
        covariance = to_dense(normal.lazy_covariance_matrix) / self.scale.unsqueeze(-1).square()
        return GPyTorchPosterior(MultivariateNormal(mean, to_linear_operator(covariance)))


def standardised_posterior(model: Model, X: Tensor) -> tuple[Tensor, Tensor]:
    r"""The mean and the deviation of an objective at points, standardised.

    They are ``... x q``-dim for ``... x q x d`` points, and of the latent value, without
    observation noise; a batch of models comes before ``q``.

    Raises:
        UnsupportedError: As :class:`~botorch_pref.acquisition.standard_units.StandardUnits` does.
    """
    normal = StandardUnits(model)(model.posterior(X)).distribution
    # Not `variance`, which GPyTorch rounds up to a constant.
    variance = normal.lazy_covariance_matrix.diagonal(dim1=-2, dim2=-1).clamp_min(0.0)
    return normal.mean, safe_deviation(variance)


def _standardize_of(model: Model) -> Standardize:
    """The transform that a model's values were standardised by, or would be."""
    linked = isinstance(getattr(model, "likelihood", None), BernoulliLikelihood)
    if linked or isinstance(model, PairwiseGP):
        raise UnsupportedError(
            f"{type(model).__name__} has no units: its utility is compared, not measured. The "
            "objective's model must be one of measured values, such as SingleTaskGP."
        )
    if model.num_outputs != 1:
        raise UnsupportedError(
            f"The objective's model must have one output, but has {model.num_outputs}."
        )
    transform = getattr(model, "outcome_transform", None)
    if type(transform) is Standardize:  # not a subclass by strata
        return transform
    if transform is not None:
        raise UnsupportedError(
            f"The outcome transform {type(transform).__name__} leaves no standardised units: use "
            "Standardize."
        )
    targets = getattr(model, "train_targets", None)
    if not isinstance(targets, Tensor) or not targets.numel():
        raise UnsupportedError(
            f"The units of {type(model).__name__} are not known: it has neither a Standardize "
            "outcome transform nor training targets."
        )
    units = Standardize(1, batch_shape=targets.shape[:-1])
    with torch.no_grad():
        units(targets.unsqueeze(-1))
    return units
