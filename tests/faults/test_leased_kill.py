"""Workers in leased mode that are killed and frozen: their groups go on when the lease has run out, and nothing is done twice."""

from __future__ import annotations

import os
import signal

import pytest

from seriatim import Retry
from seriatim.operations import invariants
from tests.box.shop import define, left, publish, rows
from tests.faults.test_worker_kill import began, crew, in_order, parent_of, until  # noqa: F401 -- a fixture

#: A worker that the machine lets wait for a while keeps its lease.
LEASED = ("--mode", "leased", "--lease", "12s", "--heartbeat", "500ms")
HANDLER = "held_first"


@pytest.fixture
def started(box, crew, tmp_path):  # noqa: F811 -- a fixture
    """Two crews, a message in the hands of one of them, and others for both."""
    define(box, retry=Retry(20))
    rows(box, "CREATE TABLE {schema}_go ()")
    for _ in range(2):
        crew(HANDLER, *LEASED, module="tests.faults.leased_handlers")
    publish(box, 1, 2, customer="slow")
    publish(box, *range(1, 11), customer="other")
    until(lambda: began(box))
    return began(box)[0]


def lease(box):
    found = rows(box, "SELECT * FROM {schema}.leases WHERE group_key = 'slow'")
    return found[0] if found else None


@pytest.mark.proves("the group of a killed worker goes on when its lease has run out")
@pytest.mark.parametrize("whom", ["process", "supervisor"])
def test_a_killed_worker_s_group_goes_on_elsewhere(box, started, whom):
    held = lease(box)
    os.kill(started if whom == "process" else parent_of(started), signal.SIGKILL)
    until(lambda: len(began(box)) > 1)
    if whom == "supervisor":  # nobody has seen it die: not before the lease was over
        again = rows(box, "SELECT at FROM {schema}_began WHERE customer = 'slow' ORDER BY at")[1]
        assert again.at > held.expires_at
    until(lambda: not left(box))
    assert in_order(box) == 12
    faults = rows(box, "SELECT * FROM {schema}.faults WHERE group_key = 'slow' ORDER BY fault_id")
    assert (faults[0].kind, faults[0].sequence, faults[0].attempt) == ("poison", 1, 1)
    # Whoever comes first: the supervisor, mostly at once, or somebody when the lease is over.
    assert faults[0].error_class in ({"WorkerDied", "LeaseExpired"} if whom == "process" else {"LeaseExpired"})
    assert len(faults) == 1
    assert lease(box) is None
    assert invariants.broken(box) == []


@pytest.mark.proves("a worker that was frozen longer than its lease writes nothing when it goes on")
def test_a_frozen_worker_is_fenced_off(box, started, tmp_path):
    until(lambda: left(box) == 2)  # its other thread has no group locked, which would stay so
    supervisor = parent_of(started)
    os.kill(supervisor, signal.SIGSTOP)  # it would kill the frozen process, after a while
    os.kill(started, signal.SIGSTOP)
    try:
        until(lambda: not left(box))
        assert in_order(box) == 12
        rows(box, "INSERT INTO {schema}_go DEFAULT VALUES")
        os.kill(started, signal.SIGCONT)
        until(lambda: any("is lost" in file.read_text() for file in tmp_path.glob("*.err")))
    finally:
        os.kill(started, signal.SIGCONT)
        os.kill(supervisor, signal.SIGCONT)
    assert in_order(box) == 12
    assert left(box) == 0
    publish(box, *range(3, 6), customer="slow")  # it works on
    until(lambda: not left(box))
    assert in_order(box) == 15
    assert invariants.broken(box) == []


@pytest.mark.proves("a second signal ends workers at once, and no message is blamed")
@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_a_second_signal_frees_what_was_in_hand_and_blames_nobody(box, crew, mode):  # noqa: F811 -- a fixture
    define(box, retry=Retry(1))
    rows(box, "CREATE TABLE {schema}_go ()")
    options = ("--mode", mode, "--lease", "600s", "--turn-limit", "600s")
    process = crew(HANDLER, *options, module="tests.faults.leased_handlers")
    publish(box, 1, 2, customer="slow")
    until(lambda: began(box))
    until(lambda: told_to_end(process))
    assert (lease(box), faults(box)) == (None, [])
    crew(HANDLER, *options, module="tests.faults.leased_handlers")
    until(lambda: not left(box))
    assert in_order(box) == 2
    assert faults(box) == []
    assert invariants.broken(box) == []


def told_to_end(process):
    """Tell it once more, unless it has ended."""
    if process.poll() is None:
        process.terminate()
    return process.poll() is not None


def faults(box):
    return rows(box, "SELECT kind, error_class FROM {schema}.faults")
