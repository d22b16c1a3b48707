"""What another box refuses waits with the reason at its sender, stands at the box that refuses it, and goes on once that is mended."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import dialogs, invariants, links
from seriatim.operations.doctor.box_checks import CHECKS
from tests.dialogs.far_boxes import exchange, received, two_boxes

pytestmark = pytest.mark.dear

#: A body that travels in fragments.
LARGE = bytes(3 * 1024 * 1024)


@pytest.fixture
def boxes(databases):
    with two_boxes(databases, max_messages=1) as both:
        both[0].define(sq.Service("Trader", queue="traded"))
        yield both
        for one in both:
            assert invariants.broken(one) == []


def begun(north, service, body=b"1"):
    with north.session() as tx:
        handle = tx.begin_dialog(service, "Seller", contract="PurchaseOrder")
        tx.send(handle, "Header", body)
    return handle


def accepts(south, **may):
    """Let the north speak as other services, or send into other queues, than before."""
    (link,) = links.status(south)
    links.accept(south, "north", role=link.role, other=str(link.box), **may, actor="ann", reason="they trade, too")


def finding(box):
    """What `seriatim doctor` says about links."""
    return CHECKS["links"](box)


def why(north, handle):
    (view,) = dialogs.dialogs(north, handle=handle)
    return view.transmission_status


def is_whole(*boxes):
    """No stream was taken for lost."""
    return not any(link.restored or link.replayed for box in boxes for link in links.status(box))


def test_a_service_that_isnt_accepted_waits_beside_one_that_is(boxes):
    north, south = boxes
    refused = begun(north, "Trader")
    exchange(north)
    begun(north, "Buyer")  # its stream has a higher number
    exchange(north, 4)
    assert received(south, "sales") == [("Header", 0, b"1")]
    assert "the service that says it isn't among those" in why(north, refused)
    assert is_whole(north, south)
    told = finding(south)
    assert """'north': it may not speak as the service "Trader\"""" in told.found
    assert "seriatim link accept" in told.remedy
    accepts(south, services=["Buyer", "Trader"])
    exchange(north)
    with south.session() as tx:
        (message,) = tx.receive("sales", limit=10)
    assert (message.dialog.far_service, message.replayed) == ("Trader", False)
    assert finding(south).state.value == "ok"


def test_a_service_that_may_not_speak_any_more_goes_on_in_its_stream(boxes):
    north, south = boxes
    handle = begun(north, "Buyer")
    exchange(north)
    assert received(south, "sales") == [("Header", 0, b"1")]
    accepts(south, services=[])
    with north.session() as tx:
        tx.send(handle, "Line", b"2")
    exchange(north, 3)
    assert "the service that says it isn't among those" in why(north, handle)
    accepts(south, services=["Buyer"])
    exchange(north)
    assert received(south, "sales") == [("Line", 1, b"2")]
    assert is_whole(north, south)


def test_a_queue_that_isnt_named_any_more_waits_and_its_idle_streams_are_closed(boxes):
    north, south = boxes
    for one in boxes:
        one.define(sq.MessageType("order", properties={"customer": "string"}))
    south.define(sq.Queue("orders", group="customer"), sq.Queue("more", group="customer"))
    accepts(south, queues=["orders"], services=[])
    for queue in ("orders", "more", "none"):
        north.define(sq.Queue(queue, at="south", group="customer"))
    for queue, customer in (("more", "a"), ("none", "a"), ("orders", "a"), ("orders", "b")):
        north.publish(sq.Message(type="order", body=b"1", context={"to": queue, "customer": customer}))
    exchange(north, 3)
    refused = {one.queue: one.last_error for one in links.transmission(north, waiting=True)}
    assert refused.keys() == {"more", "none"}
    assert len(set(refused.values())) == 1  # nothing tells that one of them is there
    accepts(south, queues=["more"], services=[])
    north.publish(sq.Message(type="order", body=b"2", context={"to": "orders", "customer": "a"}))
    exchange(north, 3)
    assert is_whole(north, south)
    (waits,) = (one for one in links.transmission(north, waiting=True) if one.queue != "none")
    assert (waits.queue, waits.acknowledged) == ("orders", 1)
    assert "the stream's queue isn't among those" in waits.last_error
    assert 'may not send into the queue "' in finding(south).found
    with north.session() as tx:  # The stream of the other customer is idle.
        tx.connection.execute(f"UPDATE {north.schema}.link_streams_out SET last_used = '-infinity' WHERE key = 'b'")
    exchange(north, 3)
    assert [one.key for one in links.transmission(south) if one.direction == "in" and one.queue == "orders"] == ["a"]
    assert is_whole(north, south)


@pytest.mark.parametrize("by", ["Trader", "Buyer"])
def test_a_large_message_that_cant_be_taken_waits_with_the_reason(boxes, by):
    north, south = boxes
    if by == "Buyer":
        begun(north, "Buyer")
        exchange(north)  # The queue is full.
    handle = begun(north, by, LARGE)
    for _ in range(3):
        (done,) = links.transmit(north, at_once=True)
        assert not done.more  # It doesn't leave again and again.
    assert ("is full" if by == "Buyer" else "the other box refuses it") in why(north, handle)
    if by == "Buyer":
        assert received(south, "sales") == [("Header", 0, b"1")]
    accepts(south, services=["Buyer", "Trader"])
    exchange(north, 3)
    assert received(south, "sales") == [("Header", 0, LARGE)]
    assert is_whole(north, south)
