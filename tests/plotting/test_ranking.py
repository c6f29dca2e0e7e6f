from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.plotting import plot_ranking


def ranking(number: int) -> pd.DataFrame:
    place = np.arange(number)
    columns = {"item": [f"player ${i}" for i in place], "rank": place // 2 + 1}
    columns |= {"rank_from": np.maximum(place - 1, 0) + 1, "rank_to": np.minimum(place + 3, number)}
    utility = -1.0 * place
    return pd.DataFrame({**columns, "utility": utility, "lower": utility - 1, "upper": utility + 1})


def test_the_best_is_at_the_top() -> None:
    table = ranking(6)
    figure = plot_ranking(table, top=4)
    left, right = figure.axes
    assert [text.get_text() for text in left.get_yticklabels()] == [
        rf"player \${i}" for i in range(4)
    ]
    assert left.yaxis_inverted()
    (points,) = left.lines[0:1]
    assert points.get_xdata().tolist() == [0.0, -1.0, -2.0, -3.0]
    ((bars,), (ranks,)) = (axes.collections for axes in (left, right))
    assert [segment[:, 0].tolist() for segment in bars.get_segments()][1] == [-2.0, 0.0]
    drawn = [segment[:, 0].tolist() for segment in ranks.get_segments()]
    assert drawn == table[["rank_from", "rank_to"]][:4].to_numpy().tolist()


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(UnsupportedError, match="lacks the columns upper"):
        plot_ranking(ranking(3).drop(columns="upper"))
    with pytest.raises(UnsupportedError, match="no rows"):
        plot_ranking(ranking(0))
    with pytest.raises(ComparisonDataError, match="`top`"):
        plot_ranking(ranking(3), top=0)
