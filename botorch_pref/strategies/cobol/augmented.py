r"""Where COBOL finds the augmented candidate, if nobody names it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.acquisition import (
    ExpertAugmentedLCB,
    LogHumanConstrainedEI,
    OptimisticAcceptance,
)
from botorch_pref.acquisition.expert_belief import ExpertBelief
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies.apart import apart
from botorch_pref.strategies.cobol.beliefs import Beliefs
from botorch_pref.strategies.cobol.candidates import (
    RAW_SAMPLES,
    SCREENING,
    TOLERANCE,
    Candidate,
    belief_ends,
    best,
)


class AugmentedSearch:
    r"""The searches that depend on labels.

    Args:
        beliefs: Both models.
        beta: The multiple of the objective's deviation.
        weight: ``lambda``.
        number: The number of the step, which seeds them.
        x_ref: ``d``-dim item that the belief is compared with, if pairs are judged.
    """

    def __init__(
        self, beliefs: Beliefs, beta: float, weight: float, number: int, x_ref: Tensor | None
    ) -> None:
        self.beliefs, self.beta, self.weight = beliefs, beta, weight
        self.number, self.x_ref = number, x_ref
        self.settings, self.space = beliefs.settings, beliefs.space

    def find(self, vanilla: Candidate, asked: Tensor) -> Candidate:
        r"""The augmented candidate of Algorithm 1, as the option ``candidate`` has it.

        Args:
            vanilla: The vanilla candidate, which is returned itself where nothing is added to
                its rule.
            asked: ``k x d``-dim items asked so far, from which searches start, too.

        Returns:
            The candidate.
        """
        if self.settings.candidate == "primal-dual" and self.weight == 0.0:
            return vanilla
        starts = torch.cat([vanilla.item.unsqueeze(0), asked])
        if self.settings.candidate == "constrained":
            return self.constrained(starts)
        return self._best(self._rule(), "optimizer augmented", starts)

    def constrained(self, starts: Tensor) -> Candidate:
        r"""The best bound where the upper end is not negative, or the largest upper end.

        Args:
            starts: ``s x d``-dim items from which searches start, too.

        Returns:
            The candidate of Algorithm 2.
        """
        expert = self.beliefs.expert()
        belief = partial(OptimisticAcceptance, expert, x_ref=self.x_ref)
        top = self._best(belief, "optimizer upper", starts)
        if belief_ends(expert, top.item, self.x_ref)[1] < 0.0:
            return top
        rule = ExpertAugmentedLCB(self.beliefs.objective(), None, self.beta, 0.0)
        seed = derive_seed(self.beliefs.seed, "optimizer augmented", self.number)
        feasible = ExpertBelief(expert, x_ref=self.x_ref).upper
        found = self.space.maximize(
            rule,
            seed=seed,
            starts=torch.cat([top.item.unsqueeze(0), starts]).unsqueeze(-2),
            raw_samples=RAW_SAMPLES,
            feasible=feasible,
        )
        avoid = self.beliefs.unmeasured_items()
        return Candidate.of(apart(found, self.space, rule, seed, avoid, feasible))

    def _rule(self) -> Callable[..., AcquisitionFunction]:
        """What is maximised, to a tolerance that is left open."""
        objective, expert = self.beliefs.objective(), self.beliefs.expert()
        if self.settings.candidate == "belief":
            return partial(OptimisticAcceptance, expert, x_ref=self.x_ref)
        if self.settings.candidate == "hcei":
            return partial(
                LogHumanConstrainedEI,
                objective,
                expert,
                max(value for _, value in self.beliefs.measured),
                acceptance=self.settings.acceptance,
                x_ref=self.x_ref,
            )
        augmented = partial(ExpertAugmentedLCB, objective, expert, self.beta, self.weight)
        return partial(augmented, x_ref=self.x_ref)

    def _best(
        self, rule: Callable[..., AcquisitionFunction], stream: str, starts: Tensor
    ) -> Candidate:
        seed = derive_seed(self.beliefs.seed, stream, self.number)
        screens = [rule(tolerance=tolerance) for tolerance in (math.inf, SCREENING)]
        fine, avoid = rule(tolerance=TOLERANCE), self.beliefs.unmeasured_items()
        return Candidate.of(best(self.space, fine, seed, starts, screens, avoid))
