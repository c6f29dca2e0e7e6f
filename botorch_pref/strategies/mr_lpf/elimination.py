r"""Which items a round eliminates."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models import PreferenceGP
from botorch_pref.models.moments import safe_deviation
from botorch_pref.strategies.mr_lpf.bounds import MAX_SLOPE

Scale = Literal["probability", "latent"]
_ROUNDING = 1e-12


def upper_slack(difference: Tensor, sigma: Tensor, beta: float, ci_scale: Scale) -> Tensor:
    r"""How far the upper confidence bound on an item's chance lies above one half.

    Args:
        difference: ``...``-dim ``h_t(x, x')``.
        sigma: ``...``-dim ``sigma_t(x, x')``.
        beta: Multiplies ``sigma`` on the scale of probabilities.
        ci_scale: ``"probability"`` for eq. (12) of Kayal et al. (2025),
            ``mu(h) + beta sigma - 1/2``; ``"latent"`` for ``h + beta sigma / L``, where ``L``
            is the largest slope of the link: valid with the same probability, and never
            weaker.

    Returns:
        The ``...``-dim slack, at least 0 where ``x`` may still be as good as ``x'``.
    """
    if ci_scale == "latent":
        return difference + beta / MAX_SLOPE * sigma
    return torch.sigmoid(difference) + beta * sigma - 0.5


def survivors(mean: Tensor, sigma: Tensor, beta: float, ci_scale: Scale) -> Tensor:
    r"""The items of a finite set that no other item has beaten for sure.

    Args:
        mean: ``n``-dim predicted utilities of the active items.
        sigma: ``n x n``-dim ``sigma_t`` of their pairs.
        beta: As in :func:`upper_slack`.
        ci_scale: As in :func:`upper_slack`.

    Returns:
        An ``n``-dim mask; it is true at the largest ``mean``.
    """
    slack = upper_slack(mean.unsqueeze(-1) - mean, sigma, beta, ci_scale)
    return (slack >= -_ROUNDING).all(dim=-1)


def checked_scale(ci_scale: str) -> Scale:
    """The name of a scale.

    Raises:
        ComparisonDataError: If there is none of this name.
    """
    for known in get_args(Scale):
        if ci_scale == known:
            return known
    raise ComparisonDataError(f"`ci_scale` must be probability or latent, got {ci_scale!r}.")


class Elimination:
    r"""A round's rule on a box: what is left are the items of slack 0 at least.

    The opponents are finitely many witnesses instead of the whole active set, so the slack
    is too large rather than too small, and nothing is eliminated that should not be.

    Args:
        model: ``PreferenceGP(variance=kappa)`` of the round's answers.
        witnesses: ``w x d``-dim active items; the one of largest predicted utility has slack 0.
        beta: Multiplies the model's own standard deviation of a difference, on the scale of
            probabilities: ``sqrt(lambda)`` times that of Kayal et al. (2025).
        ci_scale: See :func:`upper_slack`.
    """

    def __init__(
        self, model: PreferenceGP, witnesses: Tensor, beta: float, ci_scale: Scale
    ) -> None:
        self.model, self.witnesses = model, witnesses
        self.beta, self.ci_scale = beta, ci_scale
        with torch.no_grad():
            items, self._found = model.representer()
            inputs = model.transform_inputs(witnesses)
            self._inputs = torch.cat([items, inputs])
            self._num_items = len(items)
            cross = model.cross_covariance(inputs, items)
            self._columns, self._mean, self._variance, _ = self._moments(inputs, cross)

    def slack(self, X: Tensor) -> Tensor:
        r"""The smallest slack against all witnesses.

        Args:
            X: ``... x d``-dim items.

        Returns:
            ``...``-dim slack, differentiable where there is no kink.
        """
        inputs = self.model.transform_inputs(X.reshape(-1, X.shape[-1]))
        mean, variance = self._differences(inputs)
        slack = upper_slack(mean, safe_deviation(variance), self.beta, self.ci_scale)
        return slack.amin(-1).view(X.shape[:-1])

    def _differences(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance of ``f(x) - f(w)``, ``b x w``-dim."""
        cross = self.model.cross_covariance(inputs, self._inputs)
        items, witnesses = cross.tensor_split([self._num_items], dim=-1)
        _, mean, own, weights = self._moments(inputs, items)
        covariance = witnesses - weights @ self._columns.T
        variance = own.unsqueeze(-1) + self._variance - 2.0 * covariance
        return mean.unsqueeze(-1) - self._mean, variance.clamp_min(0.0)

    def _moments(self, inputs: Tensor, cross: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        columns = self._found.system.columns(cross)
        weights = columns @ self._found.gamma
        prior = self.model.covar_module(inputs, diag=True)
        variance = prior - (weights * columns).sum(-1)
        return columns, columns @ self._found.weights, variance, weights
