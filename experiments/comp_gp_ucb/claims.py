r"""What the dueling-choice paper says of its figures, and what we add.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.claims import Claim, Comparison, lower, not_higher
from experiments.comp_gp_ucb.groups import GP_UCB, MOST_DUELS
from experiments.comp_gp_ucb.runs import COSTS

_END = COSTS[-1]


def budget_claims(arm: str, others: Sequence[str]) -> tuple[Claim, ...]:
    r"""Of Figs. 1a, 1c and 3a.

    Args:
        arm: Which COMP-GP-UCB is meant.
        others: What it is compared with beside GP-UCB.

    Returns:
        The claims.
    """
    rows = [f"budget: {name}" for name in (GP_UCB, *others)]
    claims = [
        Claim(
            "COMP-GP-UCB has the lowest regret S at every budget.",
            tuple(
                comparison
                for cost in COSTS
                for comparison in lower(f"regret at {cost}", f"budget: {arm}", *rows)
            ),
        )
    ]
    if "mf-gp-ucb" in others:
        claims.append(
            Claim(
                "MF-GP-UCB is worse than GP-UCB (here: of more than 10 spent).",
                tuple(
                    comparison
                    for cost in COSTS[1:]
                    for comparison in lower(f"regret at {cost}", rows[0], "budget: mf-gp-ucb")
                ),
            )
        )
    return tuple(claims)


def ratio_claims(
    arm: str, others: Sequence[str], ratios: Sequence[int], losing: Sequence[int]
) -> tuple[Claim, ...]:
    r"""Of Figs. 1b, 1d and 3b: GP-UCB is the same at all ratios.

    Args:
        arm: Which COMP-GP-UCB is meant.
        others: What it is compared with beside GP-UCB.
        ratios: How many duels a value costs; 10 is that of the panel by budget.
        losing: At which of them GP-UCB is said to be better.

    Returns:
        The claims.
    """
    metric, alone = f"regret at {_END}", f"budget: {GP_UCB}"
    row = {ratio: f"{_panel(ratio)}: {arm}" for ratio in ratios}
    winning = [ratio for ratio in ratios if ratio not in losing]
    claims = [
        Claim(
            f"COMP-GP-UCB has the lowest regret S at cost ratios of {_listed(winning)}.",
            tuple(
                comparison
                for ratio in winning
                for comparison in lower(
                    metric, row[ratio], alone, *(f"{_panel(ratio)}: {name}" for name in others)
                )
            ),
        )
    ]
    if losing:
        claims.append(
            Claim(
                f"GP-UCB has the lower one at a cost ratio of {_listed(losing)}.",
                tuple(
                    comparison
                    for ratio in losing
                    for comparison in lower(metric, alone, row[ratio])
                ),
            )
        )
    return tuple(claims)


def separate_claims() -> tuple[Claim, ...]:
    """Of Fig. 2."""
    comp = "budget: comp"
    late = COSTS[2:]
    return (
        Claim(
            "COMP-GP-UCB has the lowest regret R_c of duels at most budgets (here: from 40 on).",
            tuple(
                comparison
                for cost in late
                for comparison in lower(
                    f"duel_regret at {cost}", comp, "budget: mf-gp-ucb", "budget: kss"
                )
            ),
        ),
        Claim(
            "And the lowest regret R_l of values (here: from 40 on).",
            tuple(
                comparison
                for cost in late
                for comparison in lower(
                    f"value_regret at {cost}", comp, "budget: mf-gp-ucb", f"budget: {GP_UCB}"
                )
            ),
        ),
        Claim(
            "R_l is large early, as it mostly duels first (here: at 10 higher than GP-UCB's).",
            lower("value_regret at 10", f"budget: {GP_UCB}", comp),
        ),
    )


def opponent_claims() -> tuple[Claim, ...]:
    """Ours."""
    return (
        Claim(
            "Ours: the lead at 10 is that of random duels, whose opponents count: they have a "
            "lower regret S there than GP-UCB too.",
            lower("regret at 10", "budget: random duels", f"budget: {GP_UCB}"),
        ),
        Claim(
            "Ours: the best value that COMP-GP-UCB buys is no worse than GP-UCB's, though it buys "
            "fewer.",
            not_higher(f"value_regret at {_END}", "budget: comp", f"budget: {GP_UCB}"),
        ),
        Claim(
            "Ours: its recommendation in the end is no worse than GP-UCB's.",
            not_higher("recommendation", "budget: comp", f"budget: {GP_UCB}"),
        ),
        Claim(
            "Ours: it is better than random duels in the end.",
            lower(f"regret at {_END}", "budget: comp", "budget: random duels"),
        ),
    )


def unbiased_claims() -> tuple[Claim, ...]:
    """Of Fig. 4."""
    currin, borehole = "currinexp", "borehole"
    return (
        Claim(
            "On Currin's function COMP-GP-UCB is on par with GP-UCB in the end.",
            _not_higher_at((_END,), currin),
        ),
        Claim(
            "It is slower there, as a duel says less than a value (here: at 20 and 40).",
            tuple(
                comparison
                for cost in (20, 40)
                for comparison in lower(
                    f"regret at {cost}", f"{currin}: {GP_UCB}", f"{currin}: comp"
                )
            ),
        ),
        Claim(
            "On the borehole function it is better (here: from 40 on).",
            tuple(
                Comparison(
                    (f"{borehole}: comp", f"regret at {cost}"),
                    (f"{borehole}: {GP_UCB}", f"regret at {cost}"),
                )
                for cost in COSTS[2:]
            ),
        ),
    )


def _not_higher_at(costs: Sequence[int], panel: str) -> tuple[Comparison, ...]:
    return tuple(
        comparison
        for cost in costs
        for comparison in not_higher(f"regret at {cost}", f"{panel}: comp", f"{panel}: {GP_UCB}")
    )


def _panel(ratio: int) -> str:
    return "budget" if ratio == MOST_DUELS else f"ratio {ratio}"


def _listed(ratios: Sequence[int]) -> str:
    first = ", ".join(map(str, ratios[:-1]))
    return f"{first} and {ratios[-1]}" if first else str(ratios[-1])
