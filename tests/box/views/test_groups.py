"""What an operator sees of a group and does to it: at once where nobody works on it, and else as the table says."""

from __future__ import annotations

import threading
from functools import partial

import psycopg
import pytest

import seriatim as sq
from seriatim.box.operators.actions import ActionRequest, act
from seriatim.box.turns.turns import Turns
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import Action
from seriatim.operations import groups
from tests.databases import box_with

TYPE = sq.MessageType("order", properties={"customer": "string", "version": "long"})
BY = {"actor": "ann", "reason": "ticket 4711"}


def with_queues(box):
    """A box with a queue of each kind that the tests need."""
    box.define(
        TYPE,
        sq.Queue("orders", sq.Standard(), group="customer", sequence="version"),
        sq.Queue("skips", sq.Standard(hole_timeout=60, on_hole="skip"), group="customer", sequence="version"),
        sq.Queue("late", sq.Standard(start="first", late="suspend"), group="customer", sequence="version"),
        sq.Queue("sets", sq.UnitOfWork(size=2), group="customer", sequence="version"),
    )


q = box_with(with_queues)


def publish(box, *numbers, group="c", queue="orders"):
    with box.session() as tx:
        tx.publish([sq.Message(type="order", context={"customer": group, "version": n, "to": queue}) for n in numbers])


def received(box, limit=50, queue="orders"):
    """The sequences and ordinals of one delivery, which is completed."""
    with box.session() as tx:
        delivery = tx.receive(queue, limit=limit)
        return [] if delivery is None else [(message.sequence, message.ordinal) for message in delivery]


def judged(box):
    """All that has arrived is judged, and nothing is handed out."""
    with box.session() as tx:
        queue = box.definitions().queue("orders")
        turns = Turns(tx.transaction)
        turns.judge(queue, turns.lock(queue, 10), 0)


def logged(box):
    with box.session() as tx:
        rows = tx.connection.execute(
            f"SELECT actor, action, queue, group_key, reason, details FROM {box.schema}.operator_log ORDER BY operation_id"
        )
        return rows.fetchall()


def aside(box):
    with box.session() as tx:
        rows = tx.connection.execute(
            f"SELECT sequence, disposition, reason, ordinal FROM {box.schema}.aside ORDER BY sequence"
        )
        return rows.fetchall()


def test_a_group_as_it_stands(q):
    publish(q, 1, 2, 5, 7)
    assert received(q, limit=1) == [(1, 1)]
    judged(q)
    view = groups.group_view(q, "orders", "c")
    assert (view.state, view.next, view.arrived, view.held, view.queued) == ("waiting", 3, 0, 2, 1)
    assert (view.hole_through, view.last_released, view.ordinal) == (4, 2, 2)
    assert view.hole_since is not None
    assert view.locked is False


def test_a_group_that_nobody_has_judged(q):
    publish(q, 2, 1)
    view = groups.group_view(q, "orders", "c")
    assert (view.state, view.arrived, view.held, view.queued, view.ordinal) == ("ready", 2, 0, 0, 0)


def test_no_such_group_or_queue(q):
    with pytest.raises(sq.UsageError, match="no group 'x' in queue 'orders'"):
        groups.group_view(q, "orders", "x")
    with pytest.raises(sq.UsageError, match="no group 'x' in queue 'orders'"):
        groups.close(q, "orders", "x", **BY)
    with pytest.raises(sq.UsageError, match="no queue 'ordres'"):
        groups.suspend(q, "ordres", "x", **BY)
    assert logged(q) == []
    assert groups.groups(q) == []


def test_groups_by_queue_state_and_page(q):
    for key in "cab":
        publish(q, 1, group=key)
        publish(q, 2, group=key, queue="sets")
    publish(q, 3, group="b")
    while received(q) or received(q, queue="sets"):
        pass
    seen = [(view.queue, view.group) for view in groups.groups(q)]
    assert seen == [(queue, key) for queue in ("orders", "sets") for key in "abc"]
    assert [view.group for view in groups.groups(q, "orders", state="waiting")] == ["b"]
    assert [view.group for view in groups.groups(q, "orders", state=GroupState.READY)] == ["a", "c"]
    page = groups.groups(q, limit=4)
    rest = groups.groups(q, after=(page[-1].queue, page[-1].group))
    assert [(view.queue, view.group) for view in page + rest] == seen
    with pytest.raises(sq.UsageError, match="'odd' is not a state"):
        groups.groups(q, state="odd")
    with pytest.raises(sq.UsageError, match="cannot list 0 groups"):
        groups.groups(q, limit=0)


