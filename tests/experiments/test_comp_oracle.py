"""GP-UCB that knows the filter: it asks inside alone, and the best item is inside."""

from __future__ import annotations

import pytest
import torch

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import CurrinExp, DuelingChoiceJudge, DuelLink, FidelityProblem
from experiments.comp_gp_ucb.oracle import OracleGPUCB
from experiments.problems import BordaFunction, Borehole


@pytest.mark.parametrize(("problem", "slack"), [(CurrinExp(), 0.005), (Borehole(), 0.0524)])
def test_values_are_asked_where_the_filter_would_end(
    problem: FidelityProblem, slack: float
) -> None:
    strategy = OracleGPUCB(
        bounds=problem.bounds,
        budget=6,
        num_initial_values=3,
        problem=problem.name,
        borda_slack=slack,
    )
    asked = []
    while not strategy.finished:
        query = strategy.ask()
        asked.append(query.items)
        strategy.tell(query, float(problem(query.items)))
    # The Borda function with other opponents: what is outside of one set is hardly so of another.
    borda = BordaFunction(DuelingChoiceJudge(problem, link=DuelLink("deterministic")), seed=7)
    scores = borda(torch.stack(asked))
    assert (scores[3:] >= borda.best - slack - 0.002).all()
    assert (scores[:3] < borda.best - slack - 0.002).any()
    assert (strategy._margin(problem.optimizers) > 0.0).all()
    again = OracleGPUCB.from_state_dict(strategy.state_dict())
    assert again.finished
    assert torch.equal(again.recommend(), strategy.recommend())


def test_without_a_value_it_begins_anywhere() -> None:
    problem = CurrinExp()
    strategy = OracleGPUCB(
        bounds=problem.bounds, num_initial_values=1, problem="currinexp", borda_slack=0.005
    )
    for answer in (None, None, 1.0, 2.0):
        strategy.tell(strategy.ask(), answer)
    assert strategy.num_answers == 2


def test_a_problem_with_one_fidelity_is_refused() -> None:
    box = torch.tensor([[0.0] * 2, [1.0] * 2], dtype=torch.float64)
    with pytest.raises(UnsupportedError, match="branin has no second fidelity"):
        OracleGPUCB(bounds=box, problem="branin")
