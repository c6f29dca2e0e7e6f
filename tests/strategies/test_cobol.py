"""COBOL: bookkeeping, both candidates, trust, handover, both models, duels, state."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import pytest
import torch
from botorch.test_functions import synthetic
from gpytorch.kernels import MaternKernel, ScaleKernel
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.models import NormalBelief
from botorch_pref.problems import SyntheticExpert, SyntheticProblem
from botorch_pref.queries import Answered, Choice, Duel, Evaluate, Label, Query, Ranking
from botorch_pref.randomness import derive_seed
from botorch_pref.runner import run_experiment
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import COBOHL, COBOL
from botorch_pref.strategies.cobol import Decision, _screened, belief_ends, doubt, is_wide
from tests.contracts.strategy import stored
from tests.models.common import rand
from tests.strategies import budget
from tests.strategies.budget import WIDE as BOX
from tests.strategies.budget import reply, value

SPACE = SearchSpace(BOX)
QUICK = {"num_initial_values": 3, "num_initial_labels": 4}
COMPARE = {**QUICK, "feedback": "compare"}
NUMBER = st.floats(-50, 50)


def on_a_box(**kwargs: Any) -> COBOL:
    return COBOL(**{"bounds": BOX, **QUICK, **kwargs})


def on_items(**kwargs: Any) -> COBOL:
    return COBOL(**{"choices": rand(20, 2), **QUICK, **kwargs})


def play(strategy: COBOL, steps: int, expert: Any = reply) -> list[Query]:
    """Values are those of the function, whatever the expert says of labels and duels."""
    judge = lambda query: reply(query) if query.measures else expert(query)  # noqa: E731
    return budget.play(strategy, steps, judge)


def told(num_values: int, num_labels: int, **options: Any) -> COBOL:
    """A strategy that knows some values and labels, and was never asked."""
    strategy = COBOL(space=SPACE, **options)
    items = SPACE.bounds[0] + (SPACE.bounds[1] - SPACE.bounds[0]) * rand(num_values + num_labels, 2)
    for number, item in enumerate(items[:num_values]):
        strategy._learn(Answered(Evaluate(number, item), float(item.sum())))
    for number, item in enumerate(items[num_values:]):
        strategy._learn(Answered(Label(num_values + number, item), float(number % 2)))
    return strategy


def told_duels(pairs: Tensor, answers: Tensor, **options: Any) -> COBOL:
    """A strategy that knows answers to duels and one value."""
    strategy = COBOL(space=SPACE, feedback="compare", **options)
    strategy._learn(Answered(Evaluate(0, BOX.mean(0)), 1.0))
    for number, (pair, answer) in enumerate(zip(pairs, answers.tolist(), strict=True)):
        strategy._learn(Answered(Duel(1 + number, pair), answer))
    return strategy


@pytest.mark.parametrize(("make", "steps"), [(on_a_box, 11), (on_items, 16)])
def test_bookkeeping(make: Any, steps: int) -> None:
    """Properties T15, T16, T18 and T19, where no threshold asks at every trusted step."""
    strategy = make(threshold=0.0, max_rejections=None, seed=1)
    queries, weights = [], [strategy.weight]
    for _ in range(steps):
        queries += play(strategy, 1)
        weights.append(strategy.weight)
    assert [type(query) for query in queries[:7]] == [Evaluate] * 3 + [Label] * 4
    assert len(strategy.decisions) == len(queries)
    measured = [query for query in queries if isinstance(query, Evaluate)]
    assert [query for query, _ in strategy.values.answers] == measured
    for query, following in itertools.pairwise([*queries, strategy.ask()]):
        if strategy.space.choices is not None:
            assert torch.equal(query.items, strategy.space.table[query.indices])
        decision = strategy.decisions[query.id]
        if decision.source == "initial" or decision.reason == "accepted":
            assert weights[query.id + 1] == weights[query.id]
            continue
        assert decision.asks == isinstance(query, Label) == (decision.source == "augmented")
        if decision.asks:  # what is accepted is measured at once, what is rejected is not
            took = isinstance(following, Evaluate) and torch.equal(following.items, query.items)
            assert took == bool(reply(query))
            # No worse than the vanilla candidate by more than its width; of one and the same
            # candidate there are no lower bounds.
            assert not decision.bound < decision.best_lower - 1e-12
            assert decision.vanilla_deviation <= 3.0 * decision.deviation + 1e-12
        assert decision.weight == weights[query.id]
        assert weights[query.id + 1] == max(0.0, decision.weight - 0.02 * decision.upper)
        assert abs(weights[query.id + 1] - decision.weight) <= 0.02 * 3.0 + 1e-12


def test_an_infinite_threshold_never_asks() -> None:
    """Property T18."""
    strategy = on_items(threshold=math.inf)
    assert {type(query) for query in play(strategy, 12)[7:]} == {Evaluate}


def test_without_weight_both_candidates_are_one() -> None:
    strategy = on_a_box(candidate="primal-dual", trust_weight=0.0, rate=0.0, threshold=math.inf)
    play(strategy, 12)
    for decision in strategy.decisions[7:]:
        assert decision.deviation == pytest.approx(decision.vanilla_deviation, abs=1e-9)
        assert decision.source == "augmented"


def test_an_expert_who_rejects_everything_does_not_stall() -> None:
    strategy = on_items(threshold=0.0, max_rejections=2)
    queries = play(strategy, 16, expert=lambda query: 0.0)
    runs = [
        len(list(group))
        for kind, group in itertools.groupby(map(type, queries[7:]))
        if kind is Label
    ]
    assert runs
    assert max(runs) <= 2
    assert any("in a row" in decision.reason for decision in strategy.decisions)


def test_what_depends_on_values_only_is_kept() -> None:
    """A label changes neither the vanilla item nor what is certain, which then can only grow."""
    strategy = on_a_box(seed=4, threshold=0.0)
    play(strategy, 7)
    known: list[Decision] = []
    for _ in range(4):
        query = strategy.ask()
        if not isinstance(query, Label):
            break
        known.append(strategy.decisions[query.id])
        strategy.tell(query, 0.0)
    assert len(known) > 2
    assert stored(strategy).ask() == strategy.ask()
    assert len({decision.vanilla_deviation for decision in known}) == 1
    certain = [d.best_lower for d in known if not math.isnan(d.best_lower)]
    assert certain == sorted(certain)


def test_an_expert_who_does_not_answer() -> None:
    strategy = on_items(threshold=0.0)
    queries = play(strategy, 15, expert=lambda query: None)
    assert not strategy.labelled
    for query, following in itertools.pairwise(queries[7:]):
        if isinstance(query, Label):
            assert isinstance(following, Evaluate)
            assert strategy.decisions[following.id].source == "vanilla"
            assert "did not answer" in strategy.decisions[following.id].reason


def test_the_norm_bound_doubles_up_to_its_limit() -> None:
    rough = {"label_lengthscale": 1.0, "label_intercept": 0.0}
    strategy = on_items(norm_bound_limit=2.0, **rough)
    bounds = []
    for _ in range(15):
        play(strategy, 1)
        bounds.append(strategy.norm_bound)
    assert bounds == sorted(bounds)
    assert {*bounds} == {1.0, 2.0}


def test_it_finds_the_best_item() -> None:
    table = on_items(seed=0)
    play(table, 20)
    assert table.recommend_index() == int(value(table.space.table).argmax())


def test_values_of_another_unit_ask_the_same() -> None:
    one, other = on_items(seed=5), on_items(seed=5)
    for _ in range(10):
        query, same = one.ask(), other.ask()
        assert type(query) is type(same)
        torch.testing.assert_close(query.items, same.items, atol=1e-5, rtol=0)
        answer = reply(query)
        one.tell(query, answer)
        scaled = isinstance(query, Evaluate)
        other.tell(same, 1000.0 * answer + 7.0 if scaled else answer)


@pytest.mark.parametrize(
    ("kind", "steps", "options"),
    [(COBOL, 2, QUICK), (COBOL, 9, QUICK), (COBOL, 8, COMPARE), (COBOHL, 8, COMPARE)],
)
def test_it_resumes(kind: type[COBOL], steps: int, options: dict[str, Any]) -> None:
    strategy = kind(choices=rand(20, 2), **options, threshold=0.0, seed=4)
    play(strategy, steps)
    strategy.ask()
    read = stored(strategy)
    assert read.state_dict() == strategy.state_dict()
    assert play(read, 3) == play(strategy, 3)


def test_a_helpful_expert_is_asked_until_he_is_known() -> None:
    strategy = COBOHL(choices=rand(20, 2), seed=1, **QUICK)
    queries, states = [], []
    for steps in (8, 3, 4):
        queries += play(strategy, steps)
        states.append(json.dumps(strategy.state_dict()))
    threshold = strategy.threshold
    for query in queries[7:]:
        decision = strategy.decisions[query.id]
        ends = [1 / (1 + math.exp(-end)) for end in (decision.lower, decision.upper)]
        assert decision.asks == isinstance(query, Label) == (ends[1] - ends[0] > threshold)
        assert decision.reason != "accepted"
    # Feasible wherever anything is, under what was believed when it was chosen.
    for state in states:
        read = COBOHL.from_state_dict(json.loads(state))
        decision = read.decisions[read.ask().id]
        upper = read.expert().upper(read.space.table)
        assert decision.upper >= min(0.0, float(upper.max())) - 1e-6
    assert read.ask() == strategy.ask()


# The models.


def test_a_window_of_labels() -> None:
    """The model is that of the last ones alone."""
    windowed, whole, last = told(2, 6, label_window=4), told(2, 6), told(2, 0)
    for answered in whole.labelled[-4:]:
        last._learn(answered)
    X = SPACE.sample(3, seed=0)
    torch.testing.assert_close(windowed.expert().upper(X), last.expert().upper(X))
    assert not torch.allclose(windowed.expert().upper(X), whole.expert().upper(X))
    assert told(2, 3, label_window=4).expert().num_answers == 3


def test_a_kernel_of_ones_own() -> None:
    """The belief has what the values teach of it, without the output scale."""

    def matern(dim: int) -> ScaleKernel:
        return ScaleKernel(MaternKernel(ard_num_dims=dim))

    strategy = told(5, 3, covar_module=matern, label_intercept=0.0)
    strategy.refit()
    own, belief = strategy.values.model().covar_module, strategy.expert().covar_module
    assert isinstance(belief, MaternKernel)
    torch.testing.assert_close(belief.lengthscale, 2.0 * own.base_kernel.lengthscale)


def test_an_intercept_of_the_belief() -> None:
    """A kernel written out; and what is rejected everywhere is not expected elsewhere."""
    plain, shared = (told(5, 3, label_intercept=share) for share in (0.0, 0.4))
    X = SPACE.sample(4, seed=0)
    kernels = [one.expert().covar_module(X).to_dense() for one in (plain, shared)]
    torch.testing.assert_close(kernels[1], 0.6 * kernels[0] + 0.4)
    far = torch.tensor([[50.0, 90.0]], dtype=torch.double)
    for strategy in (plain, shared):
        strategy.labelled = [Answered(query, 0.0) for query, _ in strategy.labelled]
        strategy._expert = None
    assert float(plain.expert().mle(far)) == pytest.approx(0.0, abs=1e-9)
    assert float(shared.expert().mle(far)) < -0.1


@pytest.mark.parametrize("noise", [1e-4, 0.3])
def test_the_lemmas_beta(noise: float) -> None:
    """Against the determinant itself, with a kernel written out; None of it with a number."""
    strategy = told(6, 0, beta=None, noise=noise)
    strategy.refit()
    objective = strategy.values.model()
    unit = SPACE.normalize(strategy.values.items) / objective.covar_module.lengthscale.detach()
    covariance = torch.exp(-0.5 * (unit.unsqueeze(1) - unit).square().sum(-1))
    gain = 0.5 * math.log(torch.linalg.det(torch.eye(6) + covariance / noise))
    expected = 1.0 + noise * math.sqrt(2.0 * (gain + 1.0 + math.log(200.0)))
    assert strategy.beta_of(objective) == pytest.approx(expected, rel=1e-9)
    assert told(6, 0, beta=0.7, noise=noise).beta_of(objective) == 0.7


def test_values_that_repeat_themselves() -> None:
    """Without a prior their evidence has no smooth maximum."""
    strategy = told(3, 0, lengthscale_prior=False)
    item = SPACE.bounds.mean(0)
    for number in range(9):
        strategy._learn(Answered(Evaluate(9 + number, item + 1e-7 * number), 5.0))
    strategy.refit()
    scales = strategy.values.model().covar_module.lengthscale
    assert scales.isfinite().all()
    assert (scales >= 0.025).all()
    assert strategy.values.model().posterior(SPACE.bounds).mean.isfinite().all()


@pytest.mark.parametrize("feedback", ["accept", "compare"])
def test_another_link(feedback: Any) -> None:
    """Bounds and rules are those of the probit link, and a state has it."""
    strategy = on_items(likelihood=ProbitLikelihood(0.5), feedback=feedback, seed=1)
    play(strategy, 9)
    for one in (strategy, stored(strategy)):
        link = one.expert().likelihood
        assert (type(link), link.scale) == (ProbitLikelihood, 0.5)
    assert one.ask() == strategy.ask()


# Duels with the best measured item in place of labels.


def duels(n: int) -> tuple[Tensor, Tensor]:
    pairs = SPACE.sample(2 * n, seed=1).view(n, 2, 2)
    return pairs, (value(pairs[:, 0]) > value(pairs[:, 1])).double()


def test_only_differences_are_known() -> None:
    """Property T24: swaps change nothing, and an item meets itself with certainty."""
    pairs, answers = duels(5)
    model = told_duels(pairs, answers).expert()
    swapped = told_duels(pairs.flip(1), 1.0 - answers).expert()
    item, reference = SPACE.sample(2, seed=7)
    assert belief_ends(model, reference, reference) == (0.0, 0.0)
    ends = belief_ends(swapped, item, reference)
    assert belief_ends(model, item, reference) == pytest.approx(ends, abs=1e-6)


def test_what_is_preferred_has_the_larger_belief() -> None:
    (first, second) = pair = SPACE.sample(2, seed=1)
    won = pair.expand(6, 2, 2)
    lower, upper = belief_ends(told_duels(won, torch.ones(6)).expert(), first, second)
    assert 0.5 < lower < upper
    assert belief_ends(told_duels(won, torch.zeros(6)).expert(), first, second)[1] < -0.5
    undecided = belief_ends(told_duels(won, torch.full((6,), 0.5)).expert(), first, second)
    assert undecided[0] == pytest.approx(-undecided[1], abs=1e-6)
    assert told_duels(pair[:1].expand(1, 2, 2), torch.ones(1)).labelled == []  # met itself


@pytest.mark.parametrize("kind", ["box", "choices"])
def test_bookkeeping_of_duels(kind: str) -> None:
    """The first item of a duel is the candidate, the second the best so far."""
    space: dict[str, Any] = {"bounds": BOX} if kind == "box" else {"choices": rand(20, 2)}
    strategy = COBOL(**space, **COMPARE, threshold=0.0, seed=1)
    answers = itertools.cycle([1.0, 0.0, 0.5])
    assert [type(query) for query in play(strategy, 7)] == [Evaluate] * 3 + [Duel] * 4
    asked = 0
    for _ in range(5 if kind == "box" else 9):
        incumbent, query = strategy.recommend(), strategy.ask()
        assert strategy.decisions[query.id].asks == isinstance(query, Duel)
        if not isinstance(query, Duel):
            play(strategy, 1)
            continue
        asked += 1
        assert torch.equal(query.items[1], incumbent)
        if query.indices is not None:
            assert torch.equal(query.items, strategy.space.table[list(query.indices)])
        answer = next(answers)
        strategy.tell(query, answer)
        assert strategy.labelled[-1] == (query, answer)
        due = strategy.ask()
        measured = isinstance(due, Evaluate) and strategy.decisions[due.id].reason == "accepted"
        assert measured == (answer > 0.0)
        assert not measured or torch.equal(due.items, query.items[0])
    assert asked > 1


# The tests of Algorithm 1 at their edges, and the dual step: properties T14 and T16.


def known(bound: float, best_lower: float, deviation: float, vanilla: float) -> Decision:
    numbers = {"bound": bound, "best_lower": best_lower, "deviation": deviation}
    return Decision(False, "vanilla", "", **numbers, vanilla_deviation=vanilla)


@given(NUMBER, st.floats(0, 10), st.floats(1, 100))
def test_a_candidate_that_is_the_vanilla_one_is_trusted(
    mean: float, deviation: float, trust: float
) -> None:
    same = known(mean + deviation, mean - deviation, deviation, deviation)
    assert doubt(same, trust) is None
    assert doubt(replace(same, best_lower=math.nan), trust) is None


def test_equality_is_trusted_and_not_asked() -> None:
    assert doubt(known(1.0, 1.0, 1.0, 3.0), 3.0) is None
    assert "certain elsewhere" in str(doubt(known(1.0, 1.0 + 1e-12, 1.0, 3.0), 3.0))
    assert "too well known" in str(doubt(known(1.0, 1.0, 1.0, 3.0 + 1e-12), 3.0))
    assert not is_wide(0.0, 0.5, 0.5)
    assert is_wide(0.0, 0.5 + 1e-12, 0.5)


def test_widths_of_probabilities() -> None:
    """The logistic link is a quarter steep at most."""
    logit, probit = LogitLikelihood(), ProbitLikelihood()
    width = 1 / (1 + math.exp(-1.3)) - 1 / (1 + math.exp(0.4))
    for lower, upper, threshold, link, wide in (
        (-0.5, 0.5, 0.2, logit, True),
        (-0.2, 0.2, 0.1, logit, False),
        (4.0, 8.0, 0.1, logit, False),
        (-0.4, 1.3, width - 1e-9, logit, True),
        (-0.4, 1.3, width + 1e-9, logit, False),
        (-1.0, 1.0, 0.6826, probit, True),
        (-1.0, 1.0, 0.6828, probit, False),
        (-50.0, 50.0, math.inf, None, False),
    ):
        assert is_wide(lower, upper, threshold, link) == wide


# What is known before, and labels of both kinds.


def test_balanced_labels() -> None:
    """Half of each kind, in the order of a space-filling sample; the surplus is not learnt."""
    strategy = on_a_box(initial_labels="balanced", num_initial_labels=5, seed=1)
    queries = []
    while not queries or strategy.decisions[queries[-1].id].source == "initial":
        queries += play(strategy, 1)
    shown = queries[3:-1]
    assert torch.equal(torch.stack([q.items for q in shown]), _shown(strategy, len(shown)))
    told = [reply(query) for query in shown]
    learnt = [answer for _, answer in strategy.labelled[:5]]
    assert (learnt.count(1.0), learnt.count(0.0)) == (2, 3)
    assert len(told) > 5
    assert told[:-1].count(told[-1]) == (1 if told[-1] else 2)  # the last one was missing
    kinds = {1.0: 2, 0.0: 3}
    kept = [q for i, q in enumerate(shown) if told[:i].count(told[i]) < kinds[told[i]]]
    assert [query for query, _ in strategy.labelled[:5]] == kept
    read = stored(strategy)
    assert read.labelled == strategy.labelled
    assert read.ask() == strategy.ask()


def _shown(strategy: COBOL, number: int) -> Tensor:
    return strategy.space.sample(number, derive_seed(strategy.seed, "initial True", 0))


def test_who_accepts_nothing_is_not_asked_for_ever() -> None:
    strategy = on_items(initial_labels="balanced", seed=1)
    play(strategy, 3 + 20, expert=lambda query: 0.0)
    assert [query.kind for query, _ in strategy.history[3:]] == ["label"] * 20  # all choices
    assert len(strategy.labelled) == 2
    play(strategy, 1)
    assert strategy.decisions[-1].source != "initial"
    with pytest.raises(ComparisonDataError, match='"balanced" is for `feedback` "accept"'):
        on_a_box(initial_labels="balanced", feedback="compare")


def test_a_bounded_belief_keeps_most_of_the_weight() -> None:
    """Of the paper's settings, with a norm that would allow far more; property T16."""
    strategy = COBOL.paper(bounds=BOX, **QUICK, value_bound=3.0, initial_labels="balanced", seed=3)
    play(strategy, 7 + 12)
    strategy.norm_bound, strategy._expert = 32.0, None
    weights = [strategy.weight]
    for _ in range(4):
        (query,) = play(strategy, 1)
        weights.append(strategy.weight)
        why = strategy.decisions[query.id]
        assert not max(abs(why.lower), abs(why.upper)) > 3.0
    falls = [before - after for before, after in itertools.pairwise(weights)]
    assert max(falls) <= 0.06 + 1e-12
    free = COBOL.paper(bounds=BOX, **QUICK, seed=3)
    free.norm_bound = 32.0
    play(free, 9)
    assert max(abs(one.upper) for one in free.decisions[7:]) > 3.0


