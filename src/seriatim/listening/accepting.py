"""`Accepting`: accepts the connections of a socket, which no peer can use up, and begins each in a protocol, with TLS or without it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

from seriatim.listening.crowd import Crowd, Visitor, name_of
from seriatim.listening.limits import ListenLimits
from seriatim.listening.seldom import tell
from seriatim.network import watch

#: The pause before the next connection is accepted, when the system has no room for one, seconds.
_NO_ROOM_S = 0.5


class Accepting:
    """Accepts connections from its creation on, in the running loop, until it is closed.

    Args:
        name: who listens, for the log.
        listener: the socket.
        limits: those of the connections.
        protocol: makes the protocol of a connection, which calls `left` with its visitor at its end.
        reserve: further connections, which may ask for health only.
        tls: the TLS of the next connection; None: without it.
    """

    def __init__(
        self,
        name: str,
        listener: socket.socket,
        limits: ListenLimits,
        protocol: Callable[[Visitor], asyncio.Protocol],
        *,
        reserve: int = 0,
        tls: Callable[[], ssl.SSLContext] | None = None,
    ) -> None:
        self._name, self._listener, self._limits, self._protocol, self._tls = name, listener, limits, protocol, tls
        self._strangers = Crowd(limits.room, limits.of_address)
        self._reserve = Crowd(reserve, reserve // 2)
        self._begun: set[asyncio.Task[bool]] = set()
        self._task = asyncio.create_task(self._accept())

    def close(self) -> None:
        """Accept no more, and give up those that haven't begun."""
        for task in (*self._begun, self._task):
            task.cancel()

    async def wait_closed(self) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    @staticmethod
    def left(visitor: Visitor) -> None:
        if visitor.crowd is not None:
            visitor.crowd.leave(visitor)

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
            self.left(visitor)
            raw.close()

    async def _connection(self, raw: socket.socket, visitor: Visitor) -> bool:
        """Begin a connection, which continues in its protocol; return whether it has begun."""
        try:
            watch(raw)
            await self._connected(raw, lambda: self._protocol(visitor))
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

    async def _connected(self, raw: socket.socket, protocol: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        if self._tls is None:
            await loop.connect_accepted_socket(protocol, raw)
            return
        async with asyncio.timeout(self._limits.first_byte_s):
            await _readable(raw)
        tls: Any = _Telling(self._tls(), raw)
        await loop.connect_accepted_socket(
            protocol, raw, ssl=tls, ssl_handshake_timeout=self._limits.handshake_s, ssl_shutdown_timeout=self._limits.silent_s
        )  # fmt: skip


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
