from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib import rcParams

from botorch_pref.plotting import save_figure
from botorch_pref.plotting.drawing import wrapped
from botorch_pref.plotting.with_matplotlib import heading, new_panels


def test_no_title_is_cut_off() -> None:
    title = "A title that is far longer than what fits into the width of a column of a page"
    figure, (axes,) = new_panels(1, 1, title=title)
    heading(axes, title)
    axes.set_ylabel("ordinate")
    figure.draw_without_rendering()
    for text in (figure._suptitle, axes._left_title):
        assert text is not None
        assert " ".join(text.get_text().split()) == title
        extent = text.get_window_extent()
        assert 0 <= extent.x0 < extent.x1 <= figure.bbox.width
        assert extent.y1 <= figure.bbox.height
    axes.set_aspect("equal")
    figure.set_figheight(1.5)
    heading(axes, title)
    assert axes._left_title.get_text().count("\n") > 3
    assert wrapped("one\ntwo", 3.0, 8.0) == "one\ntwo"


def test_saved_whole_and_alone(tmp_path: Path) -> None:
    figure, (axes,) = new_panels(1, 1, width=1.0, height=1.0)
    path = tmp_path / "figure.png"
    path.write_bytes(b"old")
    assert save_figure(figure, path) == path
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="xyz"):
        save_figure(figure, tmp_path / "figure.xyz")
    with pytest.raises(OSError, match="missing"):
        save_figure(figure, tmp_path / "missing" / "figure.png")
    # The fonts of a PDF are embedded as letters.
    before = rcParams["pdf.fonttype"]
    axes.set_xlabel("letters")
    written = save_figure(figure, tmp_path / "figure.pdf").read_bytes()
    assert b"/CIDFontType2" in written
    assert b"/Type3" not in written
    assert rcParams["pdf.fonttype"] == before
    assert sorted(file.name for file in tmp_path.iterdir()) == ["figure.pdf", "figure.png"]
