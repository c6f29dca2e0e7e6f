"""What happens to files: kills, full disks, several writers, changed bytes."""

from __future__ import annotations

import json
import os
import random
import signal
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from botorch_pref.exceptions import StudyError, StudyFileError, StudyLockedError
from botorch_pref.problems import Ackley
from botorch_pref.runner import run_experiment
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import RandomPairs
from botorch_pref.study import Study
from tests.faults.common import Campaign

pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks and kills")
SPACE = SearchSpace(torch.tensor([[0.0, 60.0], [80.0, 96.0]], dtype=torch.float64))


def begun(path: Path) -> None:
    Study.create(path, SPACE, partial(RandomPairs, seed=5)).close()


def tell_one(study: Study, annotator: str | None = None) -> None:
    query = study.ask(annotator)
    study.tell(query, float(query.items[0, 0] > query.items[1, 0]))


def forked(work: Callable[[int], object]) -> tuple[int, int]:
    """A process that works, and the pipe on which it says what it has done."""
    said, say = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks where there are threads
        process = os.fork()
    if not process:
        os.close(said)
        try:
            work(say)
        finally:
            os._exit(0)
    os.close(say)
    return process, said


def all_said(pipe: int) -> bytes:
    with os.fdopen(pipe, "rb") as file:
        return file.read()


def answers(path: Path) -> int:
    """How many a study has that goes on, without what others left."""
    with Study.load(path) as study:
        number = len(study.history)
        tell_one(study)
        study.undo()
    beside = sorted(one.name for one in path.parent.iterdir())
    assert beside == [path.name, f"{path.name}.bak"]
    return number


def writer(path: Path, until: int, say: int, annotator: str | None = None) -> None:
    """Tells answers, one at a time, and says each once it is told."""
    told = 0
    while told < until:
        try:
            with Study.load(path) as study:
                for _ in range(random.randint(1, 3)):
                    tell_one(study, annotator)
                    os.write(say, b".")
                    told += 1
        except StudyLockedError:
            time.sleep(0.002)


def kills(trials: int, seed: int, folder: Path) -> Campaign:
    """Killed at random moments, it has every answer that was told, and one more at most."""
    campaign, draws = Campaign(), random.Random(seed)
    for number in range(trials):
        path = folder / str(number) / "study.json"
        path.parent.mkdir()
        begun(path)

        def trial(path: Path = path) -> str:
            process, pipe = forked(partial(writer, path, 10**6))
            first = os.read(pipe, 1)
            time.sleep(draws.uniform(0.0, 0.1))
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
            told = len(first + all_said(pipe))
            found = answers(path)
            assert told <= found <= told + 1, f"{told} answers were told, {found} are there"
            return "whole"

        campaign.run("kill -9", number, trial)
    return campaign


def several_writers(trials: int, seed: int, folder: Path) -> Campaign:
    """Two and four processes on one file, one of them killed: no answer is lost."""
    campaign, draws = Campaign(), random.Random(seed)
    for number in range(trials):
        path = folder / str(number) / "study.json"
        path.parent.mkdir()
        begun(path)
        several = (2, 4)[number % 2]

        def trial(path: Path = path, several: int = several) -> str:
            others = [forked(partial(writer, path, 8)) for _ in range(several)]
            time.sleep(draws.uniform(0.02, 0.1))
            os.kill(others[0][0], signal.SIGKILL)
            told = sum(len(all_said(pipe)) for _, pipe in others)
            for process, _ in others:
                os.waitpid(process, 0)
            found = answers(path)
            assert told <= found <= told + 1, f"{told} answers were told, {found} are there"
            return "whole"

        campaign.run(f"{several} writers", number, trial, 60.0)
    return campaign


def full_disks(trials: int, seed: int, folder: Path) -> Campaign:
    """Where no more can be written, what was told is there."""
    import resource

    campaign, draws = Campaign(), random.Random(seed)
    for number in range(trials):
        path = folder / str(number) / "study.json"
        path.parent.mkdir()
        begun(path)
        most = path.stat().st_size + draws.randint(0, 6000)

        def write(say: int, path: Path = path, most: int = most) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            with Study.load(path) as study:
                while True:
                    try:
                        tell_one(study)
                    except StudyFileError:
                        os.write(say, b"!")
                        return
                    os.write(say, b".")

        def trial(path: Path = path, write: Callable[..., None] = write) -> str:
            process, pipe = forked(write)
            said = all_said(pipe)
            os.waitpid(process, 0)
            assert said.endswith(b"!"), "it ended otherwise than by a StudyFileError"
            assert answers(path) == len(said) - 1
            return "whole"

        campaign.run("full disk", number, trial)
    return campaign


