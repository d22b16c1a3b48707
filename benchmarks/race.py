"""Races: the same messages through the publishers and workers of a contender, each a process of its own.

Bodies have 1,024 random bytes, or that many in the mean, printable, so that a contender who keeps JSON needn't encode
them. The clock runs from
the moment at which all workers have handled fifty messages, for some seconds or until nine tenths of what waits is
handled, whichever is first: neither the start of the processes nor the last worker's tail is measured. Where publishers
and workers run together it begins when every group has been handed out once, for there it goes on as it is from then on.

Where publishers and workers run together what waits stays as it is: whichever side is ahead of the other pauses. So a
contender who receives faster than it publishes has the machine for publishing meanwhile, as in a system that keeps up.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import math
import os
import random
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.process import BaseProcess
from typing import Any, Protocol
from urllib.parse import urlsplit

import click
import psycopg
from psycopg import sql

__all__ = ["Contender", "Delay", "Parcel", "Race", "Seat", "delays", "fresh_database", "handled", "published"]

#: Not forked: a child of a process that has threads and connections inherits what it must not use.
_PROCESSES = get_context("spawn")
_START_S, _STOP_S = 120, 30
#: So many messages each has handled before the clock runs: plans are made, caches are full.
_WARM = 50
#: Who pauses looks that often whether the race has ended; an event loop, whether it may go on.
_LOOK_S, _LOOP_S = 0.1, 0.0005
_STAMP = 20  # digits of a time in nanoseconds
#: Random bytes of a body, which get four thirds of that in print; and of the smallest and the largest one of a skewed race.
_BYTES, _LEAST, _MOST = 768, 384, 13_824


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message before it is a contender's."""

    group: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Race:
    """What waits, who works, and for how long.

    Args:
        groups: how many.
        waiting: messages that wait in each group at the start; in the order 1, 2, 3 … of all groups in turn.
        batch: messages a publisher's transaction has.
        run: messages of one group that a publisher publishes one after another.
        limit: messages a worker takes at most at once; what that means is the contender's.
        workers: processes.
        threads: workers in each process; the asynchronous contenders have one.
        publishers: processes; together with workers as much is published as is handled.
        pause_s: what handling one message takes.
        seconds: at most so long.
        skewed: bodies of half a kilobyte to 18, most of them small, in place of one kilobyte each.
    """

    groups: int = 1_000
    waiting: int = 20
    batch: int = 1
    run: int = 1
    limit: int = 1
    workers: int = 4
    threads: int = 1
    publishers: int = 0
    pause_s: float = 0.0
    seconds: float = 5.0
    skewed: bool = False

    @property
    def slack(self) -> int:
        """So many messages one side may be ahead: a transaction for each publisher."""
        return self.batch * self.publishers


@dataclass(frozen=True, slots=True)
class Delay:
    """Seconds from just before a message is published to its handler, nobody else being there."""

    median: float
    p99: float


class Contender(Protocol):
    """A queue in PostgreSQL that takes part. It is pickled, and so says only what it is."""

    @property
    def name(self) -> str:
        """What it is called in the tables."""

    def prepare(self, dsn: str) -> None:
        """Make what it needs in an empty database."""

    def publishing(self, dsn: str) -> AbstractContextManager[Callable[[Sequence[Parcel]], None]]:
        """Connect, and give what publishes messages in one transaction."""

    def work(self, dsn: str, limit: int, seat: Seat) -> None:
        """Connect, call `Seat.begin`, then receive, handle and complete until `Seat.stopped`."""


@dataclass(frozen=True, slots=True)
class _Track:
    """What the processes of a race share."""

    race: Race
    places: int
    stop: Any = field(default_factory=_PROCESSES.Event)
    #: As `stop`; to look at it costs nothing.
    stopped: Any = field(default_factory=partial(_PROCESSES.RawArray, "b", 1))
    handled: Any = None
    published: Any = None
    delays: Any = None
    ready: Any = None
    #: How many messages may be handled, and published, before that side is too far ahead; None: as many as it can.
    to_handle: Any = None
    to_publish: Any = None

    @classmethod
    def of(cls, race: Race, samples: int = 0) -> _Track:
        """A track for all workers and publishers, and the one who watches."""
        places = race.workers * race.threads
        together = bool(places and race.publishers)
        return cls(
            race,
            places,
            handled=_PROCESSES.RawArray("q", max(places, 1)),
            published=_PROCESSES.RawArray("q", max(race.publishers, 1)),
            delays=_PROCESSES.RawArray("q", samples) if samples else None,
            ready=_PROCESSES.Barrier(places + race.publishers + 1),
            to_handle=_PROCESSES.Semaphore(race.slack) if together else None,
            to_publish=_PROCESSES.Semaphore(race.slack) if together else None,
        )

    def end(self) -> None:
        """Tell everybody to stop."""
        self.stopped[0] = 1
        self.stop.set()

    def pause(self, mine: Any, count: int) -> None:
        """Wait until one's side may have done so many messages more."""
        for _ in range(count if mine is not None else 0):
            while not (mine.acquire(timeout=_LOOK_S) or self.stopped[0]):
                pass

    async def pause_in_loop(self, mine: Any, count: int) -> None:
        """As `pause`, while the event loop goes on."""
        for _ in range(count if mine is not None else 0):
            while not (mine.acquire(block=False) or self.stopped[0]):  # noqa: ASYNC110 -- no event tells of other processes
                await asyncio.sleep(_LOOP_S)

    def go_on(self, others: Any, count: int) -> None:
        """Let the other side do so many messages more."""
        for _ in range(count if others is not None else 0):
            others.release()


