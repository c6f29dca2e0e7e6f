"""Two models that share nothing, and their digits."""

from __future__ import annotations

import torch

from botorch_pref.queries import Duel, Evaluate
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.budgeted import ModelSettings
from botorch_pref.strategies.budgeted.beliefs import Beliefs
from tests.strategies.budgeted.oracle import BOX


def made() -> Beliefs:
    return Beliefs(SearchSpace(BOX), ModelSettings(refit_values=2), 0)


def test_each_answer_reaches_one_model() -> None:
    beliefs = made()
    at = SearchSpace(BOX).sample(8, 1)
    for number, item in enumerate(at[:4]):
        beliefs.add(Duel(number, torch.stack([item, at[7 - number]]), None, None), 1.0)
        beliefs.add(Evaluate(number, item, None, None), float(number))
    beliefs.learn()
    borda, objective = beliefs.borda(), beliefs.objective()
    before = {kind: dict(found) for kind, found in beliefs.progress()["fitted"].items()}
    beliefs.add(Evaluate(9, at[4], None, None), 9.0)
    assert beliefs.borda() is borda
    assert beliefs.objective() is not objective
    objective = beliefs.objective()
    beliefs.add(Duel(10, at[5:7], None, None), 0.0)
    assert beliefs.objective() is objective
    assert len(beliefs.borda().items) == 5
    assert not (beliefs.borda().items == at[6]).all(-1).any()
    beliefs.learn()  # neither has grown enough
    assert beliefs.progress()["fitted"] == before
    beliefs.add(Evaluate(11, at[6], None, None), 3.0)
    beliefs.learn()
    after = beliefs.progress()["fitted"]
    assert after["values"] != before["values"]
    assert after["duels"] == before["duels"]


def test_no_digits_are_lost() -> None:
    """Numbers as they were told, and hyperparameters as they were learnt, in double precision."""
    beliefs = made()
    values = [1.0 + 1e-12, 1.0, 1.0 - 1e-12, 1.0 + 2e-12]
    for number, (item, value) in enumerate(zip(SearchSpace(BOX).sample(4, 1), values, strict=True)):
        beliefs.add(Evaluate(number, item, None, None), value)
    model = beliefs.objective()
    told = model.outcome_transform.untransform(model.train_targets.unsqueeze(-1))[0]
    expected = torch.tensor(values, dtype=torch.float64)
    assert torch.equal(told.squeeze(-1) > 1.0, expected > 1.0)
    beliefs.learn()
    found = beliefs.progress()["fitted"]["values"]
    kernel = beliefs.objective().covar_module
    torch.testing.assert_close(
        kernel.outputscale,
        torch.tensor(found["outputscale"], dtype=torch.float64),
        rtol=1e-14,
        atol=0,
    )