def test_suspended_nothing_is_handed_out_and_resumed_it_is(q):
    publish(q, 1, 2, 3)
    assert received(q, limit=1) == [(1, 1)]  # two are queued
    done = groups.suspend(q, "orders", "c", **BY)
    assert (done.obeyed, done.before, done.after) == (True, "ready", "suspended")
    publish(q, 4)
    assert received(q) == []
    view = groups.group_view(q, "orders", "c")
    assert (view.state, view.queued, view.held) == ("suspended", 2, 1)
    assert (view.suspended_by, view.suspended_because) == ("ann", "ticket 4711")
    done = groups.resume(q, "orders", "c", actor="bob", reason="mended")
    assert (done.before, done.after, done.released) == ("suspended", "ready", 1)
    assert received(q) == [(2, 2), (3, 3), (4, 4)]
    assert groups.group_view(q, "orders", "c").suspended_by is None
    assert [row[:5] for row in logged(q)] == [
        ("ann", "suspend", "orders", "c", "ticket 4711"),
        ("bob", "resume", "orders", "c", "mended"),
    ]


def test_what_has_arrived_is_judged_first(q):
    publish(q, 1, 3)
    done = groups.skip_hole(q, "orders", "c", **BY)
    assert (done.before, done.after, done.released) == ("waiting", "ready", 1)
    assert [event.kind for event in done.events] == ["hole_opened", "hole_skipped"]
    assert received(q) == [(1, 1), (3, 2)]


def test_aborted_all_that_is_held_or_queued_is_dead(q):
    publish(q, 1, 2, 3, 5)
    assert received(q, limit=1) == [(1, 1)]
    publish(q, 4, 7)  # 4 is released when the operator comes, and dead as well
    done = groups.abort(q, "orders", "c", **BY)
    assert (done.before, done.after, done.set_aside) == ("waiting", "ready", 5)
    why = "an operator aborted the group"
    assert aside(q) == [
        (2, "dead", why, 2), (3, "dead", why, 3), (4, "dead", why, 4), (5, "dead", why, 5), (7, "dead", why, None),
    ]  # fmt: skip
    view = groups.group_view(q, "orders", "c")
    assert (view.state, view.next, view.held, view.queued, view.ordinal) == ("ready", 6, 0, 0, 5)
    assert received(q) == []
    publish(q, 6)
    assert received(q) == [(6, 6)]


def test_closed_at_once_what_is_queued_stays_and_can_be_aborted(q):
    publish(q, 1, 2)
    assert received(q, limit=1) == [(1, 1)]
    assert groups.close(q, "orders", "c", at_once=True, **BY).after == "closed"
    publish(q, 3)
    assert received(q) == []
    assert groups.group_view(q, "orders", "c").queued == 1
    groups.abort(q, "orders", "c", **BY)
    assert [row[:2] for row in aside(q)] == [(2, "dead"), (3, "late")]


def test_a_complete_set_leaves_though_its_group_is_closed(q):
    publish(q, 2, 1, queue="sets")
    with q.session() as tx:
        delivery = tx.receive("sets")
        assert delivery is not None  # not completed: put back
        assert [message.sequence for message in delivery.messages] == [1, 2]
    assert groups.group_view(q, "sets", "c").state == "closed"
    assert received(q, limit=1, queue="sets") == [(1, 1), (2, 2)]


def test_reset_and_skip_message(q):
    publish(q, 1, 4, 6)
    done = groups.reset(q, "orders", "c", next=4, **BY)
    assert (done.released, done.set_aside, done.after) == (1, 0, "waiting")
    done = groups.reset(q, "orders", "c", next=7, **BY)
    assert (done.released, done.set_aside) == (0, 1)
    assert received(q) == [(1, 1), (4, 2)]
    publish(q, 5, 4, queue="late")
    assert received(q, queue="late") == []
    view = groups.group_view(q, "late", "c")
    assert (view.state, view.suspended_by) == ("suspended", None)
    assert groups.skip_message(q, "late", "c", **BY).after == "ready"
    assert received(q, queue="late") == [(5, 1)]
    assert [details.get("next") for *_, details in logged(q)] == [4, 7, None]


