r"""The experiments of the COBOL paper on test functions, and what it claims of them.

References:
.. [Xu2024b] W. Xu, M. Adachi, C. N. Jones, M. A. Osborne. Principled Bayesian
    Optimisation in Collaboration with Human Experts. NeurIPS 2024.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, Literal

import torch

from botorch_pref.data.options import endless_from_json
from botorch_pref.problems import ElectrolyteStandIn, SyntheticExpert
from botorch_pref.runner.experiment import JudgeFactory, StrategyFactory
from botorch_pref.strategies import COBOL, Strategy
from experiments.baselines.expert_baselines import (
    AlternatingExpert,
    CoExBO,
    ExpertOverride,
    ExpertSampling,
    RandomValues,
)
from experiments.claims import Claim, Comparison, lower, not_higher
from experiments.cobol.candidates import BeliefCOBOL, ConstrainedCOBOL, PinpointCOBOL
from experiments.cobol.runs import (
    BOUNDED,
    ELECTROLYTE,
    LCB,
    LCB_PAPER,
    PAPER,
    ExpertExperiment,
    Group,
)
from experiments.problems import (
    EXPERT_BENCHMARKS,
    AccuracySchedule,
    BeliefMean,
    ExpertBenchmark,
    FittedExpert,
    MVNExpert,
    TimeVaryingExpert,
    normal_belief,
)

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


def bounded_claims() -> tuple[Claim, ...]:
    """Of Figs. 3, 4 and 9, on every function."""
    claims = []
    for function in EXPERT_BENCHMARKS:
        lcb = f"{function}: lcb"
        helpful, useless = (
            [f"{function}: a = {accuracy}" for accuracy in accuracies]
            for accuracies in ((1, 2), (0, -1, -2))
        )
        claims += [
            Claim(
                f"{function}: experts of accuracy 1 and 2 speed it up: the mean of the simple "
                "regrets over all evaluations is lower than LCB's.",
                tuple(Comparison((arm, "average"), (lcb, "average")) for arm in helpful),
            ),
            Claim(
                f"{function}: the simple regret with accuracy 1 and 2 is lower than LCB's.",
                tuple(Comparison((arm, "simple"), (lcb, "simple")) for arm in helpful),
            ),
            Claim(
                f"{function}: with 0, -1 and -2 the simple regret is on par with LCB's.",
                _each_not_higher(useless, lcb),
            ),
            Claim(
                f"{function}: labels run dry: there are fewer than evaluations in the second half.",
                tuple(Comparison((arm, _LATE), 1.0) for arm in (*helpful, *useless)),
            ),
        ]
    return tuple(claims)


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
            "Ours: a strong belief, given as a function, is faster than LCB, and a wrong one is "
            "not worse in the end.",
            lower("average", "belief functions: strong", "candidates: lcb")
            + not_higher("simple", "belief functions: wrong", "candidates: lcb"),
        ),
        Claim(
            "An expert who learns takes more labels than one of accuracy 1.",
            (Comparison(("changing accuracy: rising", "labels"), (plain, "labels"), "higher"),),
        ),
    )


def electrolyte_claims() -> tuple[Claim, ...]:
    """Of Fig. 5."""
    right, wrong = "experts who know", "experts who are wrong"
    return (
        Claim(
            "COBOL is faster than LCB where the experts know the electrolyte: the mean of the "
            "simple regrets over all evaluations is lower.",
            lower("average", f"{right}: cobol", f"{right}: lcb"),
        ),
        Claim(
            "There it is faster than what people choose alone, override or alternate in.",
            lower(
                "average",
                f"{right}: cobol",
                *(f"{right}: {arm}" for arm in (_SAMPLING, "override", "alternating", "coexbo")),
            ),
        ),
        Claim(
            "Where they are wrong, COBOL ends like LCB.",
            not_higher("simple", f"{wrong}: cobol", f"{wrong}: lcb"),
        ),
        Claim(
            "There expert sampling is worse than random values.",
            lower("simple", f"{wrong}: random", f"{wrong}: {_SAMPLING}"),
        ),
        Claim(
            "COBOL stops asking midway: fewer labels than evaluations in the second half.",
            tuple(Comparison((f"{panel}: cobol", _LATE), 1.0) for panel in (right, wrong)),
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


PRACTICAL = "cobol"
EI = "ei"
PRIMAL_DUAL = "cobol, weight = 1"
LAST_LABELS = "last 5 labels"
PINPOINT = "pinpoint"
ACCURACIES = (2, 1, 0, -1, -2)
TRUSTS = (5, 10, 100)
_VARIED: Mapping[str, Mapping[str, Any]] = {
    **{f"eta = {trust}": {"trust": float(trust)} for trust in (1, *TRUSTS)},
    **{f"threshold = {width:g}": {"threshold": width} for width in (0.03, 0.3)},
    **{
        f"weight = {weight:g}": {"candidate": "primal-dual", "trust_weight": weight}
        for weight in (1.0, 2.0)
    },
}
_SOURCE = "Xu et al. (2024b)"
_ACKLEY = "ackley4"
_SAMPLING = "expert sampling"
_DRAWS = 200  # steps an evaluation where an expert draws from what they accept
_SHOWN = 20  # where items are shown until there are labels of both kinds
_RATE = 0.1  # of the time-varying expert
_IDENTITY = 0.25  # in the unit cube, of a covariance that is 1 in [-1, 1]^d
_NOTES = (
    "Values have no noise. Simple regrets are the least of all evaluations, the initial ones "
    'included; everything else counts what comes after the initial design. "Minus LCB\'s" is '
    "paired by seed: against the same model without an expert.",
    "LCB is COBOL without weight, labels and questions. Seconds are of a query that is chosen: "
    "what is accepted is evaluated without a further choice.",
    'The columns from "trusted" to "weight" are COBOL\'s, and 0 elsewhere: how often the augmented '
    "candidate was taken, and the expert asked of it; how many labels rejected; and norm bound "
    "and weight at the end.",
    "The number of evaluations is less than planned where the steps ran out: 6 an evaluation, "
    f"of random play, expert sampling and the human-AI baselines {_DRAWS}. Cumulative regrets are "
    "those of as many as planned at the mean of those that were made.",
    "cobol is the practical preset; (paper) has the paper's settings, of which no prior on the "
    "lengthscales is one, also for its LCB.",
)


def cobol_experiments() -> tuple[ExpertExperiment, ...]:
    """The figures on test functions."""
    return _robustness(), _ablation(), _no_harm(), _variants(), _bounded(), _electrolyte()


def synthetic(
    function: str, accuracy: float, rho_range: Literal["authors", "true"] = "authors"
) -> tuple[str, JudgeFactory]:
    """A synthetic expert."""
    limits = _ranges(function)[rho_range]
    return (
        f"a{accuracy:+g}-{rho_range}",
        partial(SyntheticExpert, accuracy=float(accuracy), rho_range=limits),
    )


@cache
def strategies() -> Mapping[str, StrategyFactory]:
    """All strategies by their names; every setting is named, so that runs tell them apart."""
    alone: dict[str, Any] = {
        "trust_weight": 0.0,
        "rate": 0.0,
        "threshold": math.inf,
        "num_initial_labels": 0,
    }
    makers: dict[str, Any] = {
        "random": RandomValues,
        # On its own it has nothing of the practical preset but the prior of its lengthscales.
        LCB: partial(COBOL.paper, lengthscale_prior=True, beta=1.0, **alone),
        LCB_PAPER: partial(COBOL.paper, **alone),
        _SAMPLING: ExpertSampling,
        "override": ExpertOverride,
        "alternating": AlternatingExpert,
        "coexbo": CoExBO,
        PRACTICAL: COBOL,
        PAPER: COBOL.paper,
        BOUNDED: partial(COBOL.paper, value_bound=3.0, initial_labels="balanced"),
        # Without a label all items are as acceptable, and expected improvement is left.
        EI: partial(COBOL, threshold=math.inf, num_initial_labels=0),
        "constrained": ConstrainedCOBOL,
        "belief": BeliefCOBOL,
        "no intercept": partial(COBOL, label_intercept=0.0, label_lengthscale=1.0),
        LAST_LABELS: partial(COBOL, label_window=5),
        **{f"cobol, {name}": partial(COBOL, **options) for name, options in _VARIED.items()},
    }
    made = {name: _with_settings(maker) for name, maker in makers.items()}
    named: dict[str, Any] = {"function": _ACKLEY, "accuracy": 1.0}
    believed = {
        f"belief function, {mean}": partial(COBOL, belief=_belief(mean))
        for mean in ("strong", "weak", "wrong")
    }
    return {**made, **believed, PINPOINT: partial(PinpointCOBOL, **named)}


def _belief(mean: BeliefMean) -> dict[str, Any]:
    """A normal belief about Ackley's function as an option of COBOL."""
    found = normal_belief(ExpertBenchmark(_ACKLEY), mean, _IDENTITY)
    return {"mean": found.mean.tolist(), "covariance": found.covariance.tolist()}


