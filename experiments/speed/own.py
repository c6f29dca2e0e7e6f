r"""What is timed of this package alone: a suggestion of every strategy, and very many duels."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from botorch_pref.models import PreferenceGP
from botorch_pref.problems import LogisticJudge, get_problem
from botorch_pref.problems.judges import utilities_of
from botorch_pref.queries import Duel, Label, Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import COBOL
from botorch_pref.strategies.base import Strategy
from botorch_pref.strategies.registry import get_strategy
from experiments.baselines import BASELINES
from experiments.defaults.loop import StandardisedProblem
from experiments.speed.duels import DIM, FRESH, duels, probes
from experiments.speed.pairwise import EVIDENCE, evaluation
from experiments.speed.timing import Case, Run, Side

COBOL_NAME = "cobol"
STRATEGIES = (
    "dueling-kg",
    "pf-ts",
    "mr-lpf",
    "max-min-lcb",
    "pop-bo",
    "eubo",
    "dts",
    "sgp",
    COBOL_NAME,
    "comp-gp-ucb",
    "cost-aware-kg",
    "gp-ucb",
    "mf-gp-ucb",
    "borda-ucb",
    "self-sparring",
    "gp-ts",
)
_REPEATS = 11  # of which one comes with new hyperparameters, after 100 answers


def ask_cases(section: str, size: int, device: torch.device) -> list[Case]:
    """The rows of the strategies."""
    data = f"{{m}} answers, d={DIM}, a box"
    cases = []
    for name in STRATEGIES:
        ours = Side(name, Loop(name, size, device).prepare, _REPEATS)
        cases.append(Case(section, "an answer and a suggestion (tell, ask)", data, size, ours))
    return cases


class Loop:
    r"""A strategy in a closed loop with a judge.

    Args:
        name: The strategy's, of :func:`~botorch_pref.strategies.registry.get_strategy`; or COBOL's,
            whose expert accepts what is better than an average item.
        size: How many answers it has when it is first timed, the last of them told then.
        device: Where it computes.
    """

    def __init__(self, name: str, size: int, device: torch.device) -> None:
        self.name, self.size, self.device = name, size, device
        self.strategy: Strategy | None = None

    def prepare(self) -> Run:
        """Plays up to an answer; to tell it and to ask on is what is returned."""
        problem = StandardisedProblem(get_problem("hartmann6"))
        judge = LogisticJudge(problem)

        def answer(query: Query, number: int) -> float:
            if isinstance(query, Label):
                return float(utilities_of(problem, query) > 0.0)
            return judge(query, number)

        if self.strategy is None:
            self.strategy = self._made(SearchSpace(problem.bounds.to(self.device)))
            for number in range(self.size - 1):
                query = self.strategy.ask()
                self.strategy.tell(query, answer(query, number))
        strategy = self.strategy
        query = strategy.ask()  # if it was timed, it is open
        told = answer(query, len(strategy.history))

        def run() -> Query:
            strategy.tell(query, told)  # what some learn, and plan, then
            return strategy.ask()

        return run

    def _made(self, space: SearchSpace) -> Strategy:
        if self.name == COBOL_NAME:
            return COBOL(space=space, seed=0)
        if self.name in BASELINES:
            return BASELINES[self.name](space=space, seed=0)
        return get_strategy(self.name, space, seed=0, horizon=self.size + _REPEATS)


SIZED = ("dueling-kg", "eubo", "pf-ts", "pop-bo-laplace")
_SIZE_REPEATS = 3
_FEW_ANSWERS, _COLUMNS = 100, 8  # of tables of very many choices


def size_cases(
    section: str, answers: Sequence[int], choices: Sequence[int], device: torch.device
) -> list[Case]:
    """The rows of very many answers on a box, and of very many choices."""
    cases = []
    for name in SIZED:
        box = [(size, None, f"{{m}} duels, d={DIM}, a box") for size in answers]
        data = f"{_FEW_ANSWERS} duels, {{}} choices, d={_COLUMNS}"
        tables = [(_FEW_ANSWERS, rows, data.format(f"{rows:,}")) for rows in choices]
        for size, rows, told in (*box, *tables):
            ours = Side(name, partial(_informed, name, size, rows, device), _SIZE_REPEATS)
            point = size if rows is None else None
            cases.append(
                Case(section, "a fit and a suggestion (ask)", told, point, ours, remark=_memory)
            )
    return cases


def _informed(name: str, size: int, rows: int | None, device: torch.device) -> Run:
    """A strategy that knows so many random duels; to ask it is what is timed."""
    generator = torch.Generator().manual_seed(0)
    problem = StandardisedProblem(get_problem("hartmann6"))
    table = torch.rand(rows or 2 * size, _COLUMNS, dtype=torch.double, generator=generator)
    pairs = torch.randperm(len(table), generator=generator)[: 2 * size].view(size, 2)
    judge = LogisticJudge(problem)
    known = []
    for row, (first, second) in enumerate(pairs.tolist()):
        items = table[[first, second]]
        answer = judge(Duel(row, items[:, :DIM]), row)
        items, indices = (items[:, :DIM], None) if rows is None else (items, (first, second))
        known.append((Duel(row, items, indices), answer))
    space = SearchSpace(problem.bounds.to(device))
    if rows is not None:
        space = SearchSpace(choices=table.to(device))
    return get_strategy(name, space, seed=0, known=known).ask


_MILLION_REPEATS = 3


def million_cases(
    section: str,
    sizes: Sequence[int],
    evidence_sizes: Sequence[int],
    num_inducing: int,
    device: torch.device,
    single: bool = False,
) -> list[Case]:
    """The rows of very many duels of new items, beside single precision where that is asked for."""
    cases = []
    suffix = f", {num_inducing} inducing items"
    for size in sizes:
        prepare = partial(_mode_and_posterior, size, num_inducing, device)
        ours = Side("PreferenceGP", partial(prepare, torch.double), _MILLION_REPEATS)
        rough = Side("PreferenceGP, float32", partial(prepare, torch.float), _MILLION_REPEATS)
        name, others = "mode and posterior of 64 pairs" + suffix, (rough,) if single else ()
        cases.append(Case(section, name, FRESH, size, ours, others, _memory))
    for size in evidence_sizes:
        ours = Side(
            "PreferenceGP", partial(_evidence, size, num_inducing, device), _MILLION_REPEATS
        )
        cases.append(Case(section, EVIDENCE + suffix, FRESH, size, ours))
    return cases


def _mode_and_posterior(
    size: int, num_inducing: int, device: torch.device, dtype: torch.dtype
) -> Run:
    X, comparisons = duels(size, device=device)
    X = X.to(dtype)
    pairs = probes(X)

    def run() -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            model = PreferenceGP(X, comparisons, inducing_points=num_inducing)
            posterior = model.posterior(pairs)
            return posterior.mean, posterior.distribution.covariance_matrix

    return run


def _evidence(size: int, num_inducing: int, device: torch.device) -> Run:
    build = partial(PreferenceGP, inducing_points=num_inducing)
    return evaluation(build, *duels(size, device=device))


def _memory(results: Sequence[object]) -> str:
    if torch.cuda.is_initialized():
        return f"peak memory of the device {torch.cuda.max_memory_allocated() / 1e9:.2f} GB"
    return f"peak memory {peak_gigabytes():.2f} GB"


def peak_gigabytes() -> float:
    """The largest memory that this process has had so far; not a number where nobody knows."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1.0 if sys.platform == "darwin" else 1024.0) / 1e9
