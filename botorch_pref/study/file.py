r"""The file of a study: JSON with a version; it is read and written as a whole.

The right to write it is a lock that the operating system holds, so what ends a process, SIGKILL
included, frees it: a file ``NAME.lock`` that is left over blocks no one. It says who the holder is.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import weakref
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from botorch_pref.exceptions import StudyFileError, StudyLockedError
from botorch_pref.runner.store import replacing

FORMAT, VERSION = "botorch_pref study", 2
_TYPES = {
    "description": str,
    "created": str,
    "dimensions": list,
    "strategy": dict,
    "told": list,
    "rewind": list,
    "stopping": dict,
}


class StudyFile:
    r"""A study's file, and if it is writable the right to write it, until :meth:`close`.

    Raises:
        StudyLockedError: If another holds that right; names the holder.
        StudyFileError: If nothing can be written beside it, or it is there and write-protected.
    """

    def __init__(self, path: str | os.PathLike[str], *, writable: bool) -> None:
        try:
            self.path, self.writable = Path(path).resolve(), writable
        except (OSError, RuntimeError) as error:
            raise StudyFileError(f"{str(path)!r} leads nowhere: {error}.") from error
        if writable and os.path.exists(self.path) and not os.access(self.path, os.W_OK):
            raise StudyFileError(f"Study {str(path)!r} is write-protected.")
        lock = _locked(self.path) if writable else None
        self._release = weakref.finalize(self, _release, lock)
        # Inode, size and time of change when it was last read or written here.
        self._known: tuple[int, int, int] | None = None

    def close(self) -> None:
        """Let others write."""
        self.writable = False
        self._release()

    def read(self) -> dict[str, Any]:
        """The file's entries, each of its type; the strategy's state is not looked into."""
        self._known = self._stamp()
        try:
            content = json.loads(self.path.read_bytes().decode())
        except OSError as error:
            raise self.refusal(str(error.strerror)) from error
        except (ValueError, RecursionError) as error:
            raise self.refusal(f"it is truncated, or no JSON file at all ({error})") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise self.refusal("it is a JSON file, but no study")
        version = content.get("version")
        if version != VERSION:
            why = f"it is of version {version!r}, but this botorch_pref reads version {VERSION}"
            if isinstance(version, int):
                why += f"; {'a newer' if version > VERSION else 'an older'} one wrote it"
            raise self.refusal(why)
        for name, kind in _TYPES.items():
            if not isinstance(content.get(name), kind):
                raise self.refusal(f"its entry {name!r} is missing, or no {kind.__name__}")
        return content

    def write(self, content: dict[str, Any]) -> None:
        """Put entries into the file, whole and on the disk, or leave what is there."""
        if (found := self._stamp()) is not None and found != self._known:
            raise StudyFileError(
                f"Study {str(self.path)!r} was changed by another program meanwhile; it is left "
                "as it is. Load it again."
            )
        text = json.dumps({"format": FORMAT, "version": VERSION, **content})
        try:
            with replacing(self.path) as temporary:
                with temporary.open("w", encoding="utf-8") as file:
                    file.write(text + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                if found is not None:
                    shutil.copymode(self.path, temporary)
        except OSError as error:
            raise StudyFileError(
                f"Study {str(self.path)!r} cannot be saved: {error.strerror}."
            ) from error
        _sync_folder(self.path.parent)
        self._known = self._stamp()

    def refusal(self, why: str) -> StudyFileError:
        """The error that the file is refused with."""
        return StudyFileError(
            f"{str(self.path)!r} cannot be read as a study: {why.rstrip('.')}. It is left as it is."
        )

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def _locked(path: Path) -> FileLock:
    """The lock beside a file, held, with its holder's name in it."""

    def sign(handle: int) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(holder).encode())

    lock = FileLock(
        path.with_name(path.name + ".lock"),
        timeout=0,
        mode=0o666,
        thread_local=False,
        on_acquired=sign,
    )
    try:
        path.parent.stat()  # which the lock would make
        lock.acquire()
    except Timeout:
        raise StudyLockedError(
            f"Study {str(path)!r} is open for writing in {_holder(Path(lock.lock_file))}; it has "
            "one writer at a time. Close it there, or open it with read_only=True."
        ) from None
    except OSError as error:
        raise StudyFileError(
            f"Study {str(path)!r} cannot be opened for writing: {error.strerror}."
        ) from error
    return lock


def _release(lock: FileLock | None) -> None:
    """Give up a lock and remove its file first, which a forked process leaves to its parent."""
    if lock is not None and lock.is_locked:
        with suppress(OSError):
            os.unlink(lock.lock_file)
        lock.release()


def _holder(lock_file: Path) -> str:
    try:
        holder = json.loads(lock_file.read_bytes())
        pid, host, since = holder["pid"], holder["host"], holder["since"]
    except (OSError, ValueError, LookupError, TypeError):  # nothing is written there yet
        return "another process"
    here = (pid, host) == (os.getpid(), socket.gethostname())
    return f"{'this very process' if here else f'process {pid} on {host}'} since {since}"


def _sync_folder(folder: Path) -> None:
    # Keeps the new name after a power cut, on systems that can do that.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
