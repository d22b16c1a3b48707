"""Bulk operations: what was seen is acted on once for each group, together or by itself, whoever is killed; the rest is left out and said."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import bulk, dead_letters, groups, invariants, retention
from seriatim.operations import bulk_operations as operations
from seriatim.operations.events import events
from seriatim.operations.groups import Action, GroupFilter, GroupState
from seriatim.operations.looking import open_to_look
from seriatim.operations.operator_log import operator_log
from seriatim.runtime.workers.chores import Chores
from tests.blocked import wait_until_blocked
from tests.box.console import BY, TRANSIENT, define, failing, publish, received, rows
from tests.box.operators.test_put_back import counting

#: What one action does to a group and what a bulk operation does to its twin is compared in this.
_SAME = (
    "state",
    "next",
    "arrived",
    "held",
    "queued",
    "ordinal",
    "incarnation",
    "error",
    "hole_through",
    "late",
    "closing",
)


def begun(box, action, *, at_once=False, **where):
    views = bulk.chosen(box, Action(action), GroupFilter("shop", **where))
    found = operations.gather(
        box, Action(action), views, chosen_by={"queue": "shop"}, at_once=at_once, actor="ann", reason="all of them"
    )
    return operations.begin(box, found.bulk_id)


def finished(box, bulk_id):
    *_, last = operations.follow(box, bulk_id)
    return last


def results(box, bulk_id):
    return {one.group: (one.result, one.why) for one in operations.bulk_groups(box, bulk_id, limit=1000)}


def faulted(box, *names):
    for name in names:
        publish(box, 1, 2, group=name)
        failing(box, group=name)


def states(box):
    return Counter(one.state for one in groups.groups(box, state=list(GroupState)))


# ---- the same as one by one


def _faulted(box, name):
    faulted(box, name)


def _tried_again(box, name):
    publish(box, 1, 2, group=name)
    failing(box, TRANSIENT, group=name)


def _hole(box, name):
    publish(box, 1, 4, 5, 9, group=name)
    assert received(box, name) == [1]


def _suspended(box, name):
    publish(box, 1, 3, group=name)
    groups.suspend(box, "shop", name, **BY)


def _fresh(box, name):
    publish(box, 1, 2, 5, group=name)


CASES = [
    ("retry", _faulted), ("retry", _tried_again), ("skip_hole", _hole), ("suspend", _fresh), ("suspend", _faulted), ("suspend", _hole),
    ("resume", _suspended), ("close", _hole), ("close", _fresh), ("skip_message", _faulted), ("abort", _hole), ("abort", _faulted),
]  # fmt: skip


@pytest.mark.dear
@pytest.mark.parametrize(("action", "prepare"), CASES, ids=[f"{one}-{two.__name__}" for one, two in CASES])
def test_a_portion_does_what_each_action_would_do(box, action, prepare):
    define(box)
    for name in ("one", "twin"):
        prepare(box, name)
    single = groups.act(box, Action(action), "shop", "one", actor="ann", reason="all of them")
    done = finished(box, begun(box, action, key="twin").bulk_id)
    assert (done.state, done.done, done.groups) == ("ended", 1, 1)
    one, twin = (groups.group_view(box, "shop", name) for name in ("one", "twin"))
    assert [getattr(twin, name) for name in _SAME] == [getattr(one, name) for name in _SAME]
    log = {entry.group: entry for entry in operator_log(box) if entry.action == action}
    for name in ("obeyed", "before", "after", "released", "set_aside", "skipped"):
        assert log["twin"].details.get(name) == log["one"].details.get(name), name
    assert ("message_id" in log["twin"].details) is ("message_id" in log["one"].details)
    assert (log["twin"].actor, log["twin"].reason) == ("ann", "all of them")
    told = {
        name: [
            (event.kind, event.first, event.last, event.count, event.operation_id) for event in events(box, group=name)
        ]
        for name in ("one", "twin")
    }
    assert [entry[:4] for entry in told["twin"]] == [entry[:4] for entry in told["one"]]
    caused = [number is not None for *_, number in told["one"]]
    assert [number is not None for *_, number in told["twin"]] == caused
    assert single.operation_id != log["twin"].operation_id


# ---- what was seen


def test_the_messages_of_many_groups_are_skipped_in_as_many_statements_as_those_of_few(box, monkeypatch):
    define(box)
    counted = []
    for prefix, many in (("few", 1), ("many", 20)):
        faulted(box, *(f"{prefix}{number}" for number in range(many)))
        started = begun(box, "skip_message", key=f"{prefix}*")
        with monkeypatch.context() as patched:
            calls = counting(patched)
            assert finished(box, started.bulk_id).done == many
        counted.append(len(calls))
    assert counted[1] <= counted[0] + 3  # a process whose knowledge of the box is old looks at it again
    assert len(dead_letters.dead_letters(box)) == 21
    assert [received(box, name) for name in ("few0", "many0", "many19")] == [[2], [2], [2]]
    assert invariants.broken(box) == []


def test_what_changed_since_it_was_seen_is_left_out_and_said(box):
    define(box)
    faulted(box, "a", "b", "c", "d")
    found = operations.gather_chosen(
        box, Action.RETRY, GroupFilter("shop"), chosen_by={"queue": "shop", "state": "faulted"}, **BY
    )
    assert (found.state, found.groups, found.left, found.queues) == ("gathered", 4, 4, ["shop"])
    assert operations.work(box) is None
    assert states(box) == {"faulted": 4}
    groups.skip_message(box, "shop", "b", actor="bob", reason="gone")
    groups.retry(box, "shop", "c", actor="bob", reason="again")
    failing(box, group="c")
    faulted(box, "e")
    operations.begin(box, found.bulk_id)
    done = finished(box, found.bulk_id)
    assert (done.done, done.changed, done.refused, done.left) == (2, 2, 0, 0)
    assert results(box, found.bulk_id) == {
        "a": ("done", None), "d": ("done", None),
        "b": ("changed", "it is ready now, and not as it was seen"),
        "c": ("changed", "it is faulted now, and not as it was seen: ValueError: no such customer"),
    }  # fmt: skip
    assert groups.group_view(box, "shop", "e").state == "faulted"
    assert [one.group for one in operations.bulk_groups(box, found.bulk_id, result="not done")] == ["b", "c"]
    log = [(one.action, one.actor, one.details.get("bulk")) for one in operator_log(box) if "bulk" in one.details]
    assert sorted(log) == [("bulk begin", "ann", found.bulk_id), *[("retry", "ann", found.bulk_id)] * 2]


def test_what_is_locked_is_acted_on_by_itself_and_comes_last(box):
    define(box)
    for name in ("a", "b", "c"):
        publish(box, 1, 2, group=name)
    with box.session() as tx:
        delivery = tx.receive("shop", group="b", limit=1)
        found = begun(box, "suspend")
        done = finished(box, found.bulk_id)
        assert (done.done, done.changed) == (3, 0)
        assert groups.group_view(box, "shop", "b").obeyed is False
        assert [one.sequence for one in delivery] == [1]
    assert states(box) == {"suspended": 3}


def test_a_group_that_can_not_be_acted_on_keeps_no_other_from_it(box, caplog):
    """The state of one can't be read any more: the portion fails, and then that group alone."""
    define(box)
    for name in ("a", "b", "c"):
        publish(box, 1, 3, group=name)
        assert received(box, name) == [1]
    found = begun(box, "suspend")
    rows(box, "UPDATE {schema}.known_groups SET skipped = '{7}' WHERE group_key = 'b' RETURNING 1")
    done = finished(box, found.bulk_id)
    assert (done.done, done.refused) == (2, 1)
    assert groups.group_view(box, "shop", "c").state == "suspended"


