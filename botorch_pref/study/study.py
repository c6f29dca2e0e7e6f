r"""A strategy, its search space and its history, saved after every answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import torch

from botorch_pref.exceptions import StudyError
from botorch_pref.queries import Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import Strategy
from botorch_pref.strategies.registry import default_strategy
from botorch_pref.study.content import Content
from botorch_pref.study.record import Record
from botorch_pref.study.stopping import StoppingRule
from botorch_pref.study.view import StudyView

DEFAULT_STOPPING = StoppingRule()


class Study(StudyView):
    r"""A strategy that is saved after every answer, in one JSON file.

    A study is made by :meth:`create` or :meth:`load`. What :meth:`tell` has returned from is
    on the disk, whatever happens then. One process at a time has a study open for writing;
    any number read it.

    Example:
        >>> with Study.create("coffee.json", space, names=["milk (ml)"]) as study:
        ...     query = study.ask()
        ...     study.tell(query, 1.0)
    """

    def __init__(self, record: Record) -> None:
        super().__init__(record)
        self._saved: dict[str | None, Query] = {}  # open queries that the file has

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        space: SearchSpace,
        strategy: Strategy | Callable[..., Strategy] | None = None,
        *,
        names: Sequence[str] | None = None,
        description: str = "",
        levels: Mapping[str, Sequence[str]] | None = None,
        stopping: StoppingRule = DEFAULT_STOPPING,
    ) -> Self:
        r"""Begin a study.

        Args:
            path: The file, which must not exist yet; its folder must.
            space: The domain.
            strategy: A strategy on that space without answers, or what makes one of
                ``space=``, such as its class; by default ``EUBO(anchor="incumbent")``.
            names: What the dimensions are called, a unit in brackets: ``["milk (ml)"]``;
                ``x1``, ``x2``, ... by default.
            description: What the study is about.
            levels: What the levels of categories are called, by the name of the dimension:
                ``{"roast": ["light", "dark"]}``; 0, 1, ... by default.
            stopping: When enough is asked.

        Returns:
            The study, saved and open for writing.

        Raises:
            StudyError: If an argument cannot be used; names it.
            StudyFileError: If the file exists, or cannot be written.
            StudyLockedError: If it is open for writing elsewhere, in this process included.
        """
        strategy = default_strategy if strategy is None else strategy
        content = Content.new(space, strategy, names, description, levels, stopping)
        return cls(Record.create(path, content))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        device: torch.device | None = None,
    ) -> Self:
        r"""Go on with a study, or look at it.

        Args:
            path: The file.
            read_only: Whether to look at it alone, as it is now, which is possible while
                another process writes.
            device: Where its strategy computes; on the CPU by default.

        Returns:
            The study; its next query is the one that it would have been.

        Raises:
            StudyFileError: If the file is missing, truncated, foreign or newer.
            StudyLockedError: If it is open for writing elsewhere, in this process included; names
                the process.
        """
        return cls(Record.load(path, read_only=read_only, device=device))

    def ask(self, annotator: str | None = None) -> Query:
        r"""The open query of an annotator, or a new one, which is saved.

        Args:
            annotator: Who is asked.

        Raises:
            StudyError: If the study is closed, or open for reading alone.
            StudyFileError: If it cannot be saved; nothing was asked then.
        """
        with self._record.all_or_nothing():
            query = self.strategy.ask(annotator)
            if self._saved.get(annotator) is not query:
                self._record.save(self._record.content)
                self._saved[annotator] = query
        return query

    def tell(self, query: Query, answer: float | None) -> None:
        r"""Learn the answer to an open query, and save it.

        Args:
            query: What :meth:`ask` returned.
            answer: See :meth:`~botorch_pref.strategies.Strategy.tell`; ``None`` to skip.

        Raises:
            StaleQueryError: If the query is unknown, was told already or was withdrawn.
            ComparisonDataError: If it is no such answer; the query then stays open.
            StudyError: If the study is closed, or open for reading alone.
            StudyFileError: If it cannot be saved; the query then stays open.
        """
        with self._record.all_or_nothing() as before:
            self.strategy.tell(query, answer)
            self._record.save(self._record.content.with_answer(before))

    def undo(self) -> Query:
        r"""Take back the last answer, a skipped one included.

        All is as it was before that answer: its query is open again, and what others were
        asked since is withdrawn.

        Returns:
            That query.

        Raises:
            StudyError: If there is no answer, or the study is not open for writing.
            StudyFileError: If it cannot be saved; nothing is taken back then.
        """
        self._record.check_writable()
        if not self._record.content.told:
            raise StudyError("There is no answer yet that could be taken back.")
        query = self.strategy.history[-1].query
        self._beliefs = None  # another answer may stand there soon
        self._record.save(self._record.content.without_last_answer())
        return query

    def skip(self, query: Query) -> None:
        """Leave an open query unanswered, for another one; see :meth:`tell`."""
        self.tell(query, None)

    def close(self) -> None:
        """Let others write; all is saved already."""
        self._record.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
