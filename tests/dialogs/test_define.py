"""Contracts and services: defined, applied from a file, listed, changed as far as they may be."""

from __future__ import annotations

import json

import psycopg
import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations import dialogs
from seriatim.operations.grants import grant
from tests.dialogs.talking import begun, far_of, let_expire, taken

FILE = """
types:
  Line: {validation: well_formed_json}
contracts:
  Purchase: {Header: initiator, Line: any, Accepted: target}
services:
  Shop: {queue: shop, retention: true}
  Supplier: {queue: supplier, contracts: [Purchase, DEFAULT]}
"""


def test_the_interface_of_the_design(box):
    changes = box.define(
        sq.Contract("AddItem", {"AddItem": "initiator", "ItemAdded": "target"}),
        sq.Service("Inventory", queue="inventory", contracts=["AddItem"]),
        sq.Service("Orders", queue="orders"),
    )
    assert sorted(map(str, changes)) == [
        "added contract AddItem", "added queue inventory", "added queue orders", "added service Inventory",
        "added service Orders",
    ]  # fmt: skip
    assert box.define(*box.definitions().contracts.values(), *box.definitions().services.values()) == []
    with box.session() as tx:
        handle = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
        tx.send(handle, "AddItem", b"...")
        tx.end(handle)
    assert taken(box, "inventory") == [("AddItem", b"..."), ("EndDialog", b"")]


def test_a_queue_of_its_own_with_another_group(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("mixed", policy=sq.Fifo(), group="customer"),
        sq.Subscription("orders", where="type = 'order'", to="mixed"),
        sq.Service("Mixed", queue="mixed", contracts=["DEFAULT"]),
    )
    with box.session() as tx:
        tx.publish(sq.Message(type="order", context={"customer": "c1"}))
        tx.send(tx.begin_dialog("Mixed", "Mixed"), "DEFAULT", b"1")
    with box.session() as tx:
        found = [message for _ in range(2) for message in tx.receive("mixed")]
    assert sorted((one.type, one.dialog is None) for one in found) == [("DEFAULT", False), ("order", True)]


def test_a_service_changes(talk):
    talk.define(sq.Contract("Other", {"Other": "any"}))
    assert [
        str(one) for one in talk.define(sq.Service("Inventory", queue="inventory", contracts=["AddItem", "Other"]))
    ] == ["changed service Inventory: contracts"]
    begun(talk, b"1")
    with pytest.raises(sq.ActionRefused, match="have another queue: it has 1 dialog"):
        talk.define(sq.Service("Inventory", queue="elsewhere", contracts=["AddItem"]))
    assert [str(one) for one in talk.define(sq.Service("New", queue="inventory"), sq.Service("New2", queue="new"))] == [
        "added queue new", "added service New", "added service New2"
    ]  # fmt: skip
    assert "changed service New2: queue" in map(str, talk.define(sq.Service("New2", queue="newer")))


def test_from_a_file(box, tmp_path):
    file = tmp_path / "box.yaml"
    file.write_text(FILE)
    assert {str(one) for one in box.apply(file)} == {
        "added type Line", "added contract Purchase", "added queue shop", "added queue supplier", "added service Shop",
        "added service Supplier",
    }  # fmt: skip
    assert box.apply(file) == box.apply(file, prune=True) == []
    file.write_text(FILE.replace("[Purchase, DEFAULT]", "[Purchas]"))
    with pytest.raises(sq.DeclarationError, match=r"there is no contract 'Purchas'.*did you mean 'Purchase'"):
        box.apply(file)
    file.write_text("services:\n  Shop: {queue: shop, retention: true}\n")
    assert {str(one) for one in box.apply(file, prune=True)} == {
        "dropped service Supplier", "dropped contract Purchase", "dropped queue supplier", "dropped type Line"
    }  # fmt: skip


