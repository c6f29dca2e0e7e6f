r"""One step of COMP-GP-UCB: an item, and whether it is duelled or measured."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, Self

import torch

from botorch_pref.acquisition import ComparisonFilteredUCB
from botorch_pref.acquisition.comparison_filtered_ucb import largest_lower_bound
from botorch_pref.exceptions import SearchSpaceError
from botorch_pref.space import Maximum
from botorch_pref.strategies.budgeted import Chosen, Kind
from botorch_pref.strategies.budgeted.beliefs import Beliefs
from botorch_pref.strategies.budgeted.step import RAW_SAMPLES, OptimisticStep, row_of
from botorch_pref.strategies.comp_gp_ucb.options import Settings
from botorch_pref.strategies.comp_gp_ucb.record import FilterRecord


@dataclass
class Schedule:
    r"""What moves from query to query, after the initial design.

    Attributes:
        gamma: Below which width an item is measured.
        phase: 1 or 2.
        step: ``t``, the number of queries that were chosen.
        streak: How many duels in a row.
        frozen: The lower bound at the last item of phase 1.
        largest: The largest lower bound since the fit ``num_fits``.
        num_fits: See there.
        slack: ``L_2 zeta_k``.
        level_values: How many values were chosen at this slack.
    """

    gamma: float
    slack: float
    phase: Literal[1, 2] = 1
    step: int = 0
    streak: int = 0
    frozen: float = -math.inf
    largest: float = -math.inf
    num_fits: int = 0
    level_values: int = 0

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; what is infinite is null."""
        return {
            name: None if isinstance(value, float) and math.isinf(value) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Reads what :meth:`to_json` wrote."""
        endless = {"gamma": math.inf, "slack": math.inf, "frozen": -math.inf, "largest": -math.inf}
        known: dict[str, Any] = {
            name: endless[name] if value is None else value for name, value in data.items()
        }
        return cls(**known)

    def count(self, kind: Kind, settings: Settings) -> None:
        """One more query was chosen: gamma is multiplied after many duels in a row."""
        if kind == "value":
            self.streak = 0
            self.level_values += 1
            return
        if self.phase == 1 and not settings.gamma_in_phase_1:
            return
        self.gamma, self.streak = settings.after_duel(self.gamma, self.streak)

    def raise_slack(self, settings: Settings) -> None:
        """Algorithm 2: after its share of the values a slack is doubled, up to the limit."""
        limit = settings.slack_limit
        if limit is None:
            return
        levels = max(1, math.ceil(math.log2(limit / settings.first_slack)))
        if 2 * levels * self.level_values >= settings.costs.most_values and 2 * self.slack <= limit:
            self.slack *= 2
            self.level_values = 0


class Step(OptimisticStep):
    r"""The next item and kind of query.

    Args:
        beliefs: Both models.
        settings: The options.
        schedule: What moves; it is moved on here.
        seed: Of the strategy.
    """

    def __init__(self, beliefs: Beliefs, settings: Settings, schedule: Schedule, seed: int) -> None:
        self.settings, self.schedule = settings, schedule
        schedule.step += 1
        super().__init__(beliefs, schedule.step, seed)

    def choose(self, can_measure: bool) -> Chosen:
        r"""The query of this step; the schedule is moved on.

        Args:
            can_measure: Whether a value can be paid; if not, a remainder may be spent on duels.
        """
        schedule = self.schedule
        if schedule.phase == 1:
            record, found = self._of_duels()
        else:
            schedule.raise_slack(self.settings)
            record, found = self._filtered()
        if record.kind == "value" and not can_measure and self.settings.spend_remainder == "duel":
            record = replace(record, kind="duel", phase="remainder")
        self._count(record, self.ends(found.items[0])[0])
        return Chosen(record, found.items[0], row_of(found))

    def first(self) -> FilterRecord:
        """A duel before any was answered: by the prior all items are alike."""
        record = FilterRecord("duel", "duels", self.first_width, self.schedule.gamma)
        self._count(record, 0.5 - self.first_width)
        return record

    def _count(self, record: FilterRecord, lower: float) -> None:
        """Move the schedule on after a query of an item with a lower bound."""
        schedule = self.schedule
        schedule.count(record.kind, self.settings)
        if schedule.phase == 1 and record.width <= record.gamma:
            schedule.phase, schedule.frozen = 2, lower
            # The largest so far begins with the bound that the paper freezes.
            schedule.largest, schedule.num_fits = lower, self.beliefs.num_fits

    def _of_duels(self) -> tuple[FilterRecord, Maximum]:
        """Phase 1: the most promising item in duels, which is always duelled."""
        found = self.to_duel()
        lower, upper = self.ends(found.items[0])
        record = FilterRecord("duel", "duels", 0.5 * (upper - lower), self.schedule.gamma)
        return record, found

    def _filtered(self) -> tuple[FilterRecord, Maximum]:
        """Phase 2: the most promising item by value of those that duels leave."""
        schedule, empty = self.schedule, False
        slack = self.settings.slack_factor * schedule.slack
        slack = slack if self.settings.slack_limit is not None else schedule.slack
        bound = self._lower_bound()
        if self.beliefs.values:
            try:  # the rule's own bound, in units in which searches and ties have theirs
                found = self.maximum(self.of_values(), self._rule(slack, bound).feasibility)
            except SearchSpaceError:  # no item that is looked at passes an older bound
                found, empty = self._nearly_empty(self._rule(slack, bound))
        else:
            found = self.maximum(self.of_duels())
        lower, upper = self.ends(found.items[0])
        width = 0.5 * (upper - lower)
        record = FilterRecord(
            "duel" if width >= schedule.gamma else "value",
            "filtered",
            width,
            schedule.gamma,
            slack,
            bound,
            upper - bound + slack,
            empty,
        )
        return record, found

    @torch.no_grad()
    def _nearly_empty(self, rule: ComparisonFilteredUCB) -> tuple[Maximum, bool]:
        """By value from the most promising item by duels if that passes; else that item."""
        found = self.to_duel()
        if float(rule.feasibility(found.items[0])) < 0:
            return self.maximum(self.of_duels()), True
        return self.maximum(self.of_values(), rule.feasibility, found.items), False

    def _rule(self, slack: float, bound: float) -> ComparisonFilteredUCB:
        return ComparisonFilteredUCB(
            self.beliefs.objective(),
            self.beliefs.borda(),
            self.beta,
            borda_slack=min(slack, 1e9),
            lower_bound=bound,
        )

    def _lower_bound(self) -> float:
        """What the best item in duels is taken to reach."""
        schedule, kind = self.schedule, self.settings.lower_bound
        if kind == "frozen":
            return schedule.frozen
        pool = self.space.sample(RAW_SAMPLES, self.seed)
        model = self.beliefs.borda()
        running = float(largest_lower_bound(model, self.beta, torch.cat([pool, self.asked()])))
        if kind == "running":
            return running
        if schedule.num_fits != self.beliefs.num_fits:
            schedule.num_fits, schedule.largest = self.beliefs.num_fits, -math.inf
        schedule.largest = max(schedule.largest, running)
        return schedule.largest
