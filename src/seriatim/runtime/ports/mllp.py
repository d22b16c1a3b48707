"""The source MLLP: listens for senders of HL7 v2, and acknowledges a message when it is committed.

One thread has all connections; the port's thread takes what they have received, so that the messages of several senders share a commit.
"""

from __future__ import annotations

import asyncio
import queue
import socket
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from seriatim.certificates import RenewedContext, TlsFiles
from seriatim.endpoints.hl7 import FrameReader, FrameTooLarge, Header, NotFramed, acknowledgement, checked_path, framed
from seriatim.errors import EnvironmentProblem, UsageError, shown
from seriatim.listening.accepting import Accepting
from seriatim.listening.address import host_and_port, listening
from seriatim.listening.crowd import ConnectionState, Visitor
from seriatim.listening.limits import ListenLimits
from seriatim.listening.seldom import tell
from seriatim.network import PACE
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.text.typed import typed
from seriatim.pipeline.types.message import Property
from seriatim.runtime.ports.source import (
    Outcome,
    Promise,
    Source,
    SourceAway,
    Taken,
    id_of,
    made,
    property_names,
    with_digest,
)

_EXAMPLE = "127.0.0.1:2575"
#: Bytes of incomplete and unacknowledged messages in memory, of all connections; the more of a message has come, the sooner it is complete.
_MOST_IN_MEMORY = 256 * 2**20
#: Senders whose sequence numbers are remembered, and for each the numbers that came too early.
_MOST_SENDERS, _MOST_EARLY = 1000, 1000
_END_S = 5.0
#: Messages of a connection that aren't answered, and their bytes, until no more is read of it.
_MOST_UNDER_WAY, _MOST_BYTES = 1000, 4 * 2**20


@dataclass(slots=True, eq=False)
class _Numbers:
    """The sequence numbers of a sender that are committed: the next one, and those that came before it was their turn."""

    next: int | None = None
    early: set[int] = field(default_factory=set)

    def take(self, number: int) -> None:
        if self.next is None:
            self.next = number
        if number >= self.next and len(self.early) < _MOST_EARLY:
            self.early.add(number)
        while self.next in self.early:
            self.early.discard(self.next)
            self.next += 1


@dataclass(slots=True)
class _Frame:
    """A message of a connection, until it is answered."""

    body: bytes
    connection: _Connection
    #: The time of the monotonic clock at which it came.
    came: float
    #: Whether its acknowledgement is known, or nobody is there to get it.
    is_answered: bool = False
    #: The acknowledgement; None: its sender wants none.
    answer: bytes | None = None
    #: The bytes of its body, also when that is gone.
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.size = len(self.body)

    def end(self, answer: bytes | None = None) -> None:
        """Keep the acknowledgement and drop the body: the frame itself stays until it is taken, as long as the box is away."""
        self.answer = answer
        self.is_answered = True
        self.body = b""


@dataclass(frozen=True, slots=True)
class _Handle:
    header: Header | None
    frame: _Frame
    #: Where its number belongs; None: it has none.
    numbers: _Numbers | None = None

    def count(self, numbers: _Numbers) -> int | None:
        """Take its number in; return the one that is expected next."""
        if self.header is not None and self.header.sequence is not None:
            numbers.take(self.header.sequence)
        return numbers.next


@dataclass(frozen=True, slots=True)
class _Settings:
    limits: ListenLimits
    tls: RenewedContext | None
    largest: int
    patience_s: float


