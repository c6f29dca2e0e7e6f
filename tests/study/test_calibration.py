"""Whether what a study says of its recommendation is true as often as it says."""

from __future__ import annotations

import math

import pytest
import torch

from botorch_pref.space import SearchSpace
from botorch_pref.strategies import PFTS
from botorch_pref.study.recommendation import Beliefs, Recommendation, StoppingRule, recommendation

NUM_CHOICES, NUM_RUNS = 25, 14
UNIT = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def played(run: int) -> list[tuple[Recommendation, bool]]:
    """What is said after 8, 16, ..., 80 answers of a noisy judge, and whether it is true."""
    generator = torch.Generator().manual_seed(run)
    table = torch.rand(NUM_CHOICES, 2, generator=generator, dtype=torch.float64)
    prior = 4.0 * torch.exp(-0.5 * (torch.cdist(table, table) / 0.4) ** 2)
    root = torch.linalg.cholesky(prior + 1e-6 * torch.eye(NUM_CHOICES))
    utility = root @ torch.randn(NUM_CHOICES, generator=generator, dtype=torch.float64)
    strategy = PFTS(space=SearchSpace(UNIT, table), seed=run)
    said = []
    for number in range(1, 81):
        query = strategy.ask()
        first, second = query.indices
        chance = torch.sigmoid(utility[first] - utility[second])
        strategy.tell(query, float(torch.rand((), generator=generator) < chance))
        if number % 8:
            continue
        item, beliefs = strategy.recommend(), Beliefs.of(strategy)
        found = recommendation(item, {}, number, beliefs, StoppingRule(), str)
        asked = {row for answered in strategy.history for row in answered.query.indices}
        lack = utility[sorted(asked)].max() - utility[strategy.recommend_index()]
        said.append((found, bool(lack <= math.log(0.6 / 0.4))))
    return said


@pytest.mark.slow
def test_good_enough_is_as_likely_as_it_says() -> None:
    said = [one for run in range(NUM_RUNS) for one in played(run)]
    for least, most in ((0.3, 0.8), (0.8, 1.0)):
        group = [(found.good_enough, true) for found, true in said if found.good_enough > least]
        group = [(claim, true) for claim, true in group if claim <= most]
        claimed = sum(claim for claim, _ in group) / len(group)
        share = sum(true for _, true in group) / len(group)
        # Ten of a run are of one utility, so that these are few independent ones.
        assert share == pytest.approx(claimed, abs=0.2)
