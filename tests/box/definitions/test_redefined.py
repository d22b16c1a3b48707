"""A process that knows a queue as it was learns what it is now, before it takes anything from it."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import queues

UNORDERED = sq.Queue("q", policy=sq.Unordered())
FIFO = sq.Queue("q", policy=sq.Fifo(), group="customer")
STANDARD = sq.Queue("q", policy=sq.Standard(), group="customer", sequence="version")
SUBSCRIBED = sq.Subscription("all", where="TRUE", to="q")


@pytest.fixture
def worker(box):
    """Another process, as good as: it has read the definitions that are there when it first receives."""
    box.define(sq.MessageType("order", properties={"customer": "string", "version": "long"}))
    with sq.MessageBox.open(box.dsn, schema=box.schema) as opened:
        yield opened


def publish(box, *versions):
    box.publish([sq.Message(type="order", context={"customer": "c", "version": n}) for n in versions])


def received(box, limit=10):
    with box.session() as tx:
        delivery = tx.receive("q", limit=limit)
        return None if delivery is None else (delivery.group, [one.context["version"] for one in delivery])


def test_a_queue_that_was_without_order(box, worker):
    box.define(UNORDERED, SUBSCRIBED)
    assert received(worker) is None
    box.define(STANDARD)
    publish(box, 3, 2, 1)
    assert received(worker) == ("c", [1, 2, 3])


@pytest.mark.parametrize("before", [FIFO, STANDARD])
def test_a_queue_that_is_without_order_now(box, worker, before):
    box.define(before, SUBSCRIBED)
    assert received(worker) is None
    box.define(UNORDERED)
    publish(box, 3, 2, 1)
    assert received(worker) == (None, [3, 2, 1])


@pytest.mark.parametrize("queue", [UNORDERED, FIFO, STANDARD])
def test_a_queue_that_was_dropped_and_defined_again(box, worker, queue):
    box.define(queue, SUBSCRIBED)
    assert received(worker) is None
    box.drop(subscription="all")
    box.drop(queue="q")
    with pytest.raises(sq.UsageError, match="no queue"):
        received(worker)
    box.define(queue, SUBSCRIBED)
    publish(box, 1)
    assert received(worker)[1] == [1]


@pytest.mark.parametrize("queue", [UNORDERED, FIFO, STANDARD])
def test_a_queue_that_was_turned_off(box, worker, queue):
    box.define(queue, SUBSCRIBED)
    assert received(worker) is None
    queues.turn_off(box, "q")
    with pytest.raises(sq.ActionRefused, match="off"):
        received(worker)
