"""What an operator sees of groups: which stand still since when and why, and what helps; read in one statement."""

from __future__ import annotations

import os
import socket

import pytest

import seriatim as sq
from seriatim.box.postgres.statements import statement
from seriatim.box.turns.turns import Turns
from seriatim.box.views.groups import GroupFilter
from seriatim.box.views.listing import containing, fitting
from seriatim.kernel.groups.verbs import refusal
from seriatim.kernel.values.outcome import REASONS, Reason
from seriatim.operations import bulk, groups, queues, subscriptions
from seriatim.operations.groups import Action
from tests.box.console import BY, TRANSIENT, define, failing, logged, publish, received, rows
from tests.databases import box_with


def listed(box, **chosen):
    return [(one.group, one.state) for one in groups.groups(box, "shop", **chosen)]


def with_groups_in_several_states(box):
    """Groups in several states."""
    define(box, sq.Standard(hole_timeout=3600))
    for group in ("ready", "gone_on", "faulted", "stopped"):
        publish(box, 1, 2, 3, group=group)
    publish(box, 2, 4, group="waiting")
    assert received(box, "waiting") == []
    assert received(box, "gone_on") == [1, 2, 3]
    failing(box, group="faulted", done=1)
    groups.suspend(box, "shop", "stopped", **BY)


shop = box_with(with_groups_in_several_states)


def test_each_group_with_its_state_since_when_and_what_waits(shop):
    found = {one.group: one for one in groups.groups(shop)}
    assert [(one.group, one.state) for one in found.values()] == [
        ("faulted", "faulted"), ("gone_on", "ready"), ("ready", "ready"), ("stopped", "suspended"),
        ("waiting", "waiting"),
    ]  # fmt: skip
    assert (found["ready"].arrived, found["ready"].since, found["ready"].touched_at) == (3, None, None)
    assert (found["waiting"].held, found["waiting"].next, found["waiting"].hole_through) == (2, 1, 1)
    assert found["waiting"].since == found["waiting"].hole_since
    assert (found["waiting"].due_at - found["waiting"].hole_since).total_seconds() == 3600
    assert (found["faulted"].queued, found["faulted"].error) == (2, "ValueError: no such customer")
    assert found["stopped"].suspended_because == "ticket 4711"
    for name, query in (
        ("faulted", "SELECT at FROM {schema}.faults"),
        ("stopped", "SELECT at FROM {schema}.operator_log"),
    ):
        assert found[name].since == rows(shop, query)[0][0]
    assert found["gone_on"].waiting == 0


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({"state": "faulted"}, ["faulted"]),
        ({"state": ["faulted", "waiting"]}, ["faulted", "waiting"]),
        ({"key": "*ed"}, ["faulted", "stopped"]),
        ({"key": "gone?on"}, ["gone_on"]),
        ({"key": "%"}, []),
        ({"error": "NO SUCH"}, ["faulted"]),
        ({"error": "4711"}, ["stopped"]),
        ({"error": "%"}, []),
        ({"older_than": 0, "state": "waiting"}, ["waiting"]),
        ({"older_than": "1h"}, []),
        ({"limit": 2}, ["faulted", "gone_on"]),
        ({"after": ("shop", "ready")}, ["stopped", "waiting"]),
    ],
)
def test_filters(shop, chosen, expected):
    assert [group for group, _ in listed(shop, **chosen)] == expected


def test_a_locked_group_says_by_which_process(shop):
    with shop.session() as tx:
        delivery = tx.receive("shop", group="ready")
        (pid,) = tx.connection.execute("SELECT pg_backend_pid()").fetchone()
        (found,) = groups.groups(shop, state="locked")
        assert (found.group, found.locked_by, found.locked) == ("ready", pid, True)
        assert found.since is not None
        standing = groups.standing(shop, "shop", "ready")
        mine = f"seriatim {socket.gethostname()[:40]}:{os.getpid()}"
        assert standing.why == f"{mine} works on it (process {pid} of the database)"
        assert (found.locked_name, found.locked_host) == (mine, None)
        assert standing.allowed == (Action.SUSPEND,)
        assert standing.helps == ()
        delivery.done()
    assert groups.group_view(shop, "shop", "ready").locked_by is None


