r"""Errors and warnings, all within BoTorch's own tree.

Catching :class:`botorch.exceptions.errors.BotorchError` (or ``BotorchWarning``)
therefore catches everything that this package raises on purpose.
"""

from __future__ import annotations

from botorch.exceptions.errors import BotorchError, InputDataError, UnsupportedError
from botorch.exceptions.warnings import BotorchWarning

__all__ = [
    "BoundConvergenceWarning",
    "ComparisonDataError",
    "LaplaceConvergenceWarning",
    "PathwiseResidualWarning",
    "SearchSpaceError",
    "StaleQueryError",
    "StudyError",
    "StudyFileError",
    "StudyFileWarning",
    "StudyLockedError",
    "UnsupportedError",
]


class ComparisonDataError(InputDataError):
    """Judgement data that cannot be used; names the argument and the row."""


class SearchSpaceError(InputDataError):
    """A domain, or a candidate for it, that cannot be used; names the argument."""


class StaleQueryError(BotorchError):
    """An answer to a query that is unknown, or that was already told."""


class StudyError(BotorchError):
    """Something that cannot be done with a study; names the argument, or says why."""


class StudyFileError(StudyError):
    """A study's file that cannot be read or written; it is left as it is."""


class StudyLockedError(StudyError):
    """A study that is open for writing elsewhere; names the holder."""


class StudyFileWarning(BotorchWarning):
    """A study's file that was changed since it was saved, and is read all the same."""


class LaplaceConvergenceWarning(BotorchWarning):
    """Newton's method stopped before the gradient of the log posterior vanished."""


class BoundConvergenceWarning(BotorchWarning):
    """A bound over a confidence set was not certified; it lies inside the exact one."""


class PathwiseResidualWarning(BotorchWarning):
    """A pathwise prior draw that lacks a visible part of the prior's variance."""
