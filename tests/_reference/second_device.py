"""A second device that computes on the CPU, to test code for other devices without one.

Its tensors say that they are on ``second:0`` and refuse whatever a real device refuses: to be
mixed with tensors of the CPU (indices excepted, and in arithmetic tensors without dimensions), to
be drawn with a generator of the CPU, to become NumPy arrays. What is computed is the same to the
last bit, but random numbers, of which a device has its own. Every value that is brought to the CPU
is counted, and every tensor that is sent from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

try:
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
except ImportError:  # of an older torch
    IS_THERE = False
else:
    IS_THERE = True
_KIND = "second"
_aten = torch.ops.aten
# What a CUDA device takes tensors of the CPU for: copies, and indices of what it holds.
_INDEXED = {
    _aten.index.Tensor,
    _aten.index_put.default,
    _aten.index_put_.default,
    _aten._index_put_impl_.default,
}
_MIXED = {_aten.copy_.default, _aten._to_copy.default, *_INDEXED}
# And whose kernels take a tensor of the CPU without dimensions for a number. Others, as `cat`,
# `stack`, matrix products, `logaddexp` and `clamp` (but not `clamp_min`), refuse it.
_TAKES_NUMBERS = (
    *("add", "sub", "rsub", "mul", "div", "floor_divide", "fmod", "remainder", "pow", "xlogy"),
    *("maximum", "minimum", "clamp_min", "clamp_max", "eq", "ne", "lt", "le", "gt", "ge"),
    *("logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor"),
    *("lerp", "addcmul", "where", "fill", "masked_fill"),
)
# What cannot be known without waiting for the device: a number, or a shape.
_TRANSFERS = {_aten._local_scalar_dense.default, _aten.equal.default, _aten.nonzero.default}


class _Backend:
    """What torch asks a module of a device for."""

    _is_in_bad_fork = staticmethod(lambda: False)
    manual_seed_all = staticmethod(lambda seed: None)
    get_rng_state = staticmethod(lambda device=None: torch.empty(0, dtype=torch.uint8))
    set_rng_state = staticmethod(lambda state, device=None: None)
    is_available = staticmethod(lambda: True)
    is_initialized = staticmethod(lambda: True)
    device_count = staticmethod(lambda: 1)
    current_device = staticmethod(lambda: 0)


@cache
def registered() -> torch.device:
    """The device, made known to torch; before the first backward pass, for which it counts."""
    _setup_privateuseone_for_python_backend(_KIND, backend_module=_Backend())
    return torch.device(_KIND, 0)


class _Remote(Tensor):
    """A tensor of the second device, which holds one of the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> _Remote:
        new: _Remote = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=registered(),
        )
        new.held = held
        return new

    def __init__(self, held: Tensor) -> None:
        del held  # see __new__

    def __repr__(self, **options: Any) -> str:
        return f"{self.held!r} on {_KIND}"

    def __format__(self, spec: str) -> str:
        return format(self.held, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) not in memo:
            copied: Tensor = _Remote(self.held.detach().clone())
            if isinstance(self, torch.nn.Parameter):
                copied = torch.nn.Parameter(copied)
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        found: Tensor = memo[id(self)]
        return found

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        return _computed(func, args, dict(kwargs or {}))


class SecondDevice(TorchDispatchMode):
    """Makes tensors on the second device while it is entered.

    Attributes:
        transfers: How many values were brought to the CPU.
        sent: How many tensors were copied from the CPU, each of which waits as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self.transfers = self.sent = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if any(isinstance(tensor, _Remote) for tensor in _tensors(args, kwargs)):
            leaves = func is _aten._to_copy.default and not _is_second(kwargs.get("device", _KIND))
            self.transfers += leaves or _is_asked(func, args) or _by_mask(func, args)
        elif not _is_second(kwargs.get("device")):
            return func(*args, **kwargs)
        self.sent += func in _MIXED and _is_sent(func, args, kwargs)
        return _computed(func, args, kwargs)


@contextmanager
def second_device() -> Iterator[tuple[torch.device, SecondDevice]]:
    """The device, and what counts its transfers."""
    device = registered()
    with SecondDevice() as mode, _Python():
        yield device, mode


def _is_second(device: Any) -> bool:
    return device is not None and torch.device(device).type == _KIND


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = _tensors(args, kwargs)
    remote = [tensor for tensor in tensors if isinstance(tensor, _Remote)]
    to_second = _is_second(kwargs.get("device"))
    if remote and func not in _MIXED:
        local = [t for t in tensors if not isinstance(t, _Remote)]
        if local and not _takes(func, args, local):
            shapes = [tuple(t.shape) for t in local]
            raise RuntimeError(f"{func} got tensors of the CPU, of shapes {shapes}.")
    if remote and func in _INDEXED:
        whole = [args[0], *args[2:3]]  # what is indexed, and what is put there
        if any(isinstance(t, Tensor) and t.dim() and not isinstance(t, _Remote) for t in whole):
            raise RuntimeError(f"{func} got tensors of both devices.")
    if kwargs.get("generator") is not None and (to_second or remote):
        raise RuntimeError(f"{func} got a generator of the CPU.")
    if to_second:
        kwargs = {**kwargs, "device": torch.device("cpu")}
        stays = True
    elif func in _MIXED - {_aten._to_copy.default}:
        stays = isinstance(args[0], _Remote)
    else:
        stays = bool(remote) and kwargs.get("device") is None
    drawn = stays and torch.Tag.nondeterministic_seeded in func.tags
    with _other_numbers() if drawn else nullcontext():
        found = func(*_each(_held, args), **{k: _each(_held, v) for k, v in kwargs.items()})
    if not stays:
        return found
    found = _each(lambda leaf: _Remote(leaf) if isinstance(leaf, Tensor) else leaf, found)
    return return_and_correct_aliasing(func, args, kwargs, found) if remote else found


@contextmanager
def _other_numbers() -> Iterator[None]:
    """Draws that follow from the seed, but are not those of the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(~int(torch.randint(2**31, ())) % 2**62)
        yield