def test_a_group_that_takes_too_long_keeps_no_other_from_it(box):
    """A process with a limit for statements, as the console, goes on group by group."""
    define(box)
    faulted(box, "a", "b", "c")
    found = begun(box, "retry")
    with box.session() as tx:
        tx.connection.execute(
            f"CREATE FUNCTION {box.schema}.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(60); RETURN NEW; END'"
        )
        tx.connection.execute(
            f"CREATE TRIGGER slow BEFORE UPDATE ON {box.schema}.known_groups FOR EACH ROW WHEN (NEW.group_key = 'b')"
            f" EXECUTE FUNCTION {box.schema}.slow()"
        )
    with open_to_look(box.dsn, schema=box.schema, statement_s=2.0) as looking:
        done = finished(looking, found.bulk_id)
    assert (done.done, done.refused) == (2, 1)
    assert results(box, found.bulk_id)["b"][0] == "refused"


def test_groups_of_a_dropped_queue_have_changed(box):
    define(box)
    publish(box, 1, group="a")
    found = begun(box, "suspend", state=list(GroupState))
    assert received(box, "a") == [1]
    box.drop(subscription="shop", queue="shop")
    done = finished(box, found.bulk_id)
    assert (done.changed, done.queues) == (1, [])
    assert results(box, found.bulk_id) == {"a": ("changed", "its queue was dropped")}


