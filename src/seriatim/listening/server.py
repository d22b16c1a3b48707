"""`Server`: an ASGI application at an address, whose connections no peer can use up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

import uvicorn

from seriatim.listening.crowd import Crowd, Visitor, name_of
from seriatim.listening.limits import RESERVE, ListenLimits
from seriatim.listening.protocol import Protocol
from seriatim.listening.seldom import tell
from seriatim.network import watch

__all__ = ["Server"]

#: The longest time for requests in hand before it ends, seconds.
_END_S = 5.0
#: The pause before the next connection is accepted, when the system has no room for one, seconds.
_NO_ROOM_S = 0.5


class Server(uvicorn.Server):
    """Serves an ASGI application at a socket: in this thread, or in one of its own until it is closed. A scope's ``state`` has the
    `Visitor`.
    """

    def __init__(
        self,
        app: Any,
        name: str,
        listener: socket.socket,
        *,
        limits: ListenLimits | None = None,
        health: Collection[str] = (),
        tls: Callable[[], ssl.SSLContext] | None = None,
        lifespan: bool = False,
    ) -> None:
        self.limits = limits or ListenLimits()
        super().__init__(
            uvicorn.Config(
                app, loop="asyncio", http=Protocol, ws="none", lifespan="on" if lifespan else "off", interface="asgi3",
                log_config=None, log_level="warning", access_log=False, proxy_headers=False, server_header=False,
                timeout_keep_alive=self.limits.idle_s,  # type: ignore[arg-type] # it is handed on to the loop
                timeout_graceful_shutdown=int(_END_S), h11_max_incomplete_event_size=self.limits.largest_head,
            )
        )  # fmt: skip
        self._strangers = Crowd(self.limits.room, self.limits.of_address)
        self._reserve = Crowd(RESERVE, RESERVE // 2) if health else Crowd(0, 0)
        self._name, self._listener, self._health, self._tls = name, listener, health, tls
        self._begun: set[asyncio.Task[bool]] = set()
        self._thread: threading.Thread | None = None

    def serve_until_stopped(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        with contextlib.suppress(KeyboardInterrupt):  # uvicorn raises it after it has ended because of it
            self.run(sockets=[self._listener])

    def start(self) -> None:
        self._thread = threading.Thread(
            target=self.run, args=[[self._listener]], name=f"seriatim {self._name}", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop serving. Requests in hand are answered first, if that takes only a few seconds."""
        self.should_exit = True
        if self._thread is not None:
            self._thread.join(2 * _END_S)
        self._listener.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections: uvicorn would accept all waiting ones before it looks at one."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise RuntimeError("the application can't begin")
        self.servers = [_Accepting(asyncio.create_task(self._accept()))]  # type: ignore[list-item]
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._begun:
            task.cancel()
        await super().shutdown(sockets)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                raw, address = await loop.sock_accept(self._listener)
            except OSError as error:  # such as: too many open files
                tell(self._name, f"no connection can be accepted: {error}")
                if not self._strangers.close_one():
                    await asyncio.sleep(_NO_ROOM_S)
                await asyncio.sleep(0)
                continue
            self._begin(raw, address[0] if isinstance(address, tuple) else "")

    def _begin(self, raw: socket.socket, address: str) -> None:
        visitor = Visitor(address, time.monotonic(), close=lambda: None)
        if not self._strangers.enter(visitor, name_of(address)):
            visitor.asks_health = True
            if not self._reserve.enter(visitor, name_of(address)):
                raw.close()
                tell(self._name, "a connection was closed: all others are being answered")
                return
        task = asyncio.create_task(self._connection(raw, visitor))
        visitor.close = task.cancel
        self._begun.add(task)
        task.add_done_callback(lambda _: self._has_begun(task, raw, visitor))

    def _has_begun(self, task: asyncio.Task[bool], raw: socket.socket, visitor: Visitor) -> None:
        self._begun.discard(task)
        if task.cancelled() or not task.result():
            self._left(visitor)
            raw.close()

    async def _connection(self, raw: socket.socket, visitor: Visitor) -> bool:
        """Begin a connection, which continues in its protocol; return whether it has begun."""

        def protocol() -> Protocol:
            return Protocol(
                self.config, self.server_state, self.lifespan.state,
                visitor=visitor, limits=self.limits, health=self._health, over=self._left,
            )  # fmt: skip

        try:
            watch(raw)
            await self._connected(raw, protocol)
        except (OSError, TimeoutError, ValueError) as error:
            why = (
                getattr(error, "verify_message", None)
                or getattr(error, "reason", None)
                or str(error)
                or "it took too long"
            )
            tell(self._name, f"a connection of {visitor.address} couldn't begin: {why}", logging.INFO)
            return False
        return True

    async def _connected(self, raw: socket.socket, protocol: Callable[[], Protocol]) -> None:
        loop = asyncio.get_running_loop()
        if self._tls is None:
            await loop.connect_accepted_socket(protocol, raw)
            return
        async with asyncio.timeout(self.limits.first_byte_s):
            await _readable(raw)
        tls: Any = _Telling(self._tls(), raw)
        await loop.connect_accepted_socket(
            protocol, raw, ssl=tls, ssl_handshake_timeout=self.limits.handshake_s, ssl_shutdown_timeout=self.limits.silent_s
        )  # fmt: skip

    @staticmethod
    def _left(visitor: Visitor) -> None:
        if visitor.crowd is not None:
            visitor.crowd.leave(visitor)


class _Telling:
    """The TLS of a connection. It tells the other side why a handshake failed, which asyncio doesn't."""

    def __init__(self, context: ssl.SSLContext, raw: socket.socket) -> None:
        self._context, self._raw = context, raw

    def wrap_bio(self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **options: Any) -> ssl.SSLObject:
        bio = self._context.wrap_bio(incoming, outgoing, **options)
        shake: Callable[[], None] = bio.do_handshake

        def do_handshake() -> None:
            try:
                shake()
            except (ssl.SSLWantReadError, ssl.SSLSyscallError):
                raise
            except ssl.SSLError:
                with contextlib.suppress(OSError):
                    self._raw.send(outgoing.read())
                raise

        bio.do_handshake = do_handshake  # type: ignore[method-assign]
        return bio


class _Accepting:
    """The object that uvicorn closes at its end."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def close(self) -> None:
        self._task.cancel()

    async def wait_closed(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await self._task


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _readable(raw: socket.socket) -> None:
    """Wait for a first byte."""
    loop = asyncio.get_running_loop()
    readable = loop.create_future()
    loop.add_reader(raw, _done, readable)
    try:
        await readable
    finally:
        loop.remove_reader(raw)
