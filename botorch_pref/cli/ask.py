r"""``botorch-pref ask``: a person answers duels."""

from __future__ import annotations

import argparse
import textwrap
from functools import partial
from typing import Any, Literal

from matplotlib.figure import Figure
from torch import Tensor

from botorch_pref.cli.dialogue import carry_out, counted, reply, session
from botorch_pref.cli.domain import Domain, parse_bounds, read_choices
from botorch_pref.cli.errors import UsageError
from botorch_pref.cli.opening import open_study
from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.plotting import plot_win_probabilities, save_figure
from botorch_pref.queries import Duel
from botorch_pref.randomness import derive_seed
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import MRLPF, MaxMinLCBStrategy, Strategy
from botorch_pref.strategies.registry import (
    DEFAULT_STRATEGY,
    get_strategy,
    strategy_name,
    strategy_names,
)
from botorch_pref.strategies.utility import UtilityStrategy
from botorch_pref.study import Recommendation, Study

_ANSWERS = {"1": 1.0, "2": 0.0, "=": 0.5}
_PROMPT = "1, 2, = (no preference), [s]kip, [u]ndo, [q]uit: "
_AT_THE_END = "[u]ndo, [q]uit: "
_AGAIN = "type 1 or 2 for the better one, = for no preference, or s, u or q"
_HORIZON = 50
_NO_DOUBT = 1e-9  # a certificate that is reached with a single choice alone
_DIFFERS = "*"
_BAR = 20
_WIDTH = 88
_TOP = 8  # items in the figure


def ask(args: argparse.Namespace) -> int:
    r"""Begin a study, or go on with it, until the person leaves.

    Args:
        args: The parsed arguments of ``botorch-pref ask``.

    Returns:
        The exit status: 0, or 130 after Ctrl-C; what was answered is saved either way.

    Raises:
        UsageError: If something cannot be done as asked.
    """
    return session(partial(_opened, args), _play, _report)


def _opened(args: argparse.Namespace) -> Study:
    return open_study(
        args,
        _domain(args),
        "--bounds or --choices",
        lambda domain: _strategy(args, domain.space),
        partial(_check_agrees, args),
    )


def _strategy(args: argparse.Namespace, space: SearchSpace) -> Strategy:
    name = args.strategy or DEFAULT_STRATEGY
    if name not in (names := strategy_names(UtilityStrategy)):
        raise UsageError(f"--strategy: {name!r} is none of {', '.join(names)}.")
    options: dict[str, Any] = {"seed": args.seed or 0, "horizon": args.horizon or _HORIZON}
    if name == "mr-lpf":  # a choice that is left alone would meet itself up to the horizon
        return MRLPF(space=space, epsilon=_NO_DOUBT, **options)
    if args.horizon is not None:
        raise UsageError(f"--horizon: {name} does not plan for a number of duels.")
    if name == "max-min-lcb":  # and a candidate that is left alone, for ever
        return MaxMinLCBStrategy(space=space, seed=options["seed"], candidate_filter=False)
    return get_strategy(name, space, **options)


def _check_agrees(args: argparse.Namespace, study: Study, name: str) -> None:
    kind = type(study.strategy)
    if not issubclass(kind, UtilityStrategy):
        raise UsageError(f"{name} is one of {kind.__name__}, which asks not only duels.")
    if args.strategy not in (None, strategy_name(study.strategy)):
        raise UsageError(f"{name} was not begun with --strategy {args.strategy}.")
    planned = getattr(study.strategy, "horizon", None)
    if args.horizon not in (None, planned):
        other = f"with --horizon {planned}" if planned else "without --horizon"
        raise UsageError(f"{name} was begun {other}, not with {args.horizon}.")


def _domain(args: argparse.Namespace) -> Domain | None:
    if args.bounds is not None and args.choices is not None:
        raise UsageError("give --bounds or --choices, not both.")
    if args.choices is not None:
        return read_choices(args.choices)
    return None if args.bounds is None else parse_bounds(args.bounds)


