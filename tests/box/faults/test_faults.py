"""What a handler failed at is written down, its group stops or goes on as its queue says, and nobody else waits."""

from __future__ import annotations

import json

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.rows import namedtuple_row

import seriatim as sq
from seriatim.box.faults.faults import Fault, LostTurn, fail, note_lost
from seriatim.kernel.operators.fault import FaultKind, Retry, retry_delay
from seriatim.operations import invariants, messages, queues

BUSINESS = Fault(FaultKind.BUSINESS, "ValueError", "no such customer", "w1", "Traceback …")
TRANSIENT = Fault(FaultKind.TRANSIENT, "TimeoutError", "try later", "w1")
POISON = Fault(FaultKind.POISON, "Killed", "signal 9", "w1")
ORDER = sq.MessageType("order", properties={"customer": "string", "version": "long"})


def define(box, **options):
    given = {"policy": sq.Standard(), "group": "customer", "sequence": "version"} | options
    box.define(ORDER, sq.Queue("shop", **given), sq.Subscription("shop", where="type = 'order'", to="shop"))


def publish(box, *numbers, customer="c1"):
    with box.session() as tx:
        tx.publish([sq.Message(type="order", context={"customer": customer, "version": one}) for one in numbers])


def rows(box, query, *arguments):
    with box.session() as tx, tx.connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(query.replace("{schema}", box.schema), arguments).fetchall()


def failing(box, done, size, what, *, limit=10, alone=True, group=None):
    with box.session() as tx:
        delivery = tx.receive("shop", limit=limit, group=group)
        return fail(tx.transaction, delivery, done, size, what, alone=alone)


def effect(result):
    return result.attempts, result.will_retry


def received(box, limit=10, group=None):
    with box.session() as tx:
        delivery = tx.receive("shop", limit=limit, group=group)
        return None if delivery is None else [one.sequence or one.ordinal for one in delivery]


def state_of(box, group="c1"):
    found = rows(box, "SELECT state FROM {schema}.groups WHERE queue = 'shop' AND group_key = %s", group)
    return found[0].state


def entries(box):
    query = "SELECT sequence, status, attempt, visible_at > now() AS waits FROM {schema}.entries ORDER BY sequence"
    return [tuple(row) for row in rows(box, query)]


def test_a_business_fault_stops_its_group_and_no_other(box):
    define(box)
    publish(box, 1, 2, 3)
    publish(box, 1, customer="c2")
    assert effect(failing(box, 1, 1, BUSINESS, group="c1")) == (1, False)
    assert state_of(box) == "faulted"
    assert [row[:3] for row in entries(box)] == [(1, "arrived", 0), (2, "queued", 1), (3, "queued", 0)]
    (fault,) = rows(box, "SELECT * FROM {schema}.faults")
    assert (fault.group_key, fault.sequence, fault.ordinal, fault.attempt) == ("c1", 2, 2, 1)
    assert (fault.kind, fault.error_class, fault.error) == ("business", "ValueError", "no such customer")
    assert (fault.type, fault.worker, fault.traceback, fault.retry_at) == ("order", "w1", "Traceback …", None)
    assert received(box) == [1]  # of c2
    publish(box, 4, 5)
    assert received(box) is None
    assert [row[1] for row in entries(box)] == ["queued", "queued", "held", "held"]
    assert invariants.broken(box) == []


def test_a_transient_fault_makes_the_group_wait(box):
    define(box, retry=sq.Retry(delay=3600, ceiling=3600, jitter=0))
    publish(box, 1, 2, 3)
    publish(box, 1, customer="c2")
    assert effect(failing(box, 1, 1, TRANSIENT, group="c1")) == (1, True)
    assert [row for row in entries(box) if row[0] > 1] == [(2, "queued", 1, True), (3, "queued", 0, None)]
    (fault,) = rows(box, "SELECT retry_at - at AS delay FROM {schema}.faults")
    assert fault.delay.total_seconds() == 3600
    assert received(box) == [1]
    publish(box, 4)
    assert received(box) is None  # what came later stays behind it
    due = rows(box, "SELECT due_at FROM {schema}.groups WHERE group_key = 'c1'")[0].due_at
    assert due == rows(box, "SELECT retry_at FROM {schema}.faults")[0].retry_at
    rows(box, "UPDATE {schema}.entries SET visible_at = now() RETURNING 1")
    rows(box, "UPDATE {schema}.known_groups SET due_at = 0 RETURNING 1")
    with box.session() as tx:
        assert [(one.sequence, one.attempt) for one in tx.receive("shop", limit=9)] == [(2, 2), (3, 1), (4, 1)]


