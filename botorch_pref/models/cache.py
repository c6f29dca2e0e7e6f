r"""A value that is kept until a hyperparameter changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.nn import Module

T = TypeVar("T")


class HyperparameterCache(Generic[T]):
    r"""One value, valid while the hyperparameters of its model keep their values.

    Values are compared, not versions: GPyTorch sets parameters through ``.data``, which
    leaves no trace. A copy or a pickle of the cache is empty.
    """

    def __init__(self) -> None:
        self._key: tuple[tuple[object, ...], Tensor] | None = None
        self._value: T | None = None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(self), ()

    def clear(self) -> None:
        """Forget the value."""
        self._key = self._value = None

    def get(self, modules: tuple[Module | None, ...], like: Tensor, find: Callable[[], T]) -> T:
        r"""The value, found anew if a hyperparameter has changed.

        Args:
            modules: The modules whose parameters and buffers the value depends on.
            like: A tensor whose type and device the value depends on.
            find: Computes the value.

        Returns:
            The value.
        """
        present = [module for module in modules if module is not None]
        tensors: list[Tensor] = [p for module in present for p in module.parameters()]
        tensors += [b for m in present for b in m.buffers() if b.is_floating_point()]
        parts = [tensor.detach().reshape(-1).to(like) for tensor in tensors]
        values = torch.cat(parts) if parts else like.new_empty(0)
        key = ((*map(id, present), like.dtype, like.device), values)
        old = self._key
        known = old is not None and old[0] == key[0] and torch.equal(old[1], values)
        if not known or self._value is None:
            self._value = find()
            self._key = key
        return self._value
