r"""One writer at a time."""

from __future__ import annotations

import json
import os
import socket
import sys
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from botorch_pref.exceptions import StudyFileError, StudyLockedError

if sys.platform == "win32":
    import msvcrt

    _BEHIND = 1 << 30  # what is locked there cannot be read, and the holder's name is to be

    def _try_lock(handle: int) -> None:
        os.lseek(handle, _BEHIND, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)

else:
    import fcntl

    def _try_lock(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class WriterLock:
    r"""A lock beside a file, held by this object until it is released or the process ends.

    The operating system holds it, so what ends a process, SIGKILL included, frees it: a file
    ``NAME.lock`` that is left over blocks nobody. The file only says who the holder is.

    Args:
        path: The file to be written.

    Raises:
        StudyLockedError: If it is held; names the holder.
        StudyFileError: If nothing can be written beside the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(path.name + ".lock")
        self._owner = os.getpid()
        try:
            self._handle = self._acquire(path)
            try:
                os.ftruncate(self._handle, 0)
                os.write(self._handle, json.dumps(_me()).encode())
            except OSError:
                self.release()
                raise
        except OSError as error:
            raise StudyFileError(
                f"Study {str(path)!r} cannot be opened for writing: {error.strerror}."
            ) from error

    def _acquire(self, path: Path) -> int:
        while True:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                _try_lock(handle)
                # Its last holder may have removed it after it was opened here.
                if os.path.samestat(os.fstat(handle), os.stat(self.path)):
                    return handle
            except (BlockingIOError, PermissionError):
                holder = _holder(os.read(handle, 1000))
                os.close(handle)
                raise StudyLockedError(
                    f"Study {str(path)!r} is open for writing in {holder}; it has one writer at a "
                    "time. Close it there, or open it with read_only=True."
                ) from None
            except FileNotFoundError:
                pass
            except BaseException:
                os.close(handle)
                raise
            os.close(handle)

    def release(self) -> None:
        """Let others write; does nothing in a process that was forked from the holder."""
        if os.getpid() != self._owner:
            return
        with suppress(OSError):
            self.path.unlink()
        os.close(self._handle)


def _me() -> dict[str, object]:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": now}


def _holder(content: bytes) -> str:
    try:
        holder = json.loads(content)
        pid, host, since = holder["pid"], holder["host"], holder["since"]
    except (ValueError, LookupError, TypeError):  # it is just about to write who it is
        return "another process"
    here = (pid, host) == (os.getpid(), socket.gethostname())
    process = "this very process" if here else f"process {pid} on {host}"
    return f"{process} since {since}"
