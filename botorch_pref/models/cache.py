r"""A value that is kept until a hyperparameter changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.nn import Module

T = TypeVar("T")


class _Key(NamedTuple):
    modules: list[Module]
    constants: tuple[object, ...]
    values: Tensor

    def same(self, other: _Key) -> bool:
        return (
            self.constants == other.constants
            and len(self.modules) == len(other.modules)
            and all(a is b for a, b in zip(self.modules, other.modules, strict=True))
            and torch.equal(self.values, other.values)
        )


class HyperparameterCache(Generic[T]):
    r"""One value, valid while the hyperparameters of its model keep their values.

    Values are compared, not versions: GPyTorch sets parameters through ``.data``, which
    leaves no trace. A copy or a pickle of the cache is empty.
    """

    def __init__(self) -> None:
        self._key: _Key | None = None
        self._value: T | None = None

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return type(self), ()

    def clear(self) -> None:
        """Forget the value."""
        self._key, self._value = None, None

    def get(
        self,
        roots: tuple[Module | None, ...],
        constants: tuple[object, ...],
        like: Tensor,
        find: Callable[[], T],
    ) -> T:
        r"""The value, computed again if anything that it depends on has changed.

        Args:
            roots: Modules whose submodules, parameters and buffers it depends on.
            constants: Plain values that it depends on.
            like: A tensor whose type and device it depends on.
            find: Computes the value.

        Returns:
            The value.
        """
        modules = [module for root in roots if root is not None for module in root.modules()]
        tensors = [
            tensor
            for module in modules
            for tensor in (*module._parameters.values(), *module._buffers.values())
            if tensor is not None and tensor.is_floating_point()
        ]
        parts = [tensor.detach().reshape(-1).to(like) for tensor in tensors]
        values = torch.cat(parts) if parts else like.new_empty(0)
        key = _Key(modules, (*constants, like.dtype, like.device), values)
        if self._value is None or self._key is None or not self._key.same(key):
            self._key, self._value = key, find()
        return self._value
