"""Serving: readers come with the load and go without it, as the activation says at that time."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

import seriatim as sq
from seriatim.box.workers.reader_slots import Slots
from seriatim.operations.queues import activate, deactivate, set_queue, turn_off, turn_on
from seriatim.operations.workers import workers
from seriatim.runtime.processes import reader_count
from seriatim.runtime.processes.serve import Serve
from tests.box.shop import define, left, publish, rows, seen
from tests.command import command, environment

ROOT = Path(__file__).parents[3]
DEADLINE_S = 180.0
HANDLERS = "tests.runtime.activated"


def until(condition):
    """Wait for a condition."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@contextmanager
def serving(box, *queues, count=1):
    """Let it serve; several as if on machines of their own."""
    serves = [Serve(box, queues, folders=[str(ROOT)]) for _ in range(count)]
    threads = [threading.Thread(target=one.run) for one in serves]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for one in serves:
            one.stop()
        for thread in threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()


@pytest.fixture
def activated(box):
    """A queue with an activation, by its handler; where handlers wait until `open` is called."""
    rows(box, "CREATE TABLE {schema}_gate (n int)")

    def make(handler, name="shop", **options):
        define(box, name, activation=sq.Activation(f"{HANDLERS}:{handler}", **options))

    return make


def at_work(box):
    """How many readers have a group in hand."""
    query = """
        SELECT count(*) AS n FROM pg_stat_activity
        WHERE application_name LIKE 'seriatim%%' AND query LIKE 'SELECT pg_sleep%%' AND state <> 'idle'
            OR application_name LIKE 'seriatim%%' AND query LIKE 'SELECT count(*) FROM ' || %s || '_gate'
    """
    return rows(box, query, box.schema)[0].n


def open_gate(box):
    rows(box, "INSERT INTO {schema}_gate VALUES (1)")


def is_running(box, slots=3):
    """How many of the slots for readers are taken."""
    with Slots(box) as free:
        queue_id = box.definitions().queue("shop").queue_id
        return slots - free.fill(queue_id, slots)


@pytest.mark.dear
def test_readers_come_with_work_and_go_without_it(box, activated, monkeypatch):
    monkeypatch.setattr(reader_count, "IDLE_S", 1.0)
    activated("hold", maximum=2)
    with serving(box):
        assert not is_running(box)
        for customer in ("a", "b", "c"):
            publish(box, 1, 2, customer=customer)
        until(lambda: at_work(box) == 2)
        assert is_running(box) == 2
        open_gate(box)
        until(lambda: not left(box))
        until(lambda: not is_running(box))
    assert sorted(seen(box)) == [(customer, n) for customer in "abc" for n in (1, 2)]


def test_two_that_serve_have_no_more_readers_together(box, activated):
    activated("hold", maximum=2, minimum=2)
    with serving(box, count=2):
        for customer in ("a", "b", "c", "d"):
            publish(box, 1, customer=customer)
        until(lambda: at_work(box) == 2)
        open_gate(box)
        until(lambda: not left(box))
        assert is_running(box) == 2
    assert not is_running(box)


@pytest.mark.dear
def test_what_is_defined_and_turned_on_or_off_meanwhile_is_obeyed(box, activated):
    activated("note", minimum=1)
    with serving(box):
        until(lambda: is_running(box) == 1)
        deactivate(box, "shop")
        until(lambda: not is_running(box))
        publish(box, 1)
        activate(box, "shop")
        until(lambda: not left(box))
        turn_off(box, "shop")
        until(lambda: not is_running(box))
        turn_on(box, "shop")
        activated("together", minimum=1, batch=True)
        publish(box, 2, 3)
        until(lambda: not left(box))
        activated("note", "other")
        publish(box, 1, customer="new")  # for both
        until(lambda: not left(box, "other") + left(box))
        define(box)  # without an activation
        until(lambda: not is_running(box))
    assert [version for _, version in seen(box)[:3]] == [1, 2, 3]


def test_readers_that_cannot_begin_leave_the_others_alone(box, activated, caplog):
    activated("note", "other")
    define(box, activation=sq.Activation("tests.runtime.nothing:note"))
    publish(box, 1)
    with serving(box):
        until(lambda: not left(box, "other"))
        until(lambda: "queue 'shop': readers can't work" in caplog.text)
        assert left(box) == 1
        activated("note")  # mended: it doesn't wait for the end of the pause
        until(lambda: not left(box))
    assert seen(box) == [("c1", 1), ("c1", 1)]


def test_what_it_cannot_serve_is_refused(box):
    define(box)
    with pytest.raises(sq.UsageError, match="the queue has no activation"):
        Serve(box, ["shop"])
    with pytest.raises(sq.UsageError, match="there is no queue"):
        Serve(box, ["nowhere"])


