"""Links over HTTPS: where other boxes push what they have, fetch what waits for them, and ask what became of it.

A connection is one of mutual TLS. The public key of the peer's certificate is its name here; which box it speaks as, and into which queues, is decided in the
box, as for roles. Nothing of a peer is read before its certificate is verified, and of one whose key the box doesn't know only the head of a request.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import h11

from seriatim.box.box import MessageBox
from seriatim.box.connection.access import Transaction
from seriatim.box.links.certificates import CertificateFiles, names_of, public_key_of
from seriatim.box.links.https_carrier import EXCHANGE_S, FETCH, MEDIA_TYPE, PUSH, TRACE
from seriatim.box.links.layout import LARGEST_FRAME
from seriatim.errors import EnvironmentProblem, SeriatimError, UsageError, shown
from seriatim.pipeline.text.log_fields import fields

__all__ = ["LinkLimits", "LinkServer"]

_LOG = logging.getLogger("seriatim.link")
#: Before a peer is known: connections at once, seconds for its handshake, and bytes and seconds for the head of a request.
MOST_HANDSHAKES, HANDSHAKE_S, LARGEST_HEAD, HEAD_S = 64, 5.0, 16_384, 10.0
#: After that: connections at once, those of one key, and seconds until the first byte of the next request.
MOST_CONNECTIONS, MOST_OF_KEY, IDLE_S = 64, 8, 120.0
#: Requests that the box answers at once: they share its connections with what else the process does.
MOST_AT_ONCE = 8
#: A request waits for others that long.
_TURN_S = 30.0
#: A connection is closed after that, so that certificates are verified again; one that only fetches after twice as long.
AGE_S = 600.0
_LOOK_S, _END_S, _LINGER_S = 0.5, 10.0, 1.0
#: The same refusal is logged once in so many seconds, and at most so many lines in that time.
_TOLD_S, _MOST_TOLD = 60.0, 100
_READ = 65_536
_UNKNOWN, _BUSY = "this key isn't known", "other requests aren't done"


@dataclass(frozen=True, slots=True)
class LinkLimits:
    """What connections of other boxes may take of this process.

    Args:
        handshakes: connections at once whose peer isn't known yet.
        handshake_s: seconds for a handshake.
        head_s: seconds for the head of a request, and until its first byte where the peer isn't known.
        connections: connections at once of known peers.
        of_key: those of one key.
        idle_s: seconds until the first byte of the next request of a known peer.
        exchange_s: seconds for the body of a request, and as many for the answer.
        age_s: seconds after which a connection is closed behind the answer to a push; behind any other one after twice as many.
    """

    handshakes: int = MOST_HANDSHAKES
    handshake_s: float = HANDSHAKE_S
    head_s: float = HEAD_S
    connections: int = MOST_CONNECTIONS
    of_key: int = MOST_OF_KEY
    idle_s: float = IDLE_S
    exchange_s: float = EXCHANGE_S
    age_s: float = AGE_S


class LinkServer:
    """Listens for other boxes, until it is closed. ``seriatim serve --listen`` has one.

    Args:
        box: the message box; its role has to be the owner.
        listen: ``HOST:PORT``; port 0: a free one. An empty host: every interface.
        certificate: the path of the certificate, PEM, with those between it and the authority behind it. Its subjectAltName has the name by which
            other boxes call this one.
        key: the path of its private key, PEM, not encrypted, which others can't read.
        authority: the path of the certificates, PEM, of which one has to have signed the certificate of another box.
        limits: what connections may take of this process.

    Files that are replaced are read again.

    Raises:
        UsageError: the address isn't one.
        EnvironmentProblem: it can't listen there, a file isn't what it should be, or the role isn't the owner of the box.
    """

    def __init__(
        self,
        box: MessageBox,
        listen: str,
        *,
        certificate: str,
        key: str,
        authority: str,
        limits: LinkLimits | None = None,
    ) -> None:
        self._limits = limits or LinkLimits()
        self._box = box
        with box.access.transaction() as transaction:
            owner = transaction.maybe("owner", schema=box.schema)
        if owner is not None and not owner.is_owner:
            raise EnvironmentProblem(
                "only the owner of the box may listen for other boxes", remedy="use a DSN of the owner"
            )
        self._files = CertificateFiles(certificate, key, authority, "--listen")
        self._stamp, self._context = self._files.stamp(), self._files.for_server()
        self._socket = _listening(*_host_and_port(listen))
        host, port = self._socket.getsockname()[:2]
        self.address = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        self._ended = threading.Event()
        self._handshakes = threading.BoundedSemaphore(self._limits.handshakes)
        self._at_once = threading.BoundedSemaphore(MOST_AT_ONCE)
        self._peers = _Peers(self._limits)
        self._told: dict[str, float] = {}
        self._open: set[ssl.SSLSocket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._accept, name="seriatim-link-server", daemon=True)

    def start(self) -> None:
        """Begin to listen; what comes is answered in threads."""
        self._thread.start()
        _LOG.info("listening for other boxes at %s", self.address, extra=fields("link_listening", address=self.address))

    def close(self) -> None:
        """Listen no more. Requests in hand are answered first, if that takes a few seconds only."""
        self._ended.set()
        with suppress(OSError):  # so that `accept` ends, where the system does that
            self._socket.shutdown(socket.SHUT_RDWR)
        if self._thread.ident is not None:
            self._thread.join(_END_S)
        self._socket.close()
        self._peers.await_answers(_END_S)
        with self._lock:
            for connection in self._open:
                with suppress(OSError):  # so that its thread ends
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._ended.is_set():
            try:
                raw, address = self._socket.accept()
            except TimeoutError:
                continue
            except OSError as error:
                if self._ended.is_set():
                    return
                self._tell(logging.WARNING, f"no connection can be accepted: {error}")
                self._ended.wait(_LOOK_S)  # such as: too many open files
                continue
            if not self._handshakes.acquire(blocking=False):
                raw.close()
                self._tell(logging.WARNING, "a connection was closed: too many begin at once")
                continue
            peer = threading.Thread(
                target=self._connection, args=[raw, str(address[0])], name="seriatim-link-peer", daemon=True
            )
            try:
                peer.start()
            except RuntimeError as error:  # too many threads
                raw.close()
                self._handshakes.release()
                self._tell(logging.WARNING, f"a connection was closed: {error}")

    def _connection(self, raw: socket.socket, address: str) -> None:
        """All of one connection."""
        with contextlib.ExitStack() as stack:
            begins = stack.enter_context(contextlib.ExitStack())
            begins.callback(self._handshakes.release)
            stack.callback(raw.close)
            try:
                raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                raw.settimeout(self._limits.handshake_s)
                connection = self._tls().wrap_socket(raw, server_side=True)
            except (OSError, ValueError) as error:
                why = getattr(error, "verify_message", None) or getattr(error, "reason", None) or str(error)
                self._tell(logging.INFO, f"a handshake with {address} failed: {why}")
                return
            stack.enter_context(self._noted(connection))
            wire = _Wire(connection, self._limits)
            try:
                self._begun(wire, connection, address, begins)
            except _Refused as refused:
                with suppress(OSError, h11.LocalProtocolError):
                    wire.refuse(refused.status, refused.why)
            except SeriatimError as error:  # the box is away
                self._tell(logging.WARNING, f"a request can't be answered: {error}")
                with suppress(OSError, h11.LocalProtocolError):
                    wire.refuse(503, "the box is away")
            except (OSError, h11.LocalProtocolError):
                pass  # the peer is gone, or it was too slow: it repeats what wasn't answered

    def _begun(self, wire: _Wire, connection: ssl.SSLSocket, address: str, begins: contextlib.ExitStack) -> None:
        """All of a connection whose certificate is verified; `begins` ends when its key is known."""
        who = f"{address}, with a certificate for {shown(names_of(connection))}"
        try:
            key = public_key_of(connection.getpeercert(binary_form=True) or b"")
        except ValueError:
            key = b""  # nobody's
        if not self._is_known(key):
            self._tell(logging.WARNING, f"the key isn't accepted of a box that calls from {who}")
            with suppress(_Refused):
                wire.request(self._limits.head_s)
            raise _Refused(403, _UNKNOWN)
        with self._peers.connected(key) as has_room:
            if has_room:
                begins.close()
                self._requests(wire, key)
                return
        self._tell(logging.WARNING, f"too many connections; the last one is from {who}")
        wire.request(self._limits.head_s)
        raise _Refused(503, "too many connections")

    def _requests(self, wire: _Wire, key: bytes) -> None:
        """Answer the requests of a connection, one after another."""
        begun, token = time.monotonic(), None
        while not self._ended.is_set():
            request = wire.request(self._limits.idle_s)
            if request is None:
                return
            with self._peers.turn(key) as has_turn:
                if not has_turn:
                    raise _Refused(503, _BUSY)
                most = LARGEST_FRAME if request.path == PUSH else 4096
                answer, token = self._answered(key, request.path, wire.body(request, most), token)
                if answer is None:
                    raise _Refused(403, _UNKNOWN)
                age = time.monotonic() - begun
                is_old = age > self._limits.age_s * (1 if request.path == PUSH else 2)
                wire.answer(200, MEDIA_TYPE, answer, closes=is_old or self._ended.is_set())
            if not wire.goes_on():
                return

    def _answered(
        self, key: bytes, path: str, frame: bytearray, token: UUID | None
    ) -> tuple[bytes | None, UUID | None]:
        """What the box answers, after its commit, and the token of the last batch that was fetched; None: the key isn't known any more."""
        with self._transaction() as transaction:
            if path == FETCH:
                answer, token = transaction.one("link_fetch_as", of_public_key=key, frame=frame)
                return answer, token
            if path == TRACE:
                return transaction.value("link_trace_as", of_public_key=key, frame=frame), token
            return transaction.value("link_push_as", of_public_key=key, frame=frame, of_token=token), token

    def _is_known(self, key: bytes) -> bool:
        with self._transaction() as transaction:
            return bool(transaction.value("link_knows", of_public_key=key))

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        """A transaction with the box, of which there are a few at once."""
        if not self._at_once.acquire(timeout=_TURN_S):
            raise _Refused(503, _BUSY)
        try:
            with self._box.access.transaction() as transaction:
                yield transaction
        finally:
            self._at_once.release()

    def _tls(self) -> ssl.SSLContext:
        """TLS by the files as they are now; if they can't be used, as they were."""
        if (stamp := self._files.stamp()) != self._stamp:
            self._stamp = stamp
            try:
                self._context = self._files.for_server()
            except EnvironmentProblem as error:
                self._tell(logging.WARNING, f"certificates were replaced, and can't be used: {error}")
        return self._context

    @contextmanager
    def _noted(self, connection: ssl.SSLSocket) -> Iterator[None]:
        with self._lock:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)
            with suppress(OSError):
                connection.close()

    def _tell(self, level: int, what: str) -> None:
        """Log what happened to a connection, the same not too often: strangers can make it happen."""
        now = time.monotonic()
        with self._lock:
            self._told = {text: at for text, at in self._told.items() if now - at < _TOLD_S}
            if what in self._told or len(self._told) >= _MOST_TOLD:
                return
            self._told[what] = now
        _LOG.log(level, "links over HTTPS: %s", what, extra=fields("link_peer_refused", error=what))


