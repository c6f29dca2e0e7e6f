import pickle

import pytest
import torch
from torch import Tensor

from botorch_pref.exceptions import UnsupportedError
from botorch_pref.problems import (
    Catalyst,
    CurrinExp,
    DuelingChoiceJudge,
    DuelLink,
    ItemError,
)
from botorch_pref.queries import Choice, Duel, Evaluate

LINKS = [DuelLink(), DuelLink("logistic"), DuelLink("probit", 2.0), DuelLink("linear", 13.0)]


class Changed(CurrinExp):
    """CurrinExp with a changed low fidelity."""

    shift: float = 0.0
    power: float = 1.0

    def _low_fidelity(self, items: Tensor) -> Tensor:
        return super()._low_fidelity(items).pow(self.power) + self.shift


def duels(number: int) -> list[Duel]:
    items = torch.rand(number, 2, 2, dtype=torch.double, generator=torch.Generator().manual_seed(5))
    return [Duel(index, pair) for index, pair in enumerate(items)]


def answers(judge: DuelingChoiceJudge, number: int = 150) -> list[float]:
    return [judge(duel, t) for t, duel in enumerate(duels(number))]


@pytest.mark.parametrize("link", LINKS)
def test_a_constant_changes_no_duel(link: DuelLink) -> None:
    shifted = Changed()
    shifted.shift = 1000.0
    expected = answers(DuelingChoiceJudge(CurrinExp(), 2, link))
    assert {*expected} == {0.0, 1.0}
    assert answers(DuelingChoiceJudge(shifted, 2, link)) == expected
    if link.kind != "deterministic":
        assert answers(DuelingChoiceJudge(CurrinExp(), 3, link)) != expected


def test_deterministic_duels_are_of_ranks_only() -> None:
    powered = Changed()
    powered.power = 3.0
    expected = answers(DuelingChoiceJudge(CurrinExp(), 2))
    assert answers(DuelingChoiceJudge(powered, 7)) == expected
    low = CurrinExp().low_fidelity(torch.stack([duel.items for duel in duels(150)]))
    assert expected == (low[:, 0] > low[:, 1]).double().tolist()


def test_duels_are_of_the_low_fidelity_and_values_of_the_high() -> None:
    problem = CurrinExp()
    # The best items of the two fidelities: each prefers its own.
    pair = torch.tensor([[13.0 / 60.0, 0.0], [0.235753, 0.0]], dtype=torch.double)
    assert DuelingChoiceJudge(problem)(Duel(0, pair), 0) == 0.0
    assert DuelingChoiceJudge(problem, unbiased=True)(Duel(0, pair), 0) == 1.0
    assert DuelingChoiceJudge(problem)(pair, 0) == 0.0
    for judge in (DuelingChoiceJudge(problem), DuelingChoiceJudge(problem, unbiased=True)):
        assert judge(Evaluate(0, pair[0]), 0) == float(problem(pair[0]))
    link = DuelLink("logistic", 0.01)
    gap = problem.low_fidelity(pair[0]) - problem.low_fidelity(pair[1])
    expected = float(torch.sigmoid(gap / 0.01))
    judge = DuelingChoiceJudge(problem, link=link)
    assert judge.probability(Duel(0, pair)) == pytest.approx(expected, rel=1e-12)
    mean = sum(judge(pair, t) for t in range(1000)) / 1000
    assert abs(mean - expected) < 4.0 * (expected * (1.0 - expected) / 1000) ** 0.5


def test_ties_are_a_fair_coin() -> None:
    judge = DuelingChoiceJudge(CurrinExp(), 1)
    tie = Duel(0, torch.full((2, 2), 0.5, dtype=torch.double))
    assert judge.probability(tie) == 0.5
    tossed = [judge(tie, t) for t in range(900)]
    assert abs(sum(tossed) / 900 - 0.5) < 4.0 * 0.5 / 900**0.5
    assert [judge(tie, t) for t in range(50)] == tossed[:50]


def test_noise_on_values() -> None:
    problem, item = CurrinExp(), torch.tensor([0.3, 0.4], dtype=torch.double)
    uniform, normal = (
        DuelingChoiceJudge(problem, 3, value_noise=0.5, noise=noise)
        for noise in ("uniform", "normal")
    )
    truth = float(problem(item))
    errors = torch.tensor([uniform(Evaluate(0, item), t) - truth for t in range(1500)])
    assert 0.49 < errors.abs().max() <= 0.5
    assert abs(errors.mean()) < 4.0 * 0.5 / (3 * 1500) ** 0.5
    assert errors.std() == pytest.approx(0.5 / 3**0.5, rel=0.06)
    errors = torch.tensor([normal(Evaluate(0, item), t) - truth for t in range(1500)])
    assert errors.abs().max() > 1.0
    assert errors.std() == pytest.approx(0.5, rel=0.08)
    other = DuelingChoiceJudge(problem, 3, value_noise=0.5)
    assert other(Evaluate(0, item), 4) == uniform(Evaluate(9, item), 4)
    assert other(Evaluate(0, item, None, "ann"), 4) != uniform(Evaluate(0, item), 4)


def test_choices_are_named_by_their_indices() -> None:
    choices = torch.tensor([[13.0 / 60.0, 0.0], [0.235753, 0.0]], dtype=torch.double)
    judge = DuelingChoiceJudge(CurrinExp(choices=choices))
    assert judge((0, 1), 0) == judge(Duel(0, choices, (0, 1)), 0) == 0.0
    assert judge(Duel(0, choices.flip(0), (1, 0)), 0) == 1.0
    # A composition that was measured twice: only the index tells.
    catalyst = Catalyst()
    plain = DuelingChoiceJudge(catalyst)
    assert plain.comparison is catalyst
    best, worst = int(catalyst.utilities.argmax()), int(catalyst.utilities.argmin())
    assert plain((best, worst), 0) == 1.0
    query = Evaluate(0, catalyst.choices[worst], worst)
    assert plain(query, 0) == float(catalyst.utilities.min())


def test_pickled() -> None:
    judge = DuelingChoiceJudge(CurrinExp(), 6, DuelLink("probit"), value_noise=0.1)
    assert answers(pickle.loads(pickle.dumps(judge)), 30) == answers(judge, 30)


def test_errors() -> None:
    problem, item = CurrinExp(), torch.tensor([0.3, 0.4], dtype=torch.double)
    with pytest.raises(UnsupportedError, match="value_noise must be"):
        DuelingChoiceJudge(problem, value_noise=-1.0)
    with pytest.raises(UnsupportedError, match="noise must be 'uniform' or 'normal'"):
        DuelingChoiceJudge(problem, noise="cauchy")  # type: ignore[arg-type]
    judge = DuelingChoiceJudge(problem)
    with pytest.raises(UnsupportedError, match="logistic link only"):
        judge(Choice(0, torch.stack([item, item, item])), 0)
    with pytest.raises(ItemError, match="2 x 2 items"):
        judge(item, 0)
