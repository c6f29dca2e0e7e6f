r"""The experiments of the MR-LPF paper, and MR-LPF with its defaults on boxes.

References:
.. [Kayal2025] A. Kayal, S. Vakili, L. Toni, D. Shiu, A. Bernacchia. Bayesian Optimization
    from Human Feedback: Near-Optimal Regret Bounds. ICML 2025.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from botorch_pref.kernels.items import KernelName
from botorch_pref.problems import PreferenceProblem, RKHSFunction, get_problem
from botorch_pref.randomness import derive_uniform
from botorch_pref.runner.experiment import StrategyFactory
from botorch_pref.strategies import MRLPF, MaxMinLCBStrategy, RandomPairs
from experiments.claims import Claim, Comparison, lower
from experiments.experiment import LENGTHSCALE, RegretExperiment, fixed
from experiments.problems import PositiveAckley, Ratings
from experiments.problems.ratings import NUM_USERS

NUM_ROUNDS = 4  # of all its horizons
_PAPER = "Kayal et al. (2025)"
_NOTES = (
    "Not stated in the paper: kappa, here 1 (a ridge of 0.05). The predictor is that of the "
    "authors' code (theta_mean); see --ridge and --regularizer.",
)


def methods(
    kernel: KernelName,
    lengthscale: float = LENGTHSCALE,
    betas: tuple[float, float] = (1.0, 1.0),
    suffix: str = "",
) -> dict[str, StrategyFactory]:
    """The methods of [Kayal2025]."""
    model = fixed(kernel, lengthscale)
    rounds = partial(MRLPF.paper, hyperparameters=model, beta=betas[0])
    game = partial(MaxMinLCBStrategy.paper, hyperparameters=model, beta=betas[1])
    return {f"mr-lpf{suffix}": rounds, f"max-min-lcb{suffix}": game}


def claims(suffix: str = "", condition: str = "") -> tuple[Claim, ...]:
    """What [Kayal2025] says of all its figures."""
    ours, theirs = f"mr-lpf{suffix}", f"max-min-lcb{suffix}"
    drops = [
        Comparison((ours, f"round {number + 1}"), (ours, f"round {number}"))
        for number in range(1, NUM_ROUNDS)
    ]
    return (
        Claim(
            f"{condition}MR-LPF has a lower regret of a duel than MaxMinLCB (here: over the last "
            "duels).",
            lower("final", ours, theirs),
        ),
        Claim(
            f"{condition}MR-LPF's regret is high at first, while it explores (here: in its first "
            "round, higher than that of MaxMinLCB).",
            lower("round 1", theirs, ours),
        ),
        Claim(f"{condition}MR-LPF's regret drops sharply from round to round.", tuple(drops)),
    )


def mr_lpf_experiments() -> tuple[RegretExperiment, ...]:
    """The figures of the paper."""
    panels: tuple[tuple[str, Literal["se", "matern15", "matern25"], KernelName, str], ...] = (
        ("rkhs-se", "se", "rbf", "squared exponential"),
        ("rkhs-matern15", "matern15", "matern15", "Matern-3/2"),
        ("rkhs-matern25", "matern25", "matern", "Matern-5/2"),
    )
    rkhs = [
        RegretExperiment(
            name=name,
            title=f"A function of the {kernel} RKHS, 100 points",
            source=f"{_PAPER}, Fig. 1 a to c",
            problem=partial(RKHSFunction, num_choices=100, scale=5.0, kernel=problem),
            strategies=methods(model) | _control(fixed(model)),
            horizon=300,
            seeds=60,
            tail=50,
            regularizer="theta_mean",
            claims=claims(),
            notes=(*_NOTES, "The function is multiplied by 5, as in the authors' code."),
        )
        for name, problem, model, kernel in panels
    ]
    # On the raw interval of width 10 the lengthscale is 0.1.
    ackley = fixed("matern", LENGTHSCALE / 10.0)
    ackley_2000 = RegretExperiment(
        name="ackley-2000",
        title="The positive Ackley function, 100 points",
        source=f"{_PAPER}, Fig. 1 d to f",
        problem=PositiveAckley,
        strategies=methods("matern", ackley["lengthscale"]) | _control(ackley),
        horizon=2000,
        seeds=20,
        tail=200,
        regularizer="theta_mean",
        claims=claims(),
        notes=(
            *_NOTES,
            "Of the paper's three kernels, Matern-5/2 alone; its lengthscale is 0.1 on [-5, 5].",
            "20 seeds in place of the paper's 60, for time.",
        ),
    )
    return *rkhs, ackley_2000, _yelp()


def _control(model: dict[str, Any]) -> dict[str, StrategyFactory]:
    return {"random": partial(RandomPairs, hyperparameters=model)}


def _yelp() -> RegretExperiment:
    # The bounds are [-1, 1] in every dimension, so the unit cube halves distances.
    short, median = LENGTHSCALE / 2.0, Ratings().median_distance() / 2.0
    betas = (0.1, 2.0)
    return RegretExperiment(
        name="yelp",
        title="Synthetic ratings of 275 items in 32 dimensions",
        source=f"our stand-in for {_PAPER}, Fig. 2",
        problem=lambda: rated_by_someone,
        strategies=methods("rbf", short, betas)
        | methods("rbf", median, betas, suffix=" (median)")
        | _control(fixed("rbf", median)),
        horizon=2000,
        seeds=10,
        tail=200,
        regularizer="theta_mean",
        claims=claims() + claims(" (median)", "With the median distance for a lengthscale: "),
        notes=(
            *_NOTES,
            "A stand-in: synthetic ratings, as Yelp's may not be passed on. A user is drawn for "
            "every seed; 10 seeds in place of the paper's 60, for time.",
            "Squared exponential kernel; lengthscale 0.1 as in the paper, which is below nearly "
            "all distances, and, marked (median), the median distance, which is ours.",
        ),
    )


def rated_by_someone(seed: int) -> PreferenceProblem:
    """The same items for every seed, rated by one of the users, who is drawn."""
    return Ratings(user=int(NUM_USERS * derive_uniform(seed, "problem", 0)))


HORIZON, SEEDS = 200, 20


@dataclass(frozen=True, kw_only=True)
class BoxExperiment(RegretExperiment):
    """Strategies with learnt hyperparameters, which have neither a ridge nor a penalty to set."""

    fixed_models: ClassVar[bool] = False
    recommendations: int = 5  # on a box each is a search of its own

    @property
    def setting(self) -> str:
        return f"{self.horizon} duels, learnt hyperparameters"


def box_experiments() -> tuple[BoxExperiment, ...]:
    """Branin and Hartmann-6 on the unit cube, in their own units of utility."""
    return tuple(
        BoxExperiment(
            name=f"mr-lpf-{name}",
            title=f"{title} on the unit cube",
            source="ours; Kayal et al. (2025) have no procedure for boxes",
            problem=partial(get_problem, name),
            strategies={"mr-lpf": MRLPF, "random": RandomPairs},
            horizon=HORIZON,
            seeds=SEEDS,
            tail=20,
            claims=(
                Claim(
                    "Ours: MR-LPF recommends better items than the same model of random pairs.",
                    lower("recommendation", "mr-lpf", "random"),
                ),
            ),
            notes=(
                "MR-LPF's default kappa and width of intervals were chosen on these two functions; "
                "the width on Branin under the very seeds 0 to 19.",
            ),
        )
        for name, title in (("branin", "Branin"), ("hartmann6", "Hartmann-6"))
    )
