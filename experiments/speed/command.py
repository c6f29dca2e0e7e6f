r"""``python -m experiments speed``: time this package beside others, print and save it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from time import perf_counter

from experiments.arguments import RESULTS, Parser, UsageError, count, positive, writable_folder

SECTIONS = ("million", "models", "scaling", "batches", "ask", "likelihood-ratio")
_LIMIT = 60.0
_FOLDER = RESULTS / "speed"
# Read by the libraries under NumPy and SciPy as they are loaded.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

_DESCRIPTION = """\
Time this package beside others, in one process and with the same data; beside PairwiseGP also with
the same kernel, priors, link and start. Prints seconds, ratios and which aims were met, and saves
them with a log-log plot and its slopes.
"""
_EPILOG = """\
sections:
  million           10,000 to 1,000,000 duels, 512 inducing items: time and peak memory, ours alone
  models            fit, evidence, posterior and EUBO at 400 fresh duels, and at 25,600 duels of 50
                    items, beside BoTorch's PairwiseGP
  scaling           the same for 25 to 1,600 fresh duels, and 100 to 25,600 duels of 50 items; one
                    suggestion beside Optuna's preferential sampler (botorch-pref[optuna]); fit and
                    predictions beside a variational classifier of GPyTorch
  batches           16 models at once beside a loop over them, and beside one
  ask               from the 100th answer to the next suggestion, every strategy, 6 dimensions
  likelihood-ratio  bounds beside CVXPY with Clarabel and CasADi with IPOPT (botorch-pref[bench])

Closed loops of all strategies are timed by `python -m experiments ackley` and `catalyst`.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Time the sections that are asked for.

    Raises:
        UsageError: If something cannot be done as asked.
    """
    parser = Parser("experiments speed", _DESCRIPTION, _EPILOG)
    parser.add_argument(
        "--what",
        choices=SECTIONS,
        nargs="+",
        default=SECTIONS,
        metavar="SECTION",
        help="some of the sections below; default: all",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--threads", type=count, default=1, metavar="N", help="default: 1")
    parser.add_argument(
        "--limit",
        type=positive,
        default=_LIMIT,
        metavar="SECONDS",
        help=f"what took longer is not timed at larger sizes; default: {_LIMIT:g}",
    )
    parser.add_argument(
        "--quick", action="store_true", help="a few duels, to see that everything works"
    )
    parser.add_argument(
        "--out",
        type=type(_FOLDER),
        default=_FOLDER,
        metavar="DIR",
        help="folder for speed.csv, which grows case by case, speed.txt and speed.png; "
        f"default: {_FOLDER}",
    )
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    args = parser.parse_args(argv)
    for name in _THREADS:
        os.environ[name] = str(args.threads)
    from botorch_pref.exceptions import UnsupportedError
    from experiments.speed import speed_table
    from experiments.speed.report import FILES, save_speed, setting, speed_text

    start = perf_counter()
    writable_folder(args.out, FILES)
    try:
        table = speed_table(
            device=args.device,
            quick=args.quick,
            threads=args.threads,
            progress=not args.quiet,
            sections=args.what,
            limit=args.limit,
            path=args.out / FILES[0],
        )
        title = setting(args.device, args.threads)
        text = f"{title}\n\n{speed_text(table)}"
        print(text)
        paths = save_speed(table, text, title, args.out)
    except UnsupportedError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise UsageError(f"cannot write to {str(args.out)!r}: {error.strerror}") from error
    print("\n".join(["", *map(str, paths), f"took {perf_counter() - start:.0f} s"]))
    return 0
