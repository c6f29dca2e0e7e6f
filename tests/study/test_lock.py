"""The right to write: never held twice, and named."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from botorch_pref.exceptions import StudyFileError, StudyLockedError
from botorch_pref.study.file import StudyFile


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts open files")
def test_no_handle_is_left_open(tmp_path: Path) -> None:
    held = StudyFile(tmp_path / "study.json", writable=True)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(StudyLockedError, match="this very process since 20"):
            StudyFile(tmp_path / "study.json", writable=True)
    assert len(os.listdir("/proc/self/fd")) == before
    held.close()
    assert not [*tmp_path.iterdir()]


def test_a_full_disk_leaves_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path = tmp_path / "study.json"
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(StudyFileError, match="No space left"):
            StudyFile(path, writable=True)
    StudyFile(path, writable=True).close()


@pytest.mark.skipif(os.name != "posix", reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks where there are threads
def test_a_forked_process_frees_nothing(tmp_path: Path) -> None:
    held = StudyFile(tmp_path / "study.json", writable=True)
    process = os.fork()
    if not process:
        held.close()
        os._exit(0)
    os.waitpid(process, 0)
    with pytest.raises(StudyLockedError, match="this very process"):
        StudyFile(tmp_path / "study.json", writable=True)
    held.close()
