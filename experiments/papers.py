r"""The registry of the papers' experiments."""

from __future__ import annotations

from functools import cache

from experiments.cobol.settings import cobol_experiments
from experiments.comp_gp_ucb.mixed import mixed_experiment
from experiments.comp_gp_ucb.settings import comp_experiments
from experiments.comp_gp_ucb.svm import svm_experiment
from experiments.experiment import Experiment
from experiments.mr_lpf.settings import box_experiments, mr_lpf_experiments
from experiments.optuna.experiment import optuna_experiment
from experiments.pf_ts.settings import pf_ts_experiments
from experiments.pop_bo.settings import pop_bo_experiments


@cache
def experiments() -> dict[str, Experiment]:
    """All experiments by their names."""
    found = (
        *pf_ts_experiments(),
        *mr_lpf_experiments(),
        *box_experiments(),
        *pop_bo_experiments(),
        *cobol_experiments(),
        *comp_experiments(),
        svm_experiment(),
        mixed_experiment(),
        optuna_experiment(),
    )
    return {experiment.name: experiment for experiment in found}
