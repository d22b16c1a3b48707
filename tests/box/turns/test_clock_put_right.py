"""A server's clock that was ahead, and is put right: what counts from a time to come is found, and counted from now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from seriatim import (
    Business,
    Contract,
    Fifo,
    Message,
    MessageBox,
    MessageType,
    Postpone,
    Queue,
    Recover,
    Retry,
    Schedule,
    Service,
    Session,
    Standard,
    Transient,
    Unordered,
    Worker,
)
from seriatim.box.faults.lease import claim, renew
from seriatim.operations import groups, invariants, schedules
from seriatim.operations.doctor import Finding, State
from seriatim.operations.doctor.box_checks import CHECKS
from seriatim.testing.clock import SEARCH_PATH, Clock
from tests.box.turns.test_times_of_arrival import SCHEMA, make, put_clock
from tests.databases import Databases
from tests.slow_clock import slow_down

pytestmark = pytest.mark.dear

DAY = timedelta(days=1)
SOON_S = 300
QUEUES = ("fifo", "loose", "holding")


def define(dsn: str) -> None:
    with MessageBox.open(dsn, schema=SCHEMA) as box:
        box.define(
            MessageType("case", {"key": "string", "number": "long"}),
            Queue("fifo", Fifo(), group="key", retry=Retry(delay=SOON_S, jitter=0), recover=Recover(1, delay="1h")),
            Queue("loose", Unordered(), retry=Retry(delay=SOON_S, jitter=0)),
            Queue(
                "holding",
                Standard(hole_timeout="1h"),
                group="key",
                sequence="number",
                retry=Retry(delay=SOON_S, jitter=0),
            ),
            Queue("talk", Fifo(), group="key"),
            Contract("Any", {"DEFAULT": "any"}),
            Service("Asks", queue="talk", contracts=["Any"]),
            Service("Answers", queue="talk", contracts=["Any"]),
        )


@pytest.fixture
def box(databases: Databases) -> Iterator[MessageBox]:
    movable = databases.template("a box with a clock that can be moved", make)
    template = databases.template("a clock that was ahead", define, movable, search_path=SEARCH_PATH)
    with databases.clone(template, search_path=SEARCH_PATH) as dsn, MessageBox.open(dsn, schema=SCHEMA) as opened:
        slow_down(opened)
        yield opened


@pytest.fixture
def clock(box: MessageBox) -> Clock:
    return Clock(box)


@pytest.fixture
def ahead(box: MessageBox, clock: Clock) -> Callable[[], None]:
    """The clock is a day ahead; the call puts it right."""
    clock.move(DAY.total_seconds())
    return lambda: put_clock(box, "0")


def send(box: MessageBox, to: str, number: int = 1, **more: Any) -> None:
    box.publish(Message(type="case", context={"key": "g", "number": number, "to": to}), **more)


def found(box: MessageBox) -> Finding:
    return CHECKS["times"](box)


def put_right(box: MessageBox, *told: str) -> int:
    """Let `doctor` find what waits, and `tick --now` take it up; then nothing is found any more."""
    box.tick()
    finding = found(box)
    assert finding.state is State.WRONG
    assert "seriatim box tick --now" in finding.remedy
    for one in told:
        assert one in finding.found
    box.tick()
    assert found(box).found == finding.found  # nothing is put right by itself
    done = box.tick(at_once=True)
    assert found(box).state is State.OK
    assert invariants.broken(box) == []
    return done.put_right


def waits_s(box: MessageBox, clock: Clock) -> int:
    """In how many seconds the last of what the box has may be seen."""
    with box.session() as tx:
        row = tx.connection.execute(f"SELECT max(visible_at) FROM {box.schema}.entries").fetchone()
    assert row is not None
    return round((row[0] - clock.now()).total_seconds())


def taken(box: MessageBox, queue: str) -> int:
    with box.session() as tx:
        delivery = tx.receive(queue)
        return 0 if delivery is None else len(list(delivery))


def fail_once(box: MessageBox, queue: str, error: Exception) -> None:
    def handle(message: Message, tx: Session) -> None:
        raise error

    Worker(box, queue, handle).run(until_idle=True)


@pytest.mark.parametrize("queue", QUEUES)
@pytest.mark.parametrize("error", [Transient("later"), Postpone(SOON_S)], ids=["retried", "postponed"])
def test_a_retry_and_a_postponement_keep_their_length(
    box: MessageBox, clock: Clock, ahead: Callable[[], None], queue: str, error: Exception
) -> None:
    send(box, queue)
    fail_once(box, queue, error)
    ahead()
    assert taken(box, queue) == 0
    assert put_right(box, f"queue '{queue}': 1 delayed message, until ") == 1
    assert SOON_S - 60 < waits_s(box, clock) <= SOON_S
    assert taken(box, queue) == 0
    clock.move(SOON_S)
    assert taken(box, queue) == 1


@pytest.mark.parametrize("queue", QUEUES)
def test_a_delay_of_a_publisher_keeps_its_length_and_a_moment_stays(
    box: MessageBox, clock: Clock, ahead: Callable[[], None], queue: str
) -> None:
    send(box, queue, delay="1h")
    ahead()
    assert put_right(box, f"queue '{queue}': 1 delayed message") == 1
    assert 3500 < waits_s(box, clock) <= 3600
    clock.move(3600)
    assert taken(box, queue) == 1
    moment = clock.now() + DAY
    send(box, queue, 2, visible_at=moment)
    assert found(box).state is State.OK
    assert box.tick(at_once=True).put_right == 0
    clock.move(DAY.total_seconds() - 60)
    assert taken(box, queue) == 0
    clock.move(61)
    assert taken(box, queue) == 1


def test_a_hole_behind_which_a_delayed_message_waits_begins_when_that_may_be_seen(
    box: MessageBox, clock: Clock, ahead: Callable[[], None]
) -> None:
    send(box, "holding", 2, delay="2h")
    box.tick()
    ahead()
    assert put_right(box, "queue 'holding': 1 delayed message") == 1
    clock.move(2 * 3600 + 3000)
    box.tick()
    assert groups.group_view(box, "holding", "g").state == "waiting"
    clock.move(700)
    box.tick()
    assert groups.group_view(box, "holding", "g").state == "timed_out"


@pytest.mark.parametrize("queue", QUEUES)
def test_the_lease_of_a_worker_that_was_killed_runs_out_after_its_length(
    box: MessageBox, clock: Clock, ahead: Callable[[], None], queue: str
) -> None:
    send(box, queue)
    with box.session() as tx:
        delivery = tx.receive(queue)
        assert delivery is not None
        claim(tx.transaction, delivery, 1, "killed", SOON_S * 1_000_000)
    ahead()
    clock.move(2 * SOON_S)
    assert taken(box, queue) == 0
    # Whose queue has no groups: the message, too.
    assert put_right(box, f"queue '{queue}': 1 lease") == (2 if queue == "loose" else 1)
    clock.move(SOON_S - 60)
    assert taken(box, queue) == 0
    clock.move(61)
    box.tick()
    clock.move(SOON_S)  # the retry: it counts as an attempt
    assert taken(box, queue) == 1


def test_a_lease_that_was_put_off_meanwhile_runs_out_too(box: MessageBox, clock: Clock) -> None:
    send(box, "fifo")
    with box.session() as tx:
        delivery = tx.receive("fifo")
        assert delivery is not None
        token = claim(tx.transaction, delivery, 1, "killed", SOON_S * 1_000_000).token
    clock.move(DAY.total_seconds())
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.leases SET expires_at = expires_at + interval '1 day'")
        queue = tx.access.known.current(tx.transaction).queue("fifo")
        assert renew(tx.transaction, queue, [token], SOON_S * 1_000_000) == {token}
    put_clock(box, "0")
    assert put_right(box, "queue 'fifo': 1 lease") == 1


def test_what_arrived_then_goes_before_what_came_later(
    box: MessageBox, clock: Clock, ahead: Callable[[], None]
) -> None:
    for queue in ("loose", "fifo"):
        send(box, queue)
    ahead()
    assert put_right(box, "queue 'loose': 1 new message", "queue 'fifo': 1 new message") == 2
    for queue in ("loose", "fifo"):
        box.publish(Message(type="case", context={"key": "h", "number": 2, "to": queue}))
    for queue in ("loose", "fifo"):
        with box.session() as tx:
            delivery = tx.receive(queue, limit=1)
            assert delivery is not None
            assert [message.context["number"] for message in delivery] == [1]


def test_a_fault_of_then_is_recovered(box: MessageBox, ahead: Callable[[], None]) -> None:
    send(box, "fifo")
    fail_once(box, "fifo", Business("no such customer"))
    ahead()
    assert box.tick().recovered == 0
    assert box.tick(at_once=True).recovered == 1


def test_a_schedule_publishes_at_its_next_due_time(box: MessageBox, clock: Clock, ahead: Callable[[], None]) -> None:
    box.define(Schedule("hourly", "0 * * * *", "case", context={"to": "loose"}))
    clock.move(3600)
    assert box.tick().scheduled == 1
    ahead()
    box.define(Schedule("paused", "0 * * * *", "case", context={"to": "loose"}))
    schedules.pause(box, "paused", actor="ann", reason="not now")
    assert put_right(box, "schedule 'hourly'") == 2  # and the queue of the message that came then
    (hourly, _) = schedules.schedules(box)
    assert hourly.next_at is not None
    assert timedelta(0) < hourly.next_at - clock.now() <= timedelta(hours=1)
    clock.move(3600)
    assert box.tick().scheduled == 1


def test_a_timer_and_a_lifetime_of_a_dialog_keep_their_lengths(
    box: MessageBox, clock: Clock, ahead: Callable[[], None]
) -> None:
    with box.session() as tx:
        timed = tx.begin_dialog("Asks", "Answers", contract="Any")
        tx.set_timer(timed, SOON_S)
        tx.begin_dialog("Asks", "Answers", contract="Any", lifetime="1h")
    ahead()
    clock.move(SOON_S + 1)
    assert box.tick().dialogs == 0
    assert put_right(box, "2 dialogs, until ") == 2
    clock.move(SOON_S + 1)
    assert box.tick().dialogs == 1
    clock.move(3600)
    assert box.tick().dialogs == 1


def test_a_process_that_died_then_has_no_share_any_more(
    box: MessageBox, clock: Clock, ahead: Callable[[], None]
) -> None:
    with box.session() as tx:
        tx.connection.execute(
            f"""INSERT INTO {box.schema}.known_workers (
                process_id, queue_id, name, host, pid, reads, mode, capacity, threads, run_length, busy, in_hand
            ) SELECT gen_random_uuid(), queue_id, 'x', 'y', 1, FALSE, 'transactional', 1, 1, 1, 0, '[]'
            FROM {box.schema}.queues WHERE queue = 'fifo'"""
        )
    ahead()
    box.tick(at_once=True)
    with box.session() as tx:
        row = tx.connection.execute(f"SELECT seen_at FROM {box.schema}.known_workers").fetchone()
    assert row is not None
    assert isinstance(row[0], datetime)
    assert row[0] <= clock.now()


def test_more_groups_than_fit_into_one_transaction_are_put_right(box: MessageBox, ahead: Callable[[], None]) -> None:
    box.publish([Message(type="case", context={"key": f"{n}", "number": 2, "to": "holding"}) for n in range(600)])
    box.tick()
    ahead()
    assert put_right(box, "queue 'holding': 600 groups") == 600
