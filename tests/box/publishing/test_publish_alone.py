"""Publishing in a transaction of its own: as in a session that does nothing else, and all or nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg.conninfo import make_conninfo

import seriatim as sq
from seriatim.box.publishing import batch as publish
from seriatim.operations import invariants


def stored(box):
    with box.session() as tx:
        return tx.connection.execute(f"SELECT message_id, number FROM {box.schema}.messages ORDER BY number").fetchall()


def messages(*names):
    return [sq.Message(type="order", message_id=name, body=name.encode()) for name in names]


def test_they_are_there_when_it_returns(box):
    (one,) = messages("1")
    assert box.publish(one) == ["1"]
    assert box.publish(messages("1", "2", "3", "2")) == ["1", "2", "3", "2"]
    assert box.publish([]) == []
    assert stored(box) == [("1", 1), ("2", 2), ("3", 3)]


def test_what_takes_several_statements_is_one_transaction_too(box, monkeypatch):
    monkeypatch.setattr(publish, "_PORTION_BYTES", 1)
    box.publish(messages("1", "2", "3"))
    assert stored(box) == [("1", 1), ("2", 2), ("3", 3)]
    broken = sq.Message(type="order", message_id="5", context={"a": "\0"})
    with pytest.raises(sq.UsageError, match="message 5: the property 'a'"):
        box.publish([*messages("4"), broken])
    assert len(stored(box)) == 3


def test_by_definitions_that_have_changed_meanwhile(box):
    define = [sq.MessageType("order", properties={"a": "string"}), sq.Queue("q", group="a")]
    with sq.MessageBox.open(box.dsn, schema=box.schema) as other:
        other.publish(messages("1"))  # it knows them as they were
        box.define(*define, sq.Subscription("all", where="type = 'order'", to="q"))
        other.publish(sq.Message(type="order", context={"a": "g"}))
    with box.session() as tx:
        assert [message.type for message in tx.receive("q")] == ["order"]


def test_each_goes_by_its_own_values_whatever_went_before(box):
    box.define(
        sq.MessageType("order", properties={"amount": "decimal(9,2)", "rush": "boolean"}),
        *(sq.Queue(name, policy=sq.Unordered()) for name in ("big", "rush")),
        sq.Subscription("big", where="amount > 10", to="big"),
        sq.Subscription("rush", where="rush OR amount = 11", to="rush"),
    )
    given = [
        (11, None),
        (5, None),
        (11, True),
        (None, True),
        (5, None),
        (None, None),
        (11, None),
        (12, False),
        (5, True),
    ]
    for amount, rush in given:
        box.publish(sq.Message(type="order", context={"amount": amount, "rush": rush}))
    found = {}
    for name in ("big", "rush"):
        with box.session() as tx:
            messages = tx.receive(name, limit=20).messages
            found[name] = [(message.context["amount"], message.context["rush"]) for message in messages]
    assert found["big"] == [one for one in given if (one[0] or 0) > 10]
    assert found["rush"] == [one for one in given if one[1] or one[0] == 11]


def test_what_is_refused_leaves_the_connection_as_it_was(box):
    box.define(
        sq.MessageType("order", properties={"a": "string"}),
        sq.Queue("q", group="a", max_messages=sq.Limit(1, when_full="refuse")),
        sq.Subscription("all", where="type = 'order'", to="q"),
    )
    with sq.MessageBox.open(box.dsn, schema=box.schema, connections=1) as narrow:
        narrow.publish(sq.Message(type="order", context={"a": "g"}))
        with pytest.raises(sq.QueueFull):
            narrow.publish(sq.Message(type="order", context={"a": "g"}))
        with pytest.raises(sq.UsageError, match="str is not a message"):
            narrow.publish("order")
        with narrow.session() as tx:  # the same connection, and a transaction again
            tx.publish(sq.Message(type="other"))
            tx.connection.rollback()
        assert [row[0] for row in stored(narrow)] == [row[0] for row in stored(box)]
        assert len(stored(narrow)) == 1


def test_in_a_closed_box(box):
    other = sq.MessageBox.open(box.dsn, schema=box.schema)
    other.close()
    with pytest.raises(sq.UsageError, match="the message box is closed"):
        other.publish(messages("1"))


def ledger(version, group="g"):
    return sq.Message(type="order", context={"customer": group, "version": version})


def taken(box, limit):
    """All that waits, a delivery a transaction."""
    found = []
    with box.session() as tx:
        delivery = tx.receive("ledger", limit=limit)
        while delivery is not None:
            assert len({one.context["customer"] for one in delivery.messages}) == 1
            found += [(one.context["customer"], one.context["version"]) for one in delivery.messages]
            delivery = tx.commit_and_receive(limit=limit)
    return found


@settings(max_examples=25)
@given(
    st.lists(st.tuples(st.sampled_from(["alone", "batch", "session", "other place", "later"]), st.sampled_from("gh"))),
    st.sampled_from([1, 2, 50]),
)
def test_however_it_is_published_it_leaves_its_group_in_order_of_commit(box_of_ledger, ways, limit):
    box = box_of_ledger
    published, number = [], 0
    for way, group in ways:
        count = 3 if way in ("batch", "session") else 1
        several = [ledger(number + n, group) for n in range(count)]
        number += count
        published += [(group, one.context["version"]) for one in several]
        if way == "session":
            with box.session() as tx:
                tx.publish(several[:1])
                tx.publish(several[1:])
        elif way == "other place":
            box.publish(replace(several[0], context={**several[0].context, "location": f"place {number % 3}"}))
        elif way == "later":  # and may be seen by then
            box.publish(several, visible_at=datetime(2020, 1, 1, tzinfo=UTC))
        else:
            box.publish(several)
    found = taken(box, limit)
    assert {group: [one for one in found if one[0] == group] for group in "gh"} == {
        group: [one for one in published if one[0] == group] for group in "gh"
    }
    assert invariants.broken(box) == []


@pytest.fixture(scope="module")
def box_of_ledger(postgresql):
    with sq.MessageBox.open(postgresql, schema="test_ledger") as box:
        box.define(
            sq.MessageType("order", properties={"customer": "string", "version": "long"}),
            sq.Queue("ledger", policy=sq.Fifo(), group="customer"),
            sq.Subscription("all", where="type = 'order'", to="ledger"),
        )
        yield box


def test_what_was_published_is_on_disk(box):
    waiting = make_conninfo(box.dsn, options="-c synchronous_commit=on")  # the tests' server doesn't wait for the disk
    with (
        sq.MessageBox.open(waiting, schema=box.schema) as safe,
        sq.MessageBox.open(box.dsn, schema=box.schema) as other,
        other.session() as tx,
    ):
        flushed = "SELECT pg_wal_lsn_diff(pg_current_wal_flush_lsn(), %s)"
        for several in ([0], [1, 2, 3]):
            safe.publish(messages(*(f"before {one}" for one in several)))  # nothing that is done only once comes after
            ((begin,),) = tx.connection.execute("SELECT pg_current_wal_insert_lsn()").fetchall()
            bodies = {str(one): os.urandom(50_000) for one in several}
            safe.publish([sq.Message(type="order", message_id=name, body=body) for name, body in bodies.items()])
            ((bytes_on_disk,),) = tx.connection.execute(flushed, [begin]).fetchall()
            assert bytes_on_disk > sum(map(len, bodies.values()))


def test_what_makes_the_messages_may_use_the_only_connection(box):
    def made():
        for message in messages("1", "2"):
            with narrow.session() as tx:
                tx.connection.execute("SELECT")
            yield message

    with sq.MessageBox.open(box.dsn, schema=box.schema, connections=1) as narrow:
        assert narrow.publish(made()) == ["1", "2"]
    assert stored(box) == [("1", 1), ("2", 2)]
