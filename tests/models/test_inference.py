"""Expectation propagation as the inference of models."""

import copy

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.sampling.pathwise import draw_matheron_paths
from torch.autograd import gradcheck

from botorch_pref.data import Choices
from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.models import BernoulliGP, LaplaceMarginalLogLikelihood, PreferenceGP


@pytest.fixture
def data():
    generator = torch.Generator().manual_seed(0)
    items = torch.rand(12, 2, generator=generator, dtype=torch.double)
    every = torch.combinations(torch.arange(12))
    pairs = every[torch.randperm(len(every), generator=generator)[:20]]
    better = items[pairs].sum(-1)
    return items, torch.where((better[:, :1] > better[:, 1:]), pairs, pairs.flip(-1))


def with_scales(model, lengthscale, outputscale):
    model.covar_module.base_kernel.lengthscale = lengthscale
    model.covar_module.outputscale = outputscale
    return model


@pytest.mark.parametrize("outputscale", [4.0, 50.0])
def test_probabilities_are_those_of_sampling(data, outputscale):
    """Where Laplace pulls them towards a half."""
    items, comparisons = data
    errors = {}
    for inference in ("laplace", "ep"):
        model = with_scales(PreferenceGP(items, comparisons, inference=inference), 0.4, outputscale)
        covariance = model.covar_module(items).to_dense().detach() + 1e-6 * torch.eye(12)
        with torch.no_grad():
            found = model.win_probability(items[torch.arange(8).view(4, 2)])
        if not errors:
            probabilities = sampled_probabilities(covariance, comparisons)
        errors[inference] = float((found - probabilities).abs().mean())
    assert errors["ep"] < 0.01
    assert errors["ep"] < 0.4 * errors["laplace"]


