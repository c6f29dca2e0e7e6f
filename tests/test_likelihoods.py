"""The links against mpmath, and the identities that every link must satisfy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from botorch.exceptions.errors import BotorchError
from hypothesis import given, settings
from hypothesis import strategies as st

from botorch_pref.exceptions import InputDataError
from botorch_pref.likelihoods import LogitLikelihood, ProbitLikelihood
from tests._reference import links

LINKS = {"logit": LogitLikelihood, "probit": ProbitLikelihood}
SCALES = (0.5, 1.0, 2**-0.5, 3.0)
# relative accuracy of log mu and of its first, second and third derivative
TOLERANCES = (1e-8, 1e-8, 1e-8, 1e-6)
NEGLIGIBLE = 1e-300
QUICK = settings(max_examples=50, deadline=None, database=None, derandomize=True)

every_link = pytest.mark.parametrize("link", sorted(LINKS))
every_scale = pytest.mark.parametrize("scale", SCALES)


def _differences() -> list[float]:
    """Return 0 and magnitudes up to 1e3, fine where the formulas change over."""
    magnitudes = np.concatenate(
        [
            [1e-12, 1e-9, 1e-6, 1e-3],
            np.linspace(0.05, 45.0, 90),
            np.geomspace(46.0, 1e3, 25),
        ]
    )
    return [*(-magnitudes).tolist(), 0.0, *magnitudes.tolist()]


def _tensor(values: list[float]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def _check(name: str, got: torch.Tensor, exact: list[links.mpf], rtol: float) -> None:
    """Compare elementwise; where the truth is negligible ask for finiteness only."""
    assert torch.isfinite(got).all(), name
    for value, truth, h in zip(got.tolist(), exact, _differences(), strict=True):
        if abs(truth) < NEGLIGIBLE:
            assert abs(value) <= 2 * NEGLIGIBLE, (name, h, value)
        else:
            error = float(abs((links.mpf(value) - truth) / truth))
            assert error <= rtol, (name, h, value, float(truth), error)


@every_scale
@every_link
def test_log_cdf_and_derivatives_agree_with_mpmath(link: str, scale: float) -> None:
    likelihood = LINKS[link](scale=scale)
    h = _tensor(_differences())
    exact = [links.log_cdf_derivatives(v, link, scale) for v in _differences()]
    got = (likelihood.log_cdf(h), *likelihood.log_cdf_derivatives(h))
    names = ("log_cdf", "first", "second", "third")
    for i, (name, rtol) in enumerate(zip(names, TOLERANCES, strict=True)):
        _check(name, got[i], [row[i] for row in exact], rtol)
    _check("mu", likelihood(h), [links.probability(v, link, scale) for v in _differences()], 1e-8)


@pytest.mark.parametrize("answer", [0.0, 0.25, 0.5, 1.0])
@every_link
def test_log_prob_and_its_derivatives_agree_with_mpmath(link: str, answer: float) -> None:
    likelihood = LINKS[link](scale=0.7)
    values = [-900.0, -30.0, -12.5, -2.0, -0.3, 0.0, 1e-4, 0.9, 6.0, 35.0, 800.0]
    h, y = _tensor(values), torch.full((len(values),), answer, dtype=torch.float64)
    weight = torch.linspace(0.0, 5.0, len(values), dtype=torch.float64)
    score, curvature, third = likelihood.derivatives(h, y, weight)
    got = (likelihood.log_prob(h, y, weight), score, -curvature, third)
    for i, v in enumerate(values):
        exact = links.log_prob_derivatives(v, answer, weight[i].item(), link, 0.7)
        for j in range(4):
            # the sum of a win and a loss may cancel: measured by the larger summand
            win, loss = (links.log_cdf_derivatives(x, link, 0.7)[j] for x in (v, -v))
            size = float(max(abs(win), abs(loss)))
            bound = TOLERANCES[j] * max(abs(float(exact[j])), 1e-6 * size) + NEGLIGIBLE
            assert abs(got[j][i].item() - float(exact[j])) <= bound, (v, j)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@every_scale
@every_link
def test_everything_is_finite_up_to_a_million(link: str, scale: float, dtype: torch.dtype) -> None:
    likelihood = LINKS[link](scale=scale)
    assert not likelihood.state_dict()  # the scale is a constant
    size = torch.logspace(-12 if dtype == torch.float64 else -6, 6, 400, dtype=dtype)
    h = torch.cat([-size, size.new_zeros(1), size]).requires_grad_()
    for answer in (0.0, 0.25, 0.5, 1.0):
        y = torch.full_like(h, answer).detach()
        value = likelihood.log_prob(h, y)
        parts = [value, *likelihood.derivatives(h.detach(), y)]
        if dtype == torch.float64:
            parts += torch.autograd.grad(value.sum(), h)
        parts += [likelihood.log_cdf(h), *likelihood.log_cdf_derivatives(h)]
        assert all(torch.isfinite(part).all() and part.dtype == dtype for part in parts)
        none = torch.zeros_like(y)
        parts = [likelihood.log_prob(h, y, none), *likelihood.derivatives(h, y, none)]
        assert all((part == 0).all() for part in parts)
    variances = (torch.full_like(h, variance) for variance in (1e-8, 1.0, 1e4))
    for found in (likelihood(h), *(likelihood.expected_probability(h, v) for v in variances)):
        assert ((found >= 0) & (found <= 1)).all()
        assert found.dtype == dtype


@every_link
def test_swapping_the_items_swaps_the_answer(link: str) -> None:
    likelihood = LINKS[link](scale=3.0)
    h = _tensor(_differences())
    for answer in (0.0, 0.25, 0.5, 1.0):  # 1 - answer is exact
        y = torch.full_like(h, answer)
        ours, theirs = (
            (likelihood.log_prob(at, answers, 3.0), *likelihood.derivatives(at, answers, 3.0))
            for at, answers in ((h, y), (-h, 1 - y))
        )
        for sign, a, b in zip((1, -1, 1, -1), ours, theirs, strict=True):
            torch.testing.assert_close(a, sign * b, rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(
        likelihood(h) + likelihood(-h), torch.ones_like(h), rtol=0, atol=1e-15
    )


@QUICK
@given(
    h=st.floats(-1e6, 1e6),
    answer=st.floats(0, 1),
    link=st.sampled_from(sorted(LINKS)),
    scale=st.floats(1e-3, 1e3),
)
def test_log_prob_is_negative_and_concave(h: float, answer: float, link: str, scale: float) -> None:
    likelihood = LINKS[link](scale=scale)
    y = _tensor([answer])
    assert likelihood.log_prob(_tensor([h]), y).item() <= 0
    assert likelihood.derivatives(_tensor([h]), y)[1].item() >= 0


# cases: (mean, variance); every scale of the deviation against the link's own
CASES = [
    *[(m, v) for m in (0.0, 0.3, -2.0, 9.0) for v in (1e-8, 1e-3, 0.1, 0.25, 1.0, 10.0)],
    *[(m, v) for m in (0.0, -5.0, 60.0, -150.0) for v in (30.0, 1e2, 1e3, 1e4)],
    (-40.0, 1e-8),
    (25.0, 1.0),
    (0.5, 0.2499999),
    (0.5, 1.0 / 36.0),
]


@every_scale
@every_link
def test_expected_probability_agrees_with_quadrature(link: str, scale: float) -> None:
    likelihood = LINKS[link](scale=scale)
    mean, variance = (_tensor([case[i] for case in CASES]) for i in (0, 1))
    got = likelihood.expected_probability(mean, variance).tolist()
    for value, case in zip(got, CASES, strict=True):
        exact = links.expected_probability(*case, link, scale)
        assert abs(value - exact) <= 1e-8, (case, value, exact)


@every_link
def test_gradients(link: str) -> None:
    likelihood = LINKS[link](scale=2**-0.5)
    h = _tensor([-30.0, -13.0, -2.0, -0.1, 0.0, 0.7, 4.0]).requires_grad_()
    y = _tensor([0.0, 1.0, 0.5, 1.0, 0.25, 0.0, 1.0])
    assert torch.autograd.gradcheck(lambda x: likelihood.log_prob(x, y, 3.0), h)
    mean = _tensor([-3.0, -0.2, 0.0, 1.0, 8.0]).requires_grad_()
    for variance in (0.1, 1.0, 40.0):
        spread = torch.full((5,), variance, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(likelihood.expected_probability, (mean, spread))
    at_zero = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    likelihood.expected_probability(mean, at_zero).sum().backward()
    assert torch.isfinite(at_zero.grad).all()
    assert torch.isfinite(mean.grad).all()


@pytest.mark.parametrize("scale", [0.0, -1.0, math.nan, math.inf, -math.inf])
@every_link
def test_an_invalid_scale_is_refused(link: str, scale: float) -> None:
    with pytest.raises(InputDataError, match="scale") as caught:
        LINKS[link](scale=scale)
    assert isinstance(caught.value, BotorchError)
