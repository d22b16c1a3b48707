"""Defining from a file, and what people and programs read of a message box."""

from __future__ import annotations

import json

import pytest

import seriatim as sq
from seriatim.operations import messages as message_operations
from seriatim.operations.box_status import box_status
from seriatim.operations.operator_log import operator_log

FILE = """
locations: {crm: {last_number: 999}}
types:
  order: {properties: {customer: string, version: long, amount: {path: $.total, type: 'decimal(12,2)'}}}
queues:
  fulfilment: {policy: standard, group: customer, sequence: version, hole_timeout: 100s}
  archive: {policy: unordered}
subscriptions:
  orders: {where: "type = 'order'", to: fulfilment}
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "box.yaml"
    path.write_text(FILE)
    return path


def publish(box, *versions, **properties):
    with box.session() as tx:
        return tx.publish(
            [
                sq.Message(type="order", context={"customer": "a", "version": one, **properties}, body=b"{}")
                for one in versions
            ]
        )


def test_apply_defines_and_again_changes_nothing(box, call, file):
    lines = ["location crm", "type order", "queue fulfilment", "queue archive", "subscription orders"]
    assert call("box", "apply", file, "--dry-run").stdout.splitlines() == [f"would have added {one}" for one in lines]
    assert dict(box.definitions().queues) == {}
    assert call("box", "apply", file).stdout.splitlines() == [f"added {one}" for one in lines]
    assert call("box", "apply", file).stdout == "nothing to change\n"
    file.write_text(FILE.replace("100s", "5s"))
    told = json.loads(call("box", "apply", file, "--json").stdout)
    change = {"what": "changed", "kind": "queue", "name": "fulfilment", "fields": ["hole_timeout"]}
    assert told == {"file": str(file), "applied": True, "changes": [change]}


def test_apply_warns_of_durations_without_a_unit(box, call, file):
    file.write_text(FILE.replace("100s", "100"))
    told = "hole_timeout: 100 has no unit and counts as seconds: write 100s"
    at = "6:84: queues.fulfilment"
    assert call("box", "apply", file).stderr == f"warning: {file}:{at}.{told}\n"
    assert json.loads(call("box", "apply", file, "--json").stdout)["changes"] == []


def test_apply_tells_all_faults_with_lines_and_applies_nothing(box, call, file):
    before = box.definitions().version
    file.write_text(FILE.replace("to: fulfilment", "to: fulfilmnt").replace("sequence: version", "sequence: epoch"))
    errors = call("box", "apply", file, code=2).stderr
    assert "box.yaml:6:" in errors
    assert "numbered when its transaction commits" in errors
    assert "box.yaml:9:" in errors
    assert "did you mean 'fulfilment'?" in errors
    assert box.definitions().version == before


def test_prune_drops_what_the_file_does_not_have(box, call, file):
    call("box", "apply", file)
    with box.session() as tx:
        tx.dispense("used")
    box.define(sq.Location("unused"))
    file.write_text("queues: {archive: {policy: unordered}}\n")
    drops = "subscription orders, queue fulfilment, type order, location crm, location unused"
    refused = call("box", "apply", file, "--prune", code=2).stderr
    assert f"--prune would drop {drops} (give --yes to drop it without being asked)" in refused
    assert "orders" in box.definitions().subscriptions
    dry = call("box", "apply", file, "--prune", "--dry-run").stdout
    assert dry.splitlines() == [f"would have dropped {one}" for one in drops.split(", ")]
    done = call("box", "apply", file, "--prune", "--yes").stdout
    assert done.splitlines() == [f"dropped {one}" for one in drops.split(", ")]
    assert list(box.definitions().queues) == ["archive"]
    assert [one.location for one in box_status(box).locations] == ["used"]
    assert call("box", "apply", file, "--prune").stdout == "nothing to change\n"


def test_an_empty_file_prunes_nothing_by_mistake(box, call, file):
    call("box", "apply", file)
    file.write_text("types: {}\n")
    assert "--yes" in call("box", "apply", file, "--prune", code=2).stderr
    assert len(box.definitions().queues) == 2


def test_prune_takes_nothing_that_is_in_use(box, call, file):
    call("box", "apply", file)
    publish(box, 2)
    file.write_text("types: {order: {properties: {customer: string, version: long}}}\n")
    refused = call("box", "apply", file, "--prune", "--yes", code=2).stderr
    assert "queue 'fulfilment' can't be dropped: it has messages: 1 to be handed out or held" in refused
    assert "orders" in box.definitions().subscriptions


def test_queues_and_a_queue(box, call, file):
    assert call("queues").stdout == "there are no queues\n"
    call("box", "apply", file)
    publish(box, 1, 2, None)
    lines = call("queues").stdout.splitlines()
    headings = (
        "queue policy state arrived held queued in hand stopped groups waiting groups set aside oldest age processes"
    )
    assert lines[0].split() == headings.split()
    assert lines[2].split()[:11] == ["fulfilment", "standard", "on", "2", *"00000", "1", "invalid"]
    assert lines[2].split()[-2] == "s"  # of late: nobody is missed yet
    told = json.loads(call("queues", "--json").stdout)
    assert [(one["queue"], one["arrived"], one["invalid"]) for one in told] == [("archive", 0, 0), ("fulfilment", 2, 1)]
    assert (
        call("queue", "off", "fulfilment", "archive").stdout
        == "turned off queue fulfilment\nturned off queue archive\n"
    )
    shown = call("queue", "show", "fulfilment").stdout
    assert "fulfilment: standard, off" in shown
    assert "  hole_timeout: 100.0" in shown
    assert "2 arrived, 0 held, 0 queued, 0 in hand" in shown
    assert "subscription orders: started" in shown
    told = json.loads(call("queue", "show", "fulfilment", "--json").stdout)
    assert told["definition"]["policy"]["hole_timeout"] == 100.0
    assert (told["enabled"], told["subscriptions"]) == (False, {"orders": "started"})
    on = call("queue", "on", "fulfilment", "--reason", "mended").stdout
    assert on == "turned on queue fulfilment\n"
    assert call("queue", "on", "fulfilment").stdout == "nothing to change\n"
    logged = [(one.action, one.queue, one.reason) for one in operator_log(box)]
    off = ("turn_off", "on request")
    assert logged == [("turn_on", "fulfilment", "mended"), (off[0], "archive", off[1]), (off[0], "fulfilment", off[1])]
    assert "did you mean 'fulfilment'?" in call("queue", "on", "fulfilmnt", code=2).stderr
    publish(box, 9)
    with box.session() as tx:
        for _ in tx.receive("fulfilment"):
            pass
    told = json.loads(call("queues", "--json").stdout)
    assert [(one["stopped"], one["waiting_groups"], one["age_s"] is None) for one in told] == [
        (0, 0, True), (0, 1, False),
    ]  # fmt: skip
    assert " in hand; waiting groups: 1; the oldest message is " in call("queue", "show", "fulfilment").stdout
    assert "there is no queue" in call("queue", "show", "x", code=2).stderr


def test_subscriptions_and_their_states(box, call, file):
    assert call("subscriptions").stdout == "there are no subscriptions\n"
    call("box", "apply", file)
    assert call("subscription", "stop", "orders").stdout == "stopped subscription orders\n"
    told = json.loads(call("subscriptions", "--json").stdout)
    one = {"subscription": "orders", "queue": "fulfilment", "state": "stopped", "where": "type = 'order'"}
    assert told == [one]
    assert call("subscriptions", "--queue", "archive").stdout == "there are no subscriptions\n"
    publish(box, 1)
    assert "waits" in call("messages", "list").stdout
    assert call("box", "apply", file).stdout == "nothing to change\n"  # and what was stopped stays so
    assert call("subscription", "unenlist", "orders").stdout == "unenlisted subscription orders\n"
    assert call("subscription", "start", "orders").stdout == "started subscription orders\n"
    assert call("subscriptions").stdout.splitlines()[1].split() == [
        "orders",
        "fulfilment",
        "started",
        "type",
        "=",
        "'order'",
    ]
    assert "there is no subscription 'x'" in call("subscription", "start", "x", code=2).stderr


def test_types(call, file):
    assert call("types").stdout == "there are no message types\n"
    call("box", "apply", file)
    assert "  amount: decimal(12,2), from $.total" in call("types").stdout
    (told,) = json.loads(call("types", "--json").stdout)
    assert told["type"] == "order"
    assert told["properties"]["version"] == "long"


def test_messages(box, call, file):
    assert call("messages", "list").stdout == "there are none\n"
    call("box", "apply", file)
    first, second = publish(box, 1, None)
    lines = call("messages", "list").stdout.splitlines()
    assert len(lines) == 3
    assert lines[1].split() == [first, "order", "box/0/1", "fulfilment", "a", "arrived", "1"]
    told = json.loads(call("messages", "list", "--status", "invalid", "--json").stdout)
    assert [(one["message_id"], one["reason"]) for one in told] == [(second, "the sequence is missing")]
    assert call("messages", "list", "--queue", "archive").stdout == "there are none\n"
    assert "there is no queue" in call("messages", "list", "--queue", "x", code=2).stderr
    assert (
        len(json.loads(call("messages", "list", "--type", "order", "--group", "a", "--limit", "1", "--json").stdout))
        == 1
    )
    shown = call("messages", "show", first).stdout
    assert "box/0/1" in shown
    assert '  customer: "a"' in shown
    assert "fulfilment, group a: arrived" in shown
    assert shown.endswith("{}\n")
    told = json.loads(call("messages", "show", first, "--json").stdout)
    assert (told["body"], told["ticket"]["number"], told["places"][0]["status"]) == ("{}", 1, "arrived")
    assert "there is no message 'x'" in call("messages", "show", "x", code=2).stderr


def test_unrouted_and_routed_again(box, call, file):
    assert call("unrouted").stdout == "nothing is unrouted\n"
    call("box", "apply", file)
    with box.session() as tx:
        (name,) = tx.publish(sq.Message(type="note"))
    assert call("unrouted").stdout == f"box note  {name}\n1 unrouted\n"
    assert json.loads(call("unrouted", "--json").stdout)["message_id"] == name
    assert call("unrouted", "--resubmit").stdout == "0 routed, 1 left\n"
    box.define(sq.Subscription("notes", where="type = 'note'", to="archive"))
    assert json.loads(call("unrouted", "--resubmit", "--json").stdout) == {"routed": 1, "left": 0}
    assert [one.queue for one in message_operations.messages(box)] == ["archive"]
    assert "leave --limit out" in call("unrouted", "--resubmit", "--limit", "1", code=2).stderr
    assert "works on a message box only" in call("unrouted", file, "--resubmit", code=2).stderr


def test_status_tells_tables_and_what_a_purge_would_free(box, call, file):
    call("box", "apply", file)
    publish(box, 1)
    told = json.loads(call("box", "status", "--json").stdout)
    tables = {one["name"]: one for one in told["tables"]}
    assert {"spool", "entries", "known_groups", "history"} <= tables.keys()
    assert sum(one["size_bytes"] for one in told["tables"]) == told["size_bytes"]
    assert told["purgeable"]["messages"] == 0
    assert "a purge would delete at most 0 messages" in call("box", "status").stdout
