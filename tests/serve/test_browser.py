"""The pages for people, in headless Chromium."""

from __future__ import annotations

import os
import socket
import threading
import time
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("segno")
pytest.importorskip("uvicorn")
pytest.importorskip("selenium", reason="selenium is not installed")

import uvicorn
from selenium.common.exceptions import WebDriverException
from selenium.webdriver import ActionChains
from selenium.webdriver.common.keys import Keys

from botorch_pref.serve import create_app
from botorch_pref.serve.store import Given
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import EUBO, RandomPairs
from botorch_pref.study import Study
from tests.common import until
from tests.serve.common import Anybody, Person, Server, begin, campaign

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

AXE = Path(os.environ.get("AXE", "node_modules/axe-core/axe.min.js"))
BOX = SearchSpace(torch.tensor([[0.0, 60.0], [80.0, 96.0]], dtype=torch.double))
TABLE = SearchSpace(choices=torch.arange(6.0, dtype=torch.double).unsqueeze(-1))
NAMES = ["milk (ml)", "temperature of the water (°C)"]
SIZES = {"phone": (390, 844), "desktop": (1440, 900)}
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9"><circle r="{}" cx="4" cy="4"/></svg>'
)
SCRIPT = "<script>alert(1)</script>"
ARABIC = {"ar": {"dir": "rtl", "duel": "أيهما تفضل؟", "choose": "اختر {}", "join": "انضم"}}


class Site:
    """A server in a thread, and what it stores."""

    def __init__(self, study: Study, **options: Any) -> None:
        app = create_app(study, **options)
        self.desk, self.store = app.state.desk, app.state.desk.store
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        self.thread = threading.Thread(target=self.server.run, kwargs={"sockets": [self.socket]})
        self.thread.start()

    @property
    def answers(self) -> list[Given]:
        """What was answered, and not taken back, in this order."""
        rows = [row for row in self.store.given() if row.answered is not None]
        return sorted(rows, key=lambda row: row.answered or 0.0)

    def end(self) -> None:
        self.server.should_exit = True
        self.thread.join()
        self.socket.close()