def sampled_probabilities(covariance, comparisons, num_samples=60_000):
    """Elliptical slice sampling (Murray, Adams and MacKay 2010), 300 chains side by side."""
    generator = torch.Generator().manual_seed(1)
    root, chains = torch.linalg.cholesky(covariance), 300

    def log_likelihood(f):
        difference = f[..., comparisons[:, 0]] - f[..., comparisons[:, 1]]
        return torch.nn.functional.logsigmoid(difference).sum(-1)

    def noise(*shape):
        return torch.rand(*shape, generator=generator, dtype=torch.double)

    def prior():
        normal = torch.randn(chains, 12, generator=generator, dtype=torch.double)
        return normal @ root.T

    state, total, kept = prior(), torch.zeros(4).double(), 0
    for step in range(100 + num_samples // chains):
        other, level = prior(), log_likelihood(state) + noise(chains).log()
        angle = 2 * torch.pi * noise(chains)
        low, high = angle - 2 * torch.pi, angle.clone()
        new, open_ = state.clone(), torch.ones(chains, dtype=torch.bool)
        while bool(open_.any()):
            moved = state * angle.cos().unsqueeze(-1) + other * angle.sin().unsqueeze(-1)
            fits = open_ & (log_likelihood(moved) > level)
            new[fits], open_ = moved[fits], open_ & ~fits
            low = torch.where(open_ & (angle < 0), angle, low)
            high = torch.where(open_ & (angle >= 0), angle, high)
            angle = torch.where(open_, low + (high - low) * noise(chains), angle)
        state = new
        if step >= 100:
            total += torch.sigmoid(state[:, 0:8:2] - state[:, 1:8:2]).mean(0)
            kept += 1
    return total / kept


def test_evidence_is_differentiable_in_hyperparameters(data):
    items, comparisons = data
    model = PreferenceGP(items, comparisons, inference="ep")
    kernel = model.covar_module

    def evidence(raw_lengthscale, raw_outputscale):
        for owner, name, value in (
            (kernel.base_kernel, "raw_lengthscale", raw_lengthscale),
            (kernel, "raw_outputscale", raw_outputscale),
        ):
            delattr(owner, name)
            setattr(owner, name, value)
        return model.log_evidence()

    at = [kernel.base_kernel.raw_lengthscale, kernel.raw_outputscale]
    inputs = [value.detach().clone().requires_grad_() for value in at]
    assert gradcheck(evidence, inputs, eps=1e-5, atol=1e-6, rtol=1e-5)


def test_a_fit_raises_the_evidence_and_copies_keep_the_inference(data):
    items, comparisons = data
    model = PreferenceGP(items, comparisons, inference="ep")
    before = float(model.log_evidence().detach())
    fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    assert float(model.log_evidence().detach()) > before
    again = copy.deepcopy(model)
    assert again.inference == "ep"
    torch.testing.assert_close(again.posterior(items).mean, model.posterior(items).mean)
    new = model.condition_on_pairs(items[[0, 5]].unsqueeze(0), torch.tensor([1.0]))
    assert new.inference == "ep"


def test_a_batch_is_its_elements(data):
    items, comparisons = data
    parts = [(items, comparisons), (items.flip(-1), comparisons.flip(0))]
    both = PreferenceGP(*(torch.stack(p) for p in zip(*parts, strict=True)), inference="ep")
    found = both.posterior(items)
    for i, part in enumerate(parts):
        single = PreferenceGP(*part, inference="ep").posterior(items)
        torch.testing.assert_close(found.mean[i], single.mean, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(found.variance[i], single.variance, rtol=1e-5, atol=1e-5)


def test_labels(data):
    items, _ = data
    labels = (items.sum(-1, keepdim=True) > 1.0).double()
    laplace, ep = (BernoulliGP(items, labels, inference=name) for name in ("laplace", "ep"))
    fitting = [float(model.log_evidence().detach()) for model in (laplace, ep)]
    assert fitting[1] == pytest.approx(fitting[0], abs=1.0)
    sure = [(model.probability(items) - 0.5).abs().mean() for model in (laplace, ep)]
    assert sure[1] > sure[0]


def test_another_inference_drops_what_was_found(data):
    model = PreferenceGP(*data)
    for name in ("ep", "laplace"):
        model.posterior(data[0])
        model.log_evidence()
        model.inference = name
        new = PreferenceGP(*data, inference=name)
        assert torch.equal(model.posterior(data[0]).mean, new.posterior(data[0]).mean)
        assert torch.equal(model.log_evidence(), new.log_evidence())


def test_what_it_cannot_do_is_said(data):
    items, comparisons = data
    with pytest.raises(ComparisonDataError, match="inference"):
        PreferenceGP(items, comparisons, inference="variational")


def test_choices_beside_duels(data):
    items, comparisons = data
    generator = torch.Generator().manual_seed(4)
    asked = torch.stack([torch.randperm(12, generator=generator)[:4] for _ in range(15)])
    favourite = items[asked].sum(-1).argmax(-1)
    choices = Choices(items, asked, favourite)
    models = [
        PreferenceGP(items, comparisons, choices=choices, inference=name)
        for name in ("laplace", "ep")
    ]
    for model in models:
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
    pairs = torch.rand(200, 2, 2, generator=generator, dtype=torch.double)
    truth = torch.sigmoid(20.0 * (pairs[:, 0].sum(-1) - pairs[:, 1].sum(-1)))
    with torch.no_grad():
        found = [model.win_probability(pairs) for model in models]
    scores = [(truth * p.log() + (1.0 - truth) * torch.log1p(-p)).mean() for p in found]
    assert scores[1] > scores[0]


def test_inducing_items_that_are_all_items_change_nothing(data):
    items, comparisons = data
    values = (items[:3], items[:3].sum(-1, keepdim=True), torch.full((3, 1), 0.5).double())
    models = [
        with_scales(
            PreferenceGP(
                items, comparisons, values=values, inference="ep", link_scale=1.3, **options
            ),
            0.3,
            20.0,
        )
        for options in ({}, {"inducing_points": items})
    ]
    X = torch.rand(6, 2, 2, generator=torch.Generator().manual_seed(5), dtype=torch.double)
    with torch.no_grad():
        exact, inducing = (model.posterior(X) for model in models)
        chances = [model.win_probability(X) for model in models]
    torch.testing.assert_close(inducing.mean, exact.mean, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        inducing.covariance_matrix, exact.covariance_matrix, rtol=1e-4, atol=1e-3
    )
    torch.testing.assert_close(*chances, rtol=1e-4, atol=1e-4)


def test_many_duels_through_inducing_items(data):
    """Rows in blocks: the believed probabilities are nearer to the judge's than Laplace's."""
    generator = torch.Generator().manual_seed(6)
    X = torch.rand(400, 2, 2, generator=generator, dtype=torch.double)
    utility = 15.0 * X.sum(-1)
    chance = torch.sigmoid(utility[:, 0] - utility[:, 1])
    answers = (torch.rand(400, generator=generator) < chance).double()
    errors = {}
    for name in ("laplace", "ep"):
        model = PreferenceGP.from_pairs(X[:200], answers[:200], inference=name, inducing_points=30)
        fit_gpytorch_mll(LaplaceMarginalLogLikelihood(model.likelihood, model))
        with torch.no_grad():
            found = model.win_probability(X[200:])
            paths = draw_matheron_paths(model, torch.Size([2]))(X[200:, 0])
        assert bool(paths.isfinite().all())
        errors[name] = float((found - chance[200:]).abs().mean())
    assert errors["ep"] < errors["laplace"]


def test_paths_have_the_law_of_the_posterior(data):
    items, comparisons = data
    model = with_scales(PreferenceGP(items, comparisons, inference="ep"), 0.4, 20.0)
    torch.manual_seed(3)
    paths = draw_matheron_paths(model, torch.Size([4000]))
    with torch.no_grad():
        posterior, found = model.posterior(items), paths(items)
    deviation = posterior.variance.squeeze(-1).sqrt()
    error = (found.mean(0) - posterior.mean.squeeze(-1)) / deviation
    assert float(error.abs().max()) < 0.08
    torch.testing.assert_close(found.std(0), deviation, rtol=0.06, atol=0.0)
