r"""The experiments of the POP-BO paper on single problems, as far as it says how.

References:
.. [Xu2024] W. Xu, W. Wang, Y. Jiang, B. Svetozarevic, C. N. Jones. Principled
    Preferential Bayesian Optimization. ICML 2024.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from botorch.test_functions import synthetic

from botorch_pref.problems import PreferenceProblem, SyntheticProblem, ThermalComfort
from experiments.claims import Claim, Comparison, lower, not_higher
from experiments.experiment import Experiment
from experiments.pop_bo.beliefs import (
    ON_A_BOX,
    methods,
    of_ackley,
    of_comfort,
    of_gp_sample,
    of_linear,
    pop_bo,
)
from experiments.pop_bo.runs import (
    SECONDS,
    SHARED,
    BandExperiment,
    UtilityExperiment,
    table2_experiment,
)
from experiments.problems import GPSample, LinearSample

PAPER = "Xu et al. (2024)"
_RULE19 = "pop-bo (t*)"
_TENTH = "pop-bo (0.1)"
_PEERS = ("eubo", "dts", "sgp")
_ARMS = (
    "The first arm is POP-BO's new item and SGP's last winner; of eubo, dts, pf-ts and random it "
    "is either item. Both arms together are beside it.",
)
_MODELS = (
    "All strategies have the true kernel, which is squared exponential with variance 9. POP-BO: "
    "slack sqrt(t), norm bound 1.1 times the true norm.",
)
_SUBLINEAR = Claim(
    "The cumulative regret of POP-BO grows sublinearly.",
    (Comparison(("pop-bo", "slope"), 1.0),),
)
_LOWEST = Claim("POP-BO has the lowest cumulative regret.", lower("cumulative", "pop-bo", *_PEERS))
_LINE_CLAIMS = (
    _LOWEST,
    Claim(
        "The cumulative regret of qEUBO is more than 2.5 times that of POP-BO.",
        (Comparison(("pop-bo", "cumulative"), ("eubo", SHARED)),),
    ),
    Claim(
        "The cumulative regret of POP-BO grows with a power of the duels between 1/2 and 1.",
        (
            Comparison(("pop-bo", "slope"), 1.0),
            Comparison(("pop-bo", "slope"), 0.5, "higher"),
        ),
    ),
    Claim(
        "qEUBO recommends better items than POP-BO by eq. (19).",
        lower("recommendation", "eubo", _RULE19),
    ),
    Claim(
        "POP-BO by the most likely utility recommends better items than qEUBO.",
        lower("recommendation", "pop-bo", "eubo"),
    ),
    Claim(
        "What POP-BO recommends is as good as, or better than, that of DTS.",
        not_higher("recommendation", "pop-bo", "dts"),
    ),
    Claim(
        "SGP is stuck in local optima (here: it recommends worse items than POP-BO).",
        lower("recommendation", "pop-bo", "sgp"),
    ),
    Claim("POP-BO is faster than DTS.", lower("seconds", "pop-bo", "dts")),
    Claim(
        "Ours: a tenth of the slack lets POP-BO pay less, with both arms and with the first.",
        lower("cumulative", _TENTH, "pop-bo") + lower("total", _TENTH, "pop-bo"),
    ),
)
_COMFORT = {
    2: (
        "Fig. 7",
        (
            _LOWEST,
            Claim(
                "qEUBO recommends slightly better items than POP-BO.",
                lower("recommendation", "eubo", "pop-bo"),
            ),
        ),
    ),
    4: (
        "Fig. 8",
        (
            Claim(
                "POP-BO has a lower cumulative regret than qEUBO.",
                lower("cumulative", "pop-bo", "eubo"),
            ),
            Claim(
                "POP-BO converges faster than SGP (here: it recommends better items in the end).",
                lower("recommendation", "pop-bo", "sgp"),
            ),
        ),
    ),
}


def ackley6() -> PreferenceProblem:
    """Ackley's function in 6 dimensions on qEUBO's box."""
    return SyntheticProblem(synthetic.Ackley(dim=6, bounds=[(-2.0, 2.0)] * 6), name="ackley6")


def gp_sample(dim: int, num_choices: int | None, seed: int) -> PreferenceProblem:
    """The seed's function; see :class:`~botorch_pref.problems.GPSample`."""
    return GPSample(dim, num_choices=num_choices, seed=seed)


def pop_bo_experiments() -> tuple[Experiment, ...]:
    """The figures and the second table of the paper."""
    comfort = [_comfort(2), _comfort(4)]
    boxes = [_box(7), _box(12), _ackley()]
    return _line(), _linear(), table2_experiment(), *boxes, *comfort, BandExperiment()


