"""The file: whole or refused, written whole or not at all, with one writer."""

from __future__ import annotations

import errno
import gc
import json
import os
import signal
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from botorch_pref.exceptions import StudyFileError, StudyLockedError
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import MRLPF, RandomPairs
from botorch_pref.study import Study
from botorch_pref.study.file import StudyFile

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
        (b'{"format": "botorch_pref study", "version": 3}', "version 3, .* a newer one wrote it"),
        (b'{"format": "botorch_pref study", "version": "x"}', "it is of version 'x'"),
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
        with pytest.raises(StudyFileError, match="Is a directory"):
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
        assert sorted(file.name for file in tmp_path.iterdir()) == [path.name, f"{path.name}.lock"]
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
    assert [*tmp_path.iterdir()] == [path]


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
