"""One HTTP exchange: post a message and read the answer, with one deadline for all of it.

The time-outs of HTTP libraries begin anew with every byte, so a peer that sends a byte now and then can make them wait
for ever. Here connecting (including the look-up of the host), the TLS handshake, sending, interim answers, headers
and body share one deadline. The protocol and the connection pool are httpcore's: its time-out parameter, which
it only passes to its network layer, is used for the deadline, a time of the monotonic clock.

There is no proxy, redirect, cookie or encoding.
"""

from __future__ import annotations

import base64
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from queue import Empty, Queue
from typing import Any

import httpcore
import httpx

__all__ = ["Answer", "Broken", "Exchange", "NotSent"]

#: What is read of an answer.
_MOST_BYTES = 65_536
#: An idle connection is closed after that.
_IDLE_S = 5.0
_OWN = {"Accept": "*/*", "User-Agent": "seriatim"}
_BREAKS = (httpcore.TimeoutException, httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: its status, its headers, and the first 64 KiB of its body."""

    status: int
    headers: httpx.Headers
    body: bytes


class Broken(Exception):
    """There is no complete answer: the peer wasn't reached, took too long, broke off, or doesn't speak HTTP; the text says which."""


class NotSent(Exception):
    """The request isn't valid HTTP."""


class Exchange:
    """Posts to one address. Threads share it, and its connections.

    Args:
        url: the address.
        deadline_s: seconds for one exchange, from looking up the host to the last byte of the answer.
    """

    def __init__(self, url: httpx.URL, deadline_s: float) -> None:
        self._deadline_s = deadline_s
        self._target = httpcore.URL(
            scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path or b"/"
        )
        self._own = {"Host": url.netloc.decode("ascii"), **_OWN}
        if url.username or url.password:
            login = base64.b64encode(f"{url.username}:{url.password}".encode()).decode()
            self._own["Authorization"] = f"Basic {login}"
        # Nobody waits for a connection: a thread has one exchange at a time.
        self._pool = httpcore.ConnectionPool(
            ssl_context=httpx.create_ssl_context(trust_env=False) if url.scheme == "https" else None,
            max_connections=None,
            max_keepalive_connections=None,
            keepalive_expiry=_IDLE_S,
            network_backend=_Network(),
        )

    def post(self, headers: Mapping[str, str], body: bytes) -> Answer:
        """Post a message, and return the answer.

        Args:
            headers: ASCII; the headers for the host and the length are added.
            body: the body.

        Raises:
            Broken: there is no complete answer in time.
            NotSent: a header is invalid.
        """
        given = {name.lower() for name in headers}
        sent = {**{name: value for name, value in self._own.items() if name.lower() not in given}, **headers}
        moment = time.monotonic() + self._deadline_s
        by = {"connect": moment, "write": moment, "read": moment, "pool": None}
        try:
            with self._pool.stream(
                "POST", self._target, headers=list(sent.items()), content=body, extensions={"timeout": by}
            ) as answer:
                return Answer(answer.status, httpx.Headers(answer.headers), _beginning(answer.iter_stream()))
        except httpcore.LocalProtocolError as error:
            raise NotSent(type(error).__name__) from None
        except httpcore.TimeoutException as error:
            raise Broken(f"{type(error).__name__}, not done after {self._deadline_s:g} s") from None
        except _BREAKS as error:  # which may tell the whole address, and so a password
            raise Broken(type(error).__name__) from None

    def close(self) -> None:
        """Close its connections."""
        self._pool.close()


class _Network(httpcore.NetworkBackend):
    """A network layer whose time-outs are times of the monotonic clock."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        addresses = _addresses(host, port, timeout)
        while True:
            address = addresses.pop(0)
            share = _left(timeout, httpcore.ConnectTimeout) / (len(addresses) + 1)
            try:
                # By its number, so that no name is looked up; a list is tried to its end.
                return _Stream(httpcore.SyncBackend().connect_tcp(address, port, share, local_address, socket_options))
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if not addresses:
                    raise


class _Stream(httpcore.NetworkStream):
    """A connection of this network layer."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # A send of its own for each piece that the peer takes: the library's begins the time-out anew with each.
        connected: socket.socket = self._stream.get_extra_info("socket")
        rest = memoryview(buffer)
        while rest:
            connected.settimeout(_left(timeout, httpcore.WriteTimeout))
            try:
                rest = rest[connected.send(rest) :]
            except TimeoutError as error:
                raise httpcore.WriteTimeout(str(error)) from error
            except OSError as error:
                raise httpcore.WriteError(str(error)) from error

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        try:
            left = _left(timeout, httpcore.ConnectTimeout)
            return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))
        except ValueError as error:  # a name that TLS doesn't take
            raise httpcore.ConnectError(str(error)) from error
        except BaseException:
            self.close()
            raise

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(moment: float | None, late: type[httpcore.TimeoutException]) -> float:
    """Seconds until a time; raises `late` if it is over."""
    assert moment is not None  # noqa: S101 -- all that is asked for here has a deadline
    left = moment - time.monotonic()
    if left <= 0:
        raise late
    return left


def _addresses(host: str, port: int, moment: float | None) -> list[str]:
    """The addresses of a host. The system looks them up without a time-out, so another thread waits for it."""
    told: Queue[list[str] | Exception] = Queue()

    def ask() -> None:
        try:
            told.put([str(found[4][0]) for found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)])
        except (OSError, UnicodeError) as error:
            told.put(error)

    threading.Thread(target=ask, name="seriatim-address", daemon=True).start()
    try:
        found = told.get(timeout=_left(moment, httpcore.ConnectTimeout))
    except Empty:
        raise httpcore.ConnectTimeout from None
    if isinstance(found, Exception) or not found:
        raise httpcore.ConnectError(f"no address: {found}")
    return found


def _beginning(pieces: Iterable[bytes]) -> bytes:
    """The first bytes of an answer; a short answer is read to its end, so that the connection can be used again."""
    found = bytearray()
    for piece in pieces:
        found += piece
        if len(found) >= _MOST_BYTES:
            break
    return bytes(found[:_MOST_BYTES])