def _with_settings(maker: Any) -> partial[Strategy]:
    made = maker(bounds=torch.tensor([[0.0], [1.0]], dtype=torch.double))
    options = endless_from_json(made.state_dict()["options"])
    kind: Callable[..., Strategy] = type(made)
    return partial(kind, **options)


def _ranges(function: str) -> dict[str, tuple[float, float]]:
    return ExpertBenchmark(function).ranges


def _group(
    panel: str, function: str, expert: tuple[str, JudgeFactory], arms: Mapping[str, str], **kw: int
) -> Group:
    key, make = expert
    return Group(panel=panel, function=function, key=key, expert=make, arms=arms, **kw)


def _same(*names: str) -> dict[str, str]:
    """Arms that are called what their strategies are."""
    return {name: name for name in names}


def _experiment(groups: list[Group], **rest: Any) -> ExpertExperiment:
    names = {name for group in groups for name in group.arms.values()}
    chosen = {name: maker for name, maker in strategies().items() if name in names}
    settings: dict[str, Any] = {"horizon": 50, "seeds": 20} | rest
    return ExpertExperiment(groups=tuple(groups), strategies=chosen, **settings)


def _robustness() -> ExpertExperiment:
    helpful = synthetic(_ACKLEY, 1)
    groups = []
    for panel, alone, name in (("practical", LCB, PRACTICAL), ("paper", LCB_PAPER, PAPER)):
        groups.append(_group(panel, _ACKLEY, helpful, {LCB: alone}))
        for accuracy in ACCURACIES:
            expert = synthetic(_ACKLEY, accuracy)
            groups.append(_group(panel, _ACKLEY, expert, {f"a = {accuracy}": name}))
    varied = {name: f"cobol, {name}" for name in _VARIED} | {"weight = 0": "constrained"}
    groups.append(_group("settings", _ACKLEY, helpful, {LCB: LCB, "default": PRACTICAL, **varied}))
    return _experiment(
        groups,
        name="cobol-robustness",
        title="Experts of five accuracies on Ackley's function in 4 dimensions",
        source=f"{_SOURCE}, Fig. 3",
        claims=robustness_claims(),
        notes=(
            *_NOTES,
            "The authors' range. Settings are varied one by one, from the practical preset; the "
            "threshold is of probabilities there and .1 by default. Only the paper's figure shows "
            "its thresholds. A first weight is that of its primal-dual rule, weight 0 its "
            "constrained one.",
        ),
    )


