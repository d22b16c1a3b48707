"""The marks of entries: of one message whether it opens or closes its group, and what its content is, in a queue with both."""

from __future__ import annotations

import numpy as np
import pytest

import seriatim as sq
from seriatim.box.definitions import marks
from seriatim.kernel.groups.arrivals import NOT_SAID
from seriatim.kernel.policies.stays import CLOSES, OPENS
from seriatim.operations import groups, invariants, set_aside
from tests.box.console import BY, rows
from tests.databases import box_with

IN, OUT = "check-in", "check-out"
STAYS = {"opens": f"what = '{IN}'", "closes": f"what = '{OUT}'"}


def with_queues(box):
    def queue(name, policy, **parameters):
        return sq.Queue(name, policy, group="guest", sequence="number", **parameters)

    box.define(
        sq.MessageType("stay", {"guest": "string", "number": "long", "what": "string", "kind": "string"}),
        queue("hotel", sq.Standard(remember=8), **STAYS),
        queue("careful", sq.Standard(restart_after=3, on_restart="suspend"), **STAYS),
        queue("paid", sq.Standard(), compare="what", **STAYS),
        queue("plain", sq.Standard()),
        sq.Queue("fifo", sq.Fifo(), group="guest", **STAYS),
        *(
            sq.Subscription(name, where=f"kind = '{name}'", to=name)
            for name in ("hotel", "careful", "paid", "plain", "fifo")
        ),
    )


box = box_with(with_queues)


def publish(box, queue, *stays):
    """Messages with a number, what they say, and their body."""
    with box.session() as tx:
        tx.publish([message(queue, *one) for one in stays])


def message(queue, number, what, body=""):
    context = {"guest": "anna", "number": number, "what": what, "kind": queue}
    return sq.Message(type="stay", body=body.encode(), context=context)


def received(box, queue):
    found = []
    with box.session() as tx:
        while (delivery := tx.receive(queue, limit=100)) is not None:
            found += [(one.context["number"], one.body.decode()) for one in delivery]
    return found


def aside(box):
    return rows(box, "SELECT sequence, disposition, split_part(reason, ':', 1) FROM {schema}.aside ORDER BY entry_id")


@pytest.mark.parametrize("bits", [0, OPENS, CLOSES, OPENS | CLOSES])
def test_a_fingerprint_and_the_bits_are_read_as_written(bits):
    prints = [0, 1, 2, 3, 4, 7, -1, -4, 2**63 - 1, -(2**63)]
    stored = marks.written(prints, [bits] * len(prints))
    column = np.array([NOT_SAID if one is None else one for one in stored])
    assert marks.bits(column).tolist() == [bits] * len(prints)
    assert marks.fingerprints(column).tolist() == [0, 4, 4, 4, 4, 4, -4, -4, 2**63 - 4, 4]
    alone = marks.written(None, [bits])
    column = np.array([NOT_SAID if one is None else one for one in alone])
    assert (marks.bits(column).tolist(), marks.fingerprints(column).tolist()) == ([bits], [0])


def test_where_no_message_opens_or_closes_a_group_the_bits_are_0(box):
    assert marks.written([0, 1, -1], None) == [None, 4, -4]
    publish(box, "plain", (2, IN, "a"), (2, OUT, "b"))
    assert [size & (OPENS | CLOSES) for (size,) in rows(box, "SELECT size FROM {schema}.entries")] == [0, 0]


def test_a_queue_that_compares_nothing_has_the_bits_alone(box):
    publish(box, "fifo", (None, IN, "a"), (None, "x", "b"), (None, OUT, "c"))
    assert rows(box, "SELECT size FROM {schema}.entries ORDER BY entry_id") == [(OPENS,), (None,), (CLOSES,)]


def test_through_sql_bodies_are_not_compared_and_the_bits_are_there(box):
    with box.session() as tx:
        for number, what in ((1, IN), (1, "x"), (2, OUT), (3, "x")):
            context = f'{{"guest": "anna", "number": {number}, "what": "{what}", "kind": "hotel"}}'
            tx.connection.execute(f"SELECT {box.schema}.publish('stay', 'x', %s::jsonb)", [context])
    box.tick()
    assert rows(box, "SELECT size FROM {schema}.entries ORDER BY entry_id") == [(OPENS,), (CLOSES,)]
    assert aside(box) == [(1, "duplicate", _BEFORE), (3, "late", "the group is closed")]


