r"""Folders for results, tried out before anything is played."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterable
from pathlib import Path

from botorch_pref.cli.errors import UsageError


def writable_folder(folder: Path, files: Iterable[str]) -> Path:
    r"""Make a folder, and see that results can be written there.

    Args:
        folder: The folder.
        files: The names of the files that are going to be written.

    Returns:
        The folder.

    Raises:
        UsageError: If it cannot be made or written to.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in files:
            if (folder / name).is_dir():
                raise IsADirectoryError(errno.EISDIR, f"{name} is a folder there")
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(f"cannot write to {str(folder)!r}: {error.strerror}") from error
    return folder
