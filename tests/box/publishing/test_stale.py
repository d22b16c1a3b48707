"""What a process knows of the definitions may be old: by that it may route again, and refuses nothing."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.box.box import MessageBox
from seriatim.operations import queues

ORDER = sq.MessageType("order", properties={"customer": "string"})


def order(customer="c", **context):
    return sq.Message(type="order", context={"customer": customer, **context})


@pytest.fixture
def elsewhere(box):
    """The same box in another process, as it were, which has read the definitions."""
    box.define(ORDER, sq.Queue("q", group="customer", max_messages=sq.Limit(1, when_full="refuse")))
    with MessageBox.open(box.dsn, schema=box.schema) as opened:
        opened.publish(order(to="q"))
        yield opened


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_a_queue_that_was_defined_later_can_be_addressed(box, elsewhere, where):
    publisher = box if where == "here" else elsewhere
    with pytest.raises(sq.UsageError, match="which is no queue"):
        publisher.publish(order(to="late"))
    box.define(sq.Queue("late", group="customer"))
    publisher.publish(order(to="late"))
    with publisher.session() as tx:
        tx.publish(order(to="late"))
        assert len(tx.publish([order(to="late"), order()])) == 2
    assert [one.arrived for one in queues.queues(box) if one.queue == "late"] == [3]
    with pytest.raises(sq.UsageError, match="'later', which is no queue"):
        publisher.publish(order(to="later"))


def test_a_queue_that_may_have_more_messages_now_takes_them(box, elsewhere):
    with pytest.raises(sq.QueueFull):
        elsewhere.publish(order(to="q"))
    box.define(sq.Queue("q", group="customer", max_messages=sq.Limit(3, when_full="refuse")))
    elsewhere.publish(order(to="q"))
    with elsewhere.session() as tx:
        tx.publish(order(to="q"))
    with pytest.raises(sq.QueueFull, match="it may have 3 messages"):
        elsewhere.publish(order(to="q"))


def test_a_queue_that_has_groups_now_hands_them_out(box, elsewhere):
    box.define(sq.Queue("other", policy=sq.Unordered()))
    elsewhere.definitions()
    box.drop(queue="other")
    box.define(sq.Queue("other", group="customer"))
    box.publish(order(to="other"))
    with elsewhere.session() as tx:
        assert len(tx.receive("other", group="c")) == 1
