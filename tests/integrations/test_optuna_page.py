"""The real page of Optuna Dashboard, in headless Chromium."""

from __future__ import annotations

import runpy
import threading
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

import pytest

from tests.common import until

WEB_PAGE = Path(__file__).resolve().parents[2] / "examples" / "web_page.py"

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


def test_an_answer_clicked_on_the_page_changes_the_next_suggestion(
    tmp_path: Path, browser: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(WEB_PAGE.parent)
    dashboard = pytest.importorskip("optuna_dashboard")
    example = runpy.run_path(str(WEB_PAGE))
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    store = example["FileSystemArtifactStore"](str(tmp_path))
    study = example["open_study"](storage)
    example["propose"](study, store)
    # The other answer, in a study of its own: what would have been proposed after it.
    other = example["open_study"](f"sqlite:///{tmp_path / 'other.db'}")
    example["propose"](other, store)
    first, second = other.get_trials()
    assert [t.params for t in study.get_trials()] == [first.params, second.params]
    other.report_preference(first, second)

    server = make_server("127.0.0.1", 0, dashboard.wsgi(storage, artifact_store=store))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    browser.get(f"http://127.0.0.1:{server.server_port}/dashboard/studies/1")
    button = "//button[translate(normalize-space(), 'WORST', 'worst') = 'worst']"
    worst = until(lambda: (b := browser.find_elements("xpath", button)) and len(b) == 2 and b)
    pictures = browser.find_elements("css selector", "img[alt^='flower']")
    names = [picture.get_attribute("alt") for picture in pictures]
    assert names == ["flower 0.png", "flower 1.png"]
    assert all(int(picture.get_attribute("naturalWidth")) > 100 for picture in pictures)
    worst[0].click()
    until(lambda: study.get_preferences(deepcopy=False))
    ((better, worse),) = study.get_preferences()
    assert (better.number, worse.number) == (1, 0)
    assert study.should_generate()
    example["propose"](study, store)
    shown = "img[alt='flower 2.png']"
    until(lambda: browser.find_elements("css selector", shown))
    # The third may be the same, as it is far from both; once it has lost, the fourth is another.
    example["propose"](other, store)
    for one, best in ((study, 1), (other, 0)):
        trials = one.get_trials()
        one.report_preference(trials[best], trials[2])
        example["propose"](one, store)
    assert study.get_trials()[3].params != other.get_trials()[3].params
    server.shutdown()
    server.server_close()
