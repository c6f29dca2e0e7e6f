r"""The same work on a device and on the CPU beside it, in double and in single precision.

What has a counterpart in ``PairwiseGP`` is timed beside it on the same device, with the same data,
kernel, priors and link.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, cast

import torch
from botorch.fit import fit_gpytorch_mll
from torch import Size, Tensor
from torch.profiler import ProfilerActivity, profile

from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.problems import LogisticJudge, get_problem
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import DuelingKG
from botorch_pref.strategies.utility import better_of_two
from experiments.defaults.loop import StandardisedProblem
from experiments.speed.duels import DIM, FRESH, Duels, duels
from experiments.speed.likelihood_ratio import batched, instance
from experiments.speed.own import million_cases
from experiments.speed.pairwise import (
    EVIDENCE,
    FIRST_MEAN,
    FIT,
    POSTERIOR,
    Operation,
    evaluation,
    first_mean,
    fit,
    ours_of,
    pairwise_of,
    posterior,
)
from experiments.speed.timing import Case, Run, Side

CPU = torch.device("cpu")
_HERE, _OURS, _ONE = "on the CPU", "PreferenceGP", "one of them"
_REFIT = 10  # duels
_REPEATS = 5
_OPERATIONS: tuple[tuple[str, Operation], ...] = (
    (FIRST_MEAN, first_mean),
    (EVIDENCE, evaluation),
    (POSTERIOR, posterior),
)


class Sizes(NamedTuple):
    """How much there is of everything."""

    duels: tuple[int, ...] = (400, 2_000)
    batches: tuple[int, ...] = (16, 64)
    of_a_batch: tuple[int, ...] = (100, 400)
    replications: tuple[int, tuple[int, ...]] = (64, (1_000, 2_000))  # and duels of each
    million: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    evidence: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    inducing: tuple[int, ...] = (512, 2_048)
    points: tuple[int, int] = (100, 4_096)  # items, and bounds
    loop: tuple[int, int, int] = (64, 256, 40)  # replications, items and duels
    default: int = 20  # duels of the default strategy


QUICK = Sizes((8, 9), (2,), (5,), (2, (6, 7)), (200,), (200,), (8,), (6, 5), (2, 12, 12), 9)


def device_cases(section: str, sizes: Sizes, device: torch.device) -> list[Case]:
    """All rows, those last that take longest."""
    return [
        *_models(section, sizes.duels, device),
        *_batches(section, sizes, device),
        *_bounds(section, sizes, device),
        *_loops(section, sizes, device),
        *_many(section, sizes, device),
        *_beside_pairwise(section, sizes.duels, device),
    ]


def _models(section: str, sizes: Sequence[int], device: torch.device) -> list[Case]:
    """One model, beside the CPU and single precision."""
    cases = []
    for size in sizes:
        here, there = duels(size), duels(size, device=device)
        single = there._replace(X=there.X.float())
        for name, operation in _OPERATIONS:
            ours = partial(operation, ours_of)
            others = (
                Side(f"{_OURS} {_HERE}", partial(ours, *here), 3),
                Side(f"{_OURS}, float32", partial(ours, *single), _REPEATS),
            )
            own = Side(_OURS, partial(ours, *there), _REPEATS)
            remark = _profiled(own) if operation is evaluation and device != CPU else None
            cases.append(Case(section, name, FRESH, size, own, others, remark))
    return cases


def _beside_pairwise(section: str, sizes: Sequence[int], device: torch.device) -> list[Case]:
    """All at the least size, at the largest, where it takes minutes, the first mean alone."""
    cases = []
    for size, name, operation in (
        *((min(sizes), *one) for one in _OPERATIONS),
        (max(sizes), *_OPERATIONS[0]),
    ):
        there = duels(size, device=device)
        ours, other = (
            Side(name, partial(operation, build, *there), repeats)
            for name, build, repeats in ((_OURS, ours_of, _REPEATS), ("PairwiseGP", pairwise_of, 1))
        )
        cases.append(Case(section, f"{name}, both on the device", FRESH, size, ours, (other,)))
    return cases


def _batches(section: str, sizes: Sizes, device: torch.device) -> list[Case]:
    """A batch of models, beside one of them and beside the CPU."""
    few, *_ = sizes.of_a_batch
    number, replicated = sizes.replications
    rows = [(b, m, FIRST_MEAN, first_mean) for b in sizes.batches for m in sizes.of_a_batch]
    rows += [(b, m, EVIDENCE, evaluation) for b in sizes.batches for m in sizes.of_a_batch]
    rows += [(b, few, FIT, fit) for b in sizes.batches]
    rows += [(number, m, FIRST_MEAN, first_mean) for m in replicated]
    rows += [(number, replicated[0], EVIDENCE, evaluation)]  # of more it takes over 80 GB
    cases = []
    for batch, size, name, operation in rows:
        here = duels(size, batch_shape=Size([batch]))
        there = Duels(*(part.to(device) for part in here))
        ours, is_small = partial(operation, ours_of), size not in replicated
        others = [Side(f"a batch {_HERE}", partial(ours, *here), 3 if is_small else 1)]
        single = there._replace(X=there.X.float())
        others.append(Side("a batch, float32", partial(ours, *single), _REPEATS))
        if is_small:
            one = (part[0] for part in there)
            others.append(Side(_ONE, partial(ours, *one), _REPEATS))
        own = Side("a batch", partial(ours, *there), _REPEATS)
        cases.append(Case(section, name, f"{batch} models of {FRESH}", size, own, (*others,)))
    return cases


def _many(section: str, sizes: Sizes, device: torch.device) -> list[Case]:
    """Very many duels; an evidence with the least number of inducing items alone."""
    few = min(sizes.inducing)
    return [
        case
        for number in sizes.inducing
        for case in million_cases(
            section, sizes.million, sizes.evidence if number == few else (), number, device, True
        )
    ]


def _bounds(section: str, sizes: Sizes, device: torch.device) -> list[Case]:
    num_items, num_points = sizes.points
    ours, here = (
        Side(name, partial(batched, instance(num_items, DIM, 1.0, num_points, where)), 5)
        for name, where in (("ConfidenceSet", device), (f"ConfidenceSet {_HERE}", CPU))
    )
    name, data = f"{num_points:,} bounds in one batch", f"{num_items} items, d={DIM}"
    return [Case(section, name, data, None, ours, (here,))]


def _loops(section: str, sizes: Sizes, device: torch.device) -> list[Case]:
    """Replications in one batch, and the default strategy, which has one of everything."""
    number, num_items, horizon = sizes.loop
    work: tuple[tuple[str, str, Callable[[torch.device], Run]], ...] = (
        (
            f"a loop of {horizon} duels, the pair of largest EUBO, a fit at every {_REFIT}th",
            f"{number} replications, {num_items} items",
            partial(_replications, number, num_items, horizon),
        ),
        (f"a loop of {sizes.default} duels", "DuelingKG", partial(_default_loop, sizes.default)),
    )
    return [
        Case(
            section,
            name,
            data,
            None,
            Side(_OURS, partial(prepare, device), 2),
            (Side(f"{_OURS} {_HERE}", partial(prepare, CPU), 1),),
            _agreement,
        )
        for name, data, prepare in work
    ]


def _replications(number: int, num_items: int, horizon: int, device: torch.device) -> Run:
    """Replications side by side, each with its own answers; returns the pairs asked."""
    generator = torch.Generator().manual_seed(0)
    items = torch.rand(num_items, DIM, generator=generator, dtype=torch.double)
    utilities = StandardisedProblem(get_problem("hartmann6"))(items).to(device)
    uniform = torch.rand(horizon, number, generator=generator, dtype=torch.double).to(device)
    first = torch.rand(number, num_items, generator=generator).argsort(-1)[:, :2].to(device)
    X = items.to(device).expand(number, -1, -1)

    def run() -> Tensor:
        pairs, told, state = first, X.new_empty(number, 0, 2, dtype=torch.long), None
        asked = []
        for step in range(horizon):
            asked.append(pairs)
            one, other = utilities[pairs].unbind(-1)
            wins = (uniform[step] < torch.sigmoid(one - other)).unsqueeze(-1)
            told = torch.cat([told, torch.where(wins, pairs, pairs.flip(-1)).unsqueeze(1)], 1)
            model = ours_of(X, told)
            if state is not None:
                model.load_state_dict(state)
            if step % _REFIT == _REFIT - 1:
                fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
                state = model.state_dict()
            pairs = _best_pairs(model, X)
        return torch.stack(asked)

    return run


@torch.no_grad()
def _best_pairs(model: PreferenceGP, X: Tensor) -> Tensor:
    """``b x 2``-dim rows of the pair of largest EUBO of each of ``b x n x d``-dim items."""
    found, size = model.posterior(X), X.shape[-2]
    twice = torch.ones(size, size, dtype=torch.bool, device=X.device).triu()
    pairs = [
        better_of_two(mean, covariance).masked_fill(twice, -torch.inf).argmax()
        for mean, covariance in zip(found.mean.squeeze(-1), found.covariance_matrix, strict=True)
    ]
    best = torch.stack(pairs)
    return torch.stack([best // size, best % size], dim=-1)


def _default_loop(horizon: int, device: torch.device) -> Run:
    problem = StandardisedProblem(get_problem("hartmann6"))
    judge = LogisticJudge(problem)

    def run() -> Tensor:
        strategy = DuelingKG(space=SearchSpace(problem.bounds.to(device)), seed=0)
        asked = []
        for number in range(horizon):
            query = strategy.ask()
            asked.append(query.items.cpu())
            strategy.tell(query, judge(query, number))
        return torch.stack(asked)

    return run


def _agreement(results: Sequence[object]) -> str:
    """How many questions are the same on both sides, up to rounding."""
    ours, here = (cast("Tensor | None", found) for found in results)
    if ours is None or here is None:
        return ""
    alike = ((ours.cpu() - here).abs().flatten(1).amax(-1) <= 1e-6).tolist()
    same = alike.index(False) if False in alike else len(alike)
    return f"the first {same} of {len(alike)} questions are the same on both"


def _profiled(side: Side) -> Callable[[Sequence[object]], str]:
    """A remark: what the device is asked for, and for how much of the time it works."""

    def remark(results: Sequence[object]) -> str:
        del results
        run = side.prepare()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as found:
            run()
            torch.cuda.synchronize()
        events = [event for event in found.events() if event.device_type.name == "CUDA"]
        copies = sum("DtoH" in event.name for event in events)
        spans = [event.time_range for event in found.events()]
        whole = max(span.end for span in spans) - min(span.start for span in spans)
        busy = sum(event.time_range.elapsed_us() for event in events)
        share = f"at work for {100.0 * busy / whole:.0f} % of the time"
        return f"{len(events)} launches, {copies} transfers to the CPU, {share}"

    return remark
