r"""What the cost-aware rule aims at; nobody claimed any of it."""

from __future__ import annotations

from collections.abc import Sequence

from botorch_pref.benchmarks.claims import Claim, Comparison, lower
from botorch_pref.benchmarks.comp_groups import GP_UCB

MIXED, COMP, PF_TS = "cost-aware-kg", "comp", "pf-ts"
VALUES, UNBIASED = f"{MIXED}, values only", f"{MIXED}, no bias"
PANELS = {
    "CurrinExp": ("currinexp, ratio 10", "currinexp, ratio 2", "currinexp logistic, ratio 10"),
    "Borehole": ("borehole, ratio 10", "borehole, ratio 2"),
    "catalyst": ("catalyst, ratio 10", "catalyst, ratio 2"),
}
"""The panels of each problem, the first with those who know no prices."""

_COSTS = (20, 30)


def mixed_claims() -> tuple[Claim, ...]:
    """The aims."""
    claims = []
    for problem, panels in PANELS.items():
        for name in (GP_UCB, COMP, PF_TS):
            text = f"On {problem} it recommends better items than {name} (at 20 and at 30)."
            claims.append(Claim(text, _better("recommended", panels, name)))
    for problem, panels in PANELS.items():
        for name in (GP_UCB, COMP):
            text = f"On {problem} the best value that it buys is better than {name}'s (at 30)."
            claims.append(Claim(text, _better("value_regret", panels, name, (30,))))
    for problem, panels in PANELS.items():
        text = f"On {problem} duels help it to recommend better items than values alone (at 20)."
        claims.append(Claim(text, _better("recommended", panels, VALUES, (20,))))
    panels = PANELS["CurrinExp"]
    text = "On CurrinExp, whose duels are biased, it helps to learn the bias (at 20 and at 30)."
    return (*claims, Claim(text, _better("recommended", panels, UNBIASED)))


def row_of(panels: Sequence[str], panel: str, arm: str) -> str:
    """What an arm is called that one panel, or the first alone, has."""
    return f"{panels[0] if arm in (GP_UCB, VALUES) else panel}: {arm}"


def _better(
    metric: str, panels: Sequence[str], name: str, costs: Sequence[int] = _COSTS
) -> tuple[Comparison, ...]:
    return tuple(
        comparison
        for panel in panels
        for cost in costs
        for comparison in lower(
            f"{metric} at {cost}", f"{panel}: {MIXED}", row_of(panels, panel, name)
        )
    )