def known_before() -> list[Any]:
    items = SPACE.sample(9, seed=5)
    values = [Answered(Evaluate(i, x), float(value(x))) for i, x in enumerate(items[:4])]
    labels = [Answered(Label(9 + i, x), reply(Label(0, x))) for i, x in enumerate(items[4:])]
    return [*values, *labels]


def test_what_is_known_before() -> None:
    """It is learnt as if it had been asked, counts as initial design, and is in the state."""
    known = known_before()
    strategy = COBOL(bounds=BOX, **QUICK, known=known, seed=2)
    assert strategy.values.answers == known[:4]
    assert strategy.labelled == known[4:]
    best = max(known[:4], key=lambda done: done.number).query.items
    assert torch.equal(strategy.recommend(), best)
    query = strategy.ask()
    assert strategy.decisions[query.id].source != "initial"
    read = stored(strategy)
    assert read.known == strategy.known
    assert play(read, 3) == play(strategy, 3)
    partly = COBOL(bounds=BOX, **QUICK, known=known[:2], seed=2)
    assert [query.kind for query in play(partly, 5)] == ["evaluate"] + ["label"] * 4
    balanced = COBOL(bounds=BOX, num_initial_labels=2, initial_labels="balanced", known=known)
    assert balanced.labelled == known[4:]  # none of them is surplus
    rows = COBOL(choices=SPACE.sample(9, seed=5), **QUICK, known=known)
    assert [query.indices for query, _ in rows.known] == [*range(9)]


