"""A real server that is killed while people answer."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("segno")

from botorch_pref.cli.serve import own_address
from tests.serve.common import BOUNDS, Person, Server, campaign


def test_an_address_that_others_can_open() -> None:
    address = own_address()
    assert address not in ("0.0.0.0", "")
    with socket.create_server(("0.0.0.0", 0)) as server:
        socket.create_connection((address, server.getsockname()[1]), timeout=20).close()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_server_loses_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path / "study.json", "--bounds", BOUNDS)
    campaign(server, [Person(server, f"p{number}", 30, think=2.0) for number in range(10)])
