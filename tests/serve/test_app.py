"""The application by its JSON API, and what it refuses."""

from __future__ import annotations

import json
import re
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("httpx")
pytest.importorskip("starlette")
pytest.importorskip("segno")

with warnings.catch_warnings():  # it would rather have a successor of httpx
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from starlette.applications import Starlette
from starlette.routing import Mount

from botorch_pref.exceptions import StudyError, StudyFileError
from botorch_pref.serve import create_app
from botorch_pref.space import SearchSpace
from botorch_pref.strategies import COBOL, EUBO, MRLPF, DuelingKG, RandomPairs
from botorch_pref.study import Study

BOX = SearchSpace(torch.tensor([[0.0, 0.0], [10.0, 1.0]], dtype=torch.double))
TABLE = SearchSpace(choices=torch.arange(6.0, dtype=torch.double).unsqueeze(-1))

Client = Callable[..., TestClient]


@pytest.fixture
def open_app(tmp_path: Path) -> Iterator[Client]:
    """Runs an application of a study; a second call goes on with that study."""
    running: list[Any] = []

    def close() -> None:
        while running:
            running.pop().__exit__(None, None, None)

    def run(space: SearchSpace = BOX, strategy: Any = RandomPairs, **options: Any) -> TestClient:
        close()
        path = tmp_path / "study.json"
        own = {name: options.pop(name) for name in ("question", "names") if name in options}
        study = Study.load(path) if path.exists() else Study.create(path, space, strategy, **own)
        running.append(study)
        client = TestClient(create_app(study, **options))
        running.append(client.__enter__())
        return client

    yield run
    close()


def desk(client: TestClient) -> Any:
    return client.app.state.desk  # type: ignore[attr-defined]


def join(client: TestClient, name: str = "") -> dict[str, str]:
    """The headers of a new person."""
    said = {"invitation": desk(client).store.invitation, "name": name}
    response = client.post("/api/join", json=said)
    client.cookies.clear()
    assert response.status_code == 200, response.text
    return {"Authorization": f"Bearer {response.json()['code']}"}


def owner(client: TestClient) -> dict[str, str]:
    return {"Authorization": f"Bearer {desk(client).store.owner}"}


def ask(client: TestClient, who: dict[str, str]) -> dict[str, Any]:
    """What a person sees, once there is a question."""
    for _ in range(200):
        shown: dict[str, Any] = client.get("/api/question", headers=who).json()
        if shown["state"] != "waiting":
            return shown
        time.sleep(0.1)
    raise AssertionError("no question came")


def answer(client: TestClient, who: dict[str, str], word: str | None = "1") -> dict[str, Any]:
    question = ask(client, who)["question"]
    said = {"query": question["query"], "answer": word, "seconds": 1.5}
    response = client.post("/api/answer", json=said, headers=who)
    assert response.status_code == 200, response.text
    return dict(response.json())


def test_answers_of_several_people_reach_the_study(open_app: Client, tmp_path: Path) -> None:
    client = open_app(names=["milk (ml)", "sugar"])
    ann, bob = join(client, "Ann"), join(client)
    shown = ask(client, ann)
    assert [*shown["question"]["items"][0]["values"]] == ["milk (ml)", "sugar"]
    assert shown["question"]["kind"] == "duel"
    for word in ("1", "=", None, "2"):
        answer(client, ann, word)
    assert answer(client, bob)["answered"] == 1
    table = client.get("/api/export.json", headers=owner(client)).json()
    assert [(one["person"], one["seconds"]) for one in table] == [("Ann", 1.5)] * 4 + [("#2", 1.5)]
    open_app()  # what was held back for undo was told when it ended
    with Study.load(tmp_path / "study.json", read_only=True) as study:
        history = study.history
    assert history["annotator"].value_counts().to_dict() == {"Ann": 4, "#2": 1}
    assert history["answer"].isna().sum() == 1
    for one, told in zip(
        table[:2], history.loc[history.annotator == "Ann", "answer"], strict=False
    ):
        assert one["answer"] == told
    first = 1.0 if table[0]["shown"] == "1 2" else 0.0
    assert table[0]["answer"] == first


def test_an_answer_counts_once(open_app: Client) -> None:
    client = open_app()
    ann = join(client, "Ann")
    number = ask(client, ann)["question"]["query"]
    for word in ("1", "1", "2"):  # a double click, and another tab
        said = {"query": number, "answer": word}
        shown = client.post("/api/answer", json=said, headers=ann).json()
        assert shown["question"] is None or shown["question"]["query"] != number
    (row,) = [row for row in desk(client).store.given() if row.answered is not None]
    assert (row.query, row.answer) == (number, "1")


