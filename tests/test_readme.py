"""What the README promises; its code is executed with that of the pages."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 150
    assert len(re.findall(r"^## Measured$", README, re.MULTILINE)) == 1
    measured = README.split("## Measured")[1].split("\n## ")[0]
    rows = [line for line in measured.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 5
    outside = README.replace(measured, "")
    assert "±" not in outside, "measurements stand in the table alone"


def test_there_are_two_set_up_commands() -> None:
    blocks = re.findall(r"^<!-- (\w+) -->\n```bash\n(.*?)\n```$", README, re.MULTILINE | re.DOTALL)
    commands = dict(blocks)
    assert [name for name, _ in blocks] == ["run", "test"]
    install = "python3 -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt -e "
    main_job = "botorch-pref run catalyst --horizon 100 --seed 0"
    assert commands["run"] == f"{install}. && {main_job}"
    assert commands["test"] == f'{install}".[test]" && pytest -n auto'
    assert README.count("```bash") == 2
