r"""Input transforms that act where items meet the kernel.

Models keep their items as they were given and transform them on use. Learnable transforms get
gradients so, and BoTorch's hooks that swap a model's data have nothing to do.
"""

from __future__ import annotations

import torch
from botorch.models.transforms.input import InputTransform
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError


def transformed(transform: InputTransform | None, X: Tensor) -> Tensor:
    """Points of predictions, ``... x q x d``-dim, as the kernel sees them."""
    if transform is None:
        return X
    transform.eval()  # bounds are learnt from data, never from points of predictions
    return transform(X)


def transformed_rows(transform: InputTransform | None, X: Tensor) -> Tensor:
    r"""The same, where each of ``... x k x d`` points has to stay one.

    Raises:
        UnsupportedError: If the transform makes several of one.
    """
    inputs = transformed(transform, X)
    if inputs.shape[-2] != X.shape[-2]:
        raise UnsupportedError(
            f"{type(transform).__name__} makes {inputs.shape[-2] // X.shape[-2]} rows of one: "
            "only posteriors of points can be computed, not pairs or paths."
        )
    return inputs


def transformed_items(transform: InputTransform | None, items: Tensor) -> Tensor:
    """A model's own items, ``... x n x d``-dim, as the kernel sees them."""
    return items if transform is None else transform.preprocess_transform(items)


def learn_bounds(transform: InputTransform | None, items: Tensor) -> None:
    """Let a transform learn its bounds from ``... x n x d``-dim items, if there are any."""
    if transform is not None and items.shape[-2]:
        transform.to(items)
        mode = transform.training
        transform.train()
        with torch.no_grad():
            transform(items)
        transform.train(mode)  # or it would learn from whatever comes next


def num_columns(items: Tensor | None, transform: InputTransform | None) -> int | None:
    """How many columns a kernel sees of ``... x n x d``-dim items; ``None`` without items."""
    if items is None:
        return None
    if transform is None or not items.shape[-2]:
        return items.shape[-1]
    with torch.no_grad():
        return transformed_items(transform.to(items), items[..., :1, :]).shape[-1]
