"""An action reads its group once, the end of a batch its bodies once; and a cursor plans for all its rows."""

from __future__ import annotations

from contextlib import contextmanager

import psycopg
import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.definitions import known
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.staging import Staging
from seriatim.box.postgres.statements import Statements
from seriatim.box.views.group_standing import standing_of
from seriatim.box.views.peek import peek
from seriatim.box.views.trace import trace_group
from seriatim.operations import doctor, groups, queues
from seriatim.operations.grants import grant
from tests.box import roles
from tests.box.console import BUSINESS, BY, TRANSIENT, define, failing, publish, received

MESSAGES = 200


@contextmanager
def statements(patch):
    """The names of the statements that return rows."""
    names, rows = [], Statements.rows

    def counted(self, name, *arguments, **parameters):
        names.append(name)
        return rows(self, name, *arguments, **parameters)

    with patch.context() as patched:
        patched.setattr(Statements, "rows", counted)
        yield names


@pytest.mark.parametrize("what", [BUSINESS, TRANSIENT], ids=["faulted", "tried again"])
def test_a_retry_reads_its_group_once(box, monkeypatch, what):
    define(box, retry=sq.Retry(delay=3600, ceiling=3600))
    publish(box, 1, 2)
    failing(box, what)
    with statements(monkeypatch) as names:
        done = groups.retry(box, "shop", "c1", **BY)
    assert names.count("groups") == 1
    assert (done.before, done.after) == ("faulted" if what is BUSINESS else "ready", "ready")
    assert received(box) == [1, 2]


def test_the_other_actions_read_their_group_once(box, monkeypatch):
    define(box)
    publish(box, 1, 2, 4)
    with statements(monkeypatch) as names:
        groups.skip_hole(box, "shop", "c1", **BY)
        groups.suspend(box, "shop", "c1", **BY)
        groups.resume(box, "shop", "c1", **BY)
        groups.abort(box, "shop", "c1", **BY)
    assert names.count("groups") == 4


def test_the_end_of_a_batch_writes_no_body_and_reads_each_for_its_id_alone(box):
    box.define(sq.MessageType("order"), sq.Queue("q", sq.Unordered()))
    rows = pa.RecordBatch.from_pydict({
        "type": ["order"] * MESSAGES, "message_id": [f"m{n}" for n in range(MESSAGES)], "body": [bytes(1000)] * MESSAGES,
    })  # fmt: skip
    with Staging(box.dsn, box.schema, queue="q", incoming=Incoming("order")) as staging:
        (part_id, _) = staging.stage("w", 0, [rows])
        with box.session() as tx:
            merged = tx.transaction.value("merge_parts", of_parts=[part_id], repeat=False)
            query = """
                SELECT pg_stat_get_xact_tuples_fetched(%(spool)s::regclass) + pg_stat_get_xact_tuples_returned(%(spool)s::regclass),
                    pg_stat_get_xact_tuples_inserted(%(spool)s::regclass) + pg_stat_get_xact_tuples_updated(%(spool)s::regclass)
            """
            found = tx.connection.execute(query, {"spool": f"{box.schema}.spool"}).fetchone()
    assert merged == MESSAGES
    assert found == (MESSAGES, 0)


def test_a_large_result_is_planned_for_all_of_its_rows(box):
    """Not for the first tenth, which a plan serves soonest that is slow for all."""
    define(box)
    publish(box, 1, 2, 3)
    fraction = "SELECT current_setting('cursor_tuple_fraction')::float8"
    with box.session() as tx:
        transaction = tx.transaction
        (before,) = tx.connection.execute(fraction).fetchone()
        queue_id = box.definitions().queue("shop").queue_id
        named = {"queue_id": queue_id, "ordered": True, "first": 0, "next": None}
        found = [len(rows) for rows in transaction.portions("read_queue", 2, **named)]
        (within,) = tx.connection.execute(fraction).fetchone()
    with box.session() as tx:
        (after,) = tx.connection.execute(fraction).fetchone()
    assert (found, before, within, after) == ([2, 1], 0.1, 1.0, 0.1)


def executed(patch, do):
    """How many statements are sent to the server by a call."""
    found, execute = [], psycopg.Cursor.execute

    def counted(self, query, *arguments, **options):
        found.append(query)
        return execute(self, query, *arguments, **options)

    with patch.context() as patched:
        patched.setattr(psycopg.Cursor, "execute", counted)
        do()
    return len(found)


def test_what_looks_at_all_queues_is_as_many_statements_however_many_there_are(box, monkeypatch):
    def looks():
        queues.queues(box)
        groups.groups(box)
        groups.stopped(box)
        assert [finding for finding in doctor.examine(dsn=box.dsn, schema=box.schema) if finding.name == "box"]
        with sq.MessageBox.open(box.dsn, schema=box.schema) as again:
            again.definitions()

    def with_queues(*names):
        for name in names:
            box.define(
                sq.Queue(name, group="customer", max_messages=10),
                sq.Subscription(name, where="customer = 'a'", to=name),
                sq.Subscription(f"{name}-stopped", where="customer = 'b'", to=name, state="stopped"),
            )
        box.publish([sq.Message(type="order", context={"customer": one}) for one in "ab"])

    box.define(sq.MessageType("order", properties={"customer": "string"}))
    with_queues("q0", "q1")
    looks()
    few = executed(monkeypatch, looks)
    with_queues(*(f"r{n}" for n in range(20)))
    looks()
    assert executed(monkeypatch, looks) == few


def test_a_queue_more_is_read_and_not_the_others_again(box):
    """A process remembers the declarations that it has parsed, by their texts."""
    define(box)
    parse = known._read
    box.definitions()
    before = parse.cache_info()
    box.define(sq.Queue("one-more", group="customer"))
    box.publish(sq.Message(type="order", body=b"{}", context={"customer": "a", "version": 1}))
    after = parse.cache_info()
    assert after.misses - before.misses == 1
    assert after.hits > before.hits


def test_a_role_looks_at_a_message_and_not_at_all_of_them(box):
    define(box)
    for group in range(60):
        publish(box, *range(1, 11), group=f"c{group:02}")
    roles.make(box, "one_looker")
    grant(box, "one_looker", see=["shop"], see_bodies=["shop"])
    tables = ["spool", "tickets", "entries", "aside", "history"]
    query = """
        SELECT sum(pg_stat_get_xact_tuples_returned(heap.oid))::bigint FROM pg_class AS heap
        WHERE heap.relnamespace = %s::regnamespace AND heap.relname = ANY (%s)
    """
    with roles.as_role(box, "one_looker") as own:
        for look in (
            lambda tx: peek(tx.transaction, own.definitions(), "shop", "c30", 5),
            lambda tx: standing_of(tx.transaction, "shop", "c30"),
            lambda tx: trace_group(tx.transaction, "shop", "c30"),
        ):
            with own.session() as tx:
                before = tx.connection.execute(query, [box.schema, tables]).fetchone()[0]
                assert look(tx)
                read = tx.connection.execute(query, [box.schema, tables]).fetchone()[0] - before
            assert read < 100, f"{read} rows of 600 messages were read from one to the next"
