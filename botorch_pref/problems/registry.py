r"""Problems by name, for the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from botorch.test_functions import synthetic as botorch_synthetic
from botorch.test_functions.synthetic import SyntheticTestFunction

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems.base import PreferenceProblem
from botorch_pref.problems.catalyst import Catalyst
from botorch_pref.problems.electrolyte import ElectrolyteStandIn
from botorch_pref.problems.rkhs import RKHSFunction
from botorch_pref.problems.synthetic import Ackley, SyntheticProblem
from botorch_pref.problems.thermal_comfort import ThermalComfort

_OWN: dict[str, Callable[..., PreferenceProblem]] = {
    "catalyst": Catalyst,
    "ackley": Ackley,
    "rkhs": RKHSFunction,
    "thermalcomfort": ThermalComfort,
    "electrolytestandin": ElectrolyteStandIn,
}
_NAMES = (
    "Beale Branin Bukin Cosine8 DixonPrice DropWave EggHolder Griewank HolderTable Levy "
    "Michalewicz Powell Rastrigin Rosenbrock Shekel SixHumpCamel StyblinskiTang ThreeHumpCamel"
)
_FUNCTIONS: dict[str, Callable[..., SyntheticTestFunction]] = {
    **{name.lower(): getattr(botorch_synthetic, name) for name in _NAMES.split()},
    "hartmann3": partial(botorch_synthetic.Hartmann, 3),
    "hartmann6": partial(botorch_synthetic.Hartmann, 6),
}
# Arguments of BoTorch's constructors that mean nothing for a preference problem.
_NOT_OPTIONS = frozenset({"noise_std", "negate", "bounds", "dtype"})


_MOST = {"dim": 1000, "num_choices": 1_000_000}


def problem_names() -> tuple[str, ...]:
    """The names that :func:`get_problem` knows."""
    return (*_OWN, *_FUNCTIONS)


def get_problem(name: str, **options: Any) -> PreferenceProblem:
    r"""A problem by its name.

    Args:
        name: One of :func:`problem_names`; case, hyphens and underscores do not matter.
        options: Arguments of the problem's constructor, such as ``dim``. BoTorch's functions are
            wrapped in a :class:`SyntheticProblem`.

    Raises:
        UnsupportedError: If there is no such problem or option; names those there are.
    """
    key = name.lower().replace("-", "").replace("_", "")
    factory = _OWN.get(key) or _FUNCTIONS.get(key)
    if factory is None:
        raise UnsupportedError(f"unknown problem {name!r}; there are {', '.join(problem_names())}.")
    hidden = frozenset() if key in _OWN else _NOT_OPTIONS
    known = [option for option in inspect.signature(factory).parameters if option not in hidden]
    for option in options:
        if option not in known:
            has = f"its options are {', '.join(known)}" if known else "it has none"
            raise UnsupportedError(f"problem {key!r} has no option {option!r}; {has}.")
        given, most = options[option], _MOST.get(option)
        if most is not None and isinstance(given, int) and given > most:
            raise UnsupportedError(f"problem {key!r}: `{option}` is at most {most}.")
    made = factory(**options)
    return made if isinstance(made, PreferenceProblem) else SyntheticProblem(made, name=key)
