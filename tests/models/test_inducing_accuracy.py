"""What a fraction of the items as inducing items costs in predictions of unseen duels."""

from __future__ import annotations

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.test_functions import Hartmann
from torch import Tensor

from botorch_pref.models import LaplaceMarginalLogLikelihood, PreferenceGP

_UNIT = 3.0  # logits for one unit of the function


def answered(num: int, seed: int) -> tuple[Tensor, Tensor]:
    """Pairs of uniform items and the answers of a logistic judge."""
    generator = torch.Generator().manual_seed(seed)
    pairs = torch.rand(num, 2, 6, generator=generator, dtype=torch.float64)
    values = Hartmann(negate=True)(pairs)
    chance = torch.sigmoid(_UNIT * (values[:, 0] - values[:, 1]))
    return pairs, (torch.rand(num, generator=generator, dtype=torch.float64) < chance).to(pairs)


@torch.no_grad()
def mean_log_probability(model: PreferenceGP, pairs: Tensor, answers: Tensor) -> float:
    chance = torch.cat([model.win_probability(part) for part in pairs.split(500)])
    return float((answers * chance.log() + (1 - answers) * (1 - chance).log()).mean())


@pytest.mark.slow
def test_hartmann_6() -> None:
    data, held_out = answered(2000, 1), answered(5000, 2)
    exact = PreferenceGP.from_pairs(*data)
    mll = LaplaceMarginalLogLikelihood(exact.likelihood, exact)
    fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": 20}})
    expected = mean_log_probability(exact, *held_out)
    for number, tolerance in ((128, 0.02), (512, 0.005)):
        model = PreferenceGP.from_pairs(*data, inducing_points=number)
        model.load_state_dict(exact.state_dict())
        assert model.inducing_points is not None
        assert len(model.inducing_points) == number
        assert abs(mean_log_probability(model, *held_out) - expected) < tolerance
