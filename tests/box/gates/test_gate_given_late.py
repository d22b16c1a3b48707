"""A gate that is given to a queue that has numbered messages, or whose own groups have numbers of another queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.operations import events, groups, invariants
from tests.box.gates.test_gate import ALL, BY, OUT, publish, received, work
from tests.box.shop import rows

FIFO = sq.Queue("work", sq.Fifo(), group="key", gate="out")
UNORDERED = replace(FIFO, policy=sq.Unordered())
(LEADING, *_) = ALL


def sent(box, *names, queue="work"):
    """Messages that come and are worked on; what the results are called."""
    publish(box, len(names))
    work(box, *names, queue=queue)


def told(box):
    """What leaves the gate: names, ordinals, and whether it is late; with the dispositions of what was set aside."""
    return received(box), [tuple(one) for one in rows(box, "SELECT disposition::text, sequence FROM {schema}.aside")]


@pytest.fixture
def made(box):
    def make(queue, *others):
        box.define(*ALL[:-1], queue, *others)
        return box

    yield make
    assert invariants.broken(box) == []


def finished(box, count):
    publish(box, count)
    with box.session() as tx:
        assert len(list(tx.receive("work", limit=count))) == count


def test_a_queue_that_has_numbered_messages_gets_a_gate(made):
    box = made(replace(FIFO, gate=None))
    finished(box, 7)
    box.define(replace(FIFO, gate=replace(FIFO.gate, open_at_most=5)))
    sent(box, "eight", "nine")
    assert told(box) == ([("eight", 1, False), ("nine", 2, False)], [])
    assert events.events(box, queue="out") == []
    assert groups.forget(box, "work", "a", **BY) == 1
    sent(box, "one")
    assert told(box) == ([("one", 1, False)], [])


@pytest.mark.parametrize("queue", [FIFO, UNORDERED], ids=["fifo", "unordered"])
def test_a_queue_gets_another_gate(made, queue):
    box = made(queue, replace(OUT, name="other"))
    sent(box, "a", "b", "c", "d", "e", "f")
    assert len(received(box)) == 6
    box.define(replace(queue, gate=sq.Gate("other", open_at_most=5)))
    publish(box, 2)
    with box.session() as tx:
        for name, message in zip("gh", tx.receive("work", limit=2), strict=True):
            tx.publish(sq.Message(type="done", context={"of": name, "to": "other"}), cause=message)
    assert received(box, "other") == [("g", 1, False), ("h", 2, False)]
    box.define(
        replace(queue, gate=replace(queue.gate, open_at_most=5))
    )  # and the former one again, which has stood still
    sent(box, "i")
    assert told(box) == ([("i", 7, False)], [])


@pytest.mark.parametrize("queue", [FIFO, UNORDERED], ids=["fifo", "unordered"])
def test_a_queue_is_dropped_and_defined_again(made, queue):
    box = made(queue)
    sent(box, "a", "", "c")
    assert told(box) == ([("a", 1, False), ("c", 2, False)], [])
    box.drop(subscription="work", queue="work")
    box.define(queue, LEADING)
    sent(box, "d", "e", "f")
    assert told(box) == ([("d", 3, False), ("e", 4, False), ("f", 5, False)], [])
    (view,) = groups.groups(box, "out")
    assert (view.next, view.incarnation) == (4, 1)


def test_a_gate_is_given_to_another_queue(made):
    box = made(FIFO)
    sent(box, "a", "b", "c")
    assert len(received(box)) == 3
    box.define(
        replace(FIFO, gate=None), replace(FIFO, name="new"), replace(LEADING, to="new"),
    )  # fmt: skip
    sent(box, "d", "e", queue="new")
    assert told(box) == ([("d", 4, False), ("e", 5, False)], [])


def test_a_queue_that_counts_gets_no_order(made):
    box = made(UNORDERED)
    sent(box, "a", "b", "c")
    assert len(received(box)) == 3
    for changed in (FIFO, replace(FIFO, gate=None)):
        with pytest.raises(sq.ActionRefused, match=r"policy.* can't change: it has groups, which were judged by it"):
            box.define(changed)
    sent(box, "d", "e")
    assert told(box) == ([("d", 4, False), ("e", 5, False)], [])
    box.define(replace(UNORDERED, gate=None, group=None))
    box.define(UNORDERED)
    sent(box, "f")
    assert told(box) == ([("f", 6, False)], [])


def test_what_was_released_before_leaves_before(made):
    box = made(FIFO)
    sent(box, "a", "b", "c")
    with box.session() as tx:  # all is released, and one is handed out
        list(tx.receive("out", limit=1))
    box.drop(subscription="work", queue="work")
    with box.session() as tx:
        delivery = tx.receive("out", limit=1)
        with pytest.raises(sq.Unavailable, match="somebody works on a group of gate 'out', which is to begin anew"):
            box.define(FIFO, LEADING)
        list(delivery)
    box.define(FIFO, LEADING)
    sent(box, "d")
    assert told(box) == ([("c", 3, False), ("d", 4, False)], [])


def test_a_queue_is_not_dropped_while_a_result_waits_for_a_place(made):
    """Also where the place is closed, and the gate hasn't looked yet."""
    box = made(UNORDERED)
    publish(box, 2)
    with box.session() as tx:
        first = tx.receive("work", limit=1)
        work(box, "b")
        assert received(box) == []
        list(first)
    with pytest.raises(sq.ActionRefused, match="1 message of its places is on the way to gate 'out', or wait there"):
        box.drop(subscription="work", queue="work")
    assert received(box) == [("b", 1, False)]
    box.drop(subscription="work", queue="work")


def test_a_group_that_is_stopped_at_the_gate_stays_so(made):
    box = made(FIFO)
    sent(box, "a", "b")
    assert len(received(box)) == 2
    groups.suspend(box, "out", "a", **BY)
    box.drop(subscription="work", queue="work")
    box.define(FIFO, LEADING)
    sent(box, "c")
    assert received(box) == []
    groups.resume(box, "out", "a", **BY)
    assert told(box) == ([("c", 3, False)], [])


def test_groups_of_before_and_of_now_are_judged_together(made):
    """The groups that are begun behind the numbers given before count no voids yet; turns give them that count."""
    box = made(replace(FIFO, gate=None))
    for key in "abc":
        finished_of(box, key)
    box.define(FIFO)
    answered(box, "a")
    assert received(box) == [("a", 1, False)]
    answered(box, *"abc")
    assert box.tick().groups == 3
    assert sorted(name for name, _, _ in received(box)) == ["a", "b", "c"]


def answered(box, *keys):
    for key in keys:
        publish(box, 1, key)
        with box.session() as tx:
            (message,) = tx.receive("work", group=key)
            tx.publish(sq.Message(type="done", context={"of": key, "to": "out"}), cause=message)


def finished_of(box, key):
    publish(box, 2, key)
    with box.session() as tx:
        assert len(list(tx.receive("work", group=key, limit=2))) == 2
