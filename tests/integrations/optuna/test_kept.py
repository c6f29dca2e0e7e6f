from __future__ import annotations

import torch
from optuna.distributions import FloatDistribution

from botorch_pref.integrations.optuna.kept import told
from botorch_pref.integrations.optuna.parameters import Parameters
from tests.models.common import rand

SPACE = Parameters({"x": FloatDistribution(0.0, 1.0)})
PAIRS = rand(5, 2, 1)


def test_what_is_added_is_as_if_told_at_once() -> None:
    kept = told(None, SPACE, PAIRS[:1], 0)
    first = kept.learner
    for number in (2, 3, 5):
        kept = told(kept, SPACE, PAIRS[:number], 0)
    again = told(None, SPACE, PAIRS, 0)
    assert kept.learner is not first  # it was due for a fit
    assert told(kept, SPACE, PAIRS, 0).learner is kept.learner
    means = [one.learner.model().posterior(PAIRS).mean for one in (kept, again)]
    torch.testing.assert_close(*means, rtol=1e-9, atol=1e-9)


def test_another_history_is_learnt_anew() -> None:
    kept = told(None, SPACE, PAIRS, 0)
    assert told(kept, SPACE, PAIRS.flip(-2), 0).learner is not kept.learner
    assert told(kept, SPACE, PAIRS[:3], 0).learner is not kept.learner
    wider = Parameters({"x": FloatDistribution(0.0, 2.0)})
    assert told(kept, wider, PAIRS, 0).learner is not kept.learner
