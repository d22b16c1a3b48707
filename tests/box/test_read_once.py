"""What is read once: a group by an operator's action, the bodies of a batch by its end; and a cursor plans for all its rows."""

from __future__ import annotations

from contextlib import contextmanager

import pyarrow as pa
import pytest

import seriatim as sq
from seriatim.box.pipelines.incoming import Incoming
from seriatim.box.pipelines.staging import Staging
from seriatim.box.postgres.statements import Statements
from seriatim.operations import groups
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
    define(box, retry_delay=3600, retry_ceiling=3600)
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


def test_the_end_of_a_batch_reads_a_staged_message_to_number_it_to_store_it_and_to_delete_it(box):
    box.define(sq.MessageType("order"), sq.Queue("q", sq.Unordered()))
    rows = pa.RecordBatch.from_pydict({
        "type": ["order"] * MESSAGES, "message_id": [f"m{n}" for n in range(MESSAGES)], "body": [bytes(1000)] * MESSAGES,
    })  # fmt: skip
    with Staging(box.dsn, box.schema, queue="q", incoming=Incoming("order")) as staging:
        (part_id, _) = staging.stage("w", 0, [rows])
        with box.session() as tx:
            merged = tx.transaction.value("merge_parts", of_parts=[part_id], repeat=False)
            query = """
                SELECT pg_stat_get_xact_tuples_returned(heap.oid) + sum(pg_stat_get_xact_tuples_returned(its.indexrelid))
                FROM pg_class AS heap JOIN pg_index AS its ON its.indrelid = heap.oid
                WHERE heap.oid = %s::regclass GROUP BY heap.oid
            """
            (read,) = tx.connection.execute(query, [f"{box.schema}.staged_messages"]).fetchone()
    assert merged == MESSAGES
    assert read == 3 * MESSAGES


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
