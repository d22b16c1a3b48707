"""``seriatim work`` until nothing is left, with a handler that fails; and with a database that is away."""

from __future__ import annotations

import signal
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

import seriatim as sq
from seriatim.cli.commands.work import _still_there
from tests.box.shop import define, left, publish, rows, seen
from tests.command import command, environment

pytestmark = pytest.mark.dear

ROOT = Path(__file__).parents[2]
DEADLINE_S = 300
BEHIND = "a number before it is missing, or its set isn't complete"
MOODY = ["--handler", "tests.runtime.started:moody"]


def started(*words):
    return subprocess.Popen(
        command(*words), cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def ended(*words):
    with started(*words) as process:
        out, told = process.communicate(timeout=DEADLINE_S)
    return process.returncode, out, told


def test_failures_are_in_the_log_and_what_is_left_in_the_last_lines(box):
    define(box, retry=sq.Retry(2, delay=0))
    publish(box, 1, 2)
    publish(box, 1, 2, customer="bad")
    publish(box, 1, customer="empty")
    publish(box, 1, 3, customer="hole")
    words = ["work", "shop", *MOODY, "--once", "--processes", "2"]
    words += ["--business", "tests.runtime.started:OutOfStockError"]
    code, out, told = ended(*words, "--workers", "2", "--dsn", box.dsn, "--schema", box.schema)
    assert code == 0, told
    assert out.splitlines() == [
        "handlers got 6 messages (each attempt counts)",
        "shop: 3 not done: its group is faulted: a handler failed for good, and an operator has to mend it",
        f"shop: 1 not done: {BEHIND}; no time-out ends that: seriatim groups says what is missing",
    ]
    for failure in (
        "attempt 1 of 2 failed (unexpected): RuntimeError: no room; tried again at once",
        "attempt 2 of 2 failed (unexpected): RuntimeError: no room; group faulted",
        "attempt 1 failed (business): OutOfStockError: none left; group faulted",
    ):
        lines = [line for line in told.splitlines() if failure in line]
        assert ["seriatim.failures: queue 'shop', group '" in line for line in lines] == [True], told
    assert told.count("Traceback") == 2
    assert "queue 'shop', group 'bad', message " in told
    done = [one for one in seen(box) if one[0] in ("c1", "hole")]
    assert sorted(done) == [("c1", 1), ("c1", 2), ("hole", 1)]
    publish(box, 1, customer="bad2")
    code, _, told = ended(*words, "--log-level", "error", "--dsn", box.dsn, "--schema", box.schema)
    assert code == 0
    assert "attempt 2 of 2 failed" in told
    assert "WARNING" not in told


def test_the_last_lines_say_when_a_missing_number_is_skipped(box):
    define(box, policy=sq.Standard(hole_timeout=3600))
    publish(box, 1, 3)
    with box.session() as tx:
        for _ in tx.receive("shop"):
            pass
    (due,) = rows(box, "SELECT due_at FROM {schema}.known_groups")[0]
    (line,) = _still_there(box, ["shop"])
    at = datetime.fromtimestamp(due / 1e6).astimezone().isoformat(" ", "seconds")
    assert line.endswith(f"{BEHIND}; the first time-out ends at {at}, and the next run obeys it")


@pytest.fixture
def away(box, tmp_path):
    """A DSN of the box whose socket isn't there, and what makes it be there."""
    given = conninfo_to_dict(box.dsn)
    socket = f".s.PGSQL.{given.get('port', 5432)}"

    def comes():
        (tmp_path / socket).symlink_to(Path(given["host"]) / socket)

    return make_conninfo(box.dsn, host=str(tmp_path)), comes


def first_line(process, text):
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(text)


@pytest.mark.parametrize("words", [["work", "shop", *MOODY], ["serve"]])
def test_who_does_not_wait_for_a_database_that_is_away_ends_with_5(box, away, words):
    dsn, _ = away
    code, _, told = ended(*words, "--no-wait", "--dsn", dsn, "--schema", box.schema)
    assert code == 5
    assert "PostgreSQL can't be reached" in told
    assert "Traceback" not in told


def test_a_database_that_is_away_is_waited_for(box, away):
    dsn, comes = away
    define(box)
    publish(box, 1, 2)
    with started("work", "shop", *MOODY, "--once", "--dsn", dsn, "--schema", box.schema) as process:
        assert "WARNING seriatim.box: " in first_line(process, "waiting for it (")
        comes()
        first_line(process, "is there after")
        out, told = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, told
    assert out.splitlines() == ["handlers got 2 messages (each attempt counts)", "no message waits"]
    assert left(box) == 0


def test_who_waits_ends_when_it_is_told(box, away):
    dsn, _ = away
    with started("serve", "--dsn", dsn, "--schema", box.schema) as process:
        first_line(process, "waiting for it")
        process.send_signal(signal.SIGTERM)
        out, told = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, told
    assert out == ""
    assert all("waiting for it" in line for line in told.splitlines()), told


def test_a_database_that_is_there_and_refuses_is_not_waited_for(box):
    code, _, told = ended(
        "work", "shop", *MOODY, "--dsn", make_conninfo(box.dsn, dbname="nowhere"), "--schema", box.schema
    )
    assert code == 3
    assert '"nowhere" does not exist' in told
