r"""One step of COBOL's Algorithm 1: two candidates, and which of them is taken."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.acquisition import (
    ExpertAugmentedLCB,
    LogHumanConstrainedEI,
    OptimisticAcceptance,
)
from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.space import Maximum
from botorch_pref.strategies.cobol.beliefs import Beliefs
from botorch_pref.strategies.cobol.candidates import (
    RAW_SAMPLES,
    TOLERANCE,
    best,
    deviation_at,
    interval,
)
from botorch_pref.strategies.cobol.decision import (
    Decision,
    is_informative,
    is_promising,
    is_wide,
)

# Whether the expert is asked and why, the item, and its row in the choices.
Asked = tuple[Decision, Tensor, int | None]


class _Candidate(NamedTuple):
    item: Tensor
    row: int | None


class Step:
    r"""The candidates of a step, and the tests of lines 6 and 8.

    Args:
        beliefs: Both models.
        weight: ``lambda``.
        asked: ``k x d``-dim items asked so far, from which searches start, too.
        seed: Derives the seed of a search from its name.
    """

    def __init__(
        self, beliefs: Beliefs, weight: float, asked: Tensor, seed: Callable[[str], int]
    ) -> None:
        self.beliefs, self.weight, self.asked, self.seed = beliefs, weight, asked, seed
        self.settings, self.space = beliefs.settings, beliefs.space
        self.objective = beliefs.objective()
        self.optimism = ExpertAugmentedLCB(self.objective, None, self.settings.beta, 0.0)

    def decide(self, rejections: int, unanswered: bool) -> Asked:
        r"""What to ask.

        Args:
            rejections: How many labels in a row rejected.
            unanswered: Whether the expert was asked last and did not answer.

        Returns:
            The decision, the item and its row in the choices.
        """
        vanilla = self._best(self.optimism, "optimizer vanilla", self.asked)
        augmented = self._augmented(vanilla)
        # A search may have missed what the other one found.
        if self._value(self.optimism, augmented) > self._value(self.optimism, vanilla):
            vanilla = self._best(self.optimism, "optimizer repair", augmented.item.unsqueeze(0))
        known = self._known(vanilla, augmented)
        limit, settings = self.settings.max_rejections, self.settings
        if unanswered:
            return self._take(known, vanilla, "the expert did not answer")
        if limit is not None and rejections >= limit:
            return self._take(known, vanilla, f"{rejections} rejections in a row")
        if not is_promising(known.bound, known.best_lower):
            return self._take(known, vanilla, "its bound is below what is certain elsewhere")
        if not is_informative(known.deviation, known.vanilla_deviation, settings.trust):
            return self._take(known, vanilla, "the objective is too well known there")
        if is_wide(known.lower, known.upper, settings.threshold, settings.threshold_scale):
            decision = replace(
                known, asks=True, source="augmented", reason="the belief is uncertain there"
            )
            return decision, *augmented
        known = replace(known, source="augmented", reason="the belief is known there")
        return known, *augmented

    def decide_with_a_helper(self) -> Asked:
        """As :meth:`decide`, of Algorithm 2: there is one candidate, and no test of the values."""
        settings, expert = self.settings, self.beliefs.expert()
        found = self._constrained(expert, self.asked)
        known = replace(self._known(found, found), source="augmented")
        if is_wide(known.lower, known.upper, settings.threshold, settings.threshold_scale):
            return replace(known, asks=True, reason="the belief is uncertain there"), *found
        return replace(known, reason="the belief is known there"), *found

    def _augmented(self, vanilla: _Candidate) -> _Candidate:
        settings, expert = self.settings, self.beliefs.expert()
        if settings.candidate == "primal-dual" and self.weight == 0.0:
            return vanilla
        starts = torch.cat([vanilla.item.unsqueeze(0), self.asked])
        if settings.candidate == "constrained":
            return self._constrained(expert, starts)
        rule: AcquisitionFunction
        if settings.candidate == "belief":
            rule = self._acceptance()
        elif settings.candidate == "hcei":
            largest = max(value for _, value in self.beliefs.measured)
            rule = LogHumanConstrainedEI(self.objective, expert, largest)
        else:
            rule = ExpertAugmentedLCB(
                self.objective, expert, settings.beta, self.weight, tolerance=TOLERANCE
            )
        return self._best(rule, "optimizer augmented", starts)

    def _acceptance(self) -> OptimisticAcceptance:
        return OptimisticAcceptance(self.beliefs.expert(), tolerance=TOLERANCE)

    def _constrained(self, expert: LikelihoodRatioModel, starts: Tensor) -> _Candidate:
        """The best bound where the upper end is not negative, or the largest upper end."""
        ends = self._acceptance()
        top = self._best(ends, "optimizer upper", starts)
        if self._value(ends, top) < 0.0:
            return top
        found = self.space.maximize(
            self.optimism,
            seed=self.seed("optimizer augmented"),
            starts=torch.cat([top.item.unsqueeze(0), starts]).unsqueeze(-2),
            raw_samples=RAW_SAMPLES,
            feasible=expert.upper,
        )
        return _candidate(found)

    def _known(self, vanilla: _Candidate, augmented: _Candidate) -> Decision:
        """All that the tests look at; the vanilla candidate, unless they say otherwise."""
        pessimism = ExpertAugmentedLCB(self.objective, None, -self.settings.beta, 0.0)
        measured = torch.stack([query.items for query, _ in self.beliefs.measured])
        starts = torch.cat(
            [vanilla.item.unsqueeze(0), augmented.item.unsqueeze(0), measured.to(self.asked)]
        )
        certain = self._best(pessimism, "optimizer lower", starts)
        lower, upper = interval(self.beliefs.expert(), augmented.item)
        return Decision(
            asks=False,
            source="vanilla",
            reason="",
            weight=self.weight,
            norm_bound=self.beliefs.norm_bound,
            bound=self._value(self.optimism, augmented),
            best_lower=self._value(pessimism, certain),
            deviation=deviation_at(self.objective, augmented.item),
            vanilla_deviation=deviation_at(self.objective, vanilla.item),
            lower=lower,
            upper=upper,
        )

    @staticmethod
    def _take(known: Decision, candidate: _Candidate, reason: str) -> Asked:
        return replace(known, reason=reason), *candidate

    def _best(self, rule: AcquisitionFunction, stream: str, starts: Tensor) -> _Candidate:
        return _candidate(best(self.space, rule, self.seed(stream), starts))

    @staticmethod
    def _value(rule: AcquisitionFunction, candidate: _Candidate) -> float:
        with torch.no_grad():
            return float(rule(candidate.item.view(1, 1, -1)))


def _candidate(found: Maximum) -> _Candidate:
    return _Candidate(found.items[0], None if found.indices is None else found.indices[0])
