r"""What the COBOL paper claims of its experiments on test functions, and what we aim at.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

from collections.abc import Sequence

from experiments.claims import Claim, Comparison, lower, not_higher
from experiments.problems import EXPERT_BENCHMARKS

_LATE = "late labels"


def robustness_claims() -> tuple[Claim, ...]:
    """Of Fig. 3."""
    claims = []
    for panel in ("practical", "paper"):
        lcb, strong, helpful = (f"{panel}: {arm}" for arm in ("lcb", "a = 2", "a = 1"))
        useless = [f"{panel}: a = {accuracy}" for accuracy in (0, -1, -2)]
        which = f"({panel} preset)"
        claims += [
            Claim(
                f"Helpful experts, a = 1 and 2, speed it up {which}: the mean of the simple "
                "regrets over all evaluations is lower than LCB's.",
                tuple(Comparison((arm, "average"), (lcb, "average")) for arm in (strong, helpful)),
            ),
            Claim(
                f"An expert of accuracy 2 helps more than one of 1 {which}.",
                lower("average", strong, helpful),
            ),
            Claim(
                f"With a = 0, -1 and -2 the simple regret is on par with LCB's {which}.",
                _each_not_higher(useless, lcb),
            ),
            Claim(
                f"Labels run dry {which}: there are fewer than evaluations in the second half.",
                tuple(Comparison((arm, _LATE), 1.0) for arm in (strong, helpful, *useless)),
            ),
        ]
    default = "settings: default"
    claims.append(
        Claim(
            "The constrained rule (a first weight of 0) is slower than first weights of 1 and 2.",
            lower("average", "settings: weight = 1", "settings: weight = 0")
            + lower("average", "settings: weight = 2", "settings: weight = 0"),
        )
    )
    settings = ("eta = 1", "eta = 10", "threshold = 0.03", "threshold = 0.3")
    claims.append(
        Claim(
            "Settings matter little (here: no simple regret is higher than that of the default).",
            _each_not_higher([f"settings: {name}" for name in settings], default),
        )
    )
    return tuple(claims)


def ablation_claims() -> tuple[Claim, ...]:
    """Of Figs. 4 and 8."""
    claims = []
    for arm, alone in (("cobol", "lcb"), ("cobol (paper)", "lcb (paper)")):
        claims += [
            Claim(
                f"{arm} has a lower simple regret than LCB on all five functions.",
                _on_all("simple", arm, alone),
            ),
            Claim(
                f"{arm} is faster than LCB on all five functions: the mean of the simple regrets "
                "over all evaluations is lower.",
                _on_all("average", arm, alone),
            ),
            Claim(
                f"{arm} has a lower simple regret than random and expert sampling on all five.",
                _on_all("simple", arm, "random", "expert sampling"),
            ),
            Claim(
                f"Labels of {arm} run dry on all but Michalewicz's function: there are fewer than "
                "evaluations in the second half.",
                tuple(
                    Comparison((f"{function}: {arm}", _LATE), 1.0)
                    for function in EXPERT_BENCHMARKS
                    if function != "michalewicz5"
                ),
            ),
        ]
    return (
        *claims,
        Claim(
            "Expert sampling always has a lower simple regret than random.",
            _on_all("simple", "expert sampling", "random"),
        ),
        Claim(
            "Ours: the expert helps, and not only the rule: cobol is faster than the same rule "
            "without an expert (ei).",
            _on_all("average", "cobol", "ei"),
        ),
        Claim(
            "Ours: a query of cobol takes less than a second (the authors: about 10).",
            tuple(
                Comparison((f"{function}: cobol", "seconds"), 1.0) for function in EXPERT_BENCHMARKS
            ),
        ),
    )


def no_harm_claims() -> tuple[Claim, ...]:
    """Of Fig. 9."""
    sides = (("eta = 3", "lcb", "practical"), ("paper", "lcb (paper)", "paper"))
    reached = [
        Claim(
            f"With an adversarial expert the simple regret is not worse than LCB's ({preset} "
            "preset).",
            tuple(
                comparison
                for function in EXPERT_BENCHMARKS
                for comparison in not_higher("simple", f"{function}: {arm}", f"{function}: {alone}")
            ),
        )
        for arm, alone, preset in sides
    ]
    ackley = "ackley4: "
    varied = [f"{ackley}eta = {trust}" for trust in (5, 10, 100)]
    alike = (f"{ackley}eta = 10", f"{ackley}eta = 100")
    return (
        *reached,
        Claim(
            "LCB's simple regret is reached with any eta (here: on Ackley's function).",
            _each_not_higher(varied, f"{ackley}lcb"),
        ),
        Claim(
            "With eta = 10 and 100 the simple regrets are nearly the same.",
            (*not_higher("simple", *alike), *not_higher("simple", *alike[::-1])),
        ),
    )


def variant_claims() -> tuple[Claim, ...]:
    """Of Figs. 3, 6 and 7."""
    plain = "candidates: primal-dual"
    return (
        Claim(
            "Pointing at an item is worse than the primal-dual rule.",
            lower("simple", plain, "candidates: pinpoint"),
        ),
        Claim(
            "The constrained candidate is worse than the primal-dual one.",
            lower("average", plain, "candidates: constrained"),
        ),
        Claim(
            "With a strong, a weak and a wrong normal belief it converges (here: not worse than "
            "LCB).",
            _each_not_higher(
                [f"normal beliefs: {mean}" for mean in ("strong", "weak", "wrong")],
                "candidates: lcb",
            ),
        ),
        Claim(
            "An expert who learns takes more labels than one of accuracy 1.",
            (Comparison(("changing accuracy: rising", "labels"), (plain, "labels"), "higher"),),
        ),
    )


def _each_not_higher(arms: Sequence[str], other: str) -> tuple[Comparison, ...]:
    return tuple(comparison for arm in arms for comparison in not_higher("simple", arm, other))


def _on_all(metric: str, arm: str, *others: str) -> tuple[Comparison, ...]:
    """A metric of an arm is lower on every function."""
    return tuple(
        comparison
        for function in EXPERT_BENCHMARKS
        for comparison in lower(
            metric, f"{function}: {arm}", *(f"{function}: {other}" for other in others)
        )
    )