def test_how_a_faulted_group_stands(shop):
    publish(shop, 4, group="faulted")
    found = groups.standing(shop, "shop", "faulted")
    assert found.why == "the handler failed for good: ValueError: no such customer"
    assert (found.blocks.sequence, found.blocks.ordinal, found.blocks.attempt) == (2, 2, 1)
    assert (found.following.sequence, found.behind) == (3, 2)
    assert found.helps == (Action.RETRY, Action.SKIP_MESSAGE)
    assert Action.RETRY in found.allowed


def test_a_queue_that_has_stopped_is_named(box):
    define(box, errors="stop")
    publish(box, 1)
    failing(box)
    why = groups.standing(box, "shop", "c1").why
    assert why.endswith("no such customer; and the queue is off: seriatim queue on shop")
    groups.retry(box, "shop", "c1", **BY)
    queues.turn_on(box, "shop")
    assert received(box) == [1]


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """A receiver may take half a minute to come: that long may pass here, too, on a machine that has much to do."""
    monkeypatch.setattr("seriatim.box.views.group_standing._MOMENT_S", 30.0)


def test_how_a_waiting_and_a_suspended_group_stand(shop):
    found = groups.standing(shop, "shop", "waiting")
    assert (found.why, found.blocks, found.following.sequence, found.behind) == ("1 is missing", None, 2, 2)
    assert found.helps == (Action.SKIP_HOLE,)
    found = groups.standing(shop, "shop", "stopped")
    assert found.why == "ann suspended it: ticket 4711"
    assert (found.behind, found.helps) == (3, (Action.RESUME,))
    assert [(one.action, one.actor) for one in found.operations] == [("suspend", "ann")]
    assert groups.standing(shop, "shop", "gone_on").why == "nothing waits"
    assert (
        groups.standing(shop, "shop", "ready").why == "3 messages of it are not judged yet: the next receiver does that"
    )


def test_a_group_that_nobody_has_judged_does_not_say_that_its_message_goes_out(box):
    """Number 1 is missing, which nobody knows before a receiver has looked."""
    define(box)
    publish(box, 2, 3)
    found = groups.standing(box, "shop", "c1")
    assert (found.view.state, found.why) == (
        "ready",
        "2 messages of it are not judged yet: the next receiver does that",
    )
    assert received(box) == []
    assert groups.standing(box, "shop", "c1").why == "1 is missing"
    publish(box, 1)
    box.define(sq.Queue("plain", sq.Fifo(), group="customer"), sq.Subscription("plain", "type = 'order'", "plain"))
    publish(box, 4)
    assert groups.standing(box, "plain", "c1").why == "the next receiver gets it"


def test_the_next_receiver_gets_it_only_where_it_is_so(box):
    define(box)
    box.define(
        sq.Queue("rounds", sq.BestEffort(window=3600), group="customer", sequence="version"),
        sq.Subscription("rounds", "type = 'order'", "rounds"),
    )
    publish(box, 1)
    with box.session() as tx:
        assert tx.receive("rounds") is None
        tx.receive("shop").put_back()  # judged
    assert groups.standing(box, "rounds", "c1").why.startswith("its window runs: what it has is released at ")
    assert groups.standing(box, "shop", "c1").why == "the next receiver gets it"
    rows(box, "UPDATE {schema}.known_groups SET ready_rank = ready_rank - 60000000, touched_at = touched_at - '1 min'::interval "
        "WHERE group_key = 'c1' AND ready_rank IS NOT NULL RETURNING 1")  # fmt: skip
    why = groups.standing(box, "shop", "c1").why
    assert why == "nobody receives from the queue: seriatim work shop --handler MODULE:FUNCTION"
    subscriptions.stop(box, "shop")
    why = groups.standing(box, "shop", "c1").why
    assert why == "its next message waits for a subscription that isn't started: seriatim subscription start shop"


