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


class Sizes(NamedTuple):
    """How much there is of everything."""

    duels: tuple[int, ...] = (400, 2_000)
    batches: tuple[int, ...] = (16, 64)
    of_a_batch: tuple[int, ...] = (100, 400)
    replications: tuple[int, int] = (64, 2_000)  # and duels of each
    million: tuple[int, ...] = (10_000, 100_000, 1_000_000, 10_000_000)
    evidence: tuple[int, ...] = (10_000, 100_000, 1_000_000)
    inducing: tuple[int, ...] = (512, 2_048)
    points: tuple[int, int] = (100, 4_096)  # items, and bounds
    loop: tuple[int, int, int] = (64, 256, 40)  # replications, items and duels
    default: int = 30  # duels of the default strategy


QUICK = Sizes((8,), (2,), (5,), (2, 6), (200,), (200,), (8,), (6, 5), (2, 12, 12), 9)


def device_cases(section: str, sizes: Sizes, device: torch.device) -> list[Case]:
    """All rows."""
    return [
        *_many(section, sizes, device),
        *_models(section, sizes, device),
        *_batches(section, sizes, device),
        *_bounds(section, sizes, device),
        *_loops(section, sizes, device),
    ]


def _models(section: str, sizes: Sizes, device: torch.device) -> list[Case]:
    """One model, beside the CPU, single precision and ``PairwiseGP``."""
    operations: tuple[tuple[str, Operation, int], ...] = (
        (FIRST_MEAN, first_mean, 5),
        (EVIDENCE, evaluation, 11),
        (POSTERIOR, posterior, 11),
    )
    cases = []
    for size in sizes.duels:
        here, there = duels(size), duels(size, device=device)
        for name, operation, repeats in operations:
            ours = partial(operation, ours_of)
            others = (
                Side(f"{_OURS} {_HERE}", partial(ours, *here), repeats),
                Side(f"{_OURS}, float32", partial(ours, *_single(there)), repeats),
                Side("PairwiseGP", partial(operation, pairwise_of, *there), 1),
            )
            own = Side(_OURS, partial(ours, *there), repeats)
            remark = _profiled(own) if operation is evaluation and device != CPU else None
            cases.append(Case(section, name, FRESH, size, own, others, remark))
    return cases


def _batches(section: str, sizes: Sizes, device: torch.device) -> list[Case]:
    """A batch of models, beside one of them and beside the CPU."""
    cases = []
    shapes = [(number, size) for number in sizes.batches for size in sizes.of_a_batch]
    small = (FIRST_MEAN, first_mean, 5), (EVIDENCE, evaluation, 7), (FIT, fit, 1)
    for number, size in (*shapes, sizes.replications):
        here = duels(size, batch_shape=Size([number]))
        there = Duels(*(part.to(device) for part in here))
        is_large = (number, size) == sizes.replications
        for name, operation, repeats in small[:2] if is_large else small:
            ours = partial(operation, ours_of)
            others = [Side(f"a batch {_HERE}", partial(ours, *here), 1 if is_large else repeats)]
            if not is_large:
                one = (part[0] for part in there)
                others.append(Side(_ONE, partial(ours, *one), repeats))
            own = Side("a batch", partial(ours, *there), repeats)
            what = f"{number} models of {FRESH}"
            cases.append(Case(section, name, what, size, own, (*others,)))
    return cases


def _many(section: str, sizes: Sizes, device: torch.device) -> list[Case]:
    return [
        case
        for number in sizes.inducing
        for case in million_cases(section, sizes.million, sizes.evidence, number, device)
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


def _single(known: Duels) -> Duels:
    return known._replace(X=known.X.float())


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
        events = [e for e in found.events() if e.device_type == torch.autograd.DeviceType.CUDA]
        copies = sum("DtoH" in event.name for event in events)
        spans = [event.time_range for event in found.events()]
        whole = max(span.end for span in spans) - min(span.start for span in spans)
        busy = sum(event.time_range.elapsed_us() for event in events)
        return (
            f"{len(events)} launches, {copies} transfers to the CPU, at work for "
            f"{100.0 * busy / whole:.0f} % of the time"
        )

    return remark