def _ablation() -> ExpertExperiment:
    groups = []
    for function in EXPERT_BENCHMARKS:
        expert = synthetic(function, 1)
        cobol = {**_same(PRACTICAL), "cobol (paper)": PAPER}
        alone = {LCB: LCB, "lcb (paper)": LCB_PAPER}
        others = _same("random", _SAMPLING, "override", "alternating", "coexbo")
        groups += [
            _group(function, function, expert, {**alone, **_same(EI), **cobol}),
            _group(function, function, expert, others, steps=_DRAWS),
        ]
        if _ranges(function)["true"] != _ranges(function)["authors"]:
            panel, expert = f"{function}, true range", synthetic(function, 1, "true")
            groups += [
                _group(panel, function, expert, cobol),
                _group(panel, function, expert, _same(_SAMPLING), steps=_DRAWS),
            ]
    return _experiment(
        groups,
        name="cobol-ablation",
        title="A helpful expert on five functions",
        source=f"{_SOURCE}, Figs. 4 and 8",
        claims=ablation_claims(),
        notes=(
            *_NOTES,
            "Accuracy 1. The range of the utility that the expert judges by is that of the "
            "authors' code, and beside it the true one where they differ.",
            "Expert sampling draws uniformly and evaluates what is accepted. override, alternating "
            "and coexbo take the roles of person and machine of Kumar et al. (2022), "
            "Khoshvishkaie et al. (2023) and Adachi et al. (2024), which the paper compares with "
            "on its battery tasks; how these were simulated is ours.",
        ),
    )


def _no_harm() -> ExpertExperiment:
    groups = []
    for function in EXPERT_BENCHMARKS:
        alone = {LCB: LCB, "lcb (paper)": LCB_PAPER}
        arms = {"eta = 3": PRACTICAL, "paper": PAPER}
        if function == _ACKLEY:
            arms |= {f"eta = {trust}": f"cobol, eta = {trust}" for trust in TRUSTS}
        groups += [
            _group(function, function, synthetic(function, 1), alone),
            _group(function, function, synthetic(function, -2), arms),
        ]
    return _experiment(
        groups,
        name="cobol-no-harm",
        title="A strongly adversarial expert on five functions",
        source=f"{_SOURCE}, Fig. 9",
        claims=no_harm_claims(),
        notes=(
            *_NOTES,
            "Accuracy -2, the authors' range. The paper does not name its function; here eta is "
            "varied on Ackley's alone. Its other accuracies are those of cobol-robustness.",
        ),
    )


