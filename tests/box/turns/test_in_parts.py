"""A turn reads a part of what its group holds and of what arrived: what it costs, and that what becomes of messages is the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.box import receive
from seriatim.box.definitions.known import Known
from seriatim.box.publishing import sql_arrivals
from seriatim.box.turns import turn_reading
from seriatim.box.turns.turns import Turns
from seriatim.operations import groups, invariants
from tests import soak
from tests.box.shop import rows
from tests.conformance.case import Act, Arrive, Case, Message, positions
from tests.conformance.in_box import InBox
from tests.conformance.in_memory import InMemory, take_step
from tests.databases import box_with

pytestmark = pytest.mark.dear

EVENT = sq.MessageType("event", properties={"key": "string", "n": "long"})
#: The shortest wait, in seconds: it is over before the first look has ended.
NO_TIME = 1e-6


def with_queues(box):
    box.define(
        EVENT,
        sq.Queue("q", sq.Standard(), group="key", sequence="n"),
        sq.Queue("skips", sq.Standard(hole_timeout=60, on_hole="skip"), group="key", sequence="n"),
        sq.Queue("few", sq.Standard(capacity=300), group="key", sequence="n"),
        sq.Queue("stops", sq.Standard(late="suspend"), group="key", sequence="n"),
        sq.Queue("fifo", sq.Fifo(), group="key"),
        sq.Queue("rounds", sq.BestEffort(window=3600), group="key", sequence="n"),
        sq.Queue("sets", sq.UnitOfWork(size=500), group="key", sequence="n"),
    )


queues = box_with(with_queues)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A turn reads ten of each."""
    monkeypatch.setattr(turn_reading, "PORTION", turn_reading.Portion(held=10, arrived=10, together=20, each=2))


def publish(box, queue, key, numbers, *, together=False):
    """In runs, each a commit; or in one transaction, of which only the tickets know the order."""
    numbers = list(numbers)
    events = [sq.Message(type="event", context={"to": queue, "key": key, "n": n}) for n in numbers]
    if together:
        with box.session() as tx:
            tx.publish(events)
        return
    for at in range(0, len(events), 100):
        box.publish(events[at : at + 100])


def held(box, queue, key, count, first=2):
    """A group that holds so many, behind a hole."""
    publish(box, queue, key, range(first, first + count))
    assert received(box, queue, key) is None
    assert counted(box, key)["held"] == count


def received(box, queue, key=None, limit=50):
    with box.session() as tx:
        delivery = tx.receive(queue, limit=limit, group=key)
        return None if delivery is None else [one.context["n"] for one in delivery]


def drained(box, queue, key=None, limit=50):
    return [n for some in iter(lambda: received(box, queue, key, limit), None) for n in some]


def counted(box, key):
    found = rows(box, "SELECT status, count(*) AS n FROM {schema}.entries WHERE group_key = %s GROUP BY 1", key)
    return {"held": 0, "queued": 0, "arrived": 0} | {one.status: one.n for one in found}


def turn(box, queue, key, limit=1):
    """One turn: how many entries the server has read for it, and how many it took in."""
    with box.session() as tx:
        definitions = Known().read(tx.transaction)
        own, place = Turns(tx.transaction), definitions.queues[queue]
        before = read_by(tx)
        locked, begun = own.begin(place, limit, key, definitions.version)
        if not locked.keys:
            return 0, 0
        judged = own.look(place, locked, limit, wary=False, begun=begun)
        for one in own.deliver(place, locked, judged, definitions) or ():
            assert one.context["key"] == key
        return read_by(tx) - before, judged.arrived


def read_by(tx):
    return tx.connection.execute(
        "SELECT idx_tup_fetch + seq_tup_read AS n FROM pg_stat_xact_user_tables WHERE relname = 'entries'"
    ).fetchone()[0]  # fmt: skip


@pytest.mark.parametrize("queue", ["q", "skips", "few", "rounds", "sets"])
def test_what_arrives_costs_the_same_however_much_its_group_holds(queues, queue):
    costs = []
    for key, count in (("a few", 20), ("many", 250)):
        held(queues, queue, key, count)
        publish(queues, queue, key, [400])
        costs.append(turn(queues, queue, key))
    assert costs[0] == costs[1]
    assert costs[0][0] < 50
    assert invariants.broken(queues) == []


