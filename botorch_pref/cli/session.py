r"""A study with a person at the terminal, whose answers may also be piped in."""

from __future__ import annotations

import argparse
import io
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from botorch.exceptions.errors import BotorchError

from botorch_pref.cli.domain import parse_bounds, read_choices
from botorch_pref.cli.parser import INTERRUPTED, UsageError
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.queries import Query
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Strategy
from botorch_pref.study.study import Study


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

    def tell(self, study: Study, query: Query, said: float) -> None:
        """Tell the study an answer to the query as it was shown."""
        study.tell(query, said)

    def run(self) -> int:
        """Begin a study, or go on with it; the exit status is 0, or 130 after Ctrl-C."""
        if isinstance(sys.stdin, io.TextIOWrapper):
            sys.stdin.reconfigure(errors="replace")  # what cannot be read is no answer
        torch.set_num_threads(1)  # more than one slow small problems down
        try:
            with self._open() as study:
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

    def _open(self) -> Study:
        """Load the study, or begin it where there is none."""
        args, options = self.args, self.domain_options
        name = f"study {str(args.study)!r}"
        if args.bounds is not None and args.choices is not None:
            raise UsageError("give --bounds or --choices, not both.")
        domain = None if args.bounds is None else parse_bounds(args.bounds)
        if args.choices is not None:
            domain = read_choices(args.choices)
        if not os.path.exists(args.study):
            if domain is None:
                raise UsageError(f"there is no {name} yet; begin it with {options}.")
            strategy = self.begin(domain.space)
            return Study.create(args.study, domain.space, strategy, names=domain.dimensions)
        study = Study.load(args.study)
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
                query = study.ask()
            except UnsupportedError as error:
                if not getattr(study.strategy, "finished", False):
                    raise
                print(f"\n{error}")  # what was planned is over
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
                study.undo()
                print("The last answer is taken back.")
            elif isinstance(said, str):
                study.skip(query)
            else:
                self.tell(study, query, said)


def counted(study: Study) -> str:
    """How many answers a study has, and how many of its questions were skipped."""
    answers = study.strategy.num_answers
    skips = len(study.history) - answers
    return f"{answers} answers" + (f" and {skips} skip{'s' * (skips > 1)}" if skips else "")


def _reply(
    prompt: str, example: str, read: Callable[[str], float | None], *commands: str
) -> float | str:
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
            print(text)  # as it would stand there had it been typed
        word = text.lower()
        for command in commands:
            if word in (command, command[0]):
                return command
        if (answer := read(word)) is not None:
            return answer
        print(f"{text!r} is no answer: type {example}{', '.join(letters)} or {last}.")
