"""The address at which a process serves its metrics (``/metrics``) and its health (``/healthz``, ``/readyz``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from seriatim.listening.address import host_and_port, listening, url_of
from seriatim.listening.bodies import Receive, Send, answer, refuse
from seriatim.listening.server import Server
from seriatim.listening.threads import Busy, Shared, Threads
from seriatim.metrics.collector import Collector
from seriatim.metrics.health import Readiness

HEALTH = ("/healthz", "/readyz")
JSON, ALIVE = "application/json", b'{"status": "alive"}\n'


def metrics_of(collector: Collector, accept: str) -> tuple[str, bytes]:
    """Return the metrics in a format that a client accepts: the type of the content, and the content."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    encoder, kind = choose_encoder(accept)
    return kind, encoder(registry)


def readiness_told(readiness: Readiness) -> tuple[int, bytes]:
    content = {"status": "ready" if readiness.is_ready else "not ready", "reasons": list(readiness.reasons)}
    return (200 if readiness.is_ready else 503), json.dumps(content).encode() + b"\n"


class MetricsServer:
    """Serves metrics and health until it is closed."""

    def __init__(self, address: str, collector: Collector, ready: Callable[[], Readiness]) -> None:
        self._collector, self._ready = collector, Shared(ready)
        self._threads = Threads(2, 6)
        listener = listening(*host_and_port(address, "127.0.0.1:9464"), "--metrics")
        #: ``HOST:PORT``; an empty host: every interface; port 0: a free one.
        self.address = url_of(listener)
        self._server = Server(self._answer, "metrics", listener, health=HEALTH)
        self._server.start()

    def close(self) -> None:
        self._server.close()

    async def _answer(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["method"] not in ("GET", "HEAD"):
            await refuse(receive, send, 405, "metrics and health are read")
            return
        accept = dict(scope["headers"]).get(b"accept", b"").decode("latin-1")
        try:
            match scope["path"]:
                case "/metrics":
                    kind, content = await self._threads.call(metrics_of, self._collector, accept)
                    await answer(send, 200, kind, content)
                case "/healthz":
                    await answer(send, 200, JSON, ALIVE)
                case "/readyz":
                    status, content = readiness_told(await self._ready.get())
                    await answer(send, status, JSON, content)
                case _:
                    await refuse(receive, send, 404, "there are /metrics, /healthz and /readyz")
        except Busy:
            await refuse(receive, send, 503, "too many requests are in hand")


@contextmanager
def serving_metrics(
    address: str | None, collector: Callable[[], Collector], ready: Callable[[], Readiness]
) -> Iterator[MetricsServer | None]:
    """Serve metrics and health at an address while the block runs; None: at none."""
    if address is None:
        yield None
        return
    server = MetricsServer(address, collector(), ready)
    try:
        yield server
    finally:
        server.close()
