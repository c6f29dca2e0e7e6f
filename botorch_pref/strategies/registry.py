r"""Strategies by name, for the command line and for saved studies."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.space.search_space import SearchSpace
from botorch_pref.strategies.base import Strategy
from botorch_pref.strategies.comp_gp_ucb import CompGPUCB
from botorch_pref.strategies.cost_aware_kg import CostAwareKG
from botorch_pref.strategies.dueling_kg import DuelingKG
from botorch_pref.strategies.dueling_ts import DTS
from botorch_pref.strategies.eubo import EUBO
from botorch_pref.strategies.max_min_lcb import MaxMinLCBStrategy
from botorch_pref.strategies.mr_lpf import MRLPF
from botorch_pref.strategies.pf_ts import PFTS
from botorch_pref.strategies.pop_bo import POPBO, LaplacePOPBO
from botorch_pref.strategies.random_pairs import RandomPairs

DEFAULT_STRATEGY = "dueling-kg"
"""What a study, a dialogue and a simulation run unless another strategy is named."""

_STRATEGIES: dict[str, tuple[type[Strategy], dict[str, Any]]] = {
    "dueling-kg": (DuelingKG, {}),
    "eubo-incumbent": (EUBO, {"anchor": "incumbent"}),
    "pf-ts": (PFTS, {}),
    "mr-lpf": (MRLPF, {}),
    "max-min-lcb": (MaxMinLCBStrategy, {}),
    "pop-bo": (POPBO, {}),
    "pop-bo-laplace": (LaplacePOPBO, {}),
    "eubo": (EUBO, {}),
    "dts": (DTS, {}),
    "comp-gp-ucb": (CompGPUCB, {}),
    "cost-aware-kg": (CostAwareKG, {}),
    "random": (RandomPairs, {}),
}


def strategy_names(kind: type = Strategy) -> tuple[str, ...]:
    """The names that :func:`get_strategy` knows, of one kind of strategies."""
    return tuple(name for name, (one, _) in _STRATEGIES.items() if issubclass(one, kind))


def strategy_name(strategy: Strategy) -> str | None:
    """The name under which :func:`get_strategy` makes strategies of such a class and options."""
    options = strategy._options()
    for name, (kind, wanted) in _STRATEGIES.items():
        if type(strategy) is kind and wanted.items() <= options.items():
            return name
    return None


def get_strategy(
    name: str,
    space: SearchSpace,
    *,
    seed: int = 0,
    horizon: int = 1,
    preset: str = "practical",
    **options: Any,
) -> Strategy:
    r"""A strategy by its name.

    Args:
        name: One of :func:`strategy_names`.
        space: The domain.
        seed: The seed of all draws.
        horizon: The number of queries, for a strategy that plans ahead.
        preset: ``"practical"``, the defaults, or ``"paper"``, as published.
        **options: Further arguments of the strategy.

    Returns:
        The strategy, without data.

    Raises:
        UnsupportedError: If there is no such strategy, or it has no such preset; names
            those there are.
    """
    if name not in _STRATEGIES:
        raise UnsupportedError(
            f"unknown strategy {name!r}; there are {', '.join(strategy_names())}."
        )
    kind, wanted = _STRATEGIES[name]
    makers: dict[str, Any] = {"practical": kind}
    if hasattr(kind, "paper"):
        makers["paper"] = kind.paper
    if preset not in makers:
        raise UnsupportedError(
            f"strategy {name!r} has no preset {preset!r}; there are {', '.join(makers)}."
        )
    if "horizon" in inspect.signature(kind).parameters:
        wanted = {**wanted, "horizon": horizon}
    strategy: Strategy = makers[preset](space=space, seed=seed, **wanted, **options)
    return strategy


def strategy_class(name: str) -> type[Strategy]:
    """A class of strategies by its own name, which its states carry, such as ``"PFTS"``.

    It is this package's, or one of the user's that has been defined or imported; of several, this
    package's, else the last. If there is none, the error names those there are.
    """
    own = f"{__package__}."
    found = sorted(_concrete(Strategy), key=lambda kind: kind.__module__.startswith(own))
    kinds = {kind.__name__: kind for kind in found}
    if name not in kinds:
        raise UnsupportedError(
            f"unknown class of strategies {name!r}; there are {', '.join(sorted(kinds))}. One of "
            "your own must be imported first."
        )
    return kinds[name]


def _concrete(kind: type[Any]) -> Iterator[type[Strategy]]:
    """All classes below one that are not abstract, in the order of their definition."""
    for below in kind.__subclasses__():
        if not inspect.isabstract(below):
            yield below
        yield from _concrete(below)
