"""`HttpServer`: the face over HTTP as a part of a process, with TLS or behind a proxy."""

from __future__ import annotations

import asyncio
from functools import partial

from seriatim.aio.message_box import AsyncMessageBox
from seriatim.box.box import MessageBox
from seriatim.certificates import RenewedContext, TlsFiles
from seriatim.http.app import create_app
from seriatim.listening.address import host_and_port, is_loopback, listening, url_of
from seriatim.listening.limits import HELD, HELD_OF_ADDRESS, ListenLimits
from seriatim.listening.seldom import tell
from seriatim.listening.server import Server
from seriatim.pipeline.text.event_log import LOG
from seriatim.regions.regions import Regions

_NAME, _OPTION = "callers over HTTP", "--http"
_LIMITS = ListenLimits(connections=HELD, of_address=HELD_OF_ADDRESS, idle_s=75.0)
#: Connections to PostgreSQL that answer requests; one more listens for all that wait, and one is the judge's.
CONNECTIONS = 1


class HttpServer:
    """Answers callers over HTTP until it is closed. ``seriatim serve --http`` has one.

    Args:
        box: an open box; further connections of it are used.
        listen: ``HOST:PORT``.
        prefix: the path below which a proxy shows it, if the proxy doesn't strip it.
        certificate: a file with the certificate of this side and its chain, PEM; None: without TLS.
        key: a file with its private key, PEM. Replaced files are read again.
        connections: the connections to PostgreSQL that answer requests.
        regions: the two regions for whose queues it takes messages; None: it refuses them.
    """

    def __init__(
        self,
        box: MessageBox,
        listen: str,
        *,
        prefix: str = "",
        certificate: str | None = None,
        key: str | None = None,
        connections: int = CONNECTIONS,
        regions: Regions | None = None,
        limits: ListenLimits = _LIMITS,
    ) -> None:
        files = TlsFiles(certificate, key, place="--http-certificate and --http-key")
        tls = None if certificate is None else RenewedContext(files, partial(tell, _NAME))
        host, port = host_and_port(listen, "127.0.0.1:8472")
        listener = listening(host, port, _OPTION)
        self._box = AsyncMessageBox(box.more(connections), owns=True)
        try:
            app = create_app(self._box, prefix=prefix, regions=regions)
        except BaseException:
            listener.close()
            raise
        self.address = url_of(listener, "http" if tls is None else "https") + prefix
        if tls is None and not is_loopback(host):
            LOG.warning("http_without_tls", address=self.address)
        self._server = Server(
            app, _NAME, listener, limits=limits, health=app.state.health, lifespan=True, tls=tls,
        )  # fmt: skip

    def start(self) -> None:
        """Begin to answer, in a thread."""
        self._server.start()
        LOG.info("http_listening", address=self.address)

    def close(self) -> None:
        """Stop. Requests in hand are answered first, if that takes only a few seconds; callers that wait are told to come again."""
        self._box.stop_receiving()
        self._server.close()
        asyncio.run(self._box.close())