def test_the_commands(talk):
    where = ["--dsn", talk.dsn, "--schema", talk.schema]

    def call(*words, code=0):
        result = CliRunner().invoke(main, [*words, *where])
        assert result.exit_code == code, result.output
        return result.stdout if code == 0 else result.stderr

    def told(*words):
        return json.loads(call(*words, "--json"))

    assert told("contracts")[0] == {
        "contract": "AddItem", "types": {"AddItem": "initiator", "ItemAdded": "target", "Note": "any"}
    }  # fmt: skip
    assert "  AddItem: initiator" in call("contracts").splitlines()
    assert told("services") == [
        {"service": "Inventory", "queue": "inventory", "contracts": ["AddItem"], "retention": False, "at": []},
        {"service": "Orders", "queue": "orders", "contracts": [], "retention": False, "at": []},
    ]
    assert "inventory" in call("services")
    assert told("dialogs", "list") == []
    handle, failed = begun(talk, b"1", b"2"), begun(talk, b"3")
    with talk.session() as tx:
        tx.end(failed, error=(7, "no"))
    listed = {one["handle"]: one for one in told("dialogs", "list")}
    assert {one["state"] for one in listed.values()} == {"CO", "SI", "DO", "ER"}
    own = listed[str(handle)]
    assert (own["send_sequence"], own["receive_sequence"], own["unread"]) == (2, 0, 0)
    far = listed[str(far_of(talk, handle))]
    assert (far["send_sequence"], far["receive_sequence"], far["unread"]) == (0, 2, 2)
    assert "started inbound" in call("dialogs", "list", "--service", "Inventory")
    assert told("dialogs", "show", str(handle)) == own
    assert "service: Orders" in call("dialogs", "show", str(handle))
    assert "no dialog" in call("dialogs", "show", str(dialogs.dialogs(talk)[0].conversation_id), code=2)
    (dry,) = told("dialogs", "cleanup", "--older-than", "0s", "--dry-run")
    assert (dry["state_name"], dry["error_code"], dry["error"]) == ("error", 7, "no")
    assert "1 dialog would be cleaned up" in call("dialogs", "cleanup", "--older-than", "0s", "--dry-run")
    assert "1 dialog cleaned up" in call("dialogs", "cleanup", "--older-than", "0s")
    assert told("dialogs", "list", "--state", "error") == []
    assert "--error-code" in call("dialogs", "end", str(handle), "--error-text", "no more", code=2)
    assert told("dialogs", "show", str(handle))["state"] == "CO"
    assert call("dialogs", "end", str(handle), "--error-code", "9") == f"the dialog {handle} is disconnected outbound\n"
    ((kind, body),) = taken(talk, "inventory", limit=1)
    assert (kind, json.loads(body)) == ("Error", {"code": 9, "text": "ended by an operator"})
    assert told("dialogs", "end", far["handle"], "--cleanup")["state"] == "CD"


def test_tick_does_what_time_does(talk):
    first, second, third = begun(talk), begun(talk, b"1"), begun(talk)
    with talk.session() as tx:
        tx.set_timer(first, 0)
        tx.end(third)
        tx.connection.execute(
            f"UPDATE {talk.schema}.endpoints SET closed_at = now() - interval '31 min' WHERE state = 'CD'"
        )
    let_expire(talk, second)
    assert talk.tick().dialogs == 2
    assert talk.tick().dialogs == 0
    assert {one.handle for one in dialogs.dialogs(talk)} == {first, second, far_of(talk, second)}
    assert {kind for kind, _ in taken(talk, "orders") + taken(talk, "orders")} == {"Error", "Timer"}


def test_roles(talk):
    name = f"{talk.schema}_talker"
    with psycopg.connect(talk.dsn) as owner:
        owner.execute(f"CREATE ROLE {name} LOGIN")
    grant(talk, name, receive=["orders"])
    other = begun(talk, b"1")
    with talk.session() as tx:
        (message,) = tx.receive("inventory")
        tx.send(message.dialog.handle, "Note", b"2")
    theirs = message.dialog.handle
    try:
        with sq.MessageBox.open(talk.dsn.replace("seriatim@", f"{name}@"), schema=talk.schema) as box:
            with box.session() as tx:
                handle = tx.begin_dialog("Orders", "Inventory", contract="AddItem")
            for wrong, why in (
                (
                    lambda tx: tx.send(handle, "AddItem"),
                    'may not publish to any queue|publish to the queue "inventory"',
                ),
                (lambda tx: tx.send(theirs, "Note"), 'receive from the queue "inventory"'),
                (lambda tx: tx.end(theirs), 'receive from the queue "inventory"'),
                (lambda tx: tx.move(theirs, theirs), 'receive from the queue "inventory"'),
                (lambda tx: tx.set_timer(theirs, 1), 'receive from the queue "inventory"'),
                (lambda tx: tx.history(theirs), 'receive from the queue "inventory"'),
                (lambda tx: tx.receive("inventory"), 'receive from the queue "inventory"'),
                (lambda tx: tx.begin_dialog("Inventory", "Orders"), 'receive from the queue "inventory"'),
            ):
                with pytest.raises(sq.EnvironmentProblem, match=why), box.session() as tx:
                    wrong(tx)
            grant(talk, name, publish=["inventory"])
            with box.session() as tx:
                tx.send(handle, "AddItem", b"3")
                assert [one.body for one in tx.receive("orders", dialog=other)] == [b"2"]
    finally:
        with psycopg.connect(talk.dsn, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {talk.schema} CASCADE")
            connection.execute(f"DROP OWNED BY {name}; DROP ROLE {name}")
