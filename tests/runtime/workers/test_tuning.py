"""Workers tell of themselves, and obey what is set for their queue while they run."""

from __future__ import annotations

import os
import threading
import time

import pytest

import seriatim as sq
from seriatim.operations import queues, retention, workers
from seriatim.operations.grants import grant
from seriatim.operations.workers import idle_queues
from seriatim.runtime.workers import heartbeat
from tests.box.shop import define, left, publish, rows, see, seen
from tests.runtime.workers.test_worker import until, work, working

pytestmark = pytest.mark.dear

BY = {"actor": "ann", "reason": "the shop is slow"}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """A heartbeat comes so often that nobody waits for it."""
    monkeypatch.setattr(heartbeat, "_PERIOD_S", 0.1)
    monkeypatch.setattr(heartbeat, "_SOON_S", 0.05)
    # And its first answer, and its last word, are waited for however long the machine stands still.
    monkeypatch.setattr(heartbeat, "_FIRST_S", 120.0)
    monkeypatch.setattr(heartbeat, "_PATIENCE_S", 120.0)


class Gate:
    """Handlers wait in it until it is opened."""

    def __init__(self):
        self.open = threading.Event()
        self.inside = 0
        self.most = 0
        self._lock = threading.Lock()

    def handle(self, message, tx):
        with self._lock:
            self.inside += 1
            self.most = max(self.most, self.inside)
        self.open.wait(300)
        with self._lock:
            self.inside -= 1


def publish_groups(box, count, each=1):
    for at in range(count):
        publish(box, *range(1, each + 1), customer=f"c{at}")


@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_who_works_on_a_queue_and_what_is_in_hand_is_told(box, mode):
    define(box)
    gate = Gate()
    publish(box, 1, 2, customer="a")
    assert workers.workers(box) == []
    with working(sq.Worker(box, "shop", gate.handle, workers=2, pace=sq.Pace(run_length=3, rate=50), mode=mode)):
        until(lambda: any(one.in_hand for one in workers.workers(box, "shop")))
        (found,) = workers.workers(box)
        assert (found.queue, found.pid, found.workers, found.threads) == ("shop", os.getpid(), 2, 2)
        assert (found.run_length, found.rate, found.mode, found.is_silent) == (3, 50.0, mode, False)
        assert found.started_at <= found.seen_at
        (one,) = found.in_hand
        assert (one.group, one.attempt, found.busy) == ("a", 1, 1)
        assert one.message_id in [row.message_id for row in rows(box, "SELECT message_id FROM {schema}.spool")]
        assert (found.seen_at - one.since).total_seconds() >= 0
        (counts,) = queues.queues(box)
        assert (counts.processes, counts.is_idle) == (1, False)
        gate.open.set()
    assert workers.workers(box) == []  # it has said that it ends


def test_a_heartbeat_changes_one_row_and_no_index(box):
    define(box)
    with working(sq.Worker(box, "shop", lambda message, tx: None, workers=1)):
        until(lambda: workers.workers(box))
        before = workers.workers(box)[0].seen_at
        until(lambda: (workers.workers(box)[0].seen_at - before).total_seconds() > 1)
        rows(box, "SELECT pg_stat_force_next_flush()")
        with box.session() as tx:  # what the worker's connection has counted is told when it is idle
            count = "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'known_workers'"
            until(
                lambda: (
                    tx.connection.execute("SELECT pg_stat_clear_snapshot()")
                    and tx.connection.execute(count).fetchone()[0]
                )
            )
            updated, hot = tx.connection.execute(count).fetchone()
    assert updated == hot


