"""``seriatim workers``, and what is set for a queue: what people see."""

from __future__ import annotations

import re
from uuid import UUID

import pytest
from click.testing import CliRunner

from seriatim.box.workers.heartbeat import Process, Report, beat
from seriatim.cli.main import main
from seriatim.operations import queues
from tests.box.shop import define, publish, rows
from tests.databases import box_with

ID = UUID(int=7)


def prepare(box):
    define(box)
    define(box, "idle")
    publish(box, 1, 2)


box = box_with(prepare)


def told(box, *words, code=0):
    result = CliRunner().invoke(main, [*words, "--dsn", box.dsn, "--schema", box.schema])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


def at_work(box, host="here", pid=11, **report):
    """A process that has one message in hand for the second time."""
    rows(box, "UPDATE {schema}.entries SET attempt = 1 WHERE entry_id = (SELECT min(entry_id) FROM {schema}.entries)")
    ((entry_id, message_id),) = rows(
        box,
        "SELECT entry_id, message_id FROM {schema}.entries JOIN {schema}.spool USING (arrival_id, position) "
        "WHERE attempt = 1",
    )
    given = {"capacity": 8, "threads": 8, "run_length": 50, "rate": None, "in_hand": [("c1", entry_id, 2.5)]} | report
    with box.access.transaction() as transaction:
        beat(transaction, Process(ID, f"{host}:{pid}", host, pid), [Report("shop", "transactional", **given)])
    return message_id


def test_who_works_where_and_with_what_in_hand(box):
    assert told(box, "workers") == "no process works on a queue"
    message_id = at_work(box)
    found = told(box, "workers", "--queue", "shop")
    assert "shop here 11 " in found
    assert re.search(r" \d+ s ago 8 50 1 ", found)
    assert f"group c1, message {message_id}, attempt 2 since " in found
    assert told(box, "workers", "--queue", "idle") == "no process works on a queue"
    assert "there is no queue 'nowhere'" in told(box, "workers", "--queue", "nowhere", code=2)
    rows(box, "UPDATE {schema}.known_workers SET seen_at = now() - interval '125 s'")
    assert " 2 min ago, silent " in told(box, "workers")


def test_a_queue_on_which_nobody_works_says_so(box):
    found = told(box, "queues")
    assert found.count("nobody") == 2  # both have the messages
    assert "nobody works on it, and there are messages" in told(box, "queue", "show", "shop")
    at_work(box)
    assert told(box, "queues").count("nobody") == 1
    assert "nobody works on it" not in told(box, "queue", "show", "shop")


def test_what_is_set_and_what_is_obeyed_is_shown(box):
    words = ["queue", "set", "shop", "--workers", "4", "--rate", "30/m", "--actor", "ann", "--reason", "too fast"]
    assert told(box, *words) == "queue shop: workers 4, rate 30/m; no process works on it now"
    at_work(box, rate=0.5, run_length=7, capacity=4, threads=3)
    found = told(box, "queue", "set", "shop", "--unset", "workers", "--in-flight", "3", "--actor", "bob")
    assert found == "queue shop: in flight 3, rate 30/m; 1 process obeys within seconds"
    found = told(box, "queue", "show", "shop")
    assert "set: in flight 3, rate 30/m; by bob, " in found
    obeys = r"process 11 on here, seen \d+ s ago: 4 workers, 3 of them running, rate 30/m, run length 7, 1 in hand"
    assert re.search(obeys, found)
    told(box, "queue", "set", "shop", "--unset", "rate", "--unset", "in-flight")
    assert queues.settings(box, "shop").values == {}
    assert "set: nothing; by" in told(box, "queue", "show", "shop")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rate", "fast"], "rate can't be 'fast' (messages a second, such as 100/s, or 30/m or 500/h)"),
        (["--rate", "0"], "rate can't be '0'"),
        (["--workers", "0"], "workers can't be 0 (a whole number from 1 to 1,000)"),
        (["--workers", "2", "--unset", "workers"], "workers can't be set and unset"),
        ([], "nothing is given to set (one of workers, in_flight, rate, run_length"),
    ],
)
def test_what_cannot_be_set_is_said(box, words, said):
    assert said in told(box, "queue", "set", "shop", *words, code=2)
