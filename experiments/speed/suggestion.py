r"""One suggestion after ``m`` answers, beside that of Optuna's preferential sampler.

``optuna_dashboard``'s ``PreferentialGPSampler`` fits its kernel by expectation propagation, draws
from the posterior by Gibbs sampling and maximises the expected improvement under that draw
(Takeno et al. 2023). Both sides know the answers, and nothing of hyperparameters; what is timed is
``ask``, which fits them and chooses.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from botorch_pref.queries import Duel
from botorch_pref.strategies import EUBO, PFTS
from botorch_pref.strategies.base import Strategy
from experiments.speed.duels import DIM, Duels, Grid, duels
from experiments.speed.timing import Case, Run, Side

OPERATION = "one suggestion (ask)"
_OURS: dict[str, type[Strategy]] = {"PF-TS": PFTS, "EUBO": EUBO}


def suggestion_cases(section: str, grid: Grid, device: torch.device) -> list[Case]:
    r"""The rows against Optuna.

    Args:
        section: The part of the table.
        grid: The numbers of duels.
        device: Where this package computes; Optuna knows the CPU alone.

    Returns:
        A case a size and rule of this package.
    """
    cases = []
    for data, size, num_items in grid.points():
        known = duels(size, num_items)
        other = Side(
            "Optuna",
            partial(optuna_ask, known),
            needs=("optuna", "optuna_dashboard"),
            extra="optuna",
            gigabytes=15 * size**3 * 8e-9,  # as measured: 1.1 and 8 GB for 200 and 400 duels
            knows_devices=False,
        )
        for name, kind in _OURS.items():
            ours = Side(name, partial(strategy_ask, kind, known, device))
            cases.append(Case(section, OPERATION, data, size, ours, (other,)))
    return cases


def strategy_ask(kind: type[Strategy], known: Duels, device: torch.device) -> Run:
    r"""Prepares a strategy that was told all answers.

    Args:
        kind: A strategy of duels.
        known: The answers.
        device: Where it computes.

    Returns:
        Its next ``ask``.
    """
    state = kind(bounds=known.X.new_tensor([[0.0], [1.0]]).expand(2, DIM)).state_dict()
    pairs = known.X[known.comparisons]
    state["history"] = [[Duel(i, pair).to_json(), 1.0] for i, pair in enumerate(pairs)]
    state["next_id"] = len(pairs)
    return kind.from_state_dict(state, device).ask


def optuna_ask(known: Duels) -> Run:
    r"""Prepares a study of Optuna that was told all answers.

    Args:
        known: The answers.

    Returns:
        Its next ``ask``, which returns the ``d``-dim item.
    """
    import optuna
    from optuna_dashboard.preferential.samplers.gp import PreferentialGPSampler

    from experiments.optuna.study import new_study

    unit = optuna.distributions.FloatDistribution(0.0, 1.0)
    space: dict[str, Any] = {f"x{i}": unit for i in range(DIM)}
    study = new_study(PreferentialGPSampler(seed=0), n_generate=1)
    for item in known.X.tolist():
        params = dict(zip(space, item, strict=True))
        trial = optuna.trial.create_trial(params=params, distributions=space, value=0.0)
        study.add_trial(trial)
    trials = study.get_trials(deepcopy=False)
    for winner, loser in known.comparisons.tolist():
        study.report_preference(trials[winner], trials[loser])

    def run() -> Tensor:
        return torch.tensor([*study.ask(space).params.values()], dtype=torch.double)

    return run