def changed(data: bytes, kind: str, draws: random.Random) -> bytes:
    """Bytes with one change."""
    while True:
        at = draws.randrange(len(data))
        length = draws.randint(1, 64)
        if kind == "digit" and not data[at : at + 1].isdigit():
            continue
        new = {
            "digit": data[:at] + str(draws.randrange(10)).encode() + data[at + 1 :],
            "bit": data[:at] + bytes([data[at] ^ 1 << draws.randrange(8)]) + data[at + 1 :],
            "block lost": data[:at] + data[at + length :],
            "block twice": data[: at + length] + data[at:],
            "zeros": data[:at] + bytes(length) + data[at + length :],
            "cut": data[:at],
        }[kind]
        if new != data:
            return new


KINDS = ("digit", "bit", "block lost", "block twice", "zeros", "cut")


def changed_files(trials: int, seed: int, folder: Path) -> Campaign:
    """Each is refused, and left as it is."""
    campaign, draws, path = Campaign(), random.Random(seed), folder / "study.json"
    begun(path)
    with Study.load(path) as study:
        for _ in range(8):
            tell_one(study)
    whole = path.read_bytes()
    for number in range(trials):
        kind = KINDS[number % len(KINDS)]
        data = changed(whole, kind, draws)
        path.write_bytes(data)

        def trial(data: bytes = data) -> str:
            with pytest.raises(StudyFileError, match="It is left as it is"):
                Study.load(path)
            assert path.read_bytes() == data
            return "refused"

        campaign.run(f"study, {kind}", number, trial)
    return campaign


def files_of_strangers(trials: int, seed: int, folder: Path) -> Campaign:
    """Of any entries beside the strategy, it is refused or works; errors are of the package."""
    campaign, draws, path = Campaign(), random.Random(seed), folder / "study.json"
    begun(path)
    with Study.load(path) as study:
        for _ in range(3):
            tell_one(study)
    content = json.loads(path.read_bytes()) | {"version": 2}
    del content["checksum"]
    values = [None, True, -1, 10**400, 1.5, float("nan"), "", "x", "\ud800", [], [[]], {}, {"a": 1}]
    for _number in range(trials):
        mutated = json.loads(json.dumps(content))
        inner, key = mutated, draws.choice([*mutated.keys() - {"strategy", "format"}])
        while isinstance(inner[key], dict | list) and inner[key] and draws.random() < 0.8:
            inner = inner[key]
            key = draws.choice([*(inner if isinstance(inner, dict) else range(len(inner)))])
        inner[key] = draws.choice(values)
        path.write_text(json.dumps(mutated))

        def trial() -> str:
            try:
                with Study.load(path) as study:
                    tell_one(study)
                    study.recommend()
                    _ = study.history
                    for _ in range(4):
                        study.undo()
            except StudyError:
                return "refused"
            return "works"

        campaign.run("entries", (key, inner[key]), trial)
    return campaign


def sums(query: Any, step: int) -> float:
    return float(query.items[0].sum() > query.items[1].sum())


def changed_runs(trials: int, seed: int, folder: Path) -> Campaign:
    """A kept run of an experiment that was changed is simulated again."""
    campaign, draws = Campaign(), random.Random(seed)
    options: dict[str, Any] = {"horizon": 3, "seeds": 1, "progress": False, "directory": folder}
    problem = Ackley(num_choices=12)
    first = run_experiment(problem, {"a": RandomPairs}, **options).drop(columns="seconds")
    path = folder / "a-seed0.csv"
    for number in range(trials):
        whole, kind = path.read_bytes(), KINDS[number % len(KINDS)]
        data = changed(whole, kind, draws)
        path.write_bytes(data)

        def trial(data: bytes = data) -> str:
            again = run_experiment(problem, {"a": RandomPairs}, **options)
            assert again.drop(columns="seconds").equals(first)
            assert path.read_bytes() != data
            return "run again"

        campaign.run(f"run, {kind}", number, trial)
    return campaign


CAMPAIGNS: dict[Any, tuple[int, int]] = {
    kills: (5, 100),
    several_writers: (2, 20),
    full_disks: (3, 30),
    changed_files: (60, 300),
    files_of_strangers: (40, 1000),
    changed_runs: (24, 120),
}
"""Trials in the default run of the tests, and in a campaign."""


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_files(campaign: Any, tmp_path: Path) -> None:
    campaign(CAMPAIGNS[campaign][0], 0, tmp_path).check()
