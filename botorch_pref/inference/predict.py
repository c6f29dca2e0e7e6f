r"""Predictions of the utility from cached weights.

``mean(x) = m(x) + c(x)^T alpha`` and ``cov(x, w) = k(x, w) - c(x)^T Gamma c(w)``, where
``c`` is the covariance of a point with the side's coordinates.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from torch import Tensor

from botorch_pref.inference.base import Side
from botorch_pref.inference.mode import LaplaceMode
from botorch_pref.inference.observations import Observations
from botorch_pref.inference.sides import ExactSide


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

    @classmethod
    def stacked(cls, parts: Iterable[Representer], observations: Observations) -> Representer:
        r"""That of a batch from those of its parts, which are let go of one by one.

        Args:
            parts: In the order of the batch; a part of one element may have no batch.
            observations: Those of the whole batch, of one batch dimension.
        """
        whole: dict[str, Tensor] = {}
        done = 0
        for part in parts:
            tensors = {"alpha": part.weights, "gamma": part.gamma}
            tensors |= part.mode._asdict() | part.side.tensors()
            stop = done + part.mode.converged.numel()
            for name, value in tensors.items():
                if name not in whole:
                    core = value.shape[part.mode.converged.dim() :]
                    whole[name] = value.new_empty(len(observations.weight), *core)
                whole[name][done:stop] = value
            done = stop
        mode = LaplaceMode(*(whole.pop(name) for name in LaplaceMode._fields))
        alpha, gamma = whole.pop("alpha"), whole.pop("gamma")
        assert isinstance(part.side, ExactSide)  # others have no batch
        return cls(part.side.replaced(observations, whole), alpha, gamma, mode)

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