def _play(study: Study) -> None:
    """Ask until the person quits, or no more input is there."""
    kind = type(study.strategy).__name__
    print(f"{study.path.name}: {kind}, {counted(study)} so far. Which is better?")
    settled = False
    while True:
        try:
            query = study.ask()
        except UnsupportedError as error:
            if not getattr(study.strategy, "finished", False):
                raise
            print(f"\n{error}")  # what was planned is over
            while (said := reply(_AT_THE_END, lambda _: None, "type u or q")) == "skip":
                print("Nothing is left to skip.")
            if said == "quit":
                return
            study.undo()
            print("The last answer is taken back.")
            continue
        assert isinstance(query, Duel)
        swapped = _is_swapped(study, query)
        print(f"\n[{len(study.history) + 1}]\n{_side_by_side(study, query, swapped)}")
        said = reply(_PROMPT, _ANSWERS.get, _AGAIN)
        if said == "quit":
            return
        if swapped and not isinstance(said, str):
            said = 1.0 - said
        if carry_out(study, query, said):
            found = _recommendation(study)
            print(_progress(study, found))
            if found is not None and found.is_settled and not settled:
                print("That is enough by the stopping rule: quit with q, or go on.")
            settled = found is not None and found.is_settled


def _is_swapped(study: Study, query: Duel) -> bool:
    """Whether the second item stands first: many strategies name the best one so far first."""
    return bool(derive_seed(study.strategy.seed, "order shown", query.id) % 2)


def _side_by_side(study: Study, query: Duel, swapped: bool) -> str:
    """Both items as columns, what differs marked."""
    order = (1, 0) if swapped else (0, 1)
    first, second = (query.items[arm].tolist() for arm in order)
    texts = [study.value_texts(query.items[arm]) for arm in order]
    rows: list[tuple[str, ...]] = [("", "1", "2", "")]
    if query.indices is not None:
        numbers = (f"#{query.indices[arm]}" for arm in order)
        rows.append(("choice", *numbers, ""))
    for i, dimension in enumerate(study.dimensions):
        rows.append(
            (dimension.label, texts[0][i], texts[1][i], _DIFFERS if first[i] != second[i] else "")
        )
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = (
        f"    {label:<{widths[0]}}  {one:>{widths[1]}}  {two:>{widths[2]}}  {mark}".rstrip()
        for label, one, two, mark in rows
    )
    return "\n".join(lines)


def _recommendation(study: Study) -> Recommendation | None:
    try:
        return study.recommend()
    except ComparisonDataError:  # nothing was answered yet
        return None


def _progress(study: Study, found: Recommendation | None) -> str:
    share = 0.0 if found is None else found.progress
    full = int(_BAR * share)
    text = f"    progress [{'#' * full}{'.' * (_BAR - full)}] {int(100 * share)} %"
    if found is None or found.good_enough is None:
        return text
    beliefs = study.beliefs()
    if beliefs is None or beliefs.num_answers < study.stopping.min_answers:
        return text  # as in the statement: a probability would mostly tell of the prior
    return f"{text}; good enough with probability {found.good_enough:.2f}"


def _report(study: Study) -> None:
    """The recommendation, and a figure beside the study."""
    answers = study.history["answer"]
    skipped = int(answers.isna().sum())
    print(f"\n{len(answers) - skipped} answers, {skipped} skipped, saved in {study.path}")
    found = _recommendation(study) if len(answers) > skipped else None
    if found is None:
        print("Nothing is recommended, as nothing was answered yet.")
        return
    print("\n" + textwrap.fill(f"Recommended: {found.statement}", _WIDTH))
    print(_progress(study, found).strip())
    figure = _figure(study, found)
    if figure is None:
        return
    path = study.path.with_name(study.path.name + ".png")  # nobody else's, nor the study
    try:
        saved = save_figure(figure, path)
    except OSError as error:
        raise UsageError(f"cannot write to {str(path)!r}: {error.strerror}") from error
    print(f"plot: {saved}")


def _figure(study: Study, found: Recommendation) -> Figure | None:
    """How likely the best items, of those that are alike one, win against each other."""
    beliefs = study.beliefs()
    if beliefs is None:
        return None
    known, row = beliefs.with_item(found.item)
    rows = known.distinct(_TOP, row)
    if len(rows) < 2:
        return None
    items = known.items[rows]
    kind: Literal["duel", "utility"] = "utility" if known.measured else "duel"
    labels = [_label(study, item) for item in items]
    return plot_win_probabilities(known.model, items, labels=labels, kind=kind)


def _label(study: Study, item: Tensor) -> str:
    """An item in few words: its values alone."""
    return ", ".join(study.value_texts(item))