def test_rankings_as_advice() -> None:
    """A ranking is the duels of neighbours, and a choice those of the favourite with the others."""
    items = SPACE.sample(7, seed=5)
    first = (Evaluate(0, items[0]), 1.0)
    ranking = (Ranking(1, items[1:4]), (2, 0, 1))
    favourite = (Choice(2, items[4:7]), 1.0)
    strategy = COBOL(bounds=BOX, **COMPARE, known=[first, ranking, favourite])
    found = [
        (pair, won) for done in (ranking, favourite) for pair, won in done[0].comparisons(done[1])
    ]
    told = [(query.items, answer) for query, answer in strategy.labelled]
    assert len(told) == len(found) >= 4
    for (pair, won), (expected, result) in zip(told, found, strict=True):
        assert torch.equal(pair, expected)
        assert won == result
    by_duels = [first, *((Duel(3 + i, pair), won) for i, (pair, won) in enumerate(found))]
    same = COBOL(bounds=BOX, **COMPARE, known=by_duels)
    X = SPACE.sample(3, seed=0)
    torch.testing.assert_close(strategy.expert().mle(X), same.expert().mle(X))
    low, high = belief_ends(strategy.expert(), items[3], items[2])  # the best over the last
    assert high > 0.0
    assert low > -high
    read = stored(strategy)
    assert read.labelled == strategy.labelled
    assert read.ask() == strategy.ask()