def test_the_handler_may_say_how_long(box):
    define(box)
    publish(box, 1)
    failing(box, 0, 1, Fault(FaultKind.TRANSIENT, "Busy", "", "w1", retry_after=7_000_000))
    (fault,) = rows(box, "SELECT retry_at - at AS delay FROM {schema}.faults")
    assert fault.delay.total_seconds() == 7


def test_attempts_run_out(box):
    define(box, retry=sq.Retry(2, delay=0))
    publish(box, 1)
    assert effect(failing(box, 0, 1, TRANSIENT)) == (1, True)
    assert effect(failing(box, 0, 1, TRANSIENT)) == (2, False)
    assert state_of(box) == "faulted"
    assert [row.attempt for row in rows(box, "SELECT attempt FROM {schema}.faults ORDER BY fault_id")] == [1, 2]


@pytest.mark.parametrize("more", [0, 2])
def test_continue_sets_the_message_aside_and_the_group_goes_on(box, more):
    define(box, errors="continue")
    publish(box, 1, 2, *range(3, 3 + more))
    failing(box, 1, 1, BUSINESS, limit=2)
    assert state_of(box) == "ready"
    assert received(box) == ([3, 4] if more else None)
    publish(box, 3 + more)
    assert received(box) == [3 + more]
    (aside,) = rows(box, "SELECT * FROM {schema}.aside")
    assert (aside.disposition, aside.sequence, aside.ordinal, aside.attempt) == ("dead", 2, 2, 1)
    assert aside.reason == "its handler failed for good: ValueError: no such customer"
    assert invariants.broken(box) == []


def test_stop_turns_the_queue_off(box):
    define(box, errors="stop")
    publish(box, 1, 2)
    publish(box, 1, customer="c2")
    failing(box, 0, 1, BUSINESS, group="c1")
    with pytest.raises(sq.ActionRefused, match="the queue is off"):
        received(box)
    (change,) = rows(box, "SELECT what FROM {schema}.changes ORDER BY version DESC LIMIT 1")
    assert change.what.startswith("turned off queue shop: the handler failed for good at ")
    (log,) = rows(box, "SELECT actor, action, queue, group_key FROM {schema}.operator_log")
    assert tuple(log) == ("w1", "stop", "shop", "c1")
    queues.turn_on(box, "shop")
    assert received(box) == [1]  # of c2: the group that failed stays as it is
    assert state_of(box) == "faulted"


def test_without_groups_a_message_is_its_own_unit(box):
    define(box, policy=sq.Unordered(), group=None, sequence=None, retry=sq.Retry(delay=3600))
    publish(box, 1, 2, 3)
    assert failing(box, 0, 1, TRANSIENT, limit=1).will_retry
    failing(box, 0, 1, BUSINESS, limit=1)
    with box.session() as tx:
        assert [one.context["version"] for one in tx.receive("shop", limit=9)] == [3]
    assert [row.kind for row in rows(box, "SELECT kind FROM {schema}.faults ORDER BY fault_id")] == [
        "transient",
        "business",
    ]
    assert [row.disposition for row in rows(box, "SELECT disposition FROM {schema}.aside")] == ["dead"]


@pytest.mark.parametrize("errors", ["suspend", "continue"])
def test_a_set_fails_as_a_whole(box, errors):
    define(box, policy=sq.UnitOfWork(size=3), errors=errors)
    publish(box, 2, 1, 3)
    failing(box, 0, 3, BUSINESS)
    assert received(box) is None
    assert state_of(box) == ("faulted" if errors == "suspend" else "closed")
    assert len(rows(box, "SELECT FROM {schema}.aside")) == (0 if errors == "suspend" else 3)
    assert len(rows(box, "SELECT FROM {schema}.faults")) == 1
    assert invariants.broken(box) == []


