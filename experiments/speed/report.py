r"""The table of speed as text and as a figure, and which aims were reached."""

from __future__ import annotations

import math
import platform
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter, NullLocator

from botorch_pref.plotting import COLOURS, MARKERS, save_figure
from botorch_pref.runner import replacing
from experiments.speed.pairwise import (
    BATCH_SIZE,
    EVIDENCE,
    FIRST_MEAN,
    FIT,
    NUM_CHOLESKYS,
    POSTERIOR,
)
from experiments.speed.timing import write_table


class Aim(NamedTuple):
    r"""A bound on what is measured of some cases.

    Attributes:
        case: A pattern of their names.
        package: Of which row: another's, or this package's own.
        column: Which number of it.
        bound: The bound.
        is_least: Whether the number is to be at least the bound, not at most.
    """

    case: str
    package: str
    column: str
    bound: float
    is_least: bool = True


_FRESH, _CHOLESKYS = r" fresh duels, d=6: ", f"{NUM_CHOLESKYS} Choleskys and the kernel"
_BATCHES = f"{BATCH_SIZE} models of "
AIMS = (
    Aim(f"^400{_FRESH}{FIT}$", "PairwiseGP", "ratio", 30.0),
    Aim(f"^50 items, 25,600 duels: {FIT}$", "PairwiseGP", "ratio", 10.0),
    Aim(f"^400{_FRESH}{POSTERIOR}$", "PairwiseGP", "ratio", 100.0),
    Aim(f": {EVIDENCE}$", _CHOLESKYS, "ratio", 1.0),
    Aim(f"^{_BATCHES}25 ", "one of them", "ratio", 1 / 3),
    Aim(f"^{_BATCHES}", f"loop of {BATCH_SIZE}", "ratio", 1.0),
    Aim("^1,000,000 .*: mode and posterior", "PreferenceGP", "seconds", 120.0, False),
    Aim("^1,000,000 .*: mode and posterior", "PreferenceGP", "gigabytes", 8.0, False),
    Aim(f"^64 models of 2,000{_FRESH}{FIRST_MEAN}$", "a batch on the CPU", "ratio", 20.0),
    Aim(f"^{_BATCHES}100{_FRESH}.*", "one of them", "ratio", 1 / 4),
    Aim(f"^2,000{_FRESH}{FIRST_MEAN}, both", "PairwiseGP", "ratio", 100.0),
    Aim("^10,000,000 .*: mode and posterior", "PreferenceGP", "seconds", 60.0, False),
    Aim(r"\(tell, ask\)$", "", "longest", 1.0, False),
    Aim("^30 items, .* bounds", "CVXPY", "ratio", 10.0),
    Aim("^100 items, .* bounds", "CVXPY", "ratio", 3.0),
)
SLOPE = 1.1  # of what goes through inducing items


class Reached(NamedTuple):
    """An aim, and what was measured."""

    name: str
    value: float
    bound: float
    is_least: bool

    @property
    def met(self) -> bool:
        """Whether it was reached."""
        return self.value >= self.bound if self.is_least else self.value <= self.bound

    def __str__(self) -> str:
        word = "at least" if self.is_least else "at most"
        return f"{'met' if self.met else 'MISSED':<6}  {self.value:>7.3g}  {word} {self.bound:.3g}"


def reached(table: pd.DataFrame, slopes: Sequence[tuple[str, float]]) -> list[Reached]:
    """What came of the aims, as far as they were measured."""
    memory = table["note"].fillna("").str.extract(r"peak memory ([\d.]+) GB", expand=False)
    rows = table.assign(gigabytes=memory.astype(float))
    found = [one for aim in AIMS for one in _of_rows(aim, rows)]
    linear = [(name, slope) for name, slope in slopes if "inducing items" in name]
    return found + [Reached(f"slope of {name}", slope, SLOPE, False) for name, slope in linear]