def test_what_arrives_in_a_suspended_group_costs_the_same(queues):
    for key, count in (("a few", 20), ("many", 200)):
        publish(queues, "fifo", key, [0])
        assert drained(queues, "fifo", key) == [0]
        groups.suspend(queues, "fifo", key, actor="a test", reason="to see")
        publish(queues, "fifo", key, range(1, count))
        assert received(queues, "fifo", key) is None
        publish(queues, "fifo", key, [count])
    assert turn(queues, "fifo", "a few") == turn(queues, "fifo", "many")
    groups.resume(queues, "fifo", "many", actor="a test", reason="to go on")
    assert drained(queues, "fifo", "many") == list(range(1, 201))


@pytest.mark.parametrize("together", [False, True], ids=["in runs", "in one transaction"])
def test_a_turn_takes_in_a_part_of_what_arrived(queues, together):
    publish(queues, "q", "a", range(1, 201), together=together)
    assert turn(queues, "q", "a", limit=1)[1] == 10
    read, taken = turn(queues, "q", "a", limit=0)
    assert (taken, counted(queues, "a")["arrived"]) == (10, 180)
    assert read < 60
    assert drained(queues, "q") == list(range(2, 201))
    assert invariants.broken(queues) == []


def test_a_number_that_is_held_far_behind_comes_again(queues):
    held(queues, "q", "a", 200)
    publish(queues, "q", "a", [150, 199, 3, 500, 500])
    assert received(queues, "q", "a") is None
    aside = rows(queues, "SELECT sequence, disposition FROM {schema}.aside ORDER BY sequence")
    assert aside == [(3, "duplicate"), (150, "duplicate"), (199, "duplicate"), (500, "duplicate")]
    publish(queues, "q", "a", [1])
    assert drained(queues, "q") == list(range(1, 202))
    assert invariants.broken(queues) == []


def test_a_long_run_leaves_in_parts_before_anything_else_is_judged(queues):
    held(queues, "q", "a", 100)
    publish(queues, "q", "a", [1, 102, 50, 103])
    turn(queues, "q", "a", limit=0)
    turn(queues, "q", "a", limit=0)
    found = counted(queues, "a")
    assert found["arrived"] == 3  # what came behind the number that was missing waits until all that it has set free is
    assert 0 < found["queued"] < 100
    group = groups.group_view(queues, "q", "a")
    assert (str(group.state), group.hole_since) == ("ready", None)
    assert drained(queues, "q", limit=7) == list(range(1, 104))
    assert invariants.broken(queues) == []


def test_a_group_of_which_a_run_is_leaving_keeps_its_place(queues):
    held(queues, "q", "a", 100)
    publish(queues, "q", "a", [1])
    publish(queues, "q", "b", range(1, 100))
    got = [received(queues, "q", limit=10) for _ in range(10)]
    assert [n for some in got for n in some] == list(range(1, 101))


def test_a_tick_goes_on_with_what_is_leaving(queues):
    held(queues, "q", "a", 100)
    publish(queues, "q", "a", [1])
    turn(queues, "q", "a", limit=0)
    before = counted(queues, "a")["held"]
    queues.tick()
    assert counted(queues, "a")["held"] < before


def test_a_capacity_counts_what_was_not_read(queues):
    held(queues, "few", "a", 300)
    publish(queues, "few", "a", [400, 1, 401])
    assert drained(queues, "few") == list(range(1, 302))
    assert rows(queues, "SELECT sequence, disposition FROM {schema}.aside") == [(400, "rejected")]
    assert counted(queues, "a") == {"held": 1, "queued": 0, "arrived": 0}
    assert invariants.broken(queues) == []


def turns_of_waits(box, left, queue="q"):
    """The messages left after each call with the shortest wait, until none is left."""
    found = []
    while not found or found[-1]:
        with box.session() as tx:
            assert tx.receive(queue, wait=NO_TIME) is None
        found.append(left())
    return found


def test_a_wait_ends_with_the_turn_after_its_time_is_over_and_the_next_call_goes_on(queues):
    publish(queues, "q", "a", range(2, 62))
    assert turns_of_waits(queues, lambda: counted(queues, "a")["arrived"]) == [40, 20, 0]
    publish(queues, "q", "a", [1])
    assert drained(queues, "q") == list(range(1, 62))
    assert invariants.broken(queues) == []


def test_a_wait_ends_after_some_of_many_groups_with_nothing_to_hand_out(queues, monkeypatch):
    monkeypatch.setattr(receive, "_GROUPS_AHEAD", 4)
    for key in range(30):
        publish(queues, "q", f"g{key}", [2])
    arrived = "SELECT count(*) AS n FROM {schema}.entries WHERE status = 'arrived'"
    assert turns_of_waits(queues, lambda: rows(queues, arrived)[0].n) == [20, 10, 0]


