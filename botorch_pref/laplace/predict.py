r"""Predictions of the utility from cached weights.

``mean(x) = m(x) + c(x)^T alpha`` and ``cov(x, w) = k(x, w) - c(x)^T Gamma c(w)``, where
``c`` is the covariance of a point with the side's coordinates.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from botorch_pref.laplace.mode import LaplaceMode
from botorch_pref.laplace.sides import Side


class Representer(NamedTuple):
    r"""A posterior, reduced to what predictions need.

    Attributes:
        side: The prior and the observations.
        weights: ``... x s``-dim representer weights ``alpha``.
        gamma: ``... x s x s``-dim ``Gamma = (C + L_W^-1)^-1``.
        mode: The mode it belongs to.
    """

    side: Side
    weights: Tensor
    gamma: Tensor
    mode: LaplaceMode

    def predict(
        self, prior_mean: Tensor, prior_covariance: Tensor, cross_covariance: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The joint posterior of the utility at ``q`` points.

        Args:
            prior_mean: ``... x q``-dim prior mean at the points.
            prior_covariance: ``... x q x q``-dim prior covariance of the points.
            cross_covariance: ``... x q x n``-dim covariance of points and items.

        Returns:
            The ``... x q``-dim mean and the ``... x q x q``-dim covariance.
        """
        columns = self.side.columns(cross_covariance)
        mean = prior_mean + (columns @ self.weights.unsqueeze(-1)).squeeze(-1)
        explained = columns @ self.gamma @ columns.transpose(-1, -2)
        return mean, prior_covariance - explained

    def predict_differences(
        self, prior_mean: Tensor, prior_variance: Tensor, cross_covariance: Tensor
    ) -> tuple[Tensor, Tensor]:
        r"""The posterior of ``b`` linear combinations of the utility, one by one.

        Args:
            prior_mean: ``... x b``-dim prior mean of the combinations.
            prior_variance: ``... x b``-dim prior variance of the combinations.
            cross_covariance: ``... x b x n``-dim covariance with the items.

        Returns:
            The ``... x b``-dim mean and variance.
        """
        columns = self.side.columns(cross_covariance)
        mean = prior_mean + (columns @ self.weights.unsqueeze(-1)).squeeze(-1)
        explained = ((columns @ self.gamma) * columns).sum(-1)
        return mean, (prior_variance - explained).clamp_min(0.0)
