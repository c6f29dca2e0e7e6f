r"""The experiments of the dueling-choice paper, and what it claims of them.

References:
.. [Xu2020] Y. Xu, A. Joshi, A. Singh, A. Dubrawski. Zeroth Order Non-convex Optimization
    with Dueling-Choice Bandits. UAI 2020.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from gpytorch.kernels import RBFKernel, ScaleKernel

from botorch_pref.likelihoods import LogitLikelihood
from botorch_pref.problems import LogisticJudge
from botorch_pref.strategies import CompGPUCB
from botorch_pref.strategies.comp_gp_ucb import LEAST_GAMMA
from experiments.baselines import GPUCB, MFGPUCB, BordaUCB, KernelSelfSparring, RandomDuels
from experiments.claims import Claim, Comparison, lower, not_higher
from experiments.comp_gp_ucb.oracle import OracleGPUCB
from experiments.comp_gp_ucb.runs import COSTS, GP_UCB, MOST_DUELS, Arm, CostExperiment, Group, Task
from experiments.problems import Borehole, CurrinExp, DuelingChoiceJudge, deterministic_link
from experiments.problems.fidelities import facts_of

_END = COSTS[-1]


def budget_claims(arm: str, others: Sequence[str]) -> tuple[Claim, ...]:
    """Of Figs. 1a, 1c and 3a."""
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
    """Of Figs. 1b, 1d and 3b: GP-UCB is the same at all ratios."""
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


SLOPE = 0.25  # L_2 of the logistic link with a scale of 1; the paper states none
RATIOS = (1, 2, 5)  # and 10
_DEVIATIONS = {"currinexp": 2.616, "borehole": 36.2}  # of f_c, of uniform items
_SOURCE = "Xu et al. (2020)"
_DUELS = ("deterministic", DuelingChoiceJudge)
_ORACLE = "gp-ucb in H"
_FIXED = (0.25, 0.5, 1.0)  # lengthscales that are not learnt
_UNBIASED = (
    "unbiased",
    partial(LogisticJudge, likelihood=deterministic_link, value_noise=0.0),
)
_NOTES = (
    "A value costs 1 and a duel 1/10, but for the panels of other ratios. The initial design "
    "costs 10, the half of it duels of random items, or all of it values or duels where there is "
    "nothing else. Values have no noise. One run of the whole budget gives the curve.",
    "All regrets are of the noiseless f. S also counts the random opponent of a duel, and most of "
    "the lead after the initial design is due to that: random duels have it as well. R_c and R_l "
    "count the chosen items. They are infinite before the first query of the kind, as of what "
    "asks for one kind alone.",
    "Numbers of phases and gamma are 0 of strategies that have none. Seconds are of a "
    "query after the initial design.",
    "The paper states neither L_2, nor how duels are decided, nor noise variances and prior means. "
    "Here L_2 = 1/4, and the item with the larger f_c wins for certain; the panels of logistic "
    "duels have the scale 1 and the standard deviation of f_c, and the slack of the others. That "
    "is L_2 zeta where the scale is the range of f, and for comp (literal) where it is 1.",
    "comp has the paper's zeta = f(x*) - f_c(x*) and gamma after f and f_c were divided by the "
    "range of f: gamma = zeta, and a slack of zeta / 4. comp (literal) has them as printed, gamma "
    "= range(f) zeta, which no width reaches, so that it duels once after the initial design.",
    f"{_ORACLE} is GP-UCB that knows where comp's filter would end: it asks for values where "
    "f_r >= max f_r - L_2 zeta, after 10 of random items. It is a control, and no strategy.",
)


def comp_experiments() -> tuple[CostExperiment, ...]:
    """Figures 1a, 1b and 2 to 4, and why the borehole function is easy without duels."""
    return _currin(), _borehole(), _unbiased(), _interior()


def synthetic_task(problem: CurrinExp | Borehole) -> Task:
    """A test function with the biases that the paper takes."""
    facts = facts_of(problem)
    zeta, width = facts.zeta, facts.most - facts.least
    tight = facts.tight_zeta / width
    filters: Mapping[str, Mapping[str, Any]] = {
        "comp": {"borda_slack": SLOPE * zeta / width, "gamma": zeta / width},
        "comp (literal)": {"borda_slack": SLOPE * zeta, "gamma": width * zeta},
        "comp (tight)": {"borda_slack": SLOPE * tight, "gamma": max(tight, LEAST_GAMMA)},
    }
    arms = {
        name: Arm(kind=CompGPUCB, duels=0.5, values=0.5, options=options)
        for name, options in filters.items()
    }
    arms["mf-gp-ucb"] = Arm(
        kind=MFGPUCB, duels=0.5, values=0.5, options={"borda_slack": zeta, "gamma": width * zeta}
    )
    known = {"problem": problem.name, "borda_slack": SLOPE * zeta / width}
    arms[_ORACLE] = Arm(kind=OracleGPUCB, values=1.0, options=known)
    return Task(
        name=problem.name,
        problem=problem,
        optimal_value=problem.optimal_value,
        arms={**arms, **_ALONE},
    )


_ALONE: Mapping[str, Arm] = {
    GP_UCB: Arm(kind=GPUCB, values=1.0),
    "kss": Arm(kind=KernelSelfSparring, duels=1.0),
    "borda-ucb": Arm(kind=BordaUCB, duels=1.0),
    "random duels": Arm(kind=RandomDuels, duels=1.0),
    "random values": Arm(kind=GPUCB, values=1.0, throughout=True),
}
"""Those that ask for one kind of query."""


def _groups(task: Task, arms: tuple[str, ...], varied: tuple[str, ...]) -> tuple[Group, ...]:
    """The panels by budget, by ratio, and with other links."""
    key, judge = _DUELS
    groups = [
        Group(panel="budget", task=task, key=key, judge=judge, arms=arms, curves="separate"),
        *(
            Group(
                panel=f"ratio {ratio}",
                task=task,
                key=key,
                judge=judge,
                arms=varied,
                ratio=ratio,
                curves=False,
            )
            for ratio in RATIOS
        ),
    ]
    for scale in (1.0, _DEVIATIONS[task.name]):
        link = LogitLikelihood(1.0 / scale)
        groups.append(
            Group(
                panel=f"logistic {scale:g}",
                task=task,
                key=f"logistic-{scale:g}",
                judge=partial(DuelingChoiceJudge, link=link),
                arms=("comp", "comp (literal)"),
            )
        )
    return tuple(groups)


def _experiment(**rest: Any) -> CostExperiment:
    return CostExperiment(horizon=100, seeds=20, **rest)


def _currin() -> CostExperiment:
    task = synthetic_task(CurrinExp())
    arms = ("comp", "comp (literal)", GP_UCB, "mf-gp-ucb", "kss")
    controls = (_ORACLE, "borda-ucb", "random duels", "random values")
    return _experiment(
        name="comp-currin",
        title="Duels and values on Currin's function in 2 dimensions",
        source=f"{_SOURCE}, Figs. 1a, 1b and 2",
        groups=_groups(task, arms + controls, ("comp", "mf-gp-ucb", "kss")),
        claims=(
            *budget_claims("comp", ("mf-gp-ucb", "kss")),
            *ratio_claims("comp", ("mf-gp-ucb", "kss"), (1, 2, 5, 10), losing=(1,)),
            *separate_claims(),
            *opponent_claims(),
        ),
        notes=_NOTES,
    )


def _borehole() -> CostExperiment:
    task = synthetic_task(Borehole())
    arms = ("comp", "comp (literal)", "comp (tight)", GP_UCB, "mf-gp-ucb")
    controls = (_ORACLE, "borda-ucb", "random duels", "random values")
    return _experiment(
        name="comp-borehole",
        title="Duels and values on the borehole function in 8 dimensions",
        source=f"{_SOURCE}, Figs. 3a and 3b",
        groups=_groups(task, arms + controls, ("comp", "mf-gp-ucb")),
        claims=(
            *budget_claims("comp", ("mf-gp-ucb",)),
            *ratio_claims("comp", ("mf-gp-ucb",), (1, 2, 5, 10), losing=()),
            *opponent_claims(),
        ),
        notes=(
            *_NOTES,
            "comp (tight) has the bias that matters, f_c* - f_c(x*), which is 0 as both fidelities "
            "are largest at one corner, and gamma = 0.02 at first.",
            "A search that can return an exact corner finds the optimum to the last digit; that of "
            "the paper never looks at the boundary.",
        ),
    )


def fixed_lengthscale(lengthscale: float, dim: int) -> ScaleKernel:
    """A squared exponential kernel of which the output scale alone is learnt."""
    kernel = ScaleKernel(RBFKernel()).double()
    kernel.base_kernel.lengthscale = lengthscale
    kernel.base_kernel.raw_lengthscale.requires_grad_(False)
    return kernel


def interior_borehole() -> Borehole:
    """The borehole function on 1,000 random items, none of which is at a corner."""
    generator = torch.Generator().manual_seed(0)
    return Borehole(choices=torch.rand(1000, 8, generator=generator, dtype=torch.double))


def _interior() -> CostExperiment:
    problem = interior_borehole()
    filters = dict(synthetic_task(Borehole()).arms["comp"].options)
    arms: dict[str, Arm] = {}
    for lengthscale in (None, *_FIXED):
        name = "" if lengthscale is None else f", {lengthscale:g}"
        own = {}
        if lengthscale is not None:
            own = {"covar_module": partial(fixed_lengthscale, lengthscale)}
        arms[GP_UCB + name] = Arm(kind=GPUCB, values=1.0, options=own)
        arms["comp" + name] = Arm(kind=CompGPUCB, duels=0.5, values=0.5, options=filters | own)
    best = problem.optimal_value
    task = Task(name="borehole-interior", problem=problem, optimal_value=best, arms=arms)
    row = "interior: "
    return CostExperiment(
        name="comp-interior",
        title="Duels and values on 1,000 interior items of the borehole function",
        source="ours",
        horizon=40,
        seeds=20,
        groups=(Group(panel="interior", task=task, key=_DUELS[0], judge=_DUELS[1], arms=(*arms,)),),
        claims=(
            Claim(
                "Without corners GP-UCB needs no filter either: its best value after ten chosen "
                "ones is no worse than that of COMP-GP-UCB.",
                not_higher("value_regret at 20", row + GP_UCB, row + "comp"),
            ),
            *(
                Claim(
                    f"With a fixed lengthscale of {one:g} the filter pays: COMP-GP-UCB has the "
                    "better value at 20.",
                    lower("value_regret at 20", f"{row}comp, {one:g}", f"{row}{GP_UCB}, {one:g}"),
                )
                for one in _FIXED
            ),
        ),
        notes=(
            "The items are uniform in the cube, and the same for every seed. The initial design "
            "costs 10, so that GP-UCB chooses ten values until 20.",
            "A number behind a name is a lengthscale on the unit cube that is not learnt, in both "
            "models, as the paper's theorems have a given kernel; its experiments learn one.",
            *_NOTES[1:3],
        ),
    )


def _unbiased() -> CostExperiment:
    groups = []
    for problem, arms in ((CurrinExp(), ("kss",)), (Borehole(), ())):
        task = synthetic_task(problem)
        always: Mapping[str, Any] = {"borda_slack": 0.0, "gamma": 0.0}
        comp = Arm(kind=CompGPUCB, duels=0.5, values=0.5, options=always)
        groups.append(
            Group(
                panel=task.name,
                task=Task(
                    name=task.name,
                    problem=problem,
                    optimal_value=task.optimal_value,
                    arms={**task.arms, "comp": comp},
                ),
                key=_UNBIASED[0],
                judge=_UNBIASED[1],
                arms=("comp", GP_UCB, *arms, "random duels", "random values"),
                ratio=1,
            )
        )
    return _experiment(
        name="comp-unbiased",
        title="Duels by f itself, at the price of values",
        source=f"{_SOURCE}, Fig. 4",
        groups=tuple(groups),
        claims=unbiased_claims(),
        notes=(
            "Duels are decided by f and cost as much as values. With zeta = gamma = 0 comp asks "
            "duels alone after the initial design of 5 duels and 5 values. The item with the "
            "larger f wins for certain.",
            *_NOTES[1:3],
        ),
    )
