r"""COBOL with an expert who names items, as far as the paper says how it simulated one.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from botorch_pref.problems import SyntheticExpert
from botorch_pref.queries import Query
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies import COBOL
from experiments.problems import ExpertBenchmark

_BATCH = 4096


class PinpointCOBOL(COBOL):
    r"""Every step takes an item that the expert names, [Xu2024b], App. H.2.

    He draws it from what he believes: of uniform items he names the first that he accepts. It is
    measured unless the objective alone gives a reason against it; then the vanilla candidate is.
    It is for experiments alone, as it knows the function.

    Args:
        function: A function of :class:`~botorch_pref.problems.ExpertBenchmark`.
        accuracy: The expert's accuracy, over the range of the authors' code.
        **kwargs: As of :class:`~botorch_pref.strategies.COBOL`.
    """

    def __init__(self, *args: Any, function: str, accuracy: float, **kwargs: Any) -> None:
        super().__init__(*args, **{"candidate": "pinpoint", **kwargs})
        problem = ExpertBenchmark(function)
        self._namer = SyntheticExpert(problem, accuracy, problem.ranges["authors"])

    def _choose(self, query_id: int, annotator: str | None) -> Query:
        self.suggest(self._drawn(derive_seed(self.seed, "named", query_id)))
        return super()._choose(query_id, annotator)

    def _drawn(self, seed: int) -> Tensor:
        """An item drawn from what the expert accepts."""
        generator, (low, high) = torch.Generator().manual_seed(seed), self.space.bounds
        while True:
            draws = torch.rand(_BATCH, len(low) + 1, generator=generator, dtype=torch.double)
            items = torch.lerp(low, high, draws[:, 1:].to(low))
            named = (draws[:, 0].to(low) < self._namer.probability(items)).nonzero()
            if len(named):
                return items[int(named[0])]
