"""Duels with the best measured item in place of labels: orientation, bookkeeping, state."""

from __future__ import annotations

import itertools
import json
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from botorch_pref.models import LikelihoodRatioModel
from botorch_pref.queries import Duel, Evaluate, Query
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import COBOHL, COBOL
from botorch_pref.strategies.cobol.beliefs import Beliefs
from botorch_pref.strategies.cobol.candidates import belief_ends
from botorch_pref.strategies.cobol.options import Settings
from tests.models.common import rand

BOX = torch.tensor([[-1.0, 0.0], [2.0, 4.0]], dtype=torch.float64)
SPACE = SearchSpace(BOX)
QUICK = {"feedback": "compare", "num_initial_values": 3, "num_initial_labels": 4}


def value(items: Tensor) -> Tensor:
    return -((items - torch.tensor([0.6, 0.4], dtype=torch.float64)) ** 2).sum(-1)


def prefer(pair: Tensor) -> float:
    first, second = value(pair).tolist()
    return float(first > second)


def play(strategy: COBOL, steps: int, expert: Any = prefer) -> list[Query]:
    queries = []
    for _ in range(steps):
        query = strategy.ask()
        duel = isinstance(query, Duel)
        strategy.tell(query, expert(query.items) if duel else float(value(query.items)))
        queries.append(query)
    return queries


def told(duels: Tensor, answers: Tensor, **options: Any) -> Beliefs:
    beliefs = Beliefs(SPACE, Settings.checked(feedback="compare", **options), seed=0)
    for number, (pair, answer) in enumerate(zip(duels, answers.tolist(), strict=True)):
        beliefs.add(Duel(number, pair), answer)
    return beliefs


def duels(n: int) -> tuple[Tensor, Tensor]:
    pairs = SPACE.sample(2 * n, seed=1).view(n, 2, 2)
    return pairs, torch.tensor([prefer(pair) for pair in pairs], dtype=torch.double)


def test_the_model_is_that_of_comparisons() -> None:
    pairs, answers = duels(5)
    model = told(pairs, answers, value_bound=None).expert()
    rows = torch.arange(10).view(5, 2)
    rows = torch.where(answers.bool().unsqueeze(-1), rows, rows.flip(-1))
    other = LikelihoodRatioModel.from_comparisons(
        pairs.view(10, 2),
        rows,
        covar_module=model.covar_module,
        norm_bound=model.norm_bound,
        slack=model.slack,
        jitter_points=False,
        input_transform=model.input_transform,
    )
    X = SPACE.sample(6, seed=5).view(3, 2, 2)
    torch.testing.assert_close(model.advantage(X), other.advantage(X), atol=1e-7, rtol=0)


def test_only_differences_are_known() -> None:
    """Property T24: shifts and swaps change nothing, and an item meets itself with certainty."""
    pairs, answers = duels(5)
    model = told(pairs, answers).expert()
    swapped = told(pairs.flip(1), 1.0 - answers).expert()
    item, reference = SPACE.sample(2, seed=7)
    assert belief_ends(model, reference, reference) == (0.0, 0.0)
    for ours, theirs in zip(
        belief_ends(model, item, reference), belief_ends(swapped, item, reference), strict=True
    ):
        assert ours == pytest.approx(theirs, abs=1e-6)
    program, root = model.confidence_set.program, model.functionals().whitening.root
    u = rand(root.shape[-1])
    shift = torch.linalg.lstsq(root, torch.ones(len(root), 1).double()).solution.squeeze(-1)
    torch.testing.assert_close(
        program.log_likelihood(u + 3.0 * shift), program.log_likelihood(u), atol=1e-9, rtol=0
    )


def test_what_is_preferred_has_the_larger_belief() -> None:
    pairs, _ = duels(1)
    won = pairs.expand(6, 2, 2)
    first, second = pairs[0]
    lower, upper = belief_ends(told(won, torch.ones(6)).expert(), first, second)
    assert lower > 0.5
    assert upper > lower
    assert belief_ends(told(won, torch.zeros(6)).expert(), first, second)[1] < -0.5
    undecided = belief_ends(told(won, torch.full((6,), 0.5)).expert(), first, second)
    assert undecided[0] == pytest.approx(-undecided[1], abs=1e-6)
    nothing = told(pairs[:, :1].expand(1, 2, 2), torch.ones(1))
    assert nothing.labelled == []


@pytest.mark.parametrize("kind", ["box", "choices"])
def test_bookkeeping(kind: str) -> None:
    """The first item of a duel is the candidate, the second the best so far."""
    space: dict[str, Any] = {"bounds": BOX} if kind == "box" else {"choices": rand(20, 2)}
    strategy = COBOL(**space, **QUICK, threshold=0.0, seed=1)
    answers = {Duel: itertools.cycle([1.0, 0.0, 0.5])}
    queries = play(strategy, 7)
    assert [type(query) for query in queries] == [Evaluate] * 3 + [Duel] * 4
    asked = 0
    for _ in range(6 if kind == "box" else 12):
        incumbent = strategy.recommend()
        query = strategy.ask()
        decision = strategy.decisions[query.id]
        assert decision.asks == isinstance(query, Duel)
        if not isinstance(query, Duel):
            play(strategy, 1)
            continue
        asked += 1
        candidate = query.items[0]
        assert torch.equal(query.items[1], incumbent)
        assert decision.upper - decision.lower > 0.0
        if query.indices is not None:
            assert torch.equal(query.items, strategy.space.table[list(query.indices)])
        answer = next(answers[Duel])
        strategy.tell(query, answer)
        assert (query, answer) in strategy.beliefs.labelled
        due = strategy.ask()
        measured = isinstance(due, Evaluate) and strategy.decisions[due.id].reason == "accepted"
        assert measured == (answer > 0.0)
        if measured:
            assert torch.equal(due.items, candidate)
    assert asked > 1


@pytest.mark.parametrize("candidate", ["constrained", "hcei", "belief"])
def test_other_candidates(candidate: Any) -> None:
    strategy = COBOL(choices=rand(20, 2), **QUICK, candidate=candidate, seed=1)
    play(strategy, 12)
    found = [d for d in strategy.decisions if not math.isnan(d.upper)]
    assert found
    if candidate != "hcei":
        # The best measured item itself is there, of which all is known.
        assert all(d.upper >= -1e-6 for d in found)


def test_it_resumes() -> None:
    for cls in (COBOL, COBOHL):
        strategy = cls(choices=rand(20, 2), **QUICK, threshold=0.0, seed=2)
        play(strategy, 8, expert=lambda pair: 0.0)
        strategy.ask()
        read = cls.from_state_dict(json.loads(json.dumps(strategy.state_dict(), allow_nan=False)))
        assert read.state_dict() == strategy.state_dict()
        assert play(read, 3) == play(strategy, 3)
