"""Dialogs, from begin to end: what is sent is received once, in order, by the other side, in one transaction at a time."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.box.dialogs import clock
from seriatim.operations import invariants
from tests.box.shop import rows
from tests.dialogs.talking import begun, far_of, let_expire, states, taken

pytestmark = pytest.mark.telling


def test_a_wait_ends_after_some_of_the_timers_that_are_due(talk, monkeypatch):
    monkeypatch.setattr(clock, "_DIALOGS", 2)
    handles = [begun(talk) for _ in range(6)]
    with talk.session() as tx:
        for handle in handles:
            tx.set_timer(handle, 0)
    due = "SELECT count(*) AS n FROM {schema}.endpoints WHERE timer_at IS NOT NULL"
    left = []
    while not left or left[-1]:
        with talk.session() as tx:
            assert tx.receive("inventory", wait=1e-6) is None
        left.append(rows(talk, due)[0].n)
    assert left == [4, 2, 0]


def test_what_is_not_defined_yet_waits_in_the_transmission_queue(talk):
    with talk.session() as tx:
        handle = tx.begin_dialog("Orders", "Shipping", contract="AddItem")
        tx.send(handle, "AddItem", b"1")
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"2")
        tx.end(handle)
        (told,) = tx.connection.execute(f"SELECT waiting, transmission_status FROM {talk.schema}.dialogs").fetchall()
    assert told == (3, 'there is no service "Shipping"')
    talk.define(sq.Service("Shipping", queue="shipping"))
    with talk.session() as tx:
        (status,) = tx.connection.execute(f"SELECT transmission_status FROM {talk.schema}.dialogs").fetchone()
    assert status == 'the service "Shipping" doesn\'t accept the contract "AddItem"'
    talk.define(sq.Service("Shipping", queue="shipping", contracts=["AddItem"]))
    assert taken(talk, "shipping") == [("AddItem", b"1"), ("AddItem", b"2"), ("EndDialog", b"")]
    assert sorted(states(talk).values()) == ["DI", "DO"]
    assert invariants.broken(talk) == []


def test_what_waits_for_a_service_fails_with_the_lifetime(talk):
    with talk.session() as tx:
        handle = tx.begin_dialog("Orders", "Shipping", contract="AddItem", lifetime="1h")
        tx.send(handle, "AddItem", b"1")
    let_expire(talk, handle)
    with talk.session() as tx:
        assert [one.type for one in tx.receive("orders", wait=60)] == ["Error"]
    assert states(talk) == {handle: "ER"}


def test_cleaned_up_it_tells_nobody(talk):
    handle = begun(talk, b"1")
    message = far_of(talk, handle)
    with talk.session() as tx:
        tx.end(message, cleanup=True)
    assert states(talk) == {handle: "CO", message: "CD"}
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"2")
        (status,) = tx.connection.execute(
            f"SELECT transmission_status FROM {talk.schema}.dialogs WHERE handle = %s", [handle]
        ).fetchone()
        assert status == 'the dialog was cleaned up at the service "Inventory"'
        tx.end(handle)
    assert states(talk) == {handle: "CD", message: "CD"}
    assert taken(talk, "orders") == []


def test_a_monolog_goes_to_each_at_its_own_pace(talk):
    talk.define(
        sq.Service("Shipping", queue="shipping", contracts=["AddItem"]),
        sq.Service("Accounts", queue="shipping", contracts=["AddItem"]),
    )
    with talk.session() as tx:
        handle = tx.begin_monolog("Orders", ["Inventory", "Shipping", "Accounts", "Later"], contract="AddItem")
        tx.send(handle, "AddItem", b"1")
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"2")
        (message,) = tx.receive("shipping")
        with pytest.raises(sq.UsageError, match="a monolog"):
            tx.send(message.dialog.handle, "Note")
        tx.end(message.dialog.handle)
    with talk.session() as tx:
        tx.send(handle, "AddItem", b"3")
        tx.end(handle)
    everything = [("AddItem", b"1"), ("AddItem", b"2"), ("AddItem", b"3"), ("EndDialog", b"")]
    assert taken(talk, "inventory") == everything
    assert taken(talk, "shipping") == everything
    assert taken(talk, "shipping") == []
    assert states(talk)[handle] == "DO"
    talk.define(sq.Service("Later", queue="later", contracts=["AddItem"]))
    assert taken(talk, "later") == everything
    assert states(talk)[handle] == "CD"
    assert taken(talk, "orders") == []


def test_the_ends_in_one_queue(talk):
    talk.define(sq.Service("Self", queue="self", contracts=["DEFAULT"]))
    with talk.session() as tx:
        handle = tx.begin_dialog("Self", "Self")
        tx.send(handle, "DEFAULT", b"hello")
    with talk.session() as tx:
        (message,) = tx.receive("self")
        assert message.dialog.handle != handle
        tx.send(message.dialog.handle, "DEFAULT", b"hello back")
        tx.end(message.dialog.handle)
    assert taken(talk, "self") == [("DEFAULT", b"hello back"), ("EndDialog", b"")]
