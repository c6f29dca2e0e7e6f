r"""The posterior of a difference beyond its normal approximation."""

from __future__ import annotations

import torch
from botorch.models.model import Model
from torch import Tensor

from botorch_pref.acquisition.base import LaplaceUtility
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference import ExactSystem, Observations
from botorch_pref.likelihoods import BernoulliLikelihood


class DifferenceLaw:
    r"""The posterior of ``d = f(x) - f(x')`` on the line on which all answers follow it.

    Laplace's approximation expands the log likelihood of each answer at the mode. Along the line
    of conditional means given ``d = mean(d) + sd(d) z`` the answers can be kept as they are,

        ``log p(z) = -z^2 / 2 + sum_i [l_i(eta_i + r_i z) - its quadratic expansion]``,

    with ``r_i = cov(eta_i, d) / sd(d)`` for the latent ``eta_i`` of answer ``i``: the marginals of
    Tierney and Kadane (1986) without their determinant; see Rue, Martino and Chopin (2009). Where
    a single pair was answered this is exact. Measured values add nothing, as they are quadratic.

    Args:
        model: The model, not batched, with ``variance="laplace"`` and without inducing items; as it
            is now, so after a fit another law is due.

    Raises:
        UnsupportedError: If inference goes through inducing items.
    """

    def __init__(self, model: LaplaceUtility) -> None:
        self.model = model
        with torch.no_grad():
            self.items, found = model.representer()
            if not isinstance(found.system, ExactSystem):
                raise UnsupportedError("Through inducing items no answer follows one line.")
            self.system = found.system
            # What is left of a covariance with the system's coordinates: C - C Gamma C = C rest.
            self.rest = -(found.gamma @ self.system.covariance)
            self.rest.diagonal().add_(1.0)
            blocks = self.system.observations.blocks
            answers = [isinstance(block.likelihood, BernoulliLikelihood) for block in blocks]
            kept = [block for block, answer in zip(blocks, answers, strict=True) if answer]
            self.answers = Observations(kept, len(self.items))
            sizes = torch.tensor([block.weight.shape[-1] for block in blocks])
            rows = torch.tensor(answers).repeat_interleave(sizes).nonzero().squeeze(-1)
            self.rows = rows.to(self.items.device)
            self.mode = found.mode.latent[self.rows]
            self.score, self.curvature, _ = self.answers.derivatives(self.mode)
            self.log_prob = self.answers.log_prob(self.mode)

    @classmethod
    def of(cls, model: Model) -> DifferenceLaw | None:
        """That of a model, or None where nothing beyond a normal law is known.

        Inducing items are for many answers, for which the normal law is good.
        """
        if not isinstance(model, LaplaceUtility) or not model.num_observations:
            return None
        if getattr(model, "variance", None) != "laplace":
            return None
        system = model.representer()[1].system
        if not isinstance(system, ExactSystem):
            return None
        blocks = system.observations.blocks
        answered = any(isinstance(block.likelihood, BernoulliLikelihood) for block in blocks)
        return cls(model) if answered else None

    def log_ratio(self, X: Tensor, deviation: Tensor, z: Tensor) -> Tensor:
        r"""The log density less that of the normal law, up to a constant.

        Args:
            X: ``b x 2 x d``-dim pairs.
            deviation: ``b``-dim ``sd(d)``.
            z: ``Q``-dim standardised differences.

        Returns:
            ``b x Q``-dim values.
        """
        slope = self._slopes(X) / deviation.unsqueeze(-1)  # shape: b x m
        slope, z = slope.unsqueeze(-2), z.unsqueeze(-1)
        moved = self.answers.log_prob(self.mode + slope * z) - self.log_prob
        expansion = z * (slope * self.score) - 0.5 * (z * slope).square() * self.curvature
        return (moved - expansion).sum(-1)

    def _slopes(self, X: Tensor) -> Tensor:
        """``b x m``-dim posterior covariances of answers' latents and the difference."""
        inputs = self.model.transform_rows(X)
        cross = self.model.cross_covariance(inputs, self.items)
        columns = self.system.columns(cross[..., 0, :] - cross[..., 1, :])
        return self.system.map.apply(columns @ self.rest)[..., self.rows]
