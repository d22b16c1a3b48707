"""`create_app`: the operations over HTTP as an ASGI application."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from seriatim.aio.message_box import AsyncMessageBox
from seriatim.errors import SeriatimError, UsageError
from seriatim.http import deliveries, messages, requests
from seriatim.http.answers import Answer, Room
from seriatim.http.asked import Asked
from seriatim.http.callers import Caller, Callers
from seriatim.http.declared import OPERATIONS, Operation
from seriatim.http.openapi import document
from seriatim.http.problems import PROBLEM_TYPE, Problem, problem_of
from seriatim.http.reading import parameters, segments
from seriatim.listening.bodies import Gone, Receive, RequestRefused, Send, answer, answer_in_pieces
from seriatim.listening.paths import matched
from seriatim.listening.threads import Busy
from seriatim.pipeline.text.event_log import LOG
from seriatim.regions.regions import Regions

#: What everybody may ask, because it says nothing of the box.
HEALTH = ("/healthz",)
#: Bytes that requests and answers take in memory together.
MOST_IN_MEMORY = 128 * 2**20
_LONGEST_QUERY = 8192
Handler = Callable[[Asked, Caller], Awaitable[Answer]]
_HANDLERS: Mapping[str, Handler] = {
    "publish": messages.publish,
    "status": messages.status,
    "reply": requests.reply,
    **deliveries.HANDLERS,
}


def create_app(
    box: AsyncMessageBox, *, prefix: str = "", regions: Regions | None = None, in_memory: int = MOST_IN_MEMORY
) -> Starlette:
    """The operations on a box, which the caller closes. `prefix`: the path below which they are, such as ``/seriatim``;
    `regions`: those for whose queues it takes messages.
    """
    if prefix and (
        not prefix.startswith("/") or prefix.endswith("/") or "?" in prefix or "#" in prefix or "%" in prefix
    ):
        raise UsageError(f"the prefix can't be {prefix!r}", remedy="such as /seriatim")
    face = _Face(box, prefix, regions, in_memory)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await face.callers.close()

    app = Starlette(routes=[Mount("", app=face.answer)], lifespan=lifespan)
    app.state.health = [f"{prefix}{one}" for one in HEALTH]
    return app


class _Face:
    def __init__(self, box: AsyncMessageBox, prefix: str, regions: Regions | None, in_memory: int) -> None:
        self.callers = Callers(box)
        self._room, self._looks = Room(in_memory), asyncio.Semaphore(box.connections)
        self._prefix, self._regions = prefix, regions

    async def answer(self, scope: Any, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as around:
            try:
                found = await self._answered(scope, receive, around)
            except Gone:
                return
            except Exception as error:  # noqa: BLE001 -- the caller gets a problem, and the log the reason
                found = _failed(error)
            content: bytes | AsyncIterator[bytes] = b"" if scope["method"] == "HEAD" else found.content
            if isinstance(content, bytes):
                await answer(send, found.status, found.kind, content, found.headers)
            else:
                await answer_in_pieces(send, found.status, found.kind, content, found.size)

    async def _answered(self, scope: Any, receive: Receive, around: AsyncExitStack) -> Answer:
        asked = Asked(scope, receive, self._room, self._looks, around, prefix=self._prefix, regions=self._regions)
        if len(scope["query_string"]) > _LONGEST_QUERY:
            raise Problem(414, "the query is too long")
        method, path = str(scope["method"]), bytes(scope["raw_path"])
        parts = segments(path.removeprefix(self._prefix.encode())) if path.startswith(self._prefix.encode()) else []
        if parts == ["healthz"] and method in ("GET", "HEAD"):
            return Answer(200, b'{"status": "alive"}\n')
        caller = await self.callers.of(asked.header("authorization"))
        if parts == ["v1", "openapi.json"] and method in ("GET", "HEAD"):
            return Answer(200, document())
        operation, names = _found(method, parts)
        if operation.right is not None:
            caller.check(operation.right, names.get("queue"))
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in asked.headers_sent}
        asked.parameters = parameters(operation, scope["query_string"], headers, names)
        return await _HANDLERS[operation.id](asked, caller)


def _found(method: str, parts: list[str] | None) -> tuple[Operation, Mapping[str, str]]:
    """The operation of a request, and the parameters in its path."""
    if parts is None:
        raise Problem(400, "the path isn't UTF-8 in percent signs")
    allowed = []
    for one in OPERATIONS:
        names = matched(one.path.removeprefix("/"), parts)
        if names is None or any(not name or "\0" in name or len(name) > 4096 for name in names.values()):
            continue
        if one.method == method:
            return one, names
        allowed.append(one.method)
    if allowed:
        raise Problem(405, f"{method:.20} isn't for this path", headers={"Allow": ", ".join(allowed)})
    remedy = "the paths begin with /v1; a proxy that adds a prefix has to strip it, or name it: --http-prefix"
    raise Problem(404, "there is no such path", remedy=remedy, code="not-found")


def _failed(error: Exception) -> Answer:
    """The answer to a request that ended with an error."""
    problem = error if isinstance(error, Problem) else None
    match error:
        case SeriatimError():
            problem = problem_of(error)
        case Busy():
            problem = Problem(503, "too many requests are in hand", headers={"Retry-After": "1"})
        case RequestRefused():
            problem = Problem(error.status, error.why)
    if problem is None or problem.status == 500:
        LOG.error("http_failed", exc_info=error, error=error)
    problem = problem or Problem(500, "the request failed", remedy="the log of the server says why", code="bug")
    return Answer(problem.status, problem.content(), PROBLEM_TYPE, problem.headers)
