r"""The data side of a model of comparisons and measured values."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self, cast

import torch
from botorch.exceptions.errors import UnsupportedError
from botorch.utils.containers import BotorchContainer, SliceContainer
from botorch.utils.datasets import RankingDataset, SupervisedDataset
from gpytorch.kernels import Kernel
from torch import Size, Tensor

from botorch_pref.data import Comparisons, Values
from botorch_pref.data.checks import check_shape, checked_kappa, common_batch_shape
from botorch_pref.data.comparisons import expanded
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference import Block, Observations
from botorch_pref.models.laplace_gp import LaplaceGP, check_dimension
from botorch_pref.models.measured_values import Calibration, values_block

_DUEL = (1.0, -1.0)
_DATA = ("datapoints", "pairs", "wins", "count", "annotator")
_ROWS = ("pairs", "wins", "count")
ValuesArgument = tuple[Tensor, Tensor] | tuple[Tensor, Tensor, Tensor] | Values | None
_VALUES = ("items", "targets", "variances")


class ComparisonModel(LaplaceGP):
    r"""A model that owns comparisons, as they were given and merged, and measured values.

    The tensors are buffers that are not persistent: they move with the model, and are in
    copies and pickles, but not in ``state_dict``. The items of inference are those compared,
    and then those measured.

    Attributes:
        variance: ``"laplace"`` or ``kappa``; see :class:`PreferenceGP`.
        calibration: The scale of the link and the noise of the values.
    """

    variance: str | float
    calibration: Calibration
    _value_items: Tensor | None
    _value_targets: Tensor
    _value_variances: Tensor | None
    _datapoints: Tensor | None
    _pairs: Tensor
    _merged_pairs: Tensor
    _merged_wins: Tensor
    _merged_count: Tensor

    def __init__(
        self,
        data: Comparisons | None,
        values: Values | None,
        variance: str | float,
        calibration: Calibration,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.variance = checked_kappa("variance", variance)
        self.calibration = calibration
        merged, measured = (f"merged_{n}" for n in _ROWS), (f"value_{n}" for n in _VALUES)
        for name in (*_DATA, *merged, *measured):
            self.register_buffer(f"_{name}", None, persistent=False)
        self._set_data(data, values)
        if data is not None or values is not None:
            self.to(self.items)
            self._learn_transform()
        self.eval()

    def extra_repr(self) -> str:
        """Which variance the covariance is built on."""
        return f"variance={self.variance!r}"

    @classmethod
    def construct_inputs(
        cls, training_data: SupervisedDataset
    ) -> dict[str, BotorchContainer | Tensor]:
        """The constructor's arguments from a ``RankingDataset``; see ``ranking_inputs``."""
        return ranking_inputs(training_data, cls.__name__)

    @property
    def items(self) -> Tensor:
        """The ``batch_shape x n x d``-dim items; without data, none of the kernel's type."""
        parts = [part for part in (self._datapoints, self._value_items) if part is not None]
        if parts:
            return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-2)
        dims = (k.ard_num_dims for k in self.covar_module.modules() if isinstance(k, Kernel))
        dim = next((d for d in dims if d is not None), 1)
        return next(self.covar_module.parameters(), torch.empty(0)).new_empty(0, dim)

    @property
    def dim(self) -> int | None:
        """The number of dimensions ``d`` of an item as it was given; ``None`` without data."""
        parts = (self._datapoints, self._value_items)
        return next((part.shape[-1] for part in parts if part is not None), None)

    @property
    def datapoints(self) -> Tensor | None:
        """The ``batch_shape x n x d``-dim compared items as they were given."""
        return self._datapoints

    @property
    def values(self) -> Values | None:
        """The measured values in the order in which they were given."""
        if self._value_items is None:
            return None
        return Values.unchecked(self._value_items, self._value_targets, self._value_variances)

    @property
    def data(self) -> Comparisons | None:
        """The comparisons in the order in which they were given."""
        if self._datapoints is None:
            return None
        return Comparisons.unchecked(*(getattr(self, f"_{name}") for name in _DATA))

    @property
    def merged_data(self) -> Comparisons | None:
        """The rows that inference sees; repeated pairs are one, annotators are not told apart."""
        if self._datapoints is None:
            return None
        rows = (getattr(self, f"_merged_{name}") for name in _ROWS)
        return Comparisons.unchecked(self._datapoints, *rows)

    @property
    def comparisons(self) -> Tensor | None:
        r"""The ``m x 2``-dim rows ``[winner, loser]``, a row for every answer.

        Raises:
            UnsupportedError: If there are ties, which have no such row.
        """
        return None if self.data is None else self.data.comparisons

    @property
    def train_targets(self) -> Tensor | None:
        """The comparisons, as GPyTorch names them."""
        return self.comparisons

    @property
    def num_observations(self) -> int:
        """The number of rows after merging, those of comparisons and of values."""
        rows = 0 if self._pairs is None else self._merged_pairs.shape[-2]
        return rows + (0 if self._value_items is None else self._value_items.shape[-2])

    def set_train_data(
        self,
        datapoints: Tensor | None = None,
        comparisons: Tensor | Comparisons | None = None,
        strict: bool = False,
        update_model: bool = True,
        *,
        values: ValuesArgument = None,
    ) -> None:
        r"""Replace all data; hyperparameters stay, learnt transform bounds are relearnt.

        Args:
            datapoints: ``batch_shape x n x d``-dim items.
            comparisons: As in the constructor; ``None`` for the prior.
            strict: Whether shape, type and device must be those of the data before.
            update_model: Accepted as by BoTorch's ``PairwiseGP``, and not used: the posterior
                is found when it is first needed.
            values: As in the constructor; values that the model has now are dropped.

        Raises:
            ComparisonDataError: If the data cannot be used; the old data then stay.
            RuntimeError: If ``strict`` and they differ, as from GPyTorch's exact models.
        """
        data, measured = as_comparisons(datapoints, comparisons), Values.from_argument(values)
        if strict:
            _check_alike("datapoints", self.datapoints, datapoints)
            if not isinstance(comparisons, Comparisons):
                _check_alike("comparisons", self.comparisons, comparisons)
        if (items := shape_of(data, measured)[1]) is None:
            raise ComparisonDataError("`datapoints` must be given.")
        check_dimension(self, "values" if data is None else "datapoints", items)
        self._set_data(data, measured)
        self._learn_transform()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        r"""Torch's; an empty state loads nothing, as Ax's cross-validation has it.

        Args:
            state_dict: The state.
            strict: Whether keys must be those of this model, if there are any.
            assign: See Torch.
        """
        strict = strict and bool(state_dict)
        return super().load_state_dict(state_dict, strict=strict, assign=assign)

    def observations(self) -> Observations:
        """See the base class: a block of duels, a block of values, or both."""
        blocks = []
        values, first = self.values, 0
        if self._datapoints is not None:
            count, first = self._merged_count, self._datapoints.shape[-2]
            answer = torch.where(count > 0, self._merged_wins / count.clamp_min(1.0), 0.5)
            blocks.append(Block(self._merged_pairs, _DUEL, answer, count, self.likelihood))
        if values is not None:
            blocks.append(values_block(values, first))
        return Observations(blocks, self.items.shape[-2])

    def constants(self) -> tuple[object, ...]:
        """See the base class."""
        return (self.variance, self.calibration.fixed_scale)

    def variance_weight(self) -> Tensor | None:
        """See the base class: ``count / kappa`` for comparisons, one for values."""
        if isinstance(self.variance, str):
            return None
        parts = [] if self._datapoints is None else [self._merged_count / self.variance]
        if self._value_items is not None:
            parts.append(torch.ones_like(self._value_targets.squeeze(-1)))
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def _set_data(self, data: Comparisons | None, values: Values | None) -> None:
        self.calibration.check(values)
        if data is not None and values is not None:
            values.check_items_like(data.datapoints)
            batch, _ = shape_of(data, values)
            data, values = expanded(data, batch), values.expand(batch)
        for name in _DATA:
            setattr(self, f"_{name}", None if data is None else getattr(data, name))
        for name in _VALUES:
            setattr(self, f"_value_{name}", None if values is None else getattr(values, name))
        if data is not None:
            rows = [getattr(data, name) for name in _ROWS]
            merged = Comparisons.unchecked(data.datapoints, *rows).merged()
            for name in _ROWS:
                setattr(self, f"_merged_{name}", getattr(merged, name))
        self._posterior_cache.clear()
        self._evidence.clear()

    def with_data(self, data: Comparisons | None, values: Values | None = None) -> Self:
        r"""A copy with other data, and the same hyperparameters and transforms.

        Args:
            data: All comparisons.
            values: All measured values.
        """
        new = copy.deepcopy(self)
        new._set_data(data, values)
        if not self.items.shape[-2]:
            new._learn_transform()  # from the first data, as a constructor does
        return new


