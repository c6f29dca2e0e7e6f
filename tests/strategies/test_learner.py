"""The model behind a strategy: data, hyperparameters, and when they are fitted."""

from __future__ import annotations

import copy
import itertools
import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize

from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.queries import Duel
from botorch_pref.space import SearchSpace
from botorch_pref.strategies.utility import UtilityLearner, last_refit, refit_is_due
from tests.models.common import rand

FIXED = {"kernel": "matern", "lengthscale": [0.2, 0.5], "outputscale": 3.0}
BOUNDS = torch.tensor([[-1.0, 0.0], [2.0, 5.0]], dtype=torch.float64)
TABLE = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * rand(9, 2)


def make(
    hyperparameters: object = "evidence", box: bool = False, **kwargs: object
) -> UtilityLearner:
    space = SearchSpace(BOUNDS, None if box else TABLE)
    options = {"kappa": "laplace", "regularizer": "rkhs", "seed": 0, **kwargs}
    return UtilityLearner(space, hyperparameters, **options)


def duel(i: int, j: int, box: bool = False) -> Duel:
    return Duel(0, TABLE[[i, j]], None if box else (i, j))


def teach(learner: UtilityLearner, num_duels: int, seed: int = 0, box: bool = False) -> list:
    generator = torch.Generator().manual_seed(seed)
    told = []
    for _ in range(num_duels):
        i, j = torch.randperm(9, generator=generator)[:2].tolist()
        answer = float(TABLE[i].sum() > TABLE[j].sum())
        assert learner.add(duel(i, j, box), answer)
        told.append(((i, j), answer))
    return told


@pytest.mark.parametrize("box", [False, True])
def test_an_identical_pair_is_no_comparison(box: bool) -> None:
    learner = make(FIXED, box)
    assert not learner.add(duel(3, 3, box), 1.0)
    assert learner.add(duel(3, 4, box), 0.5)
    assert learner.data.num_comparisons == 1
    assert learner.data.wins.tolist() == [0.5]


@pytest.mark.parametrize("kappa", ["laplace", 2.0])
def test_table_and_model_are_one_posterior(kappa: str | float) -> None:
    learner = make(FIXED, kappa=kappa)
    told = teach(learner, 15)
    exact, model = learner.posterior(), learner.model()
    assert learner.posterior() is exact
    assert learner.model() is model
    posterior = model.posterior(TABLE)
    torch.testing.assert_close(posterior.mean.squeeze(-1), exact.mean, atol=1e-8, rtol=0.0)
    torch.testing.assert_close(posterior.covariance_matrix, exact.covariance, atol=1e-8, rtol=0.0)
    told += teach(learner, 5, seed=1)
    assert learner.model() is not model
    again = make(FIXED, kappa=kappa)
    for pair, answer in told:
        again.add(duel(*pair), answer)
    torch.testing.assert_close(
        learner.posterior().mean,
        again.posterior().mean,
        atol=1e-9,
        rtol=0.0,
    )


def test_lengthscales_are_in_units_of_the_box() -> None:
    learner = make(FIXED, box=True)
    kernel = learner.covar_module()
    assert kernel.base_kernel.lengthscale.flatten().tolist() == pytest.approx([0.2, 0.5])
    assert kernel.outputscale.item() == pytest.approx(3.0)
    assert learner.penalty == pytest.approx(1 / 3)
    teach(learner, 3, box=True)
    model = learner.model()
    covariance = model.covar_module(model.transform_inputs(TABLE)).to_dense()
    unit = (TABLE - BOUNDS[0]) / (BOUNDS[1] - BOUNDS[0])
    torch.testing.assert_close(covariance, kernel(unit).to_dense())


def test_fixed_values_are_never_fitted() -> None:
    """The penalty is the inverse of the output scale."""
    learner = make({"lengthscale": 0.3, "penalty": 0.05})
    assert learner.penalty == pytest.approx(0.05, rel=1e-12)
    assert learner.values["outputscale"] == pytest.approx(20.0)
    teach(learner, 10)
    assert not learner.refit()
    lengthscale = learner.covar_module().base_kernel.lengthscale
    assert lengthscale.flatten().tolist() == pytest.approx([0.3, 0.3])


def test_a_fit_is_that_of_the_evidence() -> None:
    learner = make()
    assert not learner.refit()
    teach(learner, 12)
    assert learner.refit()
    model = PreferenceGP(
        TABLE, learner.data, input_transform=Normalize(2, bounds=learner.space.bounds)
    )
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    fitted = model.covar_module
    assert learner.values["lengthscale"] == pytest.approx(
        fitted.base_kernel.lengthscale.flatten().tolist(), rel=1e-3
    )
    assert learner.values["outputscale"] == pytest.approx(fitted.outputscale.item(), rel=1e-3)
    gram = fitted(learner.space.normalize(TABLE)).to_dense()
    prior = learner.posterior().prior_covariance
    torch.testing.assert_close(prior, gram, atol=1e-2, rtol=1e-2)
    assert not learner.refit()


def test_fits_are_repeated_as_the_data_grow_by_a_tenth() -> None:
    learner, sizes = make(), []
    for size in range(1, 41):
        teach(learner, 1, seed=size)
        if learner.refit():
            sizes.append(size)
    assert sizes[:3] == [1, 2, 3]
    for last, size in itertools.pairwise(sizes):
        assert 1.1 * last - 1e-9 <= size <= math.ceil(1.1 * last + 1e-9)
    assert 1.1 * sizes[-1] > 40


@pytest.mark.parametrize("kappa", ["laplace", 2.0])
@pytest.mark.parametrize("box", [False, True])
def test_the_model_does_not_depend_on_when_it_was_asked_for(box: bool, kappa: str | float) -> None:
    steady, late, copied = (make(FIXED, box, kappa=kappa) for _ in range(3))
    for size in range(5):
        for learner in (steady, late, copied):
            teach(learner, 1, seed=size, box=box)
        expected = steady.model().posterior(TABLE)
        copied = copy.deepcopy(copied)
        assert torch.equal(
            copied.model().posterior(TABLE).covariance_matrix, expected.covariance_matrix
        )
    found = late.model().posterior(TABLE)
    assert torch.equal(found.mean, expected.mean)
    assert torch.equal(found.covariance_matrix, expected.covariance_matrix)


def test_the_last_refit_is_that_of_answers_one_by_one() -> None:
    fitted = 0
    for size in range(60):
        if refit_is_due(size, fitted):
            fitted = size
        assert last_refit(size) == fitted
    assert fitted < 59