def _line() -> UtilityExperiment:
    printed = {"pop-bo": 0.09, "eubo": 0.21, "dts": 1.0, "sgp": 0.07}
    return UtilityExperiment(
        name="pop-gp",
        title="Gaussian process samples on [0, 10], 101 points",
        source=f"{PAPER}, Figs. 2 and 4, Table 1",
        problem=lambda: partial(gp_sample, 1, 101),
        strategies={
            **methods(of_gp_sample),
            _RULE19: partial(pop_bo, of_gp_sample, report="min-sigma"),
            _TENTH: partial(pop_bo, of_gp_sample, slack=0.1),
        },
        horizon=50,
        seeds=30,
        slopes=True,
        recommendations=50,
        printed={
            f"{name} (paper)": {SECONDS.heading: f"{time:g} of dts"}
            for name, time in printed.items()
        },
        claims=_LINE_CLAIMS,
        notes=(
            "Not stated in the paper: the dimension, the domain, the number of knots (here 10) "
            "and of duels. Only the 101 points may be asked.",
            *_MODELS,
            f"{_RULE19} asks the same duels as pop-bo, and recommends by eq. (19); {_TENTH} has "
            "a slack of 0.1 sqrt(t).",
            *_ARMS,
        ),
    )


def linear_sample(seed: int) -> PreferenceProblem:
    """The seed's linear utility."""
    return LinearSample(seed)


def _linear() -> UtilityExperiment:
    known = methods(of_linear)
    return UtilityExperiment(
        name="pop-linear",
        title="Linear utilities on the unit square, 121 points",
        source=f"after {PAPER}, Table 3",
        problem=lambda: linear_sample,
        strategies={name: known[name] for name in ("pop-bo", "eubo", "dts", "random")},
        horizon=50,
        seeds=30,
        slopes=True,
        recommendations=50,
        claims=(_SUBLINEAR,),
        notes=(
            "Table 3 has rates alone, (T log T)^(3/4) for the linear kernel; the slope is to be "
            "compared with 3/4. The experiment is ours. All strategies have the true kernel.",
            *_ARMS,
        ),
    )


def _ackley() -> UtilityExperiment:
    return UtilityExperiment(
        name="pop-ackley6",
        title="Ackley's function on [-2, 2]^6",
        source=f"{PAPER}, Fig. 6",
        problem=ackley6,
        strategies={name: methods(of_ackley)[name] for name in ("pop-bo", "eubo", "random")},
        horizon=100,
        seeds=30,
        claims=(
            Claim(
                "qEUBO has a lower cumulative regret than POP-BO.",
                lower("cumulative", "eubo", "pop-bo"),
            ),
            Claim(
                "POP-BO recommends slightly better items than qEUBO.",
                lower("recommendation", "pop-bo", "eubo"),
            ),
        ),
        notes=(
            "The paper takes the function from qEUBO's experiments and says no more; the box is "
            "theirs. Answers are logistic in the function itself. The kernel is squared "
            "exponential of unit variance with a lengthscale of 0.3 sqrt(6) on the unit cube; "
            "norm bound 6 and slack sqrt(t), as for Table 2; the 100 duels are ours.",
            ON_A_BOX,
            *_ARMS,
        ),
    )


def _box(dim: Literal[7, 12]) -> UtilityExperiment:
    figure, seeds, seconds = {7: ("Fig. 5", 20, 11.0), 12: ("Fig. 3", 10, 18.0)}[dim]
    worse = Claim(
        "SGP, which takes noisy answers for certain, recommends worse items than POP-BO at the "
        "end.",
        lower("recommendation", "pop-bo", "sgp"),
    )
    return UtilityExperiment(
        name=f"pop-{dim}d",
        title=f"Gaussian process samples on [0, 10]^{dim}",
        source=f"{PAPER}, {figure}",
        problem=lambda: partial(gp_sample, dim, None),
        strategies=methods(of_gp_sample),
        horizon=100,
        seeds=seeds,
        slopes=True,
        printed={"pop-bo (paper)": {SECONDS.heading: f"{seconds:.1f}"}},
        claims=(
            Claim(
                "POP-BO has a lower cumulative regret than SGP.",
                lower("cumulative", "pop-bo", "sgp"),
            ),
            worse,
            _SUBLINEAR,
            Claim(
                "Ours: POP-BO takes less than a tenth of the authors' time.",
                (Comparison(("pop-bo", "seconds"), 0.1 * seconds),),
            ),
        ),
        notes=(
            *_MODELS,
            "The lengthscale is 5 times the root of the dimension, in 12 dimensions by analogy.",
            "The paper compares with SGP alone, and searches the box and the set at once.",
            ON_A_BOX,
            *_ARMS,
        ),
    )


def _comfort(dim: Literal[2, 4]) -> UtilityExperiment:
    figure, claims = _COMFORT[dim]
    return UtilityExperiment(
        name=f"thermal-{dim}d",
        title=f"Thermal comfort in {dim} dimensions",
        source=f"after {PAPER}, {figure}",
        problem=partial(ThermalComfort, dim),
        strategies=methods(of_comfort),
        horizon=30,
        seeds=30,
        claims=claims,
        notes=(
            "The paper names the variables and the predicted mean vote; the ranges, the clothes, "
            "the activity, the utility and its scale are ours, as are the 30 duels.",
            "Squared exponential kernel with variance 4 and half of every range for a lengthscale, "
            "as in the authors' example of one dimension; norm bound 3 as there, in 4 dimensions "
            "6; slack sqrt(t).",
            ON_A_BOX,
            *_ARMS,
        ),
    )
