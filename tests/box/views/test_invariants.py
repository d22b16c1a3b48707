"""The laws of a live box: they hold, and what breaks one is told."""

from __future__ import annotations

import re

import psycopg
import pytest

import seriatim as sq
from seriatim.box.pipelines.feed import PipelineFeed
from seriatim.operations import groups as operations
from seriatim.operations import invariants, messages, queues, retention


@pytest.fixture
def used(box):
    """A box in which messages are held, queued, set aside, unrouted and done."""
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version"),
        sq.Queue("copies", policy=sq.Fifo(), group="customer", keep="everything"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.Subscription("copies", where="version > 1", to="copies"),
    )
    numbers = [1, 2, 2, 3, 5, None]
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "c", "version": number}) for number in numbers)
        tx.publish(sq.Message(type="other"))
    for queue, limit in (("orders", 10), ("copies", 2)):
        with box.session() as tx:
            tx.receive(queue, limit=limit).done()
    return box


def test_they_hold(used):
    assert invariants.broken(used) == []
    retention.purge(used)
    assert invariants.broken(used) == []


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (
            "UPDATE {0}.known_groups SET arrivals = arrivals + 1 WHERE queue_id = 1",
            r"queue 'orders', group 'c': took in 6",
        ),
        ("DELETE FROM {0}.entries WHERE status = 'held'", r"queue 'orders', group 'c': took in 5, but 4 are decided"),
        ("DELETE FROM {0}.spool", "refers to a message that is not there"),
        ("DELETE FROM {0}.tickets", "a message without a ticket"),
        ("UPDATE {0}.entries SET stamp = 0 WHERE status = 'held'", "a place in the order of commit that its ticket"),
    ],
)
def test_what_breaks_one_is_told(used, harm, told):
    with used.session() as tx:
        tx.connection.execute(harm.format(used.schema))
    assert any(re.search(told, one) for one in invariants.broken(used))


def test_a_closed_group_that_keeps_what_it_has_breaks_none(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("orders", sq.Fifo(), group="customer"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
    )
    box.publish([sq.Message(type="order", context={"customer": "c"}) for _ in range(2)])
    with box.session() as tx:  # so that both are judged, and one is queued
        tx.receive("orders", limit=1).done()
    operations.close(box, "orders", "c", actor="ann", reason="ticket 4711")
    assert operations.group_view(box, "orders", "c").queued == 1
    assert invariants.broken(box) == []


def test_an_old_transaction_is_told(used):
    with psycopg.connect(used.dsn, application_name="slow handler") as connection:
        connection.execute("SELECT 1")
        assert any("slow handler" in one for one in invariants.long_transactions(used, 0))
    assert not any("slow handler" in one for one in invariants.long_transactions(used, 3600))


@pytest.fixture
def waiting(box):
    """A box with a group that has released 6 messages: 2 are done, 4 wait; and one whose queue keeps them."""
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue("orders", policy=sq.Standard(), group="customer", sequence="version", keep="everything"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
    )
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "c", "version": n}) for n in range(1, 7))
    with box.session() as tx:
        tx.receive("orders", limit=2).done()
    with box.session() as tx:  # so that all are judged: what is put back is queued
        tx.receive("orders", limit=4)
    return box


def test_the_law_behind_the_release_holds(waiting):
    assert [one.status for one in messages.messages(waiting)] == ["done"] * 2 + ["queued"] * 4
    assert invariants.broken(waiting) == []
    with PipelineFeed(waiting.dsn, waiting.schema, queue="orders") as feed:
        feed.next("", 0, 2)
        assert [one.in_hand for one in operations.groups(waiting)] == [2]
        assert invariants.broken(waiting) == []
    queues.release(waiting, "orders")
    assert invariants.broken(waiting) == []
    operations.abort(waiting, "orders", "c", actor="me", reason="so")
    assert invariants.broken(waiting) == []
    with waiting.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "c", "version": n}) for n in (7, 8))
    with waiting.session() as tx:
        tx.receive("orders", limit=1).done()
    assert invariants.broken(waiting) == []


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        (
            "DELETE FROM {0}.entries WHERE ordinal = 4",
            "of 6 released messages the last 4 aren't done, but 3 are queued",
        ),
        ("DELETE FROM {0}.entries WHERE ordinal = 6", "the last 4 aren't done, but 3 are queued or in hand and 0 dead"),
        (
            "UPDATE {0}.entries SET ordinal = 7 WHERE ordinal = 5",
            "two messages have one ordinal, or one that was never",
        ),
        ("UPDATE {0}.entries SET ordinal = 2 WHERE ordinal = 3", "1 message is done and waits once more"),
        ("UPDATE {0}.known_groups SET ordinal = 7", "the last 5 aren't done, but 4 are queued"),
        (
            "DELETE FROM {0}.entries; UPDATE {0}.known_groups SET ordinal = 7",
            "released 6 messages, and gave 7 ordinals",
        ),
        ("UPDATE {0}.known_groups SET ready_rank = NULL", "4 messages are queued, and nothing says when they are next"),
    ],
)
def test_what_breaks_the_law_behind_the_release_is_told(waiting, harm, told):
    with waiting.session() as tx:
        tx.connection.execute(harm.format(waiting.schema))
    assert any(told in one for one in invariants.broken(waiting))


def test_a_dead_letter_amid_those_that_wait_is_no_loss(waiting):
    with waiting.session() as tx:
        tx.connection.execute(
            f"""
            WITH gone AS (DELETE FROM {waiting.schema}.entries WHERE ordinal = 4 RETURNING *)
            INSERT INTO {waiting.schema}.aside (
                entry_id, queue_id, group_key, disposition, reason, arrival_id, position, priority, subscription_ids,
                ordinal
            )
            SELECT entry_id, queue_id, group_key, 'dead', 'so', arrival_id, position, priority, subscription_ids, ordinal
            FROM gone
            """
        )
    assert invariants.broken(waiting) == []