def _of_rows(aim: Aim, rows: pd.DataFrame) -> Iterator[Reached]:
    for _, row in rows.iterrows():
        package = aim.package or row["ours"]
        if row["package"].startswith(package) and re.search(aim.case, row["case"]):
            value = float(row[aim.column])
            if value == value:
                against = f", against {row['package']}" if aim.column == "ratio" else ""
                by = {"ratio": "times as fast", "gigabytes": "GB"}.get(aim.column, "s")
                name = f"{by}: {row['case']}{against}" + ("" if aim.package else f", {row['ours']}")
                yield Reached(name, value, aim.bound, aim.is_least)


FILES = ("speed.csv", "speed.txt", "speed.png")
_COLUMNS = 4
_NUMBERS = ("[s]", "[s] ", "ratio")


class Curve(NamedTuple):
    r"""What an operation of a package costs, over the number of duels.

    Attributes:
        operation: The operation.
        data: On what data.
        package: The package.
        sizes: Rising numbers of duels.
        seconds: What it took.
    """

    operation: str
    data: str
    package: str
    sizes: np.ndarray
    seconds: np.ndarray

    @property
    def slope(self) -> float:
        """The power of the number of duels that seconds grow by, over the larger half of sizes."""
        half = slice(min(len(self.sizes) // 2, max(len(self.sizes) - 2, 0)), None)
        sizes, seconds = np.log(self.sizes[half]), np.log(self.seconds[half])
        return float(np.polyfit(sizes, seconds, 1)[0]) if len(sizes) > 1 else math.nan


def speed_text(table: pd.DataFrame) -> str:
    """The table as text, with the slopes of the curves, and which aims were met."""
    rows = [
        row
        for _, group in table.groupby(["section", "case", "ours"], sort=False)
        for row in _compared(group)
    ]
    text = _aligned(rows)
    slopes = [f"  {curve.slope:5.2f}  {curve.package}, {_title(curve)}" for curve in curves(table)]
    if slopes:
        heading = "slopes: seconds grow as this power of m, over the larger half of sizes"
        text += "\n\n" + "\n".join([heading, *slopes])
    ours = {*table["ours"]}
    own = [(_title(curve), curve.slope) for curve in curves(table) if curve.package in ours]
    if aims := reached(table, own):
        lines = [f"  {one}  {one.name}" for one in aims]
        missed = sum(not one.met for one in aims)
        text += "\n\n" + "\n".join([f"aims: {missed} of {len(aims)} missed", *lines])
    return text


def setting(device: str, threads: int) -> str:
    """One line on what was measured with."""
    import botorch
    import gpytorch
    import torch

    where = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    clock = "CPU seconds" if device == "cpu" and threads == 1 else "seconds on the clock"
    return (
        f"{clock}, medians; {where}, {threads} thread{'s' * (threads > 1)}; Python "
        f"{platform.python_version()}, torch {torch.__version__}, BoTorch {botorch.__version__}, "
        f"GPyTorch {gpytorch.__version__}"
    )


def save_speed(table: pd.DataFrame, text: str, title: str, folder: Path) -> list[Path]:
    """Write table, text and figure, each of them whole or not at all.

    Raises:
        OSError: If a file cannot be written.
    """
    paths = [folder / name for name in FILES]
    write_table(table, paths[0])
    with replacing(paths[1]) as temporary:
        temporary.write_text(text + "\n", encoding="utf-8")
    found = curves(table)
    if not found:
        return paths[:2]
    save_figure(plot_speed(found, title), paths[2])
    return paths


def _compared(group: pd.DataFrame) -> Iterator[dict[str, str]]:
    """A line for each peer, or one where there is none."""
    ours, others = group.iloc[0], group.iloc[1:]
    first = {"case": ours["case"], "ours": ours["package"], "[s]": _seconds(ours["seconds"])}
    if others.empty:
        note = [ours["note"]] if ours["note"] else []
        if ours["repeats"] > 1:
            note.append(f"longest {_seconds(ours['longest'])}")
        if ours["repeats"] and not math.isclose(ours["wall"], ours["seconds"], rel_tol=0.05):
            note.append(f"on the clock {_seconds(ours['wall'])}")
        yield {**first, "against": "", "[s] ": "", "ratio": "", "note": "; ".join(note)}
    for _, other in others.iterrows():
        notes = [note for note in (other["note"], ours["note"]) if note]
        yield {
            **first,
            "against": other["package"],
            "[s] ": _seconds(other["seconds"]),
            "ratio": "" if math.isnan(other["ratio"]) else f"{other['ratio']:.3g}x",
            "note": "; ".join(notes),
        }


def _aligned(rows: Sequence[dict[str, str]]) -> str:
    """Columns with their names above, text to the left and numbers to the right."""
    lines = [{name: name.strip() for name in rows[0]}, *rows]
    widths = {name: max(len(line[name]) for line in lines) for name in rows[0]}
    return "\n".join(
        "  ".join(
            text.rjust(widths[name]) if name in _NUMBERS else text.ljust(widths[name])
            for name, text in line.items()
        ).rstrip()
        for line in lines
    )


def _seconds(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.4f}" if value < 10 else f"{value:.1f}"


def curves(table: pd.DataFrame) -> list[Curve]:
    """The curves of a table: what was timed at two sizes at least."""
    known = table[table["size"].notna() & (table["seconds"] > 0)]
    found = []
    for (data, operation, package), rows in known.groupby(
        ["data", "operation", "package"], sort=False
    ):
        points = rows.drop_duplicates("size").sort_values("size")
        if len(points) > 1:
            sizes, seconds = (points[column].to_numpy(float) for column in ("size", "seconds"))
            found.append(Curve(str(operation), str(data), str(package), sizes, seconds))
    return found


def plot_speed(found: Sequence[Curve], title: str) -> Figure:
    """Seconds against the number of duels, both on log scales."""
    panels: dict[tuple[str, str], list[Curve]] = {}
    for curve in found:
        panels.setdefault((curve.data, curve.operation), []).append(curve)
    columns = min(_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    figure = Figure(figsize=(4.0 * columns, 3.2 * lines + 0.4), dpi=130, layout="constrained")
    FigureCanvasAgg(figure)
    places = [*figure.subplots(lines, columns, squeeze=False).flat]
    packages = [*dict.fromkeys(curve.package for curve in found)]
    for axes, of_panel in zip(places, panels.values(), strict=False):
        _draw(axes, of_panel, packages)
    for axes in places[len(panels) :]:
        axes.set_axis_off()
    figure.supxlabel("m, the number of duels", fontsize="medium")
    figure.supylabel("seconds", fontsize="medium")
    figure.suptitle(title, x=0.01, ha="left", fontsize="medium")
    return figure


def _draw(axes: Axes, of_panel: Sequence[Curve], packages: Sequence[str]) -> None:
    for curve in of_panel:
        style = packages.index(curve.package)
        axes.loglog(
            curve.sizes,
            curve.seconds,
            color=COLOURS[style % len(COLOURS)],
            marker=MARKERS[style % len(MARKERS)],
            lw=1.5,
            ms=4.0,
            label=f"{curve.package}: slope {curve.slope:.2f}",
        )
    sizes = sorted({float(size) for curve in of_panel for size in curve.sizes})
    axes.set_xticks(sizes, [f"{size:,.0f}" for size in sizes])
    seconds = np.log10(np.concatenate([curve.seconds for curve in of_panel]))
    axes.set_ylim(10 ** np.floor(seconds.min()), 10 ** np.ceil(seconds.max() + 1e-3))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_minor_locator(NullLocator())
    axes.tick_params(labelsize="x-small")
    axes.set_title(_title(of_panel[0]).replace(": ", "\n"), fontsize="small", loc="left")
    axes.grid(color="#E5E5E5", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="x-small")


def _title(curve: Curve) -> str:
    return f"{curve.data.format(m='m')}: {curve.operation}"