def test_the_command_ends_after_the_turns_in_hand(box, activated):
    activated("hold", maximum=1)
    publish(box, 1)
    words = command("serve", "--queue", "shop", "--dsn", box.dsn, "--schema", box.schema)
    with subprocess.Popen(words, cwd=ROOT, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        until(lambda: at_work(box) == 1)
        process.send_signal(signal.SIGTERM)
        publish(box, 2)
        open_gate(box)
        _, said = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, said
    assert "serving shop; Ctrl-C stops it" in said
    assert "queue 'shop': 1 reader here" in said
    assert seen(box)[0] == ("c1", 1)
    assert is_running(box) == 0


@pytest.mark.dear
def test_places_are_kept_until_the_turns_in_hand_are_done(box, activated):
    """PostgreSQL ends the connection that has them if nothing is asked over it for ten seconds."""
    activated("hold", maximum=1)
    publish(box, 1)
    query = """
        SELECT query_start FROM pg_stat_activity JOIN pg_locks USING (pid)
        WHERE locktype = 'advisory' AND state = 'idle'
    """
    serve = Serve(box, folders=[str(ROOT)])
    thread = threading.Thread(target=serve.run)
    thread.start()
    try:
        until(lambda: at_work(box) == 1)
        serve.stop()
        asked = set()
        until(lambda: asked.update(rows(box, query)) or len(asked) > 3)
    finally:
        serve.stop()
        open_gate(box)
        thread.join(DEADLINE_S)
    assert is_running(box) == 0


@pytest.mark.proves("another process takes over the readers of one that was killed")
def test_another_takes_over_when_one_that_serves_is_killed(box, activated):
    activated("note", minimum=1)
    words = command("serve", "--dsn", box.dsn, "--schema", box.schema)
    with subprocess.Popen(words, cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL) as process:
        until(lambda: is_running(box) == 1)
        with serving(box):
            process.kill()
            process.wait()
            publish(box, 1, 2)
            until(lambda: not left(box))
            until(lambda: is_running(box) == 1)
    assert seen(box) == [("c1", 1), ("c1", 2)]


def test_a_port_is_served(box, activated, tmp_path):
    define(box, activation=sq.Activation(port=f"files: {{path: '{tmp_path}'}}"))
    publish(box, 1, 2)
    with serving(box):
        until(lambda: not left(box))
    assert [path.name for path in sorted((tmp_path / "c1").iterdir())] == [f"000000-{n:019d}" for n in (1, 2)]


@pytest.mark.dear
def test_readers_obey_what_is_set_and_what_the_activation_says_of_their_limits(box, activated, monkeypatch):
    monkeypatch.setattr(reader_count, "IDLE_S", 1.0)
    activated("hold", minimum=1, maximum=1, pace=sq.Pace(run_length=3, rate=400))
    with serving(box):
        for customer in "abcd":
            publish(box, 1, 2, customer=customer)
        until(lambda: at_work(box) == 1)
        set_queue(box, "shop", workers=3)
        until(lambda: at_work(box) == 3)
        until(lambda: [(one.run_length, one.is_reader) for one in workers(box)] == [(3, True)] * 3)
        until(lambda: len({one.rate for one in workers(box)}) == 1 and workers(box)[0].rate == pytest.approx(400 / 3))
        set_queue(box, "shop", in_flight=1, run_length=2)
        open_gate(box)
        until(lambda: not left(box))
        until(lambda: is_running(box) == 1)
        until(lambda: [(one.run_length, one.rate) for one in workers(box)] == [(2, 400)])
    assert sorted(seen(box)) == [(customer, n) for customer in "abcd" for n in (1, 2)]
    assert workers(box) == []


def test_an_activation_may_have_readers_work_under_leases(box, activated):
    activated("note", mode="leased", lease="5s")
    publish(box, 1, 2)
    with serving(box):
        until(lambda: not left(box))
        until(lambda: [one.mode for one in workers(box)] == ["leased"])
    assert seen(box) == [("c1", 1), ("c1", 2)]


def test_what_an_activation_and_the_command_name_fails_at_once(box):
    activation = sq.Activation(
        "tests.runtime.started:moody", faults=sq.FaultKinds(business=["tests.runtime.started:OutOfStockError"])
    )
    define(box, activation=activation)
    serve = Serve(box, ["shop"], folders=[str(ROOT)], faults=sq.FaultKinds(business=["RuntimeError"]))
    publish(box, 1, customer="empty")
    publish(box, 1, customer="bad")
    thread = threading.Thread(target=serve.run)
    thread.start()
    try:
        until(lambda: len(rows(box, "SELECT FROM {schema}.groups WHERE state = 'faulted'")) == 2)
    finally:
        serve.stop()
        thread.join(DEADLINE_S)
    assert {tuple(row) for row in rows(box, "SELECT error_class, kind, attempt FROM {schema}.faults")} == {
        ("OutOfStockError", "business", 1),
        ("RuntimeError", "business", 1),
    }
