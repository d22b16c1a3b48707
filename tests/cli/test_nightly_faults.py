"""Fifteen faults that wake people. Each is caused, `seriatim doctor` or the log names it, and the page leads to the command that
mends it.

Frozen workers that their supervisor replaces are in `tests/faults/test_frozen.py`, and a pipeline's port that can't be written in
`tests/runtime/pipelines/test_ports.py`: they end at the same page.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import seriatim as sq
from seriatim.box.connection.connections import DEFAULT_SCHEMA
from seriatim.cli.main import main
from seriatim.operations import groups
from seriatim.operations.doctor import work_checks
from seriatim.testing.clock import SEARCH_PATH, Clock, make_movable
from tests.box.shop import define, left, publish, rows, seen
from tests.command import command as program
from tests.command import environment
from tests.databases import box_with
from tests.delivered import table_of
from tests.endpoints.receiver import receiving
from tests.faults.process import until
from tests.night import command, leads

pytestmark = pytest.mark.dear

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300
WHY = ["--reason", "mended"]
#: What the handlers of crews tell at once.
CREW_TABLE = (
    "CREATE TABLE {schema}_began (pid int, customer text, version bigint, at timestamptz DEFAULT clock_timestamp())"
)


def where(box):
    return ["--dsn", box.dsn, "--schema", box.schema]


def called(box, words, code=0):
    """A command of the page, about the box."""
    assert words[0] == "seriatim"
    result = CliRunner().invoke(main, [*words[1:], *where(box)])
    assert result.exit_code == code, result.output
    return result


def found(box, name, state="wrong"):
    """What the doctor says of it, in one line."""
    told = json.loads(CliRunner().invoke(main, ["doctor", "--json", *where(box)]).stdout)
    (finding,) = [one for one in told["findings"] if one["name"] == name]
    assert finding["state"] == state, finding
    assert state == "ok" or leads(finding["page"].partition("#")[2], name)
    return f"{name}: {finding['found']} → {finding['remedy']}"


def started(*words, **options):
    return subprocess.Popen(
        program(*words),
        cwd=ROOT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


def worked(box, *words):
    """The log of a `seriatim work` on the queue until nothing is left to do.

    One thread works: what kills its process has no other message in hand then, whose attempt would be lost, too.
    """
    with started("work", "shop", "--once", "--workers", "1", *words, *where(box)) as process:
        _, log = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, log
    return log


def a_night(box):
    """What happens in one night to one queue: a handler fails, a message kills its processes, a number is missing."""
    define(box, retry=sq.Retry(2, delay=0))
    publish(box, 1, 2, customer="bad")
    publish(box, 1, 2, customer="deadly")
    publish(box, 1, 3, customer="hole")
    log = worked(box, "--handler", "tests.runtime.started:deadly")
    rows(box, "CREATE TABLE {schema}_log (text text)")
    rows(box, "INSERT INTO {schema}_log VALUES (%s)", log)
    # A minute later.
    rows(box, "UPDATE {schema}.known_groups SET since = since - 60000000 WHERE group_key = 'hole' RETURNING 1")


night = box_with(a_night, scope="module")


def test_a_handler_that_fails_for_good(night):
    ((log,),) = rows(night, "SELECT text FROM {schema}_log")
    assert "queue 'shop', group 'bad', message " in log
    assert "attempt 2 of 2 failed (unexpected): RuntimeError: no room; group faulted" in log
    told = found(night, "faulted")
    assert "RuntimeError in 1 group (no room)" in told
    row = leads("faulted", told)
    # The cause is mended: the handler of the next run takes the message.
    called(night, [*command(row, "seriatim group retry c1", c1="bad"), *WHY])
    assert "RuntimeError" not in found(night, "faulted")


def test_a_message_that_kills_its_processes(night):
    ((log,),) = rows(night, "SELECT text FROM {schema}_log")
    assert "was killed by signal 9, and is replaced" in log
    assert "failed (poison): " in log
    told = found(night, "faulted")
    assert "'deadly'" in told
    row = leads("faulted", told)
    assert "`poison`" in row.why
    called(night, [*command(row, "seriatim group skip-message c1", c1="deadly"), *WHY])
    found(night, "faulted", "ok")


def test_a_missing_number(night):
    told = found(night, "waiting")
    assert "queue 'shop': 1 group ('hole' since " in told
    called(night, [*command(leads("waiting", told), "seriatim group skip-hole c1", c1="hole"), *WHY])
    found(night, "waiting", "ok")


def test_dead_letters(night):
    """What was skipped above."""
    told = found(night, "dead letters")
    assert "queue 'shop': 1 → " in told
    words = command(leads("dead-letters", told), "seriatim dead-letters requeue", TEXT="WorkerDied")
    called(night, [*words, "--yes", *WHY])
    found(night, "dead letters", "ok")
    # Each of the night's messages is handled now, in the order of its group.
    worked(night, "--handler", "tests.runtime.started:write")
    assert left(night) == 0
    done = {customer: [version for name, version in seen(night) if name == customer] for customer, _ in seen(night)}
    assert done == {"bad": [1, 2], "deadly": [1, 2], "hole": [1, 3]}


def test_nobody_is_at_work_on_a_queue_that_is_full(box):
    define(box, max_messages=sq.Limit(1, when_full="refuse"))
    publish(box, 1)
    refused = CliRunner().invoke(
        main, ["publish", "x", "--type", "order", "--property", "customer=c1", "--property", "version=2", *where(box)]
    )
    assert refused.exit_code == 5, refused.output
    leads("queues-full", refused.stderr)
    rows(box, "UPDATE {schema}.entries SET rank = rank - 60000000 RETURNING 1")  # a minute later
    full, alone = found(box, "queues full"), found(box, "at work")
    assert "queue 'shop', with 1 message" in full
    assert re.search(r"queue 'shop' has had work for \S+ \w+, and nobody receives from it", alone)
    for row in (leads("queues-full", full), leads("at-work", alone)):
        words = command(row, "seriatim work Q --handler", Q="shop", MODULE_FUNCTION="tests.runtime.started:write")
        assert words[:3] == ["seriatim", "work", "shop"]
    with started(*words[1:], "--once", *where(box)) as process:
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    found(box, "queues full", "ok")
    found(box, "at work", "ok")


@pytest.mark.proves("doctor names workers that stand still together with their supervisor")
def test_workers_that_are_frozen_together_with_their_supervisor(box, monkeypatch):
    """As on a machine that stands still. If the supervisor lives, it kills and replaces the process, and logs it."""
    define(box)
    rows(box, CREW_TABLE)
    monkeypatch.setenv("TEST_DSN", box.dsn)
    publish(box, 1, customer="slow")
    words = ["work", "shop", "--handler", "tests.faults.crew_handlers:slow_first"]
    with started(*words, *where(box), start_new_session=True) as process:
        try:
            until(lambda: rows(box, "SELECT FROM {schema}_began"), process)
            pid = rows(box, "SELECT pid FROM {schema}_began")[0].pid
            until(lambda: rows(box, "SELECT FROM {schema}.known_workers WHERE pid = %s", pid), process)
            os.killpg(process.pid, signal.SIGSTOP)
            os.kill(pid, signal.SIGSTOP)
            rows(
                box, "UPDATE {schema}.known_workers SET seen_at = seen_at - interval '20 s' RETURNING 1"
            )  # time passes
            told = found(box, "workers", "warning")
            assert f"process {pid} on {socket.gethostname()}, which works on queue 'shop', has been silent for " in told
            assert f"kill -9 {pid}" in told
            assert "`kill -9 PID`" in leads("workers", told).remedy
            os.kill(pid, signal.SIGKILL)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    worked(box, *words[2:])  # elsewhere
    assert seen(box) == [("slow", 1)]


def test_messages_that_are_unrouted(box):
    define(box)
    lines = "".join(
        f'{{"type": "{kind}", "body": "x", "context": {{"customer": "c1"}}}}\n' for kind in ("order", "ordr")
    )
    told = CliRunner().invoke(main, ["publish", *where(box)], input=lines)
    assert told.stdout.endswith("unrouted\n")
    named = found(box, "unrouted")
    assert "1 message, such as type 'ordr', since " in named
    box.define(sq.Subscription("mistyped", where="type = 'ordr'", to="shop"))
    called(box, command(leads("unrouted", named), "seriatim unrouted --resubmit"))
    found(box, "unrouted", "ok")


def test_a_transaction_that_is_held_open(box, monkeypatch):
    monkeypatch.setattr(work_checks, "LONG_TURN_S", 0.0)
    look = work_checks.CHECKS["transactions"]
    with psycopg.connect(box.dsn, application_name="a debugger") as other, box.session() as tx:
        other.execute("SELECT 1")
        (ours,) = tx.connection.execute("SELECT pg_backend_pid()").fetchone()
        assert look(work_checks.Work(box)).state == "warning"  # not for long
        monkeypatch.setattr(work_checks, "FORGOTTEN_S", 0.0)
        told = found(box, "transactions")
        pid = other.info.backend_pid
        assert f"process {pid} (not of seriatim, a debugger, role " in told
        assert f"process {ours} (seriatim " in told
        mend = command(leads("transactions", told), "seriatim connection end", PID=str(pid))
        assert " ".join(mend) in told
        called(box, [*mend, *WHY])
        with pytest.raises(psycopg.OperationalError):
            other.execute("SELECT 1")
        assert f"process {pid} " not in look(work_checks.Work(box)).found


def test_ports_of_workers_that_are_refused_or_cannot_be_written(box, tmp_path):
    define(box, retry=sq.Retry(1))
    publish(box, 1, 2)
    with receiving() as receiver:
        receiver.answers, receiver.said = [(401, {})], b"the token has expired"
        port = ["--port", f"http: {{url: {receiver.url}}}"]
        log = worked(box, *port)
        refused = f"{receiver.url.removesuffix('/orders?token=hush')}: the answer was 401: the token has expired"
        assert f"failed (business): Business: {refused}; group faulted" in log
        told = found(box, "faulted")
        assert f"Business in 1 group ({refused})" in told
        row = leads("port-refused", told)
        assert leads("port-refused", log) == row
        called(box, [*command(row, "seriatim group retry --all"), "--yes", *WHY])
        found(box, "faulted", "ok")
        worked(box, *port)
        assert [int(headers["ce-sequence"]) for headers, _ in receiver.got] == [1, 1, 2]
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "c1").write_text("")  # a file where the group's folder has to be; permissions don't keep root out
    publish(box, 3)
    port = ["--port", f"files: {{path: {folder}}}"]
    log = worked(box, *port)
    told = found(box, "faulted")
    row = leads("ports", told)
    assert leads("ports", log) == row
    (folder / "c1").unlink()
    called(box, [*command(row, "seriatim group retry --all"), "--yes", *WHY])
    worked(box, *port)
    assert len(list((folder / "c1").iterdir())) == 1
    found(box, "faulted", "ok")


@pytest.mark.telling
def test_a_database_that_dies(box, tmp_path):
    define(box)
    given = conninfo_to_dict(box.dsn)
    name = f".s.PGSQL.{given.get('port', 5432)}"
    road = tmp_path / name
    road.symlink_to(Path(given["host"]) / name)
    dsn = make_conninfo(box.dsn, host=str(tmp_path))
    far = ["--dsn", dsn, "--schema", box.schema]

    def told_of(text):
        for line in process.stderr:
            log.append(line)
            if text in line:
                return
        raise AssertionError("".join(log))

    log = []
    with started("work", "shop", "--handler", "tests.runtime.started:write", *far) as process:
        told_of("working on shop")
        publish(box, 1)
        until(lambda: not left(box), process)
        road.unlink()
        rows(
            box, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )  # fmt: skip
        told_of("no connection can be made")
        leads("box", "".join(log))
        told = CliRunner().invoke(main, ["doctor", *far])
        assert told.exit_code == 1
        assert "PostgreSQL can't be reached" in told.stdout
        assert "seriatim doctor" in leads("box", told.stdout).remedy
        road.symlink_to(Path(given["host"]) / name)  # the server is started again
        told_of("connections can be made again")
        publish(box, 2)
        until(lambda: not left(box), process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert seen(box) == [("c1", 1), ("c1", 2)]
    assert CliRunner().invoke(main, ["doctor", *far]).exit_code == 0


def with_clock(dsn):
    sq.MessageBox.migrate(dsn)
    make_movable(dsn, DEFAULT_SCHEMA)


def test_a_clock_that_is_apart_from_the_databases(databases, caplog):
    template = databases.template("with a clock", with_clock)
    with databases.clone(template, search_path=SEARCH_PATH) as dsn, sq.MessageBox.open(dsn) as box:
        define(box)
        found(box, "clock", "ok")
        Clock(box).move("5m")
        told = found(box, "clock", "warning")
        assert re.search(r"this machine's clock is (29\d|300) s behind the database's", told), told
        row = leads("clock", told)
        assert command(row, "timedatectl") == ["timedatectl", "set-ntp", "true"]
        publish(box, 1)
        sq.Worker(box, "shop", lambda message, tx: None).run(until_idle=True)
        assert leads("clock", caplog.text) == row
        rows(box, "UPDATE seriatim_clock.moved SET by = '0'")
        found(box, "clock", "ok")


PIPELINE = """
name: orders
checkpoint: {folder}/checkpoint
buckets: 2
trigger: 0s
receive:
  - location: crm
    source: {{format: json, path: {folder}/in}}
    promote: {{customer: $.customer}}
