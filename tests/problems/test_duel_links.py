import math

import pytest
import torch

from botorch_pref.exceptions import SearchSpaceError, UnsupportedError
from botorch_pref.problems import DuelLink

LINKS = [
    DuelLink(kind, scale)
    for kind in ("deterministic", "logistic", "probit", "linear")
    for scale in (0.5, 3.0)
]


@pytest.mark.parametrize("link", LINKS)
def test_the_second_wins_where_the_first_loses(link: DuelLink) -> None:
    differences = torch.linspace(-9.0, 9.0, 101, dtype=torch.double)
    differences[50] = 0.0
    probabilities = link(differences)
    assert torch.allclose(probabilities + link(-differences), torch.ones(101).double(), atol=1e-15)
    assert probabilities[50] == 0.5
    assert (probabilities.diff() >= 0.0).all()
    assert probabilities.aminmax()[0] >= 0.0
    assert probabilities.aminmax()[1] <= 1.0


def test_values() -> None:
    difference = torch.tensor([-0.3, 0.0, 0.7], dtype=torch.double)
    assert DuelLink()(difference).tolist() == [0.0, 0.5, 1.0]
    expected = [1.0 / (1.0 + math.exp(-value / 2.0)) for value in difference.tolist()]
    assert DuelLink("logistic", 2.0)(difference).tolist() == pytest.approx(expected)
    expected = [0.5 * math.erfc(-value / 2.0 / math.sqrt(2.0)) for value in difference.tolist()]
    assert DuelLink("probit", 2.0)(difference).tolist() == pytest.approx(expected)
    assert DuelLink("linear", 2.0)(difference).tolist() == pytest.approx([0.425, 0.5, 0.675])
    assert DuelLink("linear", 0.5)(difference).tolist() == pytest.approx([0.2, 0.5, 1.0])


@pytest.mark.parametrize("width", [0.3, 4.0])
@pytest.mark.parametrize("link", [link for link in LINKS if link.kind != "deterministic"])
def test_constants_bound_the_slopes(link: DuelLink, width: float) -> None:
    l1, l2 = link.constants(width)
    # Every quotient lies within the bounds, and they are reached. Small probabilities have all
    # their digits, and the other half is its mirror image.
    u = torch.linspace(-width, 0.0, 401, dtype=torch.double)
    slopes = link(u).diff() / u.diff()
    assert slopes.max() <= l2 * (1.0 + 1e-9)
    assert slopes.max() == pytest.approx(l2, rel=1e-3)
    least = 0.0 if l1 == math.inf else 1.0 / l1
    assert slopes.min() >= least * (1.0 - 1e-9)
    assert slopes.min() == pytest.approx(least, rel=3e-2, abs=1e-15)
    far = (link(u[::20, None]) - link(u[::20])) / (u[::20, None] - u[::20])
    far = far[~torch.eye(21, dtype=torch.bool)]
    assert far.min() >= least * (1.0 - 1e-9)
    assert far.max() <= l2 * (1.0 + 1e-9)


def test_constants_in_closed_form() -> None:
    l1, l2 = DuelLink("logistic", 2.0).constants(3.0)
    win = 1.0 / (1.0 + math.exp(-1.5))
    assert (1.0 / l1, l2) == pytest.approx((win * (1.0 - win) / 2.0, 0.125), rel=1e-14)
    l1, l2 = DuelLink("probit", 2.0).constants(3.0)
    peak = 1.0 / math.sqrt(2.0 * math.pi) / 2.0
    assert (1.0 / l1, l2) == pytest.approx((peak * math.exp(-1.125), peak), rel=1e-14)
    assert DuelLink("linear").constants(1.0) == (2.0, 0.5)
    assert DuelLink("linear").constants(1.1) == (math.inf, 0.5)
    # 240 scales: sigmoid(240) is 1 in double precision.
    assert DuelLink("logistic").constants(240.0).l1 == pytest.approx(math.exp(240.0), rel=1e-12)
    assert DuelLink("logistic").constants(1000.0).l1 == math.inf
    with pytest.raises(UnsupportedError, match="no slope"):
        DuelLink().constants(1.0)
    with pytest.raises(SearchSpaceError, match="width must be positive"):
        DuelLink("logistic").constants(0.0)


def test_errors() -> None:
    with pytest.raises(UnsupportedError, match="kind must be one of"):
        DuelLink("cauchit")  # type: ignore[arg-type]
    with pytest.raises(SearchSpaceError, match="scale must be positive"):
        DuelLink("logistic", 0.0)
