"""The whole campaign of faults: ``python -m tests.faults`` prints a table of trials and failures.

With ``--share 0.1`` it makes a tenth of the trials, with another ``--seed`` others. The status is 1
if a trial failed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tests.faults import test_command_lines, test_extreme_numbers, test_files, test_states
from tests.faults.common import Campaign


def parts(seed: int, share: float) -> dict[str, Callable[[Path], Campaign]]:
    """What makes the trials of each part, in a folder of its own."""

    def trials(number: int) -> int:
        return max(1, round(share * number))

    files = {
        campaign.__name__: partial(campaign, trials(most), seed)
        for campaign, (_, most) in test_files.CAMPAIGNS.items()
    }
    return {
        **files,
        "states": lambda _: test_states.campaign(trials(5000), seed),
        "command lines": lambda _: test_command_lines.campaign(trials(3000), seed),
        "extreme numbers": lambda _: test_extreme_numbers.campaign(trials(5000), seed),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all parts, and print one table."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of all trials")
    parser.add_argument("--share", type=float, default=1.0, help="of the trials")
    options = parser.parse_args(arguments)
    whole = Campaign()
    for name, part in parts(options.seed, options.share).items():
        print(f"{name} ...", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory() as folder:
            whole.add(found := part(Path(folder)))
        for failure in found.failures:  # at once, as the rest takes long
            print(failure, file=sys.stderr, flush=True)
    print(whole.table())
    print(f"{len(whole.failures)} failures", *whole.failures, sep="\n")
    return int(bool(whole.failures))


if __name__ == "__main__":
    sys.exit(main())
