r"""The registry of the papers' experiments."""

from __future__ import annotations

from functools import cache

from botorch_pref.benchmarks.boxes import box_experiments
from botorch_pref.benchmarks.cobol import cobol_experiments
from botorch_pref.benchmarks.comp import comp_experiments
from botorch_pref.benchmarks.comp_mixed import mixed_experiment
from botorch_pref.benchmarks.experiment import Experiment
from botorch_pref.benchmarks.mr_lpf import mr_lpf_experiments
from botorch_pref.benchmarks.optuna.experiment import optuna_experiment
from botorch_pref.benchmarks.pf_ts import pf_ts_experiments
from botorch_pref.benchmarks.pop_bo import pop_bo_experiments


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
        mixed_experiment(),
        optuna_experiment(),
    )
    return {experiment.name: experiment for experiment in found}
