"""Draws the pictures of the gallery and of the concepts, when they are missing or out of date."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import TYPE_CHECKING

from botorch_pref.plotting import save_figure
from botorch_pref.randomness import seeded

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

SCRIPTS = ("gallery.py", "concepts.py")


def _draw(app: Sphinx) -> None:
    """Call each function without arguments of a script that returns a figure."""
    folder = Path(app.srcdir)
    for script in SCRIPTS:
        names = runpy.run_path(str(folder / script))
        for name, function in names.items():
            if getattr(function, "__annotations__", None) != {"return": "Figure"}:
                continue
            path = folder / "_pictures" / f"{name}.svg"
            if path.exists() and path.stat().st_mtime > (folder / script).stat().st_mtime:
                continue
            path.parent.mkdir(exist_ok=True)
            with seeded(0):
                save_figure(function(), path)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Draw before anything is read."""
    app.connect("builder-inited", _draw)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