class _Refused(Exception):
    """A request that is answered by an error, and its connection closed."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


@dataclass(frozen=True, slots=True)
class _Request:
    """The head of a request: its path, and the length of its body."""

    path: str
    length: int


class _Peers:
    """Who is connected, and whose request is in hand: of a key one at a time, so that each has at most one frame in memory."""

    def __init__(self, limits: LinkLimits) -> None:
        self._limits = limits
        self._changed = threading.Condition()
        self._connections: Counter[bytes] = Counter()
        self._in_hand: set[bytes] = set()

    @contextmanager
    def connected(self, key: bytes) -> Iterator[bool]:
        """Count a connection while the block lasts; False: there are too many."""
        with self._changed:
            has_room = (
                self._connections.total() < self._limits.connections and self._connections[key] < self._limits.of_key
            )
            self._connections[key] += has_room
        try:
            yield has_room
        finally:
            with self._changed:
                self._connections[key] -= has_room
                self._connections += Counter()  # keeps those above 0

    @contextmanager
    def turn(self, key: bytes) -> Iterator[bool]:
        """Take the turn of a key while the block lasts; False: another request has it for too long."""
        with self._changed:
            has_turn = self._changed.wait_for(lambda: key not in self._in_hand, _TURN_S)
            if has_turn:
                self._in_hand.add(key)
        try:
            yield has_turn
        finally:
            with self._changed:
                if has_turn:
                    self._in_hand.discard(key)
                self._changed.notify_all()

    def await_answers(self, seconds: float) -> None:
        """Wait until no request is in hand, at most for so long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._in_hand, seconds)


