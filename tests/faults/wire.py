"""A bad wire in front of a server: TCP on loopback that delays, drops, repeats, flips, holds up and cuts what passes."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict, make_conninfo

__all__ = ["PLAIN", "SEALED", "Fault", "Wire"]

_CHUNK = 256 * 1024
_LONGEST_DELAY_S = 0.05
#: No TCP loses or repeats bytes and goes on: such a connection is cut soon.
_CUT_AFTER_S = 0.2
#: A frozen connection stands still for so long at most.
_LONGEST_FROST_S = 2.0
#: The end of a request: everything that comes at once, from its first message to this one, can be sent again.
_SYNC = b"S\x00\x00\x00\x04"
_KEPT_REQUESTS = 50


class Fault(StrEnum):
    """What happens to bytes on their way."""

    DELAYED = "delayed"
    DROPPED = "dropped"
    REPEATED = "repeated"
    #: A whole request of some earlier moment, also of another connection, comes once more.
    AGAIN = "sent again"
    CUT = "cut"
    FLIPPED = "flipped"
    FROZEN = "frozen"


#: What a protocol survives that TCP alone guards; and one that TLS guards, too: it finds a bit that is flipped.
PLAIN = frozenset({Fault.DELAYED, Fault.DROPPED, Fault.REPEATED, Fault.AGAIN, Fault.CUT})
SEALED = frozenset(Fault) - {Fault.AGAIN}


class Wire:
    """A wire that is open until it is closed.

    Args:
        there: the server behind it: the DSN of a PostgreSQL with a socket, or a port of this machine.
        chance: what happens when.
        every: of so many requests, or answers, one meets a fault, on average; a large one no more often than others.
        kinds: the kinds of faults.
    """

    def __init__(
        self, there: str | int, chance: random.Random, *, every: float, kinds: frozenset[Fault] = PLAIN
    ) -> None:
        self.faults: Counter[Fault] = Counter()
        #: Swallow all that comes, and leave connections open.
        self.is_hole = False
        self._every, self._chance, self._kinds = every, chance, sorted(kinds)
        self._requests: list[bytes] = []
        self._to_come: list[Fault] = []
        self._open: set[asyncio.StreamWriter] = set()
        self._carrying: set[asyncio.Task[None]] = set()
        self.lead_to(there)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=[self._run()], name="wire", daemon=True)
        self._thread.start()
        self._ready.wait()

    def dsn(self, role: str, database: str = "postgres") -> str:
        """The DSN of the server, over this wire."""
        return make_conninfo(
            host="127.0.0.1", port=self._port, user=role, dbname=database, sslmode="disable", gssencmode="disable"
        )

    @property
    def port(self) -> int:
        """Where it is entered."""
        return self._port

    def lead_to(self, there: str | int) -> None:
        """Lead new connections to this server."""
        self._there = there if isinstance(there, int) else Path(str(conninfo_to_dict(there)["host"])) / ".s.PGSQL.5432"

    def cut(self) -> None:
        """Cut all connections now."""
        self._loop.call_soon_threadsafe(self._cut)

    def improve(self, every: float) -> None:
        """From now on one of so many requests, or answers, meets a fault, on average."""
        self._every = every

    def close(self) -> None:
        """Cut all, and take no more."""
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join()

    async def _run(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        listening = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        self._port: int = listening.sockets[0].getsockname()[1]
        self._ready.set()
        await self._ended.wait()
        listening.close()
        self._cut()
        await asyncio.gather(*self._carrying, return_exceptions=True)

    def _cut(self) -> None:
        for one in self._open:
            one.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry bytes both ways until one side ends, or it is cut."""
        if (task := asyncio.current_task()) is not None:
            self._carrying.add(task)
            task.add_done_callback(self._carrying.discard)
        try:
            there = self._there
            there_reader, there_writer = await (
                asyncio.open_connection("127.0.0.1", there)
                if isinstance(there, int)
                else asyncio.open_unix_connection(there)
            )
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, there_writer}
        said: list[bool] = []
        ways = [
            asyncio.ensure_future(self._pass(reader, there_writer, said, is_request=True)),
            asyncio.ensure_future(self._pass(there_reader, writer, said, is_request=False)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
            with suppress(OSError, asyncio.CancelledError):
                await way
        for one in (writer, there_writer):
            one.transport.abort()
            self._open.discard(one)

    async def _pass(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, said: list[bool], *, is_request: bool
    ) -> None:
        """Carry one direction. `said`: which one has spoken last, shared by both."""
        left = self._gap()
        while data := await source.read(_CHUNK):
            if self.is_hole:
                continue
            is_whole = is_request and data[:1] == b"P" and data.endswith(_SYNC)
            left -= said != [is_request]
            said[:] = [is_request]
            if left > 0:
                sink.write(data)
            else:
                left = self._gap()
                fault = self._drawn(can_be_again=is_whole and bool(self._requests))
                self.faults[fault] += 1
                await self._harm(fault, data, sink)
            if is_whole:
                self._requests = [*self._requests[1 - _KEPT_REQUESTS :], data]
            await sink.drain()

    def _drawn(self, *, can_be_again: bool) -> Fault:
        """The next kind of fault: each comes before any comes twice, but for one that can't be yet, which waits for its moment."""
        possible = [one for one in self._to_come if can_be_again or one is not Fault.AGAIN]
        if not possible:
            more = list(self._kinds)
            self._chance.shuffle(more)
            self._to_come += [one for one in more if one not in self._to_come]
            possible = [one for one in self._to_come if can_be_again or one is not Fault.AGAIN]
        self._to_come.remove(possible[0])
        return possible[0]

    async def _harm(self, fault: Fault, data: bytes, sink: asyncio.StreamWriter) -> None:
        first, last = sorted(self._chance.randrange(len(data) + 1) for _ in range(2))
        match fault:
            case Fault.DELAYED:
                await asyncio.sleep(self._chance.uniform(0, _LONGEST_DELAY_S))
                sink.write(data)
            case Fault.FROZEN:
                await asyncio.sleep(self._chance.uniform(0, _LONGEST_FROST_S))
                sink.write(data)
            case Fault.FLIPPED:
                place = min(first, len(data) - 1)
                sink.write(data[:place] + bytes([data[place] ^ (1 << self._chance.randrange(8))]) + data[place + 1 :])
            case Fault.AGAIN:
                pieces = [data, self._chance.choice(self._requests)]
                self._chance.shuffle(pieces)
                sink.write(b"".join(pieces))
            case Fault.CUT:
                sink.write(data[:first])
                sink.transport.close()
            case Fault.DROPPED:
                sink.write(data[:first] + data[last:])
                self._cut_soon(sink)
            case Fault.REPEATED:
                sink.write(data[:last] + data[first:])
                self._cut_soon(sink)

    def _cut_soon(self, sink: asyncio.StreamWriter) -> None:
        self._loop.call_later(self._chance.uniform(0, _CUT_AFTER_S), sink.transport.abort)

    def _gap(self) -> float:
        return self._every if self._every == float("inf") else self._chance.expovariate(1 / self._every)
