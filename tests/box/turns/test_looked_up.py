"""Each row is looked up by its number, where statistics say that nothing is there, and where a plan is from such a time."""

from __future__ import annotations

import itertools
import time
from contextlib import contextmanager
from dataclasses import replace

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import seriatim as sq
from tests.soak import full

pytestmark = pytest.mark.dear

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long"})
QUEUES = {
    "fifo": sq.Queue("q", policy=sq.Fifo(), group="customer"),
    "standard": sq.Queue("q", policy=sq.Standard(), group="customer", sequence="version"),
    "unordered": sq.Queue("q", policy=sq.Unordered()),
}
GROUPS, ROUNDS, YOUNG, MANY, DEADLINE_S = 20, 40, 8, 5_000, 120.0
#: More than none are counted: who has read them may not have told of all yet.
SOME = GROUPS // 2
NUMBERS = itertools.count()


def define(box, kind, **more):
    box.define(ORDER, replace(QUEUES[kind], **more), sq.Subscription("all", where="type = 'order'", to="q"))


def messages(version):
    return [sq.Message(type="order", context={"customer": f"c{n}", "version": version}) for n in range(GROUPS)]


def publish_together(box, version):
    with box.session() as tx:
        tx.publish(messages(version))


def publish_alone(box, version):
    for message in messages(version):
        box.publish(message)


def publish_by_sql(box, version):
    with psycopg.connect(box.dsn) as connection:
        for n in range(GROUPS):
            context = f'{{"customer": "c{n}", "version": {version}}}'
            connection.execute(f"SELECT {box.schema}.publish('order', '', %s)", [context])


def receive(box, queue="q", limit=1):
    """All that there is."""
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=limit)
            if delivery is None:
                return
            delivery.done()


def filled(box, publish=publish_together):
    """Many that have come and gone. What is measured comes later, so this takes few transactions."""
    for version in range(ROUNDS):
        publish(box, version)
    receive(box, limit=ROUNDS * GROUPS)


def vacuumed(box, publish, receive, fill=filled):
    """How many rows one round reads by their numbers, after many that can't be vacuumed and a vacuum that found nothing."""
    with psycopg.connect(box.dsn) as holder, psycopg.connect(box.dsn, autocommit=True) as owner:
        holder.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        holder.execute(f"SELECT count(*) FROM {box.schema}.entries")
        fill(box)
        owner.execute(f"VACUUM ANALYZE {box.schema}.entries, {box.schema}.spool, {box.schema}.to_route")
        before = rows_read(box, owner)
        with ended(box, owner) as other:
            publish(other, ROUNDS)
            receive(other)
        return rows_read(box, owner) - before


def grown(box, publish, receive, fill=None):  # it has young tables, and fills none
    """The same of a round whose statements were planned when hardly anything was there."""
    box.define(sq.MessageType("more", properties={"customer": "string"}))
    box.define(sq.Queue("elsewhere", policy=sq.Fifo(), group="customer"))
    with psycopg.connect(box.dsn, autocommit=True) as owner:
        for table in ("arrivals", "entries", "known_groups", "message_ids", "spool", "tickets", "to_route"):
            owner.execute(f"ALTER TABLE {box.schema}.{table} SET (autovacuum_enabled = off)")
        with ended(box, owner) as other:
            for version in range(YOUNG):
                publish(other, version)
                receive(other)
            with ended(box, owner) as one:
                context = {"customer": "somebody else", "to": "elsewhere"}
                one.publish([sq.Message(type="more", context=context) for _ in range(MANY)])
            with other.session() as tx:  # all that it has read is told now, and not at a moment of the server's choice
                tx.connection.execute("SELECT pg_stat_force_next_flush()")
            before = rows_read(box, owner)
            publish(other, YOUNG)
            receive(other)
        return rows_read(box, owner) - before


def of_whole_transactions(box, messages):
    """How many rows more are read on PostgreSQL 16: it looks at the index entries of a message's whole transaction, each time.

    An ANY of a second column narrows no scan there.
    """
    with box.session() as tx:
        return 0 if tx.connection.info.server_version >= 17_00_00 else 2 * GROUPS * messages


TRAPS = [vacuumed, grown]


@contextmanager
def ended(box, owner):
    """Another user of the box; afterwards it is known what that has read."""
    name = f"reader {next(NUMBERS)}"
    with sq.MessageBox.open(make_conninfo(box.dsn, application_name=name), schema=box.schema, connections=1) as other:
        yield other
    until(f"SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE application_name = '{name}')", owner)


def rows_read(box, owner):
    query = """
        SELECT
            (
                SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = %(schema)s
                    AND indexrelname IN ('entries_pkey', 'entries_of_message', 'spool_pkey', 'to_route_pkey')
            ) + (
                SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE schemaname = %(schema)s
                    AND relname IN ('entries', 'spool', 'tickets', 'to_route')
            )
    """
    return owner.execute(query, {"schema": box.schema}).fetchone()[0]


def until(query, owner):
    deadline = time.monotonic() + DEADLINE_S
    while not owner.execute(query).fetchone()[0]:
        assert time.monotonic() < deadline


@pytest.mark.dear
@pytest.mark.parametrize("read_by_number", TRAPS)
@pytest.mark.parametrize(("publish", "limit"), [(publish_together, 3), (publish_alone, 1), (publish_by_sql, 2)])
@pytest.mark.parametrize("kind", QUEUES)
@pytest.mark.parametrize("keep", ["nothing", *(["faults"] if full() else []), "everything"])
@pytest.mark.soak
def test_what_is_received_and_completed(box, read_by_number, publish, kind, keep, limit):
    define(box, kind, keep=keep)
    read = read_by_number(box, publish, lambda box: receive(box, limit=limit))
    assert SOME < read < 15 * GROUPS + of_whole_transactions(box, GROUPS)


@pytest.mark.parametrize("read_by_number", TRAPS)
def test_what_waits_for_a_turn(box, read_by_number):
    """Several of each group at once, so that some are released before they are asked for."""
    define(box, "standard")

    def publish(box, version):
        for more in range(3):
            publish_together(box, 3 * version + more + 1)

    read = read_by_number(box, publish, lambda box: receive(box, limit=2), fill=lambda box: filled(box, publish))
    assert SOME < read < 3 * 10 * GROUPS + of_whole_transactions(box, 3 * GROUPS)


@pytest.mark.parametrize("read_by_number", TRAPS)
def test_what_dialogs_send_and_end(box, read_by_number):
    box.define(
        sq.Contract("AddItem", {"AddItem": "initiator", "ItemAdded": "target"}),
        sq.Service("Orders", queue="orders"),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
    )

    def begin(box, version):
        with box.session() as tx:
            for _ in range(GROUPS):
                tx.send(tx.begin_dialog("Orders", "Inventory", contract="AddItem"), "AddItem", b"")

    def answer(box):
        while (handle := first(box, "inventory")) is not None:
            with box.session() as tx:
                tx.send(handle, "ItemAdded", b"")
                tx.end(handle)
        while (handle := first(box, "orders")) is not None:
            with box.session() as tx:
                tx.end(handle)
        receive(box, "inventory")

    def fill(box):
        for version in range(ROUNDS // 4):
            begin(box, version)
        answer(box)

    assert SOME < read_by_number(box, begin, answer, fill=fill) < 20 * GROUPS


def first(box, queue):
    """The dialog of what is received next, and done."""
    with box.session() as tx:
        delivery = tx.receive(queue, limit=10)
        if delivery is None:
            return None
        delivery.done()
        return delivery.messages[0].dialog.handle
