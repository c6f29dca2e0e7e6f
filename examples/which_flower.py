r"""Which of two flowers do you like better? A page for several people, by one command.

    pip install -c constraints.txt -e ".[serve]"
    python examples/which_flower.py

It draws some flowers, and prints two links: one to join, and one of your own with the results. It
may be stopped at any time, and goes on with what was answered before when it is run again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.figure import Figure

from botorch_pref.cli import main as botorch_pref

COLOURS = ["viridis", "magma", "twilight", "cividis"]


def draw(parameters: dict[str, Any], path: Path) -> None:
    """Draw a flower, and save it."""
    figure = Figure(figsize=(3, 3), layout="constrained")
    axes = figure.subplots(subplot_kw={"projection": "polar"})
    angle = np.linspace(0.0, 2.0 * np.pi, 400)
    for level in np.linspace(0.2, 1.0, 6):
        radius = level * (1.0 + parameters["depth"] * np.sin(parameters["petals"] * angle))
        colour = colormaps[parameters["colours"]](level)
        axes.plot(angle, radius, lw=parameters["line width"], color=colour)
    axes.set_axis_off()
    figure.savefig(path, dpi=80)


def grow(folder: Path, number: int) -> None:
    """Draw flowers, and write the table of what they are and of their pictures."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    flowers = []
    for row in range(number):
        flower = {
            "petals": int(random.integers(3, 13)),
            "depth": round(random.uniform(0.1, 0.9), 2),
            "line width": round(random.uniform(0.5, 8.0), 1),
            "colours": COLOURS[row % len(COLOURS)],
            "picture": f"{row}.png",
        }
        draw(flower, folder / f"{row}.png")
        flowers.append(flower)
    pd.DataFrame(flowers).to_csv(folder / "flowers.csv", index=False)


def main() -> int:
    """Draw, unless that was done before, and serve the study until Ctrl-C."""
    parser = argparse.ArgumentParser(description="Which of two flowers do people like better?")
    parser.add_argument("--folder", type=Path, default=Path("flowers"), help="of all its files")
    parser.add_argument("--number", type=int, default=40, help="how many flowers there are")
    parser.add_argument("--host", default="127.0.0.1", help="0.0.0.0 for all in your network")
    parser.add_argument("--port", default="8000")
    args = parser.parse_args()
    if not (args.folder / "flowers.csv").exists():
        grow(args.folder, args.number)
    command = ["serve", str(args.folder / "study.json"), "--host", args.host, "--port", args.port]
    command += ["--choices", str(args.folder / "flowers.csv"), "--media", str(args.folder)]
    command += ["--title", "Flowers", "--prompt", "Which flower do you like better?"]
    return botorch_pref(command)


if __name__ == "__main__":
    raise SystemExit(main())
