"""What COBOL's models are made of: windows, lengthscales, and the lemma's multiple."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from linear_operator.utils.errors import NotPSDError

from botorch_pref.queries import Evaluate, Label
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.cobol.beliefs import Beliefs
from botorch_pref.strategies.cobol.options import Settings
from tests.models.common import rand

SPACE = SearchSpace(torch.tensor([[-1.0, 0.0], [2.0, 4.0]], dtype=torch.float64))


def told(num_values: int, num_labels: int, **options: Any) -> Beliefs:
    beliefs = Beliefs(SPACE, Settings.checked(**options), seed=0)
    items = SPACE.bounds[0] + (SPACE.bounds[1] - SPACE.bounds[0]) * rand(num_values + num_labels, 2)
    for number, item in enumerate(items[:num_values]):
        beliefs.add(Evaluate(number, item), float(item.sum()))
    for number, item in enumerate(items[num_values:]):
        beliefs.add(Label(num_values + number, item), float(number % 2))
    return beliefs


def test_a_window_of_labels() -> None:
    """The model is that of somebody who was told the last ones only."""
    windowed, whole = told(2, 6, label_window=4), told(2, 6)
    last = told(2, 0)
    for query, answer in whole.labelled[-4:]:
        last.add(query, answer)
    X = SPACE.sample(3, seed=0)
    torch.testing.assert_close(windowed.expert().upper(X), last.expert().upper(X))
    assert not torch.allclose(windowed.expert().upper(X), whole.expert().upper(X))
    assert told(2, 3, label_window=4).expert().num_answers == 3


def test_lengthscales_of_the_belief() -> None:
    beliefs = told(5, 3, label_lengthscale=2.0, label_intercept=0.0)
    beliefs.learn(1)
    assert beliefs.lengthscales is not None
    own = beliefs.objective().covar_module.lengthscale.flatten()
    torch.testing.assert_close(beliefs.expert().covar_module.lengthscale.flatten(), 2.0 * own)


def test_an_intercept_of_the_belief() -> None:
    """A kernel written out; and what is rejected everywhere is not expected elsewhere."""
    plain, shared = (told(5, 3, label_intercept=share) for share in (0.0, 0.4))
    X = SPACE.sample(4, seed=0)
    kernels = [one.expert().covar_module(X).to_dense() for one in (plain, shared)]
    torch.testing.assert_close(kernels[1], 0.6 * kernels[0] + 0.4)
    far = torch.tensor([[50.0, 90.0]], dtype=torch.double)
    for beliefs in (plain, shared):
        beliefs.labelled = [(query, 0.0) for query, _ in beliefs.labelled]
    assert float(plain.expert().mle(far)) == pytest.approx(0.0, abs=1e-9)
    assert float(shared.expert().mle(far)) < -0.1


@pytest.mark.parametrize("noise", [1e-4, 0.3])
def test_the_lemmas_beta(noise: float) -> None:
    """Against the determinant itself, with a kernel written out; None of it with a number."""
    beliefs = told(6, 0, beta=None, noise=noise)
    beliefs.learn(1)
    scales = torch.tensor(beliefs.lengthscales, dtype=torch.double)
    X = torch.stack([query.items for query, _ in beliefs.measured])
    unit = SPACE.normalize(X) / scales
    covariance = torch.exp(-0.5 * (unit.unsqueeze(1) - unit).square().sum(-1))
    gain = 0.5 * math.log(torch.linalg.det(torch.eye(6) + covariance / noise))
    expected = 1.0 + noise * math.sqrt(2.0 * (gain + 1.0 + math.log(200.0)))
    assert beliefs.beta() == pytest.approx(expected, rel=1e-9)
    assert told(6, 0, beta=0.7, noise=noise).beta() == 0.7


def test_a_fit_that_fails_keeps_the_lengthscales(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost, and neither a crash nor a warning is seen."""
    beliefs = told(4, 0)
    beliefs.learn(1)
    before = beliefs.lengthscales

    def fail(mll: Any) -> None:
        mll.model.covar_module.lengthscale = 77.0
        raise NotPSDError("no factor")

    monkeypatch.setattr("botorch_pref.strategies.exact_fit.fit_gpytorch_mll_scipy", fail)
    beliefs.add(Evaluate(9, SPACE.bounds.mean(0)), 3.0)
    beliefs.learn(2)
    assert beliefs.lengthscales == before


def test_values_that_repeat_themselves() -> None:
    """Without a prior their evidence has no smooth maximum."""
    beliefs = told(3, 0, lengthscale_prior=False)
    item = SPACE.bounds.mean(0)
    for number in range(9):
        beliefs.add(Evaluate(9 + number, item + 1e-7 * number), 5.0)
    beliefs.learn(1)
    scales = torch.tensor(beliefs.lengthscales)
    assert scales.isfinite().all()
    assert (scales >= 0.025).all()
    assert beliefs.means(SPACE.bounds).isfinite().all()
