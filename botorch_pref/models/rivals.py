r"""Differences of utilities between any items and a fixed table of others."""

from __future__ import annotations

import torch
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.laplace import Representer
from botorch_pref.models.laplace_gp import check_dimension
from botorch_pref.models.utility_model import UtilityModel


class Rivals:
    r"""``f(x) - f(r)`` for a table of rivals ``r``, without a joint posterior of these.

    What the posterior says of the table alone is computed once, and again when one of them is
    another; then an item costs ``O(s (s + w))`` beside ``s`` weights and ``w`` rivals.

    Args:
        model: A model of the utility.
    """

    def __init__(self, model: UtilityModel) -> None:
        self.model = model
        self._of: tuple[Tensor, Representer] | None = None
        self._known: tuple[Tensor, ...] = ()

    @torch.no_grad()
    def differences(self, X: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        r"""Posterior moments of all differences.

        Args:
            X: ``... x b x d``-dim items; the batch shape of the model is among ``...``.
            table: ``w x d``-dim rivals, as given to the model; not to be changed in place.

        Returns:
            The ``... x b x w``-dim mean and variance, which rounding may leave below 0.
        """
        model = self.model
        model.eval()
        check_dimension(model, X)
        inputs, kernel = model.transform_inputs(X), model.covar_module
        mean, variance = model.mean_module(inputs), to_dense(kernel(inputs, diag=True))
        if not model.num_observations:
            rivals = model.transform_inputs(table)
            own_mean, own_variance = model.mean_module(rivals), to_dense(kernel(rivals, diag=True))
            explained: Tensor | float = 0.0
        else:
            items, found = model.representer()
            if self._of is None or self._of[0] is not table or self._of[1] is not found:
                self._of, self._known = (table, found), self._of_table(table, items, found)
            rivals, own_mean, own_variance, weights = self._known
            columns = found.side.columns(model.cross_covariance(inputs, items))
            mean = mean + (columns @ found.weights.unsqueeze(-1)).squeeze(-1)
            variance = variance - ((columns @ found.gamma) * columns).sum(-1)
            explained = columns @ weights
        prior = to_dense(kernel(inputs, rivals.expand(*inputs.shape[:-2], *rivals.shape)))
        spread = variance.unsqueeze(-1) + own_variance.unsqueeze(-2) - 2.0 * (prior - explained)
        return mean.unsqueeze(-1) - own_mean.unsqueeze(-2), spread

    def _of_table(self, table: Tensor, items: Tensor, found: Representer) -> tuple[Tensor, ...]:
        """Inputs, mean and variance of the rivals, and what their covariance with others takes."""
        model = self.model
        rivals = model.transform_inputs(table)
        columns = found.side.columns(model.cross_covariance(rivals, items))
        weights = found.gamma @ columns.mT
        mean = model.mean_module(rivals) + (columns @ found.weights.unsqueeze(-1)).squeeze(-1)
        variance = to_dense(model.covar_module(rivals, diag=True))
        return rivals, mean, variance - (columns * weights.mT).sum(-1), weights
