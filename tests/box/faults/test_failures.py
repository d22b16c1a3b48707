"""Whoever asks for failures gets them, of each kind, in the transaction that writes down what went wrong; nobody else does."""

from __future__ import annotations

import json
import time

import pytest

import seriatim as sq
from seriatim.box.faults.faults import Fault, LostTurn, fail, note_lost
from seriatim.kernel.operators.fault import FaultKind
from seriatim.operations import bulk_operations, dead_letters, groups, messages
from tests.box.given_up import given_up
from tests.box.shop import define, publish, rows

DEADLINE_S = 120.0
POISON = Fault(FaultKind.POISON, "WorkerDied", "signal 9", "w1")
BUSINESS = Fault(FaultKind.BUSINESS, "ValueError", "no", "w1")
WHO = {"actor": "me", "reason": "test"}


def ask(box, where="type = 'seriatim.failure'", **options):
    given = {"policy": sq.Unordered()} | options
    box.define(sq.Queue("alarms", **given), sq.Subscription("alarms", where=where, to="alarms"))


def failures(box):
    """All that were published since, each as its properties, with what its body says."""
    with box.session() as tx:
        delivery = tx.receive("alarms", limit=100)
        return [] if delivery is None else [dict(one.context) | json.loads(one.body) for one in delivery]


def eventually(box):
    deadline = time.monotonic() + DEADLINE_S
    while True:
        box.tick()
        if found := failures(box):
            return found
        assert time.monotonic() < deadline


def handled(box, **given):
    """Receive, if there is something, and do it: how many messages."""
    with box.session() as tx:
        return len(list(tx.receive("shop", **given) or ()))


@pytest.mark.parametrize(
    ("on_hole", "told", "by_receiving"), [("wait", "HoleTimedOut", False), ("skip", "HoleSkipped", True)]
)
def test_a_hole_whose_time_is_over(box, on_hole, told, by_receiving):
    define(box, policy=sq.Standard(hole_timeout=0.05, on_hole=on_hole))
    ask(box)
    publish(box, 1, 4, 5)
    assert handled(box) == 1
    if by_receiving:  # whoever comes first
        deadline = time.monotonic() + DEADLINE_S
        while not (found := failures(box)):
            handled(box, wait=0.02)
            assert time.monotonic() < deadline
    else:
        found = eventually(box)
    (one,) = found
    assert (one["failed_queue"], one["failed_group"], one["failed_type"]) == ("shop", "c1", "order")
    assert (one["fault_kind"], one["error_class"], one["error"]) == ("hole", told, "the numbers 2 to 3 are missing")
    assert (one["version"], one["attempts"], one["dead_letter"], one["will_retry"]) == (4, 0, False, False)
    box.tick()
    assert failures(box) == []


def test_a_set_that_is_not_complete_in_time(box):
    define(box, policy=sq.UnitOfWork(size=3, timeout=0.05))
    ask(box, where="dead_letter")
    publish(box, 1, 3)
    assert handled(box) == 0  # they are judged
    found = eventually(box)
    (one,) = found  # for all of it
    dead = "the set was not complete in time"
    assert (one["version"], one["fault_kind"], one["error"], one["dead_letter"]) == (1, "dead", dead, True)
    letters = dead_letters.dead_letters(box)
    assert sorted(one["message_ids"]) == sorted(letter.message_id for letter in letters)
    assert len(letters) == 2


@pytest.mark.parametrize("together", [False, True])
def test_what_operators_set_aside_for_good(box, together):
    define(box)
    ask(box)
    publish(box, 1, 2, 4)
    with box.session() as tx:
        fail(tx.transaction, tx.receive("shop"), 0, 1, BUSINESS)
    (one,) = failures(box)
    assert (one["fault_kind"], one["attempts"], one["dead_letter"]) == ("business", 1, False)
    if together:
        found = bulk_operations.gather(
            box, groups.Action.SKIP_MESSAGE, groups.groups(box, "shop"), chosen_by={"queue": "shop"}, **WHO
        )
        bulk_operations.begin(box, found.bulk_id)
        assert [one.done for one in bulk_operations.follow(box, found.bulk_id)][-1] == 1
    else:
        groups.skip_message(box, "shop", "c1", **WHO)
    (one,) = failures(box)
    assert (one["version"], one["ordinal"], one["attempts"], one["dead_letter"]) == (1, 1, 1, True)
    assert one["error"] == "an operator skipped the message"
    groups.abort(box, "shop", "c1", **WHO)
    assert [(one["version"], one["error"]) for one in failures(box)] == [
        (number, "an operator aborted the group") for number in (2, 4)
    ]
    publish(box, 9, customer="c2")
    groups.skip_hole(box, "shop", "c2", **WHO)  # he knows
    assert failures(box) == []


