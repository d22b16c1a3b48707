"""A gate: results leave in the order of the messages that they came from."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import psycopg
import pytest

import seriatim as sq
from seriatim import MessageBox
from seriatim.operations import dead_letters, events, groups, invariants, messages, retention
from seriatim.testing.clock import SEARCH_PATH, Clock, make_movable
from tests.box.fed import feed
from tests.box.shop import rows
from tests.slow_clock import slow_down

pytestmark = pytest.mark.telling

SCHEMA = "seriatim"
BY = {"actor": "ann", "reason": "it is lost"}
JOB = sq.MessageType("job", {"key": "string", "n": "long"})
DONE = sq.MessageType("done", {"of": "string"})
WORK = sq.Queue("work", sq.Fifo(), group="key", gate="out", errors="continue", retry=sq.Retry(1))
OUT = sq.Queue("out", sq.Standard(), group="origin_group", sequence="origin_ordinal")
WAY = sq.Queue("price", sq.Fifo(), group="of")
ALL = (
    sq.Subscription("work", where="type = 'job'", to="work"),
    JOB, DONE, OUT, WORK,
)  # fmt: skip


def publish(box, count, key="a"):
    with box.session() as tx:
        tx.publish([sq.Message(type="job", context={"key": key, "n": n}) for n in range(1, count + 1)])


def result(name):
    """The result that is called so; those whose names begin with p pass the price first."""
    return sq.Message(type="done", context={"of": name, "to": "price" if name.startswith("p") else "out"})


def received(box, queue="out", limit=100):
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=limit)
            if delivery is None:
                return found
            found += [(one.context["of"], one.ordinal, one.late) for one in delivery]


@pytest.fixture
def gated(box):
    box.define(*ALL)
    yield box
    assert invariants.broken(box) == []


def work(box, *answers, queue="work", group=None, limit=None):
    """Work on the next messages, together; what each answers, by the text of its result."""
    with box.session() as tx:
        delivery = tx.receive(queue, limit=limit or len(answers), group=group)
        for message, its in zip(delivery, answers, strict=True):
            for one in its.split():
                tx.publish(result(one), cause=message)


def test_results_leave_by_number_with_the_results_of_their_place(gated):
    publish(gated, 3)
    work(gated, "a b", "", "c")
    assert received(gated) == [("a", 1, False), ("b", 2, False), ("c", 3, False)]
    (view,) = groups.groups(gated, "out")
    assert (view.group, view.next) == ("a", 4)
    assert [(one.kind, one.first, one.last) for one in events.events(gated, queue="out")] == [("void", 2, 2)]
    publish(gated, 1)
    work(gated, "d")
    assert received(gated) == [("d", 4, False)]


def test_a_hop(gated):
    gated.define(WAY, replace(WORK, gate=replace(WORK.gate, through=["price"])))
    publish(gated, 4)
    work(gated, "p1 x1", "p2", "p3", "x4")
    assert received(gated) == []
    work(gated, "x2", queue="price", group="p2")
    assert received(gated) == []
    work(gated, "", queue="price", group="p3")
    assert received(gated) == []
    work(gated, "y1 z1", queue="price", group="p1")
    assert received(gated) == [("x1", 1, False), ("y1", 2, False), ("z1", 3, False), ("x2", 4, False), ("x4", 5, False)]


def test_a_skipped_place_is_closed_by_force(gated):
    gated.define(WAY, replace(WORK, gate=replace(WORK.gate, through=["price"])))
    publish(gated, 5)
    work(gated, "x1", "p2 x2", "p3", "p4 x4", "x5")
    assert received(gated) == [("x1", 1, False)]
    (view,) = groups.groups(gated, "out")
    assert (str(view.state), view.next, view.hole_through) == ("waiting", 2, 4)
    groups.skip_hole(gated, "out", "a", **BY)
    assert received(gated) == [("x2", 2, False), ("x4", 3, False), ("x5", 4, False)]
    # Of places 2 and 4 results are there, and others aren't: they are skipped as place 3 is.
    assert [(one.kind, one.first, one.last) for one in events.events(gated, queue="out", kinds=["hole_skipped"])] == [
        ("hole_skipped", 2, 4)
    ]
    work(gated, "y2", queue="price", group="p2")
    assert received(gated) == []
    assert [tuple(r) for r in rows(gated, "SELECT disposition, reason FROM {schema}.aside")] == [
        ("late", "its place at the gate has passed")
    ]
    work(gated, "", queue="price", group="p3")
    work(gated, "", queue="price", group="p4")
    assert received(gated) == []


def make(dsn):
    MessageBox.migrate(dsn, schema=SCHEMA)
    make_movable(dsn, SCHEMA)


def define(dsn):
    with MessageBox.open(dsn, schema=SCHEMA) as box:
        out = replace(OUT, policy=sq.Standard(hole_timeout=6, on_hole="skip"))
        box.define(*ALL[:3], WAY, replace(WORK, gate=replace(WORK.gate, through=["price"])), out)


@pytest.fixture
def moving(databases):
    """A box with a clock that can be moved."""
    movable = databases.template("a box with a clock that can be moved", make)
    template = databases.template("gates", define, movable, search_path=SEARCH_PATH)
    with databases.clone(template, search_path=SEARCH_PATH) as dsn, MessageBox.open(dsn, schema=SCHEMA) as opened:
        slow_down(opened)
        yield opened


def test_a_hole_is_skipped_by_its_time_out(moving):
    clock = Clock(moving)
    publish(moving, 6)
    work(moving, "p1 x1", "p2", "", "p4", "x5", "p6")
    assert received(moving) == []  # the fifth place is closed
    clock.move(5)
    moving.tick()
    assert received(moving) == []
    clock.move(5)
    assert moving.tick().groups == 1
    assert received(moving) == [("x1", 1, False)]
    clock.move(6)  # the third place is closed: the fourth is a hole of its own
    assert received(moving) == [("x5", 2, False)]
    kinds = [
        (one.kind, one.first, one.last) for one in events.events(moving, queue="out") if one.kind != "hole_overdue"
    ]
    assert kinds[::-1] == [("hole_skipped", 1, 2), ("void", 3, 3), ("hole_skipped", 4, 4)]
    work(moving, "late", queue="price", group="p2")
    work(moving, "x6", queue="price", group="p6")
    assert received(moving) == [("x6", 3, False)]


def skipped(box):
    return [(one.first, one.last) for one in events.events(box, queue="out", kinds=["hole_skipped"])]


@pytest.fixture
def patient(moving):
    """The same, with holes of ten minutes."""
    moving.define(replace(OUT, policy=sq.Standard(hole_timeout="10m", on_hole="skip")))
    return moving


def test_the_clock_of_a_hole_begins_when_a_place_behind_it_closes(patient):
    """However long the results of that place have been there."""
    clock = Clock(patient)
    publish(patient, 3)
    work(patient, "p1", "p2 x2", "")
    assert received(patient) == []
    clock.move("20m")
    patient.tick()
    assert received(patient) == []
    assert all(view.hole_since is None for view in groups.groups(patient, "out"))
    work(patient, "y2", queue="price", group="p2")
    assert received(patient) == []
    (view,) = groups.groups(patient, "out")
    assert view.hole_since is not None
    assert view.due_at > clock.now()
    clock.move("9m")
    patient.tick()
    assert received(patient) == []
    work(patient, "y1", queue="price", group="p1")
    assert received(patient) == [("y1", 1, False), ("x2", 2, False), ("y2", 3, False)]
    assert skipped(patient) == []


def test_a_hole_is_skipped_after_its_time_since_a_place_behind_it_closed(patient):
    clock, came = Clock(patient), {}
    publish(patient, 4)
    work(patient, "p1", "p2 x2", "p3", "p4 x4")
    clock.move("20m")
    came[1] = clock.now()
    work(patient, "", queue="price", group="p2")
    assert received(patient) == []
    clock.move("11m")
    assert received(patient) == [("x2", 1, False)]
    clock.move("20m")
    came[3] = clock.now()
    work(patient, "", queue="price", group="p4")  # the third place is a hole of its own
    assert received(patient) == []
    assert skipped(patient) == [(1, 1)]
    clock.move("11m")
    assert received(patient) == [("x4", 2, False)]
    assert skipped(patient) == [(3, 3), (1, 1)]
    for event in events.events(patient, queue="out", kinds=["hole_skipped"]):
        assert event.at >= came[event.first] + timedelta(minutes=10)


def test_a_delayed_result_of_a_closed_place_counts_from_when_it_may_be_seen(patient):
    clock = Clock(patient)
    publish(patient, 2)
    with patient.session() as tx:
        for message in tx.receive("work", limit=2):
            tx.publish(result("p1") if message.ordinal == 1 else result("x2"), delay="30m")
    clock.move("31m")  # what is delayed on the way is as open as anything there
    assert received(patient) == []
    assert skipped(patient) == []
    clock.move("8m")
    assert received(patient) == []
    assert skipped(patient) == []
    clock.move("3m")
    assert received(patient) == [("x2", 1, False)]
    assert skipped(patient) == [(1, 1)]


def test_a_group_at_its_bound_is_looked_at_again_after_the_gate_has_moved(moving):
    """Who works on what left the gate hasn't committed how far that is, and doesn't know that more has come meanwhile."""
    moving.define(replace(WORK, gate=replace(WORK.gate, open_at_most=3)))
    publish(moving, 3)
    work(moving, "a", "b", "c")
    with moving.session() as gate:
        delivery = gate.receive("out", limit=10)
        publish(moving, 2)
        with moving.session() as tx:
            assert tx.receive("work") is None
        delivery.done()
    (view,) = groups.groups(moving, "work")
    assert (str(view.state), view.queued) == ("ready", 2)
    Clock(moving).move(1)
    work(moving, "d", "e")
    assert received(moving) == [("d", 4, False), ("e", 5, False)]


def test_a_group_at_its_bound_is_looked_at_the_less_the_longer_it_waits(moving):
    clock = Clock(moving)
    moving.define(replace(WORK, gate=replace(WORK.gate, through=["price"], open_at_most=2)))
    publish(moving, 3)
    work(moving, "p1", "p2")
    moving.tick()
    for waited, rests in ((1, 1), (1200, 20), (3600 * 24, 60)):
        clock.move(waited)
        before = clock.now()
        assert moving.tick().groups == 1
        after = clock.now()
        (view,) = groups.groups(moving, "work")
        assert rests <= (view.due_at - before).total_seconds()
        assert (view.due_at - after).total_seconds() < rests + 2  # it rests the longer, the longer this takes
        assert rests == 1 or moving.tick().groups == 0


def test_what_nobody_receives_is_judged_by_a_tick(gated):
    publish(gated, 3)
    work(gated, "a", "", "c")
    gated.tick()
    assert [(view.queue, view.next, view.queued) for view in groups.groups(gated, "out")] == [("out", 4, 2)]


def test_many_places_pass_in_several_turns(gated):
    publish(gated, 2500)
    for at in range(0, 2500, 500):
        work(gated, *[f"r{n}" if n % 3 else "" for n in range(at, at + 500)])
    assert [name for name, _, _ in received(gated)] == [f"r{n}" for n in range(2500) if n % 3]


def test_a_suspended_gate_takes_up_what_came_meanwhile(gated):
    publish(gated, 4)
    work(gated, "a")
    assert received(gated) == [("a", 1, False)]
    groups.suspend(gated, "out", "a", **BY)
    work(gated, "b", "", "d")
    assert received(gated) == []
    groups.resume(gated, "out", "a", **BY)
    assert received(gated) == [("b", 2, False), ("d", 3, False)]


def test_a_group_is_forgotten_with_its_group_at_the_gate(gated):
    publish(gated, 2)
    work(gated, "a")
    work(gated, "")
    gated.tick()
    publish(gated, 1)
    for forget, done in ((groups.forget, "forgotten"), (groups.restart, "restarted")):
        with pytest.raises(sq.ActionRefused, match=f"{done} by itself"):
            forget(gated, "out", "a", **BY)
    with pytest.raises(sq.ActionRefused, match="1 message neither done"):
        groups.forget(gated, "work", "a", **BY)
    work(gated, "c")
    with pytest.raises(sq.ActionRefused, match="2 messages neither done"):
        groups.forget(gated, "work", "a", **BY)
    assert received(gated) == [("a", 1, False), ("c", 2, False)]
    assert groups.forget(gated, "work", "a", **BY) == 1
    publish(gated, 2)
    work(gated, "d", "e")
    assert received(gated) == [("d", 1, False), ("e", 2, False)]


def test_a_group_of_an_unordered_queue_is_forgotten_with_its_group_at_the_gate(gated):
    gated.define(replace(WORK, policy=sq.Unordered()))
    publish(gated, 2)
    with pytest.raises(sq.ActionRefused, match="2 messages neither done"):
        groups.forget(gated, "work", "a", **BY)
    work(gated, "a")
    work(gated, "")
    with pytest.raises(sq.ActionRefused, match="1 message neither done"):
        groups.forget(gated, "work", "a", **BY)
    assert received(gated) == [("a", 1, False)]
    with gated.session() as tx:
        tx.connection.execute(
            f"""SELECT pg_advisory_xact_lock({SCHEMA}.lock_of(format('places %s a', queue_id)))
            FROM {SCHEMA}.queues WHERE queue = 'work'""".replace(SCHEMA, gated.schema)
        )
        with pytest.raises(sq.Unavailable, match="a message comes into the group"):
            groups.forget(gated, "work", "a", **BY)
    assert groups.forget(gated, "work", "a", **BY) == 1
    with pytest.raises(sq.NotFound):
        groups.forget(gated, "work", "nobody", **BY)
    publish(gated, 2)
    work(gated, "c", "d")
    assert received(gated) == [("c", 1, False), ("d", 2, False)]
    assert invariants.broken(gated) == []


def test_a_group_with_an_open_place_is_not_forgotten(gated):
    gated.define(WAY, replace(WORK, gate=replace(WORK.gate, through=["price"])))
    publish(gated, 1)
    work(gated, "p1")
    with pytest.raises(sq.ActionRefused, match="1 place of it is open or waiting at the gate") as refused:
        groups.forget(gated, "work", "a", **BY)
    assert refused.value.remedy.endswith("seriatim group show a --queue out")


def test_no_more_places_are_opened_than_that(gated):
    gated.define(replace(WORK, gate=replace(WORK.gate, open_at_most=5)))
    publish(gated, 20)
    assert received(gated) == []
    with gated.session() as first:
        taken = first.receive("work", limit=3)
        assert [one.ordinal for one in taken.messages] == [1, 2, 3]
        taken.put_back()
    work(gated, "a", "b", "c", "d", "e", limit=10)
    with gated.session() as tx:
        assert tx.receive("work") is None
    assert [name for name, _, _ in received(gated)] == ["a", "b", "c", "d", "e"]
    work(gated, *"fghij", limit=10)
    with gated.session() as tx:
        assert tx.receive("work") is None
    gated.tick()
    work(gated, *"klmno", limit=10)


def test_an_unordered_queue_has_places_by_key(gated):
    gated.define(replace(WORK, policy=sq.Unordered(), gate=replace(WORK.gate, open_at_most=4)))
    publish(gated, 3)
    publish(gated, 2, "b")
    publish(gated, 3)
    work(gated, "a1", "a2", "a3", "b1", "b2", "a4", limit=100)
    assert received(gated) == [
        ("a1", 1, False), ("a2", 2, False), ("a3", 3, False), ("a4", 4, False), ("b1", 1, False), ("b2", 2, False)
    ]  # fmt: skip
    work(gated, "a5", "", limit=100)
    assert received(gated) == [("a5", 5, False)]


def test_places_of_an_unordered_queue_pass_in_order(gated):
    gated.define(replace(WORK, policy=sq.Unordered()))
    publish(gated, 3)
    with gated.session() as first:
        (one,) = first.receive("work").messages
        work(gated, "b", "c", limit=2)
        assert received(gated) == []
        (view,) = groups.groups(gated, "out")
        assert (str(view.state), view.next, view.hole_through) == ("waiting", 1, 1)
        first.publish(result("a"), cause=one)
        first.delivery.done()
    assert received(gated) == [("a", 1, False), ("b", 2, False), ("c", 3, False)]


def test_a_gate_goes_from_turn_to_turn_as_any_queue_does(gated):
    publish(gated, 5)
    publish(gated, 2, "b")
    work(gated, *"abcde")
    work(gated, *"xy")
    found = []
    with gated.session() as tx:
        delivery = tx.receive("out", limit=2)
        while delivery is not None:
            found.append([(one.group, one.context["of"], one.ordinal) for one in delivery.messages])
            delivery = tx.commit_and_receive(limit=2)
    assert sorted(found) == [
        [("a", "a", 1), ("a", "b", 2)], [("a", "c", 3), ("a", "d", 4)], [("a", "e", 5)], [("b", "x", 1), ("b", "y", 2)]
    ]  # fmt: skip


def test_what_was_received_before_at_a_gate_is_done_whatever_comes_after(gated):
    publish(gated, 3)
    work(gated, "a", "b", "c", limit=10)

    def fails_at_the_second():
        with gated.session() as tx:
            tx.receive("out")
            assert [one.context["of"] for one in tx.commit_and_receive().messages] == ["b"]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails_at_the_second()
    assert received(gated) == [("b", 2, False), ("c", 3, False)]


def killed(box, queue, *fatal):
    """Work on all that a queue hands out; messages with these results become dead letters, the others give them."""

    def handle(message, tx):
        name = message.context.get("of") or f"x{message.context['n']}"
        if name in fatal:
            raise sq.Business("no")
        return result(name.replace("p", "x"))

    sq.Worker(box, queue, handle).run(until_idle=True)


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Unordered()], ids=lambda one: one.name)
def test_a_requeued_message_goes_back_to_its_place(gated, policy):
    gated.define(WAY, replace(WORK, policy=policy, gate=replace(WORK.gate, through=["price"])))
    publish(gated, 1)
    work(gated, "p1")  # the first place is open
    publish(gated, 2)
    killed(gated, "work", "x2")
    gated.tick()
    (dead,) = dead_letters.dead_letters(gated, "work")
    dead_letters.requeue(gated, dead.entry_id, **BY)
    publish(gated, 1)
    work(gated, "x1", queue="price")
    assert received(gated) == [("x1", 1, False), ("x1", 2, False)]
    work(gated, "again", "after")
    assert received(gated) == [("again", 3, False), ("after", 4, False)]


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Unordered()], ids=lambda one: one.name)
def test_a_requeued_message_whose_place_has_passed_goes_to_the_end(gated, policy):
    gated.define(replace(WORK, policy=policy))
    publish(gated, 3)
    killed(gated, "work", "x2")
    assert received(gated) == [("x1", 1, False), ("x3", 2, False)]
    (dead,) = dead_letters.dead_letters(gated, "work")
    dead_letters.requeue(gated, dead.entry_id, **BY)
    publish(gated, 1)
    work(gated, "again", "after")
    left = {name: late for name, _, late in received(gated)}
    assert left == {"again": True, "after": False}


def test_a_message_on_the_way_is_requeued(gated):
    gated.define(
        replace(WAY, errors="continue", retry=replace(WAY.retry, attempts=1)),
        replace(WORK, gate=replace(WORK.gate, through=["price"])),
    )
    publish(gated, 2)
    work(gated, "p1 x1", "x2")
    killed(gated, "price", "p1")
    (dead,) = dead_letters.dead_letters(gated, "price")
    dead_letters.requeue(gated, dead.entry_id, **BY)
    assert received(gated) == []
    killed(gated, "price")
    assert received(gated) == [("x1", 1, False), ("x1", 2, False), ("x2", 3, False)]


@pytest.mark.parametrize("keeps", ["nothing", "faults", "everything"])
@pytest.mark.parametrize("is_judged_before", [False, True])
def test_results_of_what_was_delivered_late_leave_late(gated, is_judged_before, keeps):
    """Whether it is judged in the turn that hands it out, or in one before, which writes down that it is late."""
    late = sq.Standard(late="deliver")
    gated.define(replace(WORK, policy=late, sequence="n", keep=keeps))

    def come(n):
        gated.publish(sq.Message(type="job", context={"key": "a", "n": n}))

    come(1)
    come(3)
    groups.skip_hole(gated, "work", "a", **BY)
    work(gated, "x1", "x3")
    assert received(gated) == [("x1", 1, False), ("x3", 2, False)]
    come(2)
    come(4)
    if is_judged_before:
        groups.suspend(gated, "work", "a", **BY)
        groups.resume(gated, "work", "a", **BY)
    work(gated, "x2")
    work(gated, "x4")
    assert received(gated) == [("x2", 3, True), ("x4", 4, False)]


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Unordered()], ids=lambda one: one.name)
def test_a_message_on_the_way_that_is_requeued_after_its_place_has_results_that_leave_late(gated, policy):
    last = sq.Queue("last", sq.Fifo(), group="of")
    way = replace(
        WAY,
        policy=policy,
        group=None if policy.name == "unordered" else "of",
        errors="continue",
        retry=replace(WAY.retry, attempts=1),
    )
    gated.define(last, way, replace(WORK, gate=replace(WORK.gate, through=["price", "last"])))
    publish(gated, 3)
    work(gated, "p1 p2", "x2", "x3")
    killed(gated, "price", "p1", "p2")
    assert received(gated) == [("x2", 1, False), ("x3", 2, False)]
    for dead in dead_letters.dead_letters(gated, "price"):
        dead_letters.requeue(gated, dead.entry_id, **BY)
    publish(gated, 2)
    work(gated, "x4", "x5")
    with gated.session() as tx:  # p1 goes on to the last queue; of p2 something leaves, and something goes on
        (put_back,) = tx.receive("price", limit=1)
        tx.publish(sq.Message(type="done", context={"of": "l1", "to": "last"}), cause=put_back)
    assert received(gated) == [("x4", 3, False), ("x5", 4, False)]
    work(gated, "y1", queue="last")
    work(gated, "z1 z2", queue="price")
    assert received(gated) == [("y1", 5, True), ("z1", 6, True), ("z2", 7, True)]
    assert rows(gated, "SELECT FROM {schema}.late_places") == []
    publish(gated, 1)
    work(gated, "x6")
    assert received(gated) == [("x6", 8, False)]


def test_a_full_gate_takes_results_of_the_first_open_place(gated):
    gated.define(replace(OUT, max_messages=sq.Limit(2, when_full="refuse")), replace(WORK, policy=sq.Unordered()))
    publish(gated, 3)
    with gated.session() as slow:
        (first,) = slow.receive("work")
        with gated.session() as fast:
            second, third = fast.receive("work", limit=2)
            fast.publish([result("x2"), result("y2")], cause=second)
            with pytest.raises(sq.QueueFull):
                fast.publish(result("x3"), cause=third)
        slow.publish([result("x1"), result("y1")], cause=first)
    assert received(gated) == [("x1", 1, False), ("y1", 2, False), ("x2", 3, False), ("y2", 4, False)]


@pytest.mark.parametrize("together", [False, True])
def test_a_full_gate_takes_results_of_all_that_a_transaction_has_in_hand(gated, together):
    gated.define(replace(OUT, max_messages=sq.Limit(2, when_full="refuse")), replace(WORK, policy=sq.Unordered()))
    publish(gated, 6)
    with gated.session() as slow:
        slow.receive("work", limit=4)
        work(gated, "x5", "x6")
        slow.delivery.put_back()
    with gated.session() as tx:
        delivery = tx.receive("work", limit=3)
        if together:
            tx.publish([sq.Answer(one, result(f"x{one.context['n']}")) for one in delivery.messages])
            delivery.done()
        else:
            for one in delivery:
                tx.publish(result(f"x{one.context['n']}"))
    work(gated, "x4")
    assert received(gated) == [(f"x{n}", n, False) for n in range(1, 7)]


def test_a_full_gate_takes_results_of_all_that_is_in_hand_on_the_way(gated):
    full = replace(OUT, max_messages=sq.Limit(2, when_full="refuse"))
    gated.define(full, sq.Queue("price", sq.Unordered()), replace(WORK, gate=replace(WORK.gate, through=["price"])))
    publish(gated, 5)
    work(gated, "p1", "p2", "p3", "x4", "x5")
    with gated.session() as slow:
        slow.receive("price")
        with pytest.raises(sq.QueueFull):
            work(gated, "y2", "y3", queue="price")
        slow.delivery.put_back()
    work(gated, "y1", "y2", "y3", queue="price")
    assert [name for name, _, _ in received(gated)] == ["y1", "y2", "y3", "x4", "x5"]


def test_one_result_that_waits_is_taken_out(gated):
    gated.define(WAY, replace(WORK, gate=replace(WORK.gate, through=["price"])))
    publish(gated, 4)
    work(gated, "p1 x1", "x2 y2", "x3", "x4")
    gated.tick()
    waiting = rows(
        gated,
        """SELECT message_id FROM {schema}.entries JOIN {schema}.spool USING (arrival_id, position)
        WHERE status IN ('placed', 'held') ORDER BY entry_id""",
    )
    for place, left in ((1, 1), (3, 0)):  # x2 is one of two that are held for the first place, and x3 is alone
        messages.take_out(gated, [waiting[place].message_id], queue="out", **BY)
        assert len(rows(gated, "SELECT FROM {schema}.entries WHERE sequence = %s", place // 2 + 2)) == left
    assert received(gated) == []
    work(gated, "", queue="price")
    assert received(gated) == [("x1", 1, False), ("y2", 2, False), ("x4", 3, False)]
    assert [one.reason for one in rows(gated, "SELECT reason FROM {schema}.aside")] == [
        "an operator skipped the message"
    ] * 2


def test_a_dead_letter_of_an_unordered_queue_closes_its_place(gated):
    gated.define(replace(WORK, policy=sq.Unordered()))
    publish(gated, 3)

    def handle(message, _tx):
        if message.context["n"] == 2:
            raise sq.Business("for good")
        return result(f"r{message.context['n']}")

    sq.Worker(gated, "work", handle, workers=1).run(until_idle=True)
    assert received(gated) == [("r1", 1, False), ("r3", 2, False)]


def test_a_transaction_asks_for_a_group_once_and_again_after_its_turn(gated):
    gated.define(replace(WORK, policy=sq.Unordered()))
    publish(gated, 4)
    with gated.session() as tx:
        for message in tx.receive("work", limit=2):
            tx.publish(result(f"r{message.context['n']}"))
        (asked,) = tx.connection.execute(
            f"SELECT count(*) FROM {gated.schema}.requests WHERE action = 'look'"
        ).fetchone()
        assert asked == 1
        assert tx.receive("out") is None  # its own results have no stamps yet
        for message in tx.receive("work", limit=2):
            tx.publish(result(f"r{message.context['n']}"))
    assert received(gated) == [(f"r{n}", n, False) for n in (1, 2, 3, 4)]


def test_what_is_asked_for_behind_a_savepoint_goes_with_it(gated):
    gated.define(replace(WORK, policy=sq.Unordered()))
    publish(gated, 1)
    with gated.session() as tx:
        with tx.connection.transaction() as savepoint:
            tx.connection.execute(f"DELETE FROM {gated.schema}.entries")
            raise psycopg.Rollback(savepoint)
        for message in tx.receive("work"):
            tx.publish(result(f"r{message.context['n']}"))
    assert received(gated) == [("r1", 1, False)]


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Unordered()], ids=lambda one: one.name)
def test_an_expired_group_is_forgotten_with_its_group_at_the_gate(gated, policy):
    gated.define(replace(WORK, policy=policy, group=replace(WORK.group, expire_after=0.001)))
    publish(gated, 2)
    work(gated, "a", "b")
    retention.purge(gated, forget_expired=True)
    assert "out" in {one.queue for one in groups.groups(gated)}  # results wait at the gate
    assert received(gated) == [("a", 1, False), ("b", 2, False)]
    assert retention.purgeable(gated).groups == 1
    assert retention.purge(gated, forget_expired=True).groups == 1
    assert groups.groups(gated) == []
    publish(gated, 1)
    work(gated, "c")
    assert received(gated) == [("c", 1, False)]
    assert [one.incarnation for one in groups.groups(gated, "out")] == [1]  # no key of a result comes again
    assert invariants.broken(gated) == []


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Unordered()], ids=lambda one: one.name)
@pytest.mark.parametrize("expires", [False, True])
def test_a_dead_letter_at_a_gate_goes_to_the_end_after_its_group_was_forgotten(gated, policy, expires):
    gated.define(replace(WORK, policy=policy, group=replace(WORK.group, expire_after=0.001)))
    publish(gated, 2)
    work(gated, "a", "b")
    work(gated, "", queue="out")
    with gated.session() as tx:
        tx.receive("out").dead_letter("no")
    assert received(gated) == []
    if expires:
        assert retention.purge(gated, forget_expired=True).groups == 1
    else:
        groups.forget(gated, "work", "a", **BY)
    publish(gated, 2)
    work(gated, "d", "e")
    assert received(gated) == [("d", 1, False), ("e", 2, False)]
    (dead,) = dead_letters.dead_letters(gated, "out")
    assert dead_letters.requeue(gated, dead.entry_id, **BY).place == "end"
    assert received(gated) == [("b", 3, True)]


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Unordered()], ids=lambda one: one.name)
def test_a_dead_letter_in_hand_closes_its_place(gated, policy):
    gated.define(replace(WORK, policy=policy, errors="suspend", retry=replace(WORK.retry, attempts=5)))
    publish(gated, 3)
    work(gated, "a", limit=1)
    with gated.session() as tx:
        tx.receive("work").dead_letter("no such customer")
    work(gated, "c")
    assert received(gated) == [("a", 1, False), ("c", 2, False)]
    assert [(one.kind, one.first, one.last) for one in events.events(gated, queue="out")] == [("void", 2, 2)]
    (dead,) = dead_letters.dead_letters(gated, "work")
    assert dead.reason == "its handler made it a dead letter: no such customer"


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Unordered()], ids=lambda one: one.name)
def test_a_postponed_message_keeps_its_place_open(gated, policy):
    gated.define(replace(WORK, policy=policy))
    publish(gated, 3)
    with gated.session() as tx:
        tx.receive("work").postpone("1h")
    if isinstance(policy, sq.Unordered):
        work(gated, "b", "c")
    assert received(gated) == []
    place = groups.standing(gated, "out", "a").place
    assert (place.number, place.waits_for[0].why) == (1, "postponed")
    if isinstance(policy, sq.Unordered):
        (waits,) = messages.messages(gated, queue="work")
        messages.retry(gated, waits.message_id, queue="work", **BY)
        work(gated, "a")
    else:
        groups.retry(gated, "work", "a", **BY)
        work(gated, "a", "b", "c")
    assert received(gated) == [("a", 1, False), ("b", 2, False), ("c", 3, False)]


def test_a_result_calls_nobody_at_the_gate_before_its_place_is_closed(gated):
    gated.define(WAY, replace(WORK, gate=replace(WORK.gate, through=["price"])))
    publish(gated, 2)
    queues = dict(rows(gated, "SELECT queue, queue_id FROM {schema}.queues"))

    def called(tx):
        found = tx.connection.execute("SELECT queue_ids FROM test.arrivals ORDER BY arrival_id").fetchall()
        return [each for (each,) in found]

    with gated.session() as tx:
        first, second = tx.receive("work", limit=2)
        tx.publish(result("a"), cause=first)
        tx.publish([result("b"), result("p2")], cause=second)
        assert called(tx) == [[], [queues["price"]]]
    # What closes it does.
    waiting = "SELECT 1 FROM {schema}.requests WHERE queue_id = %s AND action = 'look'"
    assert len(rows(gated, waiting, queues["out"])) == 1
    assert received(gated) == [("a", 1, False)]


# ---- behind a hole


@pytest.fixture(params=["fifo", "unordered"])
def holey(request, moving):
    """Origin queues of both kinds, of which single places can stay open."""
    moving.define(WORK if request.param == "fifo" else replace(WORK, policy=sq.Unordered()))
    moving.define(
        replace(
            WORK,
            policy=sq.Fifo() if request.param == "fifo" else sq.Unordered(),
            gate=replace(WORK.gate, through=["price"]),
        )
    )
    yield moving
    assert invariants.broken(moving) == []


def worked_on(box, *answers):
    """Work on so many messages, one at a time, whichever they are."""
    for nth, its in enumerate(answers, 1):
        with box.session() as tx:
            (message,) = tx.receive("work", limit=1)
            assert message.context["n"] == nth
            for one in its.split():
                tx.publish(result(one), cause=message)


def looked(box):
    """What leaves, after everybody has looked: nothing waits that no place keeps, and no clock."""
    box.tick()
    assert invariants.broken(box) == []
    return [name for name, _, _ in received(box)]


def test_all_that_is_closed_leaves_after_a_hole_was_skipped(holey):
    clock = Clock(holey)
    publish(holey, 7)
    worked_on(holey, "x1", "x2", "p3", "x4", "x5", "", "x7")
    assert looked(holey) == ["x1", "x2"]
    clock.move(7)
    assert looked(holey) == ["x4", "x5", "x7"]
    assert skipped(holey) == [(3, 3)]
    assert looked(holey) == []


def test_each_of_several_holes_has_its_clock(holey):
    clock = Clock(holey)
    publish(holey, 9)
    worked_on(holey, "p1", "x2", "x3", "p4", "", "p6", "x7", "x8", "p9")
    assert looked(holey) == []
    clock.move(7)
    assert looked(holey) == ["x2", "x3"]
    clock.move(7)
    assert looked(holey) == []  # the fifth place was void
    clock.move(7)
    assert looked(holey) == ["x7", "x8"]
    assert skipped(holey) == [(6, 6), (4, 4), (1, 1)]
    work(holey, "x9", queue="price", group="p9")
    assert looked(holey) == ["x9"]


def test_reports_of_a_hole_come_first(holey):
    holey.define(replace(OUT, policy=sq.Standard(hole_timeout=6, hole_retries=2, on_hole="skip")))
    clock = Clock(holey)
    publish(holey, 4)
    worked_on(holey, "p1", "x2", "x3", "x4")
    assert looked(holey) == []
    for _ in range(2):
        clock.move(7)
        assert looked(holey) == []
    clock.move(7)
    assert looked(holey) == ["x2", "x3", "x4"]


def test_an_operator_skips_a_hole_with_much_behind_it(holey):
    holey.define(replace(OUT, policy=sq.Standard(hole_timeout=6, on_hole="wait")))
    publish(holey, 5)
    worked_on(holey, "p1", "x2", "x3", "p4", "x5")
    assert looked(holey) == []
    groups.skip_hole(holey, "out", "a", **BY)
    assert looked(holey) == ["x2", "x3"]
    groups.skip_hole(holey, "out", "a", **BY)
    assert looked(holey) == ["x5"]


def test_a_receiver_that_waits_gets_what_is_behind_a_hole(holey):
    clock = Clock(holey)
    publish(holey, 4)
    worked_on(holey, "p1", "x2", "x3", "x4")
    assert received(holey) == []
    clock.move(7)
    with holey.session() as tx:
        assert [one.context["of"] for one in tx.receive("out", limit=1)] == ["x2"]
    assert [name for name, _, _ in received(holey, limit=1)] == ["x3", "x4"]


def fed(reading, at):
    """What a pipeline gets next, behind where it is; and where it is then."""
    reader, batch, messages = reading.next(*at, None)
    names = []
    for part in reading.parts(reader, at[1], batch) if messages else ():
        for batches in reading.read(at[1], batch, part, reading.properties()):
            names += batches.column("of").to_pylist()
    return names, (reader, batch)


def test_a_pipeline_gets_what_is_behind_holes_that_were_skipped(holey):
    clock = Clock(holey)
    publish(holey, 9)
    worked_on(holey, "x1", "x2", "p3", "x4", "x5", "", "p7", "x8", "x9")
    with feed(holey, "out") as reading:
        names, at = fed(reading, ("", 0))
        assert names == ["x1", "x2"]
        assert fed(reading, at)[0] == []
        clock.move(7)
        names, at = fed(reading, at)
        assert names == ["x4", "x5"]
        assert invariants.broken(holey) == []
        clock.move(7)
        names, at = fed(reading, at)
        assert names == ["x8", "x9"]
        work(holey, "x7", queue="price", group="p7")
        assert fed(reading, at)[0] == []
    assert skipped(holey) == [(7, 7), (3, 3)]


def test_a_pipeline_gets_what_is_behind_a_hole_that_an_operator_skips(holey):
    holey.define(replace(OUT, policy=sq.Standard(hole_timeout=6, hole_retries=1, on_hole="wait")))
    clock = Clock(holey)
    publish(holey, 4)
    worked_on(holey, "p1", "x2", "x3", "x4")
    with feed(holey, "out") as reading:
        names, at = fed(reading, ("", 0))
        for _ in range(2):
            clock.move(7)
            names, at = fed(reading, at)
            assert names == []
        assert groups.group_view(holey, "out", "a").state == "timed_out"
        groups.skip_hole(holey, "out", "a", **BY)
        assert fed(reading, at)[0] == ["x2", "x3", "x4"]


def test_a_transaction_that_works_in_two_boxes_of_a_database_looks_at_the_gate_of_each(gated):
    MessageBox.migrate(gated.dsn, schema="another")
    with MessageBox.open(gated.dsn, schema="another") as other:
        other.define(*ALL)  # with the same numbers for its queues
        for box in (gated, other):
            publish(box, 1)
        with psycopg.connect(gated.dsn) as connection:
            for box in (gated, other):
                with box.session(connection=connection) as tx:
                    for message in tx.receive("work"):
                        tx.publish(result("x"), cause=message)
        assert received(gated) == received(other) == [("x", 1, False)]
        assert invariants.broken(other) == []
