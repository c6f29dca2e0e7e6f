r"""Input transforms that act where items meet the kernel."""

from __future__ import annotations

from abc import abstractmethod

import torch
from botorch.models.transforms.input import InputTransform
from torch import Tensor
from torch.nn import Module

from botorch_pref.exceptions import UnsupportedError


class TransformedItems(Module):
    r"""The part of a model that keeps items as they were given, and transforms them on use.

    Learnable transforms get gradients so, and BoTorch's hooks that swap a model's data in
    training and evaluation mode have nothing to do.
    """

    @property
    @abstractmethod
    def items(self) -> Tensor:
        """The ``batch_shape x n x d``-dim items as they were given."""

    def transform_inputs(self, X: Tensor, input_transform: Module | None = None) -> Tensor:
        r"""Transform inputs by ``input_transform``, or else by the model's own.

        An error inside a transform is raised, not taken for the lack of one.
        """
        if input_transform is not None:
            return input_transform.to(X)(X)
        own = getattr(self, "input_transform", None)
        if own is None:
            return X
        own.eval()  # bounds are learnt from data, never from what is asked
        return own(X)

    def transform_rows(self, X: Tensor) -> Tensor:
        r"""Transform ``... x k x d``-dim inputs, each of which has to stay one.

        Raises:
            UnsupportedError: If the transform makes several of one.
        """
        inputs = self.transform_inputs(X)
        if inputs.shape[-2] != X.shape[-2]:
            raise UnsupportedError(
                f"{type(self.input_transform).__name__} makes {inputs.shape[-2] // X.shape[-2]} "
                "rows of one: only posteriors of points are to be had, not pairs or paths."
            )
        return inputs

    def transformed_items(self) -> Tensor:
        """The ``batch_shape x n x d``-dim items as the kernel sees them."""
        transform = getattr(self, "input_transform", None)
        return self.items if transform is None else transform.preprocess_transform(self.items)

    def _learn_transform(self) -> None:
        # Bounds that are learnt from data are learnt once, when data are set.
        transform = getattr(self, "input_transform", None)
        if transform is not None and self.items.shape[-2]:
            transform.to(self.items)
            mode = transform.training
            transform.train()
            with torch.no_grad():
                transform(self.items)
            transform.train(mode)  # or it would learn from whatever comes next

    def _set_transformed_inputs(self) -> None:
        """Nothing: BoTorch's hook swaps the data, ours stay as they were given."""

    def _revert_to_original_inputs(self) -> None:
        """Nothing: see :meth:`_set_transformed_inputs`."""


def num_columns(items: Tensor | None, input_transform: InputTransform | None) -> int | None:
    r"""How many columns a kernel sees; ``None`` without items.

    Args:
        items: ``... x n x d``-dim items as they were given.
        input_transform: What is applied to them.
    """
    if items is None:
        return None
    if input_transform is None or not items.shape[-2]:
        return items.shape[-1]
    with torch.no_grad():
        seen = input_transform.to(items).preprocess_transform(items[..., :1, :])
    return seen.shape[-1]
