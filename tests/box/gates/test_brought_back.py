"""What is put back on the way to a gate: its place is open again, or its results leave late."""

from __future__ import annotations

from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.operations import dead_letters, events, invariants
from tests.box.shop import rows

BY = {"actor": "ann", "reason": "it is mended"}
JOB = sq.MessageType("job", {"key": "string", "n": "long"})
DONE = sq.MessageType("done", {"of": "string", "dest": "string"})
WORK = sq.Queue("work", sq.Fifo(), group="key", gate="out", errors="continue", attempts=1)
OUT = sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal")
HOP = sq.Queue("hop", sq.Fifo(), group="of")


def leads_to(name):
    return sq.Subscription(f"to-{name}", where=f"type = 'done' AND dest = '{name}'", to=name)


ALL = (JOB, DONE, sq.Subscription("work", where="type = 'job'", to="work"))


@pytest.fixture
def opened(box):
    yield box
    assert invariants.broken(box) == []
    assert rows(box, "SELECT FROM {schema}.entries") == []
    assert rows(box, "SELECT FROM {schema}.aside WHERE disposition <> 'invalid'") == []


def publish(box, *numbers, key="a"):
    with box.session() as tx:
        tx.publish([sq.Message(type="job", context={"key": key, "n": n}) for n in numbers])


def result(said):
    """The result `name>queue`."""
    name, dest = said.split(">")
    return sq.Message(type="done", context={"of": name, "dest": dest})


def work(box, queue, *answers, group=None):
    """Work on the next messages, together; what each answers: results as text."""
    with box.session() as tx:
        delivery = tx.receive(queue, limit=len(answers), group=group)
        for message, its in zip(delivery, answers, strict=True):
            for one in its.split():
                tx.publish(result(one), cause=message)


def received(box, queue="out"):
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=100)
            if delivery is None:
                return found
            found += [(one.context["of"], one.ordinal, one.late) for one in delivery]


def set_dead(box, queue, name):
    with box.session() as tx:
        delivery = tx.receive(queue, limit=1)
        assert [one.context.get("of") for one in delivery.messages] == [name]
        delivery.dead_letter("no")


def requeue(box, queue):
    (dead,) = dead_letters.dead_letters(box, queue)
    return dead_letters.requeue(box, dead.entry_id, **BY)


def voids(box, queue="out"):
    return [(one.first, one.last) for one in events.events(box, queue=queue) if one.kind == "void"]


@pytest.fixture
def row(opened):
    """A gate whose messages pass a hop on their way to a second gate: the first is there, and the second is a dead letter."""
    opened.define(
        *ALL,
        sq.Queue("second", sq.Standard(), group="origin_group", sequence="origin_ordinal"),
        HOP,
        replace(OUT, name="first", gate="second", through=["hop"], errors="continue", attempts=1),
        replace(WORK, gate="first"),
        *(leads_to(name) for name in ("first", "second", "hop")),
    )
    publish(opened, 1, 2, 3)
    work(opened, "work", "r1>first", "r2>first", "r3>first")
    work(opened, "first", "p1>hop")
    set_dead(opened, "first", "r2")
    return opened


def test_what_is_put_back_at_a_gate_has_its_place_at_the_next_one(row):
    requeue(row, "first")
    work(row, "hop", "y1>second")
    assert received(row, "second") == [("y1", 1, False)]
    work(row, "first", "y2>second")
    work(row, "first", "y3>second")
    assert received(row, "second") == [("y2", 2, False), ("y3", 3, False)]


def test_a_void_of_what_is_put_back_at_a_gate_is_taken_back_at_the_next_one(row):
    work(row, "first", "y3>second")
    assert received(row, "second") == []
    requeue(row, "first")
    work(row, "hop", "y1>second")
    assert received(row, "second") == [("y1", 1, False), ("y3", 2, False)]
    # It went to the end there, because a later one was delivered: it has the fourth place.
    work(row, "first", "y2>second")
    assert received(row, "second") == [("y2", 3, True)]
    assert voids(row, "second") == [(2, 2)]


def test_what_is_put_back_at_a_gate_after_the_next_one_has_passed_it_goes_to_the_end(row):
    work(row, "hop", "y1>second")
    assert received(row, "second") == [("y1", 1, False)]
    assert requeue(row, "first").place == "end"
    work(row, "first", "y3>second")
    work(row, "first", "y2>second")
    assert received(row, "second") == [("y3", 2, False), ("y2", 3, True)]


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Unordered()], ids=lambda one: one.name)
def test_what_came_back_to_its_origin_queue_leaves_late_if_its_place_has_passed(opened, policy):
    opened.define(*ALL, OUT, replace(WORK, policy=policy), leads_to("out"))
    publish(opened, 1)
    with opened.session() as tx:
        (one,) = tx.receive("work", limit=1)
        tx.publish(sq.Message(type="job", context={"key": "a", "n": 100}), cause=one)
    set_dead(opened, "work", None)
    publish(opened, 2)
    work(opened, "work", "x2>out")
    assert received(opened) == [("x2", 1, False)]
    requeue(opened, "work")
    publish(opened, 3)
    work(opened, "work", "again>out", "x3>out")
    assert {name: late for name, _, late in received(opened)} == {"again": True, "x3": False}
    assert rows(opened, "SELECT FROM {schema}.late_places") == []
