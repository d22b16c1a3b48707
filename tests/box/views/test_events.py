"""Events of groups on record: which, each once, with their cause; and a cursor that misses none."""

from __future__ import annotations

import threading
import time

import pytest

import seriatim as sq
from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.known import read_definitions
from seriatim.box.operators import purge
from seriatim.box.turns.turns import Turns
from seriatim.operations import events as operations
from seriatim.operations import groups, retention, trace
from seriatim.operations.events import events_after
from tests.box.console import BY, define, publish, received, rows
from tests.box.operators.test_purge import later, purge_at

SKIPS = sq.Standard(hole_timeout=60, on_hole="skip")


def judged(box, after_s=0, queue="shop"):
    """What has come is judged by a turn that comes so many seconds from now."""
    with box.session() as tx:
        judge(tx, after_s, queue)


def judge(tx, after_s=0, queue="shop"):
    turns = Turns(tx.transaction, int((time.time() + after_s) * 1e6))
    place = read_definitions(tx.transaction).queue(queue)
    turns.judge_all(place, turns.lock(place, 1000))


def told(box, **chosen):
    """Kind and numbers of the events, oldest first."""
    return [(one.kind, one.first, one.last) for one in reversed(operations.events(box, "shop", **chosen))]


def test_a_hole_that_is_skipped_is_on_record_once(box):
    define(box, SKIPS)
    publish(box, 1, 4)
    judged(box)
    assert told(box) == []  # it is open, and may be filled yet
    judged(box, 61)
    judged(box, 62)
    assert told(box) == [("hole_overdue", 2, 3), ("hole_skipped", 2, 3)]
    skipped, overdue = operations.events(box, "shop")
    assert skipped.at == overdue.at
    ((arrived_us,),) = rows(box, "SELECT max(arrived_us) FROM {schema}.tickets")
    assert skipped.at.timestamp() * 1e6 == arrived_us + 60_000_000  # when it was due, and not when somebody looked
    assert (skipped.queue, skipped.group, skipped.incarnation, skipped.count) == ("shop", "c1", 0, 1)
    assert (skipped.operation_id, skipped.by, skipped.numbers) == (None, None, "2..3")


@pytest.mark.parametrize("kept", ["usual", "all"])
def test_a_hole_that_is_filled_is_told_of_only_after_it_was_overdue(box, kept):
    define(box, sq.Standard(hole_timeout=60), keep=sq.Keep(events=kept))
    everything = kept == "all"
    publish(box, 2)
    judged(box)
    publish(box, 1, 4)
    judged(box, 1)
    judged(box, 62)
    publish(box, 3)
    judged(box, 63)
    early = [("hole_opened", 1, 1), ("hole_filled", 1, 1), ("hole_opened", 3, 3)] if everything else []
    assert told(box) == [*early, ("hole_overdue", 3, 3), ("timed_out", 3, 3), ("hole_filled", 3, 3)]


def test_what_operators_do_is_told_with_who_and_why(box):
    define(box)
    publish(box, 1, 4, 9)
    judged(box)
    groups.suspend(box, "shop", "c1", **BY)
    groups.suspend(box, "shop", "c1", **BY)  # it is already
    groups.resume(box, "shop", "c1", **BY)
    groups.skip_hole(box, "shop", "c1", through=2, **BY)
    groups.reset(box, "shop", "c1", next=7, **BY)
    groups.close(box, "shop", "c1", at_once=True, **BY)
    groups.close(box, "shop", "c1", **BY)
    assert told(box) == [
        ("suspended", None, None),
        ("resumed", None, None),
        ("hole_skipped", 2, 2),
        ("hole_skipped", 3, 6),
        ("closed", None, None),
    ]
    found = operations.events(box, "shop")
    assert [one.action for one in found] == ["close", "reset", "skip_hole", "resume", "suspend"]
    assert {one.by for one in found} == {"ann: ticket 4711"}
    logged = rows(box, "SELECT operation_id, action FROM {schema}.operator_log")
    assert {(one.operation_id, one.action) for one in found} <= set(logged)


def test_a_timer_that_was_due_before_an_action_is_not_the_operators(box):
    define(box, sq.Standard(hole_timeout="1ms", on_hole="skip"))
    publish(box, 2, 4)
    judged(box, -1000)
    groups.suspend(box, "shop", "c1", **BY)
    by = {(one.kind, one.first): one.actor for one in operations.events(box, "shop")}
    assert by[("hole_skipped", 1)] is None
    assert by[("suspended", None)] == "ann"


def test_what_was_asked_of_a_locked_group_is_told_when_it_is_obeyed(box):
    define(box)
    publish(box, 1, 2)
    with box.session() as tx:
        delivery = tx.receive("shop", limit=1)
        assert not groups.suspend(box, "shop", "c1", **BY).obeyed
        assert told(box) == []
        delivery.done()
    judged(box, 1)
    (one,) = operations.events(box, "shop")
    assert (one.kind, one.action, one.by) == ("suspended", "suspend", "ann: ticket 4711")


