r"""Questions at the terminal, whose answers may also be piped in."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import Literal

import torch
from botorch.exceptions.errors import BotorchError

from botorch_pref.cli.errors import INTERRUPTED, UsageError
from botorch_pref.queries import Query
from botorch_pref.study import Study

Command = Literal["skip", "undo", "quit"]

_COMMANDS: dict[str, Command] = {
    "s": "skip",
    "skip": "skip",
    "u": "undo",
    "undo": "undo",
    "q": "quit",
    "quit": "quit",
}


def session(
    opened: Callable[[], Study], play: Callable[[Study], None], report: Callable[[Study], None]
) -> int:
    r"""A study with a person, from its beginning to a report.

    Args:
        opened: Begins the study or loads it.
        play: Asks until the person leaves.
        report: Prints what came of it.

    Returns:
        The exit status: 0, or 130 after Ctrl-C; what was answered is saved either way.

    Raises:
        UsageError: If something cannot be done as asked.
    """
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")  # what cannot be read is no answer
    torch.set_num_threads(1)  # more than one slow small problems down
    try:
        with opened() as study:
            try:
                play(study)
            except KeyboardInterrupt:
                saved = f"{counted(study)} are saved in {study.path}"
                print(f"\ninterrupted; {saved}", file=sys.stderr)
                return INTERRUPTED
            report(study)
    except BotorchError as error:
        raise UsageError(str(error)) from error
    return 0


def counted(study: Study) -> str:
    """How many answers a study has, and how many of its questions were skipped."""
    answers = study.strategy.num_answers
    skips = len(study.history) - answers
    return f"{answers} answers" + (f" and {skips} skip{'s' * (skips > 1)}" if skips else "")


def reply(prompt: str, read: Callable[[str], float | None], again: str) -> float | Command:
    r"""Ask until the answer is one; the end of the input is to quit.

    Args:
        prompt: The question.
        read: What a word means, ``None`` if it is no answer.
        again: What to type instead.

    Returns:
        The answer, or what else to do.
    """
    while True:
        try:
            if sys.stdin is None:  # closed, as in a program of the background
                raise EOFError
            text = input(prompt).strip()
        except EOFError:
            print()
            return "quit"
        if not sys.stdin.isatty():
            print(text)  # as it would stand there had it been typed
        word = text.lower()
        if word in _COMMANDS:
            return _COMMANDS[word]
        answer = read(word)
        if answer is not None:
            return answer
        print(f"{text!r} is no answer: {again}.")


def carry_out(study: Study, query: Query, said: float | Command) -> bool:
    r"""Do what was said, and save it.

    Args:
        study: The study.
        query: What was asked.
        said: What :func:`reply` returned, other than ``"quit"``.

    Returns:
        Whether there is an answer more.
    """
    if said == "undo":
        if len(study.history):
            study.undo()
            print("The last answer is taken back.")
        else:
            print("There is no answer yet that could be taken back.")
        return False
    study.tell(query, None if isinstance(said, str) else said)
    return not isinstance(said, str)