def ranking_inputs(
    training_data: SupervisedDataset, model: str
) -> dict[str, BotorchContainer | Tensor]:
    r"""``datapoints`` and ``comparisons`` of a ``RankingDataset`` of pairs.

    Args:
        training_data: A ``RankingDataset`` of arity 2 without ties; rank 0 is best.
        model: The name of the model, for messages.

    Returns:
        The two constructor arguments.

    Raises:
        UnsupportedError: If it is another data set, ranks more than two items a row, or has
            ties.
    """
    if not isinstance(training_data, RankingDataset):
        raise UnsupportedError(
            f"Only `RankingDataset` is supported for `{model}`, not {type(training_data).__name__}."
        )
    ranked = cast(SliceContainer, training_data._X)
    indices, ranks = ranked.indices, training_data.Y
    if indices.shape[-1] != 2:
        raise UnsupportedError(
            f"{model} compares two items a row, but the RankingDataset ranks {indices.shape[-1]}."
        )
    if bool((ranks[..., 0] == ranks[..., 1]).any()):
        raise UnsupportedError(
            "A RankingDataset with ties has no [winner, loser] rows; use "
            f"{model}.from_pairs with answers of 0.5."
        )
    # BoTorch's own reading gathers by the ranks themselves, which is the same for pairs.
    comparisons = indices.gather(-1, ranks.argsort(dim=-1))
    return {"datapoints": ranked.values, "comparisons": comparisons}