def test_a_late_message_suspends_its_group(box):
    define(box, sq.Standard(hole_timeout=60, on_hole="skip", late="suspend"))
    publish(box, 3)
    judged(box)
    judged(box, 61)
    publish(box, 2, 1)
    judged(box, 62)
    assert told(box, kinds=["suspended", "resumed"]) == [("suspended", 2, 2)]
    groups.skip_message(box, "shop", "c1", **BY)
    groups.skip_message(box, "shop", "c1", **BY)
    assert told(box, kinds=["suspended", "resumed"]) == [("suspended", 2, 2), ("resumed", None, None)]


def test_a_set_that_is_complete_closes_its_group(box):
    define(box, sq.UnitOfWork(size=2))
    publish(box, 1, 2)
    assert received(box) == [1, 2]
    assert told(box) == [("closed", None, None)]


def test_a_turn_that_is_rolled_back_leaves_no_event(box):
    define(box, SKIPS)
    publish(box, 2)
    judged(box)
    with box.session() as tx:
        judge(tx, 61)
        assert len(tx.transaction.rows("events_after", after=-1, queue="shop", kinds=None, limit=9)) == 0
        tx.connection.rollback()
    assert told(box) == []
    assert events_after(box) == []
    judged(box, 61)
    assert told(box) == [("hole_overdue", 1, 1), ("hole_skipped", 1, 1)]


def test_the_events_of_a_turn_are_one_statement(box, monkeypatch):
    define(box, SKIPS)
    with box.session() as tx:
        tx.publish(
            [sq.Message(type="order", body=b"{}", context={"customer": f"c{n}", "version": 2}) for n in range(50)]
        )
    called, of = [], Transaction.do
    monkeypatch.setattr(
        Transaction, "do", lambda self, name, /, **given: called.append(name) or of(self, name, **given)
    )
    judged(box)
    assert "record_events" not in called
    judged(box, 61)
    assert called.count("record_events") == 1
    assert len(operations.events(box, "shop", kinds="hole_skipped")) == 50


# ---- the cursor


def skip(box, group, first=1):
    """A hole of this group is skipped."""
    publish(box, first + 1, group=group)
    judged(box)
    groups.skip_hole(box, "shop", group, **BY)


def test_an_event_that_is_committed_late_is_not_missed(box):
    define(box, SKIPS, keep=sq.Keep(events="all"))
    for group in ("slow", "fast"):
        publish(box, 2, group=group)
    with box.session() as slow:
        slow_turns = Turns(slow.transaction, int((time.time() + 1) * 1e6))
        place = read_definitions(slow.transaction).queue("shop")
        slow_turns.judge(place, slow_turns.lock(place, 1, "slow", 100), 0)  # written first
        judged(box, 2)  # of the group that isn't locked; written and committed
        (fast,) = events_after(box)
        assert (fast.group, fast.kind) == ("fast", "hole_opened")
        assert events_after(box, fast.position) == []
    (found,) = events_after(box, fast.position)
    assert found.group == "slow"
    assert found.event_id < fast.event_id  # by that number it would be missed
    assert found.position > fast.position
    assert events_after(box, found.position) == []
    assert [one.group for one in events_after(box)] == ["fast", "slow"]


def test_a_reader_goes_on_in_pages_and_by_what_it_wants(box):
    define(box)
    box.define(sq.Queue("other", policy=sq.Standard(), group="customer", sequence="version"))
    for group in ("c1", "c2", "c3"):
        skip(box, group)
        groups.suspend(box, "shop", group, **BY)
    after, found = 0, []
    while page := events_after(box, after, limit=4):
        found += page
        after = page[-1].position
    assert [one.position for one in found] == [1, 2, 3, 4, 5, 6]
    assert [(one.group, one.kind) for one in found[:2]] == [("c1", "hole_skipped"), ("c1", "suspended")]
    assert [one.group for one in events_after(box, kinds="suspended")] == ["c1", "c2", "c3"]
    assert events_after(box, queue="other") == []
    assert events_after(box, after, queue="shop") == []


def test_a_large_backlog_gets_its_positions_in_portions(box, monkeypatch):
    from seriatim.box.views import events as module

    monkeypatch.setattr(module, "_PLACED", 2)
    define(box)
    for group in ("c1", "c2", "c3"):
        skip(box, group)
    assert [one.group for one in events_after(box)] == ["c1", "c2", "c3"]


def test_readers_at_once_see_the_same_order(box):
    define(box)
    for group in map(str, range(8)):
        skip(box, group)
    seen = []
    threads = [
        threading.Thread(target=lambda: seen.append([(e.position, e.group) for e in events_after(box)]))
        for _ in range(4)
    ]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert seen == [list(zip(range(1, 9), map(str, range(8)), strict=True))] * 4


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"after": -1}, "-1 is not a position"),
        ({"after": "3"}, "'3' is not a position"),
        ({"after": True}, "True is not a position"),
        ({"kinds": "skipped"}, "'skipped' is not a kind of event"),
        ({"kinds": ["closed", 3]}, "3 is not a kind of event"),
        ({"limit": 0}, "cannot list 0 events"),
        ({"queue": "shop"}, "there is no queue 'shop'"),
    ],
)
def test_a_reader_is_told_what_is_wrong(box, given, what):
    with pytest.raises(sq.UsageError, match=what):
        events_after(box, **given)


