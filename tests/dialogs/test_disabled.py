"""A box that an operator has disabled delivers nothing in dialogs and nothing over links; all of it waits, and goes on when it is enabled."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import seriatim as sq
from seriatim.cli.main import main
from seriatim.operations import dialogs, identity, links, operator_log
from seriatim.operations.doctor.box_checks import CHECKS
from tests.dialogs.far_boxes import exchange, received, two_boxes

pytestmark = pytest.mark.dear
BY = {"actor": "ann", "reason": "a new disk"}


@pytest.fixture
def boxes(databases):
    with two_boxes(databases) as both:
        exchange(both[0])
        yield both


def begun(north, *kinds, to="Seller"):
    with north.session() as tx:
        handle = tx.begin_dialog("Buyer", to, contract="PurchaseOrder")
        for kind in kinds:
            tx.send(handle, kind, kind.encode())
    return handle


def invoked(*words):
    result = CliRunner().invoke(main, list(words))
    assert result.exit_code == 0, result
    return result.stdout


def why(box, handle):
    (view,) = dialogs.dialogs(box, handle=handle)
    return view.waiting, view.transmission_status


def test_dialogs_within_the_box_wait_and_go_on_in_order(boxes):
    _, south = boxes
    south.define(sq.Service("Buyer", queue="bought"), sq.Queue("notes", policy=sq.Unordered()))
    handle = begun(south, "Header")
    assert identity.disable(south, **BY)
    assert not identity.disable(south, **BY)
    with south.session() as tx:  # in the dialog that has begun, by the fast path and by the other one
        tx.send(handle, "Line", b"1")
        tx.send_many([(handle, "Line", b"2"), (handle, "Footer", b"3")])
        tx.end(handle)
    other = begun(south, "Header")
    south.tick()
    assert received(south, "sales") == [("Header", 0, b"Header")]
    assert received(south, "sales") == []
    assert why(south, handle) == (4, "this box is disabled: seriatim box enable")
    assert why(south, other) == (1, "this box is disabled: seriatim box enable")
    south.publish(sq.Message(type="note", body=b"", context={"to": "notes"}))  # that goes on
    with south.session() as tx:
        assert len(list(tx.receive("notes"))) == 1
    incarnation = south.incarnation
    assert identity.enable(south, **BY)
    assert not identity.enable(south, **BY)
    assert sorted([received(south, "sales"), received(south, "sales")], key=len) == [
        [("Header", 0, b"Header")],
        [("Line", 1, b"1"), ("Line", 2, b"2"), ("Footer", 3, b"3"), ("EndDialog", 4, b"")],
    ]
    assert identity.identity(south).incarnation == incarnation
    assert [one.action for one in operator_log.operator_log(south)][:2] == ["enable box", "disable box"]


@pytest.mark.parametrize("which", ["north", "south"])
def test_nothing_goes_over_its_links_and_both_sides_say_so(boxes, which):
    north, south = boxes
    handle = begun(north, "Header")
    exchange(north)
    assert received(south, "sales") == [("Header", 0, b"Header")]
    (own,) = (one.handle for one in dialogs.dialogs(south))
    identity.disable({"north": north, "south": south}[which], **BY)
    for box, mine in ((north, handle), (south, own)):
        with box.session() as tx:
            tx.send(mine, "Note", b"1")
    for _ in range(3):
        links.transmit(north, at_once=True)
    for box in boxes:
        box.tick()
    assert received(south, "sales") == received(north, "bought") == []
    for box, mine in ((north, handle), (south, own)):
        waiting, status = why(box, mine)
        assert waiting == 1
        assert "disabled" in status
    identity.enable({"north": north, "south": south}[which], **BY)
    with south.session() as tx:  # It asks again half a minute after an answer "the box is disabled".
        tx.connection.execute(f"UPDATE {south.schema}.link_streams_out SET next_try_at = '-infinity'")
    exchange(north, 3)
    assert received(south, "sales") == [("Note", 1, b"1")]
    assert received(north, "bought") == [("Note", 0, b"1")]


def test_a_message_of_a_remote_queue_waits_too(boxes):
    north, south = boxes
    for one in boxes:
        one.define(sq.MessageType("order", properties={"customer": "string"}))
    south.define(sq.Queue("orders", group="customer"))
    (link,) = links.status(south)
    links.accept(south, "north", role=link.role, other=str(north.id), queues=["orders"], services=["Buyer"], **BY)
    north.define(sq.Queue("orders", at="south", group="customer"))
    identity.disable(north, **BY)
    north.publish(sq.Message(type="order", body=b"1", context={"to": "orders", "customer": "a"}))
    exchange(north)
    assert links.status(north)[0].waiting == 1
    identity.enable(north, **BY)
    exchange(north)
    with south.session() as tx:
        assert [one.body for one in tx.receive("orders")] == [b"1"]


def test_the_command_and_what_shows_it(boxes):
    _, south = boxes
    at = ("--dsn", south.dsn, "--schema", south.schema)
    told = ("--yes", "--actor", "ann", "--reason", "a new disk")
    assert "would disable box" in invoked("box", "disable", "--dry-run", *told, *at)
    assert identity.identity(south).enabled
    shown = json.loads(invoked("box", "disable", "--json", *told, *at))
    assert (shown["was_disabled"], shown["identity"]["enabled"], shown["identity"]["disabled_by"]) == (
        False,
        False,
        "ann",
    )
    for told_by in (invoked("box", "status", *at), CHECKS["identity"](south).found):
        assert "ann has disabled it at" in told_by
        assert "a new disk" in told_by
    assert CHECKS["identity"](south).state == "warning"
    assert "moved here" not in invoked("box", "status", *at)
    assert "there is nothing to do" in invoked("box", "disable", *told, *at)
    assert json.loads(invoked("box", "enable", "--json", *told, *at))["identity"]["enabled"]
    assert CHECKS["identity"](south).state == "ok"