def test_the_time_taken_is_a_number(open_app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    client = open_app()
    ann, kept = join(client, "Ann"), list[Any]()
    number = ask(client, ann)["question"]["query"]
    monkeypatch.setattr(desk(client).store, "answer", lambda *told: kept.append(told[-1]))
    for seconds in ("true", "2", "-1", "NaN", "1e999", "1" * 400, "null", '"3"', "[]"):
        said = f'{{"query": {number}, "answer": "1", "seconds": {seconds}}}'
        found = client.post(
            "/api/answer", content=said, headers=ann | {"Content-Type": "application/json"}
        )
        assert found.status_code == 200
    assert [repr(one) for one in kept] == ["1.0", "2.0"] + ["None"] * 7


def test_undo_and_resuming(open_app: Client) -> None:
    client = open_app()
    ann = join(client, "Ann")
    number = ask(client, ann)["question"]["query"]
    shown = answer(client, ann)
    assert shown["can_undo"]
    back = client.post("/api/undo", json={}, headers=ann).json()
    assert (back["question"]["query"], back["answered"], back["can_undo"]) == (number, 0, False)
    later = ask(client, ann)["question"]["query"]
    client = open_app()  # the server was started again
    assert ask(client, ann)["question"]["query"] == later == number
    answer(client, ann, "2")
    assert {row.person for row in desk(client).store.given()} == {"Ann"}


def test_mounted_in_a_site(tmp_path: Path) -> None:
    with Study.create(tmp_path / "study.json", BOX, RandomPairs) as study:
        app = create_app(study, language="de")
        with TestClient(Starlette(routes=[Mount("/taste", app)])) as client:
            said = {"invitation": app.state.desk.store.invitation, "name": "Ann"}
            client.post("/taste/api/join", json=said)
            for _ in range(200):
                shown = client.get("/taste/api/question").json()
                if shown["question"]:
                    break
                time.sleep(0.1)
            said = {"query": shown["question"]["query"], "answer": "1"}
            assert client.post("/taste/api/answer", json=said).json()["answered"] == 1
            page = client.get("/taste/nowhere", headers={"Accept": "text/html"})
            assert page.status_code == 404
            assert 'data-base="/taste/"' in page.text
        app.state.desk.stop()
        app.state.desk.store.close()
        assert [done.query.annotator for done in study.strategy.history] == ["Ann"]


def test_names_that_are_in_use_in_the_study(open_app: Client, tmp_path: Path) -> None:
    with Study.create(tmp_path / "study.json", BOX, RandomPairs) as study:
        for name in ("Ann", "Bob"):  # as at a terminal, where they were not answered
            study.ask(name)
    client = open_app()
    people = {name: join(client, name) for name in ("Bob", "Ann", "next 0", "next 1", "next 2")}
    for who in (*people.values(), *people.values()):
        answer(client, who)
    open_app()
    with Study.load(tmp_path / "study.json", read_only=True) as study:
        assert dict(study.history["annotator"].value_counts()) == dict.fromkeys(people, 2)


def test_questions_of_others_fill_in_where_the_model_is_slow(open_app: Client) -> None:
    client = open_app()
    ann, bob = join(client, "Ann"), join(client, "Bob")
    number = ask(client, ann)["question"]["query"]
    desk(client).stop()  # so that nothing is asked ahead
    while desk(client)._ahead:
        del desk(client).queries[desk(client)._ahead.pop()]
    assert ask(client, bob)["question"]["query"] == number
    answer(client, ann)
    answer(client, bob, "2")
    desk(client)._tell(all_of_them=True)
    told = [(done.query.id, done.query.annotator) for done in desk(client).study.strategy.history]
    assert told == [(number, "Ann"), (number, "Bob")]
    carl = join(client, "Carl")  # what was told counts as well
    desk(client).store.forget(desk(client).store.given("Ann")[0])
    assert ask(client, carl)["question"]["query"] == number


@pytest.mark.parametrize(
    ("question", "word", "told"),
    [("best of 3", "3", 1), ("rank 3", "2 1 3", 1), ("grade 5", "4", 1)],
)
def test_other_questions(open_app: Client, question: str, word: str, told: int) -> None:
    client = open_app(strategy=EUBO, question=question)
    ann = join(client, "Ann")
    shown = ask(client, ann)
    assert len(shown["question"]["items"]) == (2 if "grade" in question else 3)
    assert answer(client, ann, word)["answered"] == told
    page = client.get("/api/question", headers={**ann, "Accept": "text/html"})
    assert page.headers["content-type"].startswith("text/html")


def test_a_planned_study_ends(open_app: Client) -> None:
    client = open_app(TABLE, lambda space: MRLPF(space=space, horizon=4))
    ann = join(client, "Ann")
    for _ in range(4):
        answer(client, ann)
    assert ask(client, ann)["state"] == "ended"
    assert desk(client).study.strategy.finished


def test_what_the_owner_sees_and_does(open_app: Client) -> None:
    client = open_app(TABLE, EUBO, per_person=3)
    ann = join(client, "Ann")
    for _ in range(3):
        answer(client, ann)
    assert ask(client, ann)["state"] == "done"
    me = owner(client)
    client.post("/api/state", json={"state": "paused"}, headers=me)
    assert ask(client, ann)["state"] == "paused"
    client.post("/api/state", json={"state": "ended"}, headers=me)
    for _ in range(500):
        found = client.get("/api/results", headers=me).json()
        if found["results"].get("told") == 3:
            break
        time.sleep(0.2)
    assert found["state"] == "ended"
    (item, *_) = found["results"]["items"]
    assert 0 < item["low"] <= item["chance"] <= item["high"] < 1
    assert 0 <= found["people"][0]["agreement"] <= 1
    page = client.get("/owner", headers=me)
    assert page.status_code == 200
    assert "data:image/svg+xml" in page.text
    assert client.get("/api/export.csv", headers=me).text.count("\n") == 4
    assert client.get("/api/export.exe", headers=me).status_code == 404


def test_what_is_refused(open_app: Client, tmp_path: Path) -> None:
    for row in range(6):
        (tmp_path / f"{row}.txt").write_text(f"<script>{row}")
    client = open_app(TABLE, media=tmp_path, files=[f"{row}.txt" for row in range(6)])
    invitation = desk(client).store.invitation
    ann, bob = join(client, "<script>alert(1)</script>"), join(client, "Bob")
    shown = ask(client, ann)  # Bob was asked nothing, as he may be asked what Ann was
    own = shown["question"]["query"]
    assert shown["question"]["items"][0]["text"].startswith("<script>")
    page = client.get("/", headers=ann)
    assert "&lt;script&gt;alert(1)" in page.text
    assert page.text.count("<script") == 1  # its own
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    for path, who, status in (
        ("/api/results", ann, 403),
        ("/owner", ann, 403),
        ("/owner/guess", {}, 404),
        ("/api/export.csv", {}, 403),
        ("/api/question", {}, 403),
        ("/api/question", owner(client), 403),
        ("/join/guess", {}, 404),
        (f"/stimulus/{own}/0", bob, 404),
        (f"/stimulus/{own}/7", ann, 404),
        ("/stimulus/../../study.json", ann, 404),
        ("/static/../words.json", {}, 404),
        ("/static/%2e%2e/words.json", {}, 404),
        ("/static/..%2f..%2fdesk.py", {}, 404),
        (f"/stimulus/{'1' * 5000}/0", ann, 414),
    ):
        assert client.get(path, headers=who).status_code == status, path
    for said, who, status in (
        ({"query": own, "answer": "1"}, bob, 400),
        ({"query": own, "answer": "3"}, ann, 400),
        ({"query": own, "answer": 1}, ann, 400),
        ({"query": True, "answer": "1"}, ann, 400),
        ({"query": 10**6, "answer": "1"}, ann, 400),
        ({"query": own, "answer": "9" * 5000}, ann, 400),
        ([], ann, 400),
        ({"query": own, "answer": "1"}, {}, 403),
    ):
        assert client.post("/api/answer", json=said, headers=who).status_code == status, said
    json_type = {"Content-Type": "application/json"}
    good = json.dumps({"query": own, "answer": "1"})
    for content, extra, status in (
        (good, {"Origin": "http://elsewhere.example"}, 403),
        (good, {"Origin": "null"}, 403),
        (good, {"Content-Type": "text/plain"}, 415),
        (good, {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (b" " * 100_000, {}, 413),
        (iter([b" " * 1000] * 20), {}, 413),  # chunks, without a length
        (good, {"Transfer-Encoding": "chunked"}, 413),  # of which the length says nothing
        (good, {"Host": "x" * 5000}, 400),
        ("[" * 9000, {}, 400),
        (b"\xff", {}, 400),
    ):
        response = client.post("/api/answer", content=content, headers=json_type | ann | extra)
        assert response.status_code == status, extra
    names = ("x" * 61, "a\u202eb", "#7", "\ud800", 7, ["x"])
    for name, status in (("BOB", 409), *((name, 400) for name in names)):
        said = json.dumps({"invitation": invitation, "name": name})
        found = client.post("/api/join", content=said, headers=json_type)
        assert found.status_code == status, name
    for code in ("guess", "\ud800", "\0", 7, ["x"]):
        said = json.dumps({"code": code})
        assert client.post("/api/join", content=said, headers=json_type).status_code == 403, code
    assert client.post("/api/join", json={"invitation": "guess", "name": "x"}).status_code == 403
    assert not [row for row in desk(client).store.given() if row.answered]
    codes = {client.get("/owner/guess").status_code for _ in range(80)}
    assert codes == {404, 429}
    assert client.post("/api/join", json={}).json() == {"error": words("en")["busy"]}
    assert {client.get("/", headers=bob).status_code for _ in range(150)} == {200, 429}


def test_files_outside_of_the_folder(open_app: Client, tmp_path: Path) -> None:
    folder = tmp_path / "media"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("x")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    for name in ("../secret.txt", str(tmp_path / "secret.txt"), "link.txt", "missing.png"):
        path = tmp_path / f"{len(name)}.json"
        with (
            Study.create(path, TABLE, RandomPairs) as study,
            pytest.raises(StudyError, match=r"row 0: .* is no file in"),
        ):
            create_app(study, media=folder, files=[name] * 6)


def test_files_that_change(open_app: Client, tmp_path: Path) -> None:
    (folder := tmp_path / "media").mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    for row in range(6):
        (folder / f"{row}.txt").write_text("Cup")
    options = {"media": folder, "files": [f"{row}.txt" for row in range(6)]}
    client = open_app(TABLE, **options)
    ann = join(client, "Ann")
    ask(client, ann)
    for row in range(6):
        (folder / f"{row}.txt").unlink()
    assert client.get("/api/question", headers=ann).status_code == 404
    for row in range(6):
        (folder / f"{row}.txt").symlink_to(tmp_path / "secret.txt")
    found = client.get("/api/question", headers=ann)
    assert (found.status_code, "secret" in found.text) == (404, False)
    (folder / "3.txt").unlink()
    for row in range(6):
        (folder / f"{row}.txt").unlink(missing_ok=True)
        (folder / f"{row}.txt").write_bytes("Käse".encode("latin-1" if row == 3 else "utf-8"))
    with pytest.raises(StudyError, match=r"`files` row 3: '3.txt' is no text in UTF-8"):
        open_app()


def test_a_study_that_cannot_be_shown(tmp_path: Path) -> None:
    with (
        Study.create(tmp_path / "a.json", BOX, COBOL) as study,
        pytest.raises(StudyError, match="COBOL, which asks not only to compare"),
    ):
        create_app(study)
    priced = partial(DuelingKG, prices={"ann": 1.0, "machine": 0.1})
    with (
        Study.create(tmp_path / "c.json", BOX, priced) as study,
        pytest.raises(StudyError, match="`study` has `prices`"),
    ):
        create_app(study)
    for _ in range(2):
        with Study.create(tmp_path / "b.json", BOX, RandomPairs) as study:
            if _ == 0:
                create_app(study).state.desk.store.close()
            else:
                with pytest.raises(StudyFileError, match="participants of another study"):
                    create_app(study)
        (tmp_path / "b.json").unlink()


def words(language: str) -> dict[str, str]:
    import botorch_pref.serve.app as app

    path = Path(app.__file__).parent / "words.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))[language])


def test_words_are_translated() -> None:
    english, german = words("en"), words("de")
    assert english.keys() == german.keys()
    same = {name for name, word in english.items() if german[name] == word}
    assert same == {"dir", "code", "export", "pause", "person"}
    for name, word in english.items():
        assert word.count("{}") == german[name].count("{}"), name


class _Texts(HTMLParser):
    """All that a page says, and what it has for those who do not see it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = ("alt", "aria-label", "title", "placeholder", "data-lost")
        self.found += [value for name, value in attrs if value and name in said]

    def handle_data(self, data: str) -> None:
        self.found.append(data)


@pytest.mark.parametrize("question", [None, "best of 3", "worst of 3", "rank 3", "grade 5"])
def test_every_word_is_in_the_file(open_app: Client, question: str | None) -> None:
    # In a language of numbers alone: what has letters is of the study, or has no translation.
    names = [name for name in words("en") if name != "dir"]
    tongue = {name: f"{{}} {place}" for place, name in enumerate(names)}
    strategy: Any = EUBO if question else RandomPairs
    number = 1 if question else 15
    client = open_app(
        strategy=strategy, question=question, words={"xx": tongue}, language="xx", per_person=number
    )
    store, ann = desk(client).store, join(client, "77")
    code = ann["Authorization"].split()[1]

    def check(path: str, who: dict[str, str], status: int = 200) -> None:
        response = client.get(path, headers=who | {"Accept": "text/html"})
        assert response.status_code == status
        own = rf"{code}|http://testserver/\S*|\bx[12]\b|\b[ABC]\b|\b[SU0P]\b|QR|CSV|JSON"
        for text in _Texts(response.text).found:
            assert not re.search(r"[^\W\d_]", re.sub(own, "", text)), text

    check(f"/join/{store.invitation}", {})
    check("/", {}, 403)
    check("/nowhere", {}, 404)
    check("/owner", ann, 403)
    check("/owner", owner(client))
    ask(client, ann)
    check("/", ann)
    for _ in range(number):
        answer(client, ann, "1 2 3" if question == "rank 3" else "1")
    check("/", ann)
    desk(client).stop()
    desk(client)._work_out()
    assert desk(client).results["leader"]["sure"] == (number > 1)
    check("/owner", owner(client))
    for state in ("paused", "ended"):
        desk(client).set_state(state)
        check("/", ann)
        check("/owner", owner(client))


def test_languages(open_app: Client) -> None:
    words = {"ar": {"dir": "rtl", "join": "انضم"}}
    client = open_app(words=words)
    path = f"/join/{desk(client).store.invitation}"
    assert 'lang="de"' in client.get(path, headers={"Accept-Language": "fr, de-AT;q=.9"}).text
    assert 'dir="rtl"' in client.get(path + "?lang=ar").text
    assert 'lang="en"' in client.get(path, headers={"Accept-Language": "xx"}).text


def test_options_are_kept(open_app: Client, tmp_path: Path) -> None:
    for row in range(6):
        (tmp_path / f"{row}.txt").write_text(f"Cup {row}")
    files = [f"{row}.txt" for row in range(6)]
    kept = {"prompt": "Which <tastes> better?", "language": "de", "per_person": 1}
    open_app(TABLE, media=tmp_path, files=files, **kept)
    client = open_app()
    ann = join(client, "Ann")
    assert ask(client, ann)["question"]["items"][0]["text"].startswith("Cup ")
    page = client.get("/?lang=en", headers={**ann, "Accept-Language": "en"}).text
    assert "Which &lt;tastes&gt; better?" in page
    assert "Überspringen" in page
    code = ann["Authorization"].split()[1]
    assert page.count(code) == 1  # for another device
    answer(client, ann)
    assert ask(client, ann)["state"] == "done"
    (moved := tmp_path / "moved").mkdir()
    for name in files:
        (tmp_path / name).rename(moved / name)
    with pytest.raises(StudyError, match=r"row 0: '0.txt' is no file in"):
        open_app()
    client = open_app(media=moved, per_person=2, prompt="Now?")
    shown = ask(client, ann)
    assert (shown["state"], shown["of"]) == ("open", 2)
    (template := tmp_path / "template.svg").write_text("<svg>{{ item.x1 }}</svg>")
    client = open_app(template=template)
    url = ask(client, ann)["question"]["items"][0]["url"]
    assert client.get(url, headers=ann).text.startswith("<svg>")
    with pytest.raises(StudyError, match=r"`language` is one of \['en', 'de'\], not 'xx'"):
        open_app(language="xx")
    client = open_app(media=moved, files=files)  # instead of the template
    assert "text" in ask(client, ann)["question"]["items"][0]
    with pytest.raises(StudyError, match="`media` needs `files`, one for each row"):
        open_app(files=files[:3])


def test_words_of_ones_own(open_app: Client) -> None:
    client = open_app(words={"de": {"join": "Los!"}, "fr": {"join": "Participer"}})
    page = client.get(f"/join/{desk(client).store.invitation}?lang=de").text
    assert "Los!" in page
    assert "Ihr Name" in page
    page = client.get(f"/join/{desk(client).store.invitation}?lang=fr").text
    assert "Participer" in page
    assert "Your name" in page


def test_the_owner_sees_that_there_is_nothing_yet(open_app: Client) -> None:
    client = open_app(strategy=EUBO)
    page = client.get("/owner", headers=owner(client))
    assert page.status_code == 200
    assert "There are no results yet." in page.text
