r"""Problems that the experiments alone use."""

from experiments.problems.beliefs import MVNExpert, belief_mean
from experiments.problems.borda import BordaFunction, uniform_items
from experiments.problems.borehole import Borehole
from experiments.problems.changing_expert import AccuracySchedule, TimeVaryingExpert
from experiments.problems.classics import CrossInTray, Levy13
from experiments.problems.expert_benchmarks import EXPERT_BENCHMARKS, ExpertBenchmark
from experiments.problems.gp_sample import GPSample
from experiments.problems.magic_gamma import MagicGammaSVM, SplitSizes
from experiments.problems.ratings import Ratings, RatingsTable
from experiments.problems.standardised import (
    STANDARDISED_FUNCTIONS,
    StandardisedFunction,
    StandardisedSettings,
)
from experiments.problems.tuning import DigitsTuning

__all__ = [
    "EXPERT_BENCHMARKS",
    "STANDARDISED_FUNCTIONS",
    "AccuracySchedule",
    "BordaFunction",
    "Borehole",
    "CrossInTray",
    "DigitsTuning",
    "ExpertBenchmark",
    "GPSample",
    "Levy13",
    "MVNExpert",
    "MagicGammaSVM",
    "Ratings",
    "RatingsTable",
    "SplitSizes",
    "StandardisedFunction",
    "StandardisedSettings",
    "TimeVaryingExpert",
    "belief_mean",
    "uniform_items",
]