def test_the_last_processed_message_beside_what_was_released(box):
    define(box, sq.Standard(), keep="nothing")
    box.define(sq.Queue("kept", group="customer", keep="everything"), sq.Subscription("kept", "type = 'order'", "kept"))
    publish(box, 1, 2, 5, 6)
    assert groups.standing(box, "shop", "c1").processed is None
    assert received(box) == [1, 2]
    done = groups.standing(box, "shop", "c1").processed
    assert (done.ordinal, done.sequence, done.by, done.is_kept) == (2, 2, None, False)
    assert done.at is not None
    groups.skip_hole(box, "shop", "c1", **BY)
    view = groups.group_view(box, "shop", "c1")
    done = groups.standing(box, "shop", "c1").processed
    assert (view.last_released, done.sequence, done.ordinal) == (6, 2, 2)  # 5 and 6 are released, and in the queue
    assert received(box, limit=1) == [5]
    assert groups.standing(box, "shop", "c1").processed.sequence == 5
    groups.abort(box, "shop", "c1", **BY)
    assert groups.standing(box, "shop", "c1").processed.ordinal == 3
    with box.session() as tx:
        for _ in tx.receive("kept", limit=2):
            pass
    done = groups.standing(box, "kept", "c1").processed
    assert Action.RESET not in groups.standing(box, "kept", "c1").allowed  # which has no next number
    assert Action.RESET in groups.standing(box, "shop", "c1").allowed
    assert (done.ordinal, done.is_kept, done.by) == (2, True, f"seriatim {socket.gethostname()[:40]}:{os.getpid()}")


def test_how_a_group_stands_that_a_late_message_has_stopped(box):
    define(box, sq.Standard(start="first", late="suspend"))
    publish(box, 5, 6)
    received(box)
    (late,) = publish(box, 4)
    publish(box, 7)
    assert received(box) == []
    found = groups.standing(box, "shop", "c1")
    assert (found.blocks.message_id, found.following.sequence, found.behind) == (late, 7, 1)
    assert found.helps == (Action.RESUME, Action.SKIP_MESSAGE)
    groups.close(box, "shop", "c1", at_once=True, **BY)
    assert groups.standing(box, "shop", "c1").helps == (Action.ABORT,)


def test_to_skip_a_message_is_allowed_where_a_late_one_has_stopped_the_group(box):
    define(box, sq.Standard(start="first", late="suspend"))
    for group in ("late", "theirs"):
        publish(box, 5, 6, group=group)
        received(box, group)
    publish(box, 4, group="late")
    assert received(box, "late") == []
    groups.suspend(box, "shop", "theirs", **BY)
    assert Action.SKIP_MESSAGE in groups.standing(box, "shop", "late").allowed
    assert Action.SKIP_MESSAGE not in groups.standing(box, "shop", "theirs").allowed
    assert [one.group for one in bulk.chosen(box, Action.SKIP_MESSAGE, groups.GroupFilter("shop"))] == ["late"]
    assert [one.group for one in bulk.chosen(box, Action.RESUME, groups.GroupFilter("shop"))] == ["late", "theirs"]


def test_how_a_group_stands_that_waits_for_its_next_attempt(box):
    define(box, retry_delay=3600, retry_ceiling=3600)
    for group in ("c1", "c2"):
        publish(box, 1, 2, group=group)
    failing(box, TRANSIENT)
    received(box, "c2", limit=1)
    found = groups.standing(box, "shop", "c1")
    until = found.view.retry_at.astimezone().isoformat(" ", "seconds")
    assert found.why == f"the handler failed, and tries it again at {until}: TimeoutError: try later"
    assert (found.view.state, found.view.reason) == ("ready", "TimeoutError: try later")
    assert found.helps == (Action.RETRY,)
    assert Action.RETRY in found.allowed
    assert Action.RETRY not in groups.standing(box, "shop", "c2").allowed
    assert [one.group for one in groups.groups(box, error="TRY LATER")] == ["c1"]
    chosen = bulk.chosen(box, Action.RETRY, groups.GroupFilter("shop"))
    assert [one.group for one in chosen] == ["c1"]
    (done,) = bulk.each(box, Action.RETRY, chosen, **BY)
    assert (done.before, done.after) == ("ready", "ready")
    found = groups.standing(box, "shop", "c1")
    assert (found.view.retry_at, found.view.reason, found.helps) == (None, None, ())
    assert received(box) == [1, 2]


