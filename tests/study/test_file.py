"""The file: whole or refused, written whole or not at all, with one writer."""

from __future__ import annotations

import errno
import gc
import io
import json
import os
import signal
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from botorch_pref.exceptions import StudyFileError, StudyFileWarning, StudyLockedError
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import MRLPF, RandomPairs
from botorch_pref.study import Study
from botorch_pref.study.file import StudyFile
from tests.faults.common import within

needs_forks = pytest.mark.skipif(os.name != "posix", reason="forks and kills")
SPACE = SearchSpace(torch.tensor([[0.0, 60.0], [80.0, 96.0]], dtype=torch.float64))

TEXT = b'{"format": "botorch_pref study", "version": 2}'


def created(path: Path) -> Study:
    return Study.create(path, SPACE, partial(RandomPairs, seed=5))


def play(study: Study, steps: int) -> None:
    for _ in range(steps):
        query = study.ask()
        study.tell(query, float(query.items[0, 0] > query.items[1, 0]))


def full(*arguments: object, **options: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def forked(work: Callable[[], object]) -> int:
    """A process that does some work, and ends."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks where there are threads
        process = os.fork()
    if not process:
        try:
            work()
        finally:
            os._exit(1)
    return process


@needs_forks
def test_a_writer_in_another_process(tmp_path: Path) -> None:
    """Until it is killed nobody else may write, but anybody may read; no answer is lost."""
    path = tmp_path / "study.json"
    created(path).close()
    told, tell = os.pipe()

    def write() -> None:
        study = Study.load(path)
        play(study, 1)
        os.write(tell, b".")
        signal.pause()
        study.close()

    process = forked(write)
    os.read(told, 1)
    try:
        where = rf"open for writing in process {process} on {os.uname().nodename} since 20"
        for begin in (Study.load, created):
            with pytest.raises(StudyLockedError, match=where):
                begin(path)
        assert len(Study.load(path, read_only=True).history) == 1
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
    with Study.load(path) as study:
        assert len(study.history) == 1
        steady = RandomPairs(space=SPACE, seed=5)
        steady.tell(steady.ask(), study.strategy.history[0].answer)
        assert study.ask() == steady.ask()
        play(study, 1)


@needs_forks
@pytest.mark.parametrize(
    ("moment", "told"), [("on its way to the disk", 1), ("written, not in place", 1), ("over", 2)]
)
def test_killed_within_a_write(tmp_path: Path, moment: str, told: int) -> None:
    """Either the answer is there or the file as it was; in no case is it half of both."""
    path = tmp_path / "study.json"
    with created(path) as study:
        play(study, 1)
        query = study.ask()
    real = os.replace

    def die(*paths: Any) -> None:
        if moment == "over":
            real(*paths)
        os.kill(os.getpid(), signal.SIGKILL)

    def write() -> None:
        study = Study.load(path)
        setattr(os, "fsync" if moment == "on its way to the disk" else "replace", die)
        study.tell(query, 1.0)

    process = forked(write)
    assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL
    with Study.load(path) as study:
        assert len(study.history) == told
        assert (study.ask() == query) == (told == 1)
        play(study, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        *((TEXT[:end], "truncated, or no JSON file at all") for end in (0, 1, 10, len(TEXT) - 1)),
        (b"\x89PNG\r\n", "truncated, or no JSON file at all"),
        (b"[" * 100_000, "truncated, or no JSON file at all"),
        (b'{"name": "something else"}', "it is a JSON file, but no study"),
        (b'{"format": "botorch_pref study", "version": 4}', "version 4, .* a newer one wrote it"),
        (b'{"format": "botorch_pref study", "version": "x"}', "it is of version 'x'"),
        (b'{"format": "botorch_pref study", "version": 2.0}', "it is of version 2.0"),
        (b'{"format": "botorch_pref study", "version": true}', "it is of version True"),
        (TEXT[:-1] + b', "a": ' + b"[" * 60 + b"]" * 60 + b"}", "nested more than 50 deep"),
        (b'{"format": "botorch_pref study", "version": 1}', "version 1, .* an older one wrote it"),
        (TEXT, "its entry 'description' is missing"),
    ],
)
def test_foreign_newer_and_truncated_files(content: bytes, message: str, tmp_path: Path) -> None:
    """Each is refused and left as it is."""
    path = tmp_path / "study.json"
    path.write_bytes(content)
    for read_only in (True, False):
        with pytest.raises(StudyFileError, match=f"study.json' cannot be read.*{message}"):
            Study.load(path, read_only=read_only)
        with pytest.raises(StudyFileError, match="is a folder, not the file of a study"):
            Study.load(tmp_path, read_only=read_only)
    with pytest.raises(StudyFileError, match="exists already"):
        created(path)
    assert path.read_bytes() == content
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("step", ["write", "fsync", "replace"])
def test_a_disk_that_fails(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be saved was not told: the query stays open, and the file as it was."""

    place = {"write": (Path, "open"), "fsync": (os, "fsync"), "replace": (Path, "replace")}[step]
    path = tmp_path / "study.json"
    with created(path) as study:
        play(study, 3)
        query, saved, state = study.ask(), path.read_bytes(), study.strategy.state_dict()
        with monkeypatch.context() as broken:
            broken.setattr(*place, full)
            for action in (partial(study.tell, query, 1.0), study.undo):
                with pytest.raises(StudyFileError, match="cannot be saved: No space left"):
                    action()
        assert (path.read_bytes(), study.strategy.state_dict()) == (saved, state)
        assert len(study.history) == 3
        beside = [f"{path.name}{end}" for end in ("", ".bak", ".lock")]
        assert sorted(file.name for file in tmp_path.iterdir()) == beside
        study.tell(query, 1.0)
        assert study.undo() == query
        play(study, 1)
    assert len(Study.load(path, read_only=True).history) == 4


def test_a_disk_that_fails_at_the_last_answer_of_a_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Study.create(tmp_path / "study.json", SPACE, partial(MRLPF, horizon=2)) as study:
        play(study, 1)
        query = study.ask()
        with monkeypatch.context() as broken:
            broken.setattr(os, "fsync", full)
            with pytest.raises(StudyFileError, match="cannot be saved"):
                study.tell(query, 1.0)
        assert study.ask() == query
        study.tell(query, 1.0)
        assert study.strategy.finished
        assert len(study.history) == 2


def test_a_file_that_another_program_changed(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    with created(path) as study:
        query = study.ask()
        path.write_text("something else")
        with pytest.raises(StudyFileError, match="changed by another program meanwhile"):
            study.tell(query, 1.0)
        assert path.read_text() == "something else"
        path.unlink()
        study.tell(query, 1.0)
    assert len(Study.load(path, read_only=True).history) == 1


def test_two_writers_in_one_process(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    study = created(path)
    (tmp_path / "link.json").symlink_to(path)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(StudyFileError):
        created(tmp_path / "loop" / "study.json")
    for name in (path, tmp_path / "link.json", tmp_path / "." / "study.json"):
        with pytest.raises(StudyLockedError, match="open for writing in this very process since"):
            Study.load(name)
    study.close()
    with Study.load(tmp_path / "link.json") as study:
        play(study, 1)
    assert (tmp_path / "link.json").is_symlink()
    assert len(Study.load(path, read_only=True).history) == 1


def test_a_study_that_is_forgotten_frees_its_file(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    play(created(path), 1)
    gc.collect()
    with Study.load(path) as study:
        assert len(study.history) == 1
    assert sorted(tmp_path.iterdir()) == [path, path.with_name("study.json.bak")]


@pytest.mark.parametrize("content", ["", '{"pid": 1, "host": "elsewhere", "since": "2020"}', "3"])
def test_a_stale_lock_blocks_nobody(content: str, tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    created(path).close()
    lock = tmp_path / "study.json.lock"
    lock.write_text(content)
    with Study.load(path) as study:
        play(study, 1)
        assert json.loads(lock.read_text())["pid"] == os.getpid()
        lock.write_text(content)
        with pytest.raises(StudyLockedError, match=r"process 1 on elsewhere|another process"):
            Study.load(path)
    assert not lock.exists()


def test_a_write_protected_study_is_only_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.json"
    with created(path) as study:
        path.chmod(0o640)
        study.ask()
    assert path.stat().st_mode & 0o777 == 0o640  # are kept
    monkeypatch.setattr(os, "access", lambda *args: False)  # root may write anywhere
    with pytest.raises(StudyFileError, match="is write-protected"):
        Study.load(path)
    assert len(Study.load(path, read_only=True).history) == 0


@needs_forks
def test_a_forked_process_frees_nothing(tmp_path: Path) -> None:
    held = StudyFile(tmp_path / "study.json", writable=True)
    os.waitpid(forked(held.close), 0)
    with pytest.raises(StudyLockedError, match="this very process"):
        StudyFile(tmp_path / "study.json", writable=True)
    held.close()


def test_a_changed_file(tmp_path: Path) -> None:
    """A digit is enough; it is refused with what to do, and taken as it is only where asked for."""
    path, backup = tmp_path / "study.json", tmp_path / "study.json.bak"
    with created(path) as study:
        play(study, 2)
    whole = path.read_bytes()
    assert backup.read_bytes() == whole
    place = whole.index(b'"items": [[') + 16
    assert whole[place : place + 1].isdigit()
    changed = whole[:place] + (b"1" if whole[place : place + 1] != b"1" else b"2")
    changed += whole[place + 1 :]
    path.write_bytes(changed)
    for read_only in (True, False):
        with pytest.raises(StudyFileError, match="does not match its checksum") as error:
            Study.load(path, read_only=read_only)
        assert "load it with unverified=True (botorch-pref: --unverified)" in str(error.value)
        assert f"with 2 answers, is in {str(backup)!r}: copy that" in str(error.value)
    assert path.read_bytes() == changed
    with pytest.warns(StudyFileWarning, match="It is taken as it is, and signed when"):
        study = Study.load(path, unverified=True)
    with study:
        play(study, 1)
    with Study.load(path) as study:
        assert len(study.history) == 3
    path.unlink()
    with pytest.raises(StudyFileError, match=r"There is no study.* with 3 answers, is in"):
        Study.load(path)
    backup.write_bytes(changed)  # which is no help
    with pytest.raises(StudyFileError, match=r"There is no study '.*json'\.$"):
        Study.load(path)


def test_a_file_without_a_checksum(tmp_path: Path) -> None:
    """Version 2 had none; of this version it cannot lack."""
    path = tmp_path / "study.json"
    with created(path) as study:
        play(study, 2)
    content = json.loads(path.read_text())
    del content["checksum"]
    path.write_text(json.dumps(content))
    with pytest.raises(StudyFileError, match="does not match its checksum"):
        Study.load(path)
    path.write_text(json.dumps(content | {"version": 2}))
    with Study.load(path) as study:
        play(study, 1)
    assert json.loads(path.read_text())["version"] == 3


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_hard_link_has_the_same_writer(earlier: int, tmp_path: Path) -> None:
    path, other = tmp_path / "study.json", tmp_path / "other.json"
    created(path).close()
    os.link(path, other)
    with Study.load(path) as study:
        play(study, earlier)
        with pytest.raises(StudyLockedError, match="under another name, a hard link"):
            Study.load(other)
        play(study, 1)
        os.link(path, tmp_path / "third.json")
        with pytest.raises(StudyLockedError, match="under another name, a hard link"):
            Study.load(tmp_path / "third.json")
    Study.load(other).close()


@needs_forks
def test_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a pipe"), (Path("/dev/null"), "a device")):
        for begin in (Study.load, partial(Study.load, read_only=True), created):
            with pytest.raises(StudyFileError, match=f"is {kind}, not the file of a study"):
                begin(path)
    for wrong in (None, 3, b"study.json"):
        with pytest.raises(StudyFileError, match="`path` must be the path of a file, not"):
            Study.load(wrong)  # type: ignore[arg-type]
    with pytest.raises(StudyFileError, match="leads nowhere"):
        Study.load("a\0b")


@needs_forks
def test_a_pipe_in_place_of_the_backup(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    path.write_text("{}")
    os.mkfifo(tmp_path / "study.json.bak")
    with within(5.0), pytest.raises(StudyFileError, match="but no study"):
        Study.load(path, read_only=True)


def test_the_next_writer_removes_what_was_left(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    created(path).close()
    left = [tmp_path / f".study.{number}.json" for number in (1, 77777)]
    left.append(tmp_path / ".study.json.4.bak")
    others = [tmp_path / name for name in (".study.json", ".studies.1.json", ".study.x.json")]
    for one in (*left, *others):
        one.touch()
    Study.load(path, read_only=True)
    assert all(one.exists() for one in left)
    Study.load(path).close()
    assert not any(one.exists() for one in left)
    assert all(one.exists() for one in others)


def test_a_file_that_is_too_large(tmp_path: Path) -> None:
    path = tmp_path / "study.json"
    with path.open("wb") as file:
        file.truncate(2**29 + 1)
    with pytest.raises(StudyFileError, match="it has more than 536,870,912 bytes"):
        Study.load(path)


LARGE = SearchSpace(
    choices=torch.rand(2500, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
)


def large(path: Path) -> Study:
    return Study.create(path, LARGE, partial(RandomPairs, seed=5))


def test_a_large_table_lies_beside_its_study(tmp_path: Path) -> None:
    """It is written once, and the study goes on and back as a strategy that was never stored."""
    path, steady = tmp_path / "study.json", RandomPairs(space=LARGE, seed=5)
    large(path).close()
    table = tmp_path / "study.json.npy"
    written = table.stat().st_mtime_ns
    assert table.stat().st_size == 2500 * 3 * 8 + 128
    for _ in range(3):
        with Study.load(path) as study:
            query = study.ask()
            assert query == steady.ask()
            study.tell(query, 1.0)
        steady.tell(query, 1.0)
    with Study.load(path) as study:
        assert torch.equal(study.strategy.recommend(), steady.recommend())
        assert study.undo() == query
        assert study.ask() == query
    assert table.stat().st_mtime_ns == written
    assert path.stat().st_size < 10_000
    names = {one.name for one in tmp_path.iterdir()}
    assert names == {"study.json", "study.json.bak", "study.json.npy"}


def test_a_table_that_an_older_version_listed(tmp_path: Path) -> None:
    """It is read, and put beside the study when that is saved next."""
    path, table = tmp_path / "study.json", tmp_path / "study.json.npy"
    with large(path) as study:
        play(study, 1)
    table.unlink()
    content = json.loads(path.read_bytes()) | {"version": 2}
    del content["checksum"]
    content["strategy"]["space"]["choices"] = LARGE.table.tolist()
    path.write_text(json.dumps(content))
    assert len(Study.load(path, read_only=True).history) == 1
    assert not table.exists()
    with Study.load(path) as study:
        play(study, 1)
    assert len(Study.load(path, read_only=True).history) == 2
    assert np.array_equal(np.load(table), LARGE.table.numpy())


def changed_table(numbers: Any, path: Path) -> None:
    numbers[7, 1] += 1e-15
    np.save(path, numbers)


def zipped(numbers: Any) -> bytes:
    data = io.BytesIO()
    np.savez(data, numbers)
    return data.getvalue()


WRONG_TABLES: dict[str, tuple[Callable[[Any, Path], object], str]] = {
    "missing": (lambda numbers, path: path.unlink(), "No such file"),
    "one number": (changed_table, "`choices` is another table"),
    "its rows": (lambda numbers, path: np.save(path, numbers[1:]), "shape .2499, 3"),
    "its type": (lambda numbers, path: np.save(path, numbers.astype("f4")), "float32"),
    "cut": (lambda numbers, path: os.truncate(path, 9000), "mmap length"),
    "more": (
        lambda numbers, path: path.write_bytes(path.read_bytes() + bytes(8)),
        "something follows its numbers",
    ),
    "too long": (lambda numbers, path: os.truncate(path, 2**30), "more than 536,870,912 bytes"),
    "objects": (
        lambda numbers, path: np.save(path, numbers.astype(object), allow_pickle=True),
        "Python objects",
    ),
    "several": (lambda numbers, path: path.write_bytes(zipped(numbers)), "magic string"),
    "no table": (lambda numbers, path: path.write_bytes(b"x"), "study.json.npy"),
    "empty": (lambda numbers, path: path.write_bytes(b""), "study.json.npy"),
    "a pipe": (lambda numbers, path: (path.unlink(), os.mkfifo(path)), "is no file"),
    "a folder": (lambda numbers, path: (path.unlink(), path.mkdir()), "is no file"),
}


@needs_forks
@pytest.mark.parametrize("kind", WRONG_TABLES)
def test_another_table_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    path, table = tmp_path / "study.json", tmp_path / "study.json.npy"
    large(path).close()
    saved = path.read_bytes()
    change, message = WRONG_TABLES[kind]
    change(np.load(table), table)
    with pytest.raises(StudyFileError, match=rf"(?s)study\.json.*({message})") as refused:
        Study.load(path)
    assert "study.json.npy" in str(refused.value)
    assert path.read_bytes() == saved
