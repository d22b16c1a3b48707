"""HTTP on one connection: uvicorn's, with a deadline for everything that the other side has to do."""

from __future__ import annotations

import asyncio
import contextlib
import select
import sys
from collections.abc import Callable, Collection
from functools import partial
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import STATUS_PHRASES, H11Protocol
from uvicorn.server import ServerState

from seriatim.listening.bodies import busy
from seriatim.listening.crowd import ConnectionState, Visitor
from seriatim.listening.limits import ListenLimits
from seriatim.listening.seldom import LOGGER

#: What the system tells of a connection that the other side has ended; not every system does so.
_ENDED = getattr(select, "POLLRDHUP", 0) | select.POLLHUP | select.POLLERR


def _has_left(transport: asyncio.Transport) -> bool:
    """Whether the other side has ended a connection. A thread may ask."""
    raw = transport.get_extra_info("socket")
    if transport.is_closing() or raw is None or raw.fileno() < 0:
        return True
    polling = select.poll()
    polling.register(raw.fileno(), _ENDED)
    return bool(polling.poll(0))


class Protocol(H11Protocol):
    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        *,
        visitor: Visitor,
        limits: ListenLimits,
        health: Collection[str],
        over: Callable[[Visitor], None],
    ) -> None:
        super().__init__(config, server_state, {**app_state, "visitor": visitor})
        self.logger = LOGGER
        self._visitor, self._limits, self._health, self._over = visitor, limits, health, over
        if visitor.asks_health:
            self.app = self._in_reserve
        self._has_begun = False  # to send the head
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the head of the first request."""
        super().connection_made(transport)
        self._visitor.close = transport.abort
        self._visitor.has_left = partial(_has_left, transport)
        self._visitor.tls = transport.get_extra_info("ssl_object")
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._over(self._visitor)
        self._stop()
        if self._unread is not None:
            self._unread.cancel()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._visitor.state is ConnectionState.IDLE:
            self._await_head()
        self._has_begun = True
        with contextlib.suppress(h11.LocalProtocolError):  # it came after a request that was answered by an error
            super().data_received(data)

    def handle_events(self) -> None:
        super().handle_events()
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._stop()
            self._visitor.state = ConnectionState.SENDS if cycle.more_body else ConnectionState.ANSWERED

    def on_response_complete(self) -> None:
        if self.transport.is_closing():
            self._visitor.state = ConnectionState.IDLE
            self._close_in_time()
            return
        rest = self.conn.their_state is not h11.DONE or bool(self.conn.trailing_data[0])
        self._visitor.state = ConnectionState.IDLE
        if rest:  # of the unread body, or the next head
            self._await_head()
        super().on_response_complete()

    def timeout_keep_alive_handler(self) -> None:
        """Close the connection: no further request has come."""
        super().timeout_keep_alive_handler()
        self._close_in_time()

    def shutdown(self) -> None:
        """End: at once, unless a request is in hand."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.abort()
        else:
            super().shutdown()

    def pause_writing(self) -> None:
        """Note that the other side reads the answer more slowly than it is made."""
        super().pause_writing()
        self._visitor.is_unread = True
        self._unread = self.loop.call_later(self._limits.silent_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._visitor.is_unread = False
        if self._unread is not None:
            self._unread.cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuse invalid HTTP; uvicorn calls it where h11 raises."""
        error = sys.exc_info()[1]
        self._refuse(getattr(error, "error_status_hint", 400), "this isn't HTTP as it should be\n")

    async def _in_reserve(self, scope: Any, receive: Any, send: Any) -> None:
        await (self.config.loaded_app if scope["path"] in self._health else busy)(scope, receive, send)

    def _close_in_time(self) -> None:
        """Close even if the other side doesn't read the rest of the answer."""
        self._stop()
        self._head = self.loop.call_later(self._limits.silent_s, self.transport.abort)

    def _await_head(self) -> None:
        self._stop()
        self._visitor.state, self._has_begun = ConnectionState.BEGINS, False
        self._head = self.loop.call_later(self._limits.head_s, self._is_late)

    def _stop(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _is_late(self) -> None:
        if self._has_begun and self.conn.our_state is h11.IDLE:
            self._refuse(408, "the request took too long\n")
        else:
            self.transport.abort()

    def _refuse(self, status: int, why: str) -> None:
        """Answer an invalid request, and close."""
        self._stop()
        if self.conn.our_state is not h11.IDLE:  # something is being answered
            self.transport.abort()
            return
        headers = [
            ("Content-Type", "text/plain; charset=utf-8"),
            ("Content-Length", str(len(why))),
            ("Connection", "close"),
        ]
        response = h11.Response(status_code=status, headers=headers, reason=STATUS_PHRASES[status])
        for event in (response, h11.Data(data=why.encode()), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
        self._close_in_time()