def test_threads_come_and_go_as_is_set_and_as_it_was_started_when_that_is_unset(box):
    define(box)
    gate = Gate()
    publish_groups(box, 6)
    with working(sq.Worker(box, "shop", gate.handle, workers=2)):
        until(lambda: gate.inside == 2)
        assert queues.set_queue(box, "shop", workers=5, **BY).values == {"workers": 5}
        until(lambda: gate.inside == 5)
        until(lambda: workers.workers(box)[0].threads == 5)
        queues.set_queue(box, "shop", workers=1, **BY)
        gate.open.set()
        until(lambda: not left(box))
        until(lambda: (workers.workers(box)[0].workers, workers.workers(box)[0].threads) == (1, 1))
        gate.most, gate.open = 0, threading.Event()
        publish_groups(box, 3, 2)
        until(lambda: gate.inside == 1)
        queues.set_queue(box, "shop", workers=None)
        until(lambda: gate.inside == 2)
        assert gate.most == 2
        gate.open.set()
    log = rows(box, "SELECT actor, reason, action, queue, details FROM {schema}.operator_log ORDER BY operation_id")
    assert tuple(log[0]) == ("ann", "the shop is slow", "set", "shop", {"workers": 5})
    assert tuple(log[-1]) == ("application", "on request", "set", "shop", {"workers": None})


def test_groups_in_flight_are_those_of_all_processes_together(box):
    define(box)
    gate = Gate()
    with (
        working(sq.Worker(box, "shop", gate.handle, workers=4)),
        working(sq.Worker(box, "shop", gate.handle, workers=4)),
    ):
        until(lambda: [one.threads for one in workers.workers(box)] == [4, 4])
        queues.set_queue(box, "shop", in_flight=3, **BY)  # from here on threads only leave: once told, it stays
        until(lambda: sorted(one.threads for one in workers.workers(box)) == [1, 2])
        publish_groups(box, 8)
        until(lambda: gate.inside == 3)
        queues.set_queue(box, "shop", in_flight=1, **BY)
        until(lambda: sum(one.workers for one in workers.workers(box)) == 8)
        gate.open.set()
        until(lambda: sorted(one.threads for one in workers.workers(box)) == [0, 1])
        until(lambda: not left(box))
        assert gate.most == 3
        queues.set_queue(box, "shop", in_flight=None, **BY)
        until(lambda: [one.threads for one in workers.workers(box)] == [4, 4])


def test_rate_and_run_length_are_obeyed_by_a_worker_at_work(box):
    define(box)
    runs = []
    publish(box, *range(1, 61))
    queues.set_queue(box, "shop", rate=0.01, **BY)
    worker = sq.Worker(box, "shop", lambda delivery, tx: runs.append(len(delivery)), workers=2, batch=True)
    with working(worker):
        until(lambda: runs)  # the first one, and no other for a long time
        until(lambda: workers.workers(box)[0].rate == 0.01)
        assert runs == [1]
        queues.set_queue(box, "shop", rate=None, run_length=7, **BY)
        until(lambda: not left(box))
        assert workers.workers(box)[0].run_length == 7
    assert max(runs) == 7
    assert sum(runs) == 60


def test_what_was_set_before_is_obeyed_from_the_first_message_on(box, caplog):
    define(box)
    gate = Gate()
    queues.set_queue(box, "shop", workers=1, **BY)
    publish_groups(box, 4)
    with caplog.at_level("INFO", "seriatim.worker"), working(sq.Worker(box, "shop", gate.handle, workers=4)):
        until(lambda: gate.inside == 1)
        gate.open.set()
        until(lambda: not left(box))
    assert gate.most == 1
    assert "queue 'shop': this process obeys the settings: workers 1" in caplog.text


def test_what_cannot_be_set_is_said(box):
    define(box)
    for given, told in (
        ({"workers": 0}, "workers can't be 0"),
        ({"rate": -1}, "rate can't be -1"),
        ({"run_length": True}, "run_length can't be True"),
        ({"in_flight": 10**9}, "in_flight can't be"),
        ({}, "nothing is given to set"),
    ):
        with pytest.raises(sq.UsageError, match=told):
            queues.set_queue(box, "shop", **given)
    with pytest.raises(sq.UsageError, match="there is no queue 'shup'"):
        queues.set_queue(box, "shup", workers=1)
    assert queues.settings(box, "shop").values == {}


def test_a_dropped_queue_takes_its_settings_along(box):
    define(box)
    queues.set_queue(box, "shop", workers=1)
    box.drop(subscription="shop", queue="shop")
    assert rows(box, "SELECT FROM {schema}.queue_settings") == []


