"""The same store in a file and in PostgreSQL, which is started here."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("segno")
pytest.importorskip("starlette")

from botorch_pref.exceptions import StudyFileError
from botorch_pref.serve.store import Store


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    """The URL of a database of its own."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb", path=os.pathsep.join([os.environ["PATH"], *map(str, places)]))
    if found is None:
        pytest.skip("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp())  # as pytest's own folders are closed to others
    own: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    if os.getuid() == 0:  # who may not start it
        own |= {"user": "nobody", "cwd": "/"}
        shutil.chown(folder, "nobody")
    binary, data = Path(found).resolve(), folder / "data"
    subprocess.run(
        [binary, "-D", data, "-U", "owner", "-A", "trust", "-E", "UTF8", "--no-sync"],
        check=True,
        **own,
    )
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["-h", "127.0.0.1", "-p", str(port), "-k", "", "-F"]
    server = subprocess.Popen([binary.with_name("postgres"), "-D", data, *options], **own)
    ready = [binary.with_name("pg_isready"), "-h", "127.0.0.1", "-p", str(port), "-t", "1"]
    for _ in range(600):
        if not subprocess.run(
            ["sh", "-c", 'sleep 0.1; "$@"', "", *ready], **own, check=False
        ).returncode:
            break
    yield f"postgresql+psycopg://owner:secret@127.0.0.1:{port}/postgres"
    server.send_signal(signal.SIGINT)  # at once, without waiting for clients
    server.wait(60)
    shutil.rmtree(folder)


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    if request.param == "sqlite":
        return tmp_path / "study.sqlite"
    url: str = request.getfixturevalue("postgres")
    return url


def test_what_is_kept(place: Path | str) -> None:
    store = Store(place, "study")
    assert len({store.owner, store.invitation}) == 2
    ann, number = store.join("Änn"), store.join("")
    assert store.join("äNN") is None
    assert [store.person(str(own)) for own in (ann, number, "guess")] == ["Änn", "#2", None]
    for query in (7, 3):
        store.give(query, "Änn")
        store.give(query, "Änn")
    store.give(7, "#2")
    assert store.answer(7, "Änn", "1", 2.5)
    assert not store.answer(7, "Änn", "2", None)
    assert not store.answer(9, "Änn", "2", None)
    assert store.answer(3, "Änn", None, None)
    assert store.undo("Änn")
    assert store.answer(3, "Änn", "=", None)
    assert [(row.query, row.answer, row.seconds) for row in store.given("Änn")] == [
        (7, "1", 2.5),
        (3, "=", None),
    ]
    (told,) = store.to_tell(all_of_them=False)  # the last one can still be taken back
    store.told(told, refused=False)
    assert not store.to_tell(all_of_them=False)
    store.set("options", {"prompt": "Which?"})
    store.forget(store.given("#2")[0])
    store.close()

    again = Store(place, "study")
    assert (again.owner, again.invitation) == (store.owner, store.invitation)
    assert again.setting("options") == {"prompt": "Which?"}
    assert again.people() == ["Änn", "#2"]
    assert [row.told for row in again.given()] == [2, 0]
    assert [row.query for row in again.to_tell(all_of_them=True)] == [3]
    again.close()
    with pytest.raises(StudyFileError, match="participants of another study") as refused:
        Store(place, "another study")
    assert "secret" not in str(refused.value)


def test_a_database_that_is_not_there() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    with pytest.raises(StudyFileError, match="cannot be used") as refused:
        Store("postgresql+psycopg://owner:secret@127.0.0.1:9/postgres", "study")
    assert "secret" not in str(refused.value)
    with pytest.raises(StudyFileError, match="cannot be used"):
        Store("nosuch://", "study")