@pytest.mark.parametrize(
    ("known", "message"),
    [
        ([(Label(0, BOX[0]), 0.5)], "row 0: `answer`"),
        ([(Evaluate(0, BOX[0]), 1.0), (Duel(1, BOX), 1.0)], "row 1: it is a duel, not of"),
        ([(Evaluate(0, 2 * BOX[1]), 1.0)], "row 0: its items .* are outside the space"),
        ([(Evaluate(0, BOX[1]), None)], "row 0: it has no answer"),
    ],
)
def test_what_cannot_be_known_before(known: Any, message: str) -> None:
    with pytest.raises(ComparisonDataError, match=f"`known` {message}"):
        COBOL(bounds=BOX, known=known)


BELIEF = {"mean": [0.6, 0.4], "covariance": [[0.04, 0.0], [0.0, 0.09]]}


@pytest.mark.parametrize("kind", [COBOL, COBOL.paper, COBOHL])
@pytest.mark.parametrize(
    "domain", [{"bounds": BOX}, {"choices": rand(60, 2)}, {"choices": rand(3000, 2)}]
)
def test_a_belief_takes_the_place_of_labels(kind: Any, domain: Any) -> None:
    """App. H: nobody is asked, and what is believed in is measured while values say nothing."""
    strategy = kind(**domain, num_initial_values=2, belief=BELIEF, seed=1)
    queries = play(strategy, 8)
    assert all(isinstance(query, Evaluate) for query in queries)
    decision = strategy.decisions[2]
    assert decision.source == "augmented"
    assert decision.lower == decision.upper
    parts = (torch.tensor(BELIEF[name], dtype=torch.double) for name in ("mean", "covariance"))
    believed = NormalBelief(*parts, bound=strategy.value_bound).latent(queries[2].items.cpu())
    assert decision.upper == pytest.approx(float(believed))
    read = strategy.with_state(json.loads(json.dumps(strategy.state_dict(), allow_nan=False)))
    assert read.state_dict() == strategy.state_dict()
    assert play(read, 2) == play(strategy, 2)


