"""A real server that is killed while people answer."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
pytest.importorskip("segno")

from tests.serve.common import BOUNDS, Person, Server, campaign


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_killed_server_loses_nothing(tmp_path: Path) -> None:
    server = Server(tmp_path / "study.json", "--bounds", BOUNDS)
    campaign(server, [Person(server, f"p{number}", 30, think=2.0) for number in range(10)])
