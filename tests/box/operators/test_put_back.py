"""What a queue has set aside (late, duplicate, rejected, dead) is put back: where it goes, and what it is then."""

from __future__ import annotations

import itertools
import time
from datetime import datetime

import pytest

import seriatim as sq
from seriatim.box.operators import requeue
from seriatim.operations import dead_letters, groups, invariants, messages, set_aside
from tests.box.console import BY, define, deliveries, publish, received, rows
from tests.databases import box_with

#: Each measurement is so many seconds later than the one before it.
AGES = itertools.count(3600, 3600)
LOG = "SELECT actor, queue, group_key, reason, details FROM {schema}.operator_log WHERE action = 'requeue' ORDER BY 1"


def put_back(box, status=None, **chosen):
    found = set_aside.set_aside(box, "shop", status=status or ("late", "duplicate", "rejected"), **chosen)
    return list(set_aside.requeue_each(box, found, **BY))


def told(done):
    return [(one.message.sequence, one.place, one.status) for one in done]


def statuses(box):
    return sorted((one.status, one.sequence) for one in messages.messages(box, queue="shop"))


def with_skipped_numbers(box):
    """A queue that was released up to 4, without 2 and 3, which came later and are late."""
    define(box)
    publish(box, 1, 4)
    assert received(box) == [1]
    groups.skip_hole(box, "shop", "c1", **BY)
    publish(box, 3, 2)
    assert received(box) == [4]


skipped = box_with(with_skipped_numbers)


def test_late_ones_go_to_the_end_flagged_in_their_order(skipped):
    done = put_back(skipped)
    assert told(done) == [(2, "end", "queued"), (3, "end", "queued")]
    assert invariants.broken(skipped) == []
    assert deliveries(skipped) == [(2, 3, True, b"{}"), (3, 4, True, b"{}")]
    publish(skipped, 5)
    assert deliveries(skipped) == [(5, 5, False, b"{}")]
    assert (put_back(skipped), invariants.broken(skipped)) == ([], [])


def test_who_did_it_and_why_is_written_down(skipped):
    done = put_back(skipped)
    log = rows(skipped, LOG)
    assert [row[:4] for row in log] == [("ann", "shop", "c1", "ticket 4711")] * 2
    said = {row[4]["entry_id"]: dict(row[4]) for row in log}
    since = {number: datetime.fromisoformat(one.pop("since")) for number, one in said.items()}
    assert since == {one.message.entry_id: one.message.since for one in done}
    assert said == {
        one.message.entry_id: {
            "entry_id": one.message.entry_id, "message_id": one.message.message_id, "status": "late", "place": "end",
            "why": one.message.reason,
        }
        for one in done
    }  # fmt: skip
    assert len({one.operation_id for one in done}) == 2
    with pytest.raises(sq.UsageError, match="is not reason"):
        list(set_aside.requeue_each(skipped, [], actor="ann", reason=" "))


def test_a_late_one_whose_number_is_accepted_again_is_judged_anew(skipped):
    groups.reset(skipped, "shop", "c1", next=2, **BY)
    assert told(put_back(skipped)) == [(2, "arrival", "queued"), (3, "arrival", "queued")]
    assert [row[:3] for row in deliveries(skipped)] == [(2, 3, False), (3, 4, False)]
    assert invariants.broken(skipped) == []


def test_what_is_put_back_into_a_suspended_group_waits_there(skipped):
    groups.suspend(skipped, "shop", "c1", **BY)
    assert told(put_back(skipped)) == [(2, "end", "queued"), (3, "end", "queued")]
    assert (received(skipped), invariants.broken(skipped)) == ([], [])
    groups.resume(skipped, "shop", "c1", **BY)
    assert received(skipped) == [2, 3]


