r"""The commands ``ask`` and ``advise``: a person, or what is piped in, answers for a study."""

from __future__ import annotations

import argparse
import io
import os
import sys
import textwrap
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from botorch.exceptions.errors import BotorchError
from matplotlib.figure import Figure

from botorch_pref.cli.domain import parse_bounds, read_choices
from botorch_pref.cli.parser import INTERRUPTED, UsageError
from botorch_pref.exceptions import StudyFileWarning, UnsupportedError
from botorch_pref.plotting.drawing import save_figure
from botorch_pref.plotting.utility import plot_utility
from botorch_pref.plotting.win_probabilities import plot_win_probabilities
from botorch_pref.progress import notice
from botorch_pref.queries import Answer, Query
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Strategy, UtilityStrategy
from botorch_pref.strategies.cobol import COBOL
from botorch_pref.strategies.registry import (
    DEFAULT_STRATEGY,
    get_strategy,
    strategy_name,
    strategy_names,
)
from botorch_pref.study.dimensions import ROW
from botorch_pref.study.recommendation import Recommendation
from botorch_pref.study.study import Study

_HORIZON = 50
# With one candidate left, these would ask for duels of an item with itself; so small an epsilon is
# reached only once a single item is left.
_NO_IDENTICAL: dict[str, dict[str, Any]] = {
    "mr-lpf": {"epsilon": 1e-9},
    "max-min-lcb": {"candidate_filter": False},
}
_BAR = 10
_WIDTH = 80
_TOP = 8  # items in the figure


def ask(args: argparse.Namespace) -> int:
    """Duels that a person answers; see :meth:`Session.run`."""
    return Ask(args).run()


def advise(args: argparse.Namespace) -> int:
    """COBOL with a person, who accepts, rejects and measures items; see :meth:`Session.run`."""
    return _Advise(args).run()


class Session(ABC):
    """A command that asks a person until they leave."""

    domain_options: str  # those that say what the domain is
    greeting: str  # the first line, of a study of this name, strategy and number of answers

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args

    @abstractmethod
    def begin(self, space: SearchSpace) -> Strategy:
        """The strategy of a new study."""

    @abstractmethod
    def check(self, study: Study, name: str) -> None:
        """Raises UsageError, which names the study, if it contradicts the options."""

    @abstractmethod
    def shown(self, study: Study, query: Query) -> str:
        """The text of a query on the terminal."""

    @abstractmethod
    def report(self, study: Study) -> None:
        """Print the result."""

    def tell(self, study: Study, query: Query, answer: Answer) -> None:
        """Tell the study an answer."""
        study.tell(query, answer)

    def run(self) -> int:
        """Begin a study, or go on with it; the exit status is 0, or 130 after Ctrl-C."""
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")  # bytes that are no text are no answer
        torch.set_num_threads(1)  # more than one slow small problems down
        try:
            with self.open() as study:
                try:
                    self._ask(study)
                except KeyboardInterrupt:
                    saved = f"{counted(study)} are saved in {study.path}"
                    print(f"\ninterrupted; {saved}", file=sys.stderr)
                    return INTERRUPTED
                self.report(study)
        except BotorchError as error:
            raise UsageError(str(error)) from error
        return 0

    def open(self) -> Study:
        """Load the study, or begin it where there is none."""
        args, options = self.args, self.domain_options
        name = f"study {str(args.study)!r}"
        if args.bounds is not None and args.choices is not None:
            raise UsageError("give --bounds or --choices, not both.")
        domain = None if args.bounds is None else parse_bounds(args.bounds)
        if args.choices is not None:
            domain = read_choices(args.choices, getattr(args, "media", None))
        if not os.path.exists(args.study):
            if domain is None:
                raise UsageError(f"there is no {name} yet; begin it with {options}.")
            strategy = self.begin(domain.space)
            title = getattr(args, "title", "")
            return Study.create(
                args.study, domain.space, strategy, names=domain.dimensions, description=title
            )
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always", StudyFileWarning)
            with notice("reading ..."):
                study = Study.load(args.study, unverified=getattr(args, "unverified", False))
        for one in found:
            print(one.message, file=sys.stderr)
        try:
            seed = study.strategy.seed
            self.check(study, name)
            if domain is not None and (
                domain.dimensions != study.dimensions
                or domain.space.state_dict() != study.space.state_dict()
            ):
                raise UsageError(f"{name} was begun with other {options}; leave them out to go on.")
            if args.seed not in (None, seed):
                raise UsageError(f"{name} was begun with --seed {seed}, not {args.seed}.")
        except BaseException:
            study.close()
            raise
        return study

    def _ask(self, study: Study) -> None:
        """Ask until the person quits, or no more input is there."""
        words = {"name": study.path.name, "strategy": type(study.strategy).__name__}
        print(self.greeting.format(**words, answers=counted(study)))
        while True:
            try:
                with notice("thinking ..."):
                    query = study.ask()
            except UnsupportedError as error:
                if not getattr(study.strategy, "finished", False):
                    raise
                print(f"\n{error}")  # all planned duels are answered
                said = _reply("", "", lambda _: None, "undo", "quit")
            else:
                print(f"\n[{len(study.history) + 1}]{self.shown(study, query)}")
                prompt, example = f"{query.prompt}, ", f"{query.example}, or "
                said = _reply(prompt, example, query.read, "skip", "undo", "quit")
            if said == "quit":
                return
            if said == "undo" and not len(study.history):
                print("There is no answer yet that could be taken back.")
            elif said == "undo":
                with notice("thinking ..."):
                    study.undo()
                print("The last answer is taken back.")
            elif isinstance(said, str):
                with notice("thinking ..."):
                    study.skip(query)
            else:
                self.tell(study, query, said)


