import itertools
import math

import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import CurrinExp, ItemError
from botorch_pref.problems.base import product_grid


def rows(*items: list[float]) -> Tensor:
    return torch.tensor(items, dtype=torch.double)


def currin(x: float, y: float) -> float:
    factor = 1.0 if y <= 0.0 else 1.0 - math.exp(-1.0 / (2.0 * y))
    above = 2300 * x**3 + 1900 * x**2 + 2092 * x + 60
    return factor * above / (100 * x**3 + 500 * x**2 + 4 * x + 20)


def currin_low(x: float, y: float) -> float:
    corners = itertools.product((x + 0.05, x - 0.05), (y + 0.05, max(0.0, y - 0.05)))
    return sum(currin(*corner) for corner in corners) / 4.0


def test_tables() -> None:
    problem, items = CurrinExp(), rows([0.5, 0.5], [0.2, 0.1], [0.0, 1.0], [0.235753, 0.0])
    high = [7.4051239133, 13.6764544221, 1.1804080209]
    assert problem(items).tolist()[:3] == pytest.approx(high, rel=1e-10)
    assert float(problem(items)[3]) == pytest.approx(13.7987220447 - 0.03191, abs=1e-5)
    low = [7.4424795839, 13.2053688166, 1.1813278366, 13.5826470106]
    assert problem.low_fidelity(items).tolist() == pytest.approx(low, rel=1e-8)


def test_formulas() -> None:
    items = torch.rand(50, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    items[::5, 1] = 0.0
    items[1::5, 1] *= 0.05
    items[2::5, 0] *= 0.05
    function = CurrinExp()
    assert function(items).tolist() == pytest.approx(
        [currin(*item) for item in items.tolist()], rel=1e-13
    )
    assert function.low_fidelity(items).tolist() == pytest.approx(
        [currin_low(*item) for item in items.tolist()], rel=1e-13
    )


def test_facts_of_the_box() -> None:
    problem, high, low = CurrinExp(), (1.1804080209, 13.7987220447), (1.1813278366, 13.5826470106)
    facts = problem.facts()
    assert facts.utility_range == pytest.approx(high, rel=1e-9)
    assert facts.low_range == pytest.approx(low, rel=1e-7)
    assert facts.low_range[1] == pytest.approx(low[1], rel=1e-10)
    assert problem.optimal_value == facts.utility_range[1]
    assert problem.low_problem().optimal_value == facts.low_range[1]
    assert problem(problem.optimizers).tolist() == [problem.optimal_value]
    assert problem.zeta("paper") == pytest.approx(0.252086, abs=2e-6)
    assert problem.zeta() == problem.zeta("tight") == pytest.approx(0.0360, abs=5e-5)


def test_no_item_is_beyond_the_facts() -> None:
    problem = CurrinExp()
    facts, items = problem.facts(), product_grid([(0.0, 1.0)] * 2, 401)
    high, low = problem(items), problem.low_fidelity(items)
    for values, (least, most) in ((high, facts.utility_range), (low, facts.low_range)):
        assert values.min() == pytest.approx(least, rel=1e-12)
        assert least <= values.min()
        assert values.max() <= most
        assert values.max() == pytest.approx(most, rel=1e-4)


def test_unit_range() -> None:
    raw, unit = CurrinExp(), CurrinExp(unit_range=True)
    width = raw.facts().utility_range[1] - raw.facts().utility_range[0]
    items = torch.rand(3, 4, raw.dim, dtype=torch.double)
    assert torch.allclose(unit(items), raw(items) / width, rtol=1e-14)
    assert torch.allclose(unit.low_fidelity(items), raw.low_fidelity(items) / width, rtol=1e-14)
    least, most = unit.facts().utility_range
    assert most - least == pytest.approx(1.0, abs=1e-14)
    assert unit.optimal_value == pytest.approx(raw.optimal_value / width, rel=1e-14)
    assert unit.low_problem().optimal_value == pytest.approx(
        raw.low_problem().optimal_value / width, rel=1e-14
    )
    for convention in ("paper", "tight"):
        expected = raw.zeta(convention) / width
        assert unit.zeta(convention) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_facts_of_choices_are_theirs() -> None:
    choices = torch.rand(12, 2, dtype=torch.double, generator=torch.Generator().manual_seed(3))
    problem = CurrinExp(choices=choices)
    high = [currin(*item) for item in choices.tolist()]
    low = [currin_low(*item) for item in choices.tolist()]
    best = max(range(12), key=lambda index: high[index])
    assert problem.optimal_value == pytest.approx(high[best], rel=1e-12)
    assert problem.low_problem().optimal_value == pytest.approx(max(low), rel=1e-12)
    assert torch.equal(problem.low_problem().utilities, problem.low_fidelity(choices))
    assert problem.facts().utility_range == pytest.approx((min(high), max(high)), rel=1e-12)
    assert problem.facts().low_range == pytest.approx((min(low), max(low)), rel=1e-12)
    assert problem.zeta("paper") == pytest.approx(high[best] - low[best], rel=1e-10)
    assert problem.zeta("tight") == pytest.approx(max(low) - low[best], rel=1e-10, abs=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.double])
def test_gradients_of_currin_at_the_edge(dtype: torch.dtype) -> None:
    problem = CurrinExp()
    edge = [[0.2, 0.0], [0.2, 1e-30], [0.3, 1e-3], [0.3, 0.01], [0.0, 0.05], [1.0, 1.0]]
    items = torch.tensor(edge, dtype=dtype, requires_grad=True)
    for values in (problem(items), problem.low_fidelity(items)):
        assert values.dtype == dtype
        (gradient,) = torch.autograd.grad(values.sum(), items)
        assert gradient.isfinite().all()
        assert (gradient[0] != 0.0).any()
    assert torch.equal(
        torch.autograd.grad(problem(items).sum(), items)[0][:2, 1], items.new_zeros(2)
    )


def test_gradients_inside() -> None:
    problem = CurrinExp(unit_range=True)
    items = 0.1 + 0.8 * torch.rand(4, problem.dim, dtype=torch.double)
    for function in (problem, problem.low_fidelity):
        assert torch.autograd.gradcheck(function, items.requires_grad_(), atol=1e-6)


def test_errors() -> None:
    problem = CurrinExp()
    with pytest.raises(ItemError, match=r"Row \[1\]"):
        problem.low_fidelity(rows([0.5, 0.5], [0.5, 1.5]))
    with pytest.raises(UnsupportedError, match="convention must be"):
        problem.zeta("sup")  # type: ignore[arg-type]
