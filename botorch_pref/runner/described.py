r"""What makes a strategy, a problem or a judge, in words that tell any two apart."""

from __future__ import annotations

import hashlib
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from types import CodeType
from typing import Any

import numpy as np
from torch import Tensor

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_LENGTH = 12  # hexadecimal digits of a hash


def described(factory: Callable[..., Any]) -> str:
    r"""What a factory calls and with which arguments, the same in every process.

    Args:
        factory: A class, a function or method, a ``functools.partial`` of one, or an object.

    Returns:
        Its name; of what has none of its own, as a lambda, with a hash of code and surroundings.
    """
    if isinstance(factory, partial):
        keywords = [f"{name}={_text(value)}" for name, value in factory.keywords.items()]
        return f"{described(factory.func)}({', '.join([*map(_text, factory.args), *keywords])})"
    name = getattr(factory, "__qualname__", None)
    if name is None:
        return _ADDRESS.sub("", repr(factory))
    if inspect.ismethod(factory) and not isinstance(factory.__self__, type):
        return f"{_text(factory.__self__)}.{factory.__name__}"
    if "<" in name and inspect.isfunction(factory):
        return f"{name}#{_hash(_of_function(factory))}"
    return _ADDRESS.sub("", name)


def digest(tensor: Tensor, digits: int) -> str:
    r"""A hash of a tensor's numbers.

    Args:
        tensor: The tensor.
        digits: How many digits of each count.

    Returns:
        Hexadecimal digits.
    """
    numbers = (f"{value:.{digits}g}" for value in tensor.flatten().tolist())
    return _hash(f"{[*tensor.shape]} {' '.join(numbers)}")


def _text(value: Any) -> str:
    """As ``repr``, but whole, without addresses, and with functions in full."""
    if isinstance(value, Tensor):
        return f"tensor({digest(value, 17)})" if value.numel() > 1 else repr(value)
    if isinstance(value, np.ndarray):
        return f"array({_hash(f'{value.shape} {value.tolist()}')})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_text(key)}: {_text(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, partial) or inspect.isroutine(value):
        return described(value)
    return _ADDRESS.sub("", repr(value))


def _of_function(function: Any) -> str:
    """Code, defaults and what the code closes over."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    around = [function.__defaults__, function.__kwdefaults__, *cells]
    return f"{_of_code(function.__code__)} {_text(around)}"


def _of_code(code: CodeType) -> str:
    constants = [
        _of_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts
    ]
    return f"{code.co_code.hex()} {constants} {code.co_names}"


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]
