"""`seriatim messages delete`: what it names, asks, prints and refuses."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli import messages
from seriatim.cli.main import main
from tests.box.console import define, failing, publish, received, rows
from tests.box.console import logged as actions

WHY = ("--reason", "ticket 4711", "--actor", "ann")


@pytest.fixture
def call(box):
    """Calls `seriatim messages` about the box."""

    def calling(*words, code=0):
        result = CliRunner().invoke(main, ["messages", *map(str, words), "--dsn", box.dsn, "--schema", box.schema])
        assert result.exit_code == code, result.output
        return result

    return calling


@pytest.fixture
def made(box):
    """The ids of two duplicates and of a message that is unrouted."""
    define(box)
    _, first, second = publish(box, 1, 1, 1)
    assert received(box) == [1]
    with box.session() as tx:
        return first, second, *tx.publish(sq.Message(type="other"))


def left(box):
    return {one.message_id for one in box.messages()}


def test_one_by_its_id(box, call, made):
    first, second, unrouted = made
    assert call("delete", first, "--yes", *WHY).stdout == "deleted 1 messages\n"
    assert left(box) == {second, unrouted}
    assert call("delete", unrouted, "--yes", *WHY).stdout == "deleted 1 messages\n"
    assert left(box) == {second}
    (row,) = rows(box, "SELECT actor, reason, details ->> 'message_id' FROM {schema}.operator_log WHERE queue = 'shop'")
    assert row == ("ann", "ticket 4711", first)
    assert f"message {first!r} is not set aside like that, nor unrouted" in call("delete", first, code=2).stderr
    assert "not set aside like that" in call("delete", second, "--status", "late", code=2).stderr


def test_all_that_the_options_name(box, call, made):
    first, second, unrouted = made
    dry = call("delete", "--all", "--queue", "shop", "--dry-run").stdout
    assert dry.splitlines()[0].split() == ["message", "type", "queue", "group", "status", "since", "sequence", "reason"]
    assert {line.split()[0] for line in dry.splitlines()[1:3]} == {first, second}
    assert dry.endswith("would delete 2 messages\n")
    dry = json.loads(call("delete", "--all", "--status", "unrouted", "--dry-run", "--json").stdout)
    assert (dry["dry_run"], [one["message_id"] for one in dry["messages"]]) == (True, [unrouted])
    asked = call("delete", "--all", *WHY, code=2).stderr
    assert "this asks first: delete 3 messages for good (2 duplicate, 1 unrouted)?" in asked
    assert left(box) == set(made)
    assert actions(box) == []
    done = json.loads(call("delete", "--all", "--queue", "shop", "--yes", *WHY, "--json").stdout)
    assert done == {"dry_run": False, "deleted": 2}
    assert left(box) == {unrouted}
    assert actions(box) == ["delete", "delete"]


def test_nothing_to_delete(box, call, made):
    assert call("delete", "--all", "--older-than", "1h", "--yes", *WHY).stdout == "there are none\n"
    assert call("delete", "--all", "--type", "odd", "--dry-run").stdout == "there are none\n"
    nothing = call("delete", "--all", "--group", "odd", "--yes", *WHY, "--json").stdout
    assert json.loads(nothing) == {"dry_run": False, "deleted": 0}
    assert left(box) == set(made)


def test_that_there_may_be_more_is_said(box, call, made, monkeypatch):
    monkeypatch.setattr(messages, "_ALL", 2)
    done = call("delete", "--all", "--yes", *WHY)
    assert (done.stdout, done.stderr) == ("deleted 2 messages\n", "there may be more than these 2: call it again\n")
    assert len(left(box)) == 1


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "which messages?"),
        (("x", "--all"), "which messages?"),
        (("--all", "--queue", "shp", "--yes"), "there is no queue 'shp'"),
        (("--all", "--status", "dead", "--yes"), "'dead'"),
        (("--all", "--older-than", "soon", "--yes"), "'soon'"),
        (("--all", "--yes"), "there is no reason"),
        (("--all", "--yes", "--reason", " "), "is not reason"),
    ],
)
def test_what_cannot_be_asked(box, call, made, words, why):
    assert why in call("delete", *words, code=2).stderr
    assert left(box) == set(made)
    assert actions(box) == []


def test_a_dead_letter_is_named_as_one(box, call):
    define(box)
    (one,) = publish(box, 1)
    failing(box)
    rows(box, "SELECT {schema}.set_dead(queue_id, group_key, ARRAY[entry_id], 'why')::text FROM {schema}.entries")
    assert "what is dead is a dead letter" in call("delete", one, "--yes", *WHY, code=2).stderr


def test_what_is_invalid_is_resubmitted(box, call):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("shop", sq.Fifo(), group="customer"),
        sq.Subscription("shop", where="type = 'order'", to="shop"),
    )
    first, second, third = (box.publish(sq.Message(type="order"))[0] for _ in range(3))
    assert call("resubmit", "--queue", "shop").stdout == "0 routed, 3 left\n"
    box.define(sq.Queue("shop", sq.Unordered()))
    assert call("resubmit", first, "--queue", "shop").stdout == "1 routed, 0 left\n"
    assert json.loads(call("resubmit", "--queue", "shop", "--json").stdout) == {"routed": 2, "left": 0}
    with box.session() as tx:
        assert {one.message_id for one in tx.receive("shop", limit=9)} == {first, second, third}
    assert "--queue" in call("resubmit", code=2).stderr
    assert "there is no queue 'shp'" in call("resubmit", "--queue", "shp", code=2).stderr
