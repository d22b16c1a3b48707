"""A handler ends its whole process group, and something starts that again: after its attempts the message stops its group only.

Rollbacks, deadlocks, drains and restarts of the server leave the same mark in the database, and count as no attempt.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

import seriatim as sq
from seriatim.box.server.embedded import serving
from seriatim.operations import groups, invariants
from seriatim.runtime.processes.supervisor import Supervisor
from tests.box.shop import define, left, publish, rows, see, seen
from tests.command import environment

DEADLINE_S = 240.0
ATTEMPTS = 2


def start(box, deadly="0", *options):
    """The program as a process group of its own."""
    words = [sys.executable, "-m", "tests.faults.killed_worker", box.dsn, box.schema, deadly, *options]
    return subprocess.Popen(words, cwd=Path(__file__).parents[2], env=environment(), start_new_session=True)


def deaths(box, deadly):
    """Start it again as long as it is killed; how often it was."""
    for times in range(10):
        if (code := start(box, deadly).wait(DEADLINE_S)) != -signal.SIGKILL:
            assert code == 0
            return times
    raise AssertionError("it is killed again and again")


def rolled_back(box):
    """A transaction that had the next messages in hand is rolled back, as an application may do."""
    with suppress(ZeroDivisionError), box.session() as tx:
        assert tx.receive("shop", limit=10) is not None
        _ = 1 / 0


def on_trial(box):
    return rows(box, "SELECT group_key, token FROM {schema}.trials")


def faults(box):
    return rows(box, "SELECT sequence, kind, error_class, attempt FROM {schema}.faults ORDER BY fault_id")


def until(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.proves("a message that ends its whole process group, in the midst of a run, stops its own group only")
@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Standard(), sq.UnitOfWork(size=9), sq.Unordered()])
def test_a_killer_at_place_7_of_a_run(box, policy):
    given = {"sequence": None} if isinstance(policy, sq.Fifo | sq.Unordered) else {}
    define(box, policy=policy, retry=sq.Retry(ATTEMPTS, delay=0), **given)
    publish(box, *range(1, 10), customer="bad")
    publish(box, *range(1, 10), customer="good")
    # At the first nobody knows what it was; each further one is an attempt.
    assert deaths(box, "7") == 1 + ATTEMPTS
    assert [(one.kind, one.error_class, one.attempt) for one in faults(box)] == [
        ("poison", "WorkerDied", attempt) for attempt in range(1, ATTEMPTS + 1)
    ]
    done = seen(box)
    assert len(done) == len(set(done))
    assert sorted(version for who, version in done if who == "good") == list(range(1, 10))
    before = {sq.UnitOfWork: [], sq.Unordered: [1, 2, 3, 4, 5, 6, 8, 9]}.get(type(policy), [1, 2, 3, 4, 5, 6])
    assert sorted(version for who, version in done if who == "bad") == before
    if not isinstance(policy, sq.Unordered):
        assert groups.group_view(box, "shop", "bad").state == "faulted"
    assert invariants.broken(box) == []


@pytest.mark.parametrize("policy", [sq.Fifo(), sq.Unordered()])
def test_a_rollback_of_an_application_is_no_attempt(box, policy):
    define(box, policy=policy, sequence=None, retry=sq.Retry(1))
    publish(box, 1, 2, 3)
    for _ in range(3):
        rolled_back(box)
    assert start(box).wait(DEADLINE_S) == 0
    assert seen(box) == [("c1", 1), ("c1", 2), ("c1", 3)]
    assert faults(box) == []
    assert on_trial(box) == []


def test_a_deadlock_of_a_transaction_that_has_messages_in_hand_is_no_attempt(box):
    define(box, policy=sq.Fifo(), sequence=None, retry=sq.Retry(1))
    rows(box, "CREATE TABLE {schema}_locked (n int); INSERT INTO {schema}_locked VALUES (1), (2)")
    publish(box, 1, 2, customer="a")
    publish(box, 1, 2, customer="b")
    lock = f"UPDATE {box.schema}_locked SET n = n WHERE n = %s"
    with psycopg.connect(box.dsn) as one, psycopg.connect(box.dsn) as other:
        other.execute("SET deadlock_timeout = '10min'")
        for number, connection in enumerate((one, other), start=1):
            with box.session(connection=connection) as tx:
                delivery = tx.receive("shop", limit=10)
                connection.execute(lock, [number])
                delivery.done()
        other.pgconn.send_query_params(lock.replace("%s", "1").encode(), None)
        with pytest.raises(psycopg.errors.DeadlockDetected):
            one.execute(lock, [2])
        while other.pgconn.get_result() is not None:
            pass
        one.rollback()
        other.rollback()
    assert start(box).wait(DEADLINE_S) == 0
    assert sorted(seen(box)) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert (faults(box), on_trial(box)) == ([], [])


@pytest.mark.proves("a turn on trial that a supervisor kills to end it is no attempt")
def test_a_drain_is_no_attempt(box, tmp_path, monkeypatch):
    define(box, policy=sq.Fifo(), sequence=None, retry=sq.Retry(1))
    publish(box, 1, customer="slow")
    rolled_back(box)
    began = tmp_path / "began"
    monkeypatch.setenv("TEST_BEGAN", str(began))
    supervisor = Supervisor(box, ["shop"], "tests.faults.killed_worker:wait", folders=[str(Path(__file__).parents[2])])
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    until(began.exists)
    assert [one.token is not None for one in on_trial(box)] == [True]
    supervisor.insist()
    thread.join(DEADLINE_S)
    assert [one.token for one in on_trial(box)] == [None]
    assert start(box).wait(DEADLINE_S) == 0
    assert seen(box) == [("slow", 1)]
    assert (faults(box), on_trial(box)) == ([], [])


@pytest.mark.proves("a turn on trial that ends with its server is no attempt")
@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGQUIT])
def test_a_restart_of_the_server_is_no_attempt(tmp_path, ends):
    with serving(tmp_path / "server") as server, sq.MessageBox.open(server.dsn) as box:
        define(box, policy=sq.Fifo(), sequence=None, retry=sq.Retry(1))
        publish(box, 1, customer="slow")
        rolled_back(box)
        process = start(box, "slow", str(tmp_path / "began"))
        until((tmp_path / "began").exists)
        assert [one.token is not None for one in on_trial(box)] == [True]
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(DEADLINE_S)
        (file,) = (tmp_path / "server").rglob("postmaster.pid")
        before = _began(box)
        os.kill(int(file.read_text().split()[0]), ends)
        until(lambda: _began(box) not in (None, before))
        assert start(box).wait(DEADLINE_S) == 0
        assert seen(box) == [("slow", 1)]
        assert (faults(box), on_trial(box)) == ([], [])


def test_a_new_group_that_is_on_trial_lets_others_go_first(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1, 2, customer="first")
    publish(box, 1, 2, customer="second")
    rolled_back(box)
    assert start(box).wait(DEADLINE_S) == 0
    found = [who for who, _ in seen(box)]
    assert found[0] == "second"  # a turn that took a second is followed by one of the other group
    assert sorted(found) == ["first", "first", "second", "second"]


def test_nothing_is_written_where_there_is_no_mark(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1, 2)
    before = rows(box, "SELECT last_value FROM {schema}.fences")
    sq.Worker(box, "shop", lambda message, tx: see(box, message, tx), workers=1).run(until_idle=True)
    assert (left(box), on_trial(box)) == (0, [])
    assert rows(box, "SELECT last_value FROM {schema}.fences") == before


def _began(box):
    """When the server began; None: it isn't there."""
    with suppress(sq.SeriatimError, psycopg.Error):
        return rows(box, "SELECT pg_postmaster_start_time() AS at")[0].at
    return None
