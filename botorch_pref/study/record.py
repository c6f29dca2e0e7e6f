r"""The content of a study and its file, which change together or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

import torch
from botorch.exceptions.errors import BotorchError

from botorch_pref.exceptions import StudyError, StudyFileError
from botorch_pref.study.content import Content, snapshot
from botorch_pref.study.file import StudyFile, is_there


class Record:
    r"""A content, saved in a file.

    Attributes:
        file: The file.
        content: The content, replaced by :meth:`save` alone.
    """

    def __init__(self, file: StudyFile, content: Content) -> None:
        self.file, self.content = file, content

    @classmethod
    def create(cls, path: str | os.PathLike[str], content: Content) -> Self:
        """Save a content in a new file; raises StudyFileError if there is one."""
        file = StudyFile(path, writable=True)
        try:
            if is_there(file.path):
                raise StudyFileError(
                    f"{str(file.path)!r} exists already; Study.load goes on with a study."
                )
            record = cls(file, content)
            record.save(content)
        except BaseException:
            file.close()
            raise
        return record

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool,
        device: torch.device | None = None,
    ) -> Self:
        """Read a file; raises StudyFileError if it is missing or cannot be used."""
        if not is_there(path):
            raise StudyFileError(f"There is no study {str(path)!r}.")
        file = StudyFile(path, writable=not read_only)
        try:
            entries = file.read()
            try:
                return cls(file, Content.from_json(entries, device))
            except StudyError as error:
                raise file.refusal(str(error)) from error
        except BaseException:
            file.close()
            raise

    def save(self, content: Content) -> None:
        """Write a content, and only then have it."""
        self.file.write(content.to_json())
        self.content = content

    @contextmanager
    def all_or_nothing(self) -> Iterator[dict[str, Any]]:
        """The strategy's state, which is put back if the block fails."""
        self.check_writable()
        before = snapshot(self.content.strategy)
        try:
            yield before
        except BaseException as error:
            strategy = self.content.strategy
            # A wrong answer has changed nothing, and what found its budget spent stays finished;
            # anything else may have stopped half-way, or could not be saved.
            known = isinstance(error, BotorchError)
            agrees = len(strategy.history) == len(self.content.told)
            ended = known and agrees and getattr(strategy, "finished", False)
            if not ended and (not known or snapshot(strategy) != before):
                device = strategy.space.bounds.device
                strategy = type(strategy).from_state_dict(before, device)
                self.content = replace(self.content, strategy=strategy)
            raise

    def check_writable(self) -> None:
        """Raises StudyError unless it may be changed, and was changed by way of this object."""
        self.file.check_writable()
        if len(self.content.strategy.history) != len(self.content.told):
            raise StudyError(
                "The strategy was told answers that the study knows nothing of; tell answers to "
                "the study. Load it again."
            )