def test_a_wait_ends_after_some_of_what_was_published_through_sql_is_routed(queues, monkeypatch):
    monkeypatch.setattr(sql_arrivals, "_MOST_MESSAGES", 7)
    context = """jsonb_build_object('to', 'q', 'key', 'a', 'n', n)"""
    rows(queues, "SELECT {schema}.publish('event', '', " + context + ") FROM generate_series(2, 21) AS n")
    waiting = "SELECT count(*) AS n FROM {schema}.to_route"
    assert turns_of_waits(queues, lambda: rows(queues, waiting)[0].n) == [6, 0]


@pytest.mark.parametrize("queue", ["q", "fifo"])
def test_a_wait_hands_out_what_was_routed_after_its_time_was_over(queues, queue):
    rows(queues, "SELECT {schema}.publish('event', '', %s)", f'{{"to": "{queue}", "key": "a", "n": 1}}')
    with queues.session() as tx:
        assert [one.context["n"] for one in tx.receive(queue, wait=NO_TIME)] == [1]


def test_without_a_wait_all_is_judged_before_there_is_nothing(queues):
    publish(queues, "q", "a", [*range(2, 62), 1])
    assert drained(queues, "q") == list(range(1, 62))


def test_a_set_leaves_whole(queues):
    publish(queues, "sets", "a", range(500, 1, -1))
    assert received(queues, "sets") is None
    assert counted(queues, "a")["held"] == 499
    publish(queues, "sets", "a", [7, 1, 1])
    assert received(queues, "sets") == list(range(1, 501))
    assert drained(queues, "sets") == []
    assert invariants.broken(queues) == []


@pytest.mark.parametrize("action", ["skip_hole", "resume", "reset"])
def test_after_what_an_operator_does_a_long_run_leaves_in_parts(queues, action):
    held(queues, "q", "a", 100, first=5)
    by = {"actor": "a test", "reason": "to see"}
    if action == "resume":
        groups.suspend(queues, "q", "a", **by)
        publish(queues, "q", "a", range(1, 5))
        assert received(queues, "q", "a") is None
        done, first = groups.resume(queues, "q", "a", **by), 1
    elif action == "reset":
        done, first = groups.reset(queues, "q", "a", next=50, **by), 50
    else:
        done, first = groups.skip_hole(queues, "q", "a", **by), 5
    # All of what is held was read for a reset.
    assert (done.released < 105 - first, done.more) == ((False, False) if action == "reset" else (True, True))
    assert drained(queues, "q") == list(range(first, 105))
    assert invariants.broken(queues) == []


def test_a_late_message_that_comes_behind_a_long_run_suspends_the_group_behind_it(queues):
    publish(queues, "stops", "a", [2])
    groups.skip_hole(queues, "stops", "a", actor="a test", reason="to see")
    assert received(queues, "stops") == [2]
    publish(queues, "stops", "a", range(4, 41), together=True)
    assert received(queues, "stops") is None
    publish(queues, "stops", "a", [3, 1], together=True)
    first = drained(queues, "stops")
    assert counted(queues, "a") == {"held": 1, "queued": 38 - len(first), "arrived": 0}  # it is suspended now
    groups.skip_message(queues, "stops", "a", actor="a test", reason="to see")
    assert first + drained(queues, "stops") == list(range(3, 41))
    assert invariants.broken(queues) == []


def test_an_operator_acts_after_all_that_arrived_before(queues):
    publish(queues, "q", "a", range(300, 200, -1))
    publish(queues, "q", "a", range(1, 101))
    groups.skip_hole(queues, "q", "a", actor="a test", reason="to see")
    assert drained(queues, "q") == [*range(1, 101), *range(201, 301)]


POLICIES = (
    sq.Standard(),
    sq.Standard(hole_timeout=2, on_hole="skip"),
    sq.Standard(hole_timeout=1, hole_retries=1, on_hole="skip", late="deliver"),
    sq.Standard(hole_timeout=2, on_hole="skip", late="suspend"),
    sq.Standard(hole_timeout=3, late="suspend", capacity=7),
    sq.Standard(start="first", increment=2, late="deliver", capacity=4),
    sq.BestEffort(window=2, buffer=0.5, late="suspend"),
    sq.BestEffort(window=2, late="deliver"),
    sq.UnitOfWork(size=6, timeout=9),
    sq.UnitOfWork(size="size", timeout=9),
    sq.Fifo(),
)
#: Without those that say where to go on: a `next` that fits is rarely hit by chance.
ACTIONS = ("suspend", "resume", "skip_hole", "skip_message", "close", "abort", "resume", "skip_hole")


