"""The server of the console: its address, and an end that doesn't wait for open event streams."""

import socket
from types import FrameType

from starlette.applications import Starlette

from seriatim.listening.address import url_of
from seriatim.listening.limits import ListenLimits
from seriatim.listening.server import Server as Listening

#: A page that was left open asks again and again; its address may have a long filter.
_LIMITS = ListenLimits(largest_head=64 * 1024)


class Server(Listening):
    """A server that ends open event streams before it waits for requests."""

    def __init__(
        self, app: Starlette, listener: socket.socket, home: str = "/", *, limits: ListenLimits = _LIMITS
    ) -> None:
        super().__init__(app, "the console", listener, limits=limits, health=app.state.health, lifespan=True)
        self._app = app
        self.address = url_of(listener)
        self.opens_at = f"{self.address}{home}"

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the streams, and then as uvicorn does."""
        self._app.state.poller.end()
        super().handle_exit(sig, frame)
