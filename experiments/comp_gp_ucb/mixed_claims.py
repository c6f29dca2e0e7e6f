r"""What the cost-aware rule aims at; nobody claimed any of it."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.claims import Claim, Comparison, lower
from experiments.comp_gp_ucb.groups import GP_UCB

MIXED, COMP, PF_TS = "cost-aware-kg", "comp", "pf-ts"
VALUES, UNBIASED = f"{MIXED}, values only", f"{MIXED}, no bias"
PANELS = {
    "CurrinExp": ("currinexp, ratio 10", "currinexp, ratio 2", "currinexp logistic, ratio 10"),
    "Borehole": ("borehole, ratio 10", "borehole, ratio 2"),
    "catalyst": ("catalyst, ratio 10", "catalyst, ratio 5", "catalyst, ratio 2"),
}
"""The panels of each problem, the first with those who know no prices of duels."""

_COSTS = (20, 30)
_OF_DUELS = {
    "CurrinExp": ("currinexp, ratio 2",),
    "Borehole": ("borehole, ratio 2",),
    "catalyst": PANELS["catalyst"],
}  # where PF-TS is played
_BIASED = ("currinexp, ratio 10", "currinexp, ratio 2")


def mixed_claims() -> tuple[Claim, ...]:
    """The aims."""
    claims = []
    for problem, panels in PANELS.items():
        for name in (GP_UCB, COMP):
            text = f"On {problem} it recommends better items than {name} (at 20 and at 30)."
            claims.append(Claim(text, _better("recommended", panels, name)))
        ratios = ", ".join(panel.rsplit(maxsplit=1)[-1] for panel in _OF_DUELS[problem])
        text = (
            f"On {problem} it recommends better ones than {PF_TS} (ratio {ratios}; at 20 and 30)."
        )
        claims.append(Claim(text, _better("recommended", _OF_DUELS[problem], PF_TS)))
        for name in (GP_UCB, COMP):
            text = f"On {problem} the best value that it buys is better than {name}'s (at 30)."
            claims.append(Claim(text, _better("value_regret", panels, name, (30,))))
        text = f"On {problem} duels help it to recommend better items than values alone (at 20)."
        claims.append(Claim(text, _better("recommended", panels, VALUES, (20,))))
    text = "On CurrinExp, whose duels are biased, it helps to learn the bias (at 20 and at 30)."
    return (*claims, Claim(text, _better("recommended", _BIASED, UNBIASED)))


def _better(
    metric: str, panels: Sequence[str], name: str, costs: Sequence[int] = _COSTS
) -> tuple[Comparison, ...]:
    """In every panel, of those who know no prices with their row in the first."""
    others = [panels[0] if name in (GP_UCB, VALUES) else panel for panel in panels]
    return tuple(
        comparison
        for panel, other in zip(panels, others, strict=True)
        for cost in costs
        for comparison in lower(f"{metric} at {cost}", f"{panel}: {MIXED}", f"{other}: {name}")
    )
