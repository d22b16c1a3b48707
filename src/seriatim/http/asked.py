"""A request as its handler sees it: parameters, headers, the body with its room in memory, and whether its caller is still there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from seriatim.http.answers import Room
from seriatim.http.declared import LARGEST_BODY
from seriatim.http.problems import Problem
from seriatim.listening.bodies import Gone, Receive, RequestRefused, body_of
from seriatim.regions.regions import Regions

T = TypeVar("T")


class Asked:
    def __init__(
        self,
        scope: Any,
        receive: Receive,
        room: Room,
        looks: asyncio.Semaphore,
        around: AsyncExitStack,
        *,
        prefix: str,
        regions: Regions | None = None,
    ) -> None:
        self.headers_sent: list[tuple[bytes, bytes]] = list(scope["headers"])
        self.parameters: Mapping[str, Any] = {}
        #: Held while a run is looked for and read into memory.
        self.looks = looks
        self.room, self.regions = room, regions
        self._receive, self._around, self._prefix = receive, around, prefix
        self._body: bytearray | None = None
        visitor = scope.get("state", {}).get("visitor")
        #: Whether the caller has ended its connection.
        self.has_left: Callable[[], bool] = visitor.has_left if visitor is not None else lambda: False

    def header(self, name: str) -> str | None:
        found = [value for one, value in self.headers_sent if one.lower() == name.encode()]
        if not found:
            return None
        try:
            return b", ".join(found).decode("ascii").strip()
        except UnicodeDecodeError:
            raise Problem(400, f"the header {name} isn't ASCII") from None

    @property
    def content_type(self) -> str | None:
        return self.header("content-type") or None

    async def take_room(self, size: int) -> None:
        """Take room in memory until the request is answered."""
        await self.room.take(size)
        self._around.callback(self.room.give_back, size)

    def keep_room(self, size: int) -> None:
        """Take room at once until the request is answered, also if that is more than there is."""
        self.room.give_back(-size)
        self._around.callback(self.room.give_back, size)

    async def body(self) -> bytearray:
        """The body; a second call has it already."""
        if self._body is None:
            text = self.header("content-length")
            if text is not None:
                length: int | None = int(text) if text.isdigit() and len(text) < 12 else LARGEST_BODY + 1
            else:  # a request that names neither has no body (RFC 9112, 6.3)
                length = 0 if self.header("transfer-encoding") is None else None
            if (length or 0) > LARGEST_BODY:
                raise Problem(413, f"a request has at most {LARGEST_BODY:,} bytes")
            if room := LARGEST_BODY if length is None else length:
                await self.room.take(room)
            try:
                self._body = await body_of(self._receive, length=length, most=LARGEST_BODY)
            except RequestRefused as refused:
                raise Problem(refused.status, refused.why, headers={"Connection": "close"}) from None
            finally:
                # A body without a length took the most; its caller may wait long for the answer.
                kept = len(self._body or b"")
                self._around.callback(self.room.give_back, kept)
                self.room.give_back(room - kept)
        return self._body

    async def while_there(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work; it is cancelled when the caller has gone away."""
        task = asyncio.ensure_future(work)
        leaving = asyncio.ensure_future(self._left())
        try:
            await asyncio.wait((task, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))
                leaving.result()  # the rest of the request may be wrong
                raise Gone
            return task.result()
        finally:
            for one in (task, leaving):
                one.cancel()

    async def _left(self) -> None:
        await self.body()
        while (await self._receive())["type"] != "http.disconnect":
            pass

    def address(self, *parts: str, **query: str) -> str:
        path = "/".join(["", *(quote(one, safe="") for one in parts)])
        return f"{self._prefix}{path}{'?' if query else ''}{urlencode(query)}"