class MllpSource(Source):
    """Listens at an address.

    Args:
        listen: ``HOST:PORT``.
        name: the name of the port; default: ``mllp-`` and the address.
        type: the type of the messages; default: that of MSH-9, such as ``ADT^A01``.
        properties: further properties, name → path, such as ``{"patient": "PID-3.1"}``.
        largest: the most bytes of a message.
        connections: the most connections at once.
        silent: seconds without a byte within a message, after which its connection is closed.
        patience: seconds after which a message that can't be committed (the box is away, a queue is full) is answered with ``AR``.
        certificate: a file with the certificate of this side and its chain, PEM; None: without TLS.
        key: a file with its private key, PEM. Replaced files are read again.
        authority: a file with the certificates of the authority that signs senders, PEM: each has to show a certificate; None: none has to.
    """

    kind = "mllp"
    promise = Promise(
        order="the messages of one connection come in order",
        keeps_order_over_a_crash=True,
        advice="Fifo fits a sender with one connection; for several connections take Standard on source_position (MSH-13)",
    )

    @typed
    def __init__(
        self,
        listen: str,
        *,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 -- as the text has it
        properties: Mapping[str, str] | None = None,
        largest: int = 64 * 2**20,
        connections: int = 128,
        silent: float = 10.0,
        patience: float = 20.0,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        authority: str | Path | None = None,
    ) -> None:
        self._address = host_and_port(listen, _EXAMPLE)
        self.name = name or f"mllp-{listen}"
        self._type = type
        self.properties = self._paths = property_names(properties, "path")
        for path in self._paths.values():
            checked_path(path)
        above_0 = {"largest": largest, "connections": connections, "silent": silent, "patience": patience}
        for called, value in above_0.items():
            if value <= 0:
                raise UsageError(f"{called} can't be {shown(value)}", remedy="a number above 0")
        files = TlsFiles(certificate, key, authority, "mllp")
        if authority is not None and certificate is None:
            raise UsageError("an authority for senders needs TLS", remedy="give certificate and key, too")
        tls = None if certificate is None else RenewedContext(files, lambda text: tell(self.name, text))
        limits = ListenLimits(connections=connections, of_address=connections, silent_s=silent)
        self._settings = _Settings(limits, tls, int(largest), patience)
        #: What was received and isn't taken: what a connection has read at once, and what is left of that.
        self._received: queue.Queue[list[_Frame]] = queue.Queue()
        self._frames: deque[_Frame] = deque()
        self._numbers: dict[str, _Numbers] = {}
        self._server: _Listener | None = None
        #: Where it listens, ``HOST:PORT``, while it does.
        self.address: str | None = None

    def partitions(self) -> Sequence[str]:
        """It has one partition; the process that has claimed it listens."""
        return ("",)

    def begin(self, partition: str, position: Any) -> None:
        self._numbers = {who: _Numbers(one[0], set(one[1:])) for who, one in (position or {}).items()}
        try:
            listener = listening(*self._address, "listen")
        except EnvironmentProblem as error:
            raise SourceAway(error.what, remedy=error.remedy) from None
        host, port = listener.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._server = _Listener(listener, self.name, self._settings, self._received.put)
        self._server.start()
        LOG.info("port_listening", port=self.name, address=self.address)

    def end(self, partition: str) -> None:
        """Stop listening; senders whose messages aren't acknowledged send them again."""
        server, self._server, self.address = self._server, None, None
        if server is not None:
            server.close()
        while not self._received.empty():
            self._received.get_nowait()
        self._frames.clear()

    def close(self) -> None:
        self.end("")

    def take(self, most: int, wait_s: float) -> list[Taken]:
        found: list[Taken] = []
        answered: set[_Connection] = set()
        with suppress(queue.Empty):
            while len(found) < most:
                if not self._frames:
                    self._frames += self._received.get_nowait() if found else self._received.get(timeout=wait_s)
                frame = self._frames.popleft()
                if (taken := self._taken(frame)) is not None:
                    found.append(taken)
                elif frame.is_answered:
                    answered.add(frame.connection)
        self._say(answered)
        return found

    def acknowledge(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            handle: _Handle = outcome.taken.handle
            code, text = "A", ""
            if handle.header is None:
                code, text = "E", "the message has no MSH segment that can be read; it is kept"
            _answer(handle, code, text, None if handle.numbers is None else handle.count(handle.numbers))
        self._say({outcome.taken.handle.frame.connection for outcome in outcomes})

    def position(self, taken: Sequence[Taken]) -> Any:
        """Return the number that each sender is asked for next once these messages are committed."""
        after: dict[_Numbers, _Numbers] = {}
        for handle in (one.handle for one in taken):
            if handle.numbers is not None:
                known = handle.numbers
                handle.count(after.setdefault(known, replace(known, early=set(known.early))))
        if not after:
            return None
        then = {who: after.get(known, known) for who, known in self._numbers.items()}
        return {who: [one.next, *sorted(one.early)] for who, one in then.items() if one.next is not None}

    def comes_again(self, taken: Taken) -> bool:
        """Whether its sender was told to send it again, or has gone without an answer."""
        return bool(taken.handle.frame.is_answered)

    def _say(self, connections: set[_Connection]) -> None:
        if self._server is not None and connections:
            self._server.say(connections)

    def _taken(self, frame: _Frame) -> Taken | None:
        body = frame.body  # before the question: an answered frame has none
        if frame.is_answered:  # its sender was told that it isn't taken in, or has gone
            return None
        header = Header.of(body)
        if header is None:
            message = made("mllp", body, {}, with_digest(id_of("mllp", ""), body), None)
            taken = Taken("", message).refused("it has no MSH segment that can be read")
            return Taken("", taken.message, handle=_Handle(None, frame))
        sender, number = "|".join(header.sender), header.sequence
        if number in (0, -1) and number is not None:
            self._begins(header, sender, number, frame)
            return None
        context: dict[str, Property] = {
            "source_partition": sender, "source_position": number, "source_id": header.control_id or None,
            **{name: header.text_at(path) for name, path in self._paths.items()},
        }  # fmt: skip
        kind = self._type or "^".join(header.field(9).split(header.field(2)[:1] or "^")[:2]) or "mllp"
        by = id_of("mllp", *header.sender, header.control_id)
        message_id = with_digest(by, header.without_time())
        content_type = f"x-application/hl7-v2+er7{f'; charset={header.encoding}' if header.encoding else ''}"
        message = made(kind, body, context, message_id, content_type)
        numbers = None
        if number is not None:
            numbers = self._numbers[sender] = self._numbers.pop(sender, _Numbers())
            while len(self._numbers) > _MOST_SENDERS:
                del self._numbers[next(iter(self._numbers))]
        return Taken("", message, by if header.control_id else None, _Handle(header, frame, numbers))

    def _begins(self, header: Header, sender: str, number: int, frame: _Frame) -> None:
        """Answer a sender that begins, or begins anew, with its numbers: its message has no content."""
        known = self._numbers.get(sender)
        if number == -1:
            self._numbers.pop(sender, None)
        expected = known.next if known is not None and number == 0 else None
        _answer(_Handle(header, frame), "A", expected=-1 if expected is None else expected)


def _answer(handle: _Handle, code: str, text: str = "", expected: int | None = None) -> None:
    if not handle.frame.is_answered:
        handle.frame.end(_acknowledged(handle.header, code, text, expected))


def _acknowledged(header: Header | None, code: str, text: str, expected: int | None = None) -> bytes | None:
    """The acknowledgement, if the sender wants one: by MSH-15 ``AL``, ``NE``, ``ER`` or ``SU``."""
    wanted = "" if header is None else header.field(15).strip().upper()
    if wanted == "NE" or (wanted == "ER" and code == "A") or (wanted == "SU" and code != "A"):
        return None
    return acknowledgement(header, code, text=text, expected=expected, control_id=uuid.uuid4().hex[:20])


class _Listener:
    """A thread with a loop, in which connections are."""

    def __init__(
        self, listener: socket.socket, name: str, settings: _Settings, received: Callable[[list[_Frame]], None]
    ) -> None:
        self.name, self.settings, self.received = name, settings, received
        self._listener = listener
        self.connections: set[_Connection] = set()
        #: Bytes in memory, of all connections.
        self.in_memory = 0
        self._ended: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name=f"seriatim {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._begun.wait(_END_S)

    def say(self, connections: set[_Connection]) -> None:
        """Send the acknowledgements that are known. Thread-safe."""
        with suppress(RuntimeError):  # the loop has ended
            if self._loop is not None:
                self._loop.call_soon_threadsafe(_say, connections)

    def close(self) -> None:
        with suppress(RuntimeError):  # the loop has ended
            if self._loop is not None and self._ended is not None:
                self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_END_S)
        self._listener.close()

    async def _run(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        accepting = Accepting(
            self.name, self._listener, self.settings.limits, partial(_Connection, self), tls=self.settings.tls
        )
        self._begun.set()
        every_s = min(self.settings.limits.silent_s, self.settings.patience_s, 1.0) / 5
        while not self._ended.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(every_s):
                    await self._ended.wait()
            now = time.monotonic()
            for one in list(self.connections):
                one.look(now)
        accepting.close()
        await accepting.wait_closed()
        for one in list(self.connections):
            one.leave()
        await asyncio.sleep(0)


class _Connection(asyncio.Protocol):
    """A connection: its messages are handed to the port as they come, and answered in that order."""

    def __init__(self, listener: _Listener, visitor: Visitor) -> None:
        self._listener, self._visitor, self._settings = listener, visitor, listener.settings
        self._reader = FrameReader(listener.settings.largest)
        self._transport: asyncio.Transport = None  # type: ignore[assignment] # it is made before anything else happens
        #: The messages that aren't answered, and the bytes of their bodies.
        self._under_way: deque[_Frame] = deque()
        self._bytes = 0
        #: What this connection has in memory, as the listener counts it.
        self._counted = 0
        #: The times of the first and of the last byte of the message that isn't complete.
        self._began = self._came = 0.0
        #: Whether its sender doesn't wait for each acknowledgement; whether nothing more is read; whether that is so for a while.
        self._is_ahead = self._is_over = self._is_paused = False
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]
        self._visitor.close, self._visitor.state = self.leave, ConnectionState.IDLE
        self._listener.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Nobody gets the acknowledgements: what isn't taken is sent again, and needn't come in before."""
        self._is_over = True
        for frame in reversed(self._under_way):
            frame.end()
        self._under_way.clear()
        # A frame that isn't taken keeps its connection in memory; an incomplete message goes.
        self._reader = FrameReader(self._settings.largest)
        self._listener.in_memory -= self._counted
        self._bytes = self._counted = 0  # also when an acknowledgement comes later
        self._listener.connections.discard(self)
        if self._unread is not None:
            self._unread.cancel()
        Accepting.left(self._visitor)

    def eof_received(self) -> bool:
        """Answer what has come before the other side ended its half."""
        self._end(None)
        return self._transport.get_extra_info("ssl_object") is None  # TLS knows no half

    def leave(self) -> None:
        self._is_over = True
        self._transport.abort()

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        now, frames, problem = time.monotonic(), list[_Frame](), None
        self._came = now
        try:
            for body in self._reader.feed(data):
                frames.append(_Frame(body, self, now))
                self._bytes += len(body)
        except (FrameTooLarge, NotFramed) as error:
            problem = error
        if frames:
            self._is_ahead = self._is_ahead or len(self._under_way) + len(frames) > 1
            self._under_way += frames
            self._listener.received(frames)
            self._began = 0.0
        if not self._reader.held:
            self._began = 0.0
        elif not self._began:
            self._began = now
        self._count()
        if problem is not None:
            self._refuse(problem)
        elif self._listener.in_memory > _MOST_IN_MEMORY:
            self._tell("a connection was closed: the messages under way have too many bytes")
            self.leave()

    def say(self) -> None:
        """Send the acknowledgements that are known, as far as none is missing before them."""
        answers = []
        while self._under_way and self._under_way[0].is_answered:
            frame = self._under_way.popleft()
            self._bytes -= frame.size
            if frame.answer is not None:
                answers.append(framed(frame.answer))
        if answers and not self._transport.is_closing():
            self._transport.write(b"".join(answers))
        self._count()
        if self._is_over and not self._under_way:
            self._transport.close()

    def look(self, now: float) -> None:
        """Answer that nothing can be stored now, and end what takes too long."""
        if self._under_way and now - self._under_way[0].came > self._settings.patience_s:
            # The last one first: the port must not take one after it has left an earlier one out.
            for frame in reversed(self._under_way):
                _answer(_Handle(Header.of(frame.body), frame), "R", "it can't be stored now; send it again")
            # Else a later one would come before those that are sent again.
            self._is_over = self._is_over or self._is_ahead or bool(self._reader.held)
            self.say()
        silent_s = self._settings.limits.silent_s
        if self._began and not self._is_paused and not self._is_over:
            until = min(self._came + silent_s, self._began + silent_s + self._reader.held / PACE)
            if now > until:
                self._tell(f"a connection of {self._visitor.address} was closed: its message took too long")
                self.leave()

    def pause_writing(self) -> None:
        """The other side doesn't read its acknowledgements: not for ever."""
        self._visitor.is_unread = True
        self._unread = asyncio.get_running_loop().call_later(self._settings.limits.silent_s, self.leave)
        self._count()

    def resume_writing(self) -> None:
        self._visitor.is_unread = False
        if self._unread is not None:
            self._unread.cancel()
        self._count()

    def _refuse(self, problem: Exception) -> None:
        """Say why nothing more is read, and end."""
        who, largest, answer = self._visitor.address, self._settings.largest, None
        if isinstance(problem, FrameTooLarge):
            self._tell(f"a message of {who} is refused: it has more than {largest:,} bytes")
            answer = acknowledgement(None, "R", text=f"more than {largest} bytes", control_id=uuid.uuid4().hex[:20])
        else:
            self._tell(f"a connection of {who} was closed: its bytes are in no frame of MLLP")
        self._end(answer)

    def _end(self, answer: bytes | None) -> None:
        """Read nothing more, and close behind the last acknowledgement."""
        if answer is not None:
            self._under_way.append(_Frame(b"", self, time.monotonic(), is_answered=True, answer=answer))
        self._is_over = True
        self.say()
        # Closed in time even if the other side doesn't read the rest.
        self._unread = asyncio.get_running_loop().call_later(
            self._settings.patience_s + self._settings.limits.silent_s, self.leave
        )

    def _count(self) -> None:
        """Count the bytes in memory, and read no more while there are too many."""
        counted = self._bytes + self._reader.held
        self._listener.in_memory += counted - self._counted
        self._counted = counted
        state = ConnectionState.IDLE if not self._reader.is_inside else ConnectionState.SENDS
        self._visitor.state = ConnectionState.ANSWERED if self._under_way else state
        is_much = self._visitor.is_unread or self._bytes > _MOST_BYTES or len(self._under_way) > _MOST_UNDER_WAY
        if is_much and not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()
        elif self._is_paused and not is_much:
            self._is_paused, self._came = False, time.monotonic()
            self._transport.resume_reading()

    def _tell(self, text: str) -> None:
        tell(self._listener.name, text)


def _say(connections: set[_Connection]) -> None:
    for one in connections:
        one.say()