def test_groups_are_opened_and_closed_where_contents_are_compared(box):
    publish(box, "hotel", (2, "x", "held"), (2, "x", "other"), (1, IN, "in"), (1, IN, "again"), (1, "x", "in"))
    assert received(box, "hotel") == [(1, "in"), (2, "held")]
    assert aside(box) == [(2, "duplicate", "conflicts"), (1, "duplicate", "conflicts"), (1, "duplicate", _BEFORE)]
    publish(box, "hotel", (3, OUT, "out"), (3, "x", "lost"), (1, IN, "in 2"), (1, IN, "again"), (2, "x", "x 2"))
    assert received(box, "hotel") == [(3, "out"), (1, "in 2"), (2, "x 2")]
    assert aside(box)[3:] == [(3, "late", "the group is closed"), (1, "duplicate", "conflicts")]
    view = groups.group_view(box, "hotel", "anna")
    assert (view.state, view.incarnation, view.ordinal) == ("ready", 1, 5)
    assert invariants.broken(box) == []


def test_what_is_compared_by_properties_opens_and_closes_too(box):
    publish(box, "paid", (1, IN, "a"), (1, IN, "b"), (1, "x", "a"), (2, OUT, "c"), (3, "x", "d"))
    assert received(box, "paid") == [(1, "a"), (2, "c")]
    assert aside(box) == [
        (1, "duplicate", _BEFORE), (1, "duplicate", "conflicts"), (3, "late", "the group is closed"),
    ]  # fmt: skip


def test_what_was_set_aside_keeps_its_marks(box):
    publish(box, "hotel", (1, IN, "in"), (2, OUT, "out"), (3, "x", "three"), (4, OUT, "four"))
    assert received(box, "hotel") == [(1, "in"), (2, "out")]
    publish(box, "hotel", (1, IN, "in 2"))
    assert received(box, "hotel") == [(1, "in 2")]
    found = set_aside.set_aside(box, "hotel")
    put = set_aside.requeue_each(box, found, **BY)
    assert [one.status for one in put] == ["held", "held"]
    publish(box, "hotel", (3, "x", "other"), (4, OUT, "four"), (2, "x", "two"), (5, "x", "five"))
    assert received(box, "hotel") == [(2, "two"), (3, "three"), (4, "four")]
    assert aside(box) == [
        (3, "duplicate", "conflicts"), (4, "duplicate", _BEFORE), (5, "late", "the group is closed"),
    ]  # fmt: skip
    assert groups.group_view(box, "hotel", "anna").state == "closed"
    assert invariants.broken(box) == []


def test_what_a_restart_brings_back_keeps_its_marks(box):
    publish(box, "careful", (1, IN, "old"), *((number, "x", "old") for number in (2, 3)))
    assert received(box, "careful") == [(1, "old"), (2, "old"), (3, "old")]
    publish(
        box, "careful", (1, IN, "new"), *((number, "x", "new") for number in (2, 3)), (4, OUT, "new"), (5, "x", "new")
    )
    assert received(box, "careful") == []
    assert (groups.group_view(box, "careful", "anna").state, len(aside(box))) == ("suspended", 2)
    groups.restart(box, "careful", "anna", **BY)
    assert received(box, "careful") == [(number, "new") for number in (1, 2, 3, 4)]
    assert aside(box) == [(5, "late", "the group is closed")]
    view = groups.group_view(box, "careful", "anna")
    assert (view.state, view.incarnation, view.ordinal, view.suspects) == ("closed", 1, 7, 0)
    publish(box, "careful", (1, IN, "next"))
    assert received(box, "careful") == [(1, "next")]
    assert groups.group_view(box, "careful", "anna").incarnation == 2
    assert invariants.broken(box) == []


_BEFORE = "its number was taken in before"
