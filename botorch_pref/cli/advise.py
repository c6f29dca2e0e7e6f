r"""``botorch-pref advise``: COBOL with a person, who accepts, rejects and measures items."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from functools import partial

import torch

from botorch_pref.cli.dialogue import carry_out, counted, reply, session
from botorch_pref.cli.domain import parse_bounds
from botorch_pref.cli.errors import UsageError
from botorch_pref.cli.opening import open_study
from botorch_pref.queries import Evaluate, Label, Query
from botorch_pref.strategies import COBOL
from botorch_pref.study import Study

_PRESETS: dict[str, Callable[..., COBOL]] = {"practical": COBOL, "paper": COBOL.paper}
_LABELS = {"y": 1.0, "yes": 1.0, "n": 0.0, "no": 0.0}
_PROMPTS: dict[type[Query], str] = {
    Label: "Accept this item? [y]es, [n]o, [s]kip, [u]ndo, [q]uit: ",
    Evaluate: "Measured value? A number, [s]kip, [u]ndo, [q]uit: ",
}
_AGAIN: dict[type[Query], str] = {
    Label: "type y, n, s, u or q",
    Evaluate: "type a number such as 3.5, or s, u or q",
}


def advise(args: argparse.Namespace) -> int:
    r"""Begin a study, or go on with it, until the person leaves.

    Args:
        args: The parsed arguments of ``botorch-pref advise``.

    Returns:
        The exit status: 0, or 130 after Ctrl-C; what was answered is saved either way.

    Raises:
        UsageError: If something cannot be done as asked.
    """
    return session(partial(_opened, args), _play, _report)


def _opened(args: argparse.Namespace) -> Study:
    return open_study(
        args,
        None if args.bounds is None else parse_bounds(args.bounds),
        "--bounds",
        lambda domain: _PRESETS[args.preset or "practical"](
            space=domain.space, seed=args.seed or 0
        ),
        partial(_check_agrees, args),
    )


def _check_agrees(args: argparse.Namespace, study: Study, name: str) -> None:
    strategy = study.strategy
    if not isinstance(strategy, COBOL):
        raise UsageError(f"{name} is one of {type(strategy).__name__}, not of COBOL.")
    if strategy.settings.feedback != "accept":
        raise UsageError(f"{name} asks for comparisons; here one accepts or rejects items.")
    if args.preset and _PRESETS[args.preset](space=study.space).settings != strategy.settings:
        raise UsageError(f"{name} was not begun with --preset {args.preset}.")


def _play(study: Study) -> None:
    """Ask until the person quits, or no more input is there."""
    print(f"{study.path.name}: {counted(study)} so far. Large values are good.")
    while True:
        query = study.ask()
        print(
            f"\n[{len(study.history) + 1}] {study.describe(query.items)}\n    {_why(study, query)}"
        )
        read = _LABELS.get if isinstance(query, Label) else _number
        said = reply(_PROMPTS[type(query)], read, _AGAIN[type(query)])
        if said == "quit":
            return
        carry_out(study, query, said)


def _why(study: Study, query: Query) -> str:
    assert isinstance(study.strategy, COBOL)  # which was seen to when it was opened
    decision = study.strategy.decisions[query.id]
    if decision.asks:
        return f"You are asked: {decision.reason}."
    if decision.reason == "accepted":
        return "To be measured: you accepted it."
    return f"To be measured without asking you: {decision.reason}."


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _report(study: Study) -> None:
    told = study.strategy.history
    values = [(query.items, answer) for query, answer in told if isinstance(query, Evaluate)]
    measured = [(item, answer) for item, answer in values if answer is not None]
    labels = sum(isinstance(query, Label) and answer is not None for query, answer in told)
    if measured:
        best = study.strategy.recommend()
        own = [f"{value:.6g}" for item, value in measured if torch.equal(item.to(best), best)]
        largest = max(value for _, value in measured)
        lines = [
            ("recommended item", study.describe(best)),
            ("measured value", f"{', '.join(own)} (the largest of all: {largest:.6g})"),
        ]
    else:
        lines = [("recommended item", "none, as no value was given yet")]
    skipped = len(told) - len(measured) - labels
    answers = f"{len(measured)} values, {labels} labels, {skipped} skipped"
    lines += [("answers", answers), ("saved in", str(study.path))]
    print("\n" + "\n".join(f"{name:<18} {text}" for name, text in lines))
