"""Worker processes are killed, frozen and poisoned, and PostgreSQL is restarted: nothing is lost, doubled or reordered."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

import seriatim as sq
from seriatim.box.server.embedded import EmbeddedServer
from seriatim.operations import groups, invariants
from tests.box.shop import define, left, publish, rows, seen
from tests.command import command, environment

DEADLINE_S = 240.0


def until(condition):
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def crew(box, tmp_path):
    """Starts worker processes; at the end there are none."""
    started = []

    def start(handler, *options, module="tests.faults.crew_handlers"):
        words = command("work", "shop", "--handler", f"{module}:{handler}", "--dsn", box.dsn)
        words += ["--schema", box.schema, "--workers", "2", *options]
        env = environment() | {"TEST_DSN": box.dsn}
        cwd = Path(__file__).parents[2]
        with (tmp_path / f"{len(started)}.err").open("wb") as log:
            started.append(subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=cwd, env=env))
        return started[-1]

    rows(
        box,
        "CREATE TABLE {schema}_began (pid int, customer text, version bigint, at timestamptz DEFAULT clock_timestamp())",
    )
    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()
    for file in tmp_path.glob("*.err"):
        print(file.read_text())  # noqa: T201 -- for whoever reads a failure


def began(box, customer="slow"):
    return [row.pid for row in rows(box, "SELECT pid FROM {schema}_began WHERE customer = %s ORDER BY at", customer)]


def in_order(box):
    found = seen(box)
    assert len(found) == len(set(found))
    for customer in {who for who, _ in found}:
        versions = [version for who, version in found if who == customer]
        assert versions == list(range(1, len(versions) + 1))
    return len(found)


@pytest.mark.proves("the group of a killed worker goes on at once in transactional mode")
@pytest.mark.parametrize("whom", ["handler", "supervisor"])
def test_a_killed_worker_s_group_goes_on_elsewhere_at_once(box, crew, whom):
    define(box)
    # What waits for a limit, here or in the database, comes later than this test waits.
    crews = [crew("slow_first", "--turn-limit", f"{2 * DEADLINE_S}s") for _ in range(3)]
    publish(box, 1, 2, customer="slow")
    publish(box, *range(1, 21), customer="other")
    until(lambda: began(box))
    (pid,) = began(box)
    killed = pid if whom == "handler" else parent_of(pid)
    assert killed in {pid, *(process.pid for process in crews)}
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(began(box)) > 1)
    until(lambda: not left(box))
    assert in_order(box) == 22
    # The supervisor counts the attempt, unless another worker is done with the message before it comes to that.
    faults = rows(box, "SELECT kind, attempt FROM {schema}.faults WHERE group_key = 'slow'")
    assert [tuple(row) for row in faults] in ([], *([[("poison", 1)]] if whom == "handler" else []))


@pytest.mark.proves("what a handler of a killed worker returned is published once, by the next worker")
@pytest.mark.telling
def test_what_a_killed_worker_s_handlers_returned_is_published_by_the_next_one(box, crew):
    define(box)
    box.define(sq.Queue("told", policy=sq.Unordered()), sq.Subscription("told", where="type = 'told'", to="told"))
    crew("tell", "--turn-limit", "300s", "--workers", "1")
    publish(box, *range(1, 7), customer="slow")
    until(lambda: len(began(box)) == 4)
    assert left(box, "told") == 0
    os.kill(began(box)[-1], signal.SIGKILL)
    until(lambda: not left(box))
    told = rows(
        box, "SELECT convert_from(body, 'UTF8') AS body FROM {schema}.messages WHERE type = 'told' ORDER BY number"
    )
    assert [one.body for one in told] == list("123456")
    assert len(began(box)) == 10  # the handlers of the turn were called once more
    assert [tuple(one) for one in rows(box, "SELECT kind, sequence FROM {schema}.faults")] == [("poison", 4)]
    assert invariants.broken(box) == []


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.proves("the group of a frozen worker goes on within the turn limit in transactional mode")
def test_a_frozen_worker_s_group_goes_on_within_its_turn_limit(box, crew):
    define(box)
    for _ in range(3):
        crew("slow_first", "--turn-limit", "3s")
    publish(box, 1, 2, customer="slow")
    until(lambda: began(box))
    pid = began(box)[0]
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: not left(box))  # the handler sleeps for longer
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: len(rows(box, "SELECT 1 FROM pg_stat_activity WHERE left(application_name, 8) = 'seriatim'")) > 1)
    assert in_order(box) == 2


@pytest.mark.proves("a message that kills its worker again and again stops its own group alone")
def test_a_message_that_kills_its_worker_stops_its_group_and_no_other(box, crew):
    define(box, retry=sq.Retry(3))
    crew("poison", "--processes", "2", "--workers", "1")
    publish(box, 1, 2, 3, customer="bad")
    for customer in ("good", "other"):
        publish(box, *range(1, 11), customer=customer)
    until(lambda: rows(box, "SELECT 1 FROM {schema}.groups WHERE state = 'faulted'"))
    until(lambda: left(box) == 2)
    # What other threads of the process had in hand has lost an attempt as well, and is done long since.
    query = "SELECT kind, sequence, attempt FROM {schema}.faults WHERE group_key = 'bad' ORDER BY fault_id"
    assert [tuple(row) for row in rows(box, query)] == [("poison", 2, attempt) for attempt in (1, 2, 3)]
    assert in_order(box) == 21
    publish(box, 11, customer="good")
    until(lambda: ("good", 11) in seen(box))
    assert invariants.broken(box) == []


@pytest.mark.proves("messages in the same process as one that kills it keep their attempts")
@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_what_is_in_hand_beside_a_message_that_kills_does_not_fail_with_it(box, crew, mode):
    define(box, retry=sq.Retry(3))
    publish(box, 1, customer="bad")
    publish(box, 1, customer="good")
    crew("poison_beside", "--mode", mode, "--lease", "20s")  # no lease runs out by itself
    until(lambda: rows(box, "SELECT 1 FROM {schema}.groups WHERE state = 'faulted'") and left(box) == 1)
    assert seen(box) == [("good", 1)]
    query = "SELECT group_key, attempt FROM {schema}.faults ORDER BY group_key, attempt"
    faults = [tuple(row) for row in rows(box, query)]
    assert [attempt for who, attempt in faults if who == "bad"] == [1, 2, 3]
    assert len([attempt for who, attempt in faults if who == "good"]) == 2  # it was in hand beside it, twice
    assert invariants.broken(box) == []


@pytest.mark.proves("worker processes go on after PostgreSQL was restarted")
def test_postgresql_is_restarted(tmp_path):
    server = EmbeddedServer(tmp_path / "server")
    try:
        with sq.MessageBox.open(server.dsn) as box:
            define(box)
            publish(box, *range(1, 2001))
            worker = sq.Worker(box, "shop", "tests.faults.crew_handlers:note", workers=2, pace=sq.Pace(run_length=5))
            thread = threading.Thread(target=worker.run)
            thread.start()
            until(lambda: len(seen(box)) > 50)
            (file,) = (tmp_path / "server").rglob("postmaster.pid")
            os.kill(int(file.read_text().split()[0]), signal.SIGKILL)
            until(lambda: not _left(box))
            worker.stop()
            thread.join(DEADLINE_S)
            assert not thread.is_alive()
            assert in_order(box) == 2000
    finally:
        server.close()


def _left(box):
    try:
        return left(box)
    except sq.SeriatimError:
        return 1


@pytest.mark.proves("a handler that prints much blocks neither its process nor its supervisor")
def test_a_handler_that_prints_ten_megabytes(box, crew, tmp_path):
    define(box)
    process = crew("prints")
    publish(box, 1, 2)
    until(lambda: not left(box))
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0
    assert in_order(box) == 2
    (file,) = tmp_path.glob("*.err")
    assert file.stat().st_size > 40_000_000
    file.write_text("40 MB of x")  # the fixture shows it


@pytest.mark.proves("`seriatim work` ends in peace at the first signal")
def test_it_ends_when_it_is_told(box, crew):
    define(box)
    process = crew("note", "--processes", "2")
    publish(box, *range(1, 101))
    until(lambda: seen(box))
    process.send_signal(signal.SIGTERM)
    assert process.wait(DEADLINE_S) == 0
    count = in_order(box)
    assert left(box) == 100 - count


@pytest.mark.proves("a postponed message whose worker is killed before the commit has no attempt counted")
@pytest.mark.parametrize("mode", ["transactional", "leased"])
def test_a_worker_that_is_killed_after_it_postponed_has_counted_nothing(box, crew, mode):
    define(box, retry=sq.Retry(1))
    rows(box, "CREATE TABLE {schema}_go ()")
    crews = [crew("not_now", "--mode", mode) for _ in range(2)]
    publish(box, 1, 2, customer="slow")
    until(lambda: rows(box, "SELECT FROM {schema}.entries WHERE postponed = 1"))
    for pid in began(box):
        os.kill(pid, signal.SIGKILL)
    for one in crews:
        one.kill()
        one.wait()
    assert rows(box, "SELECT FROM {schema}.faults") == []
    assert rows(box, "SELECT FROM {schema}.leases") == []
    assert invariants.broken(box) == []
    rows(box, "INSERT INTO {schema}_go DEFAULT VALUES")
    crew("not_now", "--mode", mode)
    groups.retry(box, "shop", "slow", actor="ann", reason="now")
    until(lambda: not left(box))
    assert in_order(box) == 2
    assert rows(box, "SELECT FROM {schema}.faults") == []