def _bounded() -> ExpertExperiment:
    groups = []
    for function in EXPERT_BENCHMARKS:
        groups.append(_group(function, function, synthetic(function, 1), {LCB: LCB_PAPER}))
        for accuracy in sorted(ACCURACIES, key=lambda one: (-abs(one), -one)):
            expert = synthetic(function, accuracy)
            arms = {f"a = {accuracy}": BOUNDED}
            groups.append(_group(function, function, expert, arms, steps=_SHOWN))
    return _experiment(
        groups,
        name="cobol-bounded",
        title="A bounded belief and balanced first labels, five experts on five functions",
        source=f"{_SOURCE}, Figs. 3, 4, 8 and 9, as the authors' code has them",
        claims=bounded_claims(),
        notes=(
            *_NOTES[:-1],
            "The paper's settings, with the belief bounded to [-3, 3], so that the weight falls by "
            "at most .06 a step, and with five first labels of either kind. The items that were "
            "shown for these belong to the initial design. The authors' range.",
        ),
    )


def _electrolyte() -> ExpertExperiment:
    groups = []
    for panel, accuracy in (("experts who know", 1), ("experts who are wrong", -1)):
        make = partial(
            FittedExpert, accuracy=float(accuracy), rho_range=ElectrolyteStandIn.rho_range
        )
        expert = (f"fitted{accuracy:+d}", make)
        alone = {LCB: LCB, "lcb (paper)": LCB_PAPER, **_same(PRACTICAL), "cobol (paper)": PAPER}
        others = _same("random", _SAMPLING, "override", "alternating", "coexbo")
        groups += [
            _group(panel, ELECTROLYTE, expert, alone),
            _group(panel, ELECTROLYTE, expert, others, steps=_DRAWS),
        ]
    return _experiment(
        groups,
        name="cobol-electrolyte",
        title="A made-up electrolyte, with experts who know it and who are wrong",
        source=f"after {_SOURCE}, Fig. 5 and App. J.3",
        claims=electrolyte_claims(),
        seeds=10,
        notes=(
            *_NOTES,
            "A stand-in: neither the measured conductivities nor the labels of the four experts "
            "are published. Experts answer by the most likely function of 50 labels of uniform "
            "items, as the paper simulates its people; these labels are of accuracy 1 or -1.",
        ),
    )


def _variants() -> ExpertExperiment:
    helpful = synthetic(_ACKLEY, 1)
    candidates = {LCB: LCB, "hcei": PRACTICAL}
    others = _same(EI, PINPOINT, "constrained", "belief", "no intercept")
    candidates |= {"primal-dual": PRIMAL_DUAL} | others
    groups = [_group("candidates", _ACKLEY, helpful, candidates)]
    for mean in ("strong", "weak", "wrong"):
        expert = (f"mvn-{mean}", partial(MVNExpert, mean=mean, covariance=_IDENTITY))
        groups.append(_group("normal beliefs", _ACKLEY, expert, {mean: PRACTICAL}))
    named = {mean: f"belief function, {mean}" for mean in ("strong", "weak", "wrong")}
    groups.append(_group("belief functions", _ACKLEY, helpful, named))
    limits = _ranges(_ACKLEY)["authors"]
    fitted = partial(FittedExpert, accuracy=1.0, rho_range=limits)
    groups.append(_group("fitted expert", _ACKLEY, ("fitted-50", fitted), {"fitted": PRACTICAL}))
    for form in ("rising", "printed"):
        schedule = AccuracySchedule(rate=_RATE, form=form)
        make = partial(TimeVaryingExpert, schedule=schedule, rho_range=limits)
        arms = {form: PRACTICAL, f"{form}, last 5": LAST_LABELS}
        groups.append(_group("changing accuracy", _ACKLEY, (form, make), arms))
    return _experiment(
        groups,
        name="cobol-variants",
        title="Other candidates and other experts on Ackley's function in 4 dimensions",
        source=f"after {_SOURCE}, Figs. 6 and 7",
        claims=variant_claims(),
        notes=(
            *_NOTES,
            "hcei is the practical preset, which the others change: ei has no expert, no intercept "
            "has the objective's lengthscales in the belief and no constant.",
            "pinpoint takes an item that the expert names at every step, drawn from what they "
            "accept, and asks for no labels; belief takes the item of the largest upper end; "
            "constrained is what the paper's Fig. 3 calls a first weight of 0.",
            "Normal beliefs have the identity as covariance in the function's own coordinates; the "
            "paper names neither coordinates nor function. Belief functions are these beliefs "
            "themselves in place of labels (App. H.2): nobody is asked.",
            "The fitted expert answers by the most likely function of 50 labels of uniform items, "
            "as the paper simulates people; the 50 labels are those of accuracy 1.",
            f"Changing accuracy: 2 (1 - exp(-{_RATE:g} n)) after n values (rising), or as printed, "
            f"2 (1 - exp(-{_RATE:g} / n)), which falls; the rate is ours. The paper keeps the "
            "last 5 labels, as the second rows do.",
        ),
    )