def test_a_wrong_belief_is_left() -> None:
    """Where values speak against it, its candidate is not taken."""
    wrong = {"mean": [2.0, 4.0], "covariance": [[0.01, 0.0], [0.0, 0.01]]}
    strategy = COBOL(bounds=BOX, num_initial_values=3, belief=wrong, seed=0)
    play(strategy, 14)
    reasons = {decision.reason for decision in strategy.decisions}
    assert reasons & {
        "its bound is below what is certain elsewhere",
        "the objective is too well known there",
    }
    assert float(value(strategy.recommend())) > -0.05


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"belief": [0.6, 0.4]}, '`belief` has a "mean" and a "covariance"'),
        ({"belief": {"mean": [0.6, 0.4]}}, '`belief` has a "mean" and a "covariance"'),
        ({"belief": BELIEF | {"mean": [0.6]}}, "`belief`: `mean` must be of 2 numbers"),
        ({"belief": BELIEF | {"mean": "here"}}, "`belief`: "),
        ({"belief": BELIEF | {"covariance": [[1.0, 2.0], [2.0, 1.0]]}}, "`covariance` must be"),
        ({"belief": BELIEF, "value_bound": -1.0}, "`value_bound` must be a positive"),
        ({"belief": BELIEF, "feedback": "compare"}, '`belief` is for `feedback` "accept"'),
        ({"belief": BELIEF, "known": [(Label(0, BOX[0]), 1.0)]}, "row 0: it is a label, whose"),
    ],
)
def test_what_cannot_be_believed(options: Any, message: str) -> None:
    with pytest.raises(ComparisonDataError, match=message):
        COBOL(bounds=BOX, **options)


