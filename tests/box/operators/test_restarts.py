"""Producers that begin anew: what a box tells of them, and how an operator restarts their groups."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import groups
from seriatim.operations.doctor import work_checks
from seriatim.operations.events import events_after
from tests.box.console import BY, rows
from tests.databases import box_with


def with_queues(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long", "kind": "string"}),
        sq.Queue("shop", sq.Standard(restart_after=3), group="customer", sequence="version"),
        sq.Queue("careful", sq.Standard(restart_after=3, on_restart="suspend"), group="customer", sequence="version"),
        sq.Queue("plain", sq.Fifo(), group="customer"),
        *(sq.Subscription(name, where=f"kind = '{name}'", to=name) for name in ("shop", "careful", "plain")),
    )


box = box_with(with_queues)


def publish(box, queue, label, *numbers):
    with box.session() as tx:
        tx.publish(
            [
                sq.Message(
                    type="order",
                    body=f'{{"is": "{label} {one}"}}'.encode(),
                    context={"customer": "c1", "version": one, "kind": queue},
                )
                for one in numbers
            ]
        )


def received(box, queue):
    left = []
    with box.session() as tx:
        while (delivery := tx.receive(queue, limit=100)) is not None:
            left += [message.body.decode()[8:-2] for message in delivery]
    return left


def counted(box, queue):
    ((decided, arrivals),) = rows(
        box,
        "SELECT decided, arrivals FROM {schema}.known_groups JOIN {schema}.queues USING (queue_id) WHERE queue = %s",
        queue,
    )
    words = ("released", "held", "late", "duplicate", "invalid", "rejected", "dead")
    return {"in": arrivals} | {word: count for word, count in zip(words, decided, strict=True) if count}


def test_a_restart_is_told_once_and_shown_until_a_message_leaves(box):
    publish(box, "shop", "old", 1, 2, 3, 4, 5)
    assert received(box, "shop") == [f"old {n}" for n in range(1, 6)]
    publish(box, "shop", "new", 1, 2, 3, 4)
    assert received(box, "shop") == []
    told = [one for one in events_after(box) if one.kind == "restart_suspected"]
    assert [(one.group, one.first, one.last, one.count) for one in told] == [("c1", 3, 3, 3)]
    (view,) = groups.groups(box, state=groups.STOPPED, suspected=True)
    assert (view.state, view.suspects, view.restart_suspected) == ("ready", 4, True)
    assert view.reason == "its producer seems to have begun anew: 4 messages below its next number"
    assert groups.groups(box, suspected=False) == []
    found = groups.standing(box, "shop", "c1")
    assert "its producer seems to have begun anew" in found.why
    assert found.helps == ("restart",)
    finding = work_checks.CHECKS["restarts"](work_checks.Work(box))
    assert (finding.state, "'shop'" in finding.found) == ("wrong", True)
    publish(box, "shop", "old", 6)
    assert received(box, "shop") == ["old 6"]
    assert not groups.group_view(box, "shop", "c1").restart_suspected


def test_a_restarted_group_begins_with_the_messages_that_counted(box):
    publish(box, "shop", "old", 1, 2, 3, 4, 5, 9)
    assert received(box, "shop") == [f"old {n}" for n in range(1, 6)]
    publish(box, "shop", "old", 4)
    publish(box, "shop", "new", 1, 2, 3)
    assert received(box, "shop") == []
    publish(box, "shop", "new", 4)  # which isn't judged yet
    done = groups.restart(box, "shop", "c1", **BY)
    assert (str(done.before), str(done.after), done.released) == ("waiting", "waiting", 4)
    publish(box, "shop", "new", 5)
    assert received(box, "shop") == [f"new {n}" for n in range(1, 6)]
    view = groups.group_view(box, "shop", "c1")
    assert (view.incarnation, view.next, view.held, view.ordinal, view.suspects) == (1, 6, 1, 10, 0)
    assert counted(box, "shop") == {"in": 12, "released": 10, "duplicate": 1}
    entry = next(one for one in groups.standing(box, "shop", "c1").operations if one.action == "restart")
    assert entry.details["brought_back"] == 4


def test_released_messages_are_handed_out_before(box):
    publish(box, "shop", "old", 1, 2, 3, 4, 5)
    box.tick()
    publish(box, "shop", "new", 1, 2, 3)
    box.tick()
    groups.restart(box, "shop", "c1", **BY)
    assert received(box, "shop") == [*(f"old {n}" for n in range(1, 6)), *(f"new {n}" for n in range(1, 4))]


def test_messages_of_an_earlier_count_stay_set_aside(box):
    publish(box, "shop", "old", 1, 2, 3)
    received(box, "shop")
    publish(box, "shop", "again", 1, 2)
    publish(box, "shop", "old", 4)
    received(box, "shop")
    publish(box, "shop", "new", 1, 2, 3)
    received(box, "shop")
    groups.restart(box, "shop", "c1", **BY)
    assert received(box, "shop") == ["new 1", "new 2", "new 3"]
    assert counted(box, "shop") == {"in": 9, "released": 7, "duplicate": 2}


def test_a_suspended_group_waits_for_an_operator(box):
    publish(box, "careful", "old", 1, 2, 3, 4)
    received(box, "careful")
    publish(box, "careful", "new", 1, 2, 3, 4, 5)
    assert received(box, "careful") == []
    view = groups.group_view(box, "careful", "c1")
    assert (view.state, view.held, view.late) == ("suspended", 3, 0)
    assert view.suspended_because == "a suspected restart of its producer, at the message with the sequence 3"
    assert groups.standing(box, "careful", "c1").helps == ("restart", "resume")
    groups.restart(box, "careful", "c1", **BY)
    assert received(box, "careful") == [f"new {n}" for n in range(1, 6)]


def test_resumed_they_are_duplicates(box):
    publish(box, "careful", "old", 1, 2, 3, 4)
    received(box, "careful")
    publish(box, "careful", "new", 1, 2, 3, 4, 5)
    received(box, "careful")
    groups.resume(box, "careful", "c1", **BY)
    assert received(box, "careful") == ["new 5"]
    assert counted(box, "careful") == {"in": 9, "released": 5, "duplicate": 4}
    assert not groups.group_view(box, "careful", "c1").restart_suspected


def test_a_group_without_numbers_is_not_restarted(box):
    publish(box, "plain", "one", 1)
    received(box, "plain")
    with pytest.raises(sq.ActionRefused, match="only groups of the policy standard"):
        groups.restart(box, "plain", "c1", **BY)
    assert "restart" not in groups.standing(box, "plain", "c1").allowed
