r"""Finished runs in a folder: one CSV file a run, and a manifest of what the experiment is."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.runner.described import described
from botorch_pref.runner.history import column_type, replacing
from botorch_pref.runner.run import Run

MANIFEST = "experiment.json"
_VERSION = 1
_MAX_NAME = 80
_PARSERS: dict[str, Callable[[str], Any]] = {
    "str": str,
    "bool": {"True": True, "False": False}.__getitem__,
    "boolean": {"True": True, "False": False, "": pd.NA}.__getitem__,
    "int64": int,
    "Int64": lambda text: int(text) if text else pd.NA,
    "float64": lambda text: float(text) if text else math.nan,
}
_KNOWN = ("problem", "strategy", "seed", "step", "identical")
_REGRETS = ("dueling_regret", "utility_regret")  # missing of labels


class Store:
    r"""The folder of one experiment.

    A file is moved into place when it is complete, so whatever ends a program leaves whole
    runs behind.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        r"""Name the folder; nothing is read or written yet.

        Args:
            directory: The folder.
        """
        # Workers may run in other folders.
        self.directory = Path(directory).resolve()

    @property
    def visible(self) -> bool:
        """Whether this machine sees the folder."""
        return (self.directory / MANIFEST).is_file()

    def open(self, settings: Mapping[str, Any], runs: Sequence[Run]) -> None:
        r"""Start the experiment's manifest, or add strategies to it.

        Args:
            settings: What all runs share, as plain JSON.
            runs: The runs, whose strategies are described beside.

        Raises:
            UnsupportedError: If the folder holds another experiment, or runs without a
                manifest; nothing is written then.
            OSError: If the manifest cannot be written.
        """
        known = self._read_manifest()
        wanted = {"version": _VERSION, **settings}
        for name, value in wanted.items():
            if known and known.get(name) != value:
                raise self._other(f"its {name} is {known.get(name)!r}, not {value!r}")
        merged = dict(known.get("strategies", {}))
        for run in runs:
            name, text = run.strategy, described(run.factory)
            if merged.setdefault(name, text) != text:
                raise self._other(f"its strategy {name!r} is {merged[name]}, not {text}")
        manifest = {**wanted, "strategies": merged}
        if manifest != known:
            self.directory.mkdir(parents=True, exist_ok=True)
            with replacing(self.directory / MANIFEST) as temporary:
                temporary.write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")

    def path(self, strategy: str, seed: int) -> Path:
        """The file of a run; readable where the name allows it."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "_", strategy)[:_MAX_NAME]
        if name != strategy:
            name += "-" + hashlib.sha256(strategy.encode()).hexdigest()[:8]
        return self.directory / f"{name}-seed{seed}.csv"

    def save(self, run: Run, table: pd.DataFrame) -> None:
        """Write the table of a run, all of it or nothing."""
        with replacing(self.path(run.strategy, run.seed)) as temporary:
            table.to_csv(temporary, index=False, lineterminator="\n")

    def load(self, run: Run) -> pd.DataFrame | None:
        """The table of a run as it was saved; none unless it is complete and the run's own."""
        path = self.path(run.strategy, run.seed)
        try:
            text = path.read_bytes().decode()
            table = _read(text)
        except (OSError, ValueError, LookupError, csv.Error):
            return None
        # What was cut off between two rows is too short; anywhere else it lacks the end of
        # the last line.
        if not text.endswith("\n"):
            return None
        return table if _is_complete(table, run) else None

    def _read_manifest(self) -> dict[str, Any]:
        path = self.directory / MANIFEST
        if self.directory.exists() and not self.directory.is_dir():
            raise UnsupportedError(f"directory: {str(self.directory)!r} is no folder.")
        try:
            manifest = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            if any(self.directory.glob("*-seed*.csv")):
                raise self._other(f"it has runs, but no {MANIFEST}") from None
            return {}
        except ValueError as error:
            raise self._other(f"{MANIFEST} cannot be read: {error}") from error
        strategies = manifest.get("strategies") if isinstance(manifest, dict) else None
        if not isinstance(strategies, dict):
            raise self._other(f"{MANIFEST} is no manifest of one")
        return dict(manifest)

    def _other(self, why: str) -> UnsupportedError:
        return UnsupportedError(
            f"directory: {str(self.directory)!r} does not hold this experiment: {why}."
        )


def _read(text: str) -> pd.DataFrame:
    """A table with every number as it was, to the last digit, and every column in its type."""
    names, *rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns = zip(*rows, strict=True)
    return pd.DataFrame(
        {name: _column(name, values) for name, values in zip(names, columns, strict=True)}
    )


def _column(name: str, values: Sequence[str]) -> pd.Series[Any]:
    kind = column_type(name)
    parse = _PARSERS[kind]
    return pd.Series([parse(value) for value in values], dtype=kind)


def _is_complete(table: pd.DataFrame, run: Run) -> bool:
    if not {*_KNOWN, *_REGRETS, "recommendation_regret"}.issubset(table):
        return False
    paying = table[table["kind"] != "label"] if "kind" in table else table
    if table[[*_KNOWN]].isna().any(axis=None) or paying[[*_REGRETS]].isna().any(axis=None):
        return False
    names = table[["strategy", "seed"]].drop_duplicates().to_numpy().tolist()
    if names != [[run.strategy, run.seed]]:
        return False
    finished = "finished" in table and table["finished"].eq(True).fillna(False).any()
    if run.evaluations is not None and not finished and not _is_ended(table, run):
        return False
    planned = run.evaluations is None and not finished
    steps = range(1, (run.horizon if planned else len(table)) + 1)
    due = [step % run.recommend_every == 0 or step == len(steps) for step in steps]
    recommended = table["recommendation_regret"].notna()
    return table["step"].tolist() == [*steps] and recommended.tolist() == due


def _is_ended(table: pd.DataFrame, run: Run) -> bool:
    """Whether all evaluations were made, or all steps that there may be."""
    made = table["num_evaluations"].max() if "num_evaluations" in table else 0
    return bool(made == run.evaluations) or len(table) == run.horizon
