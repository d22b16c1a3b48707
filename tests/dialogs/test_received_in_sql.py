"""A service in SQL: receive, the verbs of dialogs and complete, in one transaction; and no lease of its messages."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.rows import namedtuple_row

from seriatim.box.tick import judge
from seriatim.operations import invariants
from tests.dialogs.talking import begun, far_of, states


@pytest.fixture
def sql(talk):
    """A connection of a program in SQL."""
    with psycopg.connect(talk.dsn, row_factory=namedtuple_row) as connection:
        connection.execute(f"SET search_path TO {talk.schema}")
        connection.commit()
        yield connection


def received(sql, queue="inventory", more=""):
    return sql.execute(f"SELECT * FROM receive(%s{more})", [queue]).fetchall()


def test_it_answers_and_ends_in_the_transaction_that_received(talk, sql):
    handle = begun(talk, b"1", b"2")
    rows = received(sql)
    assert [(row.type, bytes(row.body), row.position) for row in rows] == [("AddItem", b"1", 1), ("AddItem", b"2", 2)]
    far = rows[0].context["dialog"]["handle"]
    sql.execute("SELECT send(%s, 'ItemAdded', 'done'), end_dialog(%s), complete(%s)", [far, far, rows[0].delivery])
    with talk.session() as tx:
        assert tx.receive("orders") is None  # nothing is sent before the commit
    sql.commit()
    with talk.session() as tx:
        answer, end = tx.receive("orders", limit=10)
        assert (answer.type, answer.body, answer.dialog.handle, end.type) == ("ItemAdded", b"done", handle, "EndDialog")
        tx.end(handle)
    assert set(states(talk).values()) == {"CD"}
    assert invariants.broken(talk) == []


def test_a_rollback_takes_the_answer_and_the_messages_back(talk, sql):
    begun(talk, b"1")
    (row,) = received(sql)
    far = row.context["dialog"]["handle"]
    sql.execute("SELECT send(%s, 'ItemAdded', 'done'), complete(%s)", [far, row.delivery])
    sql.rollback()
    with talk.session() as tx:
        assert tx.receive("orders") is None
        assert [one.body for one in tx.receive("inventory")] == [b"1"]


def test_a_commit_that_would_leave_a_lease_is_refused_with_the_remedy(talk, sql):
    begun(talk, b"1", b"2")
    rows = received(sql)
    sql.execute("SELECT complete(%s, 1)", [rows[0].delivery])
    with pytest.raises(psycopg.Error, match="can't stay in hand beyond the transaction") as refused:
        sql.commit()
    assert (refused.value.sqlstate, "give_back" in refused.value.diag.message_hint) == ("SQ006", True)
    sql.rollback()
    judge(talk.access, talk.definitions().queue("inventory").queue_id)
    rows = received(sql)
    assert [bytes(row.body) for row in rows] == [b"1", b"2"]
    sql.execute("SELECT give_back(%s)", [rows[0].delivery])
    sql.commit()
    with talk.session() as tx:
        assert tx.receive("inventory") is not None


def test_the_messages_of_one_dialog_come_first(talk, sql):
    with talk.session() as tx:
        first = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        tx.send(first, "AddItem", b"1")
        second = tx.begin_dialog("Orders", "Inventory", contract="AddItem", related_to=first)
        tx.send(second, "AddItem", b"2")
    far = far_of(talk, second)
    (row,) = received(sql, more=f", dialog => '{far}'")
    assert bytes(row.body) == b"2"
    sql.rollback()
    with pytest.raises(psycopg.errors.InvalidParameterValue, match="is elsewhere"):
        received(sql, "orders", f", dialog => '{far}'")
