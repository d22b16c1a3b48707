"""A clock begins with the arrival of the message that started it, whoever looks when; and `tick` judges what has arrived."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime

import pytest

from seriatim import BestEffort, Message, MessageBox, MessageType, Queue, Standard, Subscription, UnitOfWork, Unordered
from seriatim.box import tick
from seriatim.box.definitions.known import Known
from seriatim.box.turns import turn_reading
from seriatim.box.turns.turns import Turns
from seriatim.box.views.groups import GroupView
from seriatim.errors import ActionRefused
from seriatim.operations import dead_letters, groups, invariants
from seriatim.testing.clock import SEARCH_PATH, Clock, make_movable
from tests.databases import Databases
from tests.slow_clock import slow_down

SCHEMA = "seriatim"
QUEUES = {
    "rounds": BestEffort(window=6),
    "skipping": Standard(hole_timeout=6, on_hole="skip"),
    "waiting": Standard(hole_timeout=6),
    "sets": UnitOfWork(size="size", timeout=6),
}


def make(dsn: str) -> None:
    MessageBox.migrate(dsn, schema=SCHEMA)
    make_movable(dsn, SCHEMA)


def define(dsn: str) -> None:
    with MessageBox.open(dsn, schema=SCHEMA) as box:
        properties = {"key": "string", "number": "long", "size": "long", "priority": "long"}
        box.define(
            MessageType("case", properties),
            *(
                Queue(name, policy, group="key", sequence="number", priority="priority")
                for name, policy in QUEUES.items()
            ),
            Queue("failures", Unordered()),
            Subscription("failures", where="type = 'seriatim.failure'", to="failures"),
        )


@pytest.fixture
def box(databases: Databases) -> Iterator[MessageBox]:
    """A box with a clock that can be moved."""
    movable = databases.template("a box with a clock that can be moved", make)
    template = databases.template("times of arrival", define, movable, search_path=SEARCH_PATH)
    with databases.clone(template, search_path=SEARCH_PATH) as dsn, MessageBox.open(dsn, schema=SCHEMA) as opened:
        slow_down(opened)
        yield opened


@pytest.fixture
def clock(box: MessageBox) -> Clock:
    return Clock(box)


def send(box: MessageBox, to: str, *numbers: int, group: str = "g", delay: str | None = None, **more: object) -> None:
    box.publish(
        [Message(type="case", context={"key": group, "number": n, "to": to, **more}) for n in numbers], delay=delay
    )


def taken(box: MessageBox, queue: str) -> list[int]:
    """The sequences of all that can be received now."""
    found: list[int] = []
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=100)
            if delivery is None:
                return found
            found += [int(message.context["number"]) for message in delivery]


def told(box: MessageBox) -> list[str]:
    """The failures that were published."""
    with box.session() as tx:
        return [
            f"{m.context['failed_queue']}: {json.loads(m.body)['error']}"
            for m in tx.receive("failures", limit=100) or ()
        ]


def shown(box: MessageBox, queue: str) -> GroupView:
    return groups.group_view(box, queue, "g")


def age_s(moment: datetime | None, clock: Clock) -> int:
    """How long ago that was, whole seconds."""
    assert moment is not None
    return round((clock.now() - moment).total_seconds())


def test_a_window_begins_with_its_first_message(box: MessageBox, clock: Clock) -> None:
    send(box, "rounds", 2, 1)
    clock.move(10)
    assert taken(box, "rounds") == [1, 2]


def test_a_hole_opens_with_the_message_behind_it(box: MessageBox, clock: Clock) -> None:
    send(box, "skipping", 2)
    send(box, "waiting", 2)
    clock.move(10)
    assert taken(box, "skipping") == [2]
    assert taken(box, "waiting") == []
    assert shown(box, "waiting").state == "timed_out"
    assert age_s(shown(box, "waiting").hole_since, clock) == 10
    assert told(box) == ["skipping: number 1 is missing", "waiting: number 1 is missing"]


def test_a_set_times_out_from_its_first_message_on(box: MessageBox, clock: Clock) -> None:
    send(box, "sets", 2, size=2)
    clock.move(10)
    assert taken(box, "sets") == []
    assert shown(box, "sets").state == "closed"


def test_a_hole_that_was_filled_before_anybody_looked_is_filled(box: MessageBox, clock: Clock) -> None:
    send(box, "skipping", 2, 4)
    clock.move(3600)
    send(box, "skipping", 3, 1)
    assert taken(box, "skipping") == [1, 2, 3, 4]
    assert told(box) == []


def test_a_round_that_is_due_takes_in_what_has_arrived(box: MessageBox, clock: Clock) -> None:
    send(box, "rounds", 5)
    box.tick()
    clock.move(60)
    send(box, "rounds", 3)
    assert taken(box, "rounds") == [3, 5]


@pytest.mark.parametrize("queue", QUEUES)
def test_what_is_due_waits_for_all_that_has_arrived(
    box: MessageBox, clock: Clock, monkeypatch: pytest.MonkeyPatch, queue: str
) -> None:
    monkeypatch.setattr(turn_reading, "PORTION", turn_reading.Portion(held=2, arrived=2, together=4, each=1))
    numbers = [*range(9, 1, -1), 1]
    for number in numbers:
        send(box, queue, number, size=9)
        clock.move(1)
    assert taken(box, queue) == sorted(numbers)
    assert told(box) == []


def test_a_hole_opens_no_earlier_than_the_message_behind_it_arrived(box: MessageBox, clock: Clock) -> None:
    send(box, "skipping", 2)
    clock.move(8)
    send(box, "skipping", 4)
    clock.move(2)
    assert taken(box, "skipping") == [2]  # the first hole was over after 6 s; the second is 2 s old
    assert age_s(shown(box, "skipping").hole_since, clock) == 2
    clock.move(5)
    assert taken(box, "skipping") == [4]


def test_a_round_begins_no_earlier_than_its_first_message_arrived(box: MessageBox, clock: Clock) -> None:
    send(box, "rounds", 1)
    clock.move(6.3)
    assert taken(box, "rounds") == []  # the highest of the round is fixed
    clock.move(4)
    send(box, "rounds", 2)
    assert taken(box, "rounds") == [1]
    clock.move(5)
    assert taken(box, "rounds") == []
    clock.move(2)
    assert taken(box, "rounds") == [2]


def test_a_delayed_message_arrives_when_it_may_be_seen(box: MessageBox, clock: Clock) -> None:
    send(box, "waiting", 2, delay="1h")
    box.tick()
    assert age_s(shown(box, "waiting").hole_since, clock) == -3600
    clock.move(3605)
    box.tick()
    assert shown(box, "waiting").state == "waiting"
    clock.move(2)
    box.tick()
    assert shown(box, "waiting").state == "timed_out"


def test_a_message_that_is_put_back_arrives_then(box: MessageBox, clock: Clock) -> None:
    send(box, "sets", 2, size=2)
    clock.move(10)
    box.tick()
    (gone,) = dead_letters.dead_letters(box, "sets")
    groups.forget(box, "sets", "g")
    clock.move(3600)
    dead_letters.requeue(box, gone.entry_id, actor="test", reason="test")
    assert shown(box, "sets").state == "ready"
    clock.move(7)
    box.tick()
    assert shown(box, "sets").state == "closed"


def test_a_message_published_through_sql_arrives_with_its_ticket(box: MessageBox, clock: Clock) -> None:
    with box.session() as tx:
        context = json.dumps({"key": "g", "number": 2, "to": "waiting"})
        tx.connection.execute(f"SELECT {box.schema}.publish('case', '', %s::jsonb)", [context])
    clock.move(10)
    box.tick()
    assert age_s(shown(box, "waiting").hole_since, clock) == 10
    assert shown(box, "waiting").state == "timed_out"


def test_a_transaction_arrives_when_it_commits(box: MessageBox, clock: Clock) -> None:
    with box.session() as tx:
        for number in (3, 2):
            tx.publish(Message(type="case", context={"key": "g", "number": number, "to": "waiting"}))
        tx.connection.execute("UPDATE seriatim_clock.moved SET by = by + interval '5 s'")
    box.tick()
    assert age_s(shown(box, "waiting").hole_since, clock) == 0


def test_no_receiver_is_needed_to_tell_of_holes_and_failures(box: MessageBox, clock: Clock) -> None:
    send(box, "waiting", 3)
    assert shown(box, "waiting").state == "ready"  # nobody has looked
    assert box.tick().groups == 1
    view = shown(box, "waiting")
    assert (view.state, view.next, view.hole_through, view.arrived, view.held) == ("waiting", 1, 2, 0, 1)
    send(box, "waiting", 0)
    clock.move(7)
    assert box.tick().groups == 1
    assert shown(box, "waiting").state == "timed_out"
    assert told(box) == [
        "waiting: the numbers 1 to 2 are missing",
        "waiting: the sequence is below the first number of its group",
    ]
    assert box.tick().groups == 0
    assert invariants.broken(box) == []


def test_all_groups_are_judged_however_many_there_are(box: MessageBox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tick, "_GROUPS", 3)
    monkeypatch.setattr(turn_reading, "PORTION", turn_reading.Portion(held=2, arrived=2, together=4, each=1))
    for priority in (1, 5, 10):
        box.publish(
            [
                Message(type="case", context={"key": f"{n % 7}", "number": n, "to": "waiting", "priority": priority})
                for n in range(20, 90)
            ]
        )
    send(box, "rounds", 1)
    assert box.tick().groups == 8
    assert sum(view.arrived for view in groups.groups(box)) == 0


def test_what_waits_to_be_routed_has_arrived(box: MessageBox, clock: Clock) -> None:
    send(box, "skipping", 2)
    clock.move(10)
    with box.session() as tx:
        context = json.dumps({"key": "g", "number": 1, "to": "skipping"})
        tx.connection.execute(f"SELECT {box.schema}.publish('case', '', %s::jsonb)", [context])
    with box.session() as tx:  # a turn that may not wait until it is routed
        found = Known().read(tx.transaction).queue("skipping")
        of_box = Turns(tx.transaction)
        of_box.judge_all(found, of_box.lock(found, 1))
    assert shown(box, "skipping").state == "waiting"
    assert taken(box, "skipping") == [1, 2]
    assert told(box) == []


def put_clock(box: MessageBox, by: str) -> None:
    """The machine's clock is wrong by that much now."""
    with box.session() as tx:
        tx.connection.execute("UPDATE seriatim_clock.moved SET by = %s::interval", [by])


