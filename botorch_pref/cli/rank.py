r"""``botorch-pref rank``: items without features, ranked by a table of duels."""

from __future__ import annotations

import argparse

import torch
from botorch.exceptions.errors import BotorchError

from botorch_pref.cli.domain import read_table
from botorch_pref.cli.parser import UsageError
from botorch_pref.models.leaderboard import Leaderboard
from botorch_pref.plotting.drawing import save_figure
from botorch_pref.plotting.ranking import plot_ranking
from botorch_pref.progress import notice

_PEOPLE = 10  # annotators in a report


def rank(args: argparse.Namespace) -> int:
    """Run the command; the exit status is 0."""
    torch.set_num_threads(1)  # more than one slow small problems down
    table = read_table(args.duels, "CSV", dtype=str)
    try:
        with notice("ranking ..."):
            board = Leaderboard(table.rename(columns=str.strip))
    except BotorchError as error:
        raise UsageError(str(error).replace("`duels`", repr(str(args.duels)), 1)) from error
    ranking = board.table.drop(columns=["rank_from", "rank_to"])
    ends = zip(board.table["rank_from"], board.table["rank_to"], strict=True)
    ranking.insert(2, "95 %", [f"{low}-{high}" if low < high else f"{low}" for low, high in ends])
    print(f"{len(table)} answers about {len(board.items)} items\n")
    print(ranking.round(2).to_string(index=False))
    if (people := board.annotators) is not None:
        columns = ["reliability", "reliability_error"]
        if "offset" in people:
            columns += ["offset", "offset_error"]
        known = people.drop(index="typical").sort_values("reliability")[columns]
        print(f"\nannotators, the least reliable first (of {len(known)}; a typical one has 1)\n")
        print(known.head(_PEOPLE).round(2).to_string())
    path = args.duels.with_name(args.duels.name + ".png")
    try:
        with notice("drawing ..."):
            saved = save_figure(plot_ranking(board.table), path)
    except OSError as error:
        raise UsageError(f"cannot write to {str(path)!r}: {error.strerror}") from error
    print(f"\nplot: {saved}")
    return 0
