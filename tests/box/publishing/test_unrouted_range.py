"""Where what waits to be routed is looked for: what was routed is not read again, and nothing that comes is passed over."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager

import psycopg
import pytest

import seriatim as sq
from seriatim.box.publishing import sql_arrivals
from seriatim.box.publishing.sql_arrivals import EVERYWHERE, where_unrouted

MANY, LATELY = 400, 1_000


class Clock:
    """In place of the monotonic clock."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(sql_arrivals, "time", found)
    return found


@pytest.fixture(params=["fifo", "standard"])
def queued(box, request):
    """A box with a queue whose messages are handed out straight, or judged first."""
    policy = {"fifo": sq.Fifo(), "standard": sq.Standard()}[request.param]
    sequence = {"fifo": None, "standard": "version"}[request.param]
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("q", policy=policy, group="customer", sequence=sequence),
        sq.Subscription("all", where="type = 'order'", to="q"),
    )
    return box


def publish(connection, box, *versions):
    for version in versions:
        context = f'{{"customer": "c", "version": {version}}}'
        connection.execute(f"SELECT {box.schema}.publish('order', '', %s)", [context])


def received(box, limit=10):
    """The versions that one transaction receives."""
    with box.session() as tx:
        delivery = tx.receive("q", limit=limit)
        return [] if delivery is None else [message.context["version"] for message in delivery]


@contextmanager
def each_connection(box, more=0):
    """A session on each connection that the box has, at once, and on so many new ones."""
    of_box = box._connections._shared.pool.get_stats()["pool_size"]
    with ExitStack() as sessions:
        yield [sessions.enter_context(box.session()) for _ in range(of_box + more)]


def asked(box, clock):
    """Let each of the box's connections find where to look, which it then believes for a while: whoever asks next may take any of them."""
    for _ in range(2):
        clock.now += 20
        with each_connection(box) as sessions:
            assert [tx.receive("q") for tx in sessions] == [None] * len(sessions)
    with each_connection(box) as sessions:
        found = [tx.connection.settled[0] for tx in sessions]
    assert EVERYWHERE not in found
    return found[0]


@contextmanager
def begun(box):
    """Another transaction, which has a number."""
    with psycopg.connect(box.dsn) as connection:
        connection.execute("SELECT pg_current_xact_id()")
        yield connection


def pass_by(connection, how_many):
    """That many transactions."""
    connection.execute(f"DO 'BEGIN FOR n IN 1..{how_many} LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END'")


@pytest.mark.parametrize("since", [1, 2 * LATELY])
@pytest.mark.parametrize("before", ["begun", "published"])
def test_what_a_transaction_publishes_that_had_begun_before_is_not_passed_over(queued, clock, since, before):
    with begun(queued) as one, psycopg.connect(queued.dsn, autocommit=True) as others:
        if before == "published":
            publish(one, queued, 1)
        pass_by(others, since)
        found = asked(queued, clock)
        assert (found.unsettled != "{}") == (since > LATELY)
        if before == "begun":
            publish(one, queued, 1)
        one.commit()
    queued.publish(sq.Message(type="order", context={"customer": "c", "version": 2}))
    assert received(queued) == [1, 2]
    assert received(queued) == []


@pytest.mark.parametrize("since", [1, 2 * LATELY])
def test_what_one_publishes_who_has_asked_is_not_passed_over(queued, clock, since):
    assert received(queued) == []
    clock.now += 20
    with queued.session() as tx, psycopg.connect(queued.dsn, autocommit=True) as others:
        tx.connection.execute("SELECT pg_current_xact_id()")
        pass_by(others, since)
        assert tx.receive("q") is None
        assert tx.connection.settled[0] != EVERYWHERE
        publish(tx.connection, queued, 1, 2)
    assert received(queued) == [1, 2]


def test_what_waits_when_it_is_asked_for_is_not_passed_over(queued, clock):
    asked(queued, clock)
    clock.now += 20
    with psycopg.connect(queued.dsn) as one:
        publish(one, queued, 1, 2, 3)
    assert received(queued, 2) == [1, 2]
    assert received(queued, 2) == [3]


def test_what_waits_does_not_keep_what_was_routed_before(queued, clock):
    with psycopg.connect(queued.dsn, autocommit=True) as one:
        publish(one, queued, 1)
        assert received(queued) == [1]
        (before,) = one.execute("SELECT pg_current_xact_id()::text").fetchone()
        publish(one, queued, 2)
    with queued.session() as tx:
        where_unrouted(tx.transaction)
        clock.now += 20
        assert int(where_unrouted(tx.transaction)["settled"]) > int(before)
    assert received(queued) == [2]


def test_another_connection_knows_nothing_of_it(queued, clock):
    asked(queued, clock)
    with each_connection(queued, more=1) as sessions:
        assert [tx.connection.settled is None for tx in sessions].count(True) == 1


def test_more_than_is_routed_at_once_is_routed_in_order(queued, clock):
    asked(queued, clock)
    with psycopg.connect(queued.dsn) as one:
        one.execute(
            f"SELECT {queued.schema}.publish('order', '', jsonb_build_object('customer', 'c', 'version', version))"
            " FROM generate_series(1, 2500) AS version"
        )
    assert received(queued, 3_000) == list(range(1, 2_501))


@pytest.mark.parametrize("writes", [False, True])
def test_what_was_routed_and_cannot_be_vacuumed_is_not_read_again(queued, clock, writes):
    with psycopg.connect(queued.dsn) as holder, psycopg.connect(queued.dsn, autocommit=True) as one:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute(f"SELECT count(*) FROM {queued.schema}.to_route")
        if writes:
            holder.execute("SELECT pg_current_xact_id()")
            pass_by(one, 2 * LATELY)
        publish(one, queued, *range(1, MANY + 1))
        assert received(queued, MANY) == list(range(1, MANY + 1))
        everywhere = read_for_one(queued, one, MANY + 1)
        asked(queued, clock)
        assert everywhere > 2 * MANY
        assert read_for_one(queued, one, MANY + 2) < MANY // 10


def flush_counts(box):
    """Let each of the box's connections tell now what it has read: routing may take another one than receiving."""
    with each_connection(box) as sessions:
        for tx in sessions:
            tx.connection.execute("SELECT pg_stat_force_next_flush()")


def read_for_one(box, one, version):
    """How many rows are read of what waits to be routed, to receive one that comes."""
    query = """
        SELECT sum(idx_tup_read)::int FROM pg_stat_user_indexes
        WHERE schemaname = %s AND relname = 'to_route' AND indexrelname <> 'to_route_pkey'
    """
    counts = []
    for _ in range(2):
        if counts:
            publish(one, box, version)
            assert received(box) == [version]
        flush_counts(box)
        counts.append(one.execute(query, [box.schema]).fetchone()[0])
    return counts[1] - counts[0]
