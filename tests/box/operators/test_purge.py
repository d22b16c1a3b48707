"""Cleaning up: what nobody refers to any more goes, what anybody refers to stays, whoever else is at work."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seriatim as sq
from seriatim.box.operators import purge
from seriatim.box.operators.purge import Purgeable, Purged
from seriatim.box.postgres.statements import statement
from seriatim.box.views.invariants import audit
from seriatim.cli.main import main
from seriatim.operations import groups, retention
from tests.box.roles import make_owner
from tests.soak import sized

pytestmark = pytest.mark.dear

REFERENCES = ("entries", "aside", "history", "unrouted", "to_route")


def define(box, *, keep="nothing", keep_for=None, second=True):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue(
            "first", policy=sq.Standard(), group="customer", sequence="version", keep=sq.Keep(keep, done_for=keep_for)
        ),
        sq.Subscription("to-first", where="version > 0", to="first"),
    )
    if second:
        box.define(
            sq.Queue("second", policy=sq.Fifo(), group="customer"),
            sq.Subscription("to-second", where="version > 0", to="second"),
        )


def order(customer, version):
    return sq.Message(type="order", body=b"12345", context={"customer": customer, "version": version})


def publish(box, *versions, customer="c"):
    with box.session() as tx:
        return tx.publish([order(customer, version) for version in versions])


def drain(box, queue, limit=100):
    count = 0
    while True:
        with box.session() as tx:
            delivery = tx.receive(queue, limit=limit)
            if delivery is None:
                return count
            count += len(list(delivery))


def rows(box, *tables):
    with box.session() as tx:
        counted = [
            tx.connection.execute(f"SELECT count(*) FROM {box.schema}.{table}").fetchone()[0] for table in tables
        ]
    return counted[0] if len(tables) == 1 else counted


def later(**period):
    return datetime.now(UTC) + timedelta(**period)


def problems(box):
    with box.session() as tx:
        return audit(tx.transaction)


def whole(box):
    """The law of the spool, word by word: after a clean-up exactly what is referred to is there."""
    assert problems(box) == []
    referred = " UNION ".join(f"SELECT arrival_id, position FROM {box.schema}.{table}" for table in REFERENCES)
    with box.session() as tx:
        wanted = tx.connection.execute(referred).fetchall()
        stored = tx.connection.execute(f"SELECT arrival_id, position FROM {box.schema}.spool").fetchall()
    assert sorted(wanted) == sorted(stored)
    assert rows(box, "dropped") == 0


def purge_at(box, now, **how):
    return purge.run(box._access, now=now, **how)


# ---- messages


def test_a_message_goes_with_its_last_reference(box):
    define(box)
    publish(box, 1, 2)
    assert drain(box, "first") == 2
    assert retention.purge(box).messages == 0
    whole(box)
    assert rows(box, "spool") == 2
    assert drain(box, "second") == 2
    done = retention.purge(box)
    assert (done.messages, done.message_bytes) == (2, 10)
    whole(box)


def test_one_with_a_single_destination_goes_at_once(box):
    define(box, second=False)
    publish(box, 1, 2)
    assert drain(box, "first") == 2
    assert rows(box, "spool", "dropped", "entries", "history") == [0, 0, 0, 0]


def test_what_was_set_aside_or_is_unrouted_stays_until_it_is_deleted(box):
    define(box)
    publish(box, 1, 1, -5)
    assert drain(box, "first") + drain(box, "second") == 3
    assert retention.purge(box).messages == 1
    whole(box)
    assert rows(box, "spool", "aside", "unrouted") == [2, 1, 1]
    with box.session() as tx:
        tx.connection.execute(f"DELETE FROM {box.schema}.aside")
        tx.connection.execute(f"DELETE FROM {box.schema}.unrouted")
    assert retention.purge(box).messages == 2
    whole(box)


def test_a_reference_that_moves_is_one(box):
    define(box)
    publish(box, 1)
    assert drain(box, "first") == 1
    with box.session() as tx:  # as an operator's action would
        tx.connection.execute(
            f"WITH gone AS (DELETE FROM {box.schema}.entries RETURNING arrival_id, position)"
            f" INSERT INTO {box.schema}.unrouted (arrival_id, position) SELECT arrival_id, position FROM gone"
        )
    assert retention.purge(box).messages == 0
    with box.session() as tx:
        tx.connection.execute(f"DELETE FROM {box.schema}.unrouted")
        tx.connection.execute(
            f"INSERT INTO {box.schema}.to_route (arrival_id, position, stamp, serial, publisher) SELECT 1, 0, 1, 1, 'x'"
        )
    assert retention.purge(box).messages == 0
    whole(box)


def test_two_that_complete_at_once_leave_nothing(box):
    define(box)
    publish(box, 1, 2, 3)
    with ExitStack() as stack:
        one, other = (stack.enter_context(box.session()) for _ in range(2))
        one.receive("first", limit=9).done()
        other.receive("second", limit=9).done()
        assert retention.purge(box).messages == 0
    assert retention.purge(box).messages == 3
    whole(box)


STEP = st.one_of(
    st.tuples(st.just("publish"), st.lists(st.integers(-1, 4), min_size=1, max_size=4), st.sampled_from("ab")),
    st.tuples(st.just("publish and roll back"), st.lists(st.integers(1, 4), min_size=1, max_size=3), st.just("a")),
    st.tuples(st.just("receive"), st.sampled_from(["first", "second"]), st.sampled_from(["done", "back", "open"])),
    st.tuples(st.just("end"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("delete"), st.sampled_from(["aside", "unrouted", "history"]), st.none()),
    st.tuples(st.just("purge"), st.integers(0, 3), st.none()),
)


class Stop(Exception):
    """Rolls back."""


class Steps:
    """Random work: what is received may stay open while other things happen, and end either way."""

    def __init__(self, box):
        self.box = box
        self.open = []

    def publish(self, versions, customer):
        publish(self.box, *versions, customer=customer)

    def publish_and_roll_back(self, versions, customer):
        with suppress(Stop), self.box.session() as tx:
            tx.publish([order(customer, version) for version in versions])
            raise Stop

    def receive(self, queue, how):
        stack = ExitStack()
        tx = stack.enter_context(self.box.session())
        delivery = tx.receive(queue, limit=2)
        if delivery is not None and how != "back":
            delivery.done()
        if how == "open" and len(self.open) < 3:
            self.open.append(stack)
        else:
            stack.close()

    def end(self, which, commits):
        if self.open:
            stack = self.open.pop(which % len(self.open))
            if commits:
                stack.close()
            else:
                with suppress(Stop), stack:
                    raise Stop

    def delete(self, table, _):
        with self.box.session() as tx:
            tx.connection.execute(f"DELETE FROM {self.box.schema}.{table}")

    def purge(self, days, _):
        purge_at(self.box, later(days=days))


@pytest.mark.soak
@settings(max_examples=sized(1_000, 40, 8), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, max_size=25))
def test_after_any_work_exactly_what_is_referred_to_is_there(box, steps):
    define(box, keep="everything", keep_for="1d")
    work = Steps(box)
    try:
        for name, one, other in steps:
            getattr(work, name.replace(" ", "_"))(one, other)
            assert problems(box) == []
    finally:
        while work.open:
            work.end(0, commits=True)
    retention.purge(box)
    whole(box)


def test_beside_publishers_and_receivers(box):
    define(box)
    stop = threading.Event()
    published = 200

    def publisher(number):
        for version in range(1, published // 4 + 1):
            with box.session() as tx:
                tx.publish([order(f"{number}", version), order(f"{number}", -1 if version % 5 else version)])

    def receiver(queue):
        count = 0
        while True:
            ended = stop.is_set()
            with box.session() as tx:
                delivery = tx.receive(queue, limit=3)
                count += len(list(delivery or ()))
            if ended and delivery is None:
                return count

    def cleaner():
        found = []
        while not stop.is_set():
            retention.purge(box, seconds=1)
            found += problems(box)
        return found

    with ThreadPoolExecutor(9) as threads:
        cleaners = [threads.submit(cleaner)]
        receivers = [threads.submit(receiver, queue) for queue in ("first", "first", "second", "second")]
        publishers = [threads.submit(publisher, number) for number in range(4)]
        try:
            for one in publishers:
                one.result()
        finally:
            stop.set()
        handled = [one.result() for one in receivers]
        assert [one.result() for one in cleaners] == [[]]
    assert handled[0] + handled[1] == published  # each version once; the second time it is a duplicate
    retention.purge(box)
    whole(box)
    assert rows(box, "spool") == rows(box, "aside") + rows(box, "unrouted")


# ---- what is kept


@pytest.mark.parametrize(("keep", "stay"), [("nothing", 0), ("faults", 1), ("everything", 3)])
def test_what_a_queue_keeps(box, keep, stay):
    define(box, keep=keep)
    publish(box, 1, 2, 3)
    with box.session() as tx:  # as an attempt that failed leaves it
        tx.connection.execute(f"UPDATE {box.schema}.entries SET attempt = 1 WHERE sequence = 2")
    assert drain(box, "first") + drain(box, "second") == 6
    done = retention.purge(box)
    assert (done.messages, done.history) == (3 - stay, 0)
    assert rows(box, "spool", "history", "entries") == [stay, stay, 0]
    whole(box)
    done = retention.purge(box, older_than=0, queue="first")
    assert (done.messages, done.history) == (stay, stay)
    whole(box)


@pytest.mark.parametrize("keep", ["faults", "everything"])
def test_with_a_single_destination_too(box, keep):
    define(box, keep=keep, second=False)
    publish(box, 1, 2, 3)
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.entries SET attempt = 1 WHERE sequence = 2")
    assert drain(box, "first") == 3
    stay = 1 if keep == "faults" else 3
    assert rows(box, "spool", "history", "dropped") == [stay, stay, 0]


def test_history_goes_when_it_is_older_than_its_queue_keeps_it(box):
    define(box, keep="everything", keep_for="3d")
    publish(box, 1, 2)
    assert drain(box, "first") + drain(box, "second") == 4
    assert purge_at(box, later(days=2)).history == 0
    assert purge.purgeable(box._access, now=later(days=4)).history == 2
    done = purge_at(box, later(days=4))
    assert (done.history, done.messages) == (2, 2)
    whole(box)


def days(box):
    with box.session() as tx:
        return [day for (day,) in tx.connection.execute(f"SELECT {box.schema}.history_days()").fetchall()]


def test_a_day_goes_whole_when_all_in_it_may_go(box):
    define(box, keep="everything", keep_for="3d")
    retention.purge(box)
    assert len(days(box)) == 8
    publish(box, 1, 2)
    assert drain(box, "first") == 2
    assert rows(box, "history_rest", "history") == [0, 2]
    done = purge_at(box, later(days=5))
    assert (done.history, done.days) == (2, 5)
    assert days(box)[0] == later(days=5).date()
    assert len(days(box)) == 8


def test_a_day_stays_for_a_queue_that_keeps_longer(box):
    define(box, keep="everything", keep_for="3d")
    box.define(sq.Queue("second", policy=sq.Fifo(), group="customer", keep="everything"))
    retention.purge(box)
    publish(box, 1, 2)
    assert drain(box, "first") + drain(box, "second") == 4
    done = purge_at(box, later(days=5))
    assert (done.history, done.messages) == (2, 0)
    assert rows(box, "history") == 2
    today = datetime.now(UTC).date()
    assert today in days(box)
    whole(box)
    done = purge_at(box, later(days=5), older_than="1d", queue="second")
    assert (done.history, done.messages, done.days) == (2, 2, 1)
    assert today not in days(box)


def test_what_was_done_before_there_were_days_stays_in_the_rest_until_it_goes(box):
    define(box, keep="everything", keep_for="3d")
    publish(box, 1)
    assert drain(box, "first") == 1
    retention.purge(box)
    assert datetime.now(UTC).date() not in days(box)
    publish(box, 2)
    assert drain(box, "first") == 1
    assert rows(box, "history_rest") == 2
    assert purge_at(box, later(days=5)).history == 2
    assert rows(box, "history") == 0


def test_a_day_that_somebody_reads_goes_another_time(box):
    define(box, keep="everything", keep_for="3d")
    retention.purge(box)
    publish(box, 1)
    assert drain(box, "first") == 1
    with box.session() as reader:
        assert reader.connection.execute(f"SELECT count(*) FROM {box.schema}.history").fetchone() == (1,)
        done = purge_at(box, later(days=5))
        assert (done.history, done.days) == (1, 0)  # row by row
    assert purge_at(box, later(days=5)).days == 5


def test_who_completes_does_not_wait_for_the_clean_up(box):
    define(box, keep="everything", keep_for="3d")
    publish(box, 1)
    with box.session() as tx:
        tx.receive("first").done()
        done = purge_at(box, later(days=5))  # the history is written to, so no day can be made or taken away now
        assert done.complete
    assert days(box) == [] or rows(box, "history_rest") == 1
    retention.purge(box)
    whole(box)


@pytest.mark.parametrize("who", ["superuser", "member"])
def test_the_owner_drops_days_that_another_role_has_made(databases, who):
    with databases.clone() as dsn:
        owner, member = make_owner(dsn, "owns_box", "joins_owner")
        sq.MessageBox.migrate(owner)
        with sq.MessageBox.open(dsn if who == "superuser" else member) as box:
            retention.purge(box)
        with sq.MessageBox.open(owner) as box:
            assert len(days(box)) == 8
            assert purge_at(box, later(days=8)).days == 8


# ---- message ids, tickets, waiters


def test_message_ids_are_remembered_for_seven_days(box):
    define(box)
    (one,) = publish(box, 1)
    again = sq.Message(type="order", message_id=one, context={"customer": "c", "version": 1})
    assert purge_at(box, later(days=6)).message_ids == 0
    with box.session() as tx:
        tx.publish(again)
    assert rows(box, "spool", "message_ids") == [1, 1]
    assert purge_at(box, later(days=8)).message_ids == 1
    with box.session() as tx:
        tx.publish(again)
    assert rows(box, "spool", "message_ids") == [2, 1]


def test_how_long_is_a_setting_of_the_box(box):
    define(box)
    publish(box, 1)
    retention.keep_message_ids(box, "30d")
    assert purge_at(box, later(days=29)).message_ids == 0
    assert purge_at(box, later(days=31)).message_ids == 1
    with pytest.raises(sq.UsageError, match="remembered"):
        retention.keep_message_ids(box, 0)


def test_tickets_go_with_their_messages_and_the_numbers_go_on(box):
    define(box, second=False)
    for version in (1, 2, 3, 4):
        publish(box, version, -1)
    with box.session() as tx:
        tx.dispense("till", count=10)
    with box.session() as tx:
        tx.dispense("till", count=5)
    assert drain(box, "first") == 4
    assert retention.purge(box).tickets == 1  # one of the dispensed; the messages that are unrouted keep the others
    assert problems(box) == []
    with box.session() as tx:
        tx.connection.execute(f"DELETE FROM {box.schema}.unrouted")
    assert retention.purge(box).tickets == 3
    assert retention.purge(box).tickets == 0
    assert rows(box, "tickets") == 2
    publish(box, 9)
    with box.session() as tx:
        assert tx.dispense("till").first == 16
        found = tx.connection.execute(f"SELECT location, number FROM {box.schema}.messages").fetchall()
    assert found == [("box", 9)]


def test_the_sweep_over_tickets_goes_on_where_it_was_left(box, monkeypatch):
    monkeypatch.setattr(purge, "_BATCH", 3)
    define(box, second=False)
    for version in range(1, 11):
        publish(box, version)
    assert drain(box, "first") == 10
    with box.session() as tx:
        tx.connection.execute(f"UPDATE {box.schema}.keeping SET swept_through = 4")
    assert retention.purge(box).tickets == 9
    publish(box, 11, 12, customer="d")
    whole(box)


def test_a_short_clean_up_does_all_else_before_a_sweep_that_takes_long(box, monkeypatch):
    monkeypatch.setattr(purge._CleanUp, "_tickets", lambda clean_up, _: setattr(clean_up, "_deadline", 0.0))
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(f"INSERT INTO {box.schema}.waiters (queue_id, channel) VALUES (1, 'seriatim_999999999')")
    assert retention.purge(box, seconds=3600).waiters == 1


def test_who_waited_and_is_gone_is_forgotten(box):
    with psycopg.connect(box.dsn) as connection:
        here = connection.info.backend_pid
        insert = f"INSERT INTO {box.schema}.waiters (queue_id, channel) VALUES (1, %s)"
        connection.execute(insert, [f"seriatim_{here}"])
        connection.execute(insert, ["seriatim_999999999"])
        connection.commit()
        assert retention.purge(box).waiters == 1
        left = connection.execute(f"SELECT channel FROM {box.schema}.waiters").fetchall()
    assert left == [(f"seriatim_{here}",)]


# ---- groups


def test_a_group_that_is_forgotten_begins_anew_in_its_next_incarnation(box):
    define(box, keep="everything", second=False)
    publish(box, 1, 2)
    assert drain(box, "first") == 2
    assert groups.forget(box, "first", "c") == 1
    publish(box, 1)
    with box.session() as tx:
        delivery = tx.receive("first")
        assert [(one.sequence, one.ordinal) for one in delivery] == [(1, 1)]
    assert groups.forget(box, "first", "c", actor="me", reason="moved") == 2
    publish(box, 2)
    with pytest.raises(sq.ActionRefused, match="it has 1 message neither done nor set aside"):
        groups.forget(box, "first", "c")
    with pytest.raises(sq.UsageError, match="no such group"):
        groups.forget(box, "first", "unknown")
    with box.session() as tx:
        kept = f"SELECT incarnation, ordinal FROM {box.schema}.history ORDER BY 1, 2"
        assert tx.connection.execute(kept).fetchall() == [(0, 1), (0, 2), (1, 1)]
        said = f"SELECT actor, action, reason FROM {box.schema}.operator_log ORDER BY operation_id"
        assert tx.connection.execute(said).fetchall()[-1] == ("me", "forget", "moved")


def test_a_new_group_of_a_long_run_has_the_incarnation_of_its_queue(box):
    define(box, keep="everything", second=False)
    policy = sq.Standard()
    box.define(sq.Queue("first", policy, sq.Group("customer", expire_after="1d"), "version", keep="everything"))
    publish(box, 1)
    assert drain(box, "first") == 1
    assert purge_at(box, later(days=2), forget_expired=True).groups == 1
    publish(box, *(number + (1 if number % 2 else -1) for number in range(1, 41)))
    with box.session() as tx:
        assert len(list(tx.receive("first", limit=30))) == 30
    with box.session() as tx:
        kept = f"SELECT incarnation, count(*) FROM {box.schema}.history GROUP BY 1 ORDER BY 1"
        assert tx.connection.execute(kept).fetchall() == [(0, 1), (1, 30)]


def test_an_idle_group_keeps_its_next_and_ordinal(box):
    define(box, second=False)
    publish(box, 1, 2)
    assert drain(box, "first") == 2
    purge_at(box, later(days=1000))
    publish(box, 3, 1)
    with box.session() as tx:
        assert [(one.sequence, one.ordinal) for one in tx.receive("first", limit=9)] == [(3, 3)]
    assert rows(box, "aside") == 1


# ---- how it works


def test_when_the_time_is_over_the_next_one_goes_on(box):
    define(box)
    publish(box, 1)
    assert drain(box, "first") + drain(box, "second") == 2
    assert retention.purge(box, seconds=0) == Purged(complete=False)
    assert retention.purge(box).messages == 1


def test_batches(box, monkeypatch):
    monkeypatch.setattr(purge, "_BATCH", 2)
    define(box, keep="everything")
    publish(box, *range(1, 8))
    assert drain(box, "first") + drain(box, "second") == 14
    seen = []
    done = retention.purge(box, older_than=0, progress=seen.append)
    assert (done.history, done.messages) == (7, 7)
    assert seen[-1] == done
    assert [one.messages for one in seen] == sorted(one.messages for one in seen)
    whole(box)


def test_what_would_go(box):
    define(box, keep="everything")
    publish(box, 1, 2)
    assert retention.purgeable(box) == Purgeable(0, 0, 0, 0)
    assert drain(box, "first") == 2
    assert retention.purgeable(box).history == 0
    found = retention.purgeable(box, older_than=0)
    assert (found.history, found.messages) == (2, 2)
    assert found.size_bytes > 0
    assert drain(box, "second") == 2
    with box.session() as tx:
        tx.connection.execute(f"DELETE FROM {box.schema}.history")
    assert retention.purgeable(box).messages == 2
    assert retention.purge(box).messages == 2
    assert retention.purgeable(box) == Purgeable(0, 0, 0, 0)


def test_the_audit_finds_what_is_broken(box):
    define(box)
    publish(box, 1, 2, 3)
    with box.session() as tx:
        tx.connection.execute(f"DELETE FROM {box.schema}.spool WHERE position = 0")
        tx.connection.execute(f"DELETE FROM {box.schema}.entries WHERE position = 1")
    found = sorted((one.problem, one.position) for one in problems(box))
    assert found == [
        ("a message that nothing refers to", 1),
        ("a row of entries refers to a message that is not there", 0),
        ("a row of entries refers to a message that is not there", 0),
    ]
    with box.session() as tx:
        tx.connection.execute(f"DELETE FROM {box.schema}.tickets")
    assert "a message without a ticket" in {one.problem for one in problems(box)}


@pytest.mark.parametrize(
    "what", [{"queue": "nowhere"}, {"older_than": -1}, {"older_than": "10001d"}, {"older_than": "x"}]
)
def test_what_cannot_be(box, what):
    with pytest.raises(sq.UsageError):
        retention.purge(box, **what)
    with pytest.raises(sq.UsageError):
        retention.purgeable(box, **what)


PARAMETERS = {
    "purge_messages": {"after": 0},
    "purge_history": {"queue_id": 1, "since": later(days=-9), "before": later(days=-1)},
    "purge_message_ids": {"since": later(days=-9), "before": later(days=-1)},
    "purge_tickets": {},
    "purge_dispensed": {},
}


@pytest.mark.parametrize("name", sorted(PARAMETERS))
def test_no_statement_reads_a_whole_table(box, name):
    define(box)
    retention.purge(box)
    with box.session() as tx:
        tx.connection.execute(statement("purge_begin", box.schema))
        explain = b"EXPLAIN " + statement(name, box.schema)
        plan = tx.connection.execute(explain, {"batch": 10, **PARAMETERS[name]}).fetchall()
    text = "\n".join(line for (line,) in plan)
    assert "Index" in text
    assert "Seq Scan on " not in text.replace("Seq Scan on keeping", "")


def test_the_command(box):
    def call(*words):
        where = ("--dsn", box.dsn, "--schema", box.schema)
        result = CliRunner().invoke(main, ["box", "purge", *where, *words])
        assert result.exit_code == 0, result.output
        return result.stdout

    define(box, keep="everything")
    publish(box, 1, 2)
    assert drain(box, "first") + drain(box, "second") == 4
    assert call() == "there was nothing to delete\n"
    assert "at most 2 messages, 2 entries" in call("--dry-run", "--older-than", "0s")
    assert json.loads(call("--dry-run", "--older-than", "0s", "--json"))["history"] == 2
    told = json.loads(call("--older-than", "0s", "--queue", "first", "--json"))
    assert (told["messages"], told["history"], told["complete"]) == (2, 2, True)
    whole(box)
