r"""A study that a command begins or goes on with."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from botorch_pref.cli.domain import Domain
from botorch_pref.cli.errors import UsageError
from botorch_pref.strategies import Strategy
from botorch_pref.study import Study
from botorch_pref.study.file import exists


def open_study(
    args: argparse.Namespace,
    domain: Domain | None,
    given: str,
    begin: Callable[[Domain], Strategy],
    check: Callable[[Study, str], None],
) -> Study:
    r"""Load a study, or begin it where there is none.

    Args:
        args: The parsed arguments, of which ``study`` and ``seed`` are looked at here.
        domain: What the options say of the domain, if anything.
        given: The options that say it.
        begin: Makes the strategy of a new study.
        check: Raises where a study that is there, under a name, is not what the other options say.

    Returns:
        The study.

    Raises:
        UsageError: If there is neither a study nor a domain, or what is given again for a study
            that is there is not what it was begun with.
    """
    if not exists(args.study):
        if domain is None:
            raise UsageError(f"there is no study {str(args.study)!r} yet; begin it with {given}.")
        made = begin(domain)
        return Study.create(
            args.study, domain.space, made, names=domain.names, levels=domain.levels
        )
    study = Study.load(args.study)
    try:
        name = f"study {str(args.study)!r}"
        check(study, name)
        if domain is not None and not domain.is_that_of(study):
            raise UsageError(f"{name} was begun with other {given}; leave them out to go on.")
        seed = study.strategy.seed
        if args.seed not in (None, seed):
            raise UsageError(f"{name} was begun with --seed {seed}, not {args.seed}.")
    except BaseException:
        study.close()
        raise
    return study