def _takes(func: Any, args: Any, local: Sequence[Tensor]) -> bool:
    """Whether tensors of the CPU are taken for numbers, which a result cannot be written to."""
    name = func.overloadpacket.__name__
    written = name.endswith("_") and not isinstance(args[0], _Remote)
    return name.rstrip("_") in _TAKES_NUMBERS and not written and all(not t.dim() for t in local)


def _is_asked(func: Any, args: Any) -> bool:
    """Whether it cannot be known without the device, as whether tensors of one shape are equal."""
    return func in _TRANSFERS and (
        func is not _aten.equal.default or args[0].shape == args[1].shape
    )


def _is_sent(func: Any, args: Any, kwargs: Mapping[str, Any]) -> bool:
    """Whether something is copied from the CPU to the device."""
    if func is _aten._to_copy.default:
        return _is_second(kwargs.get("device")) and not isinstance(args[0], _Remote)
    given = _tensors(args[1:], {})
    return isinstance(args[0], _Remote) and not all(isinstance(t, _Remote) for t in given)


def _by_mask(func: Any, args: Any) -> bool:
    """Whether a shape depends on how many values are true."""
    return func in _INDEXED and any(
        isinstance(index, _Remote) and index.dtype == torch.bool for index in args[1]
    )


def _tensors(args: Any, kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors of a call, some of which are in lists; torch's own function is slow."""
    found: list[Tensor] = []
    for given in (*args, *kwargs.values()):
        parts = given if isinstance(given, list | tuple) else (given,)
        found += [part for part in parts if isinstance(part, Tensor)]
    return found


def _each(change: Callable[[Any], Any], given: Any) -> Any:
    """Each part of lists and tuples changed."""
    if isinstance(given, list | tuple):
        return type(given)([_each(change, part) for part in given])
    return change(given)


def _held(leaf: Any) -> Any:
    return leaf.held if isinstance(leaf, _Remote) else leaf


class _Python(TorchFunctionMode):
    """What torch does below the dispatcher: new tensors from numbers, and indexing."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.tensor, torch.as_tensor) and _is_second(kwargs.get("device")):
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if args and isinstance(args[0], _Remote):
            if func is Tensor.new_tensor:
                kwargs.setdefault("dtype", args[0].dtype)
                return torch.tensor(*args[1:], **kwargs).to(args[0].device)
            if func is Tensor.__getitem__:
                with torch._C.DisableTorchFunction():
                    return _item(*args)
            if func is Tensor.__setitem__:
                with torch._C.DisableTorchFunction():
                    return _set_item(*args)
        return func(*args, **kwargs)


def _item(tensor: Tensor, index: Any) -> Tensor:
    plain, indices = _split(tensor, index)
    view = tensor[plain]
    return _aten.index.Tensor(view, indices) if indices else view


def _set_item(tensor: Tensor, index: Any, value: Any) -> None:
    plain, indices = _split(tensor, index)
    view = tensor[plain]
    if not isinstance(value, Tensor):
        value = torch.full((), value, dtype=tensor.dtype, device=tensor.device)
    elif not value.dim():
        value = value.to(tensor)
    if indices:
        _aten.index_put_.default(view, indices, value)
    else:
        view.copy_(value)


def _split(tensor: Tensor, index: Any) -> tuple[tuple[Any, ...], Sequence[Tensor | None]]:
    """An index in two steps: numbers, slices and new axes, then tensors."""
    parts: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, list):
            part = torch.tensor(part, dtype=None if part else torch.long)
        elif isinstance(part, Tensor) and part.dim() == 0 and part.dtype != torch.bool:
            part = int(part)
        parts.append(part)
        if isinstance(part, Tensor) and part.dtype == torch.bool:
            parts.extend([_COVERED] * (part.dim() - 1))
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if Ellipsis in [part for part in parts if not isinstance(part, Tensor)]:
        at = next(k for k, part in enumerate(parts) if part is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (tensor.dim() - used)
    plain = tuple(
        slice(None) if isinstance(part, Tensor) or part is _COVERED else part for part in parts
    )
    indices = [
        part if isinstance(part, Tensor) else None
        for part in parts
        if part is not _COVERED and not isinstance(part, int)
    ]
    while indices and indices[-1] is None:
        indices.pop()
    return plain, indices


_COVERED = object()  # a dimension that a mask of several covers
