r"""The pages and the JSON API, an application of Starlette."""

from __future__ import annotations

import io
import json
import time
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import segno
from jinja2 import Environment, FileSystemLoader
from jinja2.sandbox import SandboxedEnvironment
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from botorch_pref.exceptions import StudyError
from botorch_pref.queries import Query
from botorch_pref.serve.desk import Desk
from botorch_pref.study.study import Study

_HERE = Path(__file__).parent
_MOST_BYTES = 10_000
_MOST_NAME = 60
_MOST_ADDRESS = 1000  # letters of a host or a path
_RATES = {"person": (120, 10.0), "join": (60, 10.0)}  # requests in seconds, of one client
_YEAR = 365 * 24 * 3600
_STATES = ("open", "paused", "ended")
_KINDS = {
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".avif"), "picture"),
    **dict.fromkeys((".mp3", ".wav", ".ogg", ".flac", ".m4a", ".opus"), "sound"),
    **dict.fromkeys((".mp4", ".webm", ".mov"), "video"),
    ".txt": "text",
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' data:; media-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
# What was given to show may be an SVG picture, and so have a script.
_OF_MEDIA = {"Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'"}


def create_app(
    study: Study,
    *,
    files: Sequence[str] | None = None,
    media: Path | None = None,
    template: Path | None = None,
    prompt: str | None = None,
    per_person: int | None = None,
    language: str | None = None,
    database: str | None = None,
    words: Mapping[str, Mapping[str, str]] | None = None,
) -> Starlette:
    r"""The application, to be run by uvicorn or mounted in a site of your own.

    Its state has ``desk``, with the codes ``desk.store.owner`` and ``desk.store.invitation``: the
    page of the study's owner is ``owner/CODE``, people join by ``join/CODE``. The study is in the
    application's hands while it runs, in one process; see the page on the JSON API. A site in which
    it is mounted calls ``desk.stop()`` at its end, before the study is closed. Options other than
    ``database`` and ``words`` are kept: what is not given is as it was the last time.

    Args:
        study: A study open for writing, of a strategy that compares.
        files: Of each row of the choices the file in ``media`` that is shown: a picture, a sound, a
            video or a ``.txt`` file. By default a table of the item's values is shown.
        media: The folder of these files.
        template: Instead: a template of Jinja for an SVG picture, which is given the item's values
            as ``item["milk"]``.
        prompt: What people are asked, as "Which tastes better?"; by default a general question.
        per_person: How many questions a person answers; any number by default.
        language: That of all pages, as ``"de"``; by default what each browser asks for.
        database: The URL of a database for people and their answers, such as
            ``"postgresql+psycopg://user:password@host/name"``, with the packages that SQLAlchemy
            needs for it; by default an SQLite file beside the study.
        words: Languages beside English and German, with the words of ``words.json``, or other
            words of these two.

    Raises:
        StudyError: If the study does not compare items, a file is not in the folder, or the
            language is not known.
        StudyFileError: If the database is of another study, or cannot be used.
    """
    desk = Desk(study, database)
    known = json.loads((_HERE / "words.json").read_text(encoding="utf-8"))
    for name, own in (words or {}).items():
        known[name] = known["en"] | known.get(name, {}) | dict(own)
    given = {
        "files": None if files is None else [*files],
        "media": None if media is None else str(media.absolute()),
        "template": None if template is None else str(template.absolute()),
        "prompt": prompt,
        "per_person": per_person,
        "language": language,
    }
    try:
        options = dict.fromkeys(given) | desk.store.setting("options", {})
        options |= {name: value for name, value in given.items() if value is not None}
        if files is not None:  # instead of a template
            options["template"] = given["template"]
        if options["language"] not in (None, *known):
            raise StudyError(f"`language` is one of {[*known]}, not {options['language']!r}.")
        pages = _Pages(desk, _Stimuli(desk, options), known, options)
    except BaseException:
        desk.store.close()
        raise
    desk.store.set("options", options)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        desk.start()
        yield
        await run_in_threadpool(desk.stop)
        desk.store.close()

    routes = [
        Route("/", pages.answer_page, name="answer"),
        Route("/join/{code}", pages.join_page, name="join"),
        Route("/owner/{code}", pages.owner_enters),
        Route("/owner", pages.owner_page, name="owner"),
        Route("/stimulus/{query:int}/{place:int}", pages.stimulus, name="stimulus"),
        Route("/api/join", pages.join, methods=["POST"], name="api"),
        Route("/api/question", pages.question),
        Route("/api/answer", pages.answer, methods=["POST"]),
        Route("/api/undo", pages.undo, methods=["POST"]),
        Route("/api/state", pages.set_state, methods=["POST"]),
        Route("/api/results", pages.results),
        Route("/api/export.{form}", pages.export, name="export"),
        Mount("/static", StaticFiles(directory=_HERE / "static"), name="static"),
    ]
    handlers: Any = {HTTPException: pages.refused}
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers)
    app.add_middleware(_Guard)
    app.state.desk = desk
    return app


