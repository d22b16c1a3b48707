"""A connection that is joined leads to the box itself, and not to another one of the same name."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import seriatim as sq
from seriatim.operations.grants import grant, revoke


@pytest.fixture
def elsewhere(box, databases):
    """The DSN of another database, whose box has the same name and as many changes behind it."""
    with databases.clone() as dsn:
        with sq.MessageBox.open(dsn, schema=box.schema) as other:
            define(other, "theirs")
            define(box, "ours")
        yield dsn


def name_of(dsn):
    return conninfo_to_dict(dsn)["dbname"]


def define(box, queue):
    box.define(
        sq.MessageType("order"),
        sq.Queue(queue, policy=sq.Unordered()),
        sq.Subscription("all", where="type = 'order'", to=queue),
    )


USES = {
    "publish": lambda tx: tx.publish(sq.Message(type="order")),
    "receive": lambda tx: tx.receive("theirs"),
    "dispense": lambda tx: tx.dispense("till"),
    "dialog": lambda tx: tx.begin_dialog("a", "b", contract="c"),
}


@pytest.mark.dear
@pytest.mark.parametrize("use", USES)
def test_another_database(box, elsewhere, use):
    with psycopg.connect(elsewhere) as connection:
        connection.execute("CREATE TABLE ours ()")
        with pytest.raises(sq.UsageError, match="another message box") as caught, box.session(connection) as tx:
            USES[use](tx)
        connection.execute("SELECT FROM ours")  # it can go on without the box
        with pytest.raises(sq.UsageError, match="another message box"), box.session(connection) as tx:
            USES[use](tx)
    assert box.schema in caught.value.where
    assert name_of(elsewhere) in caught.value.what
    assert caught.value.remedy
    box.publish(sq.Message(type="order"))
    assert len(box.peek("ours")) == 1
    with sq.MessageBox.open(elsewhere, schema=box.schema) as other:
        assert other.peek("theirs") == []
        with (
            pytest.raises(sq.UsageError, match="another message box"),
            other.session() as theirs,  # nor is it one that another box has opened
            box.session(theirs.connection) as tx,
        ):
            USES[use](tx)


def test_a_copy_of_the_database(box, databases, elsewhere):
    """It has all that the box has, also what it is told by."""
    with (
        databases.clone(name_of(elsewhere)) as dsn,
        sq.MessageBox.open(elsewhere, schema=box.schema) as other,
        psycopg.connect(dsn) as copy,
        pytest.raises(sq.UsageError, match="another message box"),
        other.session(copy) as tx,
    ):
        tx.publish(sq.Message(type="order"))


def test_a_database_without_a_box(box, elsewhere):
    with sq.MessageBox.open(box.dsn, schema=f"{box.schema}_alone") as alone, psycopg.connect(elsewhere) as connection:
        with pytest.raises(sq.UsageError, match="or to none"), alone.session(connection) as tx:
            tx.publish(sq.Message(type="order"))
        connection.execute("SELECT")


def test_a_role_that_may_only_publish(box, elsewhere):
    role = f"{box.schema}_publisher"
    with box.session() as tx:
        tx.connection.execute(f"CREATE ROLE {role} LOGIN")
    grant(box, role, publish=["ours"])
    try:
        ours, theirs = (make_conninfo(dsn, user=role) for dsn in (box.dsn, elsewhere))
        with psycopg.connect(ours) as connection, box.session(connection) as tx:
            tx.publish(sq.Message(type="order"))
        with (
            pytest.raises(sq.UsageError, match="another message box"),
            psycopg.connect(theirs) as connection,
            box.session(connection) as tx,
        ):
            tx.publish(sq.Message(type="order"))
        assert len(box.peek("ours")) == 1
    finally:
        revoke(box, role)
        with box.session() as tx:
            tx.connection.execute(f"DROP ROLE {role}")


def test_a_connection_is_asked_once(box, monkeypatch):
    define(box, "ours")
    box.publish(sq.Message(type="order"))
    trips = []
    wait = psycopg.Connection.wait
    with psycopg.connect(box.dsn) as connection:
        monkeypatch.setattr(psycopg.Connection, "wait", lambda self, *a, **k: trips.append(1) or wait(self, *a, **k))
        counts = []
        for _ in range(3):
            trips.clear()
            with box.session(connection) as tx:
                tx.publish(sq.Message(type="order"))
            counts.append(len(trips))
            connection.commit()
        monkeypatch.undo()
    assert counts == [3, 1, 1]  # which box it is, and whether that is disabled


def test_a_box_that_was_made_anew(box):
    """What its process knows is of the box before, though as much was changed in that."""
    define(box, "before")
    box.publish(sq.Message(type="order"))
    with psycopg.connect(box.dsn) as connection:
        with box.session(connection) as tx:
            tx.publish(sq.Message(type="order"))
        connection.commit()
        connection.execute(f"DROP SCHEMA {box.schema} CASCADE")
        connection.commit()
        with sq.MessageBox.open(box.dsn, schema=box.schema) as anew:
            define(anew, "after")
        box.publish(sq.Message(type="order", message_id="1"))
        with psycopg.connect(box.dsn) as other, box.session(other) as tx:
            tx.publish(sq.Message(type="order", message_id="2"))
        with box.session(connection) as tx:
            tx.publish(sq.Message(type="order", message_id="3"))
        connection.commit()
    assert [one.message.message_id for one in box.peek("after")] == ["1", "2", "3"]
