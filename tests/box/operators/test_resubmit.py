"""What is unrouted is kept, listed, and routed again; and looking at messages takes nothing."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import psycopg
import pytest

import seriatim as sq
from seriatim.box.operators import resubmit
from seriatim.box.views.message_places import STATUSES
from seriatim.operations import invariants, queues, retention, set_aside
from seriatim.operations import messages as message_operations

ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long", "amount": "decimal(12,2)"})
QUEUE = sq.Queue("q", policy=sq.Standard(), group="customer", sequence="version")
ALL = sq.Subscription("all", where="type = 'order'", to="q")
PATIENCE_S = 120.0


def order(version, **properties):
    return sq.Message(type="order", context={"customer": "a", "version": version, **properties}, body=b"body")


def publish(box, *messages, **when):
    with box.session() as tx:
        return tx.publish(messages, **when)


def received(box):
    found = []
    with box.session() as tx:
        while delivery := tx.receive("q", limit=100):
            found += delivery
    return found


def test_it_is_routed_in_order_of_tickets_and_keeps_them(box, monkeypatch):
    monkeypatch.setattr(resubmit, "_BATCH", 3)
    box.define(ORDER, sq.Queue("q", policy=sq.Fifo(), group="customer"))
    ids = [name for version in range(10) for name in publish(box, order(version, amount="1.50"))]
    publish(box, sq.Message(type="other"))
    assert message_operations.resubmit(box) == resubmit.Resubmitted(0, 11)
    box.define(ALL)
    assert message_operations.resubmit(box) == resubmit.Resubmitted(10, 1)
    assert message_operations.resubmit(box) == resubmit.Resubmitted(0, 1)
    found = received(box)
    assert [message.message_id for message in found] == ids
    assert [message.ticket.number for message in found] == list(range(1, 11))
    assert {message.context["amount"] for message in found} == {Decimal("1.50")}
    assert {message.subscriptions for message in found} == {("all",)}
    publish(box, sq.Message(type="order", message_id=ids[0]))  # it is still known
    assert received(box) == []


def test_many_are_not_compared_with_each_other(box, monkeypatch):
    """Of a table that is new PostgreSQL doesn't know what is in it, and a statement keeps the plan that it had then."""
    messages, batch = 6_000, 400
    monkeypatch.setattr(resubmit, "_BATCH", batch)
    box.define(ORDER, QUEUE)
    publish(box, *(order(version) for version in range(1, messages + 1)))
    box.define(ALL)
    with sq.MessageBox.open(box.dsn, schema=box.schema) as counted:
        assert message_operations.resubmit(counted) == resubmit.Resubmitted(messages, 0)
    query = (
        "SELECT sum(n_tup_del), sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_user_tables "
        "WHERE schemaname = %s AND relname IN ('unrouted', 'spool')"
    )
    with psycopg.connect(box.dsn, autocommit=True) as watching:
        deadline = time.monotonic() + PATIENCE_S
        while True:  # a connection tells what it has read at its end
            deleted, read = watching.execute(query, [box.schema]).fetchone()
            if deleted == messages:
                break
            assert time.monotonic() < deadline
    assert read <= 4 * messages * messages / batch


def test_only_some(box):
    box.define(ORDER, QUEUE)
    one, two, three = (publish(box, order(version))[0] for version in (1, 2, 3))
    publish(box, sq.Message(type="other"))
    box.define(ALL, sq.Subscription("others", where="type = 'other'", to="q"))
    assert message_operations.resubmit(box, [two, "nobody"]) == resubmit.Resubmitted(1, 0)
    assert [one.sequence for one in message_operations.messages(box, queue="q")] == [2]
    assert message_operations.resubmit(box, message_type="order") == resubmit.Resubmitted(2, 0)
    assert [message.message_id for message in received(box)] == [one, two, three]
    assert [one.type for one in message_operations.messages(box, status="unrouted")] == ["other"]


def test_what_was_not_what_its_type_says(box):
    box.define(ORDER, QUEUE, ALL)
    publish(box, order(1, urgent=True), order(2, colour="red"))
    problems = [one.reason for one in message_operations.messages(box, status="unrouted")]
    assert problems == ["type 'order' declares no property 'urgent'", "type 'order' declares no property 'colour'"]
    box.define(sq.MessageType("order", properties={**ORDER.properties, "urgent": "boolean"}))
    assert message_operations.resubmit(box) == resubmit.Resubmitted(1, 1)
    assert [message.context["urgent"] for message in received(box)] == [True]


def test_what_fits_nowhere_then_is_invalid_there(box):
    box.define(ORDER, QUEUE)
    publish(box, sq.Message(type="order", context={"version": 1}))
    box.define(ALL)
    assert message_operations.resubmit(box) == resubmit.Resubmitted(1, 0)
    (place,) = message_operations.messages(box)
    assert (place.status, place.queue, place.reason) == ("invalid", "q", "the group key is missing")