class _Guard:
    """Headers on all responses; addresses are short, posts small, JSON, and of no other site."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)

        scope["app"].state.desk.start()  # where it is mounted, its lifespan is not run

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if (refused := self._refusal(Request(scope))) is not None:
            return await refused(scope, receive, with_headers)
        return await self.app(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Response | None:
        own = request.headers.get("host", "")
        if len(own) > _MOST_ADDRESS:
            return JSONResponse({"error": "no such host"}, 400)
        if len(request.scope["path"]) > _MOST_ADDRESS:
            return JSONResponse({"error": f"more than {_MOST_ADDRESS} letters"}, 414)
        if request.method in ("GET", "HEAD"):
            return None
        length = request.headers.get("content-length", "")
        chunked = "transfer-encoding" in request.headers  # and as long as it likes
        if chunked or not length.isdigit() or int(length) > _MOST_BYTES:
            return JSONResponse({"error": f"more than {_MOST_BYTES} bytes, or no length"}, 413)
        # Browsers send such a post to another site only if that allows it, which this one does not.
        if request.headers.get("content-type", "").split(";")[0] != "application/json":
            return JSONResponse({"error": "not application/json"}, 415)
        origin = request.headers.get("origin")
        if origin is not None and origin.partition("://")[2] != own:
            return JSONResponse({"error": "from another site"}, 403)
        return None


class _Stimuli:
    """What is shown of an item."""

    def __init__(self, desk: Desk, options: Mapping[str, Any]) -> None:
        self.desk, self.paths, self.template = desk, list[Path](), None
        if options["template"] is not None:
            text = Path(options["template"]).read_text(encoding="utf-8")
            self.template = SandboxedEnvironment(autoescape=True).from_string(text)
        elif options["files"] is not None or options["media"] is not None:
            self.paths = _checked(desk, options["files"], options["media"])

    def kind(self, query: Query, place: int) -> str:
        """One of picture, sound, video, text and table."""
        if self.template is not None:
            return "picture"
        return _KINDS[self._path(query, place).suffix.lower()] if self.paths else "table"

    def text(self, query: Query, place: int) -> str:
        """The text of a text file."""
        return self._path(query, place).read_text(encoding="utf-8", errors="replace")

    def response(self, query: Query, place: int) -> Response:
        """The picture, sound or video."""
        if self.template is not None:
            item = query.items[query.shown[place]]
            pairs = zip(self.desk.study.dimensions, item.tolist(), strict=True)
            values = {one.name: one.value(number) for one, number in pairs}
            svg = self.template.render(item=values)
            return Response(svg, media_type="image/svg+xml", headers=_OF_MEDIA)
        if not self.paths:
            raise HTTPException(404)
        return FileResponse(self._path(query, place), headers=_OF_MEDIA)

    def _path(self, query: Query, place: int) -> Path:
        assert query.row_indices is not None
        path = self.paths[query.row_indices[query.shown[place]]]
        if path.resolve() != path or not path.is_file():  # any more
            raise HTTPException(404)
        return path


def _checked(desk: Desk, files: Sequence[str] | None, media: str | None) -> list[Path]:
    choices = desk.study.space.choices
    if files is None or media is None or choices is None or len(files) != len(choices):
        raise StudyError("`media` needs `files`, one for each row of the choices.")
    folder, paths = Path(media).resolve(), []
    for row, name in enumerate(files):
        path = (folder / name).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise StudyError(f"`files` row {row}: {name!r} is no file in {media!r}.")
        if path.suffix.lower() not in _KINDS:
            raise StudyError(f"`files` row {row}: {name!r} is of no kind that can be shown.")
        if _KINDS[path.suffix.lower()] == "text":
            try:
                path.read_text(encoding="utf-8")
            except UnicodeDecodeError as error:
                raise StudyError(f"`files` row {row}: {name!r} is no text in UTF-8.") from error
        paths.append(path)
    return paths


class _Pages:
    """The handlers of all routes."""

    def __init__(
        self,
        desk: Desk,
        stimuli: _Stimuli,
        words: Mapping[str, Mapping[str, str]],
        options: Mapping[str, Any],
    ) -> None:
        self.desk, self.store, self.stimuli, self.words = desk, desk.store, stimuli, words
        desk.per_person = options["per_person"]
        self.prompt, self.language = options["prompt"], options["language"]
        self.html = Environment(
            loader=FileSystemLoader(_HERE / "pages"), autoescape=True, trim_blocks=True
        )
        self._times: dict[tuple[str, str], deque[float]] = {}

    async def refused(self, request: Request, error: HTTPException) -> Response:
        """What to do instead, as a page or as JSON."""
        busy = self._words(request)["busy"] if error.status_code == 429 else None
        if "text/html" in request.headers.get("accept", ""):
            return self._page(request, "join.html", error.status_code, invitation=None, busy=busy)
        return JSONResponse({"error": busy or error.detail}, error.status_code)

    async def join_page(self, request: Request) -> Response:
        """Who was invited gives a name, or a code they have."""
        self._limit(request, "join")
        if request.path_params["code"] != self.store.invitation:
            raise HTTPException(404)
        return self._page(request, "join.html", invitation=self.store.invitation)

    async def join(self, request: Request) -> Response:
        """Join with the invitation and a name, or take up with a code."""
        self._limit(request, "join")
        said = await _body(request)
        own = said.get("code")
        if own is None:
            if said.get("invitation") != self.store.invitation:
                return JSONResponse({"error": "no invitation"}, 403)
            name = said.get("name") or ""
            name = " ".join(name.split()) if isinstance(name, str) else "#"
            if len(name) > _MOST_NAME or not name.isprintable() or name.startswith("#"):
                return JSONResponse({"error": self._words(request)["bad_name"]}, 400)
            if (own := self.store.join(name)) is None:
                return JSONResponse({"error": self._words(request)["taken"]}, 409)
        own = str(own).strip().lower()
        if (person := self.store.person(own)) is None:
            return JSONResponse({"error": self._words(request)["unknown_code"]}, 403)
        response = JSONResponse({"code": own, "name": person})
        return _with_cookie(request, response, "person", own)

    async def answer_page(self, request: Request) -> Response:
        """The page of a person, with their question."""
        person = self._known(request)
        code = _code_of(request, "person")
        return self._page(request, "answer.html", code=code, **self._shown(request, person))

    async def question(self, request: Request) -> Response:
        """The question of a person."""
        return self._next(request, self._known(request))

    async def answer(self, request: Request) -> Response:
        """Save an answer, and return the next question."""
        person, said = self._known(request), await _body(request)
        word, number, seconds = said.get("answer"), said.get("query"), said.get("seconds")
        fits = type(number) is int and (word is None or isinstance(word, str))
        taken = isinstance(seconds, int | float) and 0 <= seconds < 1e6
        seconds = float(seconds) if taken else None  # type: ignore[arg-type]  # true is a number
        if not fits or not self.desk.answer(person, number, word, seconds):  # type: ignore[arg-type]
            return JSONResponse({"error": "no answer to a question of yours"}, 400)
        return self._next(request, person)

    async def undo(self, request: Request) -> Response:
        """Take back the last answer, and return its question."""
        person = self._known(request)
        self.store.undo(person)
        return self._next(request, person)

    async def stimulus(self, request: Request) -> Response:
        """A picture, sound or video of a question of this person."""
        person, number = self._known(request), request.path_params["query"]
        query = self.desk.queries.get(number)
        given = {row.query for row in self.store.given(person)}
        if query is None or number not in given or request.path_params["place"] >= len(query.rows):
            raise HTTPException(404)
        return self.stimuli.response(query, request.path_params["place"])

    async def owner_enters(self, request: Request) -> Response:
        """Keep the owner's code as a cookie, and out of the address."""
        self._limit(request, "join")
        if request.path_params["code"] != self.store.owner:
            raise HTTPException(404)
        response = RedirectResponse(request.url_for("owner").path, 303)
        return _with_cookie(request, response, "owner", self.store.owner)

    async def owner_page(self, request: Request) -> Response:
        """Results, people, and what the owner can do."""
        self._check_owner(request)
        link = str(request.url_for("join", code=self.store.invitation))
        picture = segno.make(link, error="m").svg_data_uri(scale=5, border=2)
        name = "results.html" if "part" in request.query_params else "owner.html"
        return self._page(request, name, link=link, qr=picture, **self._results())

    async def results(self, request: Request) -> Response:
        """The same as JSON."""
        self._check_owner(request)
        return JSONResponse(self._results())

    async def export(self, request: Request) -> Response:
        """All answers as CSV or JSON."""
        self._check_owner(request)
        table, form = self.desk.export(), request.path_params["form"]
        if form == "csv":
            text = io.StringIO()
            table.map(_harmless).to_csv(text, index=False)
            content, kind = text.getvalue(), "text/csv"
        elif form == "json":
            content, kind = table.to_json(orient="records"), "application/json"
        else:
            raise HTTPException(404)
        name = f"attachment; filename=answers.{form}"
        return Response(content, media_type=kind, headers={"Content-Disposition": name})

    async def set_state(self, request: Request) -> Response:
        """Open, pause or end the study."""
        self._check_owner(request)
        state = (await _body(request)).get("state")
        if state not in _STATES:
            return JSONResponse({"error": f"`state` is one of {_STATES}"}, 400)
        self.desk.set_state(state)
        return JSONResponse(self._results())

    def _results(self) -> dict[str, Any]:
        there, found = self.desk.there(), self.desk.results
        people = [
            {
                "name": name,
                "answers": self.desk.answered(name),
                "there": name in there,
                "agreement": found.get("agreement", {}).get(name),
            }
            for name in self.store.people()
        ]
        total = sum(int(one["answers"]) for one in people)
        return {"state": self.desk.state, "answers": total, "people": people, "results": found}

    def _shown(self, request: Request, person: str) -> dict[str, Any]:
        """What a person is shown, as the API returns it."""
        state, query = self.desk.question(person)
        shown: dict[str, Any] = {
            "state": state,
            "name": person,
            "answered": self.desk.answered(person),
            "of": self.desk.per_person,
            "can_undo": self.desk.can_undo(person),
            "question": None,
        }
        if query is not None:
            items = []
            for place, values in enumerate(self.desk.items(query)):
                item: dict[str, Any] = {"shows": self.stimuli.kind(query, place)}
                if item["shows"] == "table":
                    item["values"] = values
                elif item["shows"] == "text":
                    item["text"] = self.stimuli.text(query, place)
                else:
                    item["url"] = request.url_for("stimulus", query=query.id, place=place).path
                items.append(item)
            shown["question"] = {
                "query": query.id,
                "kind": query.kind,
                "items": items,
                "grades": getattr(query, "num_grades", None),
            }
        return shown

    def _next(self, request: Request, person: str) -> Response:
        shown = self._shown(request, person)
        if "text/html" in request.headers.get("accept", ""):
            return self._page(request, "question.html", **shown)
        return JSONResponse(shown)

    def _page(self, request: Request, file: str, status: int = 200, **values: Any) -> Response:
        page = self.html.get_template(file).render(
            w=self._words(request),
            title=self.desk.study.description,
            prompt=self.prompt,
            base=request.url_for("answer").path,
            **values,
        )
        return HTMLResponse(page, status)

    def _words(self, request: Request) -> Mapping[str, str]:
        """The words in the first language that the browser asks for and that there is."""
        said = request.query_params.get("lang", request.headers.get("accept-language", ""))
        asked = [part.split(";")[0].strip().split("-")[0].lower() for part in said.split(",")]
        asked = [self.language] if self.language is not None else asked
        language = next((one for one in asked if one in self.words), "en")
        return {**self.words[language], "lang": language}

    def _person(self, request: Request) -> str | None:
        return self.store.person(_code_of(request, "person"))

    def _known(self, request: Request) -> str:
        self._limit(request, "person")
        if (person := self._person(request)) is None:
            raise HTTPException(403)
        return person

    def _check_owner(self, request: Request) -> None:
        self._limit(request, "join")
        if _code_of(request, "owner") != self.store.owner:
            raise HTTPException(403)

    def _limit(self, request: Request, what: Literal["person", "join"]) -> None:
        """Refuse more requests of one client than a person makes."""
        most, seconds = _RATES[what]
        client = request.client.host if request.client else ""
        key = what, _code_of(request, "person") if self._person(request) else client
        now = time.monotonic()
        if len(self._times) > 10_000:
            self._times.clear()
        times = self._times.setdefault(key, deque())
        while times and times[0] < now - seconds:
            times.popleft()
        if len(times) >= most:
            raise HTTPException(429)
        times.append(now)


def _code_of(request: Request, who: str) -> str:
    """The code that a client gives in a header, or a browser as a cookie."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given if scheme.lower() == "bearer" else request.cookies.get(who, "")


def _with_cookie(request: Request, response: Response, who: str, own: str) -> Response:
    response.set_cookie(
        who, own, _YEAR, httponly=True, samesite="lax", secure=request.url.scheme == "https",
        path=request.url_for("answer").path,
    )  # fmt: skip
    return response


async def _body(request: Request) -> dict[str, Any]:
    try:
        said = await request.json()
    except (ValueError, RecursionError):
        raise HTTPException(400) from None
    if not isinstance(said, dict):
        raise HTTPException(400)
    return said


def _harmless(value: Any) -> Any:
    """A text that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@") else value