def test_a_batch_that_fails_is_tried_one_by_one(box):
    define(box)
    publish(box, 1, 2, 3)
    assert failing(box, 0, 3, BUSINESS, alone=False).will_retry
    with box.session() as tx:
        assert [one.attempt for one in tx.receive("shop", limit=9).messages] == [2, 2, 2]


def test_failures_are_published_if_somebody_wants_them(box):
    define(box)
    publish(box, 1)
    publish(box, 1, customer="c2")
    failing(box, 0, 1, BUSINESS, group="c1")
    assert messages.messages(box, status="unrouted") == []
    box.define(sq.Queue("all", policy=sq.Unordered()), sq.Subscription("all", where="TRUE", to="all"))
    where = "type = 'seriatim.failure' AND failed_queue = 'shop' AND attempts = 1"
    box.define(
        sq.Queue("alarms", policy=sq.Fifo(), group="failed_group"), sq.Subscription("a", where=where, to="alarms")
    )
    failing(box, 0, 1, BUSINESS, group="c2")
    with box.session() as tx:
        (failure,) = tx.receive("alarms")
        assert failure.context["failed_type"] == "order"
        assert failure.context["error_class"] == "ValueError"
        assert failure.context["version"] == 1  # of the message
        assert json.loads(failure.body)["error"] == "no such customer"
        assert tx.receive("all") is None  # who wants everything hasn't asked for failures


def test_a_declared_failure_has_what_it_declares(box):
    define(box)
    box.define(
        sq.MessageType("seriatim.failure", properties={"error_class": "string", "attempts": "string"}),
        sq.Queue("alarms", policy=sq.Unordered()),
        sq.Subscription("a", where="error_class = 'ValueError' AND attempts = '1'", to="alarms"),
    )
    publish(box, 1)
    failing(box, 0, 1, BUSINESS)
    assert [one.type for one in messages.messages(box, status="unrouted")] in ([], ["seriatim.failure"])
    assert state_of(box) == "faulted"


def lost(box, what=POISON, *, patience_s=5.0, version=1):
    (row,) = rows(box, "SELECT entry_id, group_key FROM {schema}.entries WHERE sequence = %s", version)
    with box.session() as tx:
        return note_lost(tx.transaction, LostTurn("shop", row.group_key, row.entry_id), what, patience_s)


def test_what_a_killed_worker_had_counts_as_an_attempt(box):
    define(box, retry=sq.Retry(3))
    publish(box, 1, 2)
    assert effect(lost(box)) == (1, True)
    assert effect(lost(box)) == (2, True)
    with box.session() as tx:
        assert [one.attempt for one in tx.receive("shop", limit=9).messages] == [3, 1]
    assert effect(lost(box)) == (3, False)
    assert state_of(box) == "faulted"
    assert [row.kind for row in rows(box, "SELECT kind FROM {schema}.faults")] == ["poison"] * 3
    assert invariants.broken(box) == []


def test_what_is_behind_others_in_its_group_is_not_given_up_yet(box):
    define(box, retry=sq.Retry(1))
    publish(box, 1, 2)
    assert effect(lost(box, version=2)) == (1, True)
    assert received(box, limit=1) == [1]
    assert effect(lost(box, version=2)) == (2, False)
    assert state_of(box) == "faulted"


@pytest.mark.parametrize("errors", ["suspend", "continue"])
def test_what_is_behind_others_is_given_up_at_last(box, errors):
    define(box, retry=sq.Retry(1), errors=errors)
    publish(box, 1, 2, 3)
    assert effect(lost(box, version=2)) == (1, True)
    assert effect(lost(box, version=2)) == (2, True)
    assert effect(lost(box, version=2)) == (3, False)
    if errors == "suspend":
        assert state_of(box) == "faulted"
    else:
        assert received(box, limit=9) == [1, 3]
        assert [one.sequence for one in messages.messages(box, status="dead")] == [2]
    assert invariants.broken(box) == []


def test_what_is_done_or_in_other_hands_is_not_noted(box):
    define(box)
    publish(box, 1)
    with box.session() as tx:
        tx.receive("shop").messages  # noqa: B018 -- it is in hand
        assert lost(box, patience_s=0.05) is None
    with box.session() as tx:
        (entry_id,) = tx.receive("shop").entry_ids
    with box.session() as tx:
        assert [one.attempt for one in tx.receive("shop")] == [1]
    with box.session() as tx:
        assert note_lost(tx.transaction, LostTurn("shop", "c1", entry_id), POISON, 1.0) is None
    assert rows(box, "SELECT FROM {schema}.faults") == []


