"""Receivers, publishers and PostgreSQL are killed, again and again: nothing is lost, handled twice or out of order.

What the handlers wrote down goes through the history checker; the box's own tables are not looked at.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations.box_status import box_status
from tests.faults import publishers, receivers
from tests.faults.checker import assert_good
from tests.faults.crew import Crew, wait_for_an_end
from tests.faults.history import Findings, History
from tests.faults.publishers import KEY, NUMBER, TYPE, Feed
from tests.faults.receivers import Log
from tests.soak import full, seed, sized

QUEUE = "events"
RECEIVERS, LIMIT = 8, 50
#: A run in which nothing was written for so long is at its end, whatever is missing; and none takes longer than that.
STALLED_S, DEADLINE_S = 120.0, 900.0
#: The embedded server is given up when it lives shorter than five seconds, three times in a row.
LIFE_S, MOST_SHORT_LIVES = 6.0, 2


class Run:
    """A feed that is published, received and handled by processes of their own, in one queue of a box."""

    def __init__(self, box: sq.MessageBox, policy: sq.Policy, feed: Feed, folder: Path) -> None:
        self.feed = feed
        # Without numbers nobody can know that two messages are one.
        self.expected = feed.total if isinstance(policy, sq.Standard) else len(feed.message_ids())
        self._policy = policy
        self.log = Log(box.schema)
        self._box = box
        self._logs = [folder / f"publisher-{number}.jsonl" for number in range(feed.publishers)]
        self.receivers = Crew(self._receiver, folder / "receivers")
        self.publishers = Crew(self._publisher, folder / "publishers")
        self._connection: psycopg.Connection | None = None
        self._born = 0

    def start(self) -> None:
        """Define the queue, make the log, start all processes."""
        self._box.define(
            sq.MessageType(TYPE, properties={KEY: "string", NUMBER: "long"}),
            sq.Queue(QUEUE, policy=self._policy, group=KEY, sequence=self._sequence),
            sq.Subscription("all", where=f"type = '{TYPE}'", to=QUEUE),
        )
        with psycopg.connect(self._box.dsn) as connection:
            self.log.make(connection)
        for number in range(self.feed.publishers):
            self.publishers.start(str(number))
        for _ in range(RECEIVERS):
            self.add_receiver()

    @property
    def _sequence(self) -> str | None:
        return NUMBER if isinstance(self._policy, sq.Standard) else None

    def add_receiver(self) -> None:
        """Start one with a name that none has had."""
        self._born += 1
        self.receivers.start(f"r{self._born}")

    def progress(self) -> int:
        """How many rows were written into the log; what was known before while there is no server."""
        return self._ask(self.log.begun) or 0

    def is_done(self) -> bool:
        """Whether all is published and as much handled as there has to be."""
        if self.publishers.running or self.progress() < self.expected:
            return False
        return (self._ask(self.log.written) or 0) >= self.expected

    def go_on(self, disturb: Callable[[int], None]) -> None:
        """Until all is handled or nothing moves any more; `disturb` is called with the progress, often."""
        begun, moved, furthest = time.monotonic(), time.monotonic(), 0
        while not self.is_done() and time.monotonic() - moved < STALLED_S:
            assert time.monotonic() - begun < DEADLINE_S, f"{furthest} of {self.expected} were handled in time"
            wait_for_an_end(self.receivers, self.publishers)
            for crew in (self.receivers, self.publishers):
                crew.look()
            progress = self.progress()
            if progress > furthest:
                furthest, moved = progress, time.monotonic()
            disturb(progress)

    def check(self) -> Findings:
        """Stop the receivers, see that nothing is left to be handed out, and check the history."""
        self.receivers.kill_all()
        rest = self._left()
        sent = [one for number, log in enumerate(self._logs) for one in self.feed.sent(number, log)]
        if self._sequence is None:
            sent = [replace(one, sequence=None) for one in sent]
        with psycopg.connect(self._box.dsn) as connection:
            handled = self.log.read(connection)
        found = assert_good(History(self._policy, sent, handled))
        assert rest == []
        assert found.handled == self.expected
        assert found.groups == self.feed.groups
        assert found.sent == len(self.feed.message_ids()) > self.feed.total
        return found

    def close(self) -> None:
        """Kill what is left."""
        self.receivers.kill_all()
        self.publishers.kill_all()
        self._disconnect()

    def _left(self) -> list[str]:
        with suppress(sq.Unavailable):  # the server was restarted since this process used the box
            box_status(self._box)
        with self._box.session() as tx:
            delivery = tx.receive(QUEUE, limit=LIMIT)
            return [] if delivery is None else [message.message_id for message in delivery]

    def _receiver(self, name: str) -> list[str]:
        return receivers.words(name, self._box.dsn, self._box.schema, QUEUE, LIMIT)

    def _publisher(self, name: str) -> list[str]:
        number = int(name)
        return publishers.words(self.feed, number, self._box.dsn, self._box.schema, self._logs[number])

    def _ask(self, question: Callable[[psycopg.Connection], int]) -> int | None:
        """The answer, or None while there is no server."""
        try:
            if self._connection is None:
                self._connection = psycopg.connect(self._box.dsn, autocommit=True)
            return question(self._connection)
        except psycopg.OperationalError:
            self._disconnect()
            return None

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


@contextmanager
def running(box: sq.MessageBox, policy: sq.Policy, feed: Feed, folder: Path) -> Iterator[Run]:
    """A run; all of its processes are gone at the end of the block."""
    run = Run(box, policy, feed, folder)
    try:
        run.start()
        yield run
    finally:
        run.close()


class Killer:
    """SIGKILL to a receiver, and now and then to a publisher, whenever some more was handled.

    Args:
        run: whose.
        every: so many messages later, in the mean.
    """

    def __init__(self, run: Run, every: int) -> None:
        self._run = run
        self._every = every
        self._chance = random.Random(seed())
        self._next = 0.0

    def __call__(self, progress: int) -> None:
        if progress < self._next:
            return
        # Not from here on: however seldom it looks, there are as many.
        self._next += self._every * self._chance.uniform(0.5, 1.5)
        # The first one dies at the beginning, when there are publishers for sure.
        if self._run.publishers.running and self._run.receivers.killed % 5 in (0, 1):
            self._run.publishers.start(self._run.publishers.kill(self._chance))
        self._run.receivers.kill(self._chance)
        self._run.add_receiver()


class ServerKiller:
    """Ends PostgreSQL whenever a part of the feed was handled, in one way after the other; it is started again.

    Args:
        run: whose.
        folder: of the embedded server.
    """

    def __init__(self, run: Run, folder: Path) -> None:
        self._note = folder / "data" / "postmaster.pid"
        self._part = run.expected / 5
        self._short_lives = 0
        self.done: list[signal.Signals] = []

    def __call__(self, progress: int) -> None:
        # Crash, fast and immediate shutdown.
        ways = (signal.SIGKILL, signal.SIGINT, signal.SIGQUIT, signal.SIGKILL)[: 4 if full() else 3]
        ended = len(self.done)
        if ended == len(ways) or progress < self._part * (ended + 1):
            return
        with suppress(FileNotFoundError, ProcessLookupError, ValueError):  # it is about to come back
            pid, _, started, *_ = self._note.read_text().splitlines()
            is_short = time.time() - int(started) <= LIFE_S
            if is_short and (ended == 0 or self._short_lives == MOST_SHORT_LIVES):
                return
            os.kill(int(pid), ways[ended])
            self.done.append(ways[ended])
            self._short_lives = self._short_lives + 1 if is_short else 0


def test_a_feed_has_all_numbers_scrambled_and_some_again():
    feed = Feed(seed(), groups=20, numbers=100)
    rows = [row for publisher in range(feed.publishers) for row in feed.rows(publisher)]
    assert {(group, number) for _, group, number in rows} == {(f"g{g}", n + 1) for g in range(20) for n in range(100)}
    assert feed.total < len(feed.message_ids()) < len(rows) < 1.1 * feed.total
    mine = [number for _, group, number in feed.rows(0) if group == "g7"]
    assert 0 < len(mine) < 100
    assert mine != sorted(mine)


@pytest.mark.proves("receivers and publishers that are killed at random break no order by number")
@pytest.mark.soak
def test_receivers_killed_at_random_handle_all_once_and_in_order(box, tmp_path, figures):
    """200,000 messages at full size, 20,000 otherwise."""
    figures(
        kill_receivers(box, sq.Standard(), Feed(seed(), groups=sized(1000, 200), numbers=sized(200, 100)), tmp_path)
    )


@pytest.mark.proves("receivers and publishers that are killed at random break no order of arrival")
@pytest.mark.soak
def test_receivers_killed_at_random_handle_messages_as_they_were_committed(box, tmp_path, figures):
    figures(kill_receivers(box, sq.Fifo(), Feed(seed(), groups=sized(300, 100), numbers=100), tmp_path))


def kill_receivers(box: sq.MessageBox, policy: sq.Policy, feed: Feed, folder: Path) -> str:
    """Returns what there was to be counted."""
    least = sized(30, 10)
    with running(box, policy, feed, folder) as run:
        run.go_on(Killer(run, every=feed.total * 3 // (5 * least)))
        found = run.check()
        assert run.receivers.killed >= least
        assert run.publishers.killed >= 1
        assert run.receivers.told() == run.publishers.told() == []  # who goes on notices nothing
        return (
            f"{found.handled:,} messages of {found.groups:,} groups, {run.receivers.killed} receivers and "
            f"{run.publishers.killed} publishers killed"
        )


@pytest.mark.proves("each way in which PostgreSQL can end under load leaves every message once and in order")
@pytest.mark.telling
@pytest.mark.soak
def test_a_killed_server_loses_repeats_and_reorders_nothing(tmp_path, figures):
    feed = Feed(seed(), groups=sized(500, 200, 60), numbers=100)
    folder = tmp_path / "server"
    server = EmbeddedServer(folder)
    try:
        with sq.MessageBox.open(server.dsn) as box, running(box, sq.Standard(), feed, tmp_path) as run:
            killer, server_killer = Killer(run, every=feed.total // 10), ServerKiller(run, folder)

            def disturb(progress: int) -> None:
                killer(progress)
                server_killer(progress)

            run.go_on(disturb)
            run.check()
            assert set(server_killer.done) == {signal.SIGKILL, signal.SIGINT, signal.SIGQUIT}
            assert run.receivers.told()
            ends = ", ".join(one.name for one in server_killer.done)
            figures(f"{feed.total:,} messages, {run.receivers.killed} receivers killed, the server ended by {ends}")
    finally:
        server.close()