def test_a_clock_that_was_ahead_is_shown_and_put_right(box: MessageBox, clock: Clock) -> None:
    clock.move("2h")
    for queue in QUEUES:
        send(box, queue, 2, size=2)
    box.tick()
    send(box, "rounds", 1, group="unseen")
    put_clock(box, "1 minute")
    ahead = {view.queue: view.clock_was_ahead for view in groups.groups(box) if view.group == "g"}
    assert ahead == dict.fromkeys(QUEUES, "due in 1 h 59 m: the clock was ahead")
    assert "clock was ahead" in groups.standing(box, "waiting", "g").why
    assert groups.standing(box, "waiting", "g").helps == ("retry", "skip_hole")
    assert groups.retry(box, "waiting", "g", actor="test", reason="test").after == "waiting"
    assert shown(box, "waiting").clock_was_ahead is None
    assert age_s(shown(box, "waiting").hole_since, clock) == 0
    with pytest.raises(ActionRefused, match="cannot retry a group that is waiting"):
        groups.retry(box, "waiting", "g", actor="test", reason="test")
    done = box.tick(at_once=True)
    assert (done.put_right, done.groups) == (4, 4)  # the one that nobody had looked at, too
    assert {view.clock_was_ahead for view in groups.groups(box)} == {None}
    clock.move(7)
    assert taken(box, "skipping") == [2]
    assert sorted(taken(box, "rounds")) == [1, 2]  # of two groups
    box.tick()
    assert (shown(box, "waiting").state, shown(box, "sets").state) == ("timed_out", "closed")
    assert box.tick(at_once=True).put_right == 0
    assert invariants.broken(box) == []


def test_a_delayed_message_is_no_clock_that_was_ahead(box: MessageBox) -> None:
    send(box, "waiting", 2, delay="1h")
    box.tick()
    assert shown(box, "waiting").clock_was_ahead is None
    assert box.tick(at_once=True).put_right == 0
    with pytest.raises(ActionRefused):
        groups.retry(box, "waiting", "g", actor="test", reason="test")
