"""A handler says "not now", or makes its message a dead letter: under each policy, in a transaction and in a lease."""

from __future__ import annotations

import pickle
from datetime import timedelta

import pytest

import seriatim as sq
from seriatim.operations import groups, invariants, messages
from tests.box.shop import define, left, publish, rows, see, seen
from tests.runtime.workers.test_worker import work

pytestmark = pytest.mark.dear

MODES = {
    "transaction": {"workers": 1},
    "lease": {"workers": 1, "mode": "leased", "lease": sq.Lease(600.0, heartbeat=0.2)},
}
POLICIES = {
    "standard": (sq.Standard(), {}),
    "fifo": (sq.Fifo(), {"sequence": None}),
    "best_effort": (sq.BestEffort(), {}),
    "unit_of_work": (sq.UnitOfWork(size=4), {}),
    "unordered": (sq.Unordered(), {"group": None, "sequence": None}),
}
SHAPES = {
    "single": {"pace": sq.Pace(run_length=1)},
    "run": {"pace": sq.Pace(run_length=4)},
    "batch": {"pace": sq.Pace(run_length=4), "batch": True},
}
in_each_mode = pytest.mark.parametrize("mode", MODES)


def postponed(box):
    query = """SELECT (stored.context ->> 'version')::bigint AS version, entry.postponed, entry.attempt
        FROM {schema}.entries AS entry JOIN {schema}.spool AS stored USING (arrival_id, position) ORDER BY 1"""
    return [tuple(row) for row in rows(box, query)]


def is_postponed(box):
    return rows(box, "SELECT FROM {schema}.entries WHERE postponed IS NOT NULL")


@pytest.mark.dear
@in_each_mode
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_done_stays_done_and_the_rest_waits(box, mode, policy, shape):
    """The third message isn't for now. Once its time has come it is handled, and nothing was counted."""
    declared, more = POLICIES[policy]
    define(box, policy=declared, retry=sq.Retry(1), **more)
    publish(box, 1, 2, 3, 4)
    calls, together = [], shape == "batch" or policy == "unit_of_work"

    def handle(given, tx):
        for message in given if together else [given]:
            calls.append((message.context["version"], message.attempt))
            see(box, message, tx)
            if message.context["version"] == 3 and calls.count((3, 1)) == 1:
                raise sq.Postpone("0.05s" if declared.name == "fifo" else timedelta(milliseconds=50))

    work(box, handle, **MODES[mode], **SHAPES[shape])
    found = seen(box)
    assert sorted(found) == [("c1", one) for one in (1, 2, 3, 4)]
    assert policy == "unordered" or found == sorted(found)
    assert {attempt for _, attempt in calls} == {1}
    assert calls.count((1, 1)) == (2 if together else 1)
    assert rows(box, "SELECT FROM {schema}.faults") == []
    assert rows(box, "SELECT FROM {schema}.leases") == []
    assert invariants.broken(box) == []


@in_each_mode
@pytest.mark.parametrize("policy", POLICIES)
def test_while_it_waits(box, mode, policy):
    """Of a group nothing passes its first message; without groups the others are handled."""
    declared, more = POLICIES[policy]
    define(box, policy=declared, **more)
    publish(box, 1, 2, 3, 4)
    loose = policy == "unordered"

    def handle(given, tx):
        for message in given if policy == "unit_of_work" else [given]:
            see(box, message, tx)
            if message.context["version"] == 2:
                raise sq.Postpone("1h")

    def is_done():
        return is_postponed(box) and (not loose or left(box) == 1)

    work(box, handle, done=is_done, run_length=3, **MODES[mode])
    assert postponed(box) == {
        "unit_of_work": [(1, 1, 0), (2, 1, 0), (3, 1, 0), (4, 1, 0)],
        "unordered": [(2, 1, 0)],
    }.get(policy, [(2, 1, 0), (3, None, 0), (4, None, 0)])
    assert invariants.broken(box) == []
    who = {"actor": "ann", "reason": "now"}
    if loose:
        (waits,) = messages.messages(box, queue="shop")
        assert waits.postponement.endswith("(1 time)")
        messages.retry(box, waits.message_id, queue="shop", **who)
    else:
        (view,) = groups.stopped(box)
        assert (view.state, view.reason) == ("waiting", view.postponement)
        groups.retry(box, "shop", "c1", **who)
    together = policy == "unit_of_work"
    work(box, lambda given, tx: [see(box, one, tx) for one in (given if together else [given])] and None, **MODES[mode])
    assert sorted(seen(box)) == [("c1", one) for one in (1, 2, 3, 4)]
    assert rows(box, "SELECT FROM {schema}.faults") == []
    assert invariants.broken(box) == []


