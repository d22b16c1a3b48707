"""What a location's dispenser says of the messages that it numbered: how many are in queues, and through which none is."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import retention
from seriatim.operations.box_status import box_status
from tests.box.given_up import given_up


@pytest.fixture
def box_of_two(box):
    """A box whose messages go to `first`, and those of type `both` to `second`, too."""
    box.define(
        sq.Location("crm", last_number=10),
        sq.MessageType("t", properties={"group": "string"}),
        sq.MessageType("both", properties={"group": "string"}),
        sq.Queue("first", policy=sq.Fifo(), group="group", keep="everything"),
        sq.Queue("second", policy=sq.Unordered()),
        sq.Subscription("all", where="type IN ('t', 'both')", to="first"),
        sq.Subscription("more", where="type = 'both'", to="second"),
    )
    return box


def publish(box, *groups, kind="t"):
    with box.session() as tx:
        tx.publish([sq.Message(type=kind, context={"location": "crm", "group": group}) for group in groups])


def receive(box, queue, limit=1, group=None):
    with box.session() as tx:
        return len(list(tx.receive(queue, limit=limit, group=group)))


def shown(box):
    (one,) = box_status(box).locations
    return one.last_sent_epoch, one.last_sent, one.in_queue


def test_delivery_moves_both(box_of_two):
    assert shown(box_of_two) == (None, None, 0)
    publish(box_of_two, *"aabc")
    assert shown(box_of_two) == (None, None, 4)
    receive(box_of_two, "first", group="b")  # the first one isn't sent yet
    assert shown(box_of_two) == (None, None, 3)
    receive(box_of_two, "first", group="a")
    assert shown(box_of_two) == (0, 1, 2)
    receive(box_of_two, "first", group="a")
    assert shown(box_of_two) == (0, 3, 1)
    receive(box_of_two, "first")
    assert shown(box_of_two) == (0, 4, 0)


def test_in_its_transaction(box_of_two):
    publish(box_of_two, *"ab")
    with given_up(box_of_two.session()) as tx:
        list(tx.receive("first"))
        look = f"SELECT last_sent, in_queue FROM {box_of_two.schema}.dispensers"
        assert tx.connection.execute(look).fetchone() == (1, 1)
        assert shown(box_of_two) == (None, None, 2)
    assert shown(box_of_two) == (None, None, 2)


def test_a_message_in_two_queues_is_one(box_of_two):
    publish(box_of_two, "a", kind="both")
    assert shown(box_of_two) == (None, None, 1)
    receive(box_of_two, "first")
    assert shown(box_of_two) == (None, None, 1)
    receive(box_of_two, "second")
    assert shown(box_of_two) == (0, 1, 0)


def test_over_the_turn_of_an_epoch(box_of_two):
    publish(box_of_two, *"abcdefgh")
    publish(box_of_two, *"ijklm")
    for group, expected in zip("abcdefghijklm", [*range(1, 11), 1, 2, 3], strict=True):
        receive(box_of_two, "first", group=group)
        assert shown(box_of_two)[1] == expected
    assert shown(box_of_two) == (1, 3, 0)


def test_what_the_application_dispenses_is_in_no_queue(box_of_two):
    with box_of_two.session() as tx:
        tx.dispense("crm", count=7)
    assert shown(box_of_two) == (0, 7, 0)
    publish(box_of_two, "a")
    retention.purge(box_of_two)
    assert shown(box_of_two) == (0, 7, 1)
