r"""The file of a study: JSON, with a version, read whole or refused, and written whole or not."""

from __future__ import annotations

import json
import os
import shutil
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from botorch_pref.exceptions import StudyError, StudyFileError
from botorch_pref.runner.history import replacing
from botorch_pref.study.lock import WriterLock

FORMAT, VERSION = "botorch_pref study", 2
_WITHOUT_STOPPING = 1  # the version that knew of no stopping rule, nor of levels
_TYPES = {
    "description": str,
    "created": str,
    "dimensions": list,
    "strategy": dict,
    "told": list,
    "rewind": list,
    "stopping": dict,
}


class _Stamp(NamedTuple):
    """By which it is seen that another program has written a file."""

    inode: int
    size: int
    modified: int


def is_there(path: str | os.PathLike[str]) -> bool:
    r"""Whether there is a file.

    Raises:
        StudyFileError: If that cannot be found out, as in a folder that is closed to the user.
    """
    try:
        return Path(path).exists()
    except (OSError, RuntimeError) as error:
        raise StudyFileError(f"{str(path)!r} cannot be looked up: {error}.") from error


class StudyFile:
    r"""A study's file, and the right to write it.

    Args:
        path: The file; another name of it is resolved.
        writable: Whether it is to be written, by this object alone until :meth:`close`, or
            until nothing refers to it any more.

    Raises:
        StudyLockedError: If another holds the right to write it; names the holder.
        StudyFileError: If nothing can be written beside it, or it is there and write-protected.
    """

    def __init__(self, path: str | os.PathLike[str], *, writable: bool) -> None:
        try:
            self.path, self.writable = Path(path).resolve(), writable
        except (OSError, RuntimeError) as error:
            raise StudyFileError(f"{str(path)!r} leads nowhere: {error}.") from error
        if writable and is_there(self.path) and not os.access(self.path, os.W_OK):
            raise StudyFileError(f"Study {str(path)!r} is write-protected.")
        lock = WriterLock(self.path) if writable else None
        self._release = weakref.finalize(self, lock.release if lock else lambda: None)
        # As it was when it was last read or written here.
        self._known: _Stamp | None = None

    def close(self) -> None:
        """Let others write."""
        self.writable = False
        self._release()

    def check_writable(self) -> None:
        """Raises StudyError unless it may be written."""
        if not self.writable:
            raise StudyError(
                f"Study {str(self.path)!r} is closed, or was opened with read_only=True."
            )

    def read(self) -> dict[str, Any]:
        r"""The file's entries, each of its type; the strategy's state is not looked into.

        Raises:
            StudyFileError: If there is no file, or it is truncated, foreign or of a newer
                version; says which.
        """
        self._known = self._stamp()
        try:
            content = json.loads(self.path.read_bytes().decode())
        except FileNotFoundError:
            raise StudyFileError(f"There is no study {str(self.path)!r}.") from None
        except OSError as error:
            raise self.refusal(str(error.strerror)) from error
        except (ValueError, RecursionError) as error:
            raise self.refusal(f"it is truncated, or no JSON file at all ({error})") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise self.refusal("it is a JSON file, but no study")
        version = content.get("version")
        if version == _WITHOUT_STOPPING:
            content = {"stopping": {}, **content}
        elif version != VERSION:
            newer = isinstance(version, int) and version > VERSION
            raise self.refusal(
                f"it is of version {version!r}, but this botorch_pref reads those up to {VERSION}"
                + ("; a newer one wrote it" if newer else "")
            )
        for name, kind in _TYPES.items():
            if not isinstance(content.get(name), kind):
                raise self.refusal(f"its entry {name!r} is missing, or no {kind.__name__}")
        return content

    def write(self, content: dict[str, Any]) -> None:
        r"""Put entries into the file, whole and on the disk, or leave what is there.

        Args:
            content: The entries, format and version aside.

        Raises:
            StudyFileError: If it cannot be written, or another program has changed it.
        """
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

    def _stamp(self) -> _Stamp | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return _Stamp(found.st_ino, found.st_size, found.st_mtime_ns)


def _sync_folder(folder: Path) -> None:
    # So that the new name outlasts a power cut; some systems cannot, and none needs it otherwise.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
