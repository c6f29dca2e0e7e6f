r"""The tests of COBOL's Algorithm 1, and a record of what they said.

In our orientation: values are maximised, an expert's latent belief is large where items are
accepted, and ``upper`` and ``lower`` are the ends of an interval.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

Source = Literal["initial", "augmented", "vanilla"]
Scale = Literal["probability", "logit"]


@dataclass(frozen=True)
class Decision:
    r"""Why an item is evaluated, or shown to the expert.

    Attributes:
        asks: Whether the expert is asked.
        source: Which of the two candidates the item is, or a part of the initial design.
        reason: Why, in a few words.
        weight: The weight ``lambda`` of the expert's belief at this step.
        norm_bound: The bound on the norm of the belief.
        bound: ``mean + beta sd`` of the objective at the augmented candidate, standardised.
        best_lower: The largest ``mean - beta sd``, which the bound must reach to be trusted.
        deviation: Standard deviation of the objective at the augmented candidate.
        vanilla_deviation: That at the vanilla candidate.
        lower: The lower end of the belief at the augmented candidate, a logit.
        upper: The upper end.
    """

    asks: bool
    source: Source
    reason: str
    weight: float = math.nan
    norm_bound: float = math.nan
    bound: float = math.nan
    best_lower: float = math.nan
    deviation: float = math.nan
    vanilla_deviation: float = math.nan
    lower: float = math.nan
    upper: float = math.nan

    def to_json(self) -> dict[str, Any]:
        """As plain JSON; what is not a number is null."""
        return {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Decision:
        """Reads what :meth:`to_json` wrote."""
        known: dict[str, Any] = {
            name: math.nan if value is None else value for name, value in data.items()
        }
        return cls(**known)


def is_promising(bound: float, best_lower: float) -> bool:
    r"""The first test of line 6: the candidate may be as good as the best that is certain.

    Args:
        bound: ``mean + beta sd`` at the candidate.
        best_lower: The largest ``mean - beta sd`` of all items.
    """
    return bound >= best_lower


def is_informative(deviation: float, vanilla_deviation: float, trust: float) -> bool:
    r"""The second test of line 6: ``sd(x_u) <= eta sd(x_c)``.

    Args:
        deviation: ``sd(x_c)``, of the latent objective.
        vanilla_deviation: ``sd(x_u)``.
        trust: ``eta``, at least 1.
    """
    return vanilla_deviation <= trust * deviation


def is_wide(lower: float, upper: float, threshold: float, scale: Scale) -> bool:
    r"""Line 8: whether the expert has something to say.

    Args:
        lower: The lower end of the belief, a logit.
        upper: The upper end.
        threshold: What the width must exceed.
        scale: Whether it is the width of the interval of logits or of probabilities.
    """
    if scale == "probability":
        lower, upper = (0.5 * (1.0 + math.tanh(0.5 * end)) for end in (lower, upper))
    return upper - lower > threshold


def next_weight(weight: float, rate: float, upper: float) -> float:
    r"""Eq. (5): the weight grows while even an optimist believes that the expert would reject.

    Args:
        weight: ``lambda``.
        rate: ``zeta``.
        upper: The upper end of the belief at the augmented candidate.

    Returns:
        The next weight, at least 0.
    """
    return max(0.0, weight - rate * upper)
