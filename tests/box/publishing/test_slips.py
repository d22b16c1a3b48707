"""A publisher's slip is told to the publisher: refused, or in the log with what was probably meant; and where messages went."""

from __future__ import annotations

import logging
import pickle

import psycopg
import pytest

import seriatim as sq
from seriatim.box.connection.access import Transaction
from seriatim.box.publishing import batch
from seriatim.operations.doctor.box_checks import CHECKS
from tests.databases import box_with

SQL = "SELECT {schema}.publish('ordr', 'x')"


def prepared(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "region": "string"}),
        sq.MessageType("note", properties={"customer": "string"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("north", policy=sq.Unordered()),
        sq.Queue("all", policy=sq.Unordered()),
        sq.Subscription("orders", where="type = 'order' AND region IN ('south', 'west')", to="orders"),
        sq.Subscription("north", where="type = 'order' AND region = 'north'", to="north"),
        sq.Subscription("north-too", where="region = 'north'", to="all"),
    )


box = box_with(prepared)
#: Refused calls change nothing in it.
shared = box_with(prepared, scope="module")


def order(**context):
    return sq.Message(type="order", context=context)


SLIPS = [
    (sq.Message(type="ordr"), "no subscription matches it", "did you mean 'order'?"),
    (sq.Message(type="zebra"), "no subscription matches it", "known types: note, order"),
    (order(custmer="c"), "declares no property 'custmer'", "did you mean 'customer'?"),
    (order(version="one"), "property version", "mend the value"),
    (order(customer="c", version=1, region="nroth"), "no subscription matches it", "region is 'nroth'; did you mean 'north'?"),
    (order(customer="c", version=1), "no subscription matches it", "it has no region"),
    (order(customer="c", region="south"), "invalid in queue 'orders': the sequence is missing", "goes by 'customer' and 'version'"),
    (sq.Message(type="\ud7ff"), "no subscription matches it", "known types"),
]  # fmt: skip


@pytest.mark.parametrize(("message", "what", "remedy"), SLIPS, ids=lambda one: one if isinstance(one, str) else "")
def test_refused_with_what_was_meant(shared, message, what, remedy):
    good = order(customer="c", version=1, region="south")
    with shared.session() as tx:
        with pytest.raises(sq.Unrouted) as told:
            tx.publish([good, message], unrouted="refuse")
        assert message.message_id in told.value.what
        assert what in told.value.what
        assert remedy in told.value.remedy
        assert tx.publish([]) == []  # the transaction goes on
    assert not shared.peek("orders")
    assert isinstance(pickle.loads(pickle.dumps(told.value)), sq.UsageError)


def test_how_many_others_there_are(shared):
    with pytest.raises(sq.Unrouted, match=r"1 more of this call"):
        shared.publish([sq.Message(type="ordr"), sq.Message(type="ordr")], unrouted="refuse")


def test_who_says_what_becomes_of_them(box):
    slip = sq.Message(type="ordr")

    def refused(opened, **said):
        try:
            opened.publish(slip, **said)
        except sq.Unrouted:
            return True
        return False

    with sq.MessageBox.open(box.dsn, schema=box.schema, unrouted="refuse") as strict:
        assert not refused(box)
        assert refused(strict)
        assert not refused(strict, unrouted="keep")
        with strict.more(1) as more:
            assert refused(more)
        changes = box.define(sq.BoxSettings(unrouted="refuse"))
        assert list(map(str, changes)) == ["added settings box"]
        assert box.define(sq.BoxSettings(unrouted="refuse")) == []
        assert box.definitions().settings == sq.BoxSettings(unrouted="refuse")
        assert refused(box)
        assert not refused(box, unrouted="keep")
        with sq.MessageBox.open(box.dsn, schema=box.schema, unrouted="keep") as lenient:
            assert not refused(lenient)
        assert list(map(str, box.define(sq.BoxSettings()))) == ["changed settings box: unrouted"]
        assert not refused(box)
        assert list(map(str, box.drop(settings="box"))) == ["dropped settings box"]
        with pytest.raises(sq.UsageError, match="there is no settings 'box'"):
            box.drop(settings="box")
    for wrong in (lambda: box.publish(slip, unrouted="drop"), lambda: sq.BoxSettings(unrouted="drop"),
                  lambda: sq.MessageBox.open(box.dsn, schema=box.schema, unrouted="drop")):  # fmt: skip
        with pytest.raises(sq.UsageError, match="unrouted can't be 'drop'"):
            wrong()


def test_settings_that_cant_be_read(box):
    """The defaults hold, and doctor says so."""
    box.define(sq.BoxSettings(unrouted="refuse"))
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.settings SET definition = '{{}}'")
        tx.connection.execute(f"SELECT {box.schema}.record_change('by hand')")
    box.publish(sq.Message(type="ordr"), unrouted=None)
    assert "settings 'box'" in CHECKS["definitions"](box).found
    assert list(map(str, box.define(sq.BoxSettings()))) == ["changed settings box"]


def test_what_this_process_knows_is_old_refuses_nothing(box):
    new = sq.Message(type="note")
    box.publish(order(customer="c", version=1, region="south"))
    with sq.MessageBox.open(box.dsn, schema=box.schema) as other:
        other.define(sq.Subscription("notes", where="type = 'note'", to="all"))
    assert box.publish(new, unrouted="refuse").queues == {new.message_id: ("all",)}


def test_nothing_of_a_large_call_is_published(box, monkeypatch):
    """Its messages go in several statements; meanwhile the definitions change, so that the last ones reach no queue."""
    monkeypatch.setattr(batch, "_PORTION_BYTES", 10)
    given = [
        sq.Message(type="order", body=b"x" * 10, context={"customer": "c", "version": n, "region": "west"})
        for n in (1, 2)
    ]
    before = sq.Message(type="order", context={"customer": "d", "version": 1, "region": "west"})
    value, narrower = Transaction.value, sq.Subscription("orders", where="region = 'south'", to="orders")

    def and_then_it_changes(self, name, /, **parameters):
        found = value(self, name, **parameters)
        if name == "take_in_one" and len(box.definitions().subscriptions["orders"].declared.where) > 20:
            other.define(narrower)
        return found

    with sq.MessageBox.open(box.dsn, schema=box.schema) as other, box.session() as tx:
        tx.publish(before)
        monkeypatch.setattr(Transaction, "value", and_then_it_changes)
        with pytest.raises(sq.Unrouted):
            tx.publish(given, unrouted="refuse")
        monkeypatch.undo()
    assert [one.message.message_id for one in box.peek("orders")] == [before.message_id]


def test_a_large_call_doesnt_commit_the_session(box, monkeypatch):
    monkeypatch.setattr(batch, "_PORTION_BYTES", 10)
    given = [
        sq.Message(type="order", body=b"x" * 10, context={"customer": "c", "version": n, "region": "west"})
        for n in (1, 2)
    ]
    with box.session() as tx:
        assert len(tx.publish(given)) == 2
        tx.connection.rollback()
    assert not box.peek("orders")


def test_kept_ones_are_logged_once(box, caplog):
    with caplog.at_level(logging.WARNING, "seriatim.box"):
        for _ in range(3):
            box.publish([sq.Message(type="ordr"), order(custmer="c"), order(customer="c", region="south")])
    told = [one.getMessage() for one in caplog.records if one.name == "seriatim.box"]
    assert len(told) == 3
    assert "did you mean 'order'?" in told[0]
    assert "did you mean 'customer'?" in told[1]
    assert "invalid in queue 'orders'" in told[2]
    caplog.clear()
    with psycopg.connect(box.dsn) as connection:
        connection.execute(SQL.format(schema=box.schema).replace("ordr", "noet"))
    with caplog.at_level(logging.WARNING, "seriatim.box"):
        box.tick()
    (told,) = caplog.messages
    assert "did you mean 'note'?" in told


def test_the_queues_of_each(box):
    one, two, north, slip = (
        order(customer="c", version=1, region="south"),
        order(customer="c", region="south"),
        order(customer="c", region="north"),
        sq.Message(type="ordr"),
    )
    published = box.publish([one, two, north, slip, one])
    assert published == [one.message_id, two.message_id, north.message_id, slip.message_id, one.message_id]
    assert published.queues == {
        one.message_id: ("orders",),
        two.message_id: (),
        north.message_id: ("all", "north"),
        slip.message_id: (),
    }
    again = box.publish(one)
    assert (again.left_out, again.queues) == ([one.message_id], {one.message_id: ("orders",)})
    assert box.publish([]).queues == {}
    copy = pickle.loads(pickle.dumps(again))
    assert (copy, copy.left_out, copy.queues, copy.waiting) == (again, again.left_out, again.queues, {})