@dataclass(frozen=True, slots=True)
class Seat:
    """A worker's place: it counts what the worker has done, and tells it when to stop."""

    track: _Track
    place: int

    def begin(self) -> None:
        """Wait until everybody is connected."""
        self.track.ready.wait(_START_S)

    @property
    def stopped(self) -> bool:
        """Whether to end."""
        return bool(self.track.stopped[0])

    def wait(self) -> None:
        """Block until it is time to end: for a thread beside an event loop."""
        self.track.stop.wait()

    def handle(self, body: bytes) -> None:
        """What a handler does with a message."""
        if self.track.delays is not None:
            self.track.delays[self.track.handled[self.place]] = time.monotonic_ns() - int(body[:_STAMP])
        if self.track.race.pause_s:
            time.sleep(self.track.race.pause_s)

    def done(self, count: int) -> None:
        """So many messages are completed. Where a contender completes behind the handler's back, they are handled."""
        self._count(count)
        self.track.pause(self.track.to_handle, count)

    async def done_in_loop(self, count: int) -> None:
        """As `done`, for a contender whose event loop goes on meanwhile."""
        self._count(count)
        await self.track.pause_in_loop(self.track.to_handle, count)

    def _count(self, count: int) -> None:
        self.track.handled[self.place] += count
        self.track.go_on(self.track.to_publish, count)


def handled(contender: Contender, server: str, race: Race) -> float:
    """Messages a second that the workers receive and complete; with publishers: that go in and out, the lesser of both."""
    with fresh_database(server) as dsn:
        contender.prepare(dsn)
        _fill(contender, dsn, race)
        into, out = _run(contender, dsn, race)
    what = f"received and completed, {race.groups:,} groups with {race.waiting}, at most {race.limit} at once"
    if race.publishers:
        what += f", while {into:,.0f} were published, {race.batch} a transaction"
    _tell(contender, f"{out:,.0f} messages/s {what}")
    return min(into, out) if race.publishers else out


def published(contender: Contender, server: str, race: Race) -> float:
    """Messages a second that the publishers publish, nobody receiving."""
    with fresh_database(server) as dsn:
        contender.prepare(dsn)
        into, _ = _run(contender, dsn, race)
    _tell(contender, f"{into:,.0f} messages/s published, {race.batch:,} a transaction, {race.publishers} publishers")
    return into


def delays(contender: Contender, server: str, samples: int) -> Delay:
    """How long a single message takes to a worker that waits; a message at a time, with a pause after each."""
    race = Race(workers=1)
    track = _Track.of(race, samples)
    with fresh_database(server) as dsn:
        contender.prepare(dsn)
        with _running([_PROCESSES.Process(target=_work, args=(contender, dsn, track, 0))], track) as processes:
            with contender.publishing(dsn) as publish:
                for count in range(samples):
                    time.sleep(0.06 + 0.04 * (count % 8) / 8)  # idle, and in step with nobody's polling
                    body = f"{time.monotonic_ns():0{_STAMP}}".encode().ljust(1_024, b".")
                    publish([Parcel(f"g{count:04}", body)])
                    if not _until(partial(_arrived, track, count), processes, _START_S, 0.001):
                        raise click.ClickException(f"{contender.name}: a message didn't arrive")
            seconds = sorted(delay / 1e9 for delay in track.delays)
    delay = Delay(statistics.median(seconds), seconds[int(0.99 * samples)])
    _tell(contender, f"{delay.median * 1e3:.2f} ms from publish to handler, p99 {delay.p99 * 1e3:.2f} ms")
    return delay


@contextmanager
def fresh_database(server: str) -> Iterator[str]:
    """An empty database of a server that really writes to disk; gone afterwards."""
    name = f"race_{next(_NUMBERS)}"
    with psycopg.connect(server, autocommit=True) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            if connection.execute(sql.SQL("SHOW {}").format(sql.Identifier(setting))).fetchall() != [("on",)]:
                raise click.ClickException(f"{setting} is off: there is nothing to compare")
        connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlsplit(server)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


