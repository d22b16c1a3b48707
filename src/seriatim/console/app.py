"""`create_app`: the console as an ASGI application, to be run alone or inside another one."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from importlib.resources import files
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode

from jinja2 import Environment
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Route

from seriatim.box.box import MessageBox
from seriatim.console import acting
from seriatim.console.bulk_work import BulkWork
from seriatim.console.causes import actions_of, causes_of, costs_of, failures_in, filter_of
from seriatim.console.filters import QUEUE, check_known, check_values
from seriatim.console.guard import HEADERS, Refusal, Rules
from seriatim.console.html import environment
from seriatim.console.live import Looks, Poller
from seriatim.console.page import Answer, Asked, Page, address, segments_of
from seriatim.console.pages import pages
from seriatim.console.pipelines import Pipelines
from seriatim.console.rejected import Rejected
from seriatim.console.told import Told
from seriatim.console.who import Actor, Identify, Unknown, Welcome
from seriatim.errors import ActionRefused, EnvironmentProblem, NotFound, SeriatimError, Unavailable, UsageError
from seriatim.kernel.groups.verbs import VERBS
from seriatim.listening.bodies import Gone, RequestRefused, body_of
from seriatim.listening.paths import matched
from seriatim.listening.threads import Busy
from seriatim.network import SILENT_S
from seriatim.operations.tables.table import as_json
from seriatim.pipeline.text.event_log import LOG

#: A form has at most so many bytes (an edited body is at most a quarter of a megabyte, and percent signs take three), and so many fields.
_MOST_BYTES, _MOST_FIELDS = 1024 * 1024, 100
_LONGEST_QUERY = 16 * 1024
#: How the name of a field begins whose value is in percent signs once more.
_QUOTED = "quoted_"
_TYPES = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}
_SECTIONS = ("Work", "Messages", "Box")
#: What everybody may ask, because it says nothing of the box.
_HEALTH = (["healthz"], ["readyz"])


def create_app(
    box: MessageBox,
    *,
    identify: Identify,
    prefix: str = "",
    hosts: Collection[str] = (),
    origins: Collection[str] = (),
    reads_only: bool = False,
    pipelines: Sequence[Path] = (),
) -> Starlette:
    if prefix and (
        not prefix.startswith("/") or prefix.endswith("/") or "//" in prefix or "?" in prefix or "#" in prefix
    ):
        raise UsageError(f"the prefix can't be {prefix!r}", remedy="such as /seriatim")
    console = _Console(box, identify, prefix, Rules(hosts, origins), Pipelines(pipelines), reads_only=reads_only)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if not reads_only:
            console.bulk.wake()  # it goes on with what another process has left
        yield
        console.poller.end()
        await run_in_threadpool(console.bulk.end)

    every = Route("/", console.answer, methods=["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
    every.path_regex = re.compile("/")  # its own paths have no ends of lines, as keys of groups may have
    app = Starlette(routes=[every], lifespan=lifespan)
    app.state.poller = console.poller
    app.state.health = [f"{prefix}/{one}" for (one,) in _HEALTH] + [f"/{one}" for (one,) in _HEALTH]
    return app


class _Console:
    def __init__(
        self, box: MessageBox, identify: Identify, prefix: str, rules: Rules, pipelines: Pipelines, *, reads_only: bool
    ) -> None:
        self._box = box
        self._identify = identify
        self._prefix = prefix
        self._rules = rules
        self._reads_only = reads_only
        self._looks = Looks(box)
        self._told = Told(box)
        self._pipelines = pipelines
        self.poller = Poller(box, self._looks, pipelines)
        self.bulk = BulkWork(box)
        self._pages = pages()
        self._static = _static_files()
        self._templates = self._environment()

    def _environment(self) -> Environment:
        found = environment(self._looks.now)
        version = {name: sha256(body).hexdigest()[:12] for name, (body, _) in self._static.items()}
        found.globals |= {
            "url": self._url,
            "static": lambda name: address(self._prefix, ["static", *name.split("/")], {"v": version[name]}),
            "menu": [
                (
                    one,
                    sorted(
                        (page for page in self._pages if page.section == one and self._is_shown(page)),
                        key=lambda page: (page.place, page.title),
                    ),
                )
                for one in _SECTIONS
            ],
            "costs_of": costs_of,
            "verbs": VERBS,
            "actions_of": actions_of,
            "failures_in": failures_in,
            "place": self._box.access.place,
        }
        return found

    def _url(self, *parts: object, _suffix: str = "", **query: object) -> str:
        """An address; a last part that is a mapping is further names and values of its query."""
        if parts and isinstance(parts[-1], Mapping):
            query = dict(parts[-1]) | query
            parts = parts[:-1]
        return address(self._prefix, [*map(str, parts)], query, suffix=_suffix)

    def _is_shown(self, page: Page) -> bool:
        return bool(self._pipelines.names) or not page.of_pipelines

    # ---- a request

    async def answer(self, request: Request) -> Response:
        """Answer a request; every error is a page that says what to do, or an object of JSON where JSON was asked for."""
        request.state.actor = None
        try:
            response = await self._answered(request)
        except Welcome as welcome:
            response = self._welcomed(request, welcome)
        except (ClientDisconnect, Gone):
            response = Response(status_code=400)
        except Exception as error:  # noqa: BLE001 -- the person gets a page, and the log the reason
            response = self._failed(request, error)
        return self._with_headers(response)

    async def _answered(self, request: Request) -> Response:
        self._rules.check(request)
        parts, wants_json = segments_of(self._path_of(request))
        if parts in _HEALTH and request.method in ("GET", "HEAD"):
            return await self._told.health(parts[0])
        if parts[0] == "static" and request.method in ("GET", "HEAD"):
            return self._static_file(parts[1:], request, wants_json=wants_json)
        request.state.actor = actor = await self._actor_of(request)
        return await self._routed(request, parts, actor, wants_json=self._wants_json(request))

    def _failed(self, request: Request, error: Exception) -> Response:
        headers = {}
        match error:
            case Unknown():
                status, what, remedy = (403 if error.challenge is None else 401), error.why, ""
                if error.challenge is not None:
                    headers["www-authenticate"] = error.challenge
            case Refusal():
                status, what, remedy = error.status, error.what, error.remedy
            case SeriatimError():
                status, what, remedy = _status_of(error), error.what, error.remedy
            case Busy():
                status, what, remedy = 503, "too many ask at once", "ask again in a moment"
                headers["retry-after"] = "1"
            case _:
                status, what, remedy = 500, "the page failed", "the log of the console says why"
        if status == 500:
            _log_failure(request, error)
        response = self._failure(status, what, remedy, request.state.actor, wants_json=self._wants_json(request))
        response.headers.update(headers)
        return response

    def _wants_json(self, request: Request) -> bool:
        return self._path_of(request).endswith(b".json") or "application/json" in request.headers.get("accept", "")

    async def _actor_of(self, request: Request) -> Actor:
        if not iscoroutinefunction(self._identify):
            found = await run_in_threadpool(self._identify, request)
            return await found if isinstance(found, Awaitable) else found
        return await self._identify(request)

    def _welcomed(self, request: Request, welcome: Welcome) -> Response:
        """The same address without what nobody should see in it, and a cookie in its place."""
        query = [pair for pair in request.query_params.multi_items() if pair[0] != "token"]
        path = self._path_of(request).decode("ascii").lstrip("/")
        asked = f"?{urlencode(query)}" if query else ""
        response = RedirectResponse(f"{self._prefix}/{path}{asked}", 303)
        response.set_cookie(
            welcome.name, welcome.value, path=self._prefix or "/", httponly=True, samesite="lax", secure=request.url.scheme == "https"
        )  # fmt: skip
        return response

    def _path_of(self, request: Request) -> bytes:
        """The path as it was sent, without the prefix."""
        raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
        raw = raw.partition(b"?")[0]
        mark = self._prefix.encode()
        if mark and (raw == mark or raw.startswith(mark + b"/") or raw == mark + b".json"):
            raw = raw[len(mark) :] or b"/"
        return raw

    async def _routed(self, request: Request, parts: list[str], actor: Actor, *, wants_json: bool) -> Response:
        if len(request.scope["query_string"]) > _LONGEST_QUERY:
            raise Refusal(414, "the address is too long")
        if request.method == "POST":
            form = await _form_of(request)
            answer = await run_in_threadpool(self._posted, parts, form, actor, wants_json=wants_json)
            self._looks.recount()
            return answer
        if parts in (["metrics"], ["live"]) and "see" not in actor.roles:
            raise Refusal(403, f"{actor.name} may not look")
        if parts == ["metrics"]:
            return await run_in_threadpool(self._told.metrics, request.headers.get("accept", ""))
        if parts == ["live"]:
            headers = {"x-accel-buffering": "no"}
            return StreamingResponse(self.poller.stream(), media_type="text/event-stream", headers=headers)
        query = _pairs(request.scope["query_string"].decode("ascii", "replace"))
        return await run_in_threadpool(self._page, parts, query, actor, wants_json=wants_json)

    def _page(self, parts: list[str], query: dict[str, str], actor: Actor, *, wants_json: bool) -> Response:
        if parts == ["bulk"]:
            lot = acting.lot_of(query.get("what", ""), query.get("action", ""))
            check_known(["what", "action", *lot.filters], query)
            return self._preview(query, actor, wants_json=wants_json)
        if len(parts) == 3 and parts[0] == "groups" and "see" in actor.roles:
            its_queue = self._box.definitions().queues.get(parts[1])
            if its_queue is not None and not its_queue.has_groups:  # each of its messages stands still by itself
                where, suffix = {"queue": parts[1], "group": parts[2]}, ".json" if wants_json else ""
                return RedirectResponse(address(self._prefix, ["messages"], where, suffix=suffix), 303)
        if (found := self._found(parts)) is not None:
            return self._shown(*found, query, actor, wants_json=wants_json)
        if len(parts) == 2 and parts[0] == "groups" and "see" in actor.roles:  # a group's address without its key
            check_values(self._box, [QUEUE], {"queue": parts[1]})
            suffix = ".json" if wants_json else ""
            return RedirectResponse(address(self._prefix, ["groups"], {"queue": parts[1], **query}, suffix=suffix), 303)
        raise Refusal(404, "there is no such page", "the menu has all pages")

    def _found(self, parts: Sequence[str]) -> tuple[Page, dict[str, str]] | None:
        """The page with an address, and the named parts of the address."""
        for page in self._pages:
            for path in page.paths:
                if (named := matched(path, parts)) is not None:
                    return page, named
        return None

    def _shown(
        self, page: Page, named: Mapping[str, str], query: Mapping[str, str], actor: Actor, *, wants_json: bool,
        status: int = 200, more: Mapping[str, Any] | None = None,
    ) -> Response:  # fmt: skip
        if page.role not in actor.roles:
            raise Refusal(403, f"{actor.name} may not look", f"it needs the role {page.role}")
        asked = Asked(
            self._box, actor, named, query, self._reads_only, self._looks, self.bulk, self._pipelines, wants_json
        )
        try:
            if page.fields:
                check_known([*(one.name for one in page.fields), *page.takes, "limit"], query)
                check_values(self._box, page.fields, query)
            found = page.read(asked)
        except (UsageError, Refusal) as error:
            refused = _refusal_of(error)
            if wants_json or more or not page.fields or not query:
                raise refused from None
            return self._unread(page, asked, refused)
        if wants_json:
            return _json(found.twin, status)
        values = self._values(page, asked, found) | dict(found.values) | dict(more or {})
        return _html(self._templates.get_template(page.template).render(values), status)

    def _unread(self, page: Page, asked: Asked, refused: Refusal) -> Response:
        """A page whose filter can't be used: the filter as it was typed, and what is wrong with it."""
        values = self._values(page, asked, Answer(None)) | {"refusal": refused, "is_live": False}
        return _html(self._templates.get_template("unread.html").render(values), refused.status)

    def _values(self, page: Page, asked: Asked, found: Answer) -> dict[str, Any]:
        query = {name: value for name, value in asked.query.items() if value}
        at = self._parts_of(page, asked)

        def here(suffix: str = "", query: Mapping[str, str] | None = None) -> str:
            return address(self._prefix, at, query, suffix=suffix)

        return {
            "page": page, "at": at, "title": found.title or page.title, "asked": asked, "listing": found.listing,
            "fields": page.fields, "about": found.about, "twin": here(suffix=".json", query=query),
            "here": here(query=query), "actor": asked.actor, "reads_only": self._reads_only, "is_live": True,
            "refusal": None, "rejected": None,
        }  # fmt: skip

    @staticmethod
    def _parts_of(page: Page, asked: Asked) -> list[str]:
        for path in page.paths:
            names = [one[1:-1] for one in path.split("/") if one.startswith("{")]
            if set(names) == set(asked.named):
                return [asked.named[one[1:-1]] if one.startswith("{") else one for one in path.split("/")]
        raise AssertionError(page.paths)

    # ---- acting

    def _posted(self, parts: list[str], form: dict[str, str], actor: Actor, *, wants_json: bool) -> Response:
        if parts == ["act"]:
            return self._act(form, actor, wants_json=wants_json)
        if parts == ["bulk"]:
            try:
                return self._act_on_many(form, actor, wants_json=wants_json)
            except (UsageError, Refusal) as error:
                refused = _refusal_of(error)
                if wants_json:
                    raise refused from None
                return self._preview_again(form, actor, Rejected(refused, form))
        raise Refusal(405, "nothing is changed here")

    def _act_on_many(self, form: dict[str, str], actor: Actor, *, wants_json: bool) -> Response:
        if form.get("gather"):
            gathered = acting.gather(self._box, actor, form, reads_only=self._reads_only)
            if wants_json:
                return _json(gathered.twin, 200)
            return RedirectResponse(address(self._prefix, gathered.back), 303)
        what = form.get("what", "")
        done = acting.many(self._box, actor, what, form.get("do", ""), form, reads_only=self._reads_only)
        if done.operation is not None and done.operation.left:
            self.bulk.wake()
        told = acting.told(done)
        if wants_json:
            twin: dict[str, Any] = {
                "done": done.done,
                "refused": done.refused,
                "changed": len(done.changed),
                "gone": done.gone,
            }
            if done.operation is not None:
                twin |= {"bulk_id": done.operation.bulk_id, "left": done.operation.left}
            return _json(twin, 200)
        queue = form.get("queue") or None
        causes = [] if what != "groups" else causes_of(self._box, queue)
        at = {} if queue is None else {"queue": queue}
        left = [(one, at | filter_of(one)) for one in causes]
        return self._rendered(
            "done.html", told, actor, many=done, told=told, what=what, causes=left, queue=queue, asked=None
        )

    def _act(self, form: dict[str, str], actor: Actor, *, wants_json: bool) -> Response:
        try:
            done = acting.act(self._box, actor, form, pipelines=self._pipelines, reads_only=self._reads_only)
            if done.wakes:
                self.bulk.wake()
        except (UsageError, Unavailable, EnvironmentProblem, Refusal) as error:
            refused = _refusal_of(error, 422)
            if wants_json:
                raise refused from None
            return self._again(form, actor, Rejected(refused, form))
        if wants_json:
            return _json(done.twin if done.twin is not None else {"done": done.told}, 200)
        return RedirectResponse(address(self._prefix, done.back, done.query), 303)

    def _again(self, form: dict[str, str], actor: Actor, rejected: Rejected) -> Response:
        """The page with the form that was refused, as it is now, with the reason and with what was typed."""
        try:
            page, named, query = self._page_of(form)
            # Its address is that of the form, at which nothing is to be loaded anew.
            more = {"refusal": rejected, "rejected": rejected, "is_live": False}
            return self._shown(page, named, query, actor, wants_json=False, status=rejected.status, more=more)
        except (SeriatimError, Refusal):
            return self._alone(rejected, actor)

    def _preview_again(self, form: dict[str, str], actor: Actor, rejected: Rejected) -> Response:
        try:
            query = form | {"action": form.get("do", "")}
            return self._preview(query, actor, wants_json=False, rejected=rejected)
        except (SeriatimError, Refusal):
            return self._alone(rejected, actor)

    def _alone(self, rejected: Rejected, actor: Actor) -> Response:
        """A form that was refused and whose page can't be shown: what was typed isn't lost with it."""
        return self._rendered(
            "error.html", rejected.what, actor, status=rejected.status, what=rejected.what, remedy=rejected.remedy, rejected=rejected
        )  # fmt: skip

    def _page_of(self, form: Mapping[str, str]) -> tuple[Page, dict[str, str], dict[str, str]]:
        """The page on which a form stands, as the form says; otherwise that of its group."""
        at = form.get("page", "")
        if not at and "group" in form:
            of = ("pipelines", form["pipeline"]) if "pipeline" in form else ()
            at = address(self._prefix, (*of, "groups", form.get("queue", ""), form["group"]))
        if not at:
            raise Refusal(404, "there is no such page")
        path, _, asked = at.removeprefix(self._prefix).partition("?")
        parts, _ = segments_of(path.encode())
        query = _pairs(asked)
        query.pop("done", None)
        if (found := self._found(parts)) is None:
            raise Refusal(404, "there is no such page")
        return *found, query

    def _preview(
        self, query: dict[str, str], actor: Actor, *, wants_json: bool, rejected: Rejected | None = None
    ) -> Response:
        what, action = query.get("what", ""), query.get("action", "")
        if self._reads_only:
            raise Refusal(403, "this console is read-only, and nothing was done", "start one without --read-only")
        found = acting.preview(self._box, actor, what, action, query)
        given = {name: query[name] for name in found.lot.filters if query.get(name)}
        if wants_json:
            named = [found.lot.name(one) for one in found.found]
            left_out = [[*found.lot.name(one), why] for one, why in found.left_out]
            return _json({"action": action, "found": named, "left_out": left_out, "seen": found.token}, 200)
        title = f"{action.replace('_', ' ').capitalize()} many?"
        status, refusal = (rejected.status, rejected) if rejected else (200, None)
        return self._rendered(
            "preview.html", title, actor, status=status, it=found, what=what, given=given, refusal=refusal, rejected=rejected
        )  # fmt: skip

    def _rendered(self, name: str, title: str, actor: Actor | None, **values: Any) -> Response:
        status = values.pop("status", 200)
        base: dict[str, Any] = dict.fromkeys(("page", "twin", "here", "refusal", "rejected"))
        base |= {"title": title, "actor": actor, "reads_only": self._reads_only, "is_live": False}
        return _html(self._templates.get_template(name).render(base | values), status)

    # ---- what goes wrong

    def _failure(self, status: int, what: str, remedy: str, actor: Actor | None, *, wants_json: bool) -> Response:
        if wants_json:
            return _json({"error": what, "remedy": remedy}, status)
        return self._rendered("error.html", what, actor, status=status, what=what, remedy=remedy)

    def _static_file(self, parts: list[str], request: Request, *, wants_json: bool) -> Response:
        name = "/".join(parts) + (".json" if wants_json else "")
        if name not in self._static:
            raise Refusal(404, "there is no such file")
        body, kind = self._static[name]
        tag = f'"{sha256(body).hexdigest()[:16]}"'
        headers = {"etag": tag, "cache-control": "public, max-age=31536000, immutable", "content-type": kind}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(body, headers=headers)

    @staticmethod
    def _with_headers(response: Response) -> Response:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response


