"""The address at which a process tells its metrics (``/metrics``) and its health (``/healthz``, ``/readyz``).

A small server of HTTP in a thread: it answers GET and HEAD, to a few clients at once, none of which can hold it up.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from seriatim.errors import EnvironmentProblem, UsageError, shown
from seriatim.metrics.collector import Collector
from seriatim.metrics.health import Readiness

__all__ = ["MetricsServer", "address_of", "metrics_of", "page_of", "serving_metrics"]

#: A client has so long for a request, and so many are answered at once.
_CLIENT_S, _MOST_CLIENTS = 5.0, 16
_JSON = "application/json"


def address_of(text: str) -> tuple[str, int]:
    """The host and port of an address such as ``127.0.0.1:9464``, ``[::1]:9464`` or ``:9464`` (every interface).

    Raises:
        UsageError: it is none.
    """
    host, colon, port = text.rpartition(":")
    if (
        not colon
        or not (port.isascii() and port.isdecimal())
        or not 0 <= int(port) <= 65535
        or (":" in host and host[:1] != "[")
    ):
        raise UsageError(f"{shown(text)} is no address for metrics", remedy="HOST:PORT, such as 127.0.0.1:9464")
    return host.strip("[]"), int(port)


def metrics_of(collector: Collector, accept: str) -> tuple[str, bytes]:
    """The metrics in a format that a client takes: the type of the content, and the content."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    encoder, kind = choose_encoder(accept)
    return kind, encoder(registry)


def page_of(
    path: str, accept: str, collector: Collector, ready: Callable[[], Readiness]
) -> tuple[int, str, bytes] | None:
    """The answer to a path: its status, the type of its content, and the content; None: there is no such page.

    Args:
        path: ``/metrics``, ``/healthz`` or ``/readyz``.
        accept: the formats that the client takes, as it says them.
        collector: collects the metrics.
        ready: says whether the process is ready.
    """
    match path:
        case "/metrics":
            return 200, *metrics_of(collector, accept)
        case "/healthz":
            return 200, _JSON, b'{"status": "alive"}\n'
        case "/readyz":
            found = ready()
            told = {"status": "ready" if found.is_ready else "not ready", "reasons": list(found.reasons)}
            return (200 if found.is_ready else 503), _JSON, json.dumps(told).encode() + b"\n"
        case _:
            return None


class MetricsServer(ThreadingHTTPServer):
    """Tells metrics and health until it is closed.

    Args:
        host: the host; empty: every interface.
        port: the port; 0: a free one.
        collector: collects the metrics.
        ready: says whether the process is ready.

    Raises:
        EnvironmentProblem: it can't listen there.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, collector: Collector, ready: Callable[[], Readiness]) -> None:
        self.collector = collector
        self.ready = ready
        self._free = threading.BoundedSemaphore(_MOST_CLIENTS)
        try:
            found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            self.address_family, _, _, _, place = found[0]
            super().__init__((str(place[0]), int(place[1])), _Handler)
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise EnvironmentProblem(
                f"metrics can't be told at {host}:{port}: {why}", remedy="give another address with --metrics"
            ) from None
        self._thread = threading.Thread(target=self.serve_forever, name="seriatim-metrics", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """Its address, such as ``http://127.0.0.1:9464``."""
        host, port = self.server_address[:2]
        name = host.decode() if isinstance(host, bytes) else str(host)
        return f"http://{f'[{name}]' if ':' in name else name}:{port}"

    def close(self) -> None:
        """Answer no further request."""
        self.shutdown()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer a request in a thread; too many at once are turned away."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer a request."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nobody's problem."""


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: MetricsServer
    timeout = _CLIENT_S
    server_version, sys_version = "seriatim", ""
    error_message_format = "%(code)d %(message)s\n"
    error_content_type = "text/plain; charset=utf-8"

    def do_GET(self) -> None:
        """Answer with a page."""
        path = self.path.partition("?")[0]
        found = page_of(path, self.headers.get("accept", ""), self.server.collector, self.server.ready)
        if found is None:
            self.send_error(404, "there are /metrics, /healthz and /readyz")
            return
        status, kind, content = found
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    do_HEAD = do_GET  # noqa: N815 -- the library's name

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the library's name
        """Log no request: they come every few seconds."""


@contextmanager
def serving_metrics(
    address: str | None, collector: Callable[[], Collector], ready: Callable[[], Readiness]
) -> Iterator[MetricsServer | None]:
    """Within the block metrics and health are told at an address; None: at none.

    Raises:
        UsageError, EnvironmentProblem: the address is none, or can't be listened at.
    """
    if address is None:
        yield None
        return
    server = MetricsServer(*address_of(address), collector(), ready)
    try:
        yield server
    finally:
        server.close()
