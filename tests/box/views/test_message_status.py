"""The state of one message, in each queue that has it, with a wait until it is final."""

from __future__ import annotations

import threading

import pytest

import seriatim as sq
from seriatim.box.faults.faults import Fault, fail
from seriatim.box.views.message_status import MessageState
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import groups
from tests.box.shop import define, rows

ONE = {"customer": "c1"}


def sent(box, version, customer="c1", kind="order"):
    message = sq.Message(
        type=kind, message_id=f"{customer}-{version}", context={"customer": customer, "version": version}
    )
    with box.session() as tx:
        (message_id,) = tx.publish(message)
    return message_id


def of(box, message_id, **options):
    found = box.status_of(message_id, **options)
    assert found.message_id == message_id
    return str(found.state), found.is_final, [(one.queue, str(one.state)) for one in found.queues]


def test_from_the_queue_to_the_end(box):
    define(box, keep="everything", retry=sq.Retry(2, delay=3600, ceiling=3600))
    first, third = sent(box, 1), sent(box, 3)
    assert of(box, first) == ("waiting", False, [("shop", "waiting")])
    with box.session() as tx:
        assert [one.message_id for one in tx.receive("shop")] == [first]
        assert of(box, first) == ("in_hand", False, [("shop", "in_hand")])
    assert of(box, first) == ("done", True, [("shop", "done")])
    assert box.status_of(first).queues[0].since is not None
    held = box.status_of(third)
    assert (str(held.state), held.reason) == ("waiting", "a number before it is missing, or its set isn't complete")
    second = sent(box, 2)
    with box.session() as tx:
        fail(tx.transaction, tx.receive("shop"), 0, 1, Fault(FaultKind.UNEXPECTED, "E", "no", "w"))
    again = box.status_of(second).queues[0]
    assert (again.group, again.attempt, again.until is not None) == ("c1", 1, True)
    assert "tried again" in again.reason
    assert "tried again" in box.status_of(third).reason  # what is behind it waits for the same
    rows(box, "UPDATE {schema}.entries SET visible_at = NULL")
    rows(box, "UPDATE {schema}.known_groups SET due_at = 0")
    with box.session() as tx:
        fail(tx.transaction, tx.receive("shop", group="c1"), 0, 1, Fault(FaultKind.BUSINESS, "E", "no", "w"))
    stands = box.status_of(second)
    assert (stands.state, stands.is_final) == (MessageState.WAITING, False)
    assert "its group is faulted" in stands.reason
    groups.skip_message(box, "shop", "c1", actor="me", reason="test")
    dead = box.status_of(second)
    assert (dead.state, dead.is_final, dead.reason) == (
        MessageState.DEAD,
        True,
        "dead: an operator skipped the message",
    )
    again = sq.Message(type="order", message_id="twice", context=ONE | {"version": 1})
    box.publish(again)
    with box.session() as tx:
        assert len(list(tx.receive("shop", group="c1"))) == 1
    with box.session() as tx:
        assert tx.receive("shop", group="c1") is None
    late = box.status_of("twice")
    assert (late.state, late.is_final) == (MessageState.SET_ASIDE, True)
    assert late.reason.partition(":")[0] in ("late", "duplicate")


def test_what_no_queue_has(box):
    define(box)
    stray = sent(box, 1, kind="stray")
    found = box.status_of(stray)
    assert (found.state, found.is_final, found.reason) == (MessageState.UNROUTED, True, "no subscription wants it")
    assert of(box, "nowhere") == ("unknown", False, [])
    assert of(box, "nowhere", wait=0.03) == ("unknown", False, [])
    # The queue keeps nothing of what is done.
    message_id = sent(box, 1, customer="c3")
    with box.session() as tx:
        tx.receive("shop").done()
    assert of(box, message_id) == ("done", True, [])
    with box.session() as tx:
        tx.connection.execute(
            f"SELECT {box.schema}.publish('order', 'x', '{{\"customer\": \"c2\", \"version\": 1}}', message_id => 'by-sql')"
        )
    assert of(box, "by-sql") == ("waiting", False, [(None, "waiting")])
    box.tick()
    assert of(box, "by-sql") == ("waiting", False, [("shop", "waiting")])


def test_in_several_queues(box):
    define(box)
    define(box, "other", keep="everything")
    define(box, "third")
    message_id = sent(box, 1)
    for queue in ("shop", "other"):
        with box.session() as tx:
            tx.receive(queue).done()
    found = box.status_of(message_id)
    assert (found.state, found.forgotten) == (MessageState.WAITING, 1)
    assert [(one.queue, str(one.state)) for one in found.queues] == [("other", "done"), ("third", "waiting")]


def test_a_wait_ends_with_the_message(box):
    define(box)
    told = []
    thread = threading.Thread(target=lambda: told.append(box.status_of("c1-1", wait=60)))
    thread.start()  # its id isn't known yet
    sent(box, 1)
    with box.session() as tx:
        tx.receive("shop", wait=60).done()
    thread.join(120)
    assert [one.state for one in told] == [MessageState.DONE]


def test_a_message_without_a_group(box):
    define(box, policy=sq.Unordered(), group=None, sequence=None)
    message_id = sent(box, 1)
    assert of(box, message_id) == ("waiting", False, [("shop", "waiting")])
    with box.session() as tx:
        assert len(list(tx.receive("shop"))) == 1
        assert of(box, message_id) == ("in_hand", False, [("shop", "in_hand")])
    assert of(box, message_id, wait=30) == ("done", True, [])


@pytest.mark.parametrize(("given", "what"), [({"wait": -1}, "cannot wait"), ({"wait": "soon"}, "not a duration")])
def test_bad_input(box, given, what):
    with pytest.raises(sq.UsageError, match=what):
        box.status_of("m", **given)
    with pytest.raises(sq.UsageError, match="message_id can't be a str"):
        box.status_of("\0")
