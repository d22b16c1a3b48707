"""A box obeys records of another box for sides of dialogs: each side by itself, at most so many, and again after a failure."""

from __future__ import annotations

from contextlib import contextmanager

import psycopg
import pytest

from tests.dialogs.far_boxes import exchange, received, two_boxes


@pytest.fixture
def boxes(databases):
    with two_boxes(databases) as both:
        yield both


def begin(north, *bodies):
    """Begin a dialog for each body, which is its first message, and carry them to the south."""
    for body in bodies:
        with north.session() as tx:
            tx.send(tx.begin_dialog("Buyer", "Seller", contract="PurchaseOrder"), "Header", body)
    exchange(north)


def obeyed(box, at_most=1000):
    with box.access.transaction() as transaction:
        return transaction.value("obey_waiting", at_most=at_most)


def waiting(box):
    """The problem of each side for which something has come that isn't obeyed."""
    with box.session() as tx:
        rows = tx.connection.execute(f"SELECT problem FROM {box.schema}.dialog_inbox ORDER BY inbox_id").fetchall()
    return [problem for (problem,) in rows]


@contextmanager
def refused(box, body):
    """Within the block nothing with this body can be stored."""
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(
            f"CREATE FUNCTION {box.schema}.refuse_rows() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RAISE EXCEPTION 'there is no room for it'; END $$;"
            f"CREATE TRIGGER refuses BEFORE INSERT ON {box.schema}.spool FOR EACH ROW"
            f" WHEN (NEW.body = '{body}') EXECUTE FUNCTION {box.schema}.refuse_rows()"
        )
        yield
        connection.execute(f"DROP FUNCTION {box.schema}.refuse_rows CASCADE")


def test_a_side_that_cannot_be_obeyed_stops_no_other_one_and_is_tried_again_after_a_minute(boxes):
    north, south = boxes
    with refused(south, "bad"):
        begin(north, b"bad", b"good")
        assert obeyed(south) == 2
        assert waiting(south) == ["there is no room for it"]
        assert received(south, "sales") == [("Header", 0, b"good")]
    assert obeyed(south) == 0
    with south.session() as tx:
        tx.connection.execute(f"UPDATE {south.schema}.dialog_inbox SET failed_at = failed_at - interval '1 minute'")
    assert obeyed(south) == 1
    assert waiting(south) == []
    assert received(south, "sales") == [("Header", 0, b"bad")]


def test_no_more_sides_are_obeyed_than_are_asked_for(boxes):
    north, south = boxes
    begin(north, b"1", b"2", b"3")
    left = []
    while obeyed(south, at_most=1) == 1:
        left.append(len(waiting(south)))
    assert left == [2, 1, 0]


def test_a_side_that_another_transaction_obeys_is_passed_over(boxes):
    north, south = boxes
    begin(north, b"1", b"2")
    with south.access.transaction() as first, south.access.transaction() as second:
        assert first.value("obey_waiting", at_most=1) == 1
        assert second.value("obey_waiting", at_most=1000) == 1
        assert second.value("obey_waiting", at_most=1000) == 0
    assert waiting(south) == []
    assert sorted(received(south, "sales") + received(south, "sales")) == [("Header", 0, b"1"), ("Header", 0, b"2")]