# ---- cancelled, killed, at once


def test_a_cancelled_operation_does_nothing_more(box, monkeypatch):
    monkeypatch.setattr("seriatim.box.operators.bulk_operations.PORTION", 2)
    define(box)
    faulted(box, "a", "b", "c", "d", "e")
    found = begun(box, "retry")
    assert operations.work(box).done == 2
    over = operations.cancel(box, found.bulk_id, actor="bob", reason="enough")
    assert (over.state, over.done, over.left, over.cancelled_by, over.cancelled_because) == (
        "cancelled",
        2,
        3,
        "bob",
        "enough",
    )
    assert operations.work(box) is None
    assert states(box) == {"ready": 2, "faulted": 3}
    for refused in (operations.begin, lambda box, number: operations.cancel(box, number, **BY)):
        with pytest.raises(sq.ActionRefused, match="which is cancelled"):
            refused(box, found.bulk_id)
    assert [one.group for one in operations.bulk_groups(box, found.bulk_id, result="left")] == ["c", "d", "e"]
    (entry,) = [one for one in operator_log(box) if one.action == "bulk cancel"]
    assert (entry.queue, entry.actor, entry.details["left"]) == ("shop", "bob", 3)


def test_an_operation_that_is_cancelled_while_its_portion_fails_stays_cancelled(box):
    define(box)
    faulted(box, "a", "b", "c")
    found = begun(box, "retry")
    with box.session() as tx:
        tx.connection.execute(f"""CREATE FUNCTION {box.schema}.fails() RETURNS trigger LANGUAGE plpgsql
            AS $$ BEGIN PERFORM pg_advisory_xact_lock(4711); RAISE EXCEPTION 'no'; END $$""")
        tx.connection.execute(
            f"CREATE TRIGGER fails BEFORE UPDATE ON {box.schema}.known_groups EXECUTE FUNCTION {box.schema}.fails()"
        )
    logger, cancelled = logging.getLogger("seriatim.bulk"), []

    def is_cancelled(record):
        """The portion is rolled back, and its groups aren't noted yet as ones to act on one by one."""
        cancelled.append(cancelling.result(60).state)
        return True

    logger.addFilter(is_cancelled)
    try:
        with ThreadPoolExecutor(2) as pool, psycopg.connect(box.dsn) as holding:
            holding.execute("SELECT pg_advisory_xact_lock(4711)")
            working = pool.submit(operations.work, box)
            at_work = wait_until_blocked(box.dsn, holding)
            cancelling = pool.submit(operations.cancel, box, found.bulk_id, **BY)
            wait_until_blocked(box.dsn, at_work)
            holding.rollback()
            portion = working.result(60)
    finally:
        logger.removeFilter(is_cancelled)
    assert cancelled == ["cancelled"]
    assert (portion.done, portion.refused, portion.changed) == (0, 0, 0)
    with box.session() as tx:
        tx.connection.execute(f"DROP TRIGGER fails ON {box.schema}.known_groups")
    assert operations.work(box) is None
    assert states(box) == {"faulted": 3}
    assert operations.bulk_operations(box, is_open=True) == []


