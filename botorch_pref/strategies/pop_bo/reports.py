r"""Which item POP-BO reports, Xu et al. (2024), Sec. 6.1 and eq. (19)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.strategies.base import Answered

Report = Literal["max-mle", "max-mle-sampled", "min-sigma", "min-width"]
"""Which item is recommended."""


def checked_report(report: str) -> Report:
    r"""A report's name.

    Raises:
        ComparisonDataError: If there is no such report; names those there are.
    """
    names: tuple[Report, ...] = get_args(Report)
    for name in names:
        if name == report:
            return name
    raise ComparisonDataError(f"`report` must be one of {', '.join(names)}, got {report!r}.")


def reported_arm(
    report: Report,
    model: LikelihoodRatioModel,
    history: Sequence[Answered],
    widths: Sequence[float],
) -> tuple[int, int]:
    r"""The query and the arm whose item is reported; of several the first.

    Args:
        report: Any but "max-mle", which is not bound to what was asked.
        model: The set after all answers.
        history: All queries that came back, one at least.
        widths: Of each query, by its number, the width of the advantage when it was asked.

    Returns:
        Two indices.
    """
    told = [k for k, done in enumerate(history) if _is_comparison(done)]
    if report == "max-mle-sampled" or not told:
        items = [done.query.items.to(model.items) for done in history]
        arms = [(k, arm) for k, pair in enumerate(items) for arm in range(len(pair))]
        with torch.no_grad():
            return arms[int(model.mle(torch.cat(items)).argmax())]
    if report == "min-sigma":
        return told[int(duel_error_bounds(model).argmin())], 0
    return min(told, key=lambda k: widths[history[k].query.id]), 0


def duel_error_bounds(model: LikelihoodRatioModel, penalty: float = 1.0) -> Tensor:
    r"""``2 (2 B + sqrt(slack_t / lambda)) sigma_t`` of every duel asked, eq. (19).

    The paper has ``beta(epsilon, delta / 2, t)``, which is of the order of the slack with a
    factor ``e^{4 B}`` in front; here it is the slack itself, as it was before the answer.

    Args:
        model: The set after all answers.
        penalty: ``lambda``.

    Returns:
        ``m``-dim tensor, in the order of the answers.
    """
    sigma = model.asked_duel_sigma(penalty=penalty)
    slack = [model.slack_rule(t, model.value_bound) for t in range(len(sigma))]
    width = 2.0 * model.norm_bound + (torch.tensor(slack).to(sigma) / penalty).sqrt()
    return 2.0 * width * sigma


def interval_width(model: LikelihoodRatioModel, pair: Tensor) -> float:
    """The largest less the smallest advantage in the set, of a ``2 x d``-dim pair."""
    with torch.no_grad():
        return float(model.advantage(torch.stack([pair, pair.flip(0)])).sum())


def _is_comparison(answered: Answered) -> bool:
    items = answered.query.items
    return answered.answer is not None and not torch.equal(items[0], items[1])
