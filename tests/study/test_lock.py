"""The lock itself: never held twice, whenever its file is removed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from botorch_pref.exceptions import StudyFileError, StudyLockedError
from botorch_pref.study import lock
from botorch_pref.study.lock import WriterLock


@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_its_last_holder_removes(
    replaced: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes between being opened and being locked: what was opened then locks nobody out."""
    path, file, try_lock = tmp_path / "study.json", tmp_path / "study.json.lock", lock._try_lock
    calls = []

    def late(handle: int) -> None:
        calls.append(handle)
        if len(calls) == 1:
            file.unlink()
            if replaced:
                file.write_text("")
        try_lock(handle)

    monkeypatch.setattr(lock, "_try_lock", late)
    held = WriterLock(path)
    assert len(calls) == 2
    with pytest.raises(StudyLockedError, match="this very process"):
        WriterLock(path)
    held.release()
    assert not file.exists()
    WriterLock(path).release()


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files")
def test_no_handle_is_left_open(tmp_path: Path) -> None:
    held = WriterLock(tmp_path / "study.json")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(StudyLockedError):
            WriterLock(tmp_path / "study.json")
    assert len(os.listdir("/proc/self/fd")) == before
    held.release()


def test_a_full_disk_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "study.json"
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(StudyFileError, match="No space left"):
            WriterLock(path)
    WriterLock(path).release()
