"""HTTP with one deadline for a whole exchange, from looking up the host to the last byte of the answer.

The time-outs of HTTP libraries begin anew with every byte, so a peer that sends a byte now and then can make them wait
for ever. httpcore only passes its time-out parameter to its network layer. With this one it is the deadline, a time
of the monotonic clock.
"""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Iterable
from queue import Empty, Queue
from typing import Any

import httpcore

#: Who sends a body, or an answer, has to send a byte in so many seconds, and so many bytes a second on the whole.
SILENT_S, PACE = 10.0, 131_072
#: A side that is silent is asked after so many seconds, again after so many, so often; bytes have to be acknowledged within so many.
KEEPALIVE_IDLE_S, KEEPALIVE_INTERVAL_S, KEEPALIVE_COUNT, UNACKNOWLEDGED_S = 10, 5, 3, 25


def transfer_s(length: int) -> float:
    """The seconds that so many bytes may take at the lowest pace."""
    return SILENT_S + length / PACE


class DeadlineNetwork(httpcore.NetworkBackend):
    """A network layer of httpcore whose time-outs are times of the monotonic clock."""

    def __init__(self, silent_s: float | None = None) -> None:
        #: The seconds after which the other side has to have sent another byte of an answer that has begun; None: the deadline only.
        self._silent_s = silent_s

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
                made = httpcore.SyncBackend().connect_tcp(address, port, share, local_address, socket_options)
                watch(made.get_extra_info("socket"))
                return _Stream(made, self._silent_s)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if not addresses:
                    raise


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream, silent_s: float | None) -> None:
        self._stream, self._silent_s = stream, silent_s
        self._is_answered = False

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        left = _left(timeout, httpcore.ReadTimeout)
        if self._is_answered and self._silent_s is not None:
            left = min(left, self._silent_s)
        data = self._stream.read(max_bytes, left)
        self._is_answered = True
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._is_answered = False
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
            return _Stream(self._stream.start_tls(ssl_context, server_hostname, left), self._silent_s)
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
    queue: Queue[list[str] | Exception] = Queue()

    def ask() -> None:
        try:
            queue.put([str(address[4][0]) for address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)])
        except (OSError, UnicodeError) as error:
            queue.put(error)

    threading.Thread(target=ask, name="seriatim-address", daemon=True).start()
    try:
        addresses = queue.get(timeout=_left(moment, httpcore.ConnectTimeout))
    except Empty:
        raise httpcore.ConnectTimeout from None
    if isinstance(addresses, Exception) or not addresses:
        raise httpcore.ConnectError(f"no address: {addresses}")
    return addresses


def watch(connection: socket.socket) -> None:
    """Have the system find out that the other side of a connection is gone, though no packet says so: within half a minute. Keepalive asks
    a side that is silent; the other one is for bytes that aren't acknowledged.
    """
    if connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ("TCP_KEEPIDLE", KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", KEEPALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", KEEPALIVE_COUNT),
        ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_S * 1000),
    ):
        if hasattr(socket, option):  # not every system has each
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
