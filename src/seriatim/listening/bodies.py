"""Bodies of requests, read with deadlines, and answers without a framework."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any

from seriatim.network import SILENT_S, transfer_s

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
#: An answer is passed on in pieces, so that it isn't in memory several times; and the time for a refused peer to read the reason,
#: seconds.
_PIECE, _LINGER_S = 65_536, 1.0
_TEXT = "text/plain; charset=utf-8"


class RequestRefused(Exception):
    """A request that is answered by an error, and its connection closed: `status`, and `why`."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


class Gone(Exception):
    """The other side has gone away in the middle of a request."""


async def body_of(receive: Receive, *, length: int | None, most: int, silent_s: float = SILENT_S) -> bytearray:
    if (length or 0) > most:
        raise RequestRefused(413, f"it has {length:,} bytes, and at most {most:,} are taken")
    body, end = bytearray(length or 0), 0
    loop = asyncio.get_running_loop()
    by = loop.time() + silent_s + transfer_s(most if length is None else length)
    while True:
        try:
            async with asyncio.timeout_at(min(by, loop.time() + silent_s)):
                event = await receive()
        except TimeoutError:
            raise RequestRefused(408, "the request took too long") from None
        if event["type"] == "http.disconnect":
            raise Gone
        piece = event.get("body", b"")
        if end + len(piece) > most:
            raise RequestRefused(413, f"at most {most:,} bytes are taken")
        body[end : end + len(piece)] = piece
        end += len(piece)
        if not event.get("more_body", False):
            return body


async def answer(
    send: Send, status: int, kind: str, content: bytes | bytearray, headers: Mapping[str, str] | None = None
) -> None:
    await _begin(send, status, kind, len(content), headers or {})
    view = memoryview(content)
    for at in range(0, len(view), _PIECE):
        await send({"type": "http.response.body", "body": bytes(view[at : at + _PIECE]), "more_body": True})
    await send({"type": "http.response.body"})


async def answer_in_pieces(send: Send, status: int, kind: str, pieces: AsyncIterator[bytes], length: int) -> None:
    """Answer a request by content that is made while it is sent. The connection breaks off if making it fails."""
    await _begin(send, status, kind, length, {})
    async for piece in pieces:
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body"})


async def refuse(receive: Receive, send: Send, status: int, why: str) -> None:
    """Answer a request by an error, and let the other side read it before the connection is closed: more data from it would discard the
    answer.
    """
    content = f"{why}\n".encode()
    headers = {"Connection": "close"} | ({"Retry-After": "1"} if status == 503 else {})
    await _begin(send, status, _TEXT, len(content), headers)
    await send({"type": "http.response.body", "body": content, "more_body": True})
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_S):
            while (event := await receive())["type"] != "http.disconnect" and event.get("more_body", False):
                pass
    await send({"type": "http.response.body"})


async def busy(_: Any, receive: Receive, send: Send) -> None:
    await refuse(receive, send, 503, "too many requests are in hand")


async def _begin(send: Send, status: int, kind: str, length: int, headers: Mapping[str, str]) -> None:
    content = {} if status == 204 else {"Content-Type": kind, "Content-Length": str(length)}  # RFC 9110: it has none
    headers_sent = {**content, "Cache-Control": "no-store", **headers}
    encoded = [(name.lower().encode(), value.encode()) for name, value in headers_sent.items()]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