def test_a_failed_portion_is_noted_after_the_transaction_that_has_claimed_the_operation_since(box):
    """In the other order, groups and then the operation, the two would wait for each other."""
    define(box)
    faulted(box, "a", "b")
    found = begun(box, "retry")
    given = {"of_bulk": found.bulk_id, "of_groups": ["a", "b"], "its_whys": [None] * 2, "of_operations": [None] * 2}

    def failed(of_queue):
        with box.access.transaction() as transaction:
            transaction.do("settle_bulk", **given, of_queue=of_queue, its_results=[None] * 2)

    with ThreadPoolExecutor(1) as pool:
        with box.access.transaction() as mine:
            claimed = mine.one("claim_bulk", of_bulk=found.bulk_id, at_most=10, at_most_alone=1)
            noting = pool.submit(failed, claimed.of_queue)
            wait_until_blocked(box.dsn, mine.connection)
            mine.do("settle_bulk", **given, of_queue=claimed.of_queue, its_results=["refused"] * 2)
        noting.result(60)
    over = operations.bulk_operation(box, found.bulk_id)
    assert (over.state, over.refused) == ("ended", 2)


def test_others_pass_by_an_operation_that_somebody_has_in_hand(box):
    define(box)
    faulted(box, "a", "b")
    first, second = begun(box, "retry", key="a"), begun(box, "retry", key="b")
    with box.access.transaction() as mine:
        assert mine.one("claim_bulk", of_bulk=first.bulk_id, at_most=10, at_most_alone=1).group_keys == ["a"]
        assert operations.work(box, first.bulk_id) is None
        assert operations.work(box).bulk_id == second.bulk_id
        assert operations.work(box) is None
    assert operations.work(box).bulk_id == first.bulk_id


KILLED = """
import sys
from seriatim.box.box import MessageBox
from seriatim.box.operators import bulk_operations
from seriatim.operations.bulk_operations import work
bulk_operations.PORTION = 7
with MessageBox.open(sys.argv[1], schema=sys.argv[2], create=False) as box:
    for _ in range(int(sys.argv[3])):
        print("at it", flush=True)
        work(box)
    sys.stdin.read()
"""


