r"""``python -m experiments``: list the experiments; ``python -m experiments NAME``: run one.

``python -m experiments --list`` names every figure and table of the papers.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from botorch_pref.cli.parser import INTERRUPTED, UsageError
from botorch_pref.progress import notice, quiet
from experiments.contents import contents_text

# Each is a module with its own options and a function `main`.
MEASUREMENTS = {
    "speed": ("speed.command", "this package beside PairwiseGP, Optuna, GPyTorch, Clarabel, IPOPT"),
    "defaults": ("defaults.closed_loop", "the closed loops that chose the default priors"),
    "strategies": ("defaults.strategies", "the closed loops that chose the default strategy"),
    "tutorial": ("defaults.tutorial_loop", "the loop of BoTorch's tutorial on preferences"),
    "beliefs": ("defaults.beliefs", "held-out log probabilities of each inference"),
    "favourites": (
        "defaults.favourites",
        "people with a hidden favourite, and the default strategy",
    ),
    "annotators": ("annotators.light_fields", "answers of 29 people, told apart and pooled"),
    "people": ("annotators.people", "five people of different reliability, told apart and pooled"),
    "others": ("annotators.others", "a cheap judge beside a person, and who answered before"),
    "bounds": ("theory", "what the theorems of the first two papers bound, as numbers"),
    "tempering": ("defaults.tempering", "the loops that chose how far PF-TS explores"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """List the experiments, or run one."""
    name, *arguments = (sys.argv[1:] if argv is None else argv) or [""]
    try:
        if name == "--list":
            print(contents_text())
            return 0
        with quiet("--quiet" in arguments):
            module = MEASUREMENTS.get(name, ("run", ""))[0]
            with notice("starting ..."):
                found = import_module(f"experiments.{module}")
            if name in ("", "-h", "--help"):
                print(_listing())
                return 0
            status: int = (
                found.main(arguments) if name in MEASUREMENTS else found.run(name, arguments)
            )
            return status
    except UsageError as error:
        message = " ".join(str(error).split())
        print(f"python -m experiments {name}: error: {message}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _listing() -> str:
    from experiments.run import listing

    own = "\n".join(f"  {name:<16} {what}" for name, (_, what) in MEASUREMENTS.items())
    return (
        "usage: python -m experiments NAME [--help] ...\n"
        "       python -m experiments --list     every figure and table of the papers\n\n"
        f"experiments:\n{listing()}\n\nmeasurements of this package:\n{own}"
    )


if __name__ == "__main__":
    raise SystemExit(main())
