"""A real server that is killed while people answer."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from botorch_pref.study import Study

httpx = pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("segno")

BOUNDS = ",".join(f"x{i}:0:1" for i in range(6))


class Server:
    """The command in a process of its own."""

    def __init__(self, path: Path, *options: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        main = "import sys; from botorch_pref.cli import main; sys.exit(main())"
        own = ["serve", str(path), "--port", str(self.port), *options]
        self.command = [sys.executable, "-c", main, *own]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.owner, self.invitation = (
            self.process.stdout.readline().rsplit("/", 1)[-1].strip() for _ in range(2)
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)


class Person(threading.Thread):
    """Answers until the server counts enough, twice each time, and tries again where it is away."""

    def __init__(self, server: Server, name: str, answers: int, think: float) -> None:
        super().__init__(daemon=True)
        self.server, self.person, self.answers, self.think = server, name, answers, think
        self.waits: list[float] = []
        self.acknowledged: set[int] = set()

    def send(self, path: str, said: dict[str, Any] | None = None) -> dict[str, Any]:
        while True:
            try:
                url = f"http://127.0.0.1:{self.server.port}/api/{path}"
                method = "GET" if said is None else "POST"
                found = self.client.request(method, url, json=said)
                if found.status_code == 200:
                    return dict(found.json())
                assert found.status_code == 429, found.text
            except httpx.TransportError:
                self.was_away = True
            time.sleep(0.05)

    def run(self) -> None:
        self.client = httpx.Client(timeout=20)
        said = {"invitation": self.server.invitation, "name": self.person}
        code = self.send("join", said)["code"]
        self.client = httpx.Client(headers={"Authorization": f"Bearer {code}"}, timeout=20)
        random, shown = Random(self.person), self.send("question")
        while shown["answered"] < self.answers:
            while shown["question"] is None:
                time.sleep(0.02)
                shown = self.send("question")
            number = shown["question"]["query"]
            time.sleep(self.think * (0.5 + random.random()))
            said = {"query": number, "answer": random.choice("12"), "seconds": 1.0}
            start, self.was_away = time.monotonic(), False
            shown = self.send("answer", said)
            while shown["question"] is None and shown["answered"] < self.answers:
                time.sleep(0.02)
                shown = self.send("question")
            if not self.was_away:
                self.waits.append(time.monotonic() - start)
            self.acknowledged.add(number)
            if random.random() < 0.3:
                shown = self.send("answer", said)  # a double click


def simulate(path: Path, people: int, answers: int, kills: int, think: float) -> list[Person]:
    server = Server(path, "--bounds", BOUNDS)
    crowd = [Person(server, f"p{number}", answers, think) for number in range(people)]
    for person in crowd:
        person.start()
    random = Random(0)
    for _ in range(kills):
        time.sleep(answers * think / (kills + 1) * (0.5 + random.random()))
        server.kill()
        server.start()
    for person in crowd:
        person.join(timeout=400)
        assert not person.is_alive()
    server.end()
    with Study.load(path, read_only=True) as study:
        told = [(done.query.annotator, done.query.id) for done in study.strategy.history]
    assert len(told) == len(set(told)) == people * answers  # none lost, none doubled
    for person in crowd:
        assert {number for name, number in told if name == person.person} == person.acknowledged
    return crowd


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_server_loses_nothing(tmp_path: Path) -> None:
    crowd = simulate(tmp_path / "study.json", 10, 30, 5, think=2.0)
    waits = sorted(wait for person in crowd for wait in person.waits)
    share = sum(wait < 0.3 for wait in waits) / len(waits)
    print(f"{len(waits)} waits, {share:.1%} below 0.3 s, the longest {waits[-1]:.2f} s")
    assert share >= 0.95