_NUMBERS = itertools.count(1)


def _parcels(race: Race, place: int, places: int, run: int) -> Iterator[Parcel]:
    """Messages without end: those of every group whose number is the publisher's, `run` of them at a time."""
    chance = random.Random(place)
    for group in itertools.cycle(range(place, race.groups, places)):
        for _ in range(run):
            size = _BYTES if not race.skewed else int(min(_LEAST * chance.paretovariate(2), _MOST))
            yield Parcel(f"g{group:04}", base64.b64encode(os.urandom(size)))


def _fill(contender: Contender, dsn: str, race: Race) -> None:
    """Publish what waits, in turn over the groups; then give all the same start: statistics, and a checkpoint."""
    waiting = itertools.islice(_parcels(race, 0, 1, 1), race.groups * race.waiting)
    with contender.publishing(dsn) as publish:
        while batch := list(itertools.islice(waiting, 1_000)):
            publish(batch)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _run(contender: Contender, dsn: str, race: Race) -> tuple[float, float]:
    """Messages a second that were published, and that were completed."""
    track = _Track.of(race)
    processes = [
        *(_PROCESSES.Process(target=_work, args=(contender, dsn, track, place)) for place in range(race.workers)),
        *(_PROCESSES.Process(target=_publish, args=(contender, dsn, track, place)) for place in range(race.publishers)),
    ]
    busy = track.handled if race.workers else track.published
    goal = 0.9 * race.groups * race.waiting if not race.publishers else math.inf
    with _running(processes, track):
        warm = race.groups * min(race.limit, race.waiting) if track.to_handle is not None else 0
        if not _until(
            lambda: sum(one >= _WARM for one in busy) >= min(len(busy), race.groups) and sum(busy) >= warm,
            processes,
            _START_S,
        ):
            raise click.ClickException(f"{contender.name}: not all of them have begun")
        begun, into, out = time.perf_counter(), sum(track.published), sum(track.handled)
        _until(lambda: sum(busy) >= goal, processes, race.seconds)
        seconds = time.perf_counter() - begun
        return (sum(track.published) - into) / seconds, (sum(track.handled) - out) / seconds


def _arrived(track: _Track, count: int) -> bool:
    return bool(track.handled[0] > count)


def _work(contender: Contender, dsn: str, track: _Track, process: int) -> None:
    """A worker process: its threads, or itself if it has none."""
    _end_with_parent()
    threads = track.race.threads
    seats = [Seat(track, process * threads + thread) for thread in range(threads)]
    started = [threading.Thread(target=contender.work, args=(dsn, track.race.limit, seat)) for seat in seats[1:]]
    for thread in started:
        thread.start()
    contender.work(dsn, track.race.limit, seats[0])
    for thread in started:
        thread.join()


def _publish(contender: Contender, dsn: str, track: _Track, place: int) -> None:
    """A publisher process: as fast as it can, or as what it publishes is handled."""
    _end_with_parent()
    race = track.race
    parcels = _parcels(race, place, race.publishers, race.run)
    with contender.publishing(dsn) as publish:
        track.ready.wait(_START_S)
        while not track.stopped[0]:
            track.pause(track.to_publish, race.batch)
            publish(list(itertools.islice(parcels, race.batch)))
            track.published[place] += race.batch
            track.go_on(track.to_handle, race.batch)


@contextmanager
def _running(processes: Sequence[BaseProcess], track: _Track) -> Iterator[Sequence[BaseProcess]]:
    """All started and connected; afterwards all asked to stop, and none left."""
    for process in processes:
        process.start()
    try:
        track.ready.wait(_START_S)
        yield processes
    finally:
        track.end()
        for process in processes:
            process.join(_STOP_S)
            if process.is_alive():
                process.kill()
                process.join()


def _until(
    condition: Callable[[], bool], processes: Sequence[BaseProcess], seconds: float, every_s: float = 0.003
) -> bool:
    """Wait for a condition; False if it wasn't met in that time.

    Raises:
        click.ClickException: a process has ended; it has said why.
    """
    deadline = time.perf_counter() + seconds
    while not condition():
        if any(process.exitcode is not None for process in processes):
            raise click.ClickException("a process of the race has ended too early")
        if time.perf_counter() >= deadline:
            return False
        time.sleep(every_s)
    return True


def _tell(contender: Contender, what: str) -> None:
    click.echo(f"{contender.name}: {what} (load {os.getloadavg()[0]:.1f})", err=True)


def _end_with_parent() -> None:
    """Whatever kills the one who watches, nobody runs on."""

    def wait() -> None:
        parent_process().join()  # type: ignore[union-attr]
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