def test_the_log_says_which_numbers_were_passed_over(q):
    publish(q, 1, 4, 6, 9)
    groups.skip_hole(q, "orders", "c", through=2, **BY)
    groups.skip_hole(q, "orders", "c", **BY)
    groups.reset(q, "orders", "c", next=8, **BY)
    groups.reset(q, "orders", "c", next=5, **BY)
    said = [(action, details.get("skipped"), details.get("through")) for _, action, *_, details in logged(q)]
    assert said == [
        ("skip_hole", [2, 2], 2),
        ("skip_hole", [3, 3], None),
        ("reset", [5, 7], None),
        ("reset", None, None),
    ]


def test_the_log_says_which_hole_was_skipped_whole_where_others_were_skipped_by_time(q):
    publish(q, 3, queue="skips")
    assert received(q, queue="skips") == []
    publish(q, 7, queue="skips")
    with q.session() as tx:
        (now,) = tx.connection.execute("SELECT clock_timestamp() + interval '90 s'").fetchone()
        asked = ActionRequest(Action.SKIP_HOLE, "skips", "c", **BY)
        done = act(tx.transaction, asked, int(now.timestamp() * 1_000_000))
    assert [one.kind for one in done.events].count("hole_skipped") == 2
    assert [details["skipped"] for *_, details in logged(q)] == [[4, 6]]


@pytest.mark.parametrize(
    "action",
    [groups.abort, groups.close, groups.skip_hole, groups.resume, groups.skip_message, partial(groups.reset, next=9)],
    ids=["abort", "close", "skip_hole", "resume", "skip_message", "reset"],
)
def test_a_locked_group_refuses(q, action):
    publish(q, 1, 3)
    with q.session() as tx:
        delivery = tx.receive("orders")
        assert groups.group_view(q, "orders", "c").arrived == 2  # the turn isn't committed
        with pytest.raises(sq.ActionRefused, match=r"cannot .* a group that is locked") as refused:
            action(q, "orders", "c", **BY)
        assert "allowed: suspend" in refused.value.remedy
        delivery.done()
    assert logged(q) == []


def test_suspend_of_a_locked_group_is_obeyed_at_the_end_of_the_turn(q):
    publish(q, 1, 2)
    with q.session() as tx:
        delivery = tx.receive("orders", limit=1)
        done = groups.suspend(q, "orders", "c", **BY)
        assert (done.obeyed, done.before, done.after) == (False, "locked", "suspended")
        delivery.done()
    judged(q)
    view = groups.group_view(q, "orders", "c")
    assert (view.state, view.queued, view.suspended_by) == ("suspended", 1, "ann")
    assert received(q) == []
    assert groups.resume(q, "orders", "c", **BY).obeyed
    assert received(q) == [(2, 2)]
    assert [details["obeyed"] for *_, details in logged(q)] == [False, True]


def test_suspend_is_obeyed_though_the_turn_is_rolled_back_or_put_back(q):
    publish(q, 1, 2)
    with q.session() as tx:
        tx.receive("orders")
        groups.suspend(q, "orders", "c", **BY)
    assert received(q) == []
    groups.resume(q, "orders", "c", **BY)
    with psycopg.connect(q.dsn) as connection, q.session(connection=connection) as tx:
        tx.receive("orders")
        groups.suspend(q, "orders", "c", **BY)
        connection.rollback()
    assert received(q) == []
    assert groups.group_view(q, "orders", "c").queued == 2
    groups.resume(q, "orders", "c", **BY)
    assert received(q) == [(1, 1), (2, 2)]


