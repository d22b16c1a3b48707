"""Worker processes that freeze, with nothing in hand or with a lease, are noticed, killed and replaced."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from seriatim.operations import workers
from seriatim.pipeline.declared.work_limits import Limits
from seriatim.runtime.processes import supervisor as module
from seriatim.runtime.supervisor import Supervisor
from tests.box.shop import define, left, publish, rows, seen
from tests.night import leads

ROOT = Path(__file__).parents[2]
DEADLINE_S = 240.0


def until(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture(autouse=True)
def soon(monkeypatch, box):
    monkeypatch.setattr(module, "_STILL_S", 6.0)  # nobody else stands still for so long
    monkeypatch.setattr(module, "_FROZEN_S", 2.0)
    monkeypatch.setenv("TEST_DSN", box.dsn)


@contextmanager
def supervised(box, handler, processes, **limits):
    supervisor = Supervisor(
        box, ["shop"], f"tests.faults.crew_handlers:{handler}", processes=processes, folders=[str(ROOT)],
        limits=Limits(workers=2, **limits),
    )  # fmt: skip
    thread = threading.Thread(target=supervisor.run)
    thread.start()
    try:
        yield
    finally:
        supervisor.stop()
        thread.join(DEADLINE_S)
        assert not thread.is_alive()


def at_work(box):
    return {one.pid for one in workers.workers(box, "shop")}


@pytest.mark.proves("a supervisor replaces a frozen process that has nothing in hand")
def test_an_idle_process_that_freezes_is_replaced_and_the_log_says_so(box, caplog):
    define(box)
    with supervised(box, "note", 2):
        until(lambda: len(at_work(box)) == 2)
        frozen, other = sorted(at_work(box))
        os.kill(frozen, signal.SIGSTOP)
        until(lambda: len(at_work(box) - {frozen}) == 2)
        assert other in at_work(box)
        until(lambda: frozen not in at_work(box))
        publish(box, 1, 2)
        until(lambda: not left(box))
        assert (
            f"process {frozen} is frozen, and is killed: it has nothing in hand, and has stood still for" in caplog.text
        )
        assert f"process {frozen} was killed by signal 9, and is replaced" in caplog.text
        assert "`kill -9 PID`" in leads("workers", caplog.text).remedy  # done by its supervisor
    assert at_work(box) == set()
    assert seen(box) == [("c1", 1), ("c1", 2)]
    assert rows(box, "SELECT FROM {schema}.faults") == []


@pytest.mark.proves("a supervisor waits for the lease of a frozen process before it replaces it")
def test_a_process_that_freezes_with_a_lease_is_replaced_when_that_has_run_out(box, caplog):
    define(box)
    rows(
        box,
        "CREATE TABLE {schema}_began (pid int, customer text, version bigint, at timestamptz DEFAULT clock_timestamp())",
    )
    with supervised(box, "slow_first", 1, mode="leased", lease="6s"):
        publish(box, 1, customer="slow")
        until(lambda: rows(box, "SELECT pid FROM {schema}_began"))
        ((frozen,),) = rows(box, "SELECT pid FROM {schema}_began")
        os.kill(frozen, signal.SIGSTOP)
        until(lambda: not left(box))
        assert f"process {frozen} is frozen, and is killed: it has stood still for" in caplog.text
        assert "`kill -9 PID`" in leads("workers", caplog.text).remedy
    assert seen(box) == [("slow", 1)]


@contextmanager
def one_process(box):
    """A supervisor that doesn't look by itself, and its process, which is at work."""
    supervisor = Supervisor(box, ["shop"], "tests.faults.crew_handlers:note", folders=[str(ROOT)])
    workers_of = {}
    try:
        supervisor._fit(workers_of)
        (worker,) = workers_of.values()
        until(lambda: worker.scoreboard.pulse)
        yield supervisor, worker
    finally:
        worker.process.kill()
        worker.process.wait()
        module._close(worker)


@pytest.mark.proves("a process that has ended isn't taken for a frozen one")
def test_a_process_that_has_ended_is_not_frozen(box):
    define(box)
    with one_process(box) as (supervisor, worker):
        assert supervisor._frozen(worker) is None
        worker.process.terminate()
        worker.process.wait()
        worker.pulse = worker.scoreboard.pulse
        worker.still_since -= 100
        supervisor._looked = time.monotonic()
        assert supervisor._frozen(worker) is None


@pytest.mark.proves("a supervisor that was frozen itself kills none of its processes")
def test_a_supervisor_that_stood_still_itself_kills_nobody(box):
    """As where a whole machine is stopped: its processes have stood still for as long."""
    define(box)
    with one_process(box) as (supervisor, worker):
        os.kill(worker.process.pid, signal.SIGSTOP)
        os.waitpid(worker.process.pid, os.WUNTRACED)
        assert supervisor._frozen(worker) is None
        worker.still_since -= 100
        supervisor._looked = time.monotonic() - 100
        assert supervisor._frozen(worker) is None
        worker.still_since -= 100
        supervisor._looked = time.monotonic()
        assert re.search(r"has stood still for 1\d\d s", supervisor._frozen(worker))
