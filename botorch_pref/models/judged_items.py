r"""Distinct items and what was judged of them, as a model's data."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import torch
from botorch.models.model import Model
from botorch.models.transforms.input import InputTransform
from gpytorch.kernels import Kernel
from torch import Size, Tensor
from torch.nn import Module

from botorch_pref.data import Comparisons
from botorch_pref.data.blocks import match_items
from botorch_pref.data.checks import check_like, check_shape
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.inference import Block
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood
from botorch_pref.models.judgement_blocks import (
    as_labels,
    distinct_items,
    duels_block,
    labels_block,
    number_of_answers,
)
from botorch_pref.models.links import checked_link
from botorch_pref.models.preference_gp import as_comparisons
from botorch_pref.models.transforms import learn_bounds, transformed_items, transformed_rows


class JudgedItems(Model):
    r"""The data side of a model of any judgements.

    Attributes:
        covar_module: The kernel.
        blocks: The judgements, in the order in which they came.
        likelihood: The link of the first of them, which further ones have, too.
    """

    _items: Tensor

    def __init__(
        self,
        items: Tensor,
        blocks: Sequence[Block],
        covar_module: Kernel,
        input_transform: InputTransform | None,
    ) -> None:
        super().__init__()
        self.covar_module = covar_module
        self.blocks = tuple(block for block in blocks if block.weight.shape[-1])
        links = (b.likelihood for b in blocks if isinstance(b.likelihood, BernoulliLikelihood))
        self.likelihood = next(links, LogitLikelihood())
        self.register_buffer("_items", items.detach(), persistent=False)
        if input_transform is not None:
            self.input_transform = input_transform
        self.to(items)
        learn_bounds(input_transform, items)
        self.eval()

    @classmethod
    def from_comparisons(
        cls,
        datapoints: Tensor,
        comparisons: Tensor | Comparisons,
        *,
        likelihood: Module | None = None,
        **options: Any,
    ) -> Self:
        r"""The set of utilities, from duels.

        Args:
            datapoints: ``n x d``-dim items, where equal ones are one.
            comparisons: ``m x 2``-dim ``[winner, loser]`` rows, or
                :class:`~botorch_pref.data.Comparisons`.
            likelihood: The link; logit by default.
            **options: As of the constructor; ``norm_bound`` has no default.

        Returns:
            The model.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        data = as_comparisons(datapoints, comparisons)
        if data is None or comparisons is None:
            raise ComparisonDataError("`datapoints` and `comparisons` must be given.")
        items, block = distinct_items(data, duels_block(data, checked_link(likelihood)))
        return cls(items, [block], **options)

    @classmethod
    def from_labels(
        cls,
        X: Tensor,
        accept: Tensor,
        *,
        likelihood: Module | None = None,
        **options: Any,
    ) -> Self:
        r"""The set of latent functions whose sign accepts or rejects.

        Args:
            X: ``n x d``-dim labelled items, where equal ones are one.
            accept: ``n x 1`` or ``n``-dim labels: 1 accept, 0 reject, 0.5 undecided.
            likelihood: The link; logit by default.
            **options: As of the constructor; ``norm_bound`` has no default, and
                ``jitter_points`` is False.

        Returns:
            The model.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        data = as_labels(X, accept)
        items, block = labels_block(X[:0], data, checked_link(likelihood))
        return cls(items, [block], **{"jitter_points": False, **options})

    @property
    def items(self) -> Tensor:
        """The ``n x d``-dim items as they were given."""
        return self._items

    @property
    def num_outputs(self) -> int:
        """One, the utility."""
        return 1

    @property
    def batch_shape(self) -> Size:
        """None, as there is one set."""
        return Size()

    @property
    def num_answers(self) -> int:
        """The number ``t`` of judgements, which the slack depends on."""
        return sum(number_of_answers(block) for block in self.blocks)

    def transform_rows(self, X: Tensor) -> Tensor:
        """``... x d``-dim points as the kernel sees them."""
        return transformed_rows(getattr(self, "input_transform", None), X)

    def transformed_items(self) -> Tensor:
        """The ``n x d``-dim items as the kernel sees them."""
        return transformed_items(getattr(self, "input_transform", None), self.items)

    def _set_transformed_inputs(self) -> None:
        """Nothing: BoTorch's hook swaps the data, ours stay as they were given."""

    def _revert_to_original_inputs(self) -> None:
        """Nothing: see :meth:`_set_transformed_inputs`."""

    @abstractmethod
    def forget(self) -> None:
        """Drop all that was derived from data and options."""

    def condition_on_pairs(self, pairs: Tensor, answers: Tensor) -> Self:
        r"""The set after further duels.

        Args:
            pairs: ``m x 2 x d``-dim items; one equal to a stored one is that one.
            answers: ``m``-dim answers: 1 the first won, 0 the second, 0.5 no preference.

        Returns:
            Another model.

        Raises:
            ComparisonDataError: If the data cannot be used; names argument and row.
        """
        rows = torch.empty(0, 2, dtype=torch.long, device=self.items.device)
        none = self.items.new_empty(0)
        data = Comparisons.unchecked(self.items, rows, none, none).append(pairs, answers)
        return self._with(data.datapoints, duels_block(data, self.likelihood))

    def condition_on_labels(self, X: Tensor, accept: Tensor) -> Self:
        r"""The set after further labels; arguments and errors as of :meth:`from_labels`."""
        return self._with(*labels_block(self.items, as_labels(X, accept), self.likelihood))

    def with_items(self, items: Tensor) -> Self:
        r"""The same with ``k x d``-dim further items that nothing was said of yet."""
        check_shape("items", items, "k", self.items.shape[-1], batch=False)
        check_like("items", items, self.items)
        _, fresh = match_items(self.items, items)
        return self._with(torch.cat([self.items, items[fresh]]), None)

    def _with(self, items: Tensor, block: Block | None) -> Self:
        new = copy.deepcopy(self)
        new._items = items.detach()
        if block is not None and block.weight.shape[-1]:
            new.blocks = (*new.blocks, block)
        new.forget()
        return new

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        self.blocks = tuple(
            replace(b, items=fn(b.items), answer=fn(b.answer), weight=fn(b.weight))
            for b in self.blocks
        )
        self.forget()
        return self
