"""Turns whose handlers spoil the transaction: the fault is that of the message whose handler did it, and nothing is lost."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import groups, invariants, messages
from tests.blocked import wait_until_blocked
from tests.box.shop import define, left, publish, rows, see, seen
from tests.runtime.workers.test_worker import until, work, working


def faulted(box):
    """Whether the group stands still."""
    return rows(box, "SELECT FROM {schema}.groups WHERE state = 'faulted'")


def faults(box):
    """Of which message each is, and what it says."""
    return rows(box, "SELECT sequence, kind, error_class, error FROM {schema}.faults ORDER BY fault_id")


def make_lines(box, kind):
    """A table that refuses a row only when the transaction commits."""
    made = {
        "foreign key": "CREATE TABLE {schema}_lines (v int REFERENCES {schema}_heads DEFERRABLE INITIALLY DEFERRED)",
        "unique": "CREATE TABLE {schema}_lines (v int UNIQUE DEFERRABLE INITIALLY DEFERRED); "
        "INSERT INTO {schema}_lines VALUES (2)",
        "trigger": "CREATE TABLE {schema}_lines (v int); "
        "CREATE FUNCTION {schema}.refuse() RETURNS trigger LANGUAGE plpgsql AS "
        "$$BEGIN IF NEW.v = 2 THEN RAISE 'no 2'; END IF; RETURN NULL; END$$; "
        "CREATE CONSTRAINT TRIGGER refuse AFTER INSERT ON {schema}_lines DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION {schema}.refuse()",
    }[kind]
    rows(box, "CREATE TABLE {schema}_heads (v int PRIMARY KEY); INSERT INTO {schema}_heads VALUES (1), (3)")
    rows(box, made)


def line(box, message, tx):
    see(box, message, tx)
    tx.connection.execute(f"INSERT INTO {box.schema}_lines VALUES (%s)", [message.sequence])


REFUSED = [("foreign key", "ForeignKeyViolation"), ("unique", "UniqueViolation"), ("trigger", "RaiseException")]


@pytest.mark.parametrize(("kind", "error_class"), REFUSED)
@pytest.mark.parametrize(
    "options", [{}, {"batch": True}, {"pace": sq.Pace(run_length=1)}, {"pace": sq.Pace(rate=1000)}]
)
def test_what_the_database_refuses_at_the_commit_is_the_message_s_fault(box, kind, error_class, options):
    define(box, retry=sq.Retry(1))
    make_lines(box, kind)
    publish(box, 1, 2, 3)
    publish(box, 1, customer="good")

    def handle(given, tx):
        for message in given if options.get("batch") else [given]:
            if message.context["customer"] == "good":
                see(box, message, tx)
            else:
                line(box, message, tx)

    work(box, handle, done=lambda: faulted(box) and left(box) == 2, **options)
    (fault,) = faults(box)
    assert (fault.sequence, fault.kind, fault.error_class) == (2, "unexpected", error_class)
    assert sorted(seen(box)) == [("c1", 1), ("good", 1)]
    assert rows(box, "SELECT queued FROM {schema}.groups WHERE group_key = 'c1'")[0].queued == 2
    assert invariants.broken(box) == []


def test_a_queue_that_continues_goes_on_after_what_the_commit_refuses(box):
    define(box, errors="continue", retry=sq.Retry(1))
    make_lines(box, "foreign key")
    publish(box, 1, 2, 3)
    work(box, lambda message, tx: line(box, message, tx))
    assert seen(box) == [("c1", 1), ("c1", 3)]
    assert [fault.sequence for fault in faults(box)] == [2]
    assert invariants.broken(box) == []


def test_a_commit_that_is_refused_after_another_one_has_failed(box):
    """The transaction that writes the failure of the later one down is refused, too."""
    define(box, errors="continue", retry=sq.Retry(1))
    make_lines(box, "foreign key")
    publish(box, 2, 3, customer="c1")
    publish(box, 1)

    def handle(message, tx):
        line(box, message, tx)
        if message.sequence == 3:
            raise sq.Business("no")

    work(box, handle)
    assert [(fault.sequence, fault.error_class) for fault in faults(box)] == [
        (2, "ForeignKeyViolation"),
        (3, "Business"),
    ]
    assert seen(box) == [("c1", 1)]


def test_a_refused_commit_in_a_queue_without_groups(box):
    define(box, policy=sq.Unordered(), group=None, sequence=None, retry=sq.Retry(1))
    make_lines(box, "foreign key")
    publish(box, 1, 2, 3)

    def handle(message, tx):
        see(box, message, tx)
        tx.connection.execute(f"INSERT INTO {box.schema}_lines VALUES (%s)", [message.context["version"]])

    work(box, handle)
    assert sorted(seen(box)) == [("c1", 1), ("c1", 3)]
    (dead,) = messages.messages(box, status="dead")
    assert "ForeignKeyViolation" in dead.reason


def test_a_refused_commit_on_trial_is_no_death_of_its_worker(box):
    """The message is locked until the record of the turn on trial is gone."""
    define(box, policy=sq.Unordered(), group=None, sequence=None, retry=sq.Retry(1))
    make_lines(box, "foreign key")
    publish(box, 2)
    with suppress(ZeroDivisionError), box.session() as tx:
        tx.receive("shop")
        raise ZeroDivisionError  # the mark of a rolled-back transaction
    holder = psycopg.connect(box.dsn)

    def handle(message, tx):
        holder.execute(f"SELECT FROM {box.schema}.trials FOR UPDATE")
        tx.connection.execute(f"INSERT INTO {box.schema}_lines VALUES (2)")

    with holder, working(sq.Worker(box, "shop", handle, workers=1)):
        wait_until_blocked(box.dsn, holder)
        with psycopg.connect(box.dsn, autocommit=True) as watcher:
            unlocked = watcher.execute(f"SELECT FROM {box.schema}.entries FOR UPDATE SKIP LOCKED").fetchall()
        holder.rollback()
        until(lambda: not left(box))
    assert unlocked == []
    (dead,) = messages.messages(box, status="dead")
    assert "ForeignKeyViolation" in dead.reason


def passes_over(box, message, tx):
    with suppress(psycopg.Error):
        tx.connection.execute("INSERT INTO no_such_table VALUES (1)")


def begins_anew(box, message, tx):
    tx.connection.execute("COMMIT; BEGIN")


def rolls_back(box, message, tx):
    tx.connection.execute("ROLLBACK")
    tx.connection.execute("BEGIN")


BLOCKS = []


def leaves_open(box, message, tx):
    BLOCKS.append(tx.connection.transaction())
    BLOCKS[-1].__enter__()


SPOILED = [
    (passes_over, "UsageError", "an SQL statement failed, and the handler ignored the error"),
    (begins_anew, "TurnEnded", "the handler ended the transaction"),
    (rolls_back, "TurnEnded", "the handler ended the transaction"),
    (leaves_open, "TurnEnded", "the handler ended the transaction"),
]


@pytest.mark.dear
@pytest.mark.parametrize(("spoil", "error_class", "told"), SPOILED)
@pytest.mark.parametrize("then", ["writes", "does nothing", "fails", "swallows"])
@pytest.mark.parametrize("bad", [1, 2])
def test_whose_handler_spoils_the_transaction_has_the_fault(box, spoil, error_class, told, then, bad):
    """And not the message whose handler finds it spoiled."""
    has_ended = error_class == "TurnEnded"  # then it fails at once, however many attempts there are
    define(box, retry=sq.Retry(3 if has_ended else 1))
    publish(box, 1, 2, 3)
    calls = []

    def handle(message, tx):
        calls.append(message.sequence)
        if message.sequence == bad:
            see(box, message, tx)
            spoil(box, message, tx)
        elif then == "writes" or message.sequence < bad:
            see(box, message, tx)
        elif then == "swallows":
            with suppress(Exception):
                see(box, message, tx)
        elif then == "fails":
            raise sq.Business("no")

    work(box, handle, workers=1, done=lambda: faulted(box))
    assert {fault.sequence for fault in faults(box)} == {bad}
    fault = faults(box)[-1]
    assert (fault.kind, fault.error_class) == ("business" if has_ended else "unexpected", error_class)
    assert told in fault.error
    assert len(calls) <= 8
    assert left(box) == 4 - bad
    assert invariants.broken(box) == []


def test_a_savepoint_of_the_handler_s_own(box):
    define(box)
    publish(box, 1, 2)

    def handle(message, tx):
        with suppress(psycopg.Error), tx.connection.transaction():
            tx.connection.execute("INSERT INTO no_such_table VALUES (1)")
        see(box, message, tx)

    work(box, handle)
    assert seen(box) == [("c1", 1), ("c1", 2)]
    assert faults(box) == []


def puts_back_joined(box, tx):
    with box.session(tx.connection) as joined:
        joined.publish([])


GONE = [
    (lambda box, tx: tx.receive("other"), "can't receive"),
    (lambda box, tx: tx.receive("other", group="nobody"), "can't receive"),
    (lambda box, tx: tx.next_group("other"), "can't receive"),
    (lambda box, tx: tx.commit_and_receive(), "can't receive"),
    (lambda box, tx: tx.delivery.put_back(), "the worker completes it"),
    (lambda box, tx: tx.delivery.done(), "the worker completes it"),
    (lambda box, tx: tx.delivery.done_through(1), "the worker completes it"),
    (lambda box, tx: list(tx.delivery), "the worker completes it"),
    (puts_back_joined, "the worker completes it"),
]


@pytest.mark.parametrize("uses", [True, False])
@pytest.mark.parametrize(("how", "told"), GONE)
def test_a_handler_that_receives_or_ends_what_was_received(box, how, told, uses):
    define(box, retry=sq.Retry(1))
    define(box, "other")
    publish(box, 1, 2, 3)

    def handle(message, tx):
        if uses:
            see(box, message, tx)
        if message.sequence == 2:
            how(box, tx)

    work(box, handle, workers=1, done=lambda: faulted(box))
    (fault,) = faults(box)
    assert (fault.sequence, fault.kind, fault.error_class) == (2, "business", "Misuse")
    assert told in fault.error
    assert seen(box) == ([("c1", 1)] if uses else [])
    assert (left(box), left(box, "other")) == (2, 3)
    assert invariants.broken(box) == []


@pytest.mark.parametrize(("how", "told"), GONE)
def test_who_passes_over_that_it_was_refused(box, how, told):
    define(box, retry=sq.Retry(1))
    define(box, "other")
    publish(box, 1, 2, 3)
    joined = []

    def handle(message, tx):
        with suppress(sq.UsageError):
            how(box, tx)
            joined.append(message)
        see(box, message, tx)

    work(box, handle, workers=1, done=lambda: faulted(box) or not left(box))
    assert joined == []
    if how is puts_back_joined:  # what it did can't be taken back, but the fault is its own
        assert [fault.sequence for fault in faults(box)] == [1]
        assert left(box) == 3
    else:
        assert seen(box) == [("c1", 1), ("c1", 2), ("c1", 3)]
    assert left(box, "other") == 3
    assert invariants.broken(box) == []


def test_in_a_lease_a_handler_can_not_receive_either(box):
    define(box, retry=sq.Retry(1))
    publish(box, 1)
    work(box, lambda message, tx: tx.receive("shop"), mode="leased", done=lambda: faulted(box))
    (fault,) = faults(box)
    assert "can't receive" in fault.error
    assert groups.group_view(box, "shop", "c1").state == "faulted"


@pytest.mark.parametrize("mode", ["transactional", "leased"])
@pytest.mark.parametrize("errors", ["suspend", "continue"])
def test_a_set_whose_commit_is_refused_fails_as_a_whole(box, mode, errors):
    define(box, policy=sq.UnitOfWork(size=3), errors=errors, retry=sq.Retry(1))
    make_lines(box, "foreign key")
    publish(box, 3, 1, 2)
    publish(box, 1, 2, 3, customer="good")
    calls = []

    def handle(delivery, tx):
        calls.append(delivery.group)
        for message in delivery:
            if delivery.group == "good":
                see(box, message, tx)
            else:
                line(box, message, tx)

    at_the_end = 3 if errors == "suspend" else 0
    work(box, handle, mode=mode, workers=1, done=lambda: len(faults(box)) == 1 and left(box) == at_the_end)
    (fault,) = faults(box)
    assert (fault.sequence, fault.kind, fault.error_class) == (1, "unexpected", "ForeignKeyViolation")
    assert seen(box) == [("good", 1), ("good", 2), ("good", 3)]
    assert calls.count("c1") == (1 if mode == "leased" else 2)
    assert len(messages.messages(box, status="dead")) == (3 if errors == "continue" else 0)
    assert bool(faulted(box)) == (errors == "suspend")
    assert invariants.broken(box) == []
