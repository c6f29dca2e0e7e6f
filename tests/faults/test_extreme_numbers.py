"""Numbers whose squares, ranges or tables cannot be represented are refused by name."""

from __future__ import annotations

import inspect
import json
import math
import random
import re
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from botorch.exceptions.errors import BotorchError
from gpytorch.kernels import Kernel, RBFKernel
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref import strategies
from botorch_pref.exceptions import ComparisonDataError, SearchSpaceError, UnsupportedError
from botorch_pref.kernels import ComparisonBiasKernel
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood, SoftmaxLikelihood
from botorch_pref.models import (
    BernoulliGP,
    BordaGP,
    FullyBayesianPreferenceGP,
    LikelihoodRatioModel,
    PreferenceGP,
)
from botorch_pref.problems.registry import get_problem
from botorch_pref.queries import Duel, Evaluate
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import (
    COBOL,
    DTS,
    EUBO,
    MRLPF,
    PFTS,
    POPBO,
    CompGPUCB,
    CostAwareKG,
    DuelingKG,
    LaplacePOPBO,
    MaxMinLCBStrategy,
    MultipleChoicePOPBO,
    RandomPairs,
    Strategy,
)
from tests.faults.common import Campaign
from tests.models.common import rand

PAIRS = torch.tensor([[0, 1], [2, 3]])
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()
HUGE = torch.tensor([[1.7e308, 0.0], [-1.7e308, 1.0], [1.0, 2.0]]).double()


def box(lower: float, upper: float, **kinds: Any) -> SearchSpace:
    return SearchSpace(torch.tensor([[lower], [upper]], dtype=torch.double), **kinds)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (
            lambda: PreferenceGP(rand(5, 2) * 1e300, PAIRS),
            ComparisonDataError,
            "`datapoints` row 0",
        ),
        (
            lambda: PreferenceGP(None, None, values=(rand(2, 2), rand(2, 1) * 1e300)),
            ComparisonDataError,
            r"`values\[1\]` row 0",
        ),
        (lambda: box(-1e308, 1e308), SearchSpaceError, "`bounds` row 0"),
        (lambda: box(0.0, 1e-320), SearchSpaceError, "`bounds` column 0"),
        (lambda: box(1.0, 1.0 + 1e-15), SearchSpaceError, "`bounds` column 0"),
        (lambda: box(0.0, 1e5, categorical=[0]), SearchSpaceError, "`categorical` dimension 0"),
        (lambda: EUBO(choices=HUGE), SearchSpaceError, "`choices` row 0"),
        (lambda: PFTS(choices=torch.ones(2, 2).double()), SearchSpaceError, "`choices` are all"),
        (
            lambda: EUBO(bounds=BOX, known=[(Duel(0, BOX * 2.0), 1.0)]),
            ComparisonDataError,
            "`known` row 0: its items .* outside",
        ),
        (lambda: Evaluate(0, BOX[0]).checked(1e300), ComparisonDataError, "`answer`"),
        (lambda: MultipleChoicePOPBO(bounds=BOX, num_new=16), ComparisonDataError, "`num_new`"),
        (lambda: EUBO(bounds=BOX, kappa=10**400), ComparisonDataError, "`kappa`"),
        (
            lambda: EUBO(bounds=BOX, hyperparameters={"lengthscale": 1e60, "outputscale": 1.0}),
            ComparisonDataError,
            "`lengthscale`",
        ),
        (lambda: get_problem("ackley", num_choices=10**11), UnsupportedError, "`num_choices`"),
        (lambda: get_problem("ackley", dim=10**11), UnsupportedError, "`dim`"),
    ],
)
def test_they_are_refused(make: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        make()


PRICES = {"num_initial_duels": 3, "num_initial_values": 2, "budget": None, "duel_cost": 0.01}


@pytest.mark.usefixtures("short_searches")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        *((kind, {}) for kind in (DTS, DuelingKG, EUBO, LaplacePOPBO, MaxMinLCBStrategy, PFTS)),
        *((kind, {}) for kind in (POPBO, RandomPairs)),
        *((kind, PRICES) for kind in (CompGPUCB, CostAwareKG)),
        (PFTS, {"question": "best of 3"}),
        (COBOL, {"num_initial_values": 2, "num_initial_labels": 4, "feedback": "compare"}),
    ],
)
def test_equal_choices_do_not_meet(kind: Any, options: dict[str, Any]) -> None:
    for seed in range(2):
        items = rand(3, 1)[[0, 1, 0, 0, 2, 0, 0, 0]]
        strategy, asked = kind(choices=items, seed=seed, **options), 0
        for _ in range(8):
            query = strategy.ask()
            if query.compares:
                assert len(query.items.unique(dim=0)) == len(query.items)
                asked += 1
            strategy.tell(query, 1.0)
        assert asked > 2


NUMBERS = (
    *(0, 1, -1, 2, 7, 2**31, 2**53, 2**63, 2**64, 10**30, -(10**30), 10**400),
    *(0.0, -0.0, 0.5, -0.5, 1.0, 2.0, 1e-3, 1e-9, 1e-30, 1e-160, 5e-324, 1e9, 1e30, 1e160),
    *(1.7e308, -1e9, -1e30, -1.7e308, math.nan, math.inf, -math.inf),
)
ITEMS, ANSWERS = rand(6, 2), torch.tensor([[1.0], [0.0]] * 3).double()
BASE = {"base_kernel": RBFKernel().double()}


