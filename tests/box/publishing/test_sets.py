"""Sets (`UnitOfWork`) come whole, in one delivery, whatever kept a part of one back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import seriatim as sq
from seriatim.box.faults.faults import Fault, LostTurn, fail, note_lost
from seriatim.kernel.groups.verbs import Action
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import (
    bulk,
    bulk_operations,
    dead_letters,
    events,
    groups,
    invariants,
    set_aside,
    subscriptions,
)


def drain(box):
    """All that can be received now, each delivery in a transaction of its own: group and sequences."""
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive("sets", limit=1)
            if delivery is None:
                return found
            found.append((delivery.group, [message.sequence for message in delivery]))


def lines_in_sets(box, **more):
    box.define(
        sq.MessageType("line", properties={"order": "string", "nr": "long", "lines": "long"}),
        sq.Queue("sets", policy=sq.UnitOfWork(size=3), group="order", sequence="nr", **more),
        sq.Subscription("even", where="type = 'line' AND nr IN (2)", to="sets"),
        sq.Subscription("odd", where="type = 'line' AND NOT nr IN (2)", to="sets"),
    )


def line(nr, order="o1"):
    return sq.Message(type="line", context={"order": order, "nr": nr})


def test_a_set_comes_whole(box):
    box.define(
        sq.MessageType("line", properties={"order": "string", "nr": "long", "lines": "long"}),
        sq.Queue("sets", policy=sq.UnitOfWork(size="lines"), group="order", sequence="nr"),
        sq.Subscription("lines", where="TRUE", to="sets"),
    )
    lines = [sq.Message(type="line", context={"order": "o1", "nr": nr, "lines": 5}) for nr in (5, 1, 3, 2)]
    box.publish(lines)
    assert drain(box) == []
    box.publish([sq.Message(type="line", context={"order": "o1", "nr": 4})])
    assert drain(box) == [("o1", [1, 2, 3, 4, 5])]


@pytest.mark.parametrize("later", [1, 2, 3])
def test_a_set_comes_whole_once_all_of_it_may_be_seen(box, later):
    lines_in_sets(box)
    moment = datetime.now(UTC) + timedelta(milliseconds=700)
    box.publish([line(later)], visible_at=moment)
    others = [line(nr) for nr in (1, 2, 3) if nr != later]
    box.publish([*others, line(1, "o2"), line(2, "o2"), line(3, "o2")])
    assert drain(box) == [("o2", [1, 2, 3])]
    assert invariants.broken(box) == []
    with box.session() as tx:
        assert [message.sequence for message in tx.receive("sets", wait=120)] == [1, 2, 3]
    assert datetime.now(UTC) >= moment


@pytest.mark.parametrize("stopped", ["even", "odd"])
def test_a_set_comes_whole_though_part_of_it_comes_by_a_subscription_that_is_stopped(box, stopped):
    lines_in_sets(box)
    subscriptions.stop(box, stopped)
    box.publish([line(1), line(2), line(3)])
    assert drain(box) == []
    box.tick()
    assert invariants.broken(box) == []
    subscriptions.start(box, stopped)
    assert drain(box) == [("o1", [1, 2, 3])]
    box.publish([line(1, "o2"), line(2, "o2"), line(3, "o2")])
    subscriptions.stop(box, stopped)
    assert drain(box) == []
    subscriptions.start(box, stopped)
    assert drain(box) == [("o2", [1, 2, 3])]


def test_a_set_that_is_judged_ahead_comes_whole(box):
    """Many groups at once are judged together, before they are asked for."""
    lines_in_sets(box)
    for nr in (1, 2):
        box.publish([line(nr, f"o{number}") for number in range(60)])
    box.publish([line(3, f"o{number}") for number in range(0, 60, 2)], delay="1h")
    box.publish([line(3, f"o{number}") for number in range(1, 60, 2)])
    assert sorted(drain(box)) == sorted((f"o{number}", [1, 2, 3]) for number in range(1, 60, 2))
    assert invariants.broken(box) == []


def part(nr, text):
    return sq.Message(type="part", context={"to": "sets", "key": "7", "nr": nr, "text": text})


def test_sets_of_one_key_come_one_after_another(box):
    box.define(
        sq.MessageType("part", {"key": "string", "nr": "long", "text": "string"}),
        sq.Queue("sets", sq.UnitOfWork(size=2, once=False), group="key", sequence="nr", compare="text"),
    )
    box.publish([part(nr, text) for nr, text in ((2, "a"), (1, "b"), (1, "b"), (1, "c"), (2, "d"), (1, "e"), (1, "c"))])
    with box.session() as tx:
        assert [message.context["text"] for message in tx.receive("sets")] == ["b", "a"]
    with box.session() as tx:
        tx.receive("sets")  # isn't completed, and so is put back
    box.publish([part(2, "f")])
    for texts in (["c", "d"], ["e", "f"]):
        with box.session() as tx:
            assert [message.context["text"] for message in tx.receive("sets")] == texts
    assert drain(box) == []
    assert invariants.broken(box) == []
    found = groups.group_view(box, "sets", "7")
    assert (found.state, found.held, found.ordinal) == ("ready", 0, 6)


def test_a_partial_set_says_what_it_lacks(box):
    box.define(
        sq.MessageType("part", {"key": "string", "nr": "long", "text": "string"}),
        sq.Queue("sets", sq.UnitOfWork(size=4, timeout="1us", on_timeout="deliver"), group="key", sequence="nr"),
    )
    box.publish([part(3, "c"), part(1, "a")])
    box.tick()
    with box.session() as tx:
        tx.receive("sets")  # isn't completed, and so is put back
    with box.session() as tx:
        delivery = list(tx.receive("sets"))
    assert [(one.sequence, one.partial, one.missing) for one in delivery] == [(1, True, (2, 4)), (3, True, (2, 4))]
    told = [(one.kind, one.first, one.last) for one in events.events(box, "sets")]
    assert told == [("closed", None, None), ("incomplete", 4, 4), ("incomplete", 2, 2)]
    box.publish([part(2, "b")])
    assert drain(box) == []
    assert [one.status for one in set_aside.set_aside(box, "sets")] == ["late"]
    assert invariants.broken(box) == []


def three_sets(box, *, delayed=(), **more):
    """Sets a, b and c of one key, complete before the first is handed out."""
    box.define(
        sq.MessageType("part", {"key": "string", "nr": "long", "text": "string"}),
        sq.Queue("sets", sq.UnitOfWork(size=2, once=False), group="key", sequence="nr", compare="text", **more),
    )
    for text in "abc":
        for nr in (1, 2):
            box.publish([part(nr, text)], delay="1h" if (text, nr) in delayed else None)


def left_of(box):
    query = f"""SELECT stored.context ->> 'text' FROM {box.schema}.entries AS entry
        JOIN {box.schema}.spool AS stored USING (arrival_id, position) WHERE entry.status <> 'arrived' ORDER BY entry.ordinal"""
    with box.session() as tx:
        return "".join(text for (text,) in tx.connection.execute(query).fetchall())


def fail_first(box):
    with box.session() as tx:
        fail(tx.transaction, tx.receive("sets"), 0, 2, Fault(FaultKind.BUSINESS, "ValueError", "no", "w1"))


@pytest.mark.parametrize("together", [False, True])
def test_a_skip_of_a_failed_set_takes_none_of_those_behind_it(box, together):
    three_sets(box)
    fail_first(box)
    by = {"actor": "ann", "reason": "no such key"}
    if together:
        skip = Action.SKIP_MESSAGE
        views = bulk.chosen(box, skip, groups.GroupFilter("sets"))
        found = bulk_operations.gather(box, skip, views, chosen_by={"queue": "sets"}, at_once=False, **by)
        *_, last = bulk_operations.follow(box, bulk_operations.begin(box, found.bulk_id).bulk_id)
        assert last.done == 1
    else:
        groups.skip_message(box, "sets", "7", **by)
    assert left_of(box) == "bbcc"
    assert len(dead_letters.dead_letters(box, "sets")) == 2
    assert drain(box) == [("7", [1, 2]), ("7", [1, 2])]
    assert invariants.broken(box) == []


def test_parts_stored_without_the_end_of_their_set_are_skipped_together(box):
    three_sets(box)
    fail_first(box)
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.entries SET meaning[3] = 0")
    groups.skip_message(box, "sets", "7", actor="ann", reason="no such key")
    assert left_of(box) == ""


def test_a_lost_turn_gives_up_its_set_alone(box):
    three_sets(box, errors="continue", retry=sq.Retry(1))
    with box.session() as tx:
        first = tx.receive("sets").entry_ids[0]
    with box.session() as tx:
        killed = Fault(FaultKind.POISON, "Killed", "signal 9", "w1")
        assert note_lost(tx.transaction, LostTurn("sets", "7", first), killed, 5.0).then == "dead"
    assert left_of(box) == "bbcc"
    assert drain(box) == [("7", [1, 2]), ("7", [1, 2])]
    assert invariants.broken(box) == []
