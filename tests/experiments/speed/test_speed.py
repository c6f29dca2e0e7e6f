"""What is timed in which section."""

import pytest
import torch

from botorch_pref.exceptions import UnsupportedError
from experiments import speed
from experiments.speed import SECTIONS, Section, command, speed_cases, speed_table
from experiments.speed.timing import LIMIT

CPU = torch.device("cpu")


def test_sections() -> None:
    of: dict[Section, list[str]] = {
        section: [case.section for case in speed_cases(CPU, True, {section})]
        for section in SECTIONS
    }
    for section, found in of.items():
        assert {*found} == {section}
    # What has all numbers of duels has that of the table of models as well.
    together = [case.section for case in speed_cases(CPU, True, {*SECTIONS})]
    assert together == [name for section in SECTIONS if section != "models" for name in of[section]]
    for sizes in (speed._FULL, speed._QUICK):
        for models, scaling in zip(sizes.models, sizes.scaling, strict=True):
            assert {*models} <= {*scaling}


def test_the_command_has_the_same_sections_and_limit() -> None:
    assert command.SECTIONS == SECTIONS
    assert command._LIMIT == LIMIT
    for section in SECTIONS:
        assert f"\n  {section} " in command._EPILOG


def test_bad_arguments() -> None:
    with pytest.raises(UnsupportedError, match="device 'abacus'"):
        speed_table("abacus")
    with pytest.raises(UnsupportedError, match="threads must be at least 1"):
        speed_table(threads=0)
    with pytest.raises(UnsupportedError, match=r"sections must be of million, models, .* abacus"):
        speed_table(sections=["abacus"])  # type: ignore[list-item]
