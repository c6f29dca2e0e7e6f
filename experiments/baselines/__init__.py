r"""Rivals of the published strategies, for comparisons."""

from botorch_pref.strategies import Strategy
from experiments.baselines.budgeted import GPUCB, MFGPUCB, BordaUCB, MultiFidelityUCB, RandomDuels
from experiments.baselines.expert_baselines import (
    AlternatingExpert,
    CoExBO,
    ExpertBaseline,
    ExpertOverride,
    ExpertSampling,
    RandomValues,
)
from experiments.baselines.gp_ts import GPTS
from experiments.baselines.kernel_self_sparring import KernelSelfSparring
from experiments.baselines.skew_gp import SGP

__all__ = [
    "BASELINES",
    "GPTS",
    "GPUCB",
    "MFGPUCB",
    "SGP",
    "AlternatingExpert",
    "BordaUCB",
    "CoExBO",
    "ExpertBaseline",
    "ExpertOverride",
    "ExpertSampling",
    "KernelSelfSparring",
    "MultiFidelityUCB",
    "RandomDuels",
    "RandomValues",
]

BASELINES: dict[str, type[Strategy]] = {
    "sgp": SGP,
    "gp-ts": GPTS,
    "gp-ucb": GPUCB,
    "mf-gp-ucb": MFGPUCB,
    "borda-ucb": BordaUCB,
    "self-sparring": KernelSelfSparring,
    "random-duels": RandomDuels,
}
"""The strategies by the names that they have in tables."""