@pytest.fixture
def open_site(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    opened: list[Any] = []

    def one(space: SearchSpace = BOX, question: str | None = None, **options: Any) -> Site:
        own = {"description": "A taste test"} | ({"names": NAMES} if space is BOX else {})
        path = tmp_path / f"{len(opened)}.json"
        strategy = RandomPairs if question is None else EUBO
        study = Study.create(path, space, strategy, question=question, **own)
        site = Site(study, **options)
        opened.extend([study, site])
        return site

    yield one
    for thing in reversed(opened):
        thing.end() if isinstance(thing, Site) else thing.close()


def media(folder: Path, kind: str) -> dict[str, Any]:
    """Six files of a kind, as options of a site."""
    folder.mkdir()
    for row in range(6):
        file = folder / f"{row}.{kind}"
        if kind == "svg":
            file.write_text(SVG.format(1 + row / 2))
        elif kind == "txt":
            file.write_text(
                f"{SCRIPT} Your parcel, number {row}, will be with you tomorrow morning."
            )
        else:
            with wave.open(str(file), "wb") as sound:
                sound.setparams((1, 2, 8000, 0, "NONE", ""))
                time_in_s = torch.arange(8000) / 8000
                tone = 3000 * torch.sin(2 * torch.pi * 110 * (2 + row) * time_in_s)
                sound.writeframes(tone.to(torch.int16).numpy().tobytes())
    return {"media": folder, "files": [f"{row}.{kind}" for row in range(6)]}


def join(browser: Any, site: Site, name: str, query: str = "") -> None:
    browser.get(f"{site.base}/join/{site.store.invitation}{query}")
    browser.find_element("id", "name").send_keys(name)
    browser.find_element("css selector", "button.main").click()
    shown(browser)


def shown(browser: Any, other_than: str | None = None) -> str:
    """The number of the question on the page, once there is one that can be answered."""

    def found() -> str | None:
        script = "return document.querySelector('[data-query]')?.dataset.query"
        number: str | None = browser.execute_script(script)
        return None if number == other_than else number

    number: str = until(found)
    time.sleep(0.35)  # what comes sooner is taken for a double click
    return number


def click(browser: Any, selector: str) -> None:
    browser.find_element("css selector", selector).click()


def press(browser: Any, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


def focused(browser: Any) -> str:
    text: str = browser.execute_script(
        "const e = document.activeElement; return e.id || e.dataset.answer || e.tagName"
    )
    return text


def test_keys_alone(browser: Any, open_site: Callable[..., Site]) -> None:
    site = open_site()
    browser.get(f"{site.base}/join/{site.store.invitation}")
    press(browser, Keys.TAB)
    assert focused(browser) == "name"
    press(browser, SCRIPT, Keys.ENTER)
    first = shown(browser)
    assert site.store.people() == [SCRIPT]  # and no alert, which would fail what follows
    assert browser.find_element("css selector", "footer bdi").text == SCRIPT
    press(browser, "a")
    second = shown(browser, first)
    assert focused(browser) == "prompt"  # which a screen reader reads
    press(browser, Keys.TAB)
    assert focused(browser) == "1"
    press(browser, Keys.TAB, Keys.ENTER)
    third = shown(browser, second)
    press(browser, "0")
    fourth = shown(browser, third)
    press(browser, "s")
    fifth = shown(browser, fourth)
    press(browser, "u")
    assert shown(browser, fifth) == fourth
    press(browser, "2")
    shown(browser, fourth)
    assert [row.answer for row in site.answers] == ["1", "2", "=", "2"]
    assert [str(row.query) for row in site.answers] == [first, second, third, fourth]
    assert all(0.3 < (row.seconds or 0.0) < 60 for row in site.answers)


def test_keys_can_be_turned_off(browser: Any, open_site: Callable[..., Site]) -> None:
    site = open_site()
    join(browser, site, "Ann")
    first = shown(browser)
    assert len(browser.find_elements("css selector", "[aria-keyshortcuts]")) == 5
    click(browser, "#keys")
    for _ in range(2):
        assert not browser.find_elements("css selector", "[aria-keyshortcuts]")
        browser.execute_script("document.activeElement.blur()")
        press(browser, "1", "a", "s", "0")
        browser.refresh()  # which it outlives
        assert shown(browser) == first
    assert not site.answers
    click(browser, "#keys")
    browser.execute_script("document.activeElement.blur()")
    press(browser, "2")
    shown(browser, first)
    assert [row.answer for row in site.answers] == ["2"]


def test_clicks_a_reload_and_a_code(browser: Any, open_site: Callable[..., Site]) -> None:
    site = open_site(per_person=3)
    join(browser, site, "Ann")
    first = shown(browser)
    double = """
        const [done] = arguments, box = document.getElementById("question");
        const choose = () => box.querySelector("[data-answer='2']").click();
        new MutationObserver((_, observer) => {
            observer.disconnect(); choose(); setTimeout(done, 500);
        }).observe(box, {childList: true});
        choose(); choose();"""
    browser.execute_async_script(double)  # clicks while it is sent, and once the next is there
    second = shown(browser, first)
    assert [(str(row.query), row.answer) for row in site.answers] == [(first, "2")]
    browser.refresh()
    assert shown(browser) == second
    click(browser, "summary")
    code = browser.find_element("css selector", "code").text
    browser.delete_all_cookies()
    browser.get(f"{site.base}/")
    click(browser, "summary")
    browser.find_element("id", "code").send_keys(code.upper(), Keys.ENTER)
    assert shown(browser) == second
    click(browser, "[data-answer='=']")
    third = shown(browser, second)
    click(browser, "[data-undo]")
    assert shown(browser, third) == second
    click(browser, "[data-answer='1']")
    third = shown(browser, second)
    click(browser, "[data-answer='skip']")
    fourth = shown(browser, third)
    click(browser, "[data-answer='1']")
    until(lambda: browser.find_elements("css selector", "[data-state=done]"))
    expected = [(first, "2"), (second, "1"), (third, None), (fourth, "1")]
    assert [(str(row.query), row.answer) for row in site.answers] == expected


def test_two_tabs(browser: Any, open_site: Callable[..., Site]) -> None:
    site = open_site()
    join(browser, site, "Ann")
    first = shown(browser)
    tab = browser.current_window_handle
    browser.switch_to.new_window("tab")
    browser.get(f"{site.base}/")
    assert shown(browser) == first
    click(browser, "[data-answer='2']")
    second = shown(browser, first)
    browser.switch_to.window(tab)
    click(browser, "[data-answer='1']")  # to what was answered in the other tab
    assert shown(browser, first) == second
    assert [(str(row.query), row.answer) for row in site.answers] == [(first, "2")]


def test_one_sound_at_a_time(browser: Any, open_site: Callable[..., Site], tmp_path: Path) -> None:
    site = open_site(TABLE, **media(tmp_path / "media", "wav"))
    join(browser, site, "Ann")
    state = "return [...document.querySelectorAll('audio')].map(s => [!s.paused, !s.muted])"
    heard = """
        const [key, done] = arguments, [a, b] = document.querySelectorAll("audio");
        const heard = () => [a, b].map((s) => !s.paused && !s.muted);
        const before = heard();
        const code = "Key" + key.toUpperCase();
        document.body.dispatchEvent(new KeyboardEvent("keydown", {key, code, bubbles: true}));
        done([before, heard()]);"""
    assert browser.execute_script(state) == [[False, False]] * 2
    assert browser.find_element("css selector", "audio").get_property("volume") == 0.5
    click(browser, ".play")
    together = """
        const [a, b] = [...document.querySelectorAll("audio")].map((s) => s.currentTime);
        return a > 0.1 && b > 0.1 && Math.abs(a - b) < 0.1"""
    until(lambda: browser.execute_script(together))
    before, after = browser.execute_async_script(heard, "p")
    assert (before, after) == ([True, False], [False, True])  # at once: both run all the time
    assert browser.execute_script(state) == [[True, False], [True, True]]
    press(browser, "p")
    assert browser.execute_script(state) == [[True, True], [True, False]]
    click(browser, ".play")
    assert browser.execute_script(state) == [[False, False]] * 2
    site.end()


PICTURE = "return document.querySelector('.item img').naturalWidth"
SHOWN: dict[str, dict[str, Any]] = {
    "table": {},
    "best of 4": {"question": "best of 4"},
    "grade 5": {"question": "grade 5"},
    "svg": {"space": TABLE},
    "txt": {"space": TABLE},
    "wav": {"space": TABLE, "question": "best of 4"},
}


@pytest.mark.parametrize("kind", SHOWN)
def test_it_fits_a_phone_and_a_desktop(
    browser: Any, open_site: Callable[..., Site], tmp_path: Path, kind: str
) -> None:
    files = media(tmp_path / "media", kind) if "space" in SHOWN[kind] else {}
    site = open_site(**SHOWN[kind], **files, words=ARABIC, prompt="Which tastes better?")
    join(browser, site, "A name without a blank in it, of sixty letters".replace(" ", "_"))
    assert browser.find_element("id", "prompt").text == "Which tastes better?"
    pages = ("", "?lang=ar", "owner")
    browser.get(f"{site.base}/owner/{site.store.owner}")
    for width, height in SIZES.values():
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        for page in pages:
            browser.get(f"{site.base}/{page}")
            over = """
                return [...document.querySelectorAll("button, h2, img, section, dd, td, p")]
                  .filter((e) => !e.closest(".hidden")).filter((e) => {
                    const r = e.getBoundingClientRect();
                    return r.left < 0 || r.right > innerWidth || e.scrollWidth > e.clientWidth + 1
                           && getComputedStyle(e).display !== "inline";
                }).map((e) => e.outerHTML)"""
            assert browser.execute_script(over) == [], page
            if page != "owner":
                places = [one.rect["x"] for one in browser.find_elements("css selector", ".item")]
                assert (places[0] > places[1]) == (page == "?lang=ar")
            if kind == "svg" and page != "owner":
                until(lambda: browser.execute_script(PICTURE))


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: `npm install axe-core`")
@pytest.mark.parametrize("kind", SHOWN)
def test_nothing_serious_for_axe(
    browser: Any, open_site: Callable[..., Site], tmp_path: Path, kind: str
) -> None:
    files = media(tmp_path / "media", kind) if "space" in SHOWN[kind] else {}
    site = open_site(**SHOWN[kind], **files, words=ARABIC, per_person=9)

    def check(what: str) -> None:
        browser.execute_script(AXE.read_text(encoding="utf-8"))
        found = browser.execute_async_script("axe.run().then(arguments[0])")
        wrong = [
            (one["id"], [node["html"] for node in one["nodes"]])
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
        ]
        assert found["passes"], what
        assert not wrong, what

    browser.get(f"{site.base}/join/{site.store.invitation}")
    click(browser, "summary")
    check("join")
    join(browser, site, "Ann")
    click(browser, "summary")
    check("question")
    click(browser, "[data-answer='1']")
    browser.get(f"{site.base}/?lang=ar")
    shown(browser)
    check("right to left")
    browser.get(f"{site.base}/owner/{site.store.owner}")
    check("owner")
    site.desk.stop()  # which tells all answers
    site.desk._work_out()
    browser.refresh()
    assert browser.find_elements("css selector", ".best li")
    check("results")
    for state in ("paused", "ended"):
        site.desk.set_state(state)
        browser.get(f"{site.base}/")
        check(state)


class Visitor(Anybody):
    """Answers on the page; in two tabs by turns, or with a reload after every third answer."""

    def __init__(self, server: Server, driver: Any, name: str, answers: int, tabs: int) -> None:
        super().__init__(server, name, answers)
        self.driver, self.tabs = driver, tabs
        self.base = f"http://127.0.0.1:{server.port}"

    def run(self) -> None:
        driver = self.driver
        driver.set_script_timeout(300)
        driver.get(f"{self.base}/join/{self.server.invitation}")
        driver.find_element("id", "name").send_keys(self.person)
        driver.find_element("css selector", "button.main").click()
        for _ in range(self.tabs - 1):
            driver.switch_to.new_window("tab")
        script = """
            const [done] = arguments, box = document.getElementById("question");
            const notice = document.getElementById("notice"), all = box.querySelectorAll(".choose");
            const number = () => box.querySelector("[data-query]")?.dataset.query;
            const ended = () => box.querySelector("[data-state=done]");
            if (ended()) return done("done");
            if (!number()) return setTimeout(() => done(null), 50);
            const before = number(), start = performance.now();
            let away = false;
            new MutationObserver((_, observer) => {
                away ||= notice.textContent !== "";
                if ((number() && number() !== before) || ended()) {
                    observer.disconnect();
                    done([+before, away ? null : (performance.now() - start) / 1000]);
                }
            }).observe(document.body, {childList: true, subtree: true});
            all[Math.floor(Math.random() * all.length)].click();"""
        for turn in range(10**6):
            driver.switch_to.window(driver.window_handles[turn % self.tabs])
            time.sleep(0.5 + 1.5 * (turn % 3) / 2)
            try:
                if not driver.find_elements("id", "question") or (self.tabs == 1 and turn % 3 == 0):
                    driver.get(self.base)
                    time.sleep(0.4)
                found = driver.execute_async_script(script)
            except WebDriverException:  # the server is away
                continue
            if found == "done":
                return
            if found is not None:
                self.acknowledged.add(found[0])
                if found[1] is not None:
                    self.waits.append(found[1])


def test_ten_people_and_a_server_that_is_killed(
    open_browser: Callable[[], Any], tmp_path: Path
) -> None:
    path, answers, earlier = tmp_path / "study.json", 30, 470
    begin(path, earlier)
    server = Server(path, "--unverified", "--per-person", str(answers))
    people: list[Anybody] = [
        Visitor(server, open_browser(), "who reloads", answers, tabs=1),
        Visitor(server, open_browser(), "with two tabs", answers, tabs=2),
        *(Person(server, f"p{number}", answers, think=2.0) for number in range(8)),
    ]
    campaign(server, people, earlier)
