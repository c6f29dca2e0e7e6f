r"""How the command line ends when something does not go as asked."""

INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells report it."""


class UsageError(Exception):
    """What cannot be done as asked: one line on standard error, exit status 2."""