def test_the_moment_of_the_publishing_counts(box):
    box.define(ORDER, QUEUE)
    publish(box, order(1))
    publish(box, order(2))
    first, second = (one.received_at for one in message_operations.messages(box))
    assert first < second
    text = (
        second.strftime("%Y-%m-%d %H:%M:%S.%f+00:00") if second.tzinfo is UTC else second.astimezone(UTC).isoformat(" ")
    )
    box.define(sq.Subscription("late", where=f"received_at >= TIMESTAMP '{text}'", to="q"))
    assert message_operations.resubmit(box) == resubmit.Resubmitted(1, 1)
    assert [one.sequence for one in message_operations.messages(box, queue="q")] == [2]


def test_it_is_not_seen_before_its_time(box):
    box.define(ORDER, QUEUE)
    publish(box, order(1), visible_at=datetime.now(UTC) + timedelta(days=1))
    box.define(ALL)
    assert message_operations.resubmit(box).routed == 1
    assert received(box) == []


def test_addressed_to_a_queue_that_is_gone_it_stays(box):
    box.define(ORDER, QUEUE)
    with box.session() as tx:
        tx.publish(sq.Message(type="other", context={"to": "q"}))
    assert [one.status for one in message_operations.messages(box)] == ["invalid"]
    publish(box, order(1))
    with box.session() as tx:  # as if it had been unrouted when the queue was dropped
        tx.connection.execute(
            f"UPDATE {box.schema}.spool SET context = context || '{{\"to\": \"gone\"}}' WHERE type = 'order'"
        )
    assert message_operations.resubmit(box) == resubmit.Resubmitted(0, 1)


def test_by_two_at_once_it_is_routed_once(box):
    box.define(ORDER, sq.Queue("q", policy=sq.Fifo(), group="customer"))
    ids = publish(box, *(order(version) for version in range(50)))
    box.define(ALL)
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda _: message_operations.resubmit(box), range(4)))
    assert sum(one.routed for one in done) == 50
    assert [message.message_id for message in received(box)] == ids


def test_it_calls_who_waits(box):
    box.define(ORDER, QUEUE)
    publish(box, order(1))

    def waiting():
        with box.session() as tx:
            return [message.sequence for message in tx.receive("q", wait=30)]

    with ThreadPoolExecutor(1) as thread:
        found = thread.submit(waiting)
        box.define(ALL)
        message_operations.resubmit(box)
        assert found.result() == [1]


def test_peek_sees_what_would_leave_and_leaves_it(box):
    box.define(ORDER, QUEUE, ALL)
    publish(box, order(2), order(4))
    received(box)
    publish(box, order(1), sq.Message(type="order", context={"customer": "b", "version": 1}))
    seen = [(one.group, one.status, one.message.sequence, one.message.subscriptions) for one in box.peek("q")]
    assert seen == [
        *(("a", "held", 2, ("all",)), ("a", "held", 4, ("all",)), ("a", "arrived", 1, ("all",))),
        ("b", "arrived", 1, ("all",)),
    ]
    with box.session() as tx:
        delivery = tx.receive("q", limit=1, group="a")
        assert len(delivery) == 1
        assert [one.message.body for one in box.peek("q", "a")] == [b"body"] * 3  # as it was before
        delivery.done()
    assert [(one.status, one.message.ordinal) for one in box.peek("q", "a")] == [("queued", 2), ("held", None)]
    assert len(box.peek("q", limit=1)) == 1
    for wrong in (0, True, 2**40):
        with pytest.raises(sq.UsageError):
            box.peek("q", limit=wrong)
    with pytest.raises(sq.UsageError, match="there is no queue"):
        box.peek("r")


def test_where_messages_are(box):
    box.define(ORDER, sq.Queue("q", policy=sq.Standard(), group="customer", sequence="version", keep="everything"), ALL)
    publish(box, order(1), order(1), order(0), order(None), order(3), sq.Message(type="other"))
    received(box)
    publish(box, order(5))
    statuses = [(one.number, one.status) for one in message_operations.messages(box)]
    assert statuses == [
        *((1, "done"), (2, "duplicate"), (3, "invalid"), (4, "invalid"), (5, "held"), (6, "unrouted")),
        (7, "arrived"),
    ]
    assert {status for _, status in statuses} <= set(STATUSES)
    assert [one.number for one in message_operations.messages(box, status="invalid", queue="q", limit=1)] == [3]
    assert [one.number for one in message_operations.messages(box, message_type="other")] == [6]
    assert message_operations.messages(box, queue="q", group="nobody") == []
    with pytest.raises(sq.UsageError, match="is not a status"):
        message_operations.messages(box, status="gone")
    (counts,) = queues.queues(box)
    assert (counts.arrived, counts.held, counts.queued, counts.invalid, counts.duplicate) == (1, 1, 0, 2, 1)
    assert (
        counts.oldest == min(one.received_at for one in message_operations.messages(box, status="held"))
        or counts.oldest is not None
    )
    stored, places = message_operations.message(box, message_operations.messages(box)[4].message_id)
    assert (stored.body, stored.context["version"], [one.status for one in places]) == (b"body", 3, ["held"])
    with pytest.raises(sq.UsageError, match="there is no message 'nobody'"):
        message_operations.message(box, "nobody")


