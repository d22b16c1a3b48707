"""Turns on trial: what ends the connection of a turn counts, and the fault names the setting; doctor tells of it."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import psycopg
import pytest

import seriatim as sq
from seriatim.box.postgres.translate import translated
from seriatim.box.workers.steps import is_transient
from seriatim.operations import groups, invariants
from seriatim.operations.doctor import State
from seriatim.operations.doctor.box_checks import CHECKS as OF_BOX
from seriatim.operations.doctor.work_checks import CHECKS, Work
from tests.blocked import wait_until_blocked
from tests.box.shop import define, publish, rows, see, seen
from tests.runtime.workers.test_worker import work

#: What a handler may do that ends its connection, by the setting that does.
ENDING = {
    "transaction_timeout": lambda tx: tx.connection.execute("SELECT pg_sleep(60)"),
    "idle_in_transaction_session_timeout": lambda tx: time.sleep(0.5) or tx.connection.execute("SELECT 1"),
}


@pytest.mark.parametrize("setting", ENDING)
def test_a_setting_that_ends_each_turn_is_named_by_the_fault(box, setting):
    define(box, policy=sq.Fifo(), sequence=None, retry=sq.Retry(2))
    publish(box, 1, 2, customer="bad")
    publish(box, 1, 2, customer="good")

    def handle(message, tx):
        if message.context["customer"] == "bad":
            tx.connection.execute(f"SET LOCAL {setting} = '100ms'")
            ENDING[setting](tx)
        see(box, message, tx)

    def is_faulted():
        view = groups.group_view(box, "shop", "bad")
        return view is not None and view.state == "faulted"

    work(box, handle, done=lambda: is_faulted() and len(seen(box)) == 2, workers=1)
    faults = rows(box, "SELECT kind, error_class, error FROM {schema}.faults ORDER BY fault_id")
    assert [(one.kind, one.error_class) for one in faults] == [("timeout", "TurnEndedBySetting")] * 2
    assert all(f"by {setting}: set it to 0 for this role" in one.error for one in faults)
    assert seen(box) == [("good", 1), ("good", 2)]
    assert invariants.broken(box) == []


def test_doctor_tells_of_a_message_that_was_handed_out_again_and_again(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1)
    assert CHECKS["unended"](Work(box)).state is State.OK
    with box.session() as tx:
        (message,) = tx.receive("shop").messages
        named = {"of_queue": tx.access.known.definitions.queue("shop").queue_id, "of_group": "c1"}
        entry_id = tx.delivery.entry_ids[0]
    for _ in range(12):
        with box.session() as tx:
            tx.transaction.value("begin_attempt", **named, of_entry=entry_id, of_worker="worker")
    found = CHECKS["unended"](Work(box))
    assert found.state is State.WARNING
    told = f"queue 'shop', group 'c1': message {message.message_id!r} was handed out 12 times, and its turn never ended"
    assert found.found == told


def test_a_new_group_on_trial_is_handed_out_on_trial(box):
    """The turn that put it on trial may have been rolled back: then the box doesn't know the group, and knows of the trial."""
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1)
    with box.session() as tx:
        queue = tx.access.known.definitions.queue("shop")
        tx.transaction.do("begin_trial", of_queue=queue.queue_id, of_group="c1", how_many=1)
    with box.session() as tx:
        tx.tries = True
        assert len(tx.receive("shop")) == 1
        assert tx.delivery.on_trial


def test_a_group_stays_locked_until_it_is_on_trial(box):
    """Otherwise another receiver had it in between, with neither the mark nor the trial."""
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1)
    with suppress(ZeroDivisionError), box.session() as tx:
        assert tx.receive("shop") is not None
        raise ZeroDivisionError

    def suspect():
        with box.session() as tx:
            tx.tries = True
            return tx.receive("shop")

    with ThreadPoolExecutor(1) as thread, psycopg.connect(box.dsn) as holder:
        holder.execute(f"LOCK TABLE {box.schema}.trials IN SHARE MODE")
        suspecting = thread.submit(suspect)
        wait_until_blocked(box.dsn, holder)
        with box.session() as tx:
            assert tx.receive("shop") is None
        holder.rollback()
        assert len(suspecting.result()) == 1


@pytest.fixture
def role(box):
    """A role of this test."""
    name = f"limited_{os.getpid()}"
    rows(box, f"CREATE ROLE {name} LOGIN")
    yield name
    rows(box, f"DROP ROLE {name}")


def test_doctor_names_time_limits_of_roles_below_the_turn_limit(box, role):
    assert OF_BOX["time limits"](box).state is State.OK
    (database,) = rows(box, "SELECT current_database() AS name")
    for name, value in {"statement_timeout": "2s", "lock_timeout": "90s", "transaction_timeout": "0"}.items():
        rows(box, f"ALTER ROLE {role} IN DATABASE {database.name} SET {name} = '{value}'")
    found = OF_BOX["time limits"](box)
    assert (found.state, found.found) == (
        State.WARNING, f"these are below the turn limit of 60 s: role {role}: statement_timeout = 2s",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("sqlstate", "ours", "passes"),
    [
        ("08006", sq.Unavailable, True),
        ("25P03", sq.Unavailable, True),
        ("25P09", sq.Unavailable, True),
        ("40002", sq.Unavailable, True),
        ("40777", sq.Unavailable, True),
        ("53400", sq.Unavailable, True),
        ("57777", sq.Unavailable, True),
        ("09000", sq.UsageError, False),
        ("38001", sq.UsageError, False),
        ("P0001", sq.UsageError, False),
        ("AB123", sq.UsageError, False),
        ("26000", sq.EnvironmentProblem, False),
        ("28000", sq.EnvironmentProblem, False),
        ("XX001", sq.EnvironmentProblem, False),
        ("42601", sq.InvariantBroken, False),
    ],
)
def test_an_error_of_postgresql_is_told_by_its_class(box, sqlstate, ours, passes):
    with box.session() as tx:
        with pytest.raises(ours) as told, translated("here"):
            tx.connection.execute(f"DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '{sqlstate}'; END $$")
        tx.connection.rollback()
    said = told.value.__cause__
    assert isinstance(said, psycopg.Error)
    assert type(told.value) is ours
    assert is_transient(said) is passes
