"""`PreferenceGP` with inducing items."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from botorch.acquisition.preference import AnalyticExpectedUtilityOfBestOption
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms.input import Normalize, Warp
from botorch.optim import optimize_acqf
from botorch.sampling.normal import SobolQMCNormalSampler
from gpytorch.kernels import Kernel
from gpytorch.priors import LogNormalPrior
from torch import Size

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.inference import InducingSystem
from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP
from botorch_pref.randomness import seeded
from tests.models.common import (
    COPIES,
    LinearMean,
    assert_same_posterior,
    make_duels,
    make_kernel,
    parameter_gradients,
    rand,
    utility,
)
from tests.models.mixed import make_mixed

POINTS = rand(5, 2, seed=3)
PAIRS = rand(4, 2, 2, seed=4)


def make_model(num_items: int = 20, num_duels: int = 40, **options: Any) -> PreferenceGP:
    X, comparisons = make_duels(num_items, num_duels, 2)
    return PreferenceGP(X, comparisons, **{"covar_module": make_kernel(2), **options})


def _warp() -> Warp:
    prior = LogNormalPrior(0.0, 0.75**0.5)
    unit = torch.tensor([[0.0] * 2, [1.0] * 2], dtype=torch.float64)
    return Warp(d=2, indices=[0, 1], concentration1_prior=prior, bounds=unit).double()


class TestExact:
    """With all items as inducing items the model is the exact one."""

    @pytest.mark.parametrize("variance", ["laplace", 0.7])
    @pytest.mark.parametrize("transform", [None, "normalize", "warp"])
    def test_posterior_and_evidence(self, variance: str | float, transform: str | None) -> None:
        make = {None: lambda: None, "normalize": lambda: Normalize(2), "warp": _warp}[transform]
        options = {"variance": variance, "mean_module": LinearMean(0.7)}
        exact = make_model(input_transform=make(), **options)
        found = make_model(input_transform=make(), inducing_points=exact.items, **options)
        assert isinstance(found.laplace_posterior()[1].system, InducingSystem)
        assert_same_posterior(found.posterior(POINTS), exact.posterior(POINTS), 1e-8, 1e-8)
        pairs = found.pair_posterior(PAIRS), exact.pair_posterior(PAIRS)
        torch.testing.assert_close(pairs[0].mean, pairs[1].mean, atol=1e-8, rtol=1e-8)
        torch.testing.assert_close(pairs[0].variance, pairs[1].variance, atol=1e-8, rtol=1e-8)
        torch.testing.assert_close(
            found.win_probability(PAIRS), exact.win_probability(PAIRS), atol=1e-8, rtol=1e-8
        )
        values = found.log_evidence(), exact.log_evidence()
        torch.testing.assert_close(*values, atol=1e-7, rtol=0)
        learnt = [[p for p in m.parameters() if p.requires_grad] for m in (found, exact)]
        for one, other in zip(
            *(torch.autograd.grad(v, p) for v, p in zip(values, learnt, strict=True)), strict=True
        ):
            torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-6)

    @pytest.mark.parametrize("known", [True, False])
    def test_with_values(self, known: bool) -> None:
        exact = make_mixed(num_duels=15, known=known)
        found = make_mixed(num_duels=15, known=known, inducing_points=exact.items)
        assert_same_posterior(found.posterior(POINTS), exact.posterior(POINTS), 1e-7, 1e-7)
        torch.testing.assert_close(found.log_evidence(), exact.log_evidence(), atol=1e-6, rtol=0)

    def test_as_many_as_items(self) -> None:
        exact, found = make_model(), make_model(inducing_points=20)
        assert found.inducing_points is None
        assert_same_posterior(found.posterior(POINTS), exact.posterior(POINTS), 0.0, 0.0)
        batch = make_model(inducing_points=50).condition_on_observations  # a batch is fine, then
        X = rand(2, 3, 2, seed=8)
        Y = torch.tensor([[[0, 1]], [[2, 1]]])
        assert batch(X, Y).batch_shape == (2,)


class TestGradient:
    @pytest.mark.parametrize("kind", ["plain", "warp", "values", "noise"])
    def test_hyperparameters(self, kind: str) -> None:
        model = {
            "plain": lambda: make_model(8, 20, inducing_points=4),
            "warp": lambda: make_model(8, 20, inducing_points=4, input_transform=_warp()),
            "values": lambda: make_mixed(num_duels=8, inducing_points=4),
            "noise": lambda: make_mixed(num_duels=8, known=False, inducing_points=4),
        }[kind]()
        assert model.inducing_points is not None
        for name, exact, numerical in parameter_gradients(model, model.log_evidence):
            torch.testing.assert_close(
                exact, numerical, atol=1e-6, rtol=1e-5, msg=lambda text, name=name: name + text
            )

    def test_fit(self) -> None:
        X, comparisons = make_duels(40, 150, 2)
        model = PreferenceGP(X, comparisons, inducing_points=15)
        before = model.inducing_points
        mll = LaplaceMarginalLogLikelihood(model.likelihood, model)
        start = float(mll(None, None).detach())
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 8}})
        assert float(mll(None, None).detach()) > start + 0.1
        assert model.inducing_points is before

    def test_items_that_require_a_gradient(self) -> None:
        model = make_model(inducing_points=5)
        X = model.items.clone().requires_grad_()
        moved = PreferenceGP(X, model.comparisons, inducing_points=5)
        with pytest.raises(UnsupportedError, match="cannot be differentiated"):
            moved.posterior(POINTS)


class TestPrediction:
    def test_prior_variance_away_from_inducing_items(self) -> None:
        model = make_model(inducing_points=5)
        far = torch.tensor([[30.0, -20.0], [30.2, -20.0]], dtype=torch.float64)
        prior = model.covar_module(far).to_dense()
        torch.testing.assert_close(model.posterior(far).covariance_matrix, prior)
        pair = model.pair_posterior(far)
        torch.testing.assert_close(pair.variance.squeeze(), 2 * (prior[0, 0] - prior[0, 1]))

    def test_near_identical_items_keep_their_digits(self) -> None:
        model = make_model(inducing_points=10)
        center = rand(1, 1, 2, seed=2)
        near, wide = (center + torch.tensor([[0.0], [g]]).double() for g in (1e-6, 1e-4))
        variances = [model.difference_moments(X)[1].detach() for X in (near, wide)]
        torch.testing.assert_close(variances[1], 1e4 * variances[0], rtol=2e-2, atol=0)


class TestData:
    def test_chosen_items(self) -> None:
        model = make_model(inducing_points=6)
        chosen = model.inducing_points
        assert chosen is not None
        assert chosen.shape == (6, 2)
        assert len(torch.unique(chosen, dim=0)) == 6
        assert (chosen.unsqueeze(1) == model.items).all(-1).any(-1).all()
        model.covar_module.base_kernel.lengthscale = 0.05
        assert model.inducing_points is chosen
        first = model.posterior(POINTS).mean
        model.choose_inducing_points()
        assert not torch.equal(model.inducing_points, chosen)
        assert not torch.equal(model.posterior(POINTS).mean, first)

    def test_new_data_are_chosen_from(self) -> None:
        model = make_model(inducing_points=6)
        before = model.inducing_points
        far = torch.tensor([[[5.0, 5.0], [-5.0, 5.0]]], dtype=torch.float64)
        later = model.condition_on_pairs(far, torch.ones(1).double())
        assert later.inducing_points is not None
        assert (later.inducing_points == far[0, 0]).all(-1).any()
        assert model.inducing_points is before
        given = make_model(inducing_points=before).condition_on_pairs(far, torch.ones(1).double())
        torch.testing.assert_close(given.inducing_points, before)

    @pytest.mark.parametrize("given", [True, False])
    def test_copies(self, given: bool) -> None:
        points = rand(6, 2, seed=9) if given else 6
        model = make_model(inducing_points=points)
        expected = model.posterior(POINTS)
        for duplicate in COPIES.values():
            assert_same_posterior(duplicate(model).posterior(POINTS), expected, 0.0, 0.0)
        assert not any("inducing" in name for name in model.state_dict())
        fresh = make_model(inducing_points=points)
        fresh.covar_module.outputscale = 9.0
        fresh.load_state_dict(model.state_dict())
        assert_same_posterior(fresh.posterior(POINTS), expected, 0.0, 0.0)

    def test_the_evidence_converges_in_single_precision(self) -> None:
        """A warning would fail the test; a start that did not converge is not kept."""
        X, comparisons = make_duels(60, 300, 3)
        model = PreferenceGP(X, comparisons, inducing_points=40)
        assert model.inducing_points is not None  # chosen before the items are rounded
        single = copy.deepcopy(model).float()
        found = single.log_evidence()
        torch.testing.assert_close(found.double(), model.log_evidence(), rtol=1e-4, atol=0.0)
        assert single._start is not None
        assert float(single._start.abs().sum()) > 0.0

    def test_many_points_in_single_precision(self) -> None:
        """A factorisation of more rows rounds by more."""
        model = make_model(inducing_points=rand(1500, 2))
        model.covar_module.base_kernel.lengthscale = 50.0
        model = model.float()
        assert bool(model.posterior(POINTS.float()).mean.isfinite().all())

    def test_batches(self) -> None:
        X, comparisons = make_duels(8, 12, 2)
        both = X.expand(2, 8, 2), comparisons.expand(2, 12, 2)
        with pytest.raises(UnsupportedError, match="not for a batch"):
            PreferenceGP(*both, inducing_points=4)
        kernel: Kernel = make_kernel(2, batch_shape=(2,))
        with pytest.raises(UnsupportedError, match="not for a batch"):
            PreferenceGP(X, comparisons, covar_module=kernel, inducing_points=4)
        model = make_model(inducing_points=4)
        with pytest.raises(UnsupportedError, match="not for a batch"):
            model.set_train_data(*both)
        assert model.items.dim() == 2
        with pytest.raises(UnsupportedError, match="not for a batch"):
            model.fantasize(PAIRS, SobolQMCNormalSampler(Size([2])))


def test_a_closed_loop_finds_the_best_items() -> None:
    unit = torch.tensor([[0.0] * 2, [1.0] * 2], dtype=torch.float64)
    X, comparisons = make_duels(60, 120, 2, consistent=True)
    model = PreferenceGP(X, comparisons, inducing_points=25)
    with seeded(2):
        for _ in range(3):
            rule = AnalyticExpectedUtilityOfBestOption(model)
            pair, _ = optimize_acqf(
                rule, unit, q=2, num_restarts=3, raw_samples=32, options={"maxiter": 20}
            )
            answer = (utility(pair)[:1] > utility(pair)[1:]).double()
            model = model.condition_on_pairs(pair.unsqueeze(0), answer)
    assert model.inducing_points is not None
    best = model.items[model.posterior(model.items).mean.squeeze(-1).argmax()]
    grid = torch.cartesian_prod(*[torch.linspace(0, 1, 51).double()] * 2)
    assert float(utility(grid).max() - utility(best)) < 0.15


def test_a_fit_finds_a_lengthscale_far_below_its_start() -> None:
    """Inducing items are chosen under the first hyperparameters, where eight explain all."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(200, 1, generator=generator, dtype=torch.float64)
    value = 4.0 * torch.sin(25.0 * X.squeeze(-1))
    rows = torch.randint(200, (600, 2), generator=generator)
    rows = rows[rows[:, 0] != rows[:, 1]]
    chance = torch.sigmoid(value[rows[:, 0]] - value[rows[:, 1]])
    wins = torch.rand(chance.shape, generator=generator, dtype=torch.float64) < chance
    comparisons = torch.where(wins.unsqueeze(-1), rows, rows.flip(-1))
    found = []
    for points in (80, None):
        model = PreferenceGP(X, comparisons, inducing_points=points)
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        found.append(model.covar_module.base_kernel.lengthscale.item())
    assert found[1] < 0.1
    assert found[0] == pytest.approx(found[1], rel=1e-3)
