r"""One step of COBOL's Algorithm 1: two candidates, and which of them is taken."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from botorch.acquisition import AcquisitionFunction
from torch import Tensor

from botorch_pref.acquisition import ExpertAugmentedLCB
from botorch_pref.randomness import derive_seed
from botorch_pref.strategies.cobol.augmented import AugmentedSearch
from botorch_pref.strategies.cobol.beliefs import Beliefs
from botorch_pref.strategies.cobol.candidates import (
    Candidate,
    Rows,
    belief_ends,
    best,
    moments_at,
)
from botorch_pref.strategies.cobol.decision import (
    Decision,
    is_informative,
    is_promising,
    is_wide,
)
from botorch_pref.strategies.cobol.kept import Kept

# Whether the expert is asked and why, the item or the pair, and its row or rows in the choices.
Asked = tuple[Decision, Tensor, Rows]


class Step:
    r"""The candidates of a step, and the tests of lines 6 and 8.

    Args:
        beliefs: Both models.
        weight: ``lambda``.
        asked: ``k x d``-dim items asked so far, from which searches start, too.
        number: The number of the step, which seeds the searches that depend on labels; those
            that do not are seeded by the number of values.
        kept: What an earlier step found out about the values.

    Attributes:
        incumbent: The evaluation of the item that candidates are compared with, if they are.
        kept: What is known of the values now; None if nothing had to be.
    """

    def __init__(
        self, beliefs: Beliefs, weight: float, asked: Tensor, number: int, kept: Kept | None
    ) -> None:
        self.beliefs, self.weight, self.asked = beliefs, weight, asked
        self.settings, self.space = beliefs.settings, beliefs.space
        self.objective, self.num_values = beliefs.objective(), len(beliefs.measured)
        self.beta = beliefs.beta()
        self.optimism = ExpertAugmentedLCB(self.objective, None, self.beta, 0.0)
        compares = self.settings.feedback == "compare"
        self.incumbent = beliefs.incumbent() if compares else None
        self.x_ref = None if self.incumbent is None else self.incumbent.items.to(asked)
        self.augmented = AugmentedSearch(beliefs, self.beta, weight, number, self.x_ref)
        self.kept = kept if kept is not None and kept.num_values == self.num_values else None

    def decide(self, rejections: int, unanswered: bool) -> Asked:
        r"""What to ask.

        Args:
            rejections: How many labels in a row rejected.
            unanswered: Whether the expert was asked last and did not answer.

        Returns:
            The decision, the item or the pair, and the row or the rows in the choices.
        """
        vanilla = self._vanilla()
        augmented = self.augmented.find(vanilla, self.asked)
        vanilla, known = self._known(vanilla, augmented)
        limit = self.settings.max_rejections
        if unanswered:
            return replace(known, reason="the expert did not answer"), *vanilla
        if limit is not None and rejections >= limit:
            return replace(known, reason=f"{rejections} rejections in a row"), *vanilla
        if doubt := self._doubt(known, same=torch.equal(augmented.item, vanilla.item)):
            return replace(known, reason=doubt), *vanilla
        return self._handed_over(known, augmented)

    def decide_on(self, named: Candidate | None) -> Asked:
        r"""As :meth:`decide`, where a person names the augmented candidate.

        Xu et al. (2024b), App. H, leave the rest of Algorithm 1 as it is. Line 8 asks whether
        the expert accepts: who named the item does, so it is measured, and that he named it is
        no label.

        Args:
            named: What he named; if nothing, the vanilla candidate is taken.
        """
        vanilla = self._vanilla()
        if named is None:
            _, known = self._known(vanilla, vanilla)
            return replace(known, reason="no item was named"), *vanilla
        vanilla, known = self._known(vanilla, named)
        if doubt := self._doubt(known, same=torch.equal(named.item, vanilla.item)):
            return replace(known, reason=doubt), *vanilla
        return replace(known, source="augmented", reason="the expert named it"), *named

    def _doubt(self, known: Decision, same: bool) -> str | None:
        """Line 6: why the augmented candidate is not to be trusted, which a vanilla one is."""
        if same:
            return None
        if not is_promising(known.bound, known.best_lower):
            return "its bound is below what is certain elsewhere"
        if not is_informative(known.deviation, known.vanilla_deviation, self.settings.trust):
            return "the objective is too well known there"
        return None

    def decide_with_a_helper(self) -> Asked:
        """As :meth:`decide`, of Algorithm 2: there is one candidate, and no test of the values."""
        found = self.augmented.constrained(self.asked)
        return self._handed_over(self._known(found, found)[1], found)

    def _handed_over(self, known: Decision, augmented: Candidate) -> Asked:
        """Line 8: the augmented candidate, after the expert was asked or at once."""
        settings, known = self.settings, replace(known, source="augmented")
        if is_wide(known.lower, known.upper, settings.threshold, settings.threshold_scale):
            known = replace(known, asks=True, reason="the belief is uncertain there")
            return known, *self._shown(augmented)
        return replace(known, reason="the belief is known there"), *augmented

    def _shown(self, augmented: Candidate) -> tuple[Tensor, Rows]:
        """What the expert is asked about: the candidate, or it and the incumbent."""
        if self.incumbent is None:
            return augmented
        pair = torch.stack([augmented.item, self.incumbent.items.to(augmented.item)])
        return pair, None if augmented.row is None else (augmented.row, self.incumbent.indices)

    def _vanilla(self) -> Candidate:
        """Depends on values only, and is kept until there is another one."""
        if self.kept is None:
            return self._keep(self._best_of_values(self.optimism, "optimizer vanilla", self.asked))
        item = self.space.bounds.new_tensor(self.kept.item)
        return Candidate(item, self.kept.row)

    def _keep(self, vanilla: Candidate) -> Candidate:
        certain = math.nan if self.kept is None else self.kept.best_lower
        self.kept = Kept(self.num_values, vanilla.item.tolist(), vanilla.row, certain)
        return vanilla

    def _known(self, vanilla: Candidate, augmented: Candidate) -> tuple[Candidate, Decision]:
        """The vanilla candidate, repaired, and all that the tests look at."""
        beta, objective = self.beta, self.objective
        (mean, sd), (vanilla_mean, vanilla_sd) = moments_at(objective, augmented.item, vanilla.item)
        best_lower = math.nan
        if not torch.equal(augmented.item, vanilla.item):
            if mean + beta * sd > vanilla_mean + beta * vanilla_sd:
                # The search has missed what the other one found.
                start = augmented.item.unsqueeze(0)
                vanilla = self._best_of_values(self.optimism, "optimizer repair", start)
                self._keep(vanilla)
                ((_, vanilla_sd),) = moments_at(objective, vanilla.item)
            best_lower = self._best_lower(vanilla, augmented, mean - beta * sd)
        lower, upper = self._interval(augmented)
        known = Decision(
            asks=False,
            source="vanilla",
            reason="",
            weight=self.weight,
            norm_bound=self.beliefs.norm_bound,
            bound=mean + beta * sd,
            best_lower=best_lower,
            deviation=sd,
            vanilla_deviation=vanilla_sd,
            lower=lower,
            upper=upper,
        )
        return vanilla, known

    def _best_lower(self, vanilla: Candidate, augmented: Candidate, lower: float) -> float:
        """The largest pessimistic value known, of which ``lower`` is the augmented candidate's."""
        assert self.kept is not None
        found = self.kept.best_lower
        if math.isnan(found):
            pessimism = ExpertAugmentedLCB(self.objective, None, -self.beta, 0.0)
            measured = torch.stack([query.items for query, _ in self.beliefs.measured])
            starts = [vanilla.item.unsqueeze(0), augmented.item.unsqueeze(0), measured]
            certain = self._best_of_values(pessimism, "optimizer lower", torch.cat(starts))
            ((mean, sd),) = moments_at(self.objective, certain.item)
            found = mean - self.beta * sd
        self.kept = replace(self.kept, best_lower=max(found, lower))
        return self.kept.best_lower

    def _interval(self, candidate: Candidate) -> tuple[float, float]:
        """Both ends of the expert's belief, logits; not numbers if nothing depends on them."""
        settings = self.settings
        unused = settings.threshold == math.inf and not settings.rate
        if settings.candidate == "pinpoint" or unused:
            return math.nan, math.nan
        return belief_ends(self.beliefs.expert(), candidate.item, self.x_ref)

    def _best_of_values(self, rule: AcquisitionFunction, stream: str, starts: Tensor) -> Candidate:
        seed = derive_seed(self.beliefs.seed, stream, self.num_values)
        avoid = self.beliefs.unmeasured_items()
        return Candidate.of(best(self.space, rule, seed, starts, avoid=avoid))
