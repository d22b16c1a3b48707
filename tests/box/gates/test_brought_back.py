"""What is put back, or resubmitted, on the way to a gate: its place is open again, or its results leave late."""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import count

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import dead_letters, events, invariants, messages
from tests.box.shop import rows

#: Each later than the one before.
AGES = count(1_000, 1_000)
BY = {"actor": "ann", "reason": "it is mended"}
JOB = sq.MessageType("job", {"key": "string", "n": "long"})
DONE = sq.MessageType("done", {"of": "string", "dest": "string"})
WORK = sq.Queue("work", sq.Fifo(), group="key", gate="out", errors="continue", retry=sq.Retry(1))
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
        replace(
            OUT,
            name="first",
            gate=sq.Gate("second", through=["hop"]),
            errors="continue",
            retry=replace(OUT.retry, attempts=1),
        ),
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


def test_voids_stay_counted_when_a_message_is_put_back_at_their_gate(opened):
    opened.define(*ALL, replace(OUT, errors="continue", retry=replace(OUT.retry, attempts=1)), WORK, leads_to("out"))
    publish(opened, 1, 2, 3)
    work(opened, "work", "r1>out", "", "r3>out")
    set_dead(opened, "out", "r1")
    assert voids(opened) == [(2, 2)]
    before = invariants.account_within(opened, 60)
    assert before.void == 1
    requeue(opened, "out")
    assert invariants.account_within(opened, 60) == before
    assert received(opened) == [("r1", 1, False), ("r3", 2, False)]


@pytest.fixture
def lost(opened):
    """Of three messages the first is in the hop, and the second has a result that nobody wants."""
    opened.define(
        *ALL, OUT, HOP, replace(WORK, gate=replace(WORK.gate, through=["hop"])), leads_to("hop"), leads_to("out")
    )
    publish(opened, 1, 2, 3)
    work(opened, "work", "p1>hop", "p2>nowhere", "y3>out")
    return opened


def want(box, dest, which="nowhere"):
    box.define(sq.Subscription(f"lost-{which}", where=f"type = 'done' AND dest = '{which}'", to=dest))


@pytest.mark.parametrize("dest", ["hop", "out"])
@pytest.mark.parametrize("looked", [True, False], ids=["the gate has looked", "it hasn't"])
def test_the_place_of_a_resubmitted_message_is_open_again(lost, dest, looked):
    if looked:
        assert received(lost) == []
    want(lost, dest)
    assert messages.resubmit(lost, **BY).routed == 1
    work(lost, "hop", "y1>out", group="p1")
    if dest == "hop":
        assert received(lost) == [("y1", 1, False)]
        work(lost, "hop", "y2>out", group="p2")
        assert received(lost) == [("y2", 2, False), ("y3", 3, False)]
    else:
        assert received(lost) == [("y1", 1, False), ("p2", 2, False), ("y3", 3, False)]
    assert voids(lost) == []


@pytest.mark.parametrize("dest", ["hop", "out"])
def test_what_is_resubmitted_after_its_place_leaves_late(lost, dest):
    work(lost, "hop", "y1>out")
    assert received(lost) == [("y1", 1, False), ("y3", 2, False)]
    want(lost, dest)
    messages.resubmit(lost, **BY)
    if dest == "hop":
        work(lost, "hop", "p2>out")
    assert received(lost) == [("p2", 3, True)]
    assert rows(lost, "SELECT FROM {schema}.late_places") == []


def test_other_results_of_the_place_of_a_resubmitted_message_wait_for_it_again(lost):
    publish(lost, 4)
    work(lost, "work", "a4>out p4>nowhere")
    assert received(lost) == []  # y3 is held behind the hop, and a4 is placed
    work(lost, "hop", "p1>hop")
    want(lost, "hop")
    messages.resubmit(lost, **BY)
    work(lost, "hop", "y1>out", group="p1")
    work(lost, "hop", "y2>out", group="p2")
    assert received(lost) == [("y1", 1, False), ("y2", 2, False), ("y3", 3, False)]
    work(lost, "hop", "b4>out", group="p4")
    assert received(lost) == [("a4", 4, False), ("b4", 5, False)]


def test_invalid_messages_of_a_hop_are_resubmitted_to_their_places(opened):
    check = sq.Queue("check", sq.Fifo(), group="key")  # a property that they lack
    opened.define(*ALL, OUT, HOP, check, replace(WORK, gate=replace(WORK.gate, through=["hop", "check"])))
    opened.define(*(leads_to(name) for name in ("hop", "check", "out")))
    publish(opened, 1, 2, 3)
    work(opened, "work", "p1>hop", "p2>check", "y3>out")
    assert received(opened) == []
    opened.define(replace(check, group="of"))
    assert messages.resubmit(opened, queue="check", **BY).routed == 1
    work(opened, "hop", "y1>out")
    assert received(opened) == [("y1", 1, False)]
    work(opened, "check", "y2>out")
    assert received(opened) == [("y2", 2, False), ("y3", 3, False)]


def test_messages_of_many_groups_are_resubmitted_with_as_many_statements_as_those_of_two(opened, monkeypatch):
    opened.define(
        *ALL, OUT, HOP, replace(WORK, gate=replace(WORK.gate, through=["hop"])), leads_to("hop"), leads_to("out")
    )
    counted = []
    for keys in ("ab", "cdefghij"):
        half = len(keys) // 2
        for key in keys:
            publish(opened, 1, 2, 3, key=key)
            work(opened, "work", "p1>hop", f"p2>{keys}", f"y3{key}>out", group=key)
        work(opened, "hop", *[""] * half, group="p1")  # of half of them the gate passes the first place, and the second
        assert len(received(opened)) == half
        want(opened, "out", which=keys)
        later = time.monotonic() + next(AGES)  # what the process knows of the box is too old to count
        with monkeypatch.context() as patched:
            patched.setattr(time, "monotonic", lambda later=later: later)
            calls = statements(patched)
            assert messages.resubmit(opened, **BY).routed == len(keys)
        counted.append(len(calls))
        work(opened, "hop", *[""] * half, group="p1")
        assert sorted(received(opened)) == sorted(
            [("p2", 2, True)] * half + [("p2", 1, False)] * half + [(f"y3{key}", 2, False) for key in keys[half:]]
        )
    assert counted[0] == counted[1]


def statements(patched):
    """Every statement that a cursor sends from here on."""
    calls, execute = [], psycopg.Cursor.execute

    def counted(cursor, query, *args, **kwargs):
        calls.append(query)
        return execute(cursor, query, *args, **kwargs)

    patched.setattr(psycopg.Cursor, "execute", counted)
    return calls


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
