r"""Finished runs in a folder: one CSV file a run, and a manifest of what the experiment is.

A file of checksums, as ``sha256sum`` writes it, tells runs that were changed since.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.runner.simulation import column_type, random_play, typed

MANIFEST, CHECKSUMS = "experiment.json", "SHA256SUMS"
_VERSION = 1
_MAX_NAME = 80
_DIGITS = 9  # of a manifest's numbers: machines differ in the last ones
_PARSERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "bool": {"True": True, "False": False}.__getitem__,
    "boolean": {"True": True, "False": False, "": pd.NA}.__getitem__,
    "int64": int,
    "Int64": lambda text: int(text) if text else pd.NA,
    "float64": lambda text: float(text) if text else math.nan,
}
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_HASH_LENGTH = 12  # hexadecimal digits


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the folder of a file, moved into its place after the block.

    If the block raises, the temporary file is removed and the old one stays.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield temporary
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def leftovers(path: Path) -> Iterator[Path]:
    """Temporary paths of a file, which :func:`replacing` left where its process was killed."""
    known = re.compile(rf"\.{re.escape(path.stem)}\.\d+{re.escape(path.suffix)}")
    yield from (one for one in path.parent.iterdir() if known.fullmatch(one.name))


class Store:
    """The folder of one experiment, in which every file of a run is complete.

    ``settings`` are plain JSON, and what all runs share: they have to agree on resuming. Another
    experiment, or runs without a manifest, raise an ``UnsupportedError`` that names what differs.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        settings: Mapping[str, Any],
        strategies: Mapping[str, Callable[..., Any]],
    ) -> None:
        self.directory = Path(directory)
        self.settings = {"version": _VERSION, **settings}
        known = self._read_manifest()
        for name, value in self.settings.items():
            if known and known.get(name) != value:
                raise self._other(f"its {name} is {known.get(name)!r}, not {value!r}")
        merged = dict(known.get("strategies", {}))
        for name, factory in strategies.items():
            text = describe(factory)
            if merged.setdefault(name, text) != text:
                raise self._other(f"its strategy {name!r} is {merged[name]}, not {text}")
        manifest = {**self.settings, "strategies": merged}
        if manifest != known:
            self.directory.mkdir(parents=True, exist_ok=True)
            with replacing(self.directory / MANIFEST) as temporary:
                temporary.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")

    def save(self, strategy: str, seed: int, table: pd.DataFrame) -> None:
        """Write the table of a run, all of it or nothing."""
        path = self._path(strategy, seed)
        data = table.to_csv(index=False, lineterminator="\n").encode()
        with (self.directory / CHECKSUMS).open("ab") as sums:  # of several lines the last counts
            sums.write(f"{hashlib.sha256(data).hexdigest()}  {path.name}\n".encode())
        with replacing(path) as temporary:
            temporary.write_bytes(data)

    def load(self, strategy: str, seed: int) -> pd.DataFrame | None:
        """The table of a run, to the last digit.

        There is none unless it is complete, the run's own, and what was saved.
        """
        path = self._path(strategy, seed)
        try:
            data = path.read_bytes()
            if self._checksum(path.name) not in (None, hashlib.sha256(data).hexdigest()):
                return None
            text = data.decode()
            names = pd.read_csv(io.StringIO(text), nrows=0).columns
            parsers = {name: _PARSERS[column_type(name)] for name in names}
            table = pd.read_csv(io.StringIO(text), converters=parsers, keep_default_na=False)
            table = typed(table)
        except (OSError, ValueError, LookupError):
            return None
        if not text.endswith("\n") or not {"strategy", "seed", "step"}.issubset(table):
            return None  # a truncated file lacks the end of the last line
        steps, evaluations = len(table), self.settings["evaluations"]
        ended = steps == self.settings["horizon"]
        ended |= evaluations is not None and table["num_evaluations"].max() == evaluations
        ended |= "finished" in table and table["finished"].fillna(False).any()
        own = table["strategy"].eq(strategy) & table["seed"].eq(seed)
        complete = ended and own.all() and table["step"].tolist() == [*range(1, steps + 1)]
        return table if complete else None

    def _checksum(self, name: str) -> str | None:
        """That of a file; none of one that an earlier version wrote."""
        try:
            lines = (self.directory / CHECKSUMS).read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return None
        return {line[66:]: line[:64] for line in lines}.get(name)

    def _path(self, strategy: str, seed: int) -> Path:
        """The file of a run; readable where the strategy's name allows it."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", strategy)[:_MAX_NAME]
        if name != strategy:
            name += "-" + hashlib.sha256(strategy.encode()).hexdigest()[:8]
        return self.directory / f"{name}-seed{seed}.csv"

    def _read_manifest(self) -> dict[str, Any]:
        path = self.directory / MANIFEST
        if self.directory.exists() and not self.directory.is_dir():
            raise UnsupportedError(f"directory: {str(self.directory)!r} is no folder.")
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
            return {**manifest, "strategies": dict(manifest["strategies"])}
        except FileNotFoundError:
            if any(self.directory.glob("*-seed*.csv")):
                raise self._other(f"it has runs, but no {MANIFEST}") from None
            return {}
        except (ValueError, TypeError, LookupError) as error:
            raise self._other(f"{MANIFEST} cannot be read: {error!r}") from error

    def _other(self, why: str) -> UnsupportedError:
        return UnsupportedError(
            f"directory: {str(self.directory)!r} does not hold this experiment: {why}."
        )


def describe_problem(problem: Callable[..., Any]) -> dict[str, Any]:
    """A problem, or what makes one, as plain JSON; regret needs its maximum to be known."""
    if not isinstance(problem, PreferenceProblem):
        return {"problem": describe(problem)}
    # Problems of the same name differ in their items or their utilities.
    items = problem.bounds if problem.choices is None else problem.choices
    return {
        "problem": problem.name,
        "dim": problem.dim,
        "random_regret": float(f"{random_play(problem):.{_DIGITS}g}"),
        "items": _digest(items, _DIGITS),
    }


def describe(factory: Callable[..., Any]) -> str:
    """What a factory calls and with which arguments, the same in every process.

    What has no name of its own, as a lambda, has a hash of its code, defaults and closure.
    """
    if isinstance(factory, partial):
        keywords = [f"{name}={_text(value)}" for name, value in factory.keywords.items()]
        return f"{describe(factory.func)}({', '.join([*map(_text, factory.args), *keywords])})"
    name = getattr(factory, "__qualname__", None)
    if name is None:
        return _ADDRESS.sub("", repr(factory))
    if inspect.ismethod(factory) and not isinstance(factory.__self__, type):
        return f"{_text(factory.__self__)}.{factory.__name__}"
    if "<" in name and inspect.isfunction(factory):
        cells = [cell.cell_contents for cell in factory.__closure__ or ()]
        around = [factory.__defaults__, factory.__kwdefaults__, *cells]
        return f"{name}#{_hash(f'{_code(factory.__code__)} {_text(around)}')}"
    return _ADDRESS.sub("", name)


def _text(value: Any) -> str:
    """As ``repr``, but not abbreviated, without addresses, and with functions described."""
    if isinstance(value, Tensor | np.ndarray):
        tensor = torch.as_tensor(value)
        return f"tensor({_digest(tensor, 17)})" if tensor.numel() > 1 else repr(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_text(key)}: {_text(one)}' for key, one in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_text, value))}]"
    if type(value) is tuple:
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, partial) or inspect.isroutine(value):
        return describe(value)
    return _ADDRESS.sub("", repr(value))


def _code(code: CodeType) -> str:
    constants = [_code(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names}"


def _digest(tensor: Tensor, digits: int) -> str:
    """A hash of a tensor's numbers, so many digits of each."""
    numbers = (f"{value:.{digits}g}" for value in tensor.flatten().tolist())
    return _hash(f"{[*tensor.shape]} {' '.join(numbers)}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_LENGTH]