def test_a_closed_group_takes_nothing_back_until_it_is_forgotten(skipped):
    groups.close(skipped, "shop", "c1", **BY)
    (refused,) = put_back(skipped)
    assert (refused.queue, refused.group) == ("shop", "c1")
    assert "2 messages: cannot requeue into a group that is closed" in refused.why
    assert statuses(skipped) == [("late", 2), ("late", 3)]
    groups.forget(skipped, "shop", "c1", **BY)
    assert told(put_back(skipped)) == [(2, "arrival", "held"), (3, "arrival", "held")]
    publish(skipped, 1)
    assert received(skipped) == [1, 2, 3]
    assert invariants.broken(skipped) == []


def test_a_group_that_somebody_works_on_refuses_and_the_others_go_on(skipped, monkeypatch):
    monkeypatch.setattr(requeue, "_PATIENCE_MS", 20)
    publish(skipped, 5)
    publish(skipped, 1, 4, group="c2")
    groups.reset(skipped, "shop", "c2", next=4, **BY)
    assert received(skipped, "c2") == [1, 4]
    publish(skipped, 2, group="c2")
    assert received(skipped, "c2") == []
    with skipped.session() as tx:
        assert tx.receive("shop", group="c1") is not None
        refused, back = put_back(skipped)
    assert (refused.group, refused.why) == (
        "c1",
        "2 messages: another session has the lock of the group (try again after that session has ended)",
    )
    assert (back.message.group, back.message.sequence, back.place) == ("c2", 2, "end")
    assert invariants.broken(skipped) == []


def test_best_effort_goes_to_the_end_flagged(box):
    define(box, sq.BestEffort())
    publish(box, 5)
    assert received(box) == [5]
    publish(box, 4)
    assert received(box) == []
    assert told(put_back(box)) == [(4, "end", "queued")]
    assert [row[:3] for row in deliveries(box)] == [(4, 2, True)]
    assert invariants.broken(box) == []


def test_a_duplicate_is_handed_out_if_an_operator_says_so(box):
    define(box)
    publish(box, 1, 1, 2)
    assert received(box) == [1, 2]
    assert told(put_back(box)) == [(1, "end", "queued")]
    assert [row[:3] for row in deliveries(box)] == [(1, 3, True)]
    assert invariants.broken(box) == []


def test_a_duplicate_of_what_waits_stays_one(box):
    """It never passes what it is a copy of."""
    define(box)
    publish(box, 2, 2)
    assert received(box) == []
    assert told(put_back(box)) == [(2, "arrival", "duplicate")]
    assert (statuses(box), invariants.broken(box)) == ([("duplicate", 2), ("held", 2)], [])
    groups.abort(box, "shop", "c1", **BY)
    assert told(put_back(box)) == [(2, "arrival", "duplicate")], "its number stays taken"
    (letter,) = dead_letters.dead_letters(box, "shop")
    assert dead_letters.requeue(box, letter.entry_id, **BY).place == "arrival"
    assert (statuses(box), invariants.broken(box)) == ([("duplicate", 2), ("held", 2)], [])


def test_a_duplicate_in_a_set_stays_one(box):
    define(box, sq.UnitOfWork(size=2))
    publish(box, 1, 1)
    assert received(box) == []
    assert told(put_back(box)) == [(1, "arrival", "duplicate")]
    publish(box, 2)
    assert received(box) == [1, 2]
    assert invariants.broken(box) == []


def test_what_was_rejected_is_judged_by_the_room_that_there_is(box):
    define(box, sq.Standard(capacity=1))
    publish(box, 2, 4, 3)
    assert received(box) == []
    assert told(put_back(box)) == [(3, "arrival", "rejected"), (4, "arrival", "rejected")]
    assert invariants.broken(box) == []
    publish(box, 1)
    assert received(box) == [1, 2]
    assert told(put_back(box)) == [(3, "arrival", "queued"), (4, "arrival", "queued")]
    assert [row[:3] for row in deliveries(box)] == [(3, 3, False), (4, 4, False)]
    assert invariants.broken(box) == []


def test_what_was_rejected_and_came_again_is_a_duplicate(box):
    define(box, sq.Standard(capacity=1))
    publish(box, 2, 3)
    assert received(box) == []
    publish(box, 1)
    assert received(box) == [1, 2]
    publish(box, 3)
    assert received(box) == [3]
    assert told(put_back(box, "rejected")) == [(3, "arrival", "duplicate")]
    assert (received(box), invariants.broken(box)) == ([], [])