def shape_of(data: Comparisons | None, values: Values | None) -> tuple[Size, Tensor | None]:
    """The batch shape of all data, and some of the items, if there are any.

    Raises:
        ComparisonDataError: If the batch shapes do not broadcast.
    """
    shapes, items = {}, None
    if values is not None:
        shapes[values.names[0]], items = values.batch_shape, values.items
    if data is not None:
        shapes["datapoints"], items = data.batch_shape, data.datapoints
    return common_batch_shape(**shapes), items


def as_comparisons(
    datapoints: Tensor | None, comparisons: Tensor | Comparisons | None
) -> Comparisons | None:
    """Validated data from a constructor's two arguments; ``None`` if both are.

    Items without comparisons are kept: they say nothing, and have the dimensions of an item.
    """
    if datapoints is None:
        if comparisons is not None:
            raise ComparisonDataError("`datapoints` is None while `comparisons` index them.")
        return None
    if comparisons is None:
        check_shape("datapoints", datapoints, "n", "d")
        rows = (*datapoints.shape[:-2], 0, 2)
        comparisons = torch.zeros(rows, dtype=torch.long, device=datapoints.device)
    if not isinstance(comparisons, Comparisons):
        return Comparisons.from_comparisons(datapoints, comparisons)
    if comparisons.datapoints is not datapoints and not torch.equal(
        comparisons.datapoints, datapoints
    ):
        raise ComparisonDataError("`comparisons` are over other datapoints than `datapoints`.")
    return comparisons


def _check_alike(name: str, old: Tensor | None, new: Tensor | None) -> None:
    """Raises ``RuntimeError`` if two tensors differ in shape, type or device."""
    for attribute in ("shape", "dtype", "device"):
        expected, found = getattr(old, attribute, None), getattr(new, attribute, None)
        if expected != found:
            raise RuntimeError(
                f"Cannot modify {attribute} of `{name}` (expected {expected}, found {found})."
            )
