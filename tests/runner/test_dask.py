"""An experiment on a Dask cluster, by joblib's own switch."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import joblib
import pytest
from distributed import Client, LocalCluster

from botorch_pref.problems import Ackley
from botorch_pref.runner import run_experiment
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import PFTS
from tests.runner.common import assert_same


@pytest.mark.slow
def test_two_workers_make_the_same_table(tmp_path: Path) -> None:
    processes = tmp_path / "processes"
    processes.mkdir()

    def paper(space: SearchSpace, seed: int, kappa: float) -> PFTS:
        (processes / str(os.getpid())).touch()
        return PFTS.paper(space=space, seed=seed, kappa=kappa)

    strategies = {"narrow": partial(paper, kappa=1.0), "wide": partial(paper, kappa=4.0)}
    play = partial(run_experiment, Ackley(num_choices=12), strategies, 8, 4, progress=False)
    # Of two threads each, so that runs share a process as well. Port 0 is any free one.
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=":0"
    )
    with cluster, Client(cluster), joblib.parallel_config(backend="dask"):
        table = play()
    names = {path.name for path in processes.iterdir()}
    assert len(names) == 2
    assert str(os.getpid()) not in names
    assert_same(play(), table)