@pytest.mark.proves("a bulk operation acts on each group once though the process of one portion is killed")
@pytest.mark.dear
def test_each_group_is_acted_on_once_whoever_is_killed(box):
    define(box, sq.Fifo())
    names = [f"g{number:03}" for number in range(60)]
    box.publish(
        [sq.Message(type="order", body=b"{}", context={"customer": name, "version": 1}) for name in names]
    )  # fmt: skip
    found = begun(box, "suspend", key="g*", state=list(GroupState))
    assert found.groups == 60
    for portions in (1, 2, 3):  # killed while the last one is being done, or just after
        words = [sys.executable, "-c", KILLED, box.dsn, box.schema, str(portions)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            for _ in range(portions):
                assert process.stdout.readline() == "at it\n"
            process.kill()
    between = operations.bulk_operation(box, found.bulk_id)
    assert between.state == "running"
    assert between.done % 7 == 0
    done = finished(box, found.bulk_id)
    assert (done.done, done.changed, done.refused) == (60, 0, 0)
    log = Counter(one.group for one in operator_log(box, limit=1000) if one.action == "suspend")
    assert log == dict.fromkeys(names, 1)
    assert rows(box, "SELECT count(*) FROM {schema}.bulk_groups WHERE operation_id IS NULL") == [(0,)]


def test_two_processes_share_the_work_and_do_nothing_twice(box, monkeypatch):
    monkeypatch.setattr("seriatim.box.operators.bulk_operations.PORTION", 3)
    define(box)
    faulted(box, *(f"g{number:02}" for number in range(20)))
    first, second = begun(box, "retry", key="g0*"), begun(box, "retry", key="g1*")
    with ThreadPoolExecutor(4) as pool:
        both = list(pool.map(lambda number: finished(box, number), [first.bulk_id, second.bulk_id] * 2))
    assert {one.done for one in both} == {10}
    assert set(Counter(one.group for one in operator_log(box, limit=1000) if one.action == "retry").values()) == {1}


@pytest.mark.parametrize("action", ["retry", "skip_hole", "suspend"])
def test_ten_operators_at_once_act_once_and_the_others_are_told(box, action):
    define(box)
    prepare = _faulted if action == "retry" else _hole
    prepare(box, "c1")
    view = groups.group_view(box, "shop", "c1")

    def acts(number):
        try:
            return groups.act(
                box, Action(action), "shop", "c1", seen=groups.seen_of(view), actor=f"ann {number}", reason="r"
            )
        except sq.GroupChanged as error:
            return error

    with ThreadPoolExecutor(10) as pool:
        found = list(pool.map(acts, range(10)))
    told = [one.what for one in found if isinstance(one, sq.GroupChanged)]
    assert len(told) == 9, found
    assert all("group 'c1' has changed since you looked: it is" in one for one in told)
    assert [one.action for one in operator_log(box)] == [action]


# ---- rights, lists, the clean-up


def test_what_is_not_there_is_told(box):
    define(box)
    faulted(box, "a")
    found = begun(box, "retry")
    with pytest.raises(sq.UsageError, match="there is no bulk operation 99"):
        operations.bulk_operation(box, 99)
    with pytest.raises(sq.UsageError, match="there is no group to act on"):
        operations.gather(box, Action.RETRY, [], chosen_by={}, **BY)
    with pytest.raises(sq.UsageError, match="'odd' is not a result of a group"):
        operations.bulk_groups(box, found.bulk_id, result="odd")
    with pytest.raises(sq.UsageError, match="cannot list 0 bulk operations"):
        operations.bulk_operations(box, limit=0)


def test_operations_are_listed_newest_first_and_paged(box):
    define(box)
    faulted(box, "a", "b")
    first, second = begun(box, "retry", key="a"), begun(box, "retry", key="b")
    finished(box, second.bulk_id)
    listed = operations.bulk_operations(box, limit=1)
    assert [one.bulk_id for one in listed] == [second.bulk_id]
    assert [one.bulk_id for one in operations.bulk_operations(box, before=second.bulk_id)] == [first.bulk_id]
    assert [one.bulk_id for one in operations.bulk_operations(box, is_open=True)] == [first.bulk_id]
    (row,) = operations.bulk_groups(box, first.bulk_id)
    assert operations.bulk_groups(box, first.bulk_id, after=(row.queue_id, row.group)) == []


def test_a_process_with_chores_goes_on_with_what_another_left(box, monkeypatch):
    monkeypatch.setattr("seriatim.runtime.workers.chores._BULK_S", 0.0)
    define(box)
    faulted(box, "a", "b")
    found = begun(box, "retry")
    chores = Chores(box)
    chores.look()
    chores.end()
    assert operations.bulk_operation(box, found.bulk_id).state == "ended"
    assert states(box) == {"ready": 2}


def test_what_ended_long_ago_goes_with_the_clean_up(box):
    define(box)
    faulted(box, "a", "b", "c")
    ended, open_ = begun(box, "retry", key="a"), begun(box, "retry", key="b")
    finished(box, ended.bulk_id)
    operations.gather_chosen(box, Action.RETRY, GroupFilter("shop", key="c"), chosen_by={}, **BY)
    assert retention.purge(box).bulk_operations == 0
    rows(
        box,
        "UPDATE {schema}.bulk_operations SET gathered_at = gathered_at - interval '31 days', ended_at = ended_at - interval '31 days' RETURNING 1",
    )
    assert retention.purge(box).bulk_operations == 2
    assert [one.bulk_id for one in operations.bulk_operations(box)] == [open_.bulk_id]
    assert rows(box, "SELECT DISTINCT bulk_id FROM {schema}.bulk_groups") == [(open_.bulk_id,)]
