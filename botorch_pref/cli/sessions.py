r"""The arguments of the commands that a person sits at: ``ask`` and ``advise``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from botorch_pref.cli.parser import count, seed

_ASK = """\
Optimise with a person, who is shown two items side by side and says which is better: 1, 2, or =
for no preference. The study is saved after every answer: leave with q or Ctrl-C at any time, and
give the same command again, or the file alone, to go on. It ends with a recommendation, how sure
that is, and a plot beside the study. Answers may be piped in, one a line.
"""
_ASK_EXAMPLES = """\
examples:
  botorch-pref ask study.json --bounds "milk (ml):0:80,shots:1:4:int,roast:{light|dark}"
  botorch-pref ask study.json --choices recipes.csv --strategy eubo
  botorch-pref ask study.json
"""
_ADVISE = """\
Run COBOL (Xu et al. 2024b) with a person: it proposes items and asks, where an opinion helps,
whether one is acceptable; what is not rejected is to be measured, and the value typed in.
Values are maximised. The study is saved after every answer: leave with q or Ctrl-C at any
time, and give the same command again, or the file alone, to go on.
"""
_ADVISE_EXAMPLE = """\
example:
  botorch-pref advise study.json --bounds "milk (ml):0:80,temperature (C):60:96"
"""


def add_advise(commands: Any) -> None:
    """Add ``advise`` to the commands."""
    advise = commands.add_parser(
        "advise",
        help="optimise with an expert at the terminal, who accepts, rejects and measures items",
        description=_ADVISE,
        epilog=_ADVISE_EXAMPLE,
    )
    advise.add_argument("study", type=Path, metavar="FILE", help="the study, a JSON file")
    advise.add_argument(
        "--bounds",
        metavar="LIST",
        help="name, unit, lower and upper bound of each dimension, as in the example, or as "
        "`botorch-pref ask --help` says; needed to begin a study",
    )
    advise.add_argument(
        "--seed", type=seed, metavar="N", help="of all draws of a new study; default: 0"
    )
    advise.add_argument(
        "--preset",
        choices=("practical", "paper"),
        help="of a new study; paper: as published; default: practical",
    )
    advise.set_defaults(handler=_advise)


def add_ask(commands: Any) -> None:
    """Add ``ask`` to the commands."""
    ask = commands.add_parser(
        "ask",
        help="optimise with a person at the terminal, who says which of two items is better",
        description=_ASK,
        late_epilog=_ask_epilog,
    )
    ask.add_argument("study", type=Path, metavar="FILE", help="the study, a JSON file")
    ask.add_argument(
        "--bounds",
        metavar="LIST",
        help="the dimensions of a new study: NAME (UNIT):LOW:HIGH for a number, with :int behind "
        "it for a whole one and :log for a logarithmic scale; NAME:{A|B|C} for a category",
    )
    ask.add_argument(
        "--choices",
        type=Path,
        metavar="CSV",
        help="instead: the table of a new study's items, a header and a row for each; columns "
        "that are not numbers are categories",
    )
    ask.add_argument(
        "--strategy",
        metavar="NAME",
        help="of a new study: one of the strategies below",
    )
    ask.add_argument(
        "--horizon",
        type=count,
        metavar="N",
        help="number of duels that mr-lpf is to plan for, of which it asks fewer if a single "
        "item is left before; default: 50",
    )
    ask.add_argument(
        "--seed", type=seed, metavar="N", help="of all draws of a new study; default: 0"
    )
    ask.set_defaults(handler=_ask)


def _ask_epilog() -> str:
    from botorch_pref.strategies.registry import DEFAULT_STRATEGY, strategy_names
    from botorch_pref.strategies.utility import UtilityStrategy

    names = ", ".join(strategy_names(UtilityStrategy))
    return f"strategies (default: {DEFAULT_STRATEGY}):\n  {names}\n\n{_ASK_EXAMPLES}"


def _ask(args: argparse.Namespace) -> int:
    from botorch_pref.cli.ask import ask

    return ask(args)


def _advise(args: argparse.Namespace) -> int:
    from botorch_pref.cli.advise import advise

    return advise(args)