def test_what_a_queue_could_not_order_goes_into_it_when_its_type_was_mended(box):
    """And into no other queue: those have had it."""
    loose = sq.MessageType("order", validation="well_formed_json", properties={"version": "long"})
    box.define(sq.MessageType("other", properties={"customer": "string"}), loose, QUEUE, ALL)
    box.define(
        sq.Queue("r", policy=sq.Unordered()), sq.Subscription("r", where="type = 'order' AND version > 2", to="r")
    )
    bodies = [b'{"customer": "a"}'] * 3 + [b"{}"]
    ids = publish(
        box, *(sq.Message(type="order", context={"version": 1 + at}, body=one) for at, one in enumerate(bodies))
    )
    assert [(one.queue, one.status) for one in message_operations.messages(box, queue="q")] == [("q", "invalid")] * 4
    assert message_operations.resubmit(box, queue="q") == resubmit.Resubmitted(0, 4)
    mended = sq.MessageType(
        "order",
        validation="well_formed_json",
        properties={"version": "long", "customer": {"type": "string", "path": "$.customer"}},
    )
    box.define(mended)
    assert message_operations.resubmit(box, [ids[1]], queue="q") == resubmit.Resubmitted(1, 0)
    assert message_operations.resubmit(box, queue="q", message_type="other") == resubmit.Resubmitted(0, 0)
    assert message_operations.resubmit(box, queue="q") == resubmit.Resubmitted(2, 1)
    assert [(one.message_id, one.context.get("customer")) for one in received(box)] == [
        (ids[0], "a"), (ids[1], "a"), (ids[2], None),
    ]  # fmt: skip
    assert [(one.queue, one.status) for one in message_operations.messages(box)] == [
        ("r", "arrived"),
        ("q", "invalid"),
        ("r", "arrived"),
    ]
    assert invariants.broken(box) == []


def test_what_its_group_refuses_is_judged_again_and_counted_again(box):
    box.define(ORDER, QUEUE, ALL)
    publish(box, order(1), order(0))
    assert [one.sequence for one in received(box)] == [1]
    (before,) = set_aside.set_aside(box, status="invalid")
    assert message_operations.resubmit(box, queue="q") == resubmit.Resubmitted(1, 0)
    assert received(box) == []
    (after,) = set_aside.set_aside(box, status="invalid")
    assert (after.message_id, after.reason) == (before.message_id, before.reason)
    assert invariants.broken(box) == []


def test_what_is_invalid_is_resubmitted_in_order_and_by_two_at_once_only_once(box, monkeypatch):
    monkeypatch.setattr(resubmit, "_BATCH", 7)
    box.define(ORDER, sq.Queue("q", policy=sq.Fifo(), group="customer"), ALL)
    ids = publish(box, *(sq.Message(type="order", context={"version": one}) for one in range(50)))
    box.drop(subscription="all")
    box.define(sq.Queue("q", policy=sq.Unordered()), ALL)
    with ThreadPoolExecutor(4) as threads:
        done = list(threads.map(lambda _: message_operations.resubmit(box, queue="q"), range(4)))
    assert sum(one.routed for one in done) == 50
    assert sorted(message.message_id for message in received(box)) == sorted(ids)
    assert retention.purge(box).messages == 0  # each went with its only reference
    assert invariants.broken(box) == []


def test_an_invalid_one_is_not_seen_before_its_time(box):
    box.define(ORDER, sq.Queue("q", policy=sq.Fifo(), group="customer"), ALL)
    publish(box, sq.Message(type="order"), visible_at=datetime.now(UTC) + timedelta(days=1))
    box.define(sq.Queue("q", policy=sq.Unordered()))
    assert message_operations.resubmit(box, queue="q").routed == 1
    assert received(box) == []


def test_what_is_not_invalid_in_that_queue_stays(box):
    box.define(ORDER, QUEUE, ALL)
    publish(box, order(1), order(1), order(None), sq.Message(type="other"))
    assert len(received(box)) == 1
    assert message_operations.resubmit(box, queue="q") == resubmit.Resubmitted(0, 1)
    assert sorted(one.status for one in message_operations.messages(box)) == ["duplicate", "invalid", "unrouted"]
    with pytest.raises(sq.UsageError, match="there is no queue 'r'"):
        message_operations.resubmit(box, queue="r")


def test_an_invalid_message_of_a_dialog_stays(box):
    asked = sq.MessageType("asked", validation="well_formed_json")
    box.define(
        asked,
        sq.Contract("asking", {"asked": "initiator"}),
        sq.Service("Asking", queue="asking"),
        sq.Service("Answering", queue="answering", contracts=["asking"]),
    )
    with box.session() as tx:
        tx.send(tx.begin_dialog("Asking", "Answering", contract="asking"), "asked", b"{}")
        tx.connection.execute(f"UPDATE {box.schema}.spool SET body = '{{'")
    with box.session() as tx:
        tx.receive("answering")
    assert [one.status for one in message_operations.messages(box, queue="answering") if one.type == "asked"] == [
        "invalid"
    ]
    assert message_operations.resubmit(box, queue="answering") == resubmit.Resubmitted(0, 0)