@pytest.mark.parametrize("errors", ["suspend", "continue"])
def test_what_killed_its_worker(box, errors):
    define(box, retry=sq.Retry(2), errors=errors)
    ask(box)
    publish(box, 1)
    (row,) = rows(box, "SELECT entry_id FROM {schema}.entries")
    for _ in range(2):
        with box.session() as tx:
            note_lost(tx.transaction, LostTurn("shop", "c1", row.entry_id), POISON, 1.0)
    keys = ("failed_group", "version", "fault_kind", "error_class", "attempts", "will_retry", "dead_letter")
    assert [tuple(one[key] for key in keys) for one in failures(box)] == [
        ("c1", 1, "poison", "WorkerDied", 1, True, False),
        ("c1", 1, "poison", "WorkerDied", 2, False, errors == "continue"),
    ]


def stray(**more):
    return sq.Message(type="stray", context={"customer": "c1"}, **more)


def by_session(box, message):
    with box.session() as tx:
        tx.publish([message, sq.Message(type="order", context={"customer": "c2", "version": 1})])


def by_itself(box, message):
    box.publish(message)


def by_sql(box, message):
    with box.session() as tx:
        tx.connection.execute(
            f'SELECT {box.schema}.publish(%s, %s, \'{{"customer": "c1"}}\', message_id => %s)',
            [message.type, message.body, message.message_id],
        )
    box.tick()


@pytest.mark.parametrize("how", [by_session, by_itself, by_sql])
def test_what_nobody_wants(box, how):
    define(box)
    with sq.MessageBox.open(box.dsn, schema=box.schema) as other:
        how(other, stray())  # knows the definitions as they were before anybody asked
        ask(box)
        how(other, stray(message_id="m1"))
        how(other, stray(message_id="m1"))  # is left out
        (one,) = failures(box)
        assert (one["fault_kind"], one["failed_type"], one["failed_queue"]) == ("unrouted", "stray", None)
        assert (one["message_id"], one["customer"], one["attempts"]) == ("m1", "c1", 0)
        assert one["error"] == "no subscription wants it"
        how(other, sq.Message(type="strange", message_id="m2"))
        assert [one["message_id"] for one in failures(box)] == ["m2"]


def test_what_is_not_what_its_type_says(box):
    define(box)
    ask(box)
    box.publish(sq.Message(type="order", context={"customer": "c1", "version": "many"}))
    (one,) = failures(box)
    assert "version" in one["error"]
    assert one["error"] == messages.messages(box, status="unrouted")[0].reason


def test_it_is_in_the_same_transaction(box):
    define(box)
    ask(box)
    with given_up(box.session()) as tx:
        tx.publish(stray())
    assert failures(box) == []
    assert rows(box, "SELECT FROM {schema}.spool") == []


def test_where_nobody_asks_nothing_is_published(box):
    define(box, policy=sq.UnitOfWork(size=2, timeout=0.01), retry=sq.Retry(1), errors="continue")
    box.define(sq.Queue("all", policy=sq.Unordered()), sq.Subscription("all", where="type <> 'stray'", to="all"))
    publish(box, 1)
    assert handled(box) == 0
    box.publish(stray())
    deadline = time.monotonic() + DEADLINE_S
    while not messages.messages(box, status="dead"):
        box.tick()
        assert time.monotonic() < deadline
    assert rows(box, "SELECT FROM {schema}.spool WHERE type = 'seriatim.failure'") == []


def test_a_failure_of_a_failure_is_only_logged(box, caplog):
    define(box)
    ask(box, errors="continue", retry=sq.Retry(1))
    box.publish(stray())
    with box.session() as tx:
        fail(tx.transaction, tx.receive("alarms"), 0, 1, BUSINESS)
    assert failures(box) == []
    assert "a failure of a failure isn't published: ValueError: no" in caplog.text
    assert [one.status for one in messages.messages(box, queue="alarms")] == ["dead"]


def test_one_that_can_not_be_published_undoes_nothing(box, caplog):
    define(box)
    ask(box, max_messages=sq.Limit(1, when_full="refuse"))
    box.publish([stray(), stray(), stray()])
    assert len(messages.messages(box, status="unrouted")) == 3
    assert "a failure couldn't be published" in caplog.text
    assert failures(box) == []