route:
  - to: out
    resequence: {{policy: fifo, group: customer}}
    deliver: {{format: json, path: {folder}/out}}
"""
HOLD = """
import signal, sys
from pathlib import Path
from seriatim.runtime.pipelines.checkpoint import Checkpoint
with Checkpoint(Path(sys.argv[1])).held():
    print("held", flush=True)
    signal.pause()
"""


@pytest.mark.proves("the page leads from a second run and from a lost checkpoint to what mends them")
@pytest.mark.usefixtures("spark")
def test_two_runs_at_once_and_a_lost_checkpoint(tmp_path):
    file, checkpoint, out = tmp_path / "pipeline.yaml", tmp_path / "checkpoint", tmp_path / "out"
    file.write_text(PIPELINE.format(folder=tmp_path))
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"customer": "c1"}\n')

    def run(words, code=0):
        assert words[0] == "seriatim"
        result = CliRunner().invoke(main, [*words[1:], "--once"])
        assert result.exit_code == code, result.output
        return result.stderr

    with subprocess.Popen([sys.executable, "-c", HOLD, checkpoint], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout.readline() == "held\n"
        told = run(["seriatim", "run", str(file)], code=3)
        assert f"another run uses this checkpoint: process {other.pid}" in told
        row = leads("two-runs", told)
        assert command(row, "kill", N=str(other.pid)) == ["kill", "-TERM", str(other.pid)]
        os.kill(other.pid, signal.SIGTERM)
        other.wait(DEADLINE_S)
    run(command(row, "seriatim run", FILE=str(file)))
    assert len(table_of(out, "json")) == 1
    backup = tmp_path / "backup"
    checkpoint.rename(backup)
    told = run(["seriatim", "run", str(file)], code=3)
    row = leads("checkpoint-lost", told)
    assert "if the checkpoint was lost, restore it from a backup" in told
    assert len(table_of(out, "json")) == 1
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    (checkpoint / "pipeline.json").unlink()  # a part of it is lost
    assert leads("checkpoint-lost", run(["seriatim", "run", str(file)], code=3)) == row
    shutil.rmtree(checkpoint)
    shutil.copytree(backup, checkpoint)
    (tmp_path / "in" / "2.json").write_text('{"customer": "c1"}\n')
    run(command(row, "seriatim run", FILE=str(file)))
    assert len(table_of(out, "json")) == 2


def test_a_command_that_is_shown_can_be_pasted_and_asks_for_the_reason(box):
    define(box)
    publish(box, 1, customer="it's c1")
    groups.suspend(box, "shop", "it's c1", actor="ann", reason="a look")
    shown = CliRunner().invoke(main, ["group", "show", "it's c1", *where(box)]).stdout
    (line,) = [one for one in shown.splitlines() if "helps: " in one]
    pasted = line.partition("helps: seriatim ")[2]
    own, terminal = os.openpty()
    with subprocess.Popen(
        ["/bin/sh", "-c", f'"$0" -m seriatim {pasted} --dsn "$1" --schema "$2"', sys.executable, box.dsn, box.schema],
        env=environment(), stdin=terminal, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        os.write(own, b"it was looked at\n")
        out, told = process.communicate(timeout=DEADLINE_S)
    os.close(own)
    os.close(terminal)
    assert process.returncode == 0, told
    assert "suspended → " in out
    assert rows(box, "SELECT reason FROM {schema}.operator_log ORDER BY operation_id DESC LIMIT 1") == [
        ("it was looked at",)
    ]
