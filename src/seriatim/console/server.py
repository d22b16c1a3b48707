"""The server of the console: its address, and an end that doesn't wait for open event streams."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from seriatim.errors import EnvironmentProblem, UsageError, shown

__all__ = ["Server", "is_loopback", "parsed"]


def parsed(listen: str) -> tuple[str, int]:
    """Host and port of an address such as ``127.0.0.1:8470`` or ``[::1]:8470``.

    Raises:
        UsageError: it is none.
    """
    host, colon, port = listen.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"cannot listen at {shown(listen)}", remedy="HOST:PORT, such as 127.0.0.1:8470")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a host."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Server(uvicorn.Server):
    """A server that ends open event streams before it waits for requests.

    Args:
        app: what `create_app` made.
        host: where it listens.
        port: likewise; 0: any free port.

    Raises:
        EnvironmentProblem: it can't listen there.
    """

    def __init__(self, app: Starlette, host: str, port: int) -> None:
        super().__init__(
            uvicorn.Config(
                app, log_level="warning", log_config=None, access_log=False, proxy_headers=False, server_header=False, lifespan="on",
                timeout_graceful_shutdown=5, h11_max_incomplete_event_size=64 * 1024, ws="none",
            )
        )  # fmt: skip
        self._app = app
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.socket(family, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind((host, port))
            self._socket.listen(2048)
        except OSError as error:
            self._socket.close()
            raise EnvironmentProblem(
                f"cannot listen at {host}:{port}: {error.strerror}", remedy="give another address with --listen"
            ) from None
        shown_host = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown_host}:{self._socket.getsockname()[1]}"

    def serve_until_stopped(self) -> None:
        """Serve until SIGINT or SIGTERM."""
        with contextlib.suppress(KeyboardInterrupt):  # which uvicorn raises after it has ended because of it
            self.run(sockets=[self._socket])

    def close(self) -> None:
        """Listen no more; for a server that never served."""
        self._socket.close()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End the streams, and then as uvicorn does."""
        self._app.state.poller.end()
        super().handle_exit(sig, frame)
