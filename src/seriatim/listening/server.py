"""`Server`: an ASGI application at an address, whose connections no peer can use up."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Collection
from typing import Any

import uvicorn

from seriatim.listening.accepting import Accepting
from seriatim.listening.crowd import Visitor
from seriatim.listening.limits import RESERVE, ListenLimits
from seriatim.listening.protocol import Protocol

#: The longest time for requests in hand before it ends, seconds.
_END_S = 5.0


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
        self._name, self._listener, self._health, self._tls = name, listener, health, tls
        self._thread: threading.Thread | None = None

    def serve_until_stopped(self) -> None:
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
        self.servers = [
            Accepting(  # type: ignore[list-item]
                self._name, self._listener, self.limits, self._protocol, reserve=RESERVE if self._health else 0, tls=self._tls
            )
        ]  # fmt: skip
        self.started = True

    def _protocol(self, visitor: Visitor) -> Protocol:
        return Protocol(
            self.config, self.server_state, self.lifespan.state,
            visitor=visitor, limits=self.limits, health=self._health, over=Accepting.left,
        )  # fmt: skip
