r"""What a study recommends, and how sure it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from botorch_pref.study.beliefs import Beliefs
from botorch_pref.study.stopping import StoppingRule


@dataclass(frozen=True)
class Recommendation:
    r"""The best item of the whole space, as the strategy sees it, and what all answers say of it.

    The probabilities, and ``best_asked``, are ``None`` while there are neither comparisons nor
    values. The statement has no probability before the number of answers is the stopping
    rule's ``min_answers``: until then they mostly tell of the prior.

    Attributes:
        item: The ``d``-dim item.
        values: The same by the names of dimensions, categories by the names of levels.
        num_answers: The number of answers, skipped ones aside.
        num_items: The number of items that it is compared with.
        probability_best: The posterior probability that it, or one alike, is the best of these:
            of a box, one that differs by 5 % of every range at most, and in no category.
        best_asked: The ``d``-dim item of the largest posterior mean of those that were asked.
        runner_up: The ``d``-dim item of the largest posterior mean that is not alike, if any.
        win_probability: That the recommended item wins a duel with that one; where values were
            measured, that its value is the larger one.
        good_enough: The posterior probability that none of these is noticeably better.
        progress: How far the study is, from 0 to 1; see :class:`StoppingRule`.
        statement: All this in a sentence or two.
    """

    item: Tensor
    values: dict[str, float | str]
    num_answers: int
    num_items: int
    probability_best: float | None
    best_asked: Tensor | None
    runner_up: Tensor | None
    win_probability: float | None
    good_enough: float | None
    progress: float
    statement: str

    @property
    def is_settled(self) -> bool:
        """Whether the stopping rule is met."""
        return self.progress >= 1.0


def recommendation(
    item: Tensor,
    values: dict[str, float | str],
    num_answers: int,
    beliefs: Beliefs | None,
    rule: StoppingRule,
    describe: Callable[[Tensor], str],
) -> Recommendation:
    r"""What is known of an item.

    Args:
        item: The ``d``-dim item.
        values: It, by the names of dimensions.
        num_answers: The number of answers.
        beliefs: What they say.
        rule: What is enough.
        describe: Says what an item is.
    """
    found: dict[str, Any] = dict.fromkeys(
        ("probability_best", "best_asked", "runner_up", "win_probability", "good_enough")
    )
    number, progress = 1, 0.0
    statement = f"{describe(item)}; too few answers to say how sure that is."
    if beliefs is not None:
        found["best_asked"] = beliefs.items[int(beliefs.mean.argmax())]
        beliefs, row = beliefs.with_item(item)
        number = len(beliefs.items)
        advantages = beliefs.advantages(row)
        best, noticeable = advantages.argmax(-1), beliefs.noticeable(rule.margin)
        found["probability_best"] = float(beliefs.alike(row)[best].double().mean())
        found["good_enough"] = float((advantages.amax(-1) <= noticeable).double().mean())
        if len(rows := beliefs.distinct(2, row)) > 1:
            found["runner_up"] = beliefs.items[rows[1]]
            found["win_probability"] = beliefs.win_probability(*rows)
        if number > 1:  # of a single item there is nothing to be sure of
            progress = rule.progress(found["good_enough"], beliefs.num_answers)
        if beliefs.num_answers >= rule.min_answers:
            statement = _statement(item, beliefs, rule, found, describe)
        if not beliefs.alike(row)[beliefs.row_of(found["best_asked"])]:
            statement += f" The best of those asked: {describe(found['best_asked'])}."
    return Recommendation(
        item=item,
        values=values,
        num_answers=num_answers,
        num_items=number,
        progress=progress,
        statement=statement,
        **found,
    )


def _statement(
    item: Tensor,
    beliefs: Beliefs,
    rule: StoppingRule,
    found: dict[str, Any],
    describe: Callable[[Tensor], str],
) -> str:
    alike = "" if beliefs.space.choices is not None else ", or one that hardly differs,"
    text = (
        f"{describe(item)}. It{alike} is the best of {len(beliefs.items)} items with probability "
        f"{_chance(found['probability_best'])}."
    )
    if found["runner_up"] is not None:
        wins = "has the larger value" if beliefs.measured else "wins a duel"
        text += (
            f" Against the runner-up ({describe(found['runner_up'])}) it {wins} with probability "
            f"{_chance(found['win_probability'])}."
        )
    better = f"would win more than {0.5 + rule.margin:.0%} of duels with it"
    if beliefs.measured:
        better = f"is better by {rule.margin:g} standard deviations"
    return text + f" With probability {_chance(found['good_enough'])} none of them {better}."


def _chance(probability: float) -> str:
    return (
        f"{probability:.2f}"
        if 0.005 <= probability <= 0.995
        else ("above 0.99" if probability > 0.5 else "below 0.01")
    )
