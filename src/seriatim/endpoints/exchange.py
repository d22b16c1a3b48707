"""One HTTP exchange: post a message and read the answer, with one deadline for all of it.

Connecting (including the look-up of the host), the TLS handshake, sending, interim answers, headers and body share the
deadline (`network.py`). The protocol and the connection pool are httpcore's.

There is no proxy, redirect, cookie or encoding.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import httpcore
import httpx

from seriatim.network import DeadlineNetwork

#: The most bytes that are read of an answer that is only shown.
MOST_BYTES = 65_536
#: An idle connection is closed after that.
_IDLE_S = 5.0
_OWN = {"Accept": "*/*", "User-Agent": "seriatim"}
_BREAKS = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """An answer: its status, its headers, and the beginning of its body."""

    status: int
    headers: httpx.Headers
    body: bytes


class Broken(Exception):
    """There is no complete answer: the peer wasn't reached, took too long, broke off, or doesn't speak HTTP; the text is the reason."""


class NotSent(Exception):
    """The request isn't valid HTTP."""


class Exchange:
    """Posts to one address. Threads share it, and its connections."""

    def __init__(self, url: httpx.URL, deadline_s: float, most_bytes: int = MOST_BYTES) -> None:
        #: The most bytes that are read of an answer's body.
        self._most_bytes = most_bytes
        #: Seconds for one exchange, from looking up the host to the last byte of the answer.
        self._deadline_s = deadline_s
        self._target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path or b"/"
        )
        self._own = {"Host": url.netloc.decode("ascii"), **_OWN}
        if url.username or url.password:
            login = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
            self._own["Authorization"] = f"Basic {login}"
        # No thread waits for a connection: each has one exchange at a time.
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(trust_env=False) if url.scheme == "https" else None,
            max_connections=None,
            max_keepalive_connections=None,
            keepalive_expiry=_IDLE_S,
            network_backend=DeadlineNetwork(),
        )

    def post(self, headers: Mapping[str, str], body: bytes) -> HttpResponse:
        names = {name.lower() for name in headers}
        sent = {**{name: value for name, value in self._own.items() if name.lower() not in names}, **headers}
        moment = time.monotonic() + self._deadline_s
        by = {"connect": moment, "write": moment, "read": moment, "pool": None}
        try:
            with self._pool.stream(
                "POST", self._target, headers=list(sent.items()), content=body, extensions={"timeout": by}
            ) as answer:
                return HttpResponse(
                    answer.status, httpx.Headers(answer.headers), _beginning(answer.iter_stream(), self._most_bytes)
                )
        except httpcore.LocalProtocolError as error:
            raise NotSent(type(error).__name__) from None
        except httpcore.TimeoutException as error:
            raise Broken(f"{type(error).__name__}, not done after {self._deadline_s:g} s") from None
        except _BREAKS as error:  # the error may have the whole address, and so a password
            raise Broken(type(error).__name__) from None

    def close(self) -> None:
        self._pool.close()


def _beginning(pieces: Iterable[bytes], most: int) -> bytes:
    """The first bytes of an answer; a short answer is read to its end, so that the connection can be used again."""
    body = bytearray()
    for piece in pieces:
        body += piece
        if len(body) >= most:
            break
    return bytes(body[:most])
