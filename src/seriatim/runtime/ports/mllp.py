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
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from seriatim.endpoints.hl7 import FrameReader, FrameTooLarge, Header, NotFramed, acknowledgement, checked_path, framed
from seriatim.errors import EnvironmentProblem, UsageError, shown
from seriatim.listening.address import host_and_port, listening
from seriatim.listening.crowd import ConnectionState, Crowd, Visitor, name_of
from seriatim.listening.limits import ListenLimits
from seriatim.listening.seldom import tell
from seriatim.network import PACE, watch
from seriatim.pipeline.text.event_log import LOG
from seriatim.pipeline.types.message import Property
from seriatim.runtime.ports.source import Outcome, Promise, Source, SourceAway, Taken, id_of, made, property_names

__all__ = ["MllpSource"]

_EXAMPLE = "127.0.0.1:2575"
_CHUNK = 65_536
#: Bytes of incomplete and unacknowledged messages in memory, of all connections; the more of a message has come, the sooner it is complete.
_MOST_IN_MEMORY = 256 * 2**20
#: Senders whose sequence numbers are remembered, and for each the numbers that came too early.
_MOST_SENDERS, _MOST_EARLY = 1000, 1000
_END_S = 5.0


@dataclass(slots=True)
class _Numbers:
    """The sequence numbers of a sender: the next one, and those that came before it was their turn."""

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


@dataclass(frozen=True, slots=True)
class _Frame:
    """A message of a connection, with the future of its acknowledgement."""

    body: bytes
    answer: Future[bytes | None]


@dataclass(frozen=True, slots=True)
class _Handle:
    header: Header | None
    frame: _Frame
    expected: int | None = None


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
    """

    kind = "mllp"
    promise = Promise(
        order="the messages of one connection come in order",
        keeps_order_over_a_crash=True,
        advice="Fifo fits a sender with one connection; for several connections take Standard on source_position (MSH-13)",
    )

    def __init__(
        self,
        listen: str,
        *,
        name: str | None = None,
        type: str | None = None,  # noqa: A002 -- as the text has it
        properties: dict[str, str] | None = None,
        largest: int = 64 * 2**20,
        connections: int = 128,
        silent: float = 10.0,
        patience: float = 20.0,
    ) -> None:
        self._address = host_and_port(listen, _EXAMPLE)
        self.name = name or f"mllp-{listen}"
        self._type = type
        self.properties = self._paths = property_names(properties, "path")
        for path in self._paths.values():
            checked_path(path)
        for called, value in (
            ("largest", largest),
            ("connections", connections),
            ("silent", silent),
            ("patience", patience),
        ):
            if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
                raise UsageError(f"{called} can't be {shown(value)}", remedy="a number above 0")
        self._largest, self._connections, self._silent_s, self._patience_s = largest, connections, silent, patience
        #: What was received and isn't taken.
        self._received: queue.Queue[_Frame] = queue.Queue()
        self._numbers: dict[str, _Numbers] = {}
        self._server: _Listener | None = None
        #: Where it listens, ``HOST:PORT``, while it does.
        self.address: str | None = None

    def partitions(self) -> Sequence[str]:
        """It has one: whoever holds it listens."""
        return ("",)

    def begin(self, partition: str, position: Any) -> None:
        """Listen."""
        self._numbers = {who: _Numbers(one[0], set(one[1:])) for who, one in (position or {}).items()}
        try:
            listener = listening(*self._address, "listen")
        except EnvironmentProblem as error:
            raise SourceAway(error.what, remedy=error.remedy) from None
        host, port = listener.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        limits = ListenLimits(connections=self._connections, of_address=self._connections, silent_s=self._silent_s)
        self._server = _Listener(listener, self.name, limits, self._largest, self._patience_s, self._received.put)
        self._server.start()
        LOG.info("port_listening", port=self.name, address=self.address)

    def end(self, partition: str) -> None:
        """Stop listening; senders whose messages aren't acknowledged send them again."""
        server, self._server, self.address = self._server, None, None
        if server is not None:
            server.close()
        while not self._received.empty():
            self._received.get_nowait()

    def close(self) -> None:
        """Stop listening."""
        self.end("")

    def take(self, most: int, wait_s: float) -> list[Taken]:
        """Take what connections have received."""
        found: list[Taken] = []
        try:
            frame = self._received.get(timeout=wait_s)
            while True:
                if (taken := self._taken(frame)) is not None:
                    found.append(taken)
                if len(found) >= most:
                    break
                frame = self._received.get_nowait()
        except queue.Empty:
            pass
        return found

    def acknowledge(self, outcomes: Sequence[Outcome]) -> None:
        """Answer the senders."""
        for outcome in outcomes:
            handle: _Handle = outcome.taken.handle
            code, text = "A", ""
            if handle.header is None:
                code, text = "E", "the message has no MSH segment that can be read; it is kept"
            _answer(handle, code, text)

    def _taken(self, frame: _Frame) -> Taken | None:
        if frame.answer.done():  # its sender was told that it isn't taken in, or has gone
            return None
        header = Header.of(frame.body)
        if header is None:
            message = made("mllp", frame.body, {}, id_of("mllp", "", body=frame.body), None)
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
        by = id_of("mllp", *header.sender, header.control_id) if header.control_id else None
        message_id = id_of("mllp", *header.sender, header.control_id, body=header.without_time())
        content_type = f"x-application/hl7-v2+er7{f'; charset={header.encoding}' if header.encoding else ''}"
        message = made(kind, frame.body, context, message_id, content_type)
        position, expected = None, None
        if number is not None:
            known = self._numbers.pop(sender, None) or _Numbers()
            self._numbers[sender] = known
            known.take(number)
            while len(self._numbers) > _MOST_SENDERS:
                del self._numbers[next(iter(self._numbers))]
            position, expected = self._position(), known.next
        return Taken("", message, by, _Handle(header, frame, expected), position)

    def _position(self) -> dict[str, list[int]]:
        return {who: [one.next, *sorted(one.early)] for who, one in self._numbers.items() if one.next is not None}

    def _begins(self, header: Header, sender: str, number: int, frame: _Frame) -> None:
        """Answer a sender that begins, or begins anew, with its numbers: its message has no content."""
        known = self._numbers.get(sender)
        if number == -1:
            self._numbers.pop(sender, None)
        expected = known.next if known is not None and number == 0 else None
        _answer(_Handle(header, frame, -1 if expected is None else expected), "A")


