"""Links over HTTPS: other boxes push their messages, fetch the messages that wait for them, and ask for results.

A connection is one of mutual TLS. The public key of the peer's certificate is its name here; which box it speaks as, and into which queues,
is decided in the box, as for roles. Nothing of a peer is read before its certificate is verified, and of one whose key the box doesn't know
only the head of a request.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from seriatim.box.box import MessageBox
from seriatim.box.links.certificates import CertificateFiles, names_of, public_key_of
from seriatim.box.links.https_carrier import FETCH, MEDIA_TYPE, PUSH, TRACE
from seriatim.box.links.layout import LARGEST_FRAME
from seriatim.certificates import RenewedContext
from seriatim.errors import EnvironmentProblem, SeriatimError, shown
from seriatim.listening.address import host_and_port, listening, url_of
from seriatim.listening.bodies import Gone, Receive, RequestRefused, Send, answer, body_of, refuse
from seriatim.listening.crowd import Crowd, Visitor
from seriatim.listening.limits import ListenLimits
from seriatim.listening.seldom import tell
from seriatim.listening.server import Server
from seriatim.listening.threads import Busy, Threads
from seriatim.pipeline.text.event_log import LOG

_NAME = "links over HTTPS"
#: Connections of known peers, and those of one key; seconds until the first byte of the next request.
MOST_CONNECTIONS, MOST_OF_KEY, IDLE_S = 64, 8, 120.0
#: Requests that the box answers at once: they share its connections with the rest of the process. Bodies of one key in memory.
MOST_AT_ONCE, BODIES_OF_KEY = 8, 2
#: The longest wait of a request for others of its key, seconds.
_TURN_S = 30.0
#: A connection is closed after that, so that certificates are verified again; a connection that only fetches after twice as long,
#: seconds.
AGE_S = 600.0
_LARGEST_QUESTION = 4096
_UNKNOWN, _BUSY = "this key isn't known", "other requests aren't done"


@dataclass(frozen=True, slots=True)
class LinkLimits(ListenLimits):
    """The resources of this process for connections of other boxes: an unknown peer has those of strangers."""

    known: int = MOST_CONNECTIONS
    #: Connections of one key; the oldest idle one makes room for another.
    of_key: int = MOST_OF_KEY
    #: Seconds until the first byte of the next request.
    idle_s: float = IDLE_S
    #: Seconds after which a connection is closed after the answer to a push; after any other answer twice as many.
    age_s: float = AGE_S


class LinkServer:
    """Listens for other boxes, until it is closed. ``seriatim serve --listen`` has one."""

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
        #: The limits of connections. Replaced files are read again.
        self._limits = limits or LinkLimits()
        #: The message box; its role has to be the owner.
        self._box = box
        with box.access.transaction() as transaction:
            owner = transaction.maybe("owner", schema=box.schema)
        if owner is not None and not owner.is_owner:
            raise EnvironmentProblem(
                "only the owner of the box may listen for other boxes", remedy="use a DSN of the owner"
            )
        tls = RenewedContext(CertificateFiles(certificate, key, authority, "--listen"), partial(tell, _NAME))
        self._known = Crowd(self._limits.known, self._limits.of_key)
        self._keys: dict[bytes, _Key] = {}
        self._calls = Threads(MOST_AT_ONCE, MOST_CONNECTIONS)
        listener = listening(*host_and_port(listen, "0.0.0.0:8471 or [::]:8471"), "--listen")
        self.address = url_of(listener, "https")
        self._server = Server(self._answer, _NAME, listener, limits=self._limits, tls=tls)

    def start(self) -> None:
        """Begin to listen; a thread answers the requests."""
        self._server.start()
        LOG.info("link_listening", address=self.address)

    def close(self) -> None:
        """Stop listening. Requests under way are answered first, if that takes only a few seconds."""
        self._server.close()

    async def _answer(self, scope: Any, receive: Receive, send: Send) -> None:
        visitor: Visitor = scope["state"]["visitor"]
        try:
            key = await self._key_of(visitor)
            await self._request(scope, receive, send, visitor, key)
        except RequestRefused as refused:
            await refuse(receive, send, refused.status, refused.why)
        except Busy:
            await refuse(receive, send, 503, _BUSY)
        except SeriatimError as error:  # the box is away
            tell(_NAME, f"a request can't be answered: {error}")
            await refuse(receive, send, 503, "the box is away")
        except Gone:
            pass  # the peer repeats unanswered requests

    async def _key_of(self, visitor: Visitor) -> bytes:
        if (found := visitor.notes.get("key")) is not None:
            return bytes(found)
        assert visitor.tls is not None  # noqa: S101 -- there is no other way in
        peer = f"{visitor.address}, with a certificate for {shown(names_of(visitor.tls))}"
        try:
            key = public_key_of(visitor.tls.getpeercert(binary_form=True) or b"")
        except ValueError:
            key = b""  # no peer's
        if not await self._calls.call(self._is_known, key):
            tell(_NAME, f"the key isn't accepted of a box that calls from {peer}")
            raise RequestRefused(403, _UNKNOWN)
        if not self._known.enter(visitor, key):
            tell(_NAME, f"too many connections; the last one is from {peer}")
            raise RequestRefused(503, "too many connections")
        visitor.notes["key"] = key
        return key

    async def _request(self, scope: Any, receive: Receive, send: Send, visitor: Visitor, key: bytes) -> None:
        path, length = _checked(scope)
        async with self._of_key(key) as state, _in_time(state.bodies):
            frame = await body_of(
                receive,
                length=length,
                most=LARGEST_FRAME if path == PUSH else _LARGEST_QUESTION,
                silent_s=self._limits.silent_s,
            )
            async with _in_time(state.turn):
                reply, token = await self._calls.call(self._answered, key, path, frame, visitor.notes.get("token"))
            visitor.notes["token"] = token
            if reply is None:
                raise RequestRefused(403, _UNKNOWN)
            del frame
            age = time.monotonic() - visitor.began
            is_old = age > self._limits.age_s * (1 if path == PUSH else 2)
            await answer(send, 200, MEDIA_TYPE, reply, {"Connection": "close"} if is_old else {})

    @asynccontextmanager
    async def _of_key(self, key: bytes) -> AsyncIterator[_Key]:
        """Yield the resources that requests of a key share."""
        state = self._keys.setdefault(key, _Key())
        state.requests += 1
        try:
            yield state
        finally:
            state.requests -= 1
            if not state.requests:
                del self._keys[key]

    def _answered(
        self, key: bytes, path: str, frame: bytearray, token: UUID | None
    ) -> tuple[bytes | None, UUID | None]:
        """Return the box's answer, after its commit, and the token of the last fetched batch; None: the key isn't known any more."""
        with self._box.access.transaction() as transaction:
            if path == FETCH:
                answer, token = transaction.one("link_fetch_as", of_public_key=key, frame=frame)
                return answer, token
            if path == TRACE:
                return transaction.value("link_trace_as", of_public_key=key, frame=frame), token
            return transaction.value("link_push_as", of_public_key=key, frame=frame, of_token=token), token

    def _is_known(self, key: bytes) -> bool:
        with self._box.access.transaction() as transaction:
            return bool(transaction.value("link_knows", of_public_key=key))


@dataclass(slots=True)
class _Key:
    """The resources that requests of a key share: places for bodies in memory, and the turn in the box, which begins when the body is
    complete.
    """

    bodies: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(BODIES_OF_KEY))
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    requests: int = 0


@asynccontextmanager
async def _in_time(turn: asyncio.Semaphore | asyncio.Lock) -> AsyncIterator[None]:
    """Take a turn while the block lasts; wait for other turns for a limited time."""
    try:
        async with asyncio.timeout(_TURN_S):
            await turn.acquire()
    except TimeoutError:
        raise RequestRefused(503, _BUSY) from None
    try:
        yield
    finally:
        turn.release()


def _checked(scope: Any) -> tuple[str, int]:
    """The path of a request, and the length of its body."""
    if scope["method"] != "POST":
        raise RequestRefused(405, "frames are posted")
    path = str(scope["path"])
    if path not in (PUSH, FETCH, TRACE):
        raise RequestRefused(404, f"there are {PUSH}, {FETCH} and {TRACE}")
    length = dict(scope["headers"]).get(b"content-length")
    if length is None:
        raise RequestRefused(411, "a request says its length")
    if len(length) > 12:
        raise RequestRefused(413, f"a frame has at most {LARGEST_FRAME:,} bytes")
    return path, int(length)
