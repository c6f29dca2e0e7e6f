r"""Differences of utilities between any items and a fixed table of others."""

from __future__ import annotations

from typing import Any

import torch
from linear_operator import to_dense
from torch import Tensor

from botorch_pref.inference import LaplacePosterior
from botorch_pref.kernels.dense import dense_covariance
from botorch_pref.models.laplace_gp import check_dimension
from botorch_pref.models.utility_model import UtilityModel


class Rivals:
    r"""``f(x) - f(r)`` for a table of rivals ``r``, without a joint posterior of these.

    What a posterior says of a table alone is computed once, and again when one of them is
    another; then an item costs ``O(s (s + w))`` beside ``s`` weights and ``w`` rivals. A copy or a
    pickle starts afresh.
    """

    def __init__(self) -> None:
        self._of: tuple[Any, ...] | None = None
        self._known: tuple[Tensor, ...] = ()

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(self), ()

    @torch.no_grad()
    def differences(self, model: UtilityModel, X: Tensor, table: Tensor) -> tuple[Tensor, Tensor]:
        r"""Posterior moments of all differences.

        Args:
            model: A model of the utility.
            X: ``... x b x d``-dim items; the batch shape of the model is among ``...``.
            table: ``w x d``-dim rivals, as given to the model.

        Returns:
            The ``... x b x w``-dim mean and variance, which rounding may leave below 0.
        """
        model.eval()
        check_dimension(model, "X", X)
        inputs, kernel = model.transform_rows(X), model.covar_module
        mean, variance = model.mean_module(inputs), to_dense(kernel(inputs, diag=True))
        # Moments of the table have a row an element, as GPyTorch may take others for a matrix.
        rivals = table.expand(*X.shape[:-2], *table.shape)
        if not model.num_observations:
            rivals = model.transform_rows(rivals)
            own_mean, own_variance = model.mean_module(rivals), to_dense(kernel(rivals, diag=True))
            explained: Tensor | float = 0.0
        else:
            items, found = model.representer()
            self._learn(model, rivals, table, items, found)
            rivals, own_mean, own_variance, weights = self._known
            columns = found.system.columns(model.cross_covariance(inputs, items))
            mean = mean + (columns @ found.weights.unsqueeze(-1)).squeeze(-1)
            variance = variance - ((columns @ found.gamma) * columns).sum(-1)
            explained = columns @ weights
        shared = dense_covariance(kernel, inputs, rivals) - explained
        spread = variance.unsqueeze(-1) + own_variance.unsqueeze(-2) - 2.0 * shared
        return mean.unsqueeze(-1) - own_mean.unsqueeze(-2), spread

    def _learn(
        self,
        model: UtilityModel,
        rivals: Tensor,
        table: Tensor,
        items: Tensor,
        found: LaplacePosterior,
    ) -> None:
        """Inputs, mean and variance of the rivals, and what their covariance with others takes."""
        version = None if table.is_inference() else table._version
        if self._of is not None:
            known, before, *rest = self._of
            if known is table and before is found and rest == [version, rivals.shape]:
                return
        inputs = model.transform_rows(rivals)
        columns = found.system.columns(model.cross_covariance(inputs, items))
        weights = found.gamma @ columns.mT
        mean = model.mean_module(inputs) + (columns @ found.weights.unsqueeze(-1)).squeeze(-1)
        variance = to_dense(model.covar_module(inputs, diag=True))
        variance = variance - (columns * weights.mT).sum(-1)
        self._of = table, found, version, rivals.shape
        self._known = inputs, mean, variance, weights