def test_what_is_suspended_at_the_end_of_its_turn_is_locked_until_then(box):
    define(box)
    publish(box, 1, 2)
    with box.session() as tx:
        delivery = tx.receive("shop", limit=1)
        groups.suspend(box, "shop", "c1", **BY)
        found = groups.standing(box, "shop", "c1")
        assert (found.view.state, found.view.obeyed) == ("suspended", False)
        assert found.allowed == (Action.SUSPEND, Action.RESUME)
        for action in (Action.RESET, Action.ABORT, Action.CLOSE):
            with pytest.raises(sq.ActionRefused, match=refusal(action, "locked")) as refused:
                groups.act(box, action, "shop", "c1", next=9 if action is Action.RESET else None, **BY)
            assert refused.value.remedy == "allowed: suspend, resume, requeue"
        delivery.done()
    assert groups.group_view(box, "shop", "c1").obeyed
    assert groups.close(box, "shop", "c1", **BY).before == "suspended"


RULES = [
    (sq.Standard(start="first", late="suspend"), Reason.BEFORE_FIRST),
    (sq.Standard(late="suspend"), Reason.SKIPPED),
    (sq.BestEffort(late="suspend"), Reason.ROUND_OVER),
]


def because(sequence, reason):
    return f'a late message, sequence {sequence} (late="suspend"): {REASONS[reason]}'


def suspended(box, policy):
    """A group that 3 and then 2 have suspended, because they came after 5."""
    define(box, policy)
    publish(box, 5)
    if policy == sq.Standard(late="suspend"):
        groups.reset(box, "shop", "c1", next=5, **BY)
    assert received(box) == [5]
    publish(box, 3, 2)
    assert received(box) == []
    publish(box, 1, group="other")


def why(box):
    """Who suspended it and why, as the functions and the view say it."""
    view = groups.group_view(box, "shop", "c1")
    found = (view.suspended_by, view.suspended_because)
    query = "SELECT suspended_by, suspended_because FROM {schema}.groups WHERE group_key = 'c1'"
    assert rows(box, query) == [found]
    assert view.reason == (found[1] if found[0] is None else ": ".join(found))
    return found


@pytest.mark.parametrize(("policy", "reason"), RULES)
def test_a_group_that_a_rule_of_order_has_suspended_says_which(box, policy, reason):
    suspended(box, policy)
    assert why(box) == (None, because(3, reason))
    assert groups.standing(box, "shop", "c1").why == f"suspended by {because(3, reason)}"
    where = groups.GroupFilter("shop", error=REASONS[reason].upper())
    assert [one.group for one in bulk.chosen(box, Action.RESUME, where)] == ["c1"]
    assert listed(box, error='LATE="suspend"') == [("c1", "suspended")]
    assert listed(box, error="sequence 3 ") == [("c1", "suspended")]
    assert listed(box, error="sequence 2 ") == []
    groups.skip_message(box, "shop", "c1", **BY)
    assert why(box) == (None, because(2, reason))
    groups.resume(box, "shop", "c1", **BY)
    assert why(box) == (None, None)


def test_an_operator_who_suspends_it_too_is_named(box):
    suspended(box, sq.Standard(late="suspend"))
    groups.suspend(box, "shop", "c1", **BY)
    assert why(box) == ("ann", "ticket 4711")
    groups.resume(box, "shop", "c1", **BY)
    assert received(box) == [3, 2]
    publish(box, 4)
    assert received(box) == []
    assert why(box) == (None, because(4, Reason.SKIPPED))


def test_a_group_that_was_aborted_says_that_the_message_is_gone(box):
    suspended(box, sq.Standard(late="suspend"))
    groups.abort(box, "shop", "c1", **BY)
    assert why(box) == (None, 'a late message (late="suspend"), which is there no more')


def test_who_suspended_a_life_before_is_not_named(box):
    define(box, sq.Standard(start="first", late="suspend"))
    publish(box, 1)
    assert received(box) == [1]
    groups.suspend(box, "shop", "c1", **BY)
    groups.resume(box, "shop", "c1", **BY)
    groups.forget(box, "shop", "c1", **BY)
    publish(box, 5)
    assert received(box) == [5]
    publish(box, 3)
    assert received(box) == []
    assert why(box) == (None, because(3, Reason.BEFORE_FIRST))


