r"""Problems that the experiments alone use."""

from experiments.problems.experts import (
    EXPERT_BENCHMARKS,
    AccuracySchedule,
    BeliefMean,
    ExpertBenchmark,
    FittedExpert,
    MVNExpert,
    TimeVaryingExpert,
    belief_mean,
    normal_belief,
)
from experiments.problems.fidelities import (
    BordaFunction,
    Borehole,
    CurrinExp,
    DuelingChoiceJudge,
    FidelityProblem,
    deterministic_link,
    uniform_items,
)
from experiments.problems.functions import (
    STANDARDISED_FUNCTIONS,
    CrossInTray,
    Levy13,
    PositiveAckley,
    StandardisedFunction,
    StandardisedSettings,
)
from experiments.problems.gp_sample import GPSample, LinearSample
from experiments.problems.magic_gamma import MagicGammaSVM, SplitSizes
from experiments.problems.ratings import Ratings
from experiments.problems.tuning import DigitsTuning

__all__ = [
    "EXPERT_BENCHMARKS",
    "STANDARDISED_FUNCTIONS",
    "AccuracySchedule",
    "BeliefMean",
    "BordaFunction",
    "Borehole",
    "CrossInTray",
    "CurrinExp",
    "DigitsTuning",
    "DuelingChoiceJudge",
    "ExpertBenchmark",
    "FidelityProblem",
    "FittedExpert",
    "GPSample",
    "Levy13",
    "LinearSample",
    "MVNExpert",
    "MagicGammaSVM",
    "PositiveAckley",
    "Ratings",
    "SplitSizes",
    "StandardisedFunction",
    "StandardisedSettings",
    "TimeVaryingExpert",
    "belief_mean",
    "deterministic_link",
    "normal_belief",
    "uniform_items",
]