# ---- the list


def test_the_list_is_narrowed_counted_and_paged(box):
    define(box)
    for group in ("c1", "c2", "d1"):
        skip(box, group)
    groups.suspend(box, "shop", "c1", **BY)
    assert [one.group for one in operations.events(box, "shop", key="c*", kinds="hole_skipped")] == ["c2", "c1"]
    assert told(box, group="d1") == [("hole_skipped", 1, 1)]
    newest, second, *_ = operations.events(box)
    assert [one.event_id for one in operations.events(box, before=newest.event_id, limit=1)] == [second.event_id]
    assert len(operations.events(box, since="1h")) == 4
    assert operations.events(box, until="1h") == []
    counts = {one.kind: (one.events, one.groups) for one in operations.events_by_kind(box, "shop")}
    assert counts == {"hole_skipped": (3, 3), "suspended": (1, 1)}
    with pytest.raises(sq.UsageError, match="is not a kind of event"):
        operations.events(box, kinds="lost")
    with pytest.raises(sq.UsageError, match="cannot list -1 events"):
        operations.events(box, limit=-1)


# ---- traces


def test_a_trace_shows_holes_among_the_messages_and_what_made_one_late(box):
    define(box, SKIPS, keep="everything")
    publish(box, 1)
    publish(box, 4, 6)
    judged(box)
    judged(box, 61)
    (late,) = publish(box, 2)
    judged(box, 62)
    steps = trace.trace_group(box, "shop", "c1")
    assert [one.text for one in steps if one.kind == "event"] == [
        "hole overdue: 2..3",
        "hole skipped: 2..3, its time was over",
        "hole opened: 5",
    ]
    times = [one.at for one in steps if one.kind == "event"]
    assert times == sorted(times)
    end = trace.trace_message(box, late)[-1].text
    assert end.startswith("late: its number was skipped before (2..3 skipped ")
    assert end.endswith(", its time was over)")


def test_a_trace_names_the_operator_whose_skip_made_a_message_late(box):
    define(box, sq.Standard(late="deliver"))
    publish(box, 1, 4)
    judged(box)
    groups.skip_hole(box, "shop", "c1", **BY)
    (late,) = publish(box, 3)
    judged(box, 1)
    texts = [one.text for one in trace.trace_message(box, late)]
    assert any(", late (2..3 skipped " in one and "skip hole by ann: ticket 4711)" in one for one in texts)
    found = groups.standing(box, "shop", "c1")
    assert [(one.kind, one.numbers, one.by) for one in found.events] == [("hole_skipped", "2..3", "ann: ticket 4711")]


# ---- retention


def test_events_are_purged_after_their_time(box):
    define(box)
    skip(box, "c1")
    (first,) = events_after(box)
    assert purge_at(box, later(days=29)).events == 0
    assert purge.purgeable(box._access, now=later(days=31)).events == 1
    assert purge_at(box, later(days=31)).events == 1
    assert events_after(box) == []
    skip(box, "c2")
    assert [one.position for one in events_after(box)] == [first.position + 1]  # a reader goes on where it was
    retention.keep_events(box, "1h")
    assert purge_at(box, later(hours=2)).events == 1
    with pytest.raises(sq.UsageError, match="a period can't be"):
        retention.keep_events(box, -1)


def test_events_outlive_their_queue(box):
    define(box)
    skip(box, "c1")
    received(box)
    box.drop(subscription="shop", queue="shop")
    (one,) = operations.events(box)
    assert (one.queue, one.group) == (None, "c1")


def test_the_place_of_messages_that_were_taken_out_is_told_when_it_is_passed(box):
    define(box)
    publish(box, 1, 3, 4, 5)
    judged(box)
    taken = rows(
        box,
        "SELECT message_id FROM {schema}.entries JOIN {schema}.spool USING (arrival_id, position)"
        " WHERE sequence IN (3, 4) ORDER BY sequence",
    )
    for (message_id,) in taken:
        groups.skip_message(box, "shop", "c1", message=message_id, **BY)
    assert told(box) == []
    publish(box, 2)
    judged(box)
    (void,) = operations.events(box, "shop")
    assert (void.kind, void.first, void.last, void.count) == ("void", 3, 4, 2)


def test_a_list_for_people_has_the_holes_that_are_open_now(box):
    define(box)
    publish(box, 1, 4)
    judged(box)
    groups.suspend(box, "shop", "other", **BY)
    suspended, hole = operations.events_and_holes(box, "shop")
    assert (hole.kind, hole.first, hole.last, hole.event_id, hole.at) == (
        "hole_opened", 2, 3, None, groups.group_view(box, "shop", "c1").hole_since,
    )  # fmt: skip
    assert suspended.kind == "suspended"
    assert operations.events_and_holes(box, kinds="suspended") == [suspended] == operations.events(box)
    assert operations.events_and_holes(box, group="other") == [suspended]
    assert operations.events_and_holes(box, before=suspended.event_id) == []
    assert [one.kind for one in operations.events_and_holes(box, limit=1)] == ["suspended"]
