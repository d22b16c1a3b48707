"""The scripts of the how-to, run by psql: in one transaction, and under a lease."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

import seriatim as sq
from seriatim.box.postgres.migrate import LEAST_POSTGRESQL
from seriatim.box.server.binaries import find_binaries
from seriatim.box.workers.heartbeat import Process
from seriatim.box.workers.judge import judging

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/how-to/receive-from-sql.md").read_text()


def script(name):
    (found,) = [block for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL) if block.startswith(f"-- {name}:")]
    return found


@pytest.fixture
def psql(box):
    path = find_binaries(LEAST_POSTGRESQL).root / "bin" / "psql"

    def run(name, *more):
        text = script(name).replace("seriatim.", f"{box.schema}.")
        command = [str(path), box.dsn, "-X", "-q", "-v", "ON_ERROR_STOP=1", *more]
        environment = {**os.environ, "LD_LIBRARY_PATH": str(path.parents[1] / "lib")}
        return subprocess.run(command, input=text, capture_output=True, text=True, env=environment, check=False)

    return run


def filled(box, groups, each, policy):
    box.define(
        sq.MessageType("order", properties={"customer": "string", "n": "long"}),
        sq.MessageType("done", properties={"customer": "string", "n": "long"}),
        sq.Queue("orders", policy=policy, group="customer", sequence="n"),
        sq.Queue("results", policy=sq.Fifo(), group="customer"),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
        sq.Subscription("results", where="type = 'done'", to="results"),
    )
    messages = [
        sq.Message(type="order", context={"customer": f"c{group}", "n": n})
        for n in range(each, 0, -1)
        for group in range(groups)
    ]
    box.publish(messages)
    with psycopg.connect(box.dsn) as connection:
        connection.execute("CREATE TABLE handled (message_id text PRIMARY KEY, at bigint GENERATED ALWAYS AS IDENTITY)")
    return {f"c{group}": list(range(1, each + 1)) for group in range(groups)}


def results(box):
    found: dict[str, list[int]] = {}
    while True:
        with box.session() as tx:
            if (delivery := tx.receive("results", limit=500)) is None:
                return found
            for one in delivery:
                found.setdefault(one.context["customer"], []).append(one.context["n"])


@pytest.mark.parametrize(("groups", "each"), [(30, 20), pytest.param(300, 34, marks=pytest.mark.dear)])
def test_in_one_transaction(box, psql, groups, each):
    expected = filled(box, groups, each, sq.Standard(start=1))
    alone = psql("work.sql")
    assert "nobody judges this box: start seriatim serve" in alone.stderr
    with judging(box, Process(uuid4(), "judge", "here", 1)):
        while "nobody judges" in (ran := psql("work.sql")).stderr:
            pass  # it is about to begin
    assert ran.returncode == 0, ran.stderr
    with psycopg.connect(box.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM handled").fetchone() == (groups * each,)
    assert results(box) == expected


def test_under_a_lease(box, psql):
    filled(box, 1, 15, sq.Fifo())
    for attempt in ("first", "second", "third"):
        ran = psql("leased.sql", "-v", f"attempt={attempt}")
        assert ran.returncode == 0, ran.stderr
    with psycopg.connect(box.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM handled").fetchone() == (15,)
        assert connection.execute(f"SELECT count(*) FROM {box.schema}.leases").fetchone() == (0,)
    assert "is over" in psql("leased.sql", "-v", "attempt=first").stderr
