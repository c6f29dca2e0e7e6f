r"""The database of participants and of their answers."""

from __future__ import annotations

import json
import os
import secrets
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, create_engine, text
from sqlalchemy.exc import SQLAlchemyError

from botorch_pref.exceptions import StudyFileError

UNDO_SECONDS = 60.0
"""How long an answer can be taken back, unless the next one was given before."""

_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"  # nothing that looks alike
_CODE_LENGTH = 12
# Of SQLite and of PostgreSQL.
_TABLES = (
    "create table if not exists settings (name text primary key, value text not null)",
    "create table if not exists people (name text primary key, folded text unique, "
    "code text unique, joined double precision not null)",
    "create table if not exists given (query integer, person text, "
    "given double precision not null, answer text, answered double precision, "
    "seconds double precision, told integer not null default 0, primary key (person, query))",
)


_OWN = "query = :query and person = :person"


class Given(NamedTuple):
    """A question that was given to a person, and their answer; of a skipped one that is None."""

    query: int
    person: str
    given: float
    answer: str | None  # as typed at a terminal, of the items as shown
    answered: float | None
    seconds: float | None
    told: int  # to the study: 0 not yet, 1 being told, 2 told, 3 refused


class Store:
    r"""What must survive whatever ends the server; every method returns after it is on the disk.

    Args:
        place: An SQLite file, or the URL of a database, as ``postgresql+psycopg://...``.
        study: What identifies the study.

    Raises:
        StudyFileError: If the database is of another study, or cannot be used.
    """

    def __init__(self, place: Path | str, study: str) -> None:
        self._lock = threading.RLock()
        try:
            if isinstance(place, Path):
                os.close(os.open(place, os.O_CREAT | os.O_RDWR, 0o600))  # it has the codes
                url = URL.create("sqlite", database=str(place))
            self._db = create_engine(url if isinstance(place, Path) else place, pool_pre_ping=True)
            first = ("pragma journal_mode=wal",) if isinstance(place, Path) else ()
            for statement in (*first, *_TABLES):
                self._run(statement)
            known = self.setting("study", study)
        except (OSError, ImportError, SQLAlchemyError) as error:
            raise StudyFileError(
                f"The database {_public(place)} cannot be used: {error}."
            ) from error
        if known != study:
            self.close()
            raise StudyFileError(f"{_public(place)} has the participants of another study.")
        # Codes of the invitation and of the study's owner.
        self.invitation = self.setting("invitation", code())
        self.owner = self.setting("owner", code())

    def close(self) -> None:
        """Close the database."""
        self._db.dispose()

    def setting(self, name: str, default: Any = None) -> Any:
        """A setting, plain JSON, which is set to a default if it is not there."""
        rows = self._run("select value from settings where name = :name", name=name)
        if not rows and default is not None:
            self.set(name, default)
        return json.loads(rows[0][0]) if rows else default

    def set(self, name: str, value: Any) -> None:
        """Change a setting."""
        self._run(
            "insert into settings values (:name, :value) "
            "on conflict (name) do update set value = excluded.value",
            name=name,
            value=json.dumps(value),
        )

    def join(self, name: str) -> str | None:
        """The code of a new person; without a name they get a number, and None if it is taken."""
        own = code()
        with self._lock:
            number = self._run("select count(*) from people")[0][0]
            while not name or (name.startswith("#") and self._names(name)):
                number += 1
                name = f"#{number}"
            if self._names(name):
                return None
            self._run(
                "insert into people values (:name, :folded, :code, :now)",
                name=name,
                folded=name.casefold(),
                code=own,
                now=time.time(),
            )
        return own

    def person(self, own: str) -> str | None:
        """Whose code it is."""
        if not own.isascii() or not own.isalnum():  # which no database need understand
            return None
        rows = self._run("select name from people where code = :code", code=own)
        return rows[0][0] if rows else None

    def people(self) -> list[str]:
        """Names, in the order in which they joined."""
        return [row[0] for row in self._run("select name from people order by joined")]

    def give(self, query: int, person: str) -> None:
        """Give a question to a person."""
        self._run(
            "insert into given (query, person, given) values (:query, :person, :now) "
            "on conflict do nothing",
            query=query,
            person=person,
            now=time.time(),
        )

    def given(self, person: str | None = None) -> list[Given]:
        """All questions that were given, to one person or to all, the oldest first."""
        where = "" if person is None else "where person = :person"
        values = {} if person is None else {"person": person}
        rows = self._run(f"select * from given {where} order by given, query", **values)
        return [Given(*row) for row in rows]

    def answer(self, query: int, person: str, answer: str | None, seconds: float | None) -> bool:
        """Save an answer to a question that is open; whether it was."""
        return bool(
            self._run(
                "update given set answer = :answer, answered = :now, seconds = :seconds "
                f"where {_OWN} and answered is null returning 1",
                answer=answer,
                now=time.time(),
                seconds=seconds,
                query=query,
                person=person,
            )
        )

    def undo(self, person: str) -> bool:
        """Open the last answered question again, if the study was not told yet; whether it was."""
        return bool(
            self._run(
                "update given set answered = null, answer = null where person = :person "
                "and told = 0 and answered = (select max(answered) from given "
                "where person = :person) returning 1",
                person=person,
            )
        )

    def to_tell(self, all_of_them: bool) -> list[Given]:
        """Answers that nobody can take back any more, which are marked as being told."""
        before = time.time() + (1.0 if all_of_them else -UNDO_SECONDS)
        self._run(
            "update given set told = 1 where told = 0 and (answered < :before or exists "
            "(select 1 from given as later where later.person = given.person and "
            "later.answered > given.answered))",
            before=before,
        )
        rows = self._run("select * from given where told = 1 order by answered")
        return [Given(*row) for row in rows]

    def told(self, row: Given, refused: bool) -> None:
        """Note that the study was told an answer."""
        state = 3 if refused else 2
        who = {"query": row.query, "person": row.person}
        self._run(f"update given set told = :told where {_OWN}", told=state, **who)

    def forget(self, row: Given) -> None:
        """Take a question away from a person."""
        self._run(f"delete from given where {_OWN}", query=row.query, person=row.person)

    def _names(self, name: str) -> list[Any]:
        return self._run("select 1 from people where folded = :folded", folded=name.casefold())

    def _run(self, statement: str, **values: Any) -> list[Any]:
        with self._lock, self._db.begin() as transaction:
            done = transaction.execute(text(statement), values)
            return [*done] if done.returns_rows else []


def _public(place: Path | str) -> str:
    """What may be shown of a place, which may have a password."""
    return repr(str(place)) if isinstance(place, Path) else repr(place.rpartition("@")[2])


def code() -> str:
    """A random code that can be typed, of 59 bits."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_CODE_LENGTH))
