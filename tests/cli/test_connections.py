"""``seriatim connections`` and ``connection end``: a transaction that was forgotten is named by its group, and is ended."""

from __future__ import annotations

import json
from contextlib import suppress

import psycopg
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.box.views import group_standing
from seriatim.cli.main import main
from seriatim.operations import connections, operator_log
from tests.box.console import BY, define, publish
from tests.console.conftest import Client
from tests.databases import box_with

box = box_with(define)


def called(box, *words, code=0):
    result = CliRunner().invoke(main, [*words, "--dsn", box.dsn, "--schema", box.schema])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def forgotten(box, monkeypatch):
    """A connection of another program's that has received a message and does nothing since."""
    monkeypatch.setattr(group_standing, "FORGOTTEN_S", 0.0)
    monkeypatch.setattr(group_standing, "_MOMENT_S", 0.0)
    publish(box, 1, group="c1")
    with (
        suppress(sq.SeriatimError, psycopg.Error),  # the connection was ended
        psycopg.connect(box.dsn, application_name="a notebook") as connection,
        box.session(connection=connection) as tx,
    ):
        tx.receive("shop", group="c1")
        yield connection


def test_the_forgotten_transaction_is_named_and_ended(box, forgotten):
    pid = str(forgotten.info.backend_pid)
    shown = called(box, "group", "show", "c1", "--queue", "shop").stdout
    assert "an idle transaction has held it for " in shown
    assert f"(process {pid}, a notebook" in shown
    assert f"seriatim connection end {pid}" in shown
    page = Client(box).get("/groups/shop/c1").text
    assert 'href="/connections">Show the connections, and end one</a>' in page
    (listed,) = [one for one in json.loads(called(box, "connections", "--json").stdout) if one["pid"] == int(pid)]
    assert (listed["name"], listed["state"], listed["locks"]) == ("a notebook", "idle in transaction", 1)
    told = called(box, "connections", "end", pid, "--reason", "it was forgotten").stdout
    assert told == f"the connection a notebook (process {pid}) has ended; 1 lock of groups and the like are free\n"
    (logged,) = [one for one in operator_log.operator_log(box) if one.action == "end_connection"]
    assert (logged.reason, logged.details["pid"]) == ("it was forgotten", int(pid))
    with box.session() as tx:
        delivery = tx.receive("shop", group="c1")
        assert [message.sequence for message in delivery] == [1]
        delivery.done()


def test_what_is_no_connection_of_an_application(box):
    assert "seriatim connections lists them" in called(box, "connection", "end", "1", "--reason", "r", code=2).stderr
    with pytest.raises(sq.UsageError, match="actor"):
        connections.end(box, 1, actor="", reason="r")
    with pytest.raises(sq.UsageError, match="no connection of an application has the process 1"):
        connections.end(box, 1, **BY)
