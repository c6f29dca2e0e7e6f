"""Regressions that are learnt as answers come: fits that end, digits, pending values."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from gpytorch.kernels import Kernel, MaternKernel
from linear_operator.utils.errors import NotPSDError
from torch import Size

from botorch_pref.models import BordaGP
from botorch_pref.models.borda_gp import isotropic_kernel
from botorch_pref.queries import Evaluate
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.regression import Regression, fit_exactly, standardised_gp
from botorch_pref.strategies.state import put_back, written
from tests.models.common import rand
from tests.strategies.budget import BOX

SPACE = SearchSpace(BOX)


def regression(values: list[float], refit: int = 2, kernel: Kernel | None = None) -> Regression:
    build = partial(standardised_gp, noise=1e-4)
    kernel = kernel or isotropic_kernel(Size(), BOX, 1.0)
    made = Regression(SPACE, build, kernel, refit=refit, least=2)
    for number, item in enumerate(SPACE.sample(len(values), 1)):
        made.add(Evaluate(number, item), values[number])
    return made


def test_it_is_fitted_when_there_are_enough_more_answers() -> None:
    made = regression([0.3])
    assert not made.learn()  # with one value nothing is known of scales
    fitted = []
    for number, item in enumerate(SPACE.sample(5, 7)):
        made.add(Evaluate(9 + number, item), float(item.sum()))
        fitted.append(made.learn())
    assert fitted == [True, False, True, False, True]
    again = regression([])
    again.answers = list(made.answers)
    put_back(again, written(made))
    X = SPACE.sample(4, 3)
    torch.testing.assert_close(again.model().posterior(X).mean, made.model().posterior(X).mean)
    assert written(again) == written(made)


def test_no_digits_are_lost() -> None:
    """Numbers as they were told, and hyperparameters as they were learnt, in double precision."""
    values = [1.0 + 1e-12, 1.0, 1.0 - 1e-12, 1.0 + 2e-12]
    made = regression(values)
    model = made.model()
    told = model.outcome_transform.untransform(model.train_targets.unsqueeze(-1))[0]
    assert torch.equal(told.squeeze(-1) > 1.0, torch.tensor(values, dtype=torch.float64) > 1.0)
    made.learn()
    found = written(made)["hyperparameters"]["covar_module.raw_outputscale"]
    assert made.model().covar_module.raw_outputscale.item() == found


def test_pending_values_are_as_expected() -> None:
    made = regression([0.1, 0.5, -0.3, 0.2])
    made.learn()
    pending = Evaluate(9, BOX.mean(0))
    known, more = (m.posterior(pending.items[None]) for m in (made.model(), made.model([pending])))
    torch.testing.assert_close(more.mean, known.mean, atol=1e-2, rtol=0)
    assert more.variance < 0.9 * known.variance
    assert made.model([]) is made.model()


def test_a_kernel_without_parameters_to_learn_is_kept() -> None:
    kernel = MaternKernel().double().requires_grad_(False)
    made = regression([0.1, 0.5, -0.3, 0.2], kernel=kernel)
    assert made.learn()
    assert torch.equal(made.model().covar_module.lengthscale, MaternKernel().double().lengthscale)


def test_a_search_that_rounds_a_scale_to_zero() -> None:
    """Its prior refuses to say how likely that is; everything is as it was."""
    model = BordaGP.from_duels(rand(12, 2), torch.arange(12).double() % 2)
    with torch.no_grad():
        model.covar_module.raw_outputscale.fill_(-800.0)
    assert model.covar_module.outputscale.item() == 0.0
    before = {name: value.clone() for name, value in model.state_dict().items()}
    assert not fit_exactly(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not model.training


def test_a_fit_that_fails_keeps_the_hyperparameters(monkeypatch: pytest.MonkeyPatch) -> None:
    made = regression([0.1, 0.5, -0.3, 0.2], refit=1)
    made.learn()
    before = written(made)["hyperparameters"]

    def fail(mll: Any) -> None:
        mll.model.covar_module.outputscale = 77.0
        raise NotPSDError("no factor")

    monkeypatch.setattr("botorch_pref.strategies.regression.fit_gpytorch_mll_scipy", fail)
    made.add(Evaluate(9, BOX.mean(0)), 3.0)
    assert made.learn()
    assert written(made)["hyperparameters"] == before