def test_a_queue_with_messages_and_nobody_at_work_is_told(box):
    define(box)
    define(box, "off", enabled=False)
    define(box, "empty")
    define(box, "loose", policy=sq.Unordered(), group=None, sequence=None)
    assert idle_queues(box) == []
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "a", "version": 1}))
    rows(
        box,
        "DELETE FROM {schema}.entries WHERE queue_id = (SELECT queue_id FROM {schema}.queues WHERE queue = 'empty')",
    )
    assert [one.queue for one in idle_queues(box)] == ["loose", "shop"]
    assert {one.queue: one.is_idle for one in queues.queues(box)} == {
        "empty": False, "loose": True, "off": False, "shop": True
    }  # fmt: skip
    with box.session() as tx:  # somebody has the group, in a session of the application's own
        assert tx.receive("shop") is not None
        assert "shop" not in [one.queue for one in idle_queues(box)]
        tx.connection.rollback()
    work(box, lambda message, tx: see(box, message, tx))
    assert [one.queue for one in idle_queues(box)] == ["loose"]
    assert seen(box) == [("a", 1)]


def test_a_process_that_is_silent_counts_for_nothing_and_is_forgotten(box):
    define(box)
    gate = Gate()
    publish_groups(box, 4)
    queues.set_queue(box, "shop", in_flight=2, **BY)
    with working(sq.Worker(box, "shop", gate.handle, workers=4)):
        until(lambda: gate.inside == 2)
        # Another machine's, which is lost.
        rows(
            box,
            "INSERT INTO {schema}.known_workers SELECT gen_random_uuid(), queue_id, role, 'far:1', 'far', 1, FALSE, "
            "now() - interval '1 h', now() - interval '2 min', mode, 4, 4, 50, NULL, 0, '[]' FROM {schema}.known_workers",
        )
        until(lambda: [one.threads for one in workers.workers(box) if not one.is_silent] == [2])
        (far,) = [one for one in workers.workers(box) if one.is_silent]
        assert far.host == "far"
        assert 110 < far.silent_s < 600
        assert queues.queues(box)[0].processes == 1
        rows(box, "UPDATE {schema}.known_workers SET seen_at = now() - interval '2 h' WHERE host = 'far'")
        retention.purge(box)
        assert [one.host == "far" for one in workers.workers(box)] == [False]
        gate.open.set()


def test_a_role_may_tell_of_the_queues_that_it_receives_from_and_of_its_own_processes_only(box):
    define(box)
    define(box, "other")
    role = f"{box.schema}_beating"
    rows(box, f"CREATE ROLE {role} LOGIN")
    try:
        grant(box, role, receive=["shop"])
        with sq.MessageBox.open(box.dsn.replace("seriatim@", f"{role}@"), schema=box.schema) as limited:
            publish(box, 1)
            work(limited, lambda message, tx: None, done=lambda: not left(box))
            worker = sq.Worker(limited, "shop", lambda message, tx: None)
            with working(worker):
                until(lambda: [one.role for one in workers.workers(box)] == [role])
            for queue, told in (("other", "may not receive from"), ("shop", None)):
                with limited.session() as tx:
                    call = f"""
                        SELECT * FROM {box.schema}.beat(gen_random_uuid(), '', '', 1, FALSE, ARRAY[%s], ARRAY[''], ARRAY[1],
                            ARRAY[1], ARRAY[1], ARRAY[NULL::float8], ARRAY[0], ARRAY[%s])
                    """
                    with pytest.raises(Exception, match=told or "must be an array of objects"):
                        tx.connection.execute(call, [queue, "[1]"])
                    tx.connection.rollback()
    finally:
        rows(box, f"DROP OWNED BY {role}; DROP ROLE {role}")


def test_a_worker_whose_heartbeat_fails_works(box, caplog, monkeypatch):
    define(box)
    monkeypatch.setattr(heartbeat, "beat", lambda *_: (_ for _ in ()).throw(sq.EnvironmentProblem("not allowed")))
    publish(box, 1, 2)
    began = time.monotonic()
    work(box, lambda message, tx: see(box, message, tx))
    assert time.monotonic() - began < 60
    assert caplog.text.count("no heartbeat: not allowed") == 1
