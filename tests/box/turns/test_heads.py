"""Where a queue begins behind what is done and can't be vacuumed, and that nothing is passed over for it."""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest

import seriatim as sq
from seriatim.box.connection import queue_heads as heads
from seriatim.box.connection.queue_heads import EVERYTHING, Heads

pytestmark = pytest.mark.dear

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long", "level": "long"})
QUEUES = {
    "fifo": sq.Queue("q", policy=sq.Fifo(), group="customer"),
    "standard": sq.Queue("q", policy=sq.Standard(), group="customer", sequence="version"),
    "unordered": sq.Queue("q", policy=sq.Unordered()),
    "by priority": sq.Queue("q", policy=sq.Fifo(), group="customer", priority="level"),
}
GROUPS = 20


def define(box, kind):
    box.define(ORDER, QUEUES[kind], sq.Subscription("all", where="type = 'order'", to="q"))


def publish(box, versions):
    """A message of each version for each of the groups."""
    with box.session() as tx:
        tx.publish(
            sq.Message(type="order", context={"customer": f"c{n}", "version": version, "level": 5})
            for version in versions
            for n in range(GROUPS)
        )


def taken(box, limit, found):
    """Put into `found` what one transaction receives; whether there was anything."""
    with box.session() as tx:
        delivery = tx.receive("q", limit=limit)
        if delivery is not None:
            for message in delivery:
                found[message.context["customer"]].append(message.context["version"])
    return delivery is not None


class From(Heads):
    """A rank that is always said to be where a queue begins."""

    def __init__(self, rank):
        super().__init__()
        self.rank = rank

    def of(self, queue, ask):
        return self.rank


@contextmanager
def looking_from(box, rank):
    """What the process of a box believes."""
    access = box._access
    box._access = replace(access, heads=From(rank))
    try:
        yield
    finally:
        box._access = access


def head(box):
    """Where its one queue begins."""
    query = f"SELECT rank FROM {box.schema}.head_of((SELECT queue_id FROM {box.schema}.queues))"
    with box.session() as tx:
        return tx.connection.execute(query).fetchone()[0]


def ranks(box):
    with box.session() as tx:
        rows = tx.connection.execute(f"SELECT rank FROM {box.schema}.entries ORDER BY rank").fetchall()
    return [rank for (rank,) in rows]


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("kind", QUEUES)
def test_wherever_a_process_begins_all_is_handed_out_once_and_in_order(box, kind, limit):
    define(box, kind)
    publish(box, [1, 2])
    publish(box, [3, 4])
    there, found = ranks(box), defaultdict(list)
    for rank in (there[len(there) // 2], there[-1] + 1, EVERYTHING):
        with looking_from(box, rank):
            for _ in range(GROUPS):
                taken(box, limit, found)
    assert found
    with looking_from(box, there[-1] + 1):
        while taken(box, limit, found):
            pass
    if kind == "unordered":
        found = {customer: sorted(versions) for customer, versions in found.items()}
    assert found == {f"c{n}": [1, 2, 3, 4] for n in range(GROUPS)}


@pytest.mark.parametrize("kind", ["fifo", "standard", "unordered"])
def test_what_is_done_and_cannot_be_vacuumed_is_not_read_again(box, kind):
    define(box, kind)
    publish(box, [1])
    with psycopg.connect(box.dsn) as holder:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute(f"SELECT count(*) FROM {box.schema}.entries")  # from here on nothing that goes can be vacuumed
        found = defaultdict(list)
        for version in range(2, 42):
            publish(box, [version])
            for _ in range(GROUPS):
                assert taken(box, 1, found)
        rank = head(box)
        assert rank == ranks(box)[0]
        whole, part = (read_for_one(box, at) for at in (EVERYTHING, rank))
    assert whole > 40 * GROUPS
    assert part < 4 * GROUPS


def read_for_one(box, rank):
    """How many entries of the index of what has arrived are read to receive a message, and put it back."""
    query = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE schemaname = %s AND indexrelname = 'entries_arrived'"
    counts = []
    for looks in (False, True):
        with looking_from(box, rank), box.session() as tx:
            if looks:
                assert tx.receive("q") is not None
            tx.connection.execute("SELECT pg_stat_force_next_flush()")
            tx.connection.rollback()
        with box.session() as tx:
            counts.append(tx.connection.execute(query, [box.schema]).fetchone()[0])
    return counts[1] - counts[0]


def test_what_somebody_puts_back_is_next_again(box):
    define(box, "fifo")
    publish(box, [1])
    with box.session() as one:
        first = one.receive("q").group
        with box.session() as other:
            second = other.receive("q").group
            rank = head(box)
            one.connection.rollback()
            with looking_from(box, rank), box.session() as third:
                assert third.receive("q").group == first != second


def test_what_is_of_higher_priority_is_next_though_it_came_later(box, clock):
    define(box, "by priority")
    box.publish(sq.Message(type="order", context={"customer": "low", "version": 1, "level": 1}))
    with box.session() as tx:
        queue = box._access.known.read(tx.transaction).queue("q")
    known = Heads()
    known.of(queue, lambda _: (head(box), 20))
    clock.now += 2
    rank = known.of(queue, lambda _: (head(box), 20))
    box.publish(sq.Message(type="order", context={"customer": "high", "version": 1, "level": 10}))
    with looking_from(box, rank), box.session() as tx:
        assert tx.receive("q").group == "high"


class Clock:
    """In place of the monotonic clock."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


class Asked:
    """Answers, and counts."""

    def __init__(self, rank, took_us):
        self.rank, self.took_us, self.times = rank, took_us, 0

    def __call__(self, queue):
        self.times += 1
        return self.rank, self.took_us


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(heads, "time", found)
    return found


@pytest.fixture
def queue(box, request):
    define(box, request.param)
    with box.session() as tx:
        return box._access.known.read(tx.transaction).queue("q")


@pytest.mark.parametrize(("queue", "before_us"), [("fifo", 1_000_000), ("by priority", 51_000_000)], indirect=["queue"])
def test_it_begins_before_what_was_found_for_a_while(queue, before_us, clock):
    known, ask = Heads(), Asked(7_000_000_000, 40_000)
    assert known.of(queue, ask) == EVERYTHING
    assert ask.times == 0  # who looks once has nothing of it
    clock.now += 2
    for _ in range(3):
        assert known.of(queue, ask) == ask.rank - before_us
    clock.now += 3.9
    assert known.of(queue, ask) == ask.rank - before_us
    assert ask.times == 1
    clock.now += 0.2  # a hundred times as long as it took
    ask.rank, ask.took_us = 8_000_000_000, 20
    assert known.of(queue, ask) == ask.rank - before_us
    assert ask.times == 2


@pytest.mark.parametrize("queue", ["standard"], indirect=True)
def test_where_messages_wait_for_others_a_short_look_begins_at_the_beginning(queue, clock):
    known, ask = Heads(), Asked(7_000_000_000, 1_001)
    known.of(queue, ask)
    clock.now += 2
    assert known.of(queue, ask) == ask.rank - 1_000_000
    clock.now += 2
    ask.took_us = 1_000
    assert known.of(queue, ask) == EVERYTHING
    assert ask.times == 2


@pytest.mark.parametrize("kind", QUEUES)
def test_an_empty_queue_begins_now(box, kind):
    define(box, kind)
    before = head(box)
    publish(box, [1])
    assert before < ranks(box)[0]
    assert head(box) == ranks(box)[0]