class _Advise(Session):
    domain_options = "--bounds"
    greeting = "{name}: {answers} so far. Large values are good."

    def begin(self, space: SearchSpace) -> Strategy:
        return COBOL(space=space, seed=self.args.seed or 0)

    def check(self, study: Study, name: str) -> None:
        strategy = study.strategy
        if not isinstance(strategy, COBOL):
            raise UsageError(f"{name} is one of {type(strategy).__name__}, not of COBOL.")
        if strategy.feedback != "accept":
            raise UsageError(f"{name} asks for comparisons; here one accepts or rejects items.")

    def shown(self, study: Study, query: Query) -> str:
        """The item, and why it is asked about, or is to be measured."""
        assert isinstance(study.strategy, COBOL)  # see check
        decision = study.strategy.decisions[query.id]
        if decision.asks:
            why = f"You are asked: {decision.reason}."
        elif decision.reason == "accepted":
            why = "To be measured: you accepted it."
        else:
            why = f"To be measured without asking you: {decision.reason}."
        return f" {study.describe(query.items, fine=True)}\n    {why}"

    def report(self, study: Study) -> None:
        history = study.strategy.history
        told = [(query, answer) for query, answer in history if answer is not None]
        measured = [(query.items, answer) for query, answer in told if query.measures]
        lines = {"recommended item": "none, as no value was given yet"}
        if measured:
            with notice("thinking ..."):
                best = study.strategy.recommend()
            own = [f"{value:.6g}" for item, value in measured if torch.equal(item.to(best), best)]
            largest = max(value for _, value in measured)
            lines["recommended item"] = study.describe(best, fine=True)
            lines["measured value"] = f"{', '.join(own)} (the largest of all: {largest:.6g})"
        labels, skipped = len(told) - len(measured), len(history) - len(told)
        lines["answers"] = f"{len(measured)} values, {labels} labels, {skipped} skipped"
        lines["saved in"] = str(study.path)
        print("\n" + "\n".join(f"{name:<18} {text}" for name, text in lines.items()))


