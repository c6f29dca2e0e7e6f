"""Input transforms: learnt from data, by whatever way these come, and from nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from botorch.models.transforms.input import (
    AppendFeatures,
    FilterFeatures,
    InputPerturbation,
    InputTransform,
    Normalize,
)
from torch import Tensor

from botorch_pref.acquisition import DuelingThompsonSampling, MaxMinLCB
from botorch_pref.exceptions import UnsupportedError
from botorch_pref.models import BernoulliGP, LikelihoodRatioModel, PreferenceGP
from botorch_pref.models.pathwise import draw_posterior_paths
from tests.models.common import rand

PAIRS = torch.tensor([[0, 1], [2, 1], [3, 0], [2, 4]])


def wide(*shape: int, seed: int = 0) -> Tensor:
    """Items far from the unit cube."""
    return 30.0 * rand(*shape, seed=seed)


def bounds(model: PreferenceGP | LikelihoodRatioModel) -> Tensor:
    transform = model.input_transform
    assert isinstance(transform, Normalize)
    return transform.bounds.clone()


def test_a_prior_learns_from_the_first_data() -> None:
    pairs, answers = wide(6, 2, 2), torch.tensor([1.0, 0.0, 0.5, 1.0, 1.0, 0.0]).double()
    transform = {"input_transform": Normalize(d=2)}
    prior = PreferenceGP(None, None, input_transform=Normalize(d=2))
    whole = PreferenceGP.from_pairs(pairs, answers, **transform)
    first = prior.condition_on_pairs(pairs, answers)
    torch.testing.assert_close(bounds(first), bounds(whole))
    torch.testing.assert_close(first.log_evidence(), whole.log_evidence())
    # Later data do not move them: what was learnt before would mean something else.
    later = first.condition_on_pairs(2.0 * pairs, answers)
    torch.testing.assert_close(bounds(later), bounds(whole))


QUERIES: dict[str, Callable[[PreferenceGP, Tensor], object]] = {
    "posterior": lambda model, X: model.posterior(X),
    "chance": lambda model, X: model.win_probability(X[:2]),
    "draws": lambda model, X: DuelingThompsonSampling(model, seed=0)(X[:2]),
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
@torch.no_grad()
def test_no_query_teaches_a_transform(query: Callable[[PreferenceGP, Tensor], object]) -> None:
    models = [PreferenceGP(wide(5, 2), PAIRS, input_transform=Normalize(d=2)) for _ in range(2)]
    path, X = draw_posterior_paths(models[1], torch.Size([])), wide(4, 2, seed=1) / 7
    models[1].train()  # as a loop of one's own over an optimizer leaves it
    before, values = bounds(models[1]), path(X)
    for model in models:
        query(model, X)
    assert torch.equal(bounds(models[1]), before)
    torch.testing.assert_close(path(X), values)
    draws = [DuelingThompsonSampling(model, seed=0)(wide(2, 2, seed=2)) for model in models]
    torch.testing.assert_close(*draws)


def test_the_default_kernel_has_a_lengthscale_for_each_column_that_it_sees() -> None:
    kept = [0, 2]

    def transform() -> InputTransform:
        return FilterFeatures(feature_indices=torch.tensor(kept))

    items, few = rand(5, 3), rand(5, 3)[:, kept]
    model, plain = PreferenceGP(items, PAIRS, input_transform=transform()), PreferenceGP(few, PAIRS)
    assert model.covar_module.base_kernel.lengthscale.shape == (1, len(kept))
    torch.testing.assert_close(model.log_evidence(), plain.log_evidence())
    torch.testing.assert_close(model.posterior(items).mean, plain.posterior(few).mean)
    labels = torch.tensor([1.0, 0.0, 1.0, 1.0, 0.0]).double().unsqueeze(-1)
    labelled = BernoulliGP(items, labels, input_transform=transform())
    torch.testing.assert_close(labelled.log_evidence(), BernoulliGP(few, labels).log_evidence())


def test_transforms_that_make_several_rows_of_one_are_for_posteriors_alone() -> None:
    several = InputPerturbation(perturbation_set=0.05 * rand(5, 2))
    model = PreferenceGP(rand(5, 2), PAIRS, input_transform=several)
    assert model.posterior(rand(4, 2, 2)).mean.shape == (4, 10, 1)
    for refused in (
        lambda: model.win_probability(rand(4, 2, 2)),
        lambda: DuelingThompsonSampling(model, seed=0),
        lambda: MaxMinLCB(model, 1.0, rand(6, 2))(rand(3, 1, 2)),
    ):
        with pytest.raises(UnsupportedError, match="InputPerturbation makes 5 rows of one"):
            refused()


def test_a_transform_that_completes_points() -> None:
    """It appends what the data have, as in BoTorch's models of many contexts."""
    X, last = rand(5, 3), torch.tensor([[0.2], [0.7]], dtype=torch.float64)
    model = PreferenceGP(X, PAIRS, input_transform=AppendFeatures(last))
    points = rand(4, 2, seed=3)
    whole = torch.cat([points.repeat_interleave(2, dim=0), last.repeat(4, 1)], dim=-1)
    found, expected = model.posterior(points).mean, PreferenceGP(X, PAIRS).posterior(whole).mean
    torch.testing.assert_close(found, expected)
