"""Every strategy takes a link and a kernel, learns the kernel's parameters, and stores both."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from gpytorch.kernels import Kernel, LinearKernel, MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import LogNormalPrior

from botorch_pref.exceptions import ComparisonDataError, UnsupportedError
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from botorch_pref.strategies import (
    DTS,
    EUBO,
    MRLPF,
    PFTS,
    POPBO,
    LaplacePOPBO,
    MaxMinLCBStrategy,
    MultipleChoicePOPBO,
    RandomPairs,
)
from tests.contracts.strategy import answer, shorten_searches, stored
from tests.models.common import rand
from tests.strategies.common import FIXED

BOX = torch.tensor([[0.0, -1.0], [2.0, 1.0]], dtype=torch.float64)
TABLE = BOX[0] + (BOX[1] - BOX[0]) * rand(9, 2)
STRATEGIES = (PFTS, MRLPF, MaxMinLCBStrategy, POPBO, LaplacePOPBO, EUBO, DTS, RandomPairs)


def matern(dim: int) -> Kernel:
    """Matern-3/2 with a lengthscale for each dimension, all of them learnt."""
    prior = LogNormalPrior(0.0, 1.0)
    base = MaternKernel(nu=1.5, ard_num_dims=dim, lengthscale_prior=prior)
    return ScaleKernel(base, outputscale_prior=prior)


def play(strategy: Any, num_queries: int) -> None:
    for step in range(num_queries):
        query = strategy.ask()
        strategy.tell(query, answer(query) if step else 0.5)


@pytest.mark.parametrize(
    ("kind", "domain"),
    [
        *((kind, {"choices": TABLE}) for kind in STRATEGIES),
        *((kind, {"bounds": BOX}) for kind in (PFTS, POPBO)),
        *(
            pytest.param(kind, {"bounds": BOX}, marks=pytest.mark.slow)
            for kind in STRATEGIES
            if kind not in (PFTS, POPBO)
        ),
    ],
)
def test_a_probit_judge_and_a_kernel_that_is_learnt(
    kind: Any, domain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_searches(monkeypatch)
    options = {**domain, **({"horizon": 9} if kind is MRLPF else {})}
    strategy = kind(**options, likelihood=ProbitLikelihood(0.7), covar_module=matern, seed=1)
    play(strategy, 3)
    item, model = strategy.recommend(), strategy.learner.model()
    assert isinstance(model.likelihood, ProbitLikelihood)
    kernel = strategy.learner.covar_module()
    assert isinstance(kernel.base_kernel, MaternKernel)
    assert not torch.equal(kernel.base_kernel.lengthscale, matern(2).base_kernel.lengthscale)
    state = json.loads(json.dumps(strategy.state_dict()))
    assert state["options"]["likelihood"] == {"link": "probit", "scale": 0.7}
    read = kind.from_state_dict(state, covar_module=matern)
    assert read.state_dict() == state
    assert torch.equal(read.recommend(), item)
    assert read.ask() == strategy.ask()
    assert strategy.with_state(state).ask() == strategy.ask()
    with pytest.raises(ComparisonDataError, match="`covar_module`"):
        kind.from_state_dict(state)
    with pytest.raises(ComparisonDataError, match="`covar_module` has parameters"):
        kind.from_state_dict(state, covar_module=RBFKernel())


def test_a_kernel_without_an_output_scale_is_the_unit_kernel() -> None:
    kernel = RBFKernel() + LinearKernel()
    strategy = PFTS.paper(choices=TABLE, covar_module=kernel, hyperparameters="evidence")
    play(strategy, 4)
    assert strategy.learner.penalty == 1.0
    assert {"kernels.0.raw_lengthscale", "kernels.1.raw_variance"} == set(strategy.learner.values)
    unit = strategy.space.normalize(TABLE)
    prior = strategy.learner.posterior().prior_covariance
    torch.testing.assert_close(prior, strategy.learner.covar_module()(unit).to_dense())
    assert kernel.kernels[0].lengthscale.item() == RBFKernel().lengthscale.item()  # a copy learns


def test_a_kernel_that_requires_no_gradient_stays_as_it_is() -> None:
    kernel = ScaleKernel(RBFKernel())
    kernel.base_kernel.lengthscale, kernel.outputscale = 0.3, 4.0
    given = PFTS(choices=TABLE, covar_module=kernel.requires_grad_(False), seed=2)
    fixed = {"lengthscale": 0.3, "outputscale": 4.0}
    named = PFTS(choices=TABLE, hyperparameters=fixed, seed=2)
    for strategy in (given, named):
        play(strategy, 6)
    assert given.learner.num_fitted == 0
    assert given.learner.penalty == pytest.approx(0.25)
    assert [done.query for done in given.history] == [done.query for done in named.history]


def test_arguments_that_are_no_kernel_and_no_link() -> None:
    for wrong in ({"covar_module": "rbf"}, {"covar_module": lambda dim: dim}):
        with pytest.raises(ComparisonDataError, match="`covar_module`"):
            EUBO(choices=TABLE, **wrong)
    with pytest.raises(ComparisonDataError, match="`hyperparameters` or `covar_module`"):
        EUBO(choices=TABLE, covar_module=matern, hyperparameters=FIXED)
    for wrong in ("probit", {"link": "cauchit", "scale": 1.0}):
        with pytest.raises(ComparisonDataError, match="`likelihood`"):
            EUBO(choices=TABLE, likelihood=wrong)
    with pytest.raises(UnsupportedError, match="softmax"):
        MultipleChoicePOPBO(choices=TABLE, likelihood=ProbitLikelihood())
    read = stored(MultipleChoicePOPBO(choices=TABLE, likelihood=LogitLikelihood(2.0)))
    assert read.likelihood.scale == 2.0
    state = EUBO(choices=TABLE).state_dict()
    with pytest.raises(ComparisonDataError, match="leave out `covar_module`"):
        EUBO.from_state_dict(state, covar_module=matern)
