r"""``python -m experiments speed``: time this package beside others, print and save it."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import torch

from botorch_pref.cli.parser import UsageError, count
from experiments.arguments import RESULTS, Parser, positive, writable_folder
from experiments.speed.devices import QUICK, Sizes, device_cases
from experiments.speed.duels import Grid
from experiments.speed.likelihood_ratio import likelihood_ratio_cases
from experiments.speed.own import ask_cases, million_cases, size_cases
from experiments.speed.pairwise import batch_cases, pairwise_cases
from experiments.speed.peers import suggestion_cases, variational_cases
from experiments.speed.report import FILES, save_speed, setting, speed_text
from experiments.speed.timing import LIMIT, Case, time_cases

# In the order in which they are timed. Memory comes first, as what came before would count.
SECTIONS = {
    "million": "10,000 to 1,000,000 duels, 512 inducing items: time and peak memory, ours alone",
    "models": "fit, evidence, posterior and EUBO at 400 duels of new items, and at 25,600 duels of "
    "50 items, beside BoTorch's PairwiseGP",
    "scaling": "the same for 25 to 1,600 and 100 to 25,600 duels; one suggestion beside Optuna's "
    "preferential sampler (botorch-pref[optuna]); fit and predictions beside a variational "
    "classifier of GPyTorch",
    "batches": "16 models at once beside a loop over them, and beside one",
    "ask": "from the 100th answer to the next suggestion, every strategy, 6 dimensions",
    "size": "a fit and a suggestion after 100 to 10,000 duels, and of up to 1,000,000 choices",
    "likelihood-ratio": "bounds beside CVXPY with Clarabel and CasADi with IPOPT "
    "(botorch-pref[bench])",
    "devices": "the same work on the device and on the CPU beside it, with --device cuda: batches, "
    "10,000,000 duels, a loop of 64 replications; beside PairwiseGP on the device",
}
_DESCRIPTION = """\
Time this package beside others, in one process and with the same data; beside PairwiseGP also with
the same kernel, priors, link and start. Prints seconds, ratios and which aims were met, and saves
them with a log-log plot and its slopes."""
# Read by the libraries under NumPy and SciPy, of this process and of those it starts.
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class _Sizes(NamedTuple):
    """How many duels there are."""

    million: tuple[int, ...]
    evidence: tuple[int, ...]
    inducing: int
    models: Grid
    scaling: Grid
    batches: tuple[int, ...]
    ask: int
    answers: tuple[int, ...]
    choices: tuple[int, ...]


_FULL = _Sizes(
    million=(10_000, 100_000, 1_000_000),
    evidence=(10_000, 100_000),
    inducing=512,
    models=Grid((400,), (25_600,)),
    scaling=Grid((25, 50, 100, 200, 400, 800, 1_600), (100, 400, 1_600, 6_400, 25_600)),
    batches=(25, 100, 400),
    ask=100,
    answers=(100, 300, 1_000, 3_000, 10_000),
    choices=(10_000, 1_000_000),
)
_QUICK = _Sizes(
    million=(1_000, 2_000),
    evidence=(1_000, 2_000),
    inducing=64,
    models=Grid((12,), (24,)),
    scaling=Grid((6, 12), (24,)),
    batches=(25,),
    ask=2,
    answers=(12,),
    choices=(60,),
)


def speed_cases(device: torch.device, quick: bool, sections: set[str]) -> list[Case]:
    """What is timed, in the order of the sections; ``scaling`` has what ``models`` has."""
    sizes = _QUICK if quick else _FULL
    cases: list[Case] = []
    if "million" in sections:
        cases += million_cases("million", sizes.million, sizes.evidence, sizes.inducing, device)
    if "scaling" in sections:
        for peers in (pairwise_cases, suggestion_cases, variational_cases):
            cases += peers("scaling", sizes.scaling, device)
    elif "models" in sections:
        cases += pairwise_cases("models", sizes.models, device)
    if "batches" in sections:
        cases += batch_cases("batches", sizes.batches, device)
    if "ask" in sections:
        cases += ask_cases("ask", sizes.ask, device)
    if "size" in sections:
        cases += size_cases("size", sizes.answers, sizes.choices, device)
    if "devices" in sections and (quick or device.type != "cpu"):
        cases += device_cases("devices", QUICK if quick else Sizes(), device)
    if "likelihood-ratio" in sections:
        cases += likelihood_ratio_cases("likelihood-ratio", device, quick)
    return cases


def main(argv: Sequence[str] | None = None) -> int:
    """Time the sections that are asked for."""
    folder = RESULTS / "speed"
    parser = Parser("experiments speed", _DESCRIPTION, _epilog())
    what = {"nargs": "+", "metavar": "SECTION", "help": "some of the sections below; default: all"}
    parser.add_argument("--what", choices=SECTIONS, default=[*SECTIONS], **what)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    parser.add_argument("--threads", type=count, default=1, metavar="N", help="default: 1")
    limit = f"what took longer is not timed at larger sizes; default: {LIMIT:g}"
    parser.add_argument("--limit", type=positive, default=LIMIT, metavar="SECONDS", help=limit)
    quick = "a few duels once each, to see that everything works"
    parser.add_argument("--quick", action="store_true", help=quick)
    out = f"folder for {', '.join(FILES)}; default: {folder}"
    parser.add_argument("--out", type=Path, default=folder, metavar="DIR", help=out)
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        raise UsageError("device 'cuda' is not available here.")
    for name in _THREADS:
        os.environ[name] = str(args.threads)
    start = perf_counter()
    writable_folder(args.out, FILES)
    table = time_cases(
        speed_cases(torch.device(args.device), args.quick, {*args.what}),
        args.device,
        args.threads,
        not args.quiet,
        args.limit,
        once=args.quick,
        path=args.out / FILES[0],
    )
    title = setting(args.device, args.threads)
    text = f"{title}\n\n{speed_text(table)}"
    print(text)
    paths = save_speed(table, text, title, args.out)
    print("\n".join(["", *map(str, paths), f"took {perf_counter() - start:.0f} s"]))
    return 0


def _epilog() -> str:
    lines = ["sections:"]
    for name, what in SECTIONS.items():
        indent = " " * 20
        lines += textwrap.wrap(f"  {name:<18}{what}", 98, subsequent_indent=indent)
    return "\n".join(lines)