class Ask(Session):
    """The command ``ask``; see :meth:`Session.run`."""

    domain_options = "--bounds or --choices"
    greeting = (
        "{name}: {strategy}, {answers} so far. Which is better? * marks what differs.\n"
        "At 100 % the recommendation is sure enough; new items and surprises lower that."
    )
    settled = False  # by the stopping rule, when last seen

    def begin(self, space: SearchSpace) -> Strategy:
        args = self.args
        name = args.strategy or DEFAULT_STRATEGY
        if name not in (names := strategy_names(UtilityStrategy)):
            raise UsageError(f"--strategy: {name!r} is none of {', '.join(names)}.")
        options: dict[str, Any] = {"seed": args.seed or 0, "horizon": args.horizon or _HORIZON}
        if args.question is not None:
            options["question"] = args.question
        if args.horizon is not None and name != "mr-lpf":
            raise UsageError(f"--horizon: {name} does not plan for a number of duels.")
        return get_strategy(name, space, **options, **_NO_IDENTICAL.get(name, {}))

    def check(self, study: Study, name: str) -> None:
        args, kind = self.args, type(study.strategy)
        if not issubclass(kind, UtilityStrategy):
            raise UsageError(f"{name} is one of {kind.__name__}, which asks not only to compare.")
        if args.strategy not in (None, strategy_name(study.strategy)):
            raise UsageError(f"{name} was not begun with --strategy {args.strategy}.")
        if args.question not in (None, getattr(study.strategy, "question", None)):
            raise UsageError(f"{name} was not begun with --question {args.question!r}.")
        planned = getattr(study.strategy, "horizon", None)
        if args.horizon not in (None, planned):
            other = f"with --horizon {planned}" if planned else "without --horizon"
            raise UsageError(f"{name} was begun {other}, not with {args.horizon}.")

    def shown(self, study: Study, query: Query) -> str:
        """All items as columns, what differs marked."""
        items = query.items[[*query.shown]]
        shown = study.shown(items)
        rows: list[tuple[str, ...]] = [("", *map(str, range(1, len(items) + 1)), "")]
        if query.row_indices is not None and shown[0][0][0] is not ROW:
            rows.append((ROW.label, *(f"#{query.row_indices[i]}" for i in query.shown), ""))
        for same in zip(*shown, strict=True):
            dimension, texts = same[0][0], [text for _, text in same]
            differs = len({*texts}) > 1 and dimension is not ROW
            rows.append((dimension.label, *texts, "*" if differs else ""))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = []
        for label, *values, mark in rows:
            cells = (f"{one:>{width}}" for one, width in zip(values, widths[1:-1], strict=True))
            lines.append("  ".join(["  ", f"{label:<{widths[0]}}", *cells, mark]).rstrip())
        return "\n" + "\n".join(lines)

    def tell(self, study: Study, query: Query, answer: Answer) -> None:
        with notice("thinking ..."):
            study.tell(query, answer)
            found = study.recommend()
        print(_progress_bar(study, found))
        if found.is_settled and not self.settled:
            print("That is enough by the stopping rule: quit with q, or go on.")
        self.settled = found.is_settled

    def report(self, study: Study) -> None:
        """The recommendation, and a figure beside the study."""
        print(f"\n{counted(study)}, saved in {study.path}")
        if not study.strategy.num_answers:
            print("Nothing is recommended, as nothing was answered yet.")
            return
        with notice("thinking ..."):
            found = study.recommend()
        print("\n" + textwrap.fill(f"Recommended: {found.statement}", _WIDTH))
        print(_progress_bar(study, found).strip())
        path = study.path.with_name(study.path.name + ".png")  # no other study has this name
        try:
            with notice("drawing ..."):
                if (figure := _figure(study, found)) is None:
                    return
                saved = save_figure(figure, path)
        except OSError as error:
            raise UsageError(f"cannot write to {str(path)!r}: {error.strerror}") from error
        print(f"plot: {saved}")


def _progress_bar(study: Study, found: Recommendation) -> str:
    full = int(_BAR * found.progress)
    text = f"    progress [{'#' * full}{'.' * (_BAR - full)}] {int(100 * found.progress)} %"
    beliefs = study.beliefs()
    if beliefs is None or beliefs.num_answers < study.stopping.min_answers:
        return text  # with few answers a probability mostly depends on the prior
    tenths = round(10 * (found.good_enough or 0.0))
    sure = f"{tenths} of 10" if 0 < tenths < 10 else "almost all" if tenths else "hardly any"
    return f"{text}; in {sure} cases nothing asked is better"


def _figure(study: Study, found: Recommendation) -> Figure | None:
    """A map of the utility; of choices the win probabilities of the best."""
    beliefs, space = study.beliefs(), study.space
    if beliefs is None:
        return None
    if space.choices is None:
        names = study.dimensions
        return plot_utility(beliefs.model, space, recommended=found.item, names=names)
    beliefs, row = beliefs.with_item(found.item)
    rows = beliefs.distinct(_TOP, row)
    if len(rows) < 2:
        return None
    items = beliefs.items[rows]
    labels = [study.describe(item) for item in items]
    return plot_win_probabilities(beliefs.model, items, labels=labels)


def counted(study: Study) -> str:
    """How many answers a study has, and how many of its questions were skipped."""
    answers = study.strategy.num_answers
    skips = len(study.history) - answers
    return f"{answers} answer{'s' * (answers != 1)}" + (
        f" and {skips} skip{'s' * (skips > 1)}" if skips else ""
    )


def _reply(
    prompt: str, example: str, read: Callable[[str], Answer | None], *commands: str
) -> Answer | str:
    """Ask until ``read`` finds an answer, or one of the commands is typed; the end is "quit"."""
    prompt += ", ".join(f"[{command[0]}]{command[1:]}" for command in commands) + ": "
    *letters, last = (command[0] for command in commands)
    while True:
        try:
            if sys.stdin is None:  # closed, as in the background
                raise EOFError
            text = input(prompt).strip()
        except EOFError:
            print()
            return "quit"
        if not sys.stdin.isatty():
            print(text)  # a terminal shows what is typed
        word = text.lower()
        for command in commands:
            if word in (command, command[0]):
                return command
        if (answer := read(word)) is not None:
            return answer
        print(f"{text!r} is no answer: type {example}{', '.join(letters)} or {last}.")
