"""Duels in Ax: batch trials of two arms, suggested by Thompson sampling on a PreferenceGP.

pip install -c constraints.txt -e ".[ax]" && python examples/ax_preference.py --trials 12
"""

from __future__ import annotations

import argparse
import logging
import math
import random

from ax.adapter.registry import Cont_X_trans, Generators
from ax.adapter.torch import TorchAdapter
from ax.core import (
    BatchTrial,
    Experiment,
    Metric,
    Objective,
    OptimizationConfig,
    ParameterType,
    RangeParameter,
    SearchSpace,
)
from ax.generators.torch.botorch_modular.generator import BoTorchGenerator

from botorch_pref.acquisition import DuelingThompsonSampling
from botorch_pref.integrations.ax import (
    PREFERENCE_METRIC,
    PairAcquisition,
    attach_answer,
    pair_optimizer_options,
    preference_surrogate_spec,
)
from botorch_pref.randomness import seeded


def utility(cup: dict[str, float]) -> float:
    """The taste that nobody can put into numbers: 92 degrees, 60 ml of milk, a grind of 0.4."""
    temperature, milk = (cup["temperature"] - 92) / 4, (cup["milk"] - 60) / 30
    return -3 * (temperature**2 + milk**2 + 4 * math.log(cup["grind"] / 0.4) ** 2)


def ask(trial: BatchTrial, chance: random.Random) -> None:
    """Let the drinker compare the two cups of a trial; ask a person here instead."""
    trial.mark_running(no_runner_required=True)
    first, second = (utility(arm.parameters) for arm in trial.arms)
    attach_answer(trial, int(first - second > chance.gauss(0, 1)))


def adapter_of(experiment: Experiment, seed: int) -> TorchAdapter:
    """The model of all answers so far, and the rule for the next pair."""
    generator = BoTorchGenerator(
        surrogate_spec=preference_surrogate_spec(),
        acquisition_class=PairAcquisition,
        botorch_acqf_class=DuelingThompsonSampling,
        botorch_acqf_options={"seed": seed},
    )
    # These transforms change parameters alone: answers have no scale to standardise.
    return TorchAdapter(experiment=experiment, generator=generator, transforms=Cont_X_trans)


def run(trials: int, seed: int = 0) -> tuple[Experiment, dict[str, float]]:
    """Four random pairs, then suggested ones; the experiment, and the recommended cup."""
    parameters = [
        RangeParameter("temperature", ParameterType.INT, 80, 100),
        RangeParameter("milk", ParameterType.FLOAT, 0.0, 150.0),
        RangeParameter("grind", ParameterType.FLOAT, 0.1, 2.0, log_scale=True),
    ]
    metric = Metric(PREFERENCE_METRIC)
    objective = Objective(metric.name, metric_name_to_signature={metric.name: metric.signature})
    experiment = Experiment(
        name="coffee",
        search_space=SearchSpace(parameters),
        optimization_config=OptimizationConfig(objective),
        metrics=[metric],
    )
    chance = random.Random(seed)
    sobol = Generators.SOBOL(experiment=experiment, seed=seed)
    for _ in range(4):
        ask(experiment.new_batch_trial(sobol.gen(n=2)), chance)
    for step in range(trials):
        with seeded(seed + step):  # the optimizer's starting points
            adapter = adapter_of(experiment, seed=step)
            pair = adapter.gen(n=2, model_gen_options=pair_optimizer_options(num_restarts=4))
        ask(experiment.new_batch_trial(pair), chance)
        print(f"pair {step + 1} of {trials}:", *(arm.parameters for arm in pair.arms), flush=True)
    best = adapter_of(experiment, seed).model_best_point()
    assert best is not None
    return experiment, best[0].parameters


def main(arguments: list[str] | None = None) -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=12)
    logging.getLogger("ax").setLevel(logging.WARNING)
    _, best = run(parser.parse_args(arguments).trials)
    print("Your coffee:", best)


if __name__ == "__main__":
    main()