def _log_failure(request: Request, error: Exception) -> None:
    path = str(request.scope.get("raw_path"))
    LOG.error("page_failed", exc_info=error, path=path, _method=request.method)


def _refusal_of(error: SeriatimError | Refusal, usual: int = 400) -> Refusal:
    return error if isinstance(error, Refusal) else Refusal(_status_of(error, usual), error.what, error.remedy)


def _status_of(error: SeriatimError, usual: int = 400) -> int:
    match error:
        case ActionRefused():
            return 409
        case NotFound():
            return 404
        case UsageError():
            return usual
        case EnvironmentProblem():
            return 403
        case Unavailable():
            return 503
    return 500


async def _form_of(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise Refusal(415, "this is no form", "send application/x-www-form-urlencoded")
    length = request.headers.get("content-length", "")
    try:
        body = await body_of(
            request.receive,
            length=int(length) if length.isdecimal() and len(length) < 19 else None,
            most=_MOST_BYTES,
            silent_s=SILENT_S,
        )
    except RequestRefused as refused:
        raise Refusal(refused.status, f"the form can't be taken: {refused.why}") from None
    try:
        text = body.decode("ascii")
    except UnicodeDecodeError:
        raise Refusal(400, "the form isn't encoded") from None
    return dict(_as_meant(name, value) for name, value in _pairs(text).items())


def _as_meant(name: str, value: str) -> tuple[str, str]:
    """A field as it was before a browser sent its ends of lines as CR LF."""
    if name.startswith(_QUOTED):
        return name.removeprefix(_QUOTED), unquote(value)
    return name, value.replace("\r\n", "\n") if name.startswith("body") else value


def _pairs(text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except UnicodeDecodeError:
        raise Refusal(400, "a value isn't UTF-8") from None
    except ValueError:
        raise Refusal(400, "there are too many values") from None
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Refusal(400, "a value is there twice")
    return found


def _json(twin: object, status: int) -> Response:
    return Response(as_json(twin) + "\n", status, media_type="application/json")


def _html(text: str, status: int) -> Response:
    return Response(text.encode("utf-8", "backslashreplace"), status, media_type="text/html")


def _static_files() -> dict[str, tuple[bytes, str]]:
    found: dict[str, tuple[bytes, str]] = {}
    root = files("seriatim.console") / "static"
    for folder, place in (("", root), ("vendored/", root / "vendored")):
        for one in place.iterdir():
            if one.is_file() and (kind := _TYPES.get(one.name.rpartition(".")[2])):
                found[folder + one.name] = (one.read_bytes(), kind)
    return found
