r"""COBOL with other augmented candidates, of the figures of [Xu2024b].

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor

from botorch_pref.acquisition import OptimisticAcceptance
from botorch_pref.problems import SyntheticExpert
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies import COBOL
from botorch_pref.strategies.base import Candidate
from botorch_pref.strategies.cobol import Step
from experiments.problems import ExpertBenchmark

_BATCH = 4096


class ConstrainedCOBOL(COBOL):
    """The vanilla rule where the upper end of the belief is not negative, Fig. 3."""

    def _augmented(self, step: Step, vanilla: Candidate) -> Candidate:
        return step.constrained(step.starts(vanilla))


class BeliefCOBOL(COBOL):
    """The largest upper end of the belief alone."""

    def _augmented(self, step: Step, vanilla: Candidate) -> Candidate:
        rule = partial(OptimisticAcceptance, self.expert())
        return step.best_of_labels(rule, step.starts(vanilla))


class PinpointCOBOL(COBOL):
    r"""Every step takes an item that the expert names, [Xu2024b], App. H.2.

    The expert draws it from their belief: of uniform items they name the first that they accept.
    It is measured without a label unless the objective alone gives a reason against it; then the
    candidate without an expert is. It is for experiments alone, as it knows the function.

    Args:
        function: A function of :class:`~botorch_pref.problems.ExpertBenchmark`.
        accuracy: The expert's accuracy, over the range of the authors' code.
        **kwargs: As of :class:`~botorch_pref.strategies.COBOL`; labels play no part.
    """

    def __init__(self, *args: Any, function: str, accuracy: float, **kwargs: Any) -> None:
        unlabelled = {"num_initial_labels": 0, "threshold": math.inf, "rate": 0.0}
        super().__init__(*args, **kwargs | unlabelled)
        self.function, self.accuracy = function, accuracy
        problem = ExpertBenchmark(function)
        self._namer = SyntheticExpert(problem, accuracy, problem.ranges["authors"])

    def _augmented(self, step: Step, vanilla: Candidate) -> Candidate:
        return Candidate(self._drawn(derive_seed(self.seed, "named", self._next_id)), None)

    def _drawn(self, seed: int) -> Tensor:
        """An item drawn from what the expert accepts."""
        generator, (low, high) = torch.Generator().manual_seed(seed), self.space.bounds
        while True:
            draws = torch.rand(_BATCH, len(low) + 1, generator=generator, dtype=torch.double)
            items = torch.lerp(low, high, draws[:, 1:].to(low))
            named = (draws[:, 0].to(low) < self._namer.probability(items)).nonzero()
            if len(named):
                return items[int(named[0])]
