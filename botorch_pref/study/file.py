r"""The file of a study: JSON with a version and a checksum; it is read and written as a whole.

The right to write it is a lock that the operating system holds, so what ends a process, SIGKILL
included, frees it: a file ``NAME.lock`` that is left over blocks no one. It says who the holder is.
Where there are POSIX locks the file itself is locked as well, by whatever name it is opened. A copy
of what was saved last, ``NAME.bak``, is for the day on which the file turns out to be damaged. A
large table of choices is written once, to ``NAME.npy``; the file has its checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import socket
import stat
import warnings
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from botorch_pref.exceptions import StudyFileError, StudyFileWarning, StudyLockedError
from botorch_pref.runner.store import leftovers, replacing

FORMAT, VERSION = "botorch_pref study", 3
_READ_VERSIONS = (2, VERSION)  # 2 has no checksum
_LARGEST, _DEEPEST = 2**29, 50  # bytes of the file or a table, and lists within lists
_TOO_LARGE = f"it has more than {_LARGEST:,} bytes"
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_UNSIGNED = "0" * 64  # in place of the checksum, when that is computed
_OWN = {"format", "version", "checksum"}
ENTRIES = {
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

    With ``must_exist`` it is one that is there.

    Raises:
        StudyLockedError: If another holds that right; names the holder.
        StudyFileError: If it is no path of a file, nothing can be written beside it, or it is there
            and write-protected.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, writable: bool, must_exist: bool = False
    ) -> None:
        if not isinstance(path, str | os.PathLike):
            raise StudyFileError(f"`path` must be the path of a file, not {path!r}.")
        try:
            self.path, self.writable = Path(path).resolve(), writable
            exists = self.path.exists()
            mode = self.path.stat().st_mode if exists else stat.S_IFREG
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            raise StudyFileError(f"{str(path)!r} leads nowhere: {error}.") from error
        if must_exist and not exists:  # before a lock is put beside it
            raise StudyFileError(f"There is no study {str(path)!r}.{self._advice()}")
        if not stat.S_ISREG(mode):
            kind = _KINDS.get(stat.S_IFMT(mode), "no file")
            raise StudyFileError(f"{str(path)!r} is {kind}, not the file of a study.")
        if writable and exists and not os.access(self.path, os.W_OK):
            raise StudyFileError(f"Study {str(path)!r} is write-protected.")
        self._held: list[int] = []  # the file, locked, and former ones that have other names
        lock = _locked(self.path) if writable else None
        self._release = weakref.finalize(self, _release, lock, self._held, os.getpid())
        # Inode, size and time of change when it was last read or written here.
        self._known: tuple[int, int, int] | None = None
        self._has_table = False
        if not writable:
            return
        try:
            if exists:
                self._hold(self.path)
            for path in (self.path, self.backup, self.table):
                for left in leftovers(path):  # of writers that were killed: nobody writes now
                    left.unlink(missing_ok=True)
        except BaseException as error:
            self.close()
            if isinstance(error, OSError):
                raise _unwritable(self.path, error) from error
            raise

    @property
    def backup(self) -> Path:
        """The copy of what was saved last."""
        return self.path.with_name(self.path.name + ".bak")

    @property
    def table(self) -> Path:
        """The choices, if there are very many."""
        return self.path.with_name(self.path.name + ".npy")

    def close(self) -> None:
        """Let others write."""
        self.writable = False
        self._release()

    def read(self, unverified: bool = False) -> dict[str, Any]:
        """The file's entries, each of its type; the strategy's state is not looked into.

        With ``unverified`` another checksum than that of the content is warned of, not refused.
        """
        self._known = self._stamp()
        try:
            content, is_own = _parsed(self.path)
            if not is_own and not unverified:
                raise ValueError(
                    "it was changed since it was saved: it does not match its checksum. If you "
                    "edited it, load it with unverified=True (botorch-pref: --unverified)"
                )
        except OSError as error:
            raise self.refusal(str(error.strerror)) from error
        except ValueError as error:
            raise self.refusal(str(error)) from error
        for name, kind in ENTRIES.items():
            if not isinstance(content.get(name), kind):
                raise self.refusal(f"its entry {name!r} is missing, or no {kind.__name__}")
        if not is_own:
            warnings.warn(
                f"Study {str(self.path)!r} was changed since it was saved. It is taken as it is, "
                "and signed when it is saved next.",
                StudyFileWarning,
                stacklevel=3,
            )
        return {name: value for name, value in content.items() if name not in _OWN}

    def read_table(self, listed: object) -> Tensor | None:
        """The choices beside the file, if what is listed is their checksum alone."""
        if not isinstance(listed, dict):
            return None
        try:
            known = self.table.stat()
            if not stat.S_ISREG(known.st_mode):
                raise ValueError("it is no file")
            if known.st_size > _LARGEST:
                raise ValueError(_TOO_LARGE)
            # A map reads no pickle, and nothing at all before the sizes are known to be right.
            numbers = np.lib.format.open_memmap(self.table, mode="r")
            rows, columns = (listed.get(name) for name in ("rows", "columns"))
            if numbers.dtype != "<f8" or numbers.shape != (rows, columns):
                raise ValueError(f"it has {numbers.dtype} numbers of shape {numbers.shape}")
            if known.st_size != numbers.offset + numbers.nbytes:
                raise ValueError("something follows its numbers")
            found = torch.from_numpy(np.array(numbers, dtype=np.float64))
        except (OSError, ValueError, EOFError) as error:
            raise StudyFileError(
                f"The choices of study {str(self.path)!r} cannot be read from {str(self.table)!r}: "
                f"{error}."
            ) from error
        self._has_table = True
        return found

    def write(self, content: Mapping[str, str], table: Tensor | None = None) -> None:
        """Put entries into the file, whole and on the disk, or leave what is there.

        Args:
            content: The text in JSON of each.
            table: The choices, if these are not among them; they never change.
        """
        if (found := self._stamp()) is not None and found != self._known:
            raise StudyFileError(
                f"Study {str(self.path)!r} was changed by another program meanwhile; it is left "
                "as it is. Load it again."
            )
        if table is not None and table.numel() * 8 > _LARGEST:
            raise StudyFileError(f"`choices` cannot be saved as a table: {_TOO_LARGE}.")
        head = {"format": FORMAT, "version": VERSION, "checksum": _UNSIGNED}
        texts = {name: json.dumps(value) for name, value in head.items()}
        data = (json_object({**texts, **content}) + "\n").encode()
        data = data.replace(_UNSIGNED.encode(), hashlib.sha256(data).hexdigest().encode(), 1)
        try:
            if table is not None and not self._has_table:
                with replacing(self.table) as temporary, _on_disk(temporary) as file:
                    np.save(file, table.cpu().numpy().astype("<f8", copy=False), allow_pickle=False)
                self._has_table = True
            with replacing(self.path) as temporary:
                with _on_disk(temporary) as file:
                    file.write(data)
                if found is not None:
                    shutil.copymode(self.path, temporary)
                self._hold(temporary)
        except OSError as error:
            raise StudyFileError(
                f"Study {str(self.path)!r} cannot be saved: {error.strerror}."
            ) from error
        _sync_folder(self.path.parent)
        self._known = self._stamp()
        with suppress(OSError), replacing(self.backup) as temporary:  # all is saved without it
            shutil.copyfile(self.path, temporary)
            shutil.copymode(self.path, temporary)

    def refusal(self, why: str) -> StudyFileError:
        """The error that the file is refused with."""
        return StudyFileError(
            f"{str(self.path)!r} cannot be read as a study: {why.rstrip('.')}. It is left as it is."
            f"{self._advice()}"
        )

    def _advice(self) -> str:
        """How to go on from the backup, if it is whole."""
        try:
            content, is_own = _parsed(self.backup)
            number = len(content["told"])
        except (OSError, ValueError, LookupError, TypeError):
            return ""
        if not is_own:
            return ""
        return (
            f" What was saved last, with {number} answer{'s' * (number != 1)}, is in "
            f"{str(self.backup)!r}: copy that to {self.path.name!r} to go on from there."
        )

    def _hold(self, path: Path) -> None:
        """Lock a file itself, which a hard link leads to as well, beside those that are held."""
        if os.name != "posix":
            return
        import fcntl

        handle = os.open(path, os.O_RDWR)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise StudyLockedError(
                f"Study {str(self.path)!r} is open for writing under another name, a hard link; it "
                "has one writer at a time. Close it there, or open it with read_only=True."
            ) from None
        except OSError:  # a file system that cannot do that
            os.close(handle)
            return
        for former in [one for one in self._held if not os.fstat(one).st_nlink]:
            self._held.remove(former)
            os.close(former)
        self._held.append(handle)

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns


def json_object(entries: Mapping[str, str]) -> str:
    """An object in JSON, of the texts of its entries."""
    return "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in entries.items()) + "}"


@contextmanager
def _on_disk(path: Path) -> Iterator[BinaryIO]:
    """A file that is on the disk after the block."""
    with path.open("wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def _parsed(path: Path) -> tuple[dict[str, Any], bool]:
    """What a file holds, and whether it is what was saved; a ValueError says that it is no study.

    Of a version without checksums it is taken to be that.
    """
    known = path.stat()
    if not stat.S_ISREG(known.st_mode):  # a pipe would block
        raise ValueError("it is no file")
    if known.st_size > _LARGEST:
        raise ValueError(_TOO_LARGE)
    data = path.read_bytes()
    try:
        content = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is truncated, or no JSON file at all ({error})") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError("it is a JSON file, but no study")
    version, checksum = content.get("version"), content.get("checksum")
    if type(version) is not int or version not in _READ_VERSIONS:
        why = f"it is of version {version!r}, but this botorch_pref reads version {VERSION}"
        if type(version) is int:
            why += f"; {'a newer' if version > VERSION else 'an older'} one wrote it"
        raise ValueError(why)
    inner: list[Any] = [content]
    for _ in range(_DEEPEST):
        lists = (one for one in inner if isinstance(one, dict | list))
        inner = [x for one in lists for x in (one.values() if isinstance(one, dict) else one)]
    if inner:
        raise ValueError(f"its lists are nested more than {_DEEPEST} deep")
    if checksum is None and version < VERSION:
        return content, True
    unsigned = data.replace(str(checksum).encode(errors="replace"), _UNSIGNED.encode(), 1)
    return content, hashlib.sha256(unsigned).hexdigest() == checksum


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
        raise _unwritable(path, error) from error
    return lock


def _unwritable(path: Path, error: OSError) -> StudyFileError:
    return StudyFileError(f"Study {str(path)!r} cannot be opened for writing: {error.strerror}.")


def _release(lock: FileLock | None, held: list[int], owner: int) -> None:
    """Give up a lock and remove its file first, which a forked process leaves to its parent."""
    for handle in held if os.getpid() == owner else ():
        with suppress(OSError):
            os.close(handle)
    held.clear()
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
