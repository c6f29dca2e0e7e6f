"""The server as it is started, and people who answer over HTTP."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import httpx
import torch

from botorch_pref.queries import Duel
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import DuelingKG
from botorch_pref.study import Study

DIM = 6
BOUNDS = ",".join(f"x{i}:0:1" for i in range(DIM))


class Server:
    """The command, or a script that runs it, in a process of its own."""

    def __init__(self, path: Path, *options: str, script: Path | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.path = path
        command = ["-m", "botorch_pref", "serve", str(path)] if script is None else [str(script)]
        self.command = [sys.executable, *command, "--port", str(self.port), *options]
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
        self.process.wait(180)  # for a fit, and for answers that the study was not told


class Anybody(threading.Thread):
    """Somebody who answers so many questions."""

    def __init__(self, server: Server, name: str, answers: int) -> None:
        super().__init__(daemon=True)
        self.server, self.person, self.answers = server, name, answers
        self.waits: list[float] = []  # seconds to the next question, where the server was there
        self.acknowledged: set[int] = set()


class Person(Anybody):
    """Answers until the server counts enough, twice now and then, and again where it was away."""

    def __init__(self, server: Server, name: str, answers: int, think: float) -> None:
        super().__init__(server, name, answers)
        self.think = think

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
        with httpx.Client(timeout=20) as self.client:
            said = {"invitation": self.server.invitation, "name": self.person}
            code = self.send("join", said)["code"]
        with httpx.Client(headers={"Authorization": f"Bearer {code}"}, timeout=20) as self.client:
            self.take_part()

    def take_part(self) -> None:
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


def campaign(server: Server, people: list[Anybody], earlier: int = 0) -> None:
    """All answer while the server is killed five times: nothing is lost, and nothing counts twice.

    Of the next questions 95 % come within 0.3 s, or longer where the machine has other work.
    """
    load = os.getloadavg()[0]
    for person in people:
        person.start()
    for _ in range(5):
        time.sleep(9.0)
        server.kill()
        server.start()
    for person in people:
        person.join(timeout=400)
        assert not person.is_alive()
    server.end()
    with Study.load(server.path, read_only=True) as study:
        history = [done.query for done in study.strategy.history][earlier:]
    told = [(query.annotator, query.id) for query in history]
    assert len(told) == len(set(told)) == sum(person.answers for person in people)
    for person in people:
        assert {number for name, number in told if name == person.person} == person.acknowledged
    waits = sorted(wait for person in people for wait in person.waits)
    load = max(load, os.getloadavg()[0]) / (os.cpu_count() or 1)
    share = sum(wait < 0.3 for wait in waits) / len(waits)
    repeats = len(told) - len({number for _, number in told})
    print(
        f"{len(waits)} waits, {share:.1%} below 0.3 s, 95 % below {_at(waits, 0.95):.3f} s, the "
        f"longest {waits[-1]:.2f} s; {repeats} of {len(told)} questions were others' before; "
        f"load {load:.1f} a core"
    )
    assert _at(waits, 0.95) < 0.3 * max(1.0, load)


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)]


def begin(path: Path, answers: int) -> None:
    """A study that people have answered before, for ``--unverified``."""
    space = SearchSpace(torch.tensor([[0.0], [1.0]], dtype=torch.double).expand(2, DIM))
    generator = torch.Generator().manual_seed(0)
    strategy = DuelingKG(space=space)

    def choose(number: int, annotator: str | None) -> Duel:
        items = torch.rand(2, DIM, generator=generator, dtype=torch.double)
        return Duel(number, items, annotator=annotator)

    strategy._choose = choose  # type: ignore[method-assign, assignment]
    for number in range(answers):
        query = strategy.ask(f"earlier {number % 8}")
        better, worse = -20.0 * (query.items - 0.6).square().sum(-1)
        wins = torch.rand((), generator=generator) < torch.sigmoid(better - worse)
        strategy.tell(query, float(wins))
    Study.create(path, space, DuelingKG).close()
    entries = json.loads(path.read_text())
    entries["strategy"] = strategy.state_dict()
    entries["told"] = [entries["created"]] * answers
    entries["rewind"] = [{"drop": [], "change": {}}] * answers
    path.write_text(json.dumps(entries))
