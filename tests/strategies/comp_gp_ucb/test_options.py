"""Schedules, and options that are refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

from botorch_pref.exceptions import ComparisonDataError
from botorch_pref.problems import CurrinExp, DuelLink
from botorch_pref.strategies import CompGPUCB
from botorch_pref.strategies.budgeted import LogBeta
from botorch_pref.strategies.comp_gp_ucb.options import Settings
from botorch_pref.strategies.comp_gp_ucb.step import Schedule
from experiments.problems import Borehole


@pytest.mark.parametrize(
    ("beta", "dim", "expected"),
    [
        ("log", 2, (0.3466, 0.6931, 1.4979, 2.3026, 2.6492, 3.4539, 3.8005)),
        ("dimension", 2, (0.7447, 0.9120, 1.2147, 1.4558, 1.5481, 1.7437, 1.8214)),
        ("dimension", 8, (2.1062, 2.3548, 2.8496, 3.2704, 3.4358, 3.7920, 3.9355)),
        (1.7, 3, (1.7,) * 7),
        (LogBeta(), 4, (0.3466, 0.6931, 1.4979, 2.3026, 2.6492, 3.4539, 3.8005)),
        ({"scale": 0.4, "factor": 4, "root": True}, 9, (0.7447, 0.9120, 1.2147, 1.4558, 1.5481)),
        (LogBeta(2.0, 1.0, 1.0), 1, (1.3863, 2.1972)),
    ],
)
def test_multiples(beta: Any, dim: int, expected: tuple[float, ...]) -> None:
    settings = Settings.checked(beta=beta)
    for t, value in zip((1, 2, 10, 50, 100, 500, 1000), expected, strict=False):
        assert settings.beta_at(t, dim) == pytest.approx(value, abs=5e-5)
    assert Settings.checked(**settings.to_json()) == settings


@pytest.mark.parametrize(("problem", "printed"), [(CurrinExp(), 3.18), (Borehole(), 19078.0)])
def test_slack_and_gamma_follow_from_the_bias(problem: Any, printed: float) -> None:
    """The values of the spec as printed, and those of functions divided by their range."""
    least, most = problem.facts().utility_range
    bias = {"zeta": problem.zeta("paper"), "value_range": most - least}
    literal = Settings.checked(**bias, literal=True, l2=0.5)
    assert literal.first_gamma == pytest.approx(printed, rel=2e-3)
    assert literal.first_slack == 0.5 * bias["zeta"]
    assert Settings.checked(**bias, literal=True).first_slack == 0.25 * bias["zeta"]
    settings = Settings.checked(**bias)
    scaled = Settings.checked(zeta=bias["zeta"] / bias["value_range"], value_range=1, literal=True)
    assert settings.first_gamma == pytest.approx(max(scaled.first_gamma, 0.02), rel=1e-14)
    assert settings.first_slack == pytest.approx(scaled.first_slack, rel=1e-14)
    # A product has no unit: the helper's constant is per unit of the values, whatever their range.
    l2 = DuelLink("logistic", 2.0).constants(bias["value_range"]).l2
    assert Settings.checked(**bias, l2=l2).first_slack == 0.125 * bias["zeta"]
    assert Settings.checked(**bias, gamma=0.3).first_gamma == 0.3
    assert Settings.checked(zeta=0, value_range=2).first_gamma == 0.02
    assert Settings.checked(zeta=0, value_range=2, literal=True).first_gamma == 0
    strategy = CompGPUCB(bounds=problem.bounds, **bias, literal=True, l2=0.5)
    assert strategy.schedule.gamma == literal.first_gamma
    assert strategy.schedule.slack == literal.first_slack
    again = CompGPUCB.from_state_dict(strategy.state_dict())
    assert again.settings == strategy.settings


def test_gamma_doubles_after_duels_in_a_row() -> None:
    settings = Settings.checked(gamma=0.02)
    schedule = Schedule(settings.first_gamma, 0.0, phase=2)
    for number in range(1, 36):
        schedule.count("duel", settings)
        assert schedule.gamma == pytest.approx(0.02 * 2 ** (number // 10))
    schedule.count("value", settings)
    assert schedule.streak == 0
    patient = Settings.checked(gamma=0.02, gamma_in_phase_1=False)
    first = Schedule(0.02, 0.0)
    for _ in range(30):
        first.count("duel", patient)
    assert first.gamma == 0.02
    assert Settings.checked(borda_slack=0.4).first_gamma == 0.1
    assert Settings.checked(borda_slack=0.0).first_gamma == 0.02


@pytest.mark.parametrize("ratio", [1, 4, 5])
def test_slack_doubles_after_its_share_of_values(ratio: int) -> None:
    """Algorithm 2: half of all values, equally over the slacks up to the limit."""
    settings = Settings.checked(borda_slack=0.1, slack_limit=0.1 * ratio, budget=60)
    schedule, seen = Schedule(0.02, 0.1, phase=2), []
    for _ in range(60):
        schedule.raise_slack(settings)
        schedule.count("value", settings)
        seen.append(schedule.slack)
    share = math.ceil(30 / max(1, math.ceil(math.log2(ratio))))
    levels = math.floor(math.log2(ratio))
    for level in range(levels):
        assert seen.count(0.1 * 2**level) == share
    assert seen[-1] == pytest.approx(0.1 * 2**levels)


def test_schedules_are_written_and_read() -> None:
    for schedule in (Schedule(math.inf, 0.1), Schedule(0.2, 0.1, 2, 7, 3, 0.4, 0.5, 2, 1)):
        assert Schedule.from_json(schedule.to_json()) == schedule


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"bogus": 1}, "Unknown options"),
        ({"budget": -1}, "`budget`"),
        ({"gamma": -0.1}, "`gamma`"),
        ({"gamma_factor": 0.5}, "`gamma_factor`"),
        ({"beta": "sqrt"}, "`beta`"),
        ({"lower_bound": "x"}, "`lower_bound`"),
        ({"spend_remainder": "x"}, "`spend_remainder`"),
        ({"num_initial_duels": 0.5}, "`num_initial_duels`"),
        ({"refit_values": 0}, "`refit_values`"),
        ({"borda_slack": -1.0}, "`borda_slack`"),
        ({"slack_limit": 0.01, "budget": 9}, "`slack_limit`"),
        ({"slack_limit": 0.5}, "give one"),
        ({"noise": 0.0}, "`noise`"),
        ({"beta": {"scale": -1}}, "`beta.scale`"),
        ({"beta": {"factor": 1}}, "`beta.epsilon`"),
        ({"beta": {"epsilon": math.inf}}, "`beta.epsilon`"),
        ({"beta": {"root": 1}}, "`beta.root`"),
        ({"beta": {"power": 1}}, "power"),
        ({"zeta": 0.1}, "`value_range`"),
        ({"zeta": -0.1, "value_range": 1}, "`zeta`"),
        ({"zeta": 0.1, "value_range": 1, "l2": 0}, "`l2`"),
        ({"zeta": 0.1, "value_range": 1, "borda_slack": 0.1}, "`zeta` or `borda_slack`"),
        ({"zeta": 0.1, "value_range": 1, "literal": 1}, "`literal`"),
        ({"literal": True}, "give that"),
        ({"value_range": 3.0}, "give that"),
    ],
)
def test_bad_options(options: dict[str, Any], match: str) -> None:
    with pytest.raises(ComparisonDataError, match=match):
        Settings.checked(**options)