@in_each_mode
@pytest.mark.parametrize("policy", ["standard", "fifo", "unordered"])
def test_a_batch_says_what_is_done_and_what_waits(box, mode, policy):
    declared, more = POLICIES[policy]
    define(box, policy=declared, **more)
    publish(box, 1, 2, 3, 4)

    def handle(given, tx):
        for message in given.messages[:2]:
            see(box, message, tx)
        return sq.Consumed(2, postpone="1h")

    work(box, handle, done=lambda: is_postponed(box), batch=True, run_length=4, **MODES[mode])
    assert seen(box) == [("c1", 1), ("c1", 2)]
    assert postponed(box) == [(3, 1, 0), (4, 1 if policy == "unordered" else None, 0)]
    assert invariants.broken(box) == []


@in_each_mode
@pytest.mark.parametrize(("policy", "shape"), [*((policy, "run") for policy in POLICIES), ("standard", "batch")])
def test_a_dead_letter_goes_alone(box, mode, policy, shape):
    declared, more = POLICIES[policy]
    define(box, policy=declared, retry=sq.Retry(5), **more)
    publish(box, 1, 2, 3, 4)
    whole = policy == "unit_of_work"
    together = shape == "batch" or whole

    def handle(given, tx):
        for message in given if together else [given]:
            see(box, message, tx)
            if message.context["version"] == 3:
                raise sq.DeadLetter("no such customer")

    work(box, handle, **MODES[mode], **SHAPES[shape])
    dead = rows(box, "SELECT DISTINCT reason FROM {schema}.aside WHERE disposition = 'dead'")
    assert [one.reason for one in dead] == ["its handler made it a dead letter: no such customer"]
    assert sorted(seen(box)) == ([] if whole else [("c1", one) for one in (1, 2, 4)])
    last = rows(box, "SELECT attempt, kind, error_class FROM {schema}.faults ORDER BY fault_id DESC LIMIT 1")[0]
    # Of a batch it isn't known which one is meant: the messages are handed out again one by one.
    assert tuple(last) == (2 if shape == "batch" and not whole else 1, "business", "DeadLetter")
    assert invariants.broken(box) == []


@in_each_mode
@pytest.mark.parametrize("delay", ["soon", -1, None])
def test_a_delay_that_is_none_is_the_handler_s_fault(box, mode, delay):
    define(box, retry=sq.Retry(1))
    publish(box, 1)

    def handle(message, tx):
        raise sq.Postpone(delay)

    work(box, handle, done=lambda: rows(box, "SELECT FROM {schema}.faults"), **MODES[mode])
    (fault,) = rows(box, "SELECT error_class, traceback FROM {schema}.faults")
    assert fault.error_class == "UsageError"
    assert "raise sq.Postpone(delay)" in fault.traceback
    with pytest.raises(sq.UsageError):
        sq.Consumed(1, postpone="soon")


@in_each_mode
def test_a_handler_cannot_end_the_worker_s_delivery_by_a_call(box, mode):
    define(box)
    publish(box, 1)
    told = []

    def handle(message, tx):
        for verb in (lambda: tx.delivery.postpone("1s"), lambda: tx.delivery.dead_letter("why")):
            try:
                verb()
            except sq.UsageError as error:
                told.append(error.remedy)

    work(box, handle, **MODES[mode])
    assert told == [
        'raise seriatim.Postpone("15s"); the worker does it',
        "raise seriatim.DeadLetter(reason); the worker does it",
    ]


@in_each_mode
def test_a_coroutine_postpones_too(box, mode):
    define(box)
    publish(box, 1)
    calls = []

    async def handle(message, tx):
        calls.append(message.attempt)
        await tx.execute("SELECT 1")
        if len(calls) < 3:
            raise sq.Postpone(0)

    work(box, handle, **MODES[mode])
    assert calls == [1, 1, 1]


def test_the_errors_survive_a_pickle():

    one = pickle.loads(pickle.dumps(sq.Postpone("15s", "the shop is closed", where="here")))
    assert (one.delay, str(one)) == ("15s", "here: the shop is closed")
    assert str(pickle.loads(pickle.dumps(sq.DeadLetter("why")))) == "why"
