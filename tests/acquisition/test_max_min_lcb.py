"""The leader's game: exhaustive search, the follower, the envelope gradient, links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from botorch.models.transforms.input import Normalize
from numpy.typing import NDArray
from scipy import special
from torch import Tensor

from botorch_pref.acquisition import MaxMinLCB
from botorch_pref.likelihoods import BernoulliLikelihood, LogitLikelihood, ProbitLikelihood
from botorch_pref.models import PreferenceGP
from tests.acquisition.common import make_batched_model, make_botorch_model, make_model, tables
from tests.contracts.acquisition import OPTIONS, ItemAcquisitionContract
from tests.models.common import make_kernel, numerical_gradient, rand
from tests.models.mixed import make_mixed, oracle

BOX = torch.tensor([[-1.0, 0.0], [2.0, 3.0]]).double()
Link = Callable[[NDArray[np.float64]], NDArray[np.float64]]


class TestContract(ItemAcquisitionContract):
    # The maximum may be at a kink, where L-BFGS-B cannot end but by a failed line search.
    options: ClassVar[dict[str, Any]] = {**OPTIONS, "retry_on_optimization_warning": False}

    def make(self) -> MaxMinLCB:
        return MaxMinLCB(make_model(variance=4.0), 0.4, rand(15, 2, seed=11))


def bounds_table(
    model: PreferenceGP, items: Tensor, beta: float, link: Link = special.expit
) -> Tensor:
    """``mu(h) - beta sd`` at all ordered pairs, from the brute-force posterior."""
    mean, deviation = tables(*oracle(model, items)[:2])
    return torch.from_numpy(link(mean.numpy())) - beta * deviation


@torch.no_grad()
@pytest.mark.parametrize("variance", ["laplace", 4.0])
@pytest.mark.parametrize("beta", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("diagonal", ["keep", "exclude"])
def test_finite_game_is_that_of_exhaustive_search(
    variance: str | float, beta: float, diagonal: str
) -> None:
    model, items = make_model(variance=variance), rand(30, 2, seed=4)
    table = bounds_table(model, items, beta)
    table.fill_diagonal_(0.5 if diagonal == "keep" else torch.inf)
    rule = MaxMinLCB(model, beta, items, diagonal=diagonal)  # type: ignore[arg-type]
    values, index = rule(items.unsqueeze(-2)), table.argmin(1)
    torch.testing.assert_close(values, table.amin(1), atol=1e-6, rtol=0.0)
    assert torch.equal(rule.follower(items), items[index])
    assert int(values.argmax()) == int(table.amin(1).argmax())
    on_diagonal = index == torch.arange(30)
    assert bool(on_diagonal.any()) is (diagonal == "keep" and beta == 0.0)


@torch.no_grad()
def test_diagonal() -> None:
    model, items = make_model(), rand(30, 2, seed=4)
    best = model.posterior(items).mean.argmax()
    # Without a bonus the best item does no better than against itself: exactly 1/2.
    assert MaxMinLCB(model, 0.0, items)(items[best].view(1, 1, 2)).tolist() == [0.5]
    exclude = MaxMinLCB(model, 0.0, items, diagonal="exclude")
    assert float(exclude(items[best].view(1, 1, 2))) > 0.5
    # A copy of the leader in another row is the leader as well.
    twice = MaxMinLCB(model, 0.0, torch.cat([items, items]), diagonal="exclude")
    assert torch.equal(twice(items.unsqueeze(-2)), exclude(items.unsqueeze(-2)))
    # A leader without another follower plays against itself, whatever the bonus.
    for diagonal in ("keep", "exclude"):
        alone = MaxMinLCB(model, 3.0, items[:1], diagonal=diagonal)  # type: ignore[arg-type]
        assert alone(items[:1].unsqueeze(0)).tolist() == [0.5]
    # A follower next to the leader is worth as much, so nothing jumps there.
    near = MaxMinLCB(model, 1.0, items[:1])((items[:1] + 1e-9).unsqueeze(0))
    assert float(near) == pytest.approx(0.5, abs=2e-5)


def test_gradient_of_the_envelope() -> None:
    """Follower fixed, against finite differences of the exhaustive minimum itself."""
    model, followers, beta = make_model(variance=4.0), rand(25, 2, seed=11), 0.3
    rule = MaxMinLCB(model, beta, followers)
    at = rand(12, 2, seed=3).requires_grad_()
    (gradient,) = torch.autograd.grad(rule(at.unsqueeze(-2)).sum(), at)

    def exhaustive(X: Tensor) -> Tensor:
        joint = model.posterior(torch.cat([X, followers]))
        mean, deviation = tables(joint.mean.squeeze(-1), joint.covariance_matrix)
        return (torch.sigmoid(mean) - beta * deviation)[:12, 12:]

    with torch.no_grad():
        best = exhaustive(at).sort(dim=-1).values
        clear = best[:, 1] - best[:, 0] > 1e-3  # it does not switch within a step
    assert clear.sum() >= 8
    numerical = numerical_gradient(lambda X: exhaustive(X).amin(1).sum(), at)
    torch.testing.assert_close(gradient[clear], numerical[clear], atol=1e-6, rtol=1e-6)
    assert not rule.follower(at).requires_grad
    at = followers.unsqueeze(-2).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(rule(at).sum(), at)
    assert gradient.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize(
    ("likelihood", "link"),
    [
        (ProbitLikelihood(scale=0.5), lambda h: special.ndtr(0.5 * h)),
        (LogitLikelihood(scale=3.0), lambda h: special.expit(3.0 * h)),
    ],
)
def test_links(likelihood: BernoulliLikelihood, link: Link) -> None:
    model, items = make_model(), rand(12, 2, seed=4)
    table = bounds_table(model, items, 0.2, link).fill_diagonal_(0.5)
    rule = MaxMinLCB(model, 0.2, items)
    rule.link = likelihood
    torch.testing.assert_close(rule(items.unsqueeze(-2)), table.amin(1), atol=1e-6, rtol=0.0)


@torch.no_grad()
def test_batched_model() -> None:
    model, alone = make_batched_model()
    leaders, followers = rand(5, 1, 1, 2), rand(9, 2, seed=11)
    rule = MaxMinLCB(model, 0.2, followers)
    values = rule(leaders.expand(5, 3, 1, 2))
    rules = [MaxMinLCB(one, 0.2, followers) for one in alone]
    expected = torch.stack([one(leaders[:, 0]) for one in rules], dim=-1)
    torch.testing.assert_close(values, expected, atol=1e-6, rtol=0.0)
    torch.testing.assert_close(rule(leaders), values)
    found = torch.stack([one.follower(leaders[:, 0, 0]) for one in rules], dim=-2)
    assert torch.equal(rule.follower(leaders[:, 0]), found)
    assert len(found.flatten(0, 1).unique(dim=0)) > 1


@torch.no_grad()
@pytest.mark.parametrize(
    "model",
    [
        make_model(),
        make_botorch_model(),
        make_model(inducing_points=5),
        make_model(input_transform=Normalize(2, bounds=BOX)),
        make_mixed(),
        PreferenceGP(None, None, covar_module=make_kernel(2)),
    ],
    ids=["answers", "botorch", "inducing", "transformed", "values", "no data"],
)
def test_bounds_are_those_of_the_joint_posterior(model: Any) -> None:
    leaders, followers = rand(5, 2, seed=3), rand(9, 2, seed=11)
    rule = MaxMinLCB(model, 0.3, followers)
    rule.link = LogitLikelihood()
    joint = model.posterior(torch.cat([leaders, followers]))
    mean, deviation = tables(joint.mean.squeeze(-1), joint.covariance_matrix)
    expected = (torch.sigmoid(mean) - 0.3 * deviation)[:5, 5:].amin(-1)
    torch.testing.assert_close(rule(leaders.unsqueeze(-2)), expected, atol=1e-6, rtol=0)