def test_what_waits_to_be_seen_says_so(box):
    define(box)
    with box.session() as tx:
        tx.publish(sq.Message(type="order", body=b"{}", context={"customer": "c1", "version": 1}), delay="1h")
    assert received(box) == []
    found = groups.standing(box, "shop", "c1")
    seen = found.following.visible_at.astimezone().isoformat(" ", "seconds")
    assert (found.why, found.helps) == (f"its next message may not be seen before {seen}", ())


def test_no_entry_of_a_huge_queue_is_counted_twice(box):
    """One statement, which looks at every entry once, whatever the number of groups."""
    define(box)
    for keys, numbers in ((range(400), (1, 2, 4)), (range(100, 300), (5, 6))):
        with box.session() as tx:
            tx.publish(
                [
                    sq.Message(type="order", body=b"{}", context={"customer": f"g{key:04}", "version": one})
                    for key in keys
                    for one in numbers
                ]
            )
        if len(numbers) == 3:
            with box.session() as tx:
                queue, turns = box.definitions().queue("shop"), Turns(tx.transaction)
                turns.judge(queue, turns.lock(queue, 500), 0)
    with box.session() as tx:
        tx.connection.execute(f"ANALYZE {box.schema}.entries")
        (count,) = tx.connection.execute(f"SELECT count(*) FROM {box.schema}.entries").fetchone()
    parameters = {
        **GroupFilter("shop").parameters(), "group_keys": None, "among": "all", "lowest": "", "below": chr(0x10FFFF), "most": 1000,
    }  # fmt: skip
    with box.session() as tx:
        explain = b"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) " + statement("groups", box.schema)
        (((plan,),),) = tx.connection.execute(explain, parameters).fetchall()
    assert read_of(plan["Plan"], "entries") == count == 1600
    found = groups.groups(box, "shop")
    assert len(found) == 400
    assert sum(one.waiting for one in found) == count


def read_of(plan, table):
    """How many rows a plan takes from a table."""
    here = plan["Actual Rows"] if plan.get("Relation Name") == table else 0
    return here * plan["Actual Loops"] + sum(read_of(one, table) for one in plan.get("Plans", ()))


def test_an_action_on_all_that_a_filter_names(shop):
    where = groups.GroupFilter("shop", key="*ed")
    assert [one.group for one in bulk.chosen(shop, Action.RESUME, where)] == ["stopped"]
    assert [one.group for one in bulk.chosen(shop, Action.SUSPEND, where)] == ["faulted", "stopped"]
    assert bulk.chosen(shop, Action.RETRY, groups.GroupFilter(state="waiting")) == []
    found = bulk.chosen(shop, Action.SUSPEND, GroupFilter())
    groups.close(shop, "shop", "gone_on", **BY)  # meanwhile
    done = list(bulk.each(shop, Action.SUSPEND, found, **BY))
    refused = [one for one in done if isinstance(one, bulk.Refused)]
    assert [(one.group, one.why) for one in refused] == [
        ("gone_on", "cannot suspend a group that is closed (allowed: abort, close)")
    ]
    assert len(listed(shop, state="suspended")) == 4
    assert logged(shop).count("suspend") == 5
    with pytest.raises(sq.UsageError, match="cannot reset many groups"):
        bulk.chosen(shop, Action.RESET, where)
    with pytest.raises(sq.UsageError, match="is not actor"):
        list(bulk.each(shop, Action.RESUME, found, actor="", reason="x"))


def test_the_queue_of_a_group_by_its_key(shop):
    assert groups.only_group(shop, "ready") == "shop"
    with pytest.raises(sq.UsageError, match="no queue has a group 'redy'"):
        groups.only_group(shop, "redy")
    shop.define(sq.Queue("other", group="customer"), sq.Subscription("o", where="type = 'order'", to="other"))
    publish(shop, 4, group="ready")
    with pytest.raises(sq.UsageError, match="several queues have a group 'ready'") as error:
        groups.only_group(shop, "ready")
    assert error.value.remedy == "name the queue: other, shop"


def test_patterns():
    assert fitting("a*b?c%d_e\\") == r"a%b_c\%d\_e" + "\\\\"
    assert containing("5% of*") == r"%5\% of*%"
