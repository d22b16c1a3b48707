"""`seriatim messages delete` and `requeue`: what they name, ask, print and refuse."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.cli.options.many import Many
from seriatim.operations import groups, invariants
from seriatim.operations import messages as message_operations
from tests.box.console import BY, define, failing, publish, received, rows
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
    return {one.message_id for one in message_operations.messages(box)}


def test_one_by_its_id(box, call, made):
    first, second, unrouted = made
    assert call("delete", first, "--yes", *WHY).stdout == "deleted 1 message\n"
    assert left(box) == {second, unrouted}
    assert call("delete", unrouted, "--yes", *WHY).stdout == "deleted 1 message\n"
    assert left(box) == {second}
    (row,) = rows(box, "SELECT actor, reason, details ->> 'message_id' FROM {schema}.operator_log WHERE queue = 'shop'")
    assert row == ("ann", "ticket 4711", first)
    assert (
        f"message {first!r} is neither unrouted nor set aside in such a status" in call("delete", first, code=2).stderr
    )
    assert "neither unrouted nor set aside" in call("delete", second, "--status", "late", code=2).stderr


def test_all_that_the_options_name(box, call, made):
    first, second, unrouted = made
    dry = call("delete", "--all", "--queue", "shop", "--dry-run").stdout
    assert dry.splitlines()[0].split() == ["message", "type", "queue", "group", "status", "since", "sequence", "reason"]
    assert {line.split()[0] for line in dry.splitlines()[1:3]} == {first, second}
    assert dry.endswith("would delete 2 messages\n")
    dry = json.loads(call("delete", "--all", "--status", "unrouted", "--dry-run", "--json").stdout)
    assert (dry["dry_run"], [one["message_id"] for one in dry["messages"]]) == (True, [unrouted])
    asked = call("delete", "--all", *WHY, code=2).stderr
    assert "this needs confirmation: delete 3 messages for good (2 duplicate, 1 unrouted)?" in asked
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
    monkeypatch.setattr(Many, "most", 2)
    dry = call("delete", "--all", "--dry-run")
    assert dry.stdout.endswith("would delete 2 messages\n")
    done = call("delete", "--all", "--yes", *WHY)
    assert done.stdout == "deleted 2 messages\n"
    assert dry.stderr == done.stderr == "there may be more than these 2: another run takes them\n"
    assert len(left(box)) == 1
    assert call("delete", "--all", "--yes", *WHY).stderr == ""


def test_that_there_may_be_more_to_retry_is_said(box, call, monkeypatch):
    monkeypatch.setattr(Many, "most", 2)
    define(box)
    for group in ("a", "b", "c"):
        publish(box, 1, group=group)
        failing(box, group=group)
    dry = call("retry", "--all", "--dry-run")
    assert dry.stdout.endswith("retry would be done to 2 messages\n")
    done = call("retry", "--all", "--yes", *WHY)
    assert done.stdout == "retried 2 messages\n"
    assert dry.stderr == done.stderr == "there may be more than these 2: another run takes them\n"
    assert call("retry", "--all", "--yes", *WHY).stderr == ""


def test_a_list_of_what_is_unrouted_that_stops_at_its_limit_says_so(box):
    box.publish([sq.Message(type=f"other{number}") for number in (1, 2, 3)])

    def listed(limit):
        words = ["unrouted", "--limit", str(limit), "--dsn", box.dsn, "--schema", box.schema]
        return CliRunner().invoke(main, words)

    assert (len(listed(2).stdout.splitlines()), listed(4).stdout.splitlines()[-1]) == (2, "3 unrouted")
    assert listed(2).stderr == "stopped at 2, there may be more: --limit N lists more\n"
    assert listed(4).stderr == ""


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "name either messages or --all"),
        (("x", "--all"), "name either messages or --all"),
        (("--all", "--queue", "shp", "--yes"), "there is no queue 'shp'"),
        (("--all", "--status", "dead", "--yes"), "'dead'"),
        (("--all", "--older-than", "soon", "--yes"), "'soon'"),
        (("--all", "--yes"), "the reason is missing"),
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
    assert "for a dead letter, seriatim dead-letters list" in call("delete", one, "--yes", *WHY, code=2).stderr


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


def test_the_message_that_stops_its_group_is_faulted(box, call):
    """It is found by its status, and `retry --all` retries its group; the others of the group are queued."""
    define(box)
    failed, behind = publish(box, 1, 2)
    other = publish(box, 1, group="c2")[0]
    received(box, "c2")
    assert call("list", "--status", "faulted").stdout == "there are none\n"
    failing(box)
    (row,) = json.loads(call("list", "--status", "faulted", "--json").stdout)
    assert (row["message_id"], row["error"]) == (failed, "ValueError: no such customer")
    (row,) = json.loads(call("list", "--status", "queued", "--json").stdout)
    assert row["message_id"] == behind
    assert "shop, group c1: faulted" in call("show", failed).stdout
    assert other not in call("list").stdout
    found = message_operations.page(box, status="faulted")
    assert [one.message_id for one in found.rows] == [failed]
    exported = call("export", "--state", "faulted").stdout.splitlines()
    assert [json.loads(one)["message_id"] for one in exported] == [failed]
    rows(box, "WITH gone AS (DELETE FROM {schema}.faults RETURNING 1) SELECT count(*) FROM gone")
    (row,) = json.loads(call("list", "--status", "faulted", "--json").stdout)
    assert row["message_id"] == failed
    assert "retry would be done to 1 message" in call("retry", "--all", "--dry-run").stdout
    assert call("retry", "--all", "--yes", *WHY).stdout == "retried 1 message\n"
    assert actions(box) == ["retry"]
    assert call("list", "--status", "faulted").stdout == "there are none\n"
    assert received(box) == [1, 2]


@pytest.fixture
def late(box):
    """The ids of two late messages and of a duplicate, of one group."""
    define(box)
    publish(box, 1, 4)
    assert received(box) == [1]
    groups.skip_hole(box, "shop", "c1", **BY)
    second, third, again = publish(box, 2, 3, 4)
    assert received(box) == [4]
    return second, third, again


def test_late_ones_are_put_back(box, call, late):
    second, third, again = late
    dry = call("requeue", "--all", "--queue", "shop", "--dry-run").stdout
    assert {line.split()[0] for line in dry.splitlines()[1:3]} == {second, third}
    assert dry.endswith("would requeue 2 messages\n")
    assert "this needs confirmation: requeue 2 messages (2 late)?" in call("requeue", "--all", *WHY, code=2).stderr
    assert "the reason is missing" in call("requeue", third, code=2).stderr
    back = f"shop, group c1: {third} is back at the end, flagged as late\n"
    assert call("requeue", third, *WHY).stdout == back
    done = json.loads(call("requeue", "--all", "--older-than", "0s", "--yes", *WHY, "--json").stdout)
    assert [(one["message"]["message_id"], one["place"], one["status"]) for one in done["requeued"]] == [
        (second, "end", "queued")
    ]
    assert actions(box) == ["skip_hole", "requeue", "requeue"]
    assert received(box) == [3, 2]
    assert left(box) == {again}
    assert invariants.broken(box) == []


def test_a_duplicate_is_put_back_only_if_that_is_said(box, call, late):
    *_, again = late
    assert "is neither unrouted nor set aside in such a status" in call("requeue", again, *WHY, code=2).stderr
    assert "at the end, flagged as late" in call("requeue", again, "--status", "duplicate", *WHY).stdout
    assert received(box) == [4]


def test_what_is_judged_again_and_what_is_refused_is_told(box, call):
    define(box, sq.Standard(capacity=1))
    _, rejected = publish(box, 2, 3)
    assert received(box) == []
    assert call("requeue", rejected, *WHY).stdout == f"shop, group c1: {rejected} is judged again: rejected\n"
    groups.close(box, "shop", "c1", at_once=True, **BY)
    refused = call("requeue", "--all", "--yes", *WHY, code=1).stdout
    assert refused.startswith("shop, group c1: refused, 1 message: cannot requeue into a group that is closed (")
    assert call("requeue", "--all", "--status", "late", "--yes", *WHY).stdout == "there are none\n"
    assert json.loads(call("requeue", "--all", "--status", "late", "--json").stdout) == {
        "dry_run": False,
        "requeued": [],
    }
    assert "'invalid'" in call("requeue", "--all", "--status", "invalid", code=2).stderr


def test_waiting_ones_are_taken_out(box, call, made):
    """With the queue's name: they become dead letters, and the others stay in order."""
    first, *_ = made
    ids = publish(box, 2, 3, 4, 5)
    assert "neither unrouted nor set aside" in call("delete", ids[1], code=2).stderr
    would = call("delete", ids[1], first, "--queue", "shop", "--dry-run").stdout
    assert "would delete 1 message\n" in would
    assert "would move 1 waiting message to the dead letters" in would
    told = call("delete", ids[1], first, "--queue", "shop", "--yes", *WHY).stdout
    assert told == "deleted 1 message\nmoved 1 waiting message to the dead letters\n"
    done = json.loads(call("delete", ids[2], "--queue", "shop", "--yes", "--json", *WHY).stdout)
    assert done == {"dry_run": False, "deleted": 0, "dead": 1}
    skip = ["group", "skip-message", "c1", "--queue", "shop", *WHY, "--dsn", box.dsn, "--schema", box.schema]
    refused = CliRunner().invoke(main, skip)
    assert (refused.exit_code, "no message has stopped the group, which is ready" in refused.output) == (2, True)
    assert CliRunner().invoke(main, [*skip, "--message", ids[0]]).exit_code == 0
    assert received(box) == [5]
    assert invariants.broken(box) == []