def test_many_of_one_group_are_put_back_by_as_many_statements_as_one(box, monkeypatch):
    define(box)
    counted = []
    for key, many in (("few", 1), ("many", 60)):
        publish(box, many + 1, group=key)
        groups.reset(box, "shop", key, next=many + 1, **BY)
        assert received(box, key) == [many + 1]
        publish(box, *range(1, many + 1), group=key)
        assert received(box, key) == []
        found = set_aside.set_aside(box, group=key)
        assert len(found) == many
        counted.append(statements_of(set_aside.requeue_each, box, found, monkeypatch))
    assert counted[0] == counted[1]
    assert received(box, "many", 100) == list(range(1, 61))
    assert invariants.broken(box) == []


def test_so_are_many_dead_letters(box, monkeypatch):
    define(box)
    counted = []
    for key, many in (("few", 1), ("many", 60)):
        publish(box, *range(1, many + 1), group=key)
        groups.abort(box, "shop", key, **BY)
        found = dead_letters.dead_letters(box, key=key, limit=100)
        assert len(found) == many
        counted.append(statements_of(dead_letters.requeue_each, box, found, monkeypatch))
    assert counted[0] == counted[1]
    assert received(box, "many", 100) == list(range(1, 61))
    assert invariants.broken(box) == []


def test_a_group_that_can_take_no_dead_letters_says_so_and_the_others_do(box):
    define(box)
    for key in ("closed", "open"):
        publish(box, 1, 2, group=key)
        groups.abort(box, "shop", key, **BY)
    groups.close(box, "shop", "closed", **BY)
    refused, *done = dead_letters.requeue_each(box, dead_letters.dead_letters(box), **BY)
    assert (refused.group, refused.why) == (
        "closed",
        "2 dead letters: cannot requeue into a group that is closed (allowed: abort, close)",
    )
    assert [one.letter.sequence for one in done] == [1, 2]
    assert received(box, "open") == [1, 2]


def statements_of(requeue_each, box, found, monkeypatch):
    """How many statements it takes to put all of these back, of a process whose knowledge of the box is too old to count."""
    later = time.monotonic() + next(AGES)
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: later)
        calls = counting(patched)
        assert len(list(requeue_each(box, found, **BY))) == len(found)
    return len(calls)


def counting(patched):
    """Every statement that a cursor sends from here on."""
    import psycopg

    calls, execute = [], psycopg.Cursor.execute

    def counts(self, query, *arguments, **options):
        calls.append(query)
        return execute(self, query, *arguments, **options)

    patched.setattr(psycopg.Cursor, "execute", counts)
    return calls


def test_what_is_no_more_as_it_was_found_is_left_out(skipped):
    found = set_aside.set_aside(skipped)
    assert set_aside.delete(skipped, found[:1], **BY) == 1
    assert told(set_aside.requeue_each(skipped, found, **BY)) == [(2, "end", "queued")]
    assert told(set_aside.requeue_each(skipped, found, **BY)) == []
    assert [row[:3] for row in deliveries(skipped)] == [(2, 3, True)]


def test_what_was_in_no_group_is_refused(box):
    define(box)
    publish(box, 1, group=None)
    with box.session() as tx:
        tx.publish(sq.Message(type="other"))
    (invalid, unrouted) = set_aside.set_aside(box)
    for one, instead in ((invalid, "seriatim messages resubmit"), (unrouted, "seriatim unrouted --resubmit")):
        with pytest.raises(sq.UsageError, match=instead):
            list(set_aside.requeue_each(box, [one], **BY))
    assert {one.status for one in messages.messages(box)} == {"invalid", "unrouted"}


def test_what_is_put_back_hides_no_message_that_was_stolen(skipped):
    put_back(skipped)
    rows(skipped, "DELETE FROM {schema}.entries WHERE ordinal = 4 RETURNING 1")
    assert any(
        "of 4 released messages the last 2 aren't done, but 1 are queued" in one for one in invariants.broken(skipped)
    )