@pytest.mark.parametrize("policy", [sq.UnitOfWork(size=2), sq.Unordered()])
def test_lost_sets_and_single_messages(box, policy):
    named = {} if isinstance(policy, sq.UnitOfWork) else {"group": None, "sequence": None}
    define(box, policy=policy, retry=sq.Retry(1), errors="continue", **named)
    publish(box, 1, 2)
    (row, *_) = rows(box, "SELECT entry_id, group_key FROM {schema}.entries ORDER BY entry_id")
    group = row.group_key or None
    with box.session() as tx:
        assert effect(note_lost(tx.transaction, LostTurn("shop", group, row.entry_id), POISON, 1.0)) == (1, False)
    assert len(rows(box, "SELECT FROM {schema}.aside")) == (2 if group else 1)


def test_what_cannot_be_kept_is_made_so(box):
    define(box)
    publish(box, 1)
    failing(box, 0, 1, Fault(FaultKind.BUSINESS, "E", "a\0b\udc80", "w", "x" * 10**6))
    (row,) = rows(box, "SELECT error, length(traceback) AS size FROM {schema}.faults")
    assert row.error == "a\\0b\\udc80"
    assert row.size == 20_000


RETRY = Retry(attempts=5, delay=1.0, factor=2.0, ceiling=5.0, jitter=0.0)


def test_the_delays_grow_to_the_ceiling():
    delays = [retry_delay(RETRY, FaultKind.TRANSIENT, attempt, None, 0.7) for attempt in range(1, 7)]
    assert delays == [1_000_000, 2_000_000, 4_000_000, 5_000_000, None, None]
    assert retry_delay(RETRY, FaultKind.BUSINESS, 1, 5, 0.5) is None
    assert retry_delay(RETRY, FaultKind.POISON, 1, None, 0.5) == 0


def test_a_failing_message_keeps_its_group_for_15_seconds_at_most_by_default():
    retry = sq.Queue("q", sq.Fifo(), group="key").retry
    for chance in (0.0, 0.5, 1.0):
        delays = [retry_delay(retry, FaultKind.UNEXPECTED, attempt, None, chance) for attempt in range(1, 6)]
        assert delays[4] is None
        assert 10_000_000 < sum(delays[:4]) <= 15_000_000


@given(
    st.floats(1, 100), st.floats(0, 1), st.integers(1, 999), st.floats(0, 1), st.integers(0, 8 * 10**14),
    st.integers(0, 8 * 10**14),
)  # fmt: skip
def test_a_delay_is_within_its_bounds(factor, jitter, attempt, chance, delay, ceiling):
    retry = Retry(1_000, delay=delay / 10**6, factor=factor, ceiling=ceiling / 10**6, jitter=jitter)
    found = retry_delay(retry, FaultKind.TRANSIENT, attempt, None, chance)
    assert 0 <= found <= ceiling


def test_a_server_that_ends_while_an_attempt_is_noted_is_unavailable(box):
    define(box)

    def notes():
        with psycopg.connect(box.dsn, autocommit=True) as other, box.access.transaction() as transaction:
            other.execute("SELECT pg_terminate_backend(%s, 60000)", [transaction.connection.info.backend_pid])
            note_lost(transaction, LostTurn("shop", "c1", 1), POISON, 1.0)

    with pytest.raises(sq.Unavailable):
        notes()


def test_an_attempt_that_is_noted_after_somebody_else_has_done_the_turn_leaves_the_group_ready(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1, 2, 3, 4)
    held = []

    def lost():
        with box.session() as tx:
            held.append(tx.receive("shop", limit=2))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        lost()
    assert received(box, limit=2) == [1, 2]
    with box.session() as tx:
        assert note_lost(tx.transaction, LostTurn("shop", "c1", held[0].entry_ids[0]), POISON, 1.0, held[0]) is None
    assert invariants.broken(box) == []
    assert received(box) == [3, 4]
