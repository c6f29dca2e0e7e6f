r"""What an expert believes, given as a function in place of labels."""

from __future__ import annotations

from typing import Any

import torch
from botorch.acquisition.objective import PosteriorTransform
from botorch.models.model import Model
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from linear_operator.operators import DiagLinearOperator
from torch import Tensor

from botorch_pref.data.checks import (
    check_items,
    check_like,
    check_shape,
    checked_positive,
    finite,
    refuse,
)
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import LogitLikelihood


class NormalBelief(Model):
    r"""Accepted with probability ``exp(-(x - m)' C^{-1} (x - m) / 2)``, which is 1 at ``m``.

    The belief function of Xu et al. (2024b), App. H: an expert who can say where good items are,
    and how far around, is asked for no labels. Their latent, the logit of that probability, has a
    posterior without a variance, so that :class:`~botorch_pref.acquisition.ExpertAugmentedLCB`,
    :class:`~botorch_pref.acquisition.OptimisticAcceptance` and
    :class:`~botorch_pref.acquisition.LogHumanConstrainedEI` take it in place of a model of labels.

    Example:
        >>> belief = NormalBelief(item, 0.1**2 * torch.eye(2, dtype=torch.double))
        >>> rule = LogHumanConstrainedEI(gp, belief, best_f=Y.max())
    """

    mean: Tensor
    covariance: Tensor
    _root: Tensor

    def __init__(self, mean: Tensor, covariance: Tensor, *, bound: float | None = None) -> None:
        r"""Set the belief.

        Args:
            mean: The ``d``-dim item ``m``.
            covariance: The ``d x d``-dim matrix ``C``, symmetric and positive definite, in squared
                units of the items.
            bound: The largest absolute logit, beyond which the latent is flat; None for what
                numbers of the type of ``mean`` tell from certainty.

        Raises:
            ComparisonDataError: If an argument has another shape or type, is not finite or out of
                range; names it.
        """
        super().__init__()
        check_items("mean", mean, "d", batch=False)
        check_shape("covariance", covariance, len(mean), len(mean), batch=False)
        check_like("covariance", covariance, mean)
        refuse(finite("mean", mean.unsqueeze(0)), finite("covariance", covariance))
        root, failed = torch.linalg.cholesky_ex(covariance)
        if failed or not torch.allclose(covariance, covariance.mT):
            raise ComparisonDataError(
                f"`covariance` must be symmetric and positive definite, not {covariance.tolist()}."
            )
        self.bound = None if bound is None else checked_positive("bound", bound)
        self.likelihood = LogitLikelihood()
        self.register_buffer("mean", mean)
        self.register_buffer("covariance", covariance)
        self.register_buffer("_root", root)

    @property
    def num_outputs(self) -> int:
        """The latent alone."""
        return 1

    @property
    def batch_shape(self) -> torch.Size:
        """There is no batch."""
        return torch.Size()

    def probability(self, X: Tensor) -> Tensor:
        """The ``...``-dim probabilities that ``... x d``-dim items are accepted, unbounded."""
        return self._log_probability(X).exp()

    def latent(self, X: Tensor) -> Tensor:
        """Their ``...``-dim logits, of no more than ``bound`` either way."""
        log = self._log_probability(X)
        least = torch.finfo(log.dtype).eps
        logit = log - (-torch.expm1(log.clamp_max(-least))).log()
        return logit if self.bound is None else logit.clamp(-self.bound, self.bound)

    def posterior(
        self,
        X: Tensor,
        output_indices: list[int] | None = None,
        observation_noise: bool | Tensor = False,
        posterior_transform: PosteriorTransform | None = None,
        **kwargs: Any,
    ) -> Any:
        """The latent of ``... x q x d``-dim items, whose covariance is zero."""
        latent = self.latent(X)
        law = MultivariateNormal(latent, DiagLinearOperator(torch.zeros_like(latent)))
        found = GPyTorchPosterior(law)
        return found if posterior_transform is None else posterior_transform(found)

    def _log_probability(self, X: Tensor) -> Tensor:
        check_shape("X", X, len(self.mean))
        away = (X.to(self.mean) - self.mean).unsqueeze(-1)
        whitened = torch.linalg.solve_triangular(self._root, away, upper=False).squeeze(-1)
        return -0.5 * whitened.square().sum(-1)
