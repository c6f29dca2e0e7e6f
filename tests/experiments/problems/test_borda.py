import math

import pytest
import torch

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import (
    Catalyst,
    CurrinExp,
    DuelingChoiceJudge,
    DuelLink,
    FidelityProblem,
    ItemError,
    PreferenceProblem,
)
from botorch_pref.problems.grids import product_grid
from experiments.problems import BordaFunction, Borehole, uniform_items

SMOOTH = [DuelLink("logistic"), DuelLink("probit", 3.0), DuelLink("linear", 13.0)]
LINKS = [DuelLink(), *SMOOTH]
GRID = product_grid([(0.0, 1.0)] * 2, 31)


def borda(link: DuelLink, problem: PreferenceProblem | None = None) -> BordaFunction:
    judge = DuelingChoiceJudge(CurrinExp() if problem is None else problem, link=link)
    return BordaFunction(judge, num_opponents=2**10)


@pytest.mark.parametrize(
    ("link", "expected"),
    [
        (DuelLink("logistic"), [0.5189, 0.1299, 0.9676]),
        (DuelLink(), [0.5463, 0.0429, 0.9985]),
    ],
)
def test_known_values(link: DuelLink, expected: list[float]) -> None:
    items = torch.tensor([[0.5, 0.5], [1.0, 1.0], [0.216667, 0.0]], dtype=torch.double)
    function = BordaFunction(DuelingChoiceJudge(CurrinExp(), link=link))
    assert function(items).tolist() == pytest.approx(expected, abs=2e-3)
    assert (function(items) <= function.best).all()


@pytest.mark.parametrize("link", LINKS)
def test_it_is_the_mean_of_duels(link: DuelLink) -> None:
    problem = CurrinExp()
    judge = DuelingChoiceJudge(problem, 11, link)
    item = torch.tensor([0.55, 0.4], dtype=torch.double)
    number = 1000
    opponents = torch.rand(
        number, 2, dtype=torch.double, generator=torch.Generator().manual_seed(1)
    )
    wins = sum(judge(torch.stack([item, x]), t) for t, x in enumerate(opponents)) / number
    expected = float(borda(link)(item))
    assert 0.2 < expected < 0.8
    assert abs(wins - expected) < 4.0 * 0.5 / math.sqrt(number)


@pytest.mark.parametrize("link", LINKS)
def test_its_mean_over_the_opponents_is_one_half(link: DuelLink) -> None:
    doubled = torch.cat([GRID, GRID[:100]])  # ties, which count one half
    function = BordaFunction(DuelingChoiceJudge(CurrinExp(), link=link), doubled)
    assert float(function(doubled).mean()) == pytest.approx(0.5, abs=1e-12)
    values = function.judge.comparison(doubled)
    some = [0, 40, 700, 1000]
    expected = link(values[some, None] - values).mean(dim=-1)
    assert torch.allclose(function(doubled[some]), expected, atol=1e-14)
    assert function(doubled[some].view(2, 2, 2)).shape == (2, 2)


def test_a_table_is_its_own_opponents() -> None:
    catalyst = Catalyst()
    function = borda(DuelLink("logistic", 0.5), catalyst)
    assert function.opponents is catalyst.choices is uniform_items(catalyst)
    scores = function.scores(catalyst.utilities)
    assert float(scores.mean()) == pytest.approx(0.5, abs=1e-12)
    assert float(scores.max()) == pytest.approx(function.best, rel=1e-14)


@pytest.mark.parametrize("link", SMOOTH)
@pytest.mark.parametrize("problem", [CurrinExp(), Borehole(unit_range=True)])
def test_gaps_lie_between_the_constants(problem: FidelityProblem, link: DuelLink) -> None:
    items = uniform_items(problem, 2**10, seed=1)
    function = borda(link, problem)
    scores, values = function(items), function.judge.comparison(items)
    assert int(scores.argmax()) == int(values.argmax())
    gaps = problem.low_optimal_value - values
    assert function.best == pytest.approx(float(function(problem_best(problem))), rel=1e-12)
    lost = function.best - scores
    analytic, empirical = function.analytic_constants(), function.empirical_constants(items)
    for constants in (analytic, empirical):
        assert (lost <= constants.l2 * gaps + 1e-12).all()
        assert (gaps / constants.l1 <= lost + 1e-12).all()
    assert empirical.l1 <= analytic.l1 * (1.0 + 1e-12)
    assert empirical.l2 <= analytic.l2 * (1.0 + 1e-12)
    # Reached by some item.
    assert float((lost / gaps).max()) == pytest.approx(empirical.l2, rel=1e-12)
    assert float((gaps / lost).max()) == pytest.approx(empirical.l1, rel=1e-12)


def problem_best(problem: FidelityProblem) -> torch.Tensor:
    """Where the low fidelity is largest."""
    if isinstance(problem, CurrinExp):
        return torch.tensor([[0.23575291994755336, 0.0]], dtype=torch.double)
    return torch.as_tensor(problem.optimizers)


@pytest.mark.parametrize("link", LINKS)
def test_the_best_item_is_that_of_the_comparisons(link: DuelLink) -> None:
    function = BordaFunction(DuelingChoiceJudge(CurrinExp(), link=link), GRID)
    assert int(function(GRID).argmax()) == int(CurrinExp().low_fidelity(GRID).argmax())


@pytest.mark.parametrize(
    ("problem", "link", "expected"),
    [
        (CurrinExp(), DuelLink(), 0.100),
        (CurrinExp(), DuelLink("logistic"), 0.088),
        (Borehole(), DuelLink(), 0.0042),
        (Borehole(), DuelLink("logistic"), 0.0042),
    ],
)
def test_empirical_constants(problem: PreferenceProblem, link: DuelLink, expected: float) -> None:
    constants = borda(link, problem).empirical_constants()
    assert constants.l2 == pytest.approx(expected, rel=0.02)
    assert constants.l1 > 1.0 / constants.l2


def test_many_items_at_once() -> None:
    judge = DuelingChoiceJudge(CurrinExp(), link=DuelLink("logistic"))
    function = BordaFunction(judge, num_opponents=2**12)
    items = uniform_items(CurrinExp(), 2**11, seed=4)  # two chunks
    parts = torch.cat([function(part) for part in items.split(300)])
    assert torch.allclose(function(items), parts, atol=1e-14)
    single = function(items.float())
    assert single.dtype == torch.float32
    assert torch.allclose(single.double(), parts, atol=1e-4)


def test_errors() -> None:
    judge = DuelingChoiceJudge(CurrinExp())
    with pytest.raises(UnsupportedError, match="number must be at least 1"):
        uniform_items(CurrinExp(), 0)
    with pytest.raises(UnsupportedError, match="opponents must be a non-empty"):
        BordaFunction(judge, GRID[:0])
    with pytest.raises(ItemError, match="bounds"):
        BordaFunction(judge, 2.0 + GRID)
    function = BordaFunction(judge, GRID)
    with pytest.raises(UnsupportedError, match="no slope"):
        function.analytic_constants()
    with pytest.raises(UnsupportedError, match="worse than the best"):
        function.empirical_constants(problem_best(CurrinExp()))