# Over many searches: property T25.

SEEDS, VALUES, EVALUATIONS = 20, 5, 25


def simple_regrets(accuracy: float, **options: Any) -> pd.Series[float]:
    """The simple regret of every seed, after equal numbers of evaluations."""
    table = run_experiment(
        SyntheticProblem(synthetic.Ackley(dim=2, bounds=[(-1.0, 1.0)] * 2)),
        {"strategy": partial(COBOL, num_initial_values=VALUES, **options)},
        15 + VALUES + 6 * EVALUATIONS,
        SEEDS,
        partial(SyntheticExpert, accuracy=accuracy, rho_range=(-3.63, 0.0)),  # of the box
        evaluations=VALUES + EVALUATIONS,
        progress=False,
    )
    assert (table.groupby("seed")["num_evaluations"].last() == VALUES + EVALUATIONS).all()
    return table.groupby("seed")["simple_regret"].last()


@pytest.mark.slow
def test_no_harm_and_help() -> None:
    """Both on Ackley's function in two dimensions, paired by seed."""
    plain = {"candidate": "primal-dual", "trust_weight": 0.0, "rate": 0.0}
    alone = simple_regrets(1.0, threshold=math.inf, num_initial_labels=0, **plain)
    for accuracy in (-2.0, 2.0):
        more = simple_regrets(accuracy) - alone
        assert more.mean() <= 2.0 * more.std() / math.sqrt(SEEDS)


@pytest.mark.parametrize("seed", range(3))
def test_of_equal_bounds_the_first_ones_are_refined(seed: int) -> None:
    """The upper end is the same wherever no label is near, up to rounding, another on a device."""
    items = rand(600, 2)
    rounding = 1e-15 * torch.randn(3, 600, generator=torch.Generator().manual_seed(seed)).double()
    values = {tuple(at): 2.0 + noise for at, noise in zip(items.tolist(), rounding.T, strict=True)}
    values[tuple(items[7].tolist())] += 0.1

    def rule(number: int) -> Any:
        return lambda at: torch.stack([values[tuple(x)][number] for x in at.squeeze(-2).tolist()])

    found = _screened(items[100:], items[:100], [rule(0), rule(1), rule(2)])
    wanted = torch.cat([items[100:104], items[[7, 0]]])
    assert torch.equal(found.squeeze(-2), wanted)
