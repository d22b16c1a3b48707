"""The laws of a live box: they hold, and what breaks one is told."""

from __future__ import annotations

import re

import psycopg
import pytest

import seriatim as sq


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
    assert used.broken() == []
    used.purge()
    assert used.broken() == []


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ("UPDATE {0}.groups SET arrivals = arrivals + 1 WHERE queue_id = 1", r"queue 'orders', group 'c': took in 6"),
        ("DELETE FROM {0}.entries WHERE status = 'held'", r"queue 'orders', group 'c': took in 5, but 4 are decided"),
        ("DELETE FROM {0}.spool", "refers to a message that is not there"),
        ("DELETE FROM {0}.tickets", "a message without a ticket"),
    ],
)
def test_what_breaks_one_is_told(used, harm, told):
    with used.session() as tx:
        tx.connection.execute(harm.format(used.schema))
    assert any(re.search(told, one) for one in used.broken())


def test_an_old_transaction_is_told(used):
    with psycopg.connect(used.dsn, application_name="slow handler") as connection:
        connection.execute("SELECT 1")
        assert any("slow handler" in one for one in used.long_transactions(0))
    assert not any("slow handler" in one for one in used.long_transactions(3600))