def set_of_utilities(
    datapoints: Tensor = ITEMS,
    norm_bound: float = 1.0,
    slack: float = 1.0,
    box: float | None = None,
    jitter: float = 1e-6,
) -> LikelihoodRatioModel:
    options: dict[str, Any] = {"norm_bound": norm_bound, "slack": slack, "box": box}
    return LikelihoodRatioModel.from_comparisons(datapoints, PAIRS, jitter=jitter, **options)


def constrained(value: Any = 0.5, weight: Any = 1.0) -> SearchSpace:
    return SearchSpace(BOX, inequality_constraints=[([0, 1], [1.0, weight], value)])


CONSTRUCTORS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    **{
        f"{kind.__name__}, {domain}": (kind, {domain: items, **more})
        for kind in (getattr(strategies, name) for name in strategies.__all__)
        if isinstance(kind, type) and issubclass(kind, Strategy) and not inspect.isabstract(kind)
        for more in ({"horizon": 12} if kind is MRLPF else {},)
        for domain, items in (("choices", ITEMS), ("bounds", BOX))
    },
    "SearchSpace": (SearchSpace, {"bounds": BOX}),
    "SearchSpace, a table": (SearchSpace, {"choices": ITEMS}),
    "SearchSpace, a constraint": (constrained, {}),
    "BernoulliGP": (BernoulliGP, {"train_X": ITEMS, "train_Y": ANSWERS}),
    "BordaGP": (BordaGP, {"train_X": ITEMS, "train_Y": ANSWERS, "counts": ANSWERS + 1.0}),
    "PreferenceGP": (PreferenceGP, {"datapoints": ITEMS, "comparisons": PAIRS}),
    "PreferenceGP, values": (
        lambda values: PreferenceGP(ITEMS, PAIRS, values=(ITEMS, values)),
        {"values": ANSWERS},
    ),
    "FullyBayesianPreferenceGP": (
        FullyBayesianPreferenceGP,
        {"datapoints": ITEMS, "comparisons": PAIRS, "num_steps": 2},
    ),
    "LikelihoodRatioModel": (set_of_utilities, {"datapoints": ITEMS}),
    "ComparisonBiasKernel": (ComparisonBiasKernel, BASE),
    "LogitLikelihood": (LogitLikelihood, {}),
    "ProbitLikelihood": (ProbitLikelihood, {}),
    "SoftmaxLikelihood": (SoftmaxLikelihood, {}),
}
NAMES = {"value": "inequality_constraints", "weight": "inequality_constraints"}


def places() -> list[tuple[str, str]]:
    """The arguments of constructors that are numbers, or tensors of them."""
    found = []
    for name, (make, known) in CONSTRUCTORS.items():
        for argument, parameter in inspect.signature(make).parameters.items():
            is_number = re.search(r"\b(float|int|Amount)\b", str(parameter.annotation))
            value = known.get(argument)
            is_tensor = isinstance(value, Tensor) and value.is_floating_point()
            is_list = re.search(r"Tensor|Sequence|Constraints", str(parameter.annotation))
            if is_tensor or argument in NAMES or (is_number and not is_list):
                found.append((name, argument))
    return found


PLACES = places()


def as_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def trial(name: str, argument: str, number: Any) -> str:
    """Refused by the argument's name, or made: then it can be used."""
    make, known = CONSTRUCTORS[name]
    value = number
    if isinstance(known.get(argument), Tensor):
        value = known[argument].clone()
        value[-1, -1] = as_float(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = make(**{**known, argument: value})
        except BotorchError as error:
            if f"`{NAMES.get(argument, argument)}" not in str(error):
                raise RuntimeError("It does not name the argument.") from error
            return "refused"
        use(made)
    return "works"


def use(made: Any) -> None:
    """What needs all of its numbers."""
    if isinstance(made, Strategy):
        json.dumps(made.state_dict(), allow_nan=False)
        if not getattr(made, "finished", False):
            made.tell(made.ask(), None)
            json.dumps(made.state_dict(), allow_nan=False)
    elif isinstance(made, SearchSpace):
        found = made.normalize(made.sample(3, 0))
        assert bool(found.isfinite().all())
    elif isinstance(made, Kernel):
        assert bool(made(rand(3, 3).round()).to_dense().isfinite().all())
    elif isinstance(made, LikelihoodRatioModel):
        assert bool(made.lower(ITEMS[:2].unsqueeze(-2)).isfinite().all())
    elif hasattr(made, "posterior"):
        found = made.posterior(ITEMS[:2])
        assert bool((found.mean.isfinite() & found.variance.isfinite()).all())


def campaign(number: int, seed: int) -> Campaign:
    found, draw = Campaign(), random.Random(seed)
    for _ in range(number):
        (name, argument), value = draw.choice(PLACES), draw.choice(NUMBERS)
        found.run(name, (argument, value), partial(trial, name, argument, value))
    return found


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.sampled_from(PLACES), st.sampled_from(NUMBERS) | st.floats() | st.integers())
def test_constructors(place: tuple[str, str], number: Any) -> None:
    trial(*place, number)
