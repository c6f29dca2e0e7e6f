r"""A utility model that may see its data through inducing items."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from botorch_pref.data import Comparisons, Values
from botorch_pref.data.checks import check_count, check_items, check_like, finite, refuse
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.inference import InducingSystem, LaplacePosterior, laplace_posterior
from botorch_pref.inference.systems import System
from botorch_pref.models.comparison_model import shape_of
from botorch_pref.models.inducing_kernel import InducingKernel, most_varied
from botorch_pref.models.utility_model import UtilityModel


class InducingModel(UtilityModel):
    r"""Inference through ``p`` inducing items, linear in the number ``m`` of duels.

    The mode and its Hessian live in ``p`` dimensions; duels come in blocks, so that memory grows
    by vectors of length ``m`` alone. Predictions keep the prior variance that inducing items do
    not explain. The evidence is Laplace's with a trace correction, see
    :mod:`~botorch_pref.inference.inducing`: it is below the exact one as a rule, the more
    the shorter the lengthscales, which come out too long where inducing items are few. Each of
    its gradients takes several passes over the data: hyperparameters of very many duels are
    better fitted to a part of them by an exact model, and loaded by ``load_state_dict``.

    Inducing items are given, as a ``p x d``-dim tensor in the space of the items, or chosen among
    the items by :func:`~botorch_pref.models.inducing_kernel.most_varied`: when they are first
    needed, under the hyperparameters of that moment. They then stay, also while hyperparameters
    are fitted, until :meth:`choose_inducing_points` or other data.
    Inference is exact where there are no more items than inducing items asked for. Copies and
    pickles have them, ``state_dict`` has not.

    A batch of models, fantasies among them, and the gradient of a posterior with respect to
    items or hyperparameters are refused with ``UnsupportedError``.
    """

    _num_inducing: int | None = None
    _inducing: Tensor | None

    def __init__(self, *args: Any, inducing_points: int | Tensor | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        given = inducing_points if isinstance(inducing_points, Tensor) else None
        self.register_buffer("_inducing", given, persistent=False)
        if given is None and inducing_points is not None:
            check_count("inducing_points", inducing_points, 1)
            self._num_inducing = int(inducing_points)
        self._check_inducing(self.data, self.values)

    @property
    def inducing_points(self) -> Tensor | None:
        """The ``p x d``-dim inducing items, not transformed; ``None`` if inference is exact."""
        if self._num_inducing is None:
            return self._inducing if self.num_observations else None
        if not self.num_observations or self._num_inducing >= self.items.shape[-2]:
            return None
        if self._inducing is None:
            self._choose()
        return self._inducing

    def choose_inducing_points(self) -> None:
        """Choose as many inducing items as before under the hyperparameters of now, given data.

        Raises:
            UnsupportedError: If they were given, and not their number.
        """
        if self._num_inducing is None:
            raise UnsupportedError("`inducing_points` is not a number of items to choose.")
        if not self.num_observations:
            return
        self._choose()
        self._posterior_cache.clear()
        self._evidence.clear()

    @torch.inference_mode(False)  # what is kept serves where gradients are taken, too
    @torch.no_grad()
    def _choose(self) -> None:
        assert self._num_inducing is not None  # callers look first
        items = self.transformed_items().detach()
        chosen = most_varied(self.covar_module, items, self._num_inducing)
        self._inducing = self.items.detach()[chosen]

    def nodes(self) -> Tensor:
        """See the base class: the transformed inducing items, if there are any."""
        inducing = self.inducing_points
        return super().nodes() if inducing is None else self._transformed(inducing)

    def _transformed(self, items: Tensor) -> Tensor:
        transform = getattr(self, "input_transform", None)
        return items if transform is None else transform.preprocess_transform(items)

    def node_scaling(self) -> Tensor | None:
        """See the base class: inducing items have the units of the utility."""
        return super().node_scaling() if self.inducing_points is None else None

    def side(self, items: Tensor) -> System:
        """See the base class."""
        if self.inducing_points is None:
            return super().side(items)
        observations = self.observations()
        latent = self.prior_latent(self.mean_module(items), observations)
        kernel = InducingKernel(self.covar_module, items, self.nodes(), self.scaling())
        return InducingSystem(kernel, latent, observations)

    def _represent(self) -> tuple[Tensor, LaplacePosterior]:
        if self.inducing_points is None:
            return super()._represent()
        found = laplace_posterior(self.side(self.transformed_items()), self.variance_weight())
        return self.nodes(), found

    def _set_data(self, data: Comparisons | None, values: Values | None) -> None:
        if "_inducing" in self._buffers:  # and not in the middle of construction
            self._check_inducing(data, values)
            if self._num_inducing is not None:
                self._inducing = None
        super()._set_data(data, values)

    def _check_inducing(self, data: Comparisons | None, values: Values | None) -> None:
        number, given = self._num_inducing, self._inducing
        batch, items = shape_of(data, values)
        if given is not None:
            dim = "d" if items is None else items.shape[-1]
            check_items("inducing_points", given, "p", dim, batch=False)
            refuse(finite("inducing_points", given))
            if not len(given):
                raise ComparisonDataError("`inducing_points` must hold one item at least.")
            if items is not None:
                check_like("inducing_points", given, items)
        size = 0 if data is None else data.datapoints.shape[-2]
        size += 0 if values is None else values.num_values
        batch = torch.broadcast_shapes(batch, self.covar_module.batch_shape)
        if batch and (given is not None or (number is not None and number < size)):
            raise UnsupportedError(
                f"`inducing_points` are for one model, not for a batch of {tuple(batch)}."
            )