def chance_case(chance, name, policy):
    """A case by chance: what comes, mostly near what is missing, and what operators do, refused where it doesn't fit."""
    steps, now, numbers = [], 0.0, list(range(1, 25))
    chance.shuffle(numbers)
    numbers.sort(key=lambda n: n + chance.randrange(12))
    for _ in range(chance.randrange(4, 14)):
        now += chance.choice((0, 0, 0.5, 1, 3))
        if chance.random() < 0.2:
            steps.append(Act(chance.choice(ACTIONS), "g", now))
            continue
        size = {"size": chance.choice((6, 6, 9))} if chance.random() < 0.2 else {}
        come = [
            Message(chance.choice("gggh"), chance.choice(numbers[:10]), now, "", size)
            for _ in range(chance.randrange(1, 9))
        ]
        numbers = numbers[chance.randrange(4) :] or [30]
        steps.append(Arrive(tuple(come)))
    case = Case(name, "by chance", policy, tuple(steps))
    return replace(case, steps=tuple(_with_refused(case)))


def _with_refused(case):
    sequencer, known = sq.Sequencer(case.policy), set()
    for step, numbers in positions(case):
        if isinstance(step, Act):
            if step.group not in known:
                continue
            try:
                sequencer.advance(step.at)
                getattr(sequencer, step.action)(step.group, now=step.at)
            except sq.ActionRefused:
                yield replace(step, refused=True)
                continue
            yield step
        else:
            take_step(sequencer, case, step, numbers)
            known |= {one.group for one in step.messages}
            yield step


def said(case, result):
    """What became of each message; of what is released in its order."""
    groups = [one.group for one in case.messages]
    released = [(groups[one.message], one.ordinal, one.message, one.late) for one in result.fates if one.ordinal]
    others = sorted((one.message, one.disposition) for one in result.fates if not one.ordinal)
    left = [sorted(one.message for one in some) for some in result.left_by_step]
    return sorted(released), others, left, sorted(result.reports, key=str)


@pytest.mark.telling
@pytest.mark.soak
def test_what_becomes_of_messages_is_the_same_as_in_memory(postgresql, monkeypatch):
    chance = random.Random(soak.seed())
    cases = [
        chance_case(chance, f"{nth} {policy.name}", policy)
        for nth, policy in enumerate(POLICIES * soak.sized(40, 3, 1))
    ]
    with sq.MessageBox.open(postgresql, schema="in_parts") as box:
        engine = InBox(box, cases, 2, straight=False)
        for nth, case in enumerate(cases):
            small = turn_reading.Portion(held=1 + nth % 3, arrived=1 + nth % 4, together=2, each=1)
            monkeypatch.setattr(turn_reading, "PORTION", small)
            expected = said(case, InMemory(sq.Sequencer).run(case))
            assert said(case, engine.run(case)) == expected, case
        assert invariants.broken(box) == []


@pytest.mark.parametrize("queue", ["q", "fifo"])
def test_another_group_is_found_as_fast_however_much_has_arrived_in_one_that_is_locked(queues, queue):
    costs = []
    for count in (1_500, 3_000):
        publish(queues, queue, f"long{count}", range(1, count + 1), together=True)
        publish(queues, queue, f"other{count}", [1])
        with queues.session() as holder:
            locked = Turns(holder.transaction).lock(queues.definitions().queues[queue], 1, f"long{count}")
            assert locked.keys == [f"long{count}"]
            with queues.session() as tx:
                before = read_by(tx)
                found = Turns(tx.transaction).lock(queues.definitions().queues[queue])
                assert found.keys == [f"other{count}"]
                own = Turns(tx.transaction)
                own.hand_out(queues.definitions().queues[queue], 1, None, queues.definitions(), arrived=queue == "fifo")
                costs.append(read_by(tx) - before)
            assert received(queues, queue) == [1]
        rows(queues, "DELETE FROM {schema}.entries")
    assert costs[1] <= costs[0] + 20
    assert costs[0] < 5_000


@pytest.mark.parametrize("queue", ["q", "fifo"])
def test_all_groups_behind_a_long_one_that_is_locked_are_worked_on(queues, queue):
    publish(queues, queue, "long", range(1, 1_201), together=True)
    for key in ("a", "b", "c"):
        publish(queues, queue, key, [1, 2])
    with queues.session() as holder:
        assert Turns(holder.transaction).lock(queues.definitions().queues[queue], 1, "long").keys == ["long"]
        assert sorted(drained(queues, queue)) == [1, 1, 1, 2, 2, 2]
    assert drained(queues, queue) == list(range(1, 1_201))
    assert invariants.broken(queues) == []
