r"""Interactive figures, drawn with plotly."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

from botorch_pref.plotting.drawing import (
    LIGHT_GREY,
    Axis,
    Band,
    Curve,
    Drawing,
    Grid,
    Intervals,
    Mark,
    Points,
    Segments,
    number_text,
    wrapped,
)

try:
    import plotly.graph_objects as go
    from plotly.subplots import make_subplots
except ImportError as error:
    raise ImportError(
        f'backend="plotly" needs {error.name}, which the extra `plotly` installs: '
        "pip install 'botorch-pref[plotly]'"
    ) from error

_DASHES = ("solid", "dash", "dashdot", "dot")
_SHAPES = {"linear": "linear", "post": "hv", "mid": "hvh", "bars": "linear"}
_SYMBOLS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    "P": "cross",
    "X": "x",
    "x": "x-thin",
    "*": "star",
    "|": "line-ns",
}
_PIXELS, _FONT = 130, 13  # of an inch; the size of letters
_LINE, _LEGEND = 20, 45  # pixels of a line of text, and of the legend
_BESIDE = 0.6  # inches above and below an ordinate
_MAX_TICKS = 6
_DECADES = 100.0  # a scale with larger ratios has powers of ten alone
_LEADING = 1.3  # of lines
_BETWEEN, _LETTER = 0.55, 0.05  # inches between rows of panels, and for letters of their names
_POINT = 1.6  # pixels of a point of a mark


def render(drawing: Drawing) -> Any:
    """The ``plotly.graph_objects.Figure`` of a drawing."""
    number, columns = len(drawing.panels), min(drawing.columns, len(drawing.panels))
    rows = -(-number // columns)
    grids = [m for panel in drawing.panels for m in panel.marks if isinstance(m, Grid)]
    is_map = any(grid.levels is not None for grid in grids)
    longest = max(len(name) for panel in drawing.panels for name in ["", *panel.x.names.values()])
    figure = make_subplots(
        rows,
        columns,
        subplot_titles=[_html(panel.title) for panel in drawing.panels],
        horizontal_spacing=(0.66 if is_map else 0.25) / (columns + 1),
        vertical_spacing=(_BETWEEN + _LETTER * longest) / (drawing.height * rows),
    )
    seen: set[str] = set()
    for index, panel in enumerate(drawing.panels):
        row, column = index // columns + 1, index % columns + 1
        place = {"row": row, "col": column}
        for mark in panel.marks:
            for trace in _traces(mark):
                trace.update(legendgroup=mark.name) if not isinstance(mark, Grid) else None
                if trace.showlegend is None:
                    name = trace.name or ""
                    trace.showlegend = bool(name) and name not in seen
                    seen.add(name)
                if isinstance(trace, go.Contour):
                    end = next(figure.select_xaxes(**place)).domain[1]
                    middle = sum(next(figure.select_yaxes(**place)).domain) / 2.0
                    trace.colorbar.update(x=end + 0.01, y=middle, len=1.0 / rows, thickness=15)
                figure.add_trace(trace, **place)
            if isinstance(mark, Intervals):
                for x, note in zip(mark.x.tolist(), mark.notes, strict=False):
                    style = {"showarrow": False, "yanchor": "bottom"}
                    figure.add_annotation(x=x, y=0.0, text=note, **style, **place)
                    figure.layout.annotations[-1].yref += " domain"
        figure.update_xaxes(_axis(panel.x, drawing.width), **place)
        figure.update_yaxes(_axis(panel.y, drawing.height - _BESIDE), **place)
        if drawing.share_y:
            title = {"title_text": ""} if column > 1 else {}
            figure.update_yaxes(matches="y", showticklabels=column == 1, **title, **place)
        if any(isinstance(mark, Grid) and mark.texts for mark in panel.marks):
            anchor = next(figure.select_xaxes(**place)).plotly_name.replace("axis", "")
            figure.update_yaxes(scaleanchor=anchor, **place)
            for update in (figure.update_xaxes, figure.update_yaxes):
                update(constrain="domain", showgrid=False, **place)
    lines = max(len(panel.title.splitlines()) for panel in drawing.panels)
    top = _LINE * (1.5 + lines + 1.5 * bool(drawing.title))
    figure.for_each_annotation(
        lambda one: one.update(font_size=_FONT + 1) if one.yref == "paper" else None
    )
    figure.update_layout(
        template="plotly_white",
        font_size=_FONT,
        width=_PIXELS * drawing.width * columns,
        height=_PIXELS * drawing.height * rows + top,
        title={"text": _html(drawing.title), "x": 0.01, "yref": "container", "y": 0.98},
        margin={"l": 60, "r": 30, "t": top, "b": 60 + _LEGEND * bool(seen - {""})},
        legend={"orientation": "h", "yref": "container", "y": 0.0, "yanchor": "bottom", "x": 0.0},
        legend_title={"text": _html(drawing.legend_title), "font": {"size": _FONT}},
        hovermode="closest",
    )
    return figure


def write(figure: Any, path: Path) -> None:
    """Save a figure as a page with its script."""
    figure.write_html(path, include_plotlyjs=True)


def _traces(mark: Mark) -> list[Any]:
    """The traces of a mark; of all of them, one is in the legend."""
    match mark:
        case Curve():
            return [_curve(mark)]
        case Band():
            return _band(mark)
        case Points():
            return [_points(mark)]
        case Intervals():
            return [_intervals(mark)]
        case Segments():
            gap = np.full((len(mark.ends), 1, 2), np.nan)
            x, y = np.concatenate([mark.ends, gap], axis=1).reshape(-1, 2).T
            line = {"color": "rgba(0, 0, 0, 0.25)", "width": 1.0}
            return [_scatter(x, y, mark.name, (), mode="lines", line=line)]
        case Grid():
            return [_map(mark) if mark.levels is not None else _cells(mark)]


def _scatter(x: Any, y: Any, name: str, hover: Any, **style: Any) -> Any:
    """A trace of points, whose texts are seen where the mouse is."""
    texts = {"hovertext": [*map(_html, hover)], "hoverinfo": "text"} if len(hover) else {}
    if not texts:
        texts = {"hoverinfo": "skip"}
    return go.Scatter(x=x, y=y, name=_html(name), **texts, **style)


def _curve(mark: Curve) -> Any:
    line = {"color": mark.colour, "dash": _DASHES[mark.dash], "shape": _SHAPES[mark.shape]}
    style: dict[str, Any] = {"mode": "lines", "line": {**line, "width": 2.0}}
    if mark.shape == "bars":
        symbol = {"symbol": "line-ew", "size": 16, "line": {"color": mark.colour, "width": 3.0}}
        style = {"mode": "markers", "marker": symbol}
    elif mark.marker:
        style["mode"] = "lines+markers"
        style["marker"] = {"symbol": _SYMBOLS[mark.marker], "size": 5, "maxdisplayed": 8}
    return _scatter(mark.x, mark.y, mark.name, mark.hover, **style)


def _band(mark: Band) -> list[Any]:
    """The lower end, then the upper one, filled to the one before."""
    if mark.shape == "bars":
        style: dict[str, Any] = {"marker_color": mark.colour, "opacity": mark.alpha}
        width = 0.12 * float(np.diff(mark.x).min())
        height = mark.upper - mark.lower
        options = {"name": _html(mark.name), "hoverinfo": "skip", "width": width}
        return [go.Bar(x=mark.x, y=height, base=mark.lower, **options, **style)]
    style = {"mode": "lines", "line": {"width": 0, "shape": _SHAPES[mark.shape]}}
    colour = [int(mark.colour[i : i + 2], 16) for i in (1, 3, 5)]
    fill = {"fill": "tonexty", "fillcolor": f"rgba({', '.join(map(str, colour))}, {mark.alpha})"}
    return [
        _scatter(mark.x, mark.lower, mark.name, (), showlegend=False, **style),
        _scatter(mark.x, mark.upper, mark.name, (), **fill, **style),
    ]


def _points(mark: Points) -> Any:
    thin = mark.marker in "|x"
    line: dict[str, Any] = {"color": mark.edge or mark.colour}
    line["width"] = 1.5 if thin else 1.0 if mark.edge else 0.0
    marker: dict[str, Any] = {"symbol": _SYMBOLS[mark.marker], "color": mark.colour, "line": line}
    marker |= {"size": _POINT * mark.size, "opacity": mark.alpha}
    style = {"mode": "markers", "marker": marker, "cliponaxis": False}
    return _scatter(mark.x, mark.y, mark.name, mark.hover, **style)


def _intervals(mark: Intervals) -> Any:
    centre = mark.x if mark.along_x else mark.y
    bars = {"array": mark.upper - centre, "arrayminus": centre - mark.lower, "symmetric": False}
    style: dict[str, Any] = {"error_x" if mark.along_x else "error_y": bars, "mode": "markers"}
    style["marker"] = {"color": mark.colour, "size": 2.0 * mark.size}
    return _scatter(mark.x, mark.y, mark.name, mark.hover, **style)


def _scale(mark: Grid) -> dict[str, Any]:
    """The numbers of a grid, their colours and texts."""
    shares = np.linspace(0.0, 1.0, len(mark.colours)).tolist()
    options: dict[str, Any] = {"x": mark.x, "y": mark.y, "z": mark.values}
    options["colorscale"] = [*map(list, zip(shares, mark.colours, strict=True))]
    if mark.ends is not None:
        options["zmin"], options["zmax"] = mark.ends
    options["hovertext"] = [[_html(text) for text in row] for row in mark.hover]
    return {**options, "hoverinfo": "text", "showlegend": False}


def _map(mark: Grid) -> Any:
    levels = mark.levels
    assert levels is not None
    contours: dict[str, Any] = {"coloring": "heatmap", "showlines": len(levels) > 0}
    contours |= {"showlabels": len(levels) > 0, "labelfont": {"size": _FONT - 2}}
    if len(levels):
        size = float(levels[1] - levels[0]) if len(levels) > 1 else 1.0
        contours |= {"start": float(levels[0]), "end": float(levels[-1]), "size": size}
    line = {"color": "black", "width": 1.0}
    return go.Contour(contours=contours, line=line, **_scale(mark))


def _cells(mark: Grid) -> Any:
    texts = {
        "text": mark.texts,
        "textfont": {"size": _FONT * min(1.0, 12 / len(mark.x))},
        "texttemplate": "%{text}",
        "showscale": False,
        "hoverongaps": False,
    }
    return go.Heatmap(**texts, **_scale(mark))


def _axis(axis: Axis, length: float) -> dict[str, Any]:
    """The options of an axis of a length in inches."""
    lower, upper = axis.limits
    text = wrapped(axis.label, length, 72.0 * _FONT / _PIXELS)
    options: dict[str, Any] = {"title": {"text": _html(text), "font": {"size": _FONT}}}
    options |= {"automargin": True, "zeroline": False}
    options |= {"ticks": "outside", "ticklen": 5, "tickcolor": LIGHT_GREY}
    if axis.log:
        options["type"] = "log"
        options["dtick"] = 1
        if lower and upper and upper / lower < _DECADES:
            options["tickvals"] = _log_ticks(lower, upper)
            options["ticktext"] = [*map(number_text, options["tickvals"])]
        lower, upper = (None if end is None else float(np.log10(end)) for end in (lower, upper))
    if (lower, upper) != (None, None):
        options["range"] = [lower, upper]
    if axis.names:
        lines = max(name.count("\n") + 1 for name in axis.names.values())
        gap = _PIXELS * length / (_LEADING * lines * len(axis.names))
        options["tickfont"] = {"size": min(_FONT, gap)}
        options["tickvals"] = [*axis.names]
        options["ticktext"] = [*map(_html, axis.names.values())]
    elif axis.whole and not axis.log and lower is not None and upper is not None:
        options["tickvals"] = MaxNLocator(_MAX_TICKS, integer=True).tick_values(lower, upper)
    return options


def _log_ticks(lower: float, upper: float) -> list[float]:
    """Plain numbers on a logarithmic scale of less than two decades."""
    powers = range(int(np.floor(np.log10(lower))), int(np.ceil(np.log10(upper))) + 1)
    ticks = [float(f"{multiple}e{power}") for power in powers for multiple in (1, 2, 5)]
    ticks = [tick for tick in ticks if lower <= tick <= upper]
    if len(ticks) < 3:
        found = MaxNLocator(4, steps=[1, 2, 5, 10]).tick_values(lower, upper)
        ticks = [float(tick) for tick in found if lower <= tick <= upper]
    return ticks


def _html(text: str) -> str:
    """Text that plotly shows as it is."""
    return escape(text, quote=False).replace("\n", "<br>")