class _Wire:
    """HTTP/1.1 on one connection. A request that isn't right or takes too long raises `_Refused`, a wait that does `TimeoutError`."""

    def __init__(self, connection: ssl.SSLSocket, limits: LinkLimits) -> None:
        self._limits = limits
        self._connection = connection
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=LARGEST_HEAD)

    def request(self, first_s: float) -> _Request | None:
        """The head of the next request, of which the first byte has to come in so many seconds; None: the peer has closed the connection."""
        if not self._http.trailing_data[0] and not self._receive(time.monotonic() + first_s):
            return None
        event = self._next(time.monotonic() + self._limits.head_s)
        if not isinstance(event, h11.Request):
            return None
        if event.method != b"POST":
            raise _Refused(405, "frames are posted")
        headers = dict(event.headers)
        path = event.target.decode("ascii", "replace")
        if path not in (PUSH, FETCH, TRACE):
            raise _Refused(404, f"there are {PUSH}, {FETCH} and {TRACE}")
        length = headers.get(b"content-length")
        if length is None:
            raise _Refused(411, "a request says its length")
        if len(length) > 12:
            raise _Refused(413, f"a frame has at most {LARGEST_FRAME:,} bytes")
        return _Request(path, int(length))

    def body(self, request: _Request, most: int) -> bytearray:
        """The body of a request."""
        if request.length > most:
            raise _Refused(413, f"it has {request.length:,} bytes, and at most {most:,} are taken")
        moment = time.monotonic() + self._limits.exchange_s
        if self._http.they_are_waiting_for_100_continue:
            self._send(self._http.send(h11.InformationalResponse(status_code=100, headers=[])), moment)
        found, end = bytearray(request.length), 0
        while isinstance(event := self._next(moment), h11.Data):
            found[end : end + len(event.data)] = event.data
            end += len(event.data)
        if not isinstance(event, h11.EndOfMessage):
            raise ConnectionError("the peer went away in the middle of a request")
        return found

    def answer(self, status: int, kind: str, content: bytes, *, closes: bool) -> None:
        """Answer a request."""
        headers = [("Content-Type", kind), ("Content-Length", str(len(content))), ("Cache-Control", "no-store")]
        headers += [("Connection", "close")] if closes else []
        if status == 503:
            headers.append(("Retry-After", "1"))
        moment = time.monotonic() + self._limits.exchange_s
        events = (h11.Response(status_code=status, headers=headers), h11.Data(data=content), h11.EndOfMessage())
        head, body, end = (self._http.send(event) or b"" for event in events)
        if len(body) <= _READ:
            self._send(head + body + end, moment)
        else:
            for piece in (head, body, end):  # not copied
                self._send(piece, moment)

    def refuse(self, status: int, why: str) -> None:
        """Answer a request by an error, and let the peer read it before the connection is closed."""
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        self.answer(status, "text/plain; charset=utf-8", why.encode() + b"\n", closes=True)
        # What the peer has sent meanwhile would take the answer away from it.
        moment = time.monotonic() + _LINGER_S
        with suppress(OSError):
            self._connection.settimeout(_LINGER_S)
            socket.socket.shutdown(self._connection, socket.SHUT_WR)
            while (left := moment - time.monotonic()) > 0:
                self._connection.settimeout(left)
                if not self._connection.recv(_READ):
                    return

    def goes_on(self) -> bool:
        """Whether another request may come."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        self._http.start_next_cycle()
        return True

    def _next(self, moment: float) -> Any:
        """The next event of HTTP."""
        while True:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                raise _Refused(error.error_status_hint, "this isn't HTTP as it should be") from None
            if event is not h11.NEED_DATA:
                return event
            try:
                self._receive(moment)
            except TimeoutError:
                raise _Refused(408, "the request took too long") from None

    def _receive(self, moment: float) -> bool:
        """Wait for bytes until a time; whether some came, rather than the end."""
        self._connection.settimeout(_left(moment))
        found = self._connection.recv(_READ)
        self._http.receive_data(found)
        return bool(found)

    def _send(self, content: bytes | None, moment: float) -> None:
        # A send of its own for each piece that the peer takes: `sendall` of TLS begins the time-out anew with each.
        rest = memoryview(content or b"")
        while rest:
            self._connection.settimeout(_left(moment))
            rest = rest[self._connection.send(rest[:_READ]) :]


def _left(moment: float) -> float:
    left = moment - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _host_and_port(listen: str) -> tuple[str, int]:
    host, colon, port = listen.rpartition(":")
    if not colon or not (port.isascii() and port.isdecimal()) or int(port) > 65535 or (":" in host and host[:1] != "["):
        raise UsageError(f"cannot listen at {shown(listen)}", remedy="HOST:PORT, such as 0.0.0.0:8471 or [::]:8471")
    return host.strip("[]"), int(port)


def _listening(host: str, port: int) -> socket.socket:
    try:
        family, kind, proto, _, place = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        found = socket.socket(family, kind, proto)
    except (OSError, UnicodeError) as error:
        raise _cannot_listen(host, port, error) from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        found.listen(128)
        found.settimeout(_LOOK_S)
    except OSError as error:
        found.close()
        raise _cannot_listen(host, port, error) from None
    return found


def _cannot_listen(host: str, port: int, error: Exception) -> EnvironmentProblem:
    why = getattr(error, "strerror", None) or str(error)
    return EnvironmentProblem(f"cannot listen at {host}:{port}: {why}", remedy="give another address with --listen")