def test_resume_of_a_locked_group_is_obeyed_by_whoever_comes_next(q):
    publish(q, 1, 2)
    with q.session() as tx:
        delivery = tx.receive("orders", limit=1)
        groups.suspend(q, "orders", "c", **BY)
        done = groups.resume(q, "orders", "c", **BY)
        assert (done.obeyed, done.before, done.after) == (False, "suspended", "locked")
        with pytest.raises(sq.ActionRefused, match="cannot resume a group that is locked"):
            groups.resume(q, "orders", "c", **BY)
        delivery.done()
    assert received(q) == [(2, 2)]
    # A group that nothing brings a turn to but the request itself.
    publish(q, 3)
    groups.suspend(q, "orders", "c", **BY)
    publish(q, 4)
    with q.session() as tx:
        assert tx.receive("orders") is None  # it was judged, and is locked until the transaction ends
        publish(q, 5)
        assert tx.receive("orders") is None
        done = groups.resume(q, "orders", "c", **BY)
        assert (done.obeyed, done.before) == (False, "suspended")
    assert received(q) == [(3, 3), (4, 4), (5, 5)]


def test_a_request_that_does_not_fit_any_more_is_dropped(q):
    publish(q, 1, 2, queue="sets")
    with q.session() as tx:
        delivery = tx.receive("sets")  # with that the set is complete, and its group closed
        assert not groups.suspend(q, "sets", "c", **BY).obeyed
        delivery.done()
    assert groups.group_view(q, "sets", "c").state == "closed"
    assert received(q, queue="sets") == []
    with q.session() as tx:
        assert tx.connection.execute(f"SELECT count(*) FROM {q.schema}.requests").fetchone() == (0,)
    with pytest.raises(sq.ActionRefused, match="that is closed"):
        groups.suspend(q, "sets", "c", **BY)


def test_whoever_has_the_lock_obeys_as_well(q):
    publish(q, 1, queue="sets")
    with q.session() as tx:
        assert tx.receive("sets", group="c") is None
        publish(q, 2, queue="sets")
        assert not groups.suspend(q, "sets", "c", **BY).obeyed
        assert tx.receive("sets", group="c") is None
    assert groups.group_view(q, "sets", "c").state == "suspended"
    groups.resume(q, "sets", "c", **BY)
    assert received(q, queue="sets") == [(1, 1), (2, 2)]


def test_an_operator_waits_for_a_turn_that_judges_a_stopped_group(q):
    publish(q, 2)
    groups.suspend(q, "orders", "c", **BY)
    publish(q, 3)
    done = []
    with q.session() as tx:
        assert tx.receive("orders", group="c") is None  # judged, and still locked
        operator = threading.Thread(target=lambda: done.append(groups.abort(q, "orders", "c", **BY)))
        operator.start()
        with psycopg.connect(q.dsn, autocommit=True) as other:
            while not other.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            ).fetchone()[0]:
                assert operator.is_alive()
        assert done == []
    operator.join(120)
    assert done[0].set_aside == 2


@pytest.mark.parametrize("said", ["", "  ", None, "a\0b", "x" * 5000])
def test_nobody_or_nothing_is_not_written_down(q, said):
    publish(q, 1)
    with pytest.raises(sq.UsageError, match="is not actor"):
        groups.suspend(q, "orders", "c", actor=said, reason="r")
    with pytest.raises(sq.UsageError, match="is not reason"):
        groups.suspend(q, "orders", "c", actor="a", reason=said)
    assert groups.group_view(q, "orders", "c").state == "ready"


def test_a_refusal_names_the_state_and_what_is_allowed(q):
    publish(q, 1, 3)
    groups.close(q, "orders", "c", at_once=True, **BY)
    with pytest.raises(
        sq.ActionRefused, match=r"queue 'orders', group 'c': cannot suspend a group that is closed"
    ) as it:
        groups.suspend(q, "orders", "c", **BY)
    assert it.value.remedy == "allowed: abort, close"
    assert [row[1] for row in logged(q)] == ["close"]


@pytest.mark.parametrize(
    "change", ["UPDATE {}.operator_log SET actor = 'eve'", "DELETE FROM {}.operator_log", "TRUNCATE {}.operator_log"]
)
def test_the_operator_log_is_only_added_to(q, change):
    publish(q, 1)
    groups.suspend(q, "orders", "c", **BY)
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="only added"), q.session() as tx:
        tx.connection.execute(change.format(q.schema))
    assert logged(q)[0][0] == "ann"