def _answer(handle: _Handle, code: str, text: str = "") -> None:
    if handle.frame.answer.done():
        return
    try:
        handle.frame.answer.set_result(_acknowledged(handle.header, code, text, handle.expected))
    except asyncio.InvalidStateError:  # the connection was over in that moment
        return


def _acknowledged(header: Header | None, code: str, text: str, expected: int | None = None) -> bytes | None:
    """The acknowledgement, if the sender wants one: by MSH-15 ``AL``, ``NE``, ``ER`` or ``SU``."""
    wanted = "" if header is None else header.field(15).strip().upper()
    if wanted == "NE" or (wanted == "ER" and code == "A") or (wanted == "SU" and code != "A"):
        return None
    return acknowledgement(header, code, text=text, expected=expected, control_id=uuid.uuid4().hex[:20])


class _Listener:
    """A thread with a loop, in which connections are."""

    def __init__(
        self, listener: socket.socket, name: str, limits: ListenLimits, largest: int, patience_s: float, received: Any
    ) -> None:
        self._listener, self._name, self._limits = listener, name, limits
        self._largest, self._patience_s, self._received = largest, patience_s, received
        self._crowd = Crowd(limits.room, limits.of_address)
        self._in_memory = 0
        self._ended: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name=f"seriatim {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._begun.wait(_END_S)

    def close(self) -> None:
        """Close all connections."""
        if self._loop is not None and self._ended is not None:
            self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(_END_S)
        self._listener.close()

    async def _run(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._begun.set()
        accepting = asyncio.create_task(self._accept())
        await self._ended.wait()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(accepting, *tasks, return_exceptions=True)

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        kept = set[asyncio.Task[None]]()
        while True:
            try:
                raw, address = await loop.sock_accept(self._listener)
            except OSError as error:
                tell(self._name, f"no connection can be accepted: {error}")
                if not self._crowd.close_one():
                    await asyncio.sleep(0.5)
                await asyncio.sleep(0)
                continue
            raw.setblocking(False)
            visitor = Visitor(address[0], time.monotonic(), close=raw.close, state=ConnectionState.IDLE)
            if not self._crowd.enter(visitor, name_of(address[0])):
                tell(self._name, "a connection was closed: there are too many")
                raw.close()
                continue
            task = asyncio.create_task(self._connection(raw, visitor))
            visitor.close = task.cancel
            kept.add(task)
            task.add_done_callback(kept.discard)

    async def _connection(self, raw: socket.socket, visitor: Visitor) -> None:
        """Read the messages of a connection, one after another; each is answered before the next is looked at."""
        peer = _Peer(raw, visitor, FrameReader(self._largest), self._limits.silent_s)
        try:
            watch(raw)
            while data := await peer.received():
                self._in_memory += len(data)
                if self._in_memory > _MOST_IN_MEMORY:
                    tell(self._name, "a connection was closed: the messages under way have too many bytes")
                    return
                for body in peer.reader.feed(data):
                    visitor.state = ConnectionState.ANSWERED
                    answer = await self._answered(body)
                    visitor.state = ConnectionState.SENDS
                    await peer.say(answer)
                self._in_memory -= peer.let_go()
        except FrameTooLarge:
            tell(self._name, f"a message of {visitor.address} is refused: it has more than {self._largest:,} bytes")
            text = f"more than {self._largest} bytes"
            with suppress(OSError, TimeoutError):
                await peer.say(acknowledgement(None, "R", text=text, control_id=uuid.uuid4().hex[:20]))
        except NotFramed:
            tell(self._name, f"a connection of {visitor.address} was closed: its bytes are in no frame of MLLP")
        except TimeoutError:
            tell(self._name, f"a connection of {visitor.address} was closed: its message took too long")
        except OSError:
            pass
        finally:
            self._in_memory -= peer.held
            if visitor.crowd is not None:
                visitor.crowd.leave(visitor)
            raw.close()

    async def _answered(self, body: bytes) -> bytes | None:
        """Hand a message to the port, and wait for its acknowledgement; not for ever."""
        future: Future[bytes | None] = Future()
        self._received(_Frame(body, future))
        try:
            async with asyncio.timeout(self._patience_s):
                return await asyncio.shield(asyncio.wrap_future(future))
        except TimeoutError:
            if not future.cancel() and future.done():
                return future.result()
            return _acknowledged(Header.of(body), "R", "it can't be stored now; send it again")
        except asyncio.CancelledError:
            future.cancel()
            raise


@dataclass(slots=True)
class _Peer:
    """A connection: what has come of a message that isn't complete, and by when the next byte has to come."""

    raw: socket.socket
    visitor: Visitor
    reader: FrameReader
    silent_s: float
    #: Bytes of the message that isn't complete.
    held: int = 0
    began: float = 0.0

    async def received(self) -> bytes:
        """Return the next bytes; none: the other side has closed. Within a message each byte has a deadline, and so has the whole.

        Raises:
            TimeoutError: it has passed.
        """
        within = None
        if self.reader.is_inside:
            within = min(self.silent_s, self.began + self.silent_s + self.held / PACE - time.monotonic())
        async with asyncio.timeout(within):
            data = await asyncio.get_running_loop().sock_recv(self.raw, _CHUNK)
        if not self.held:
            self.began = time.monotonic()
        self.held += len(data)
        return data

    def let_go(self) -> int:
        """Return how many bytes are not needed any more."""
        self.visitor.state = ConnectionState.SENDS if self.reader.is_inside else ConnectionState.IDLE
        done = 0 if self.reader.is_inside else self.held
        self.held -= done
        return done

    async def say(self, answer: bytes | None) -> None:
        if answer is not None:
            async with asyncio.timeout(self.silent_s):
                await asyncio.get_running_loop().sock_sendall(self.raw, framed(answer))
