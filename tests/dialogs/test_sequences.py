"""The numbers of a side: what it sends next, and what comes next to it, also while that waits or the other side is gone."""

from __future__ import annotations

import psycopg

import seriatim as sq
from seriatim.operations import dialogs
from tests.dialogs.talking import begun, far_of, taken


def sequences(box, handle):
    (side,) = dialogs.dialogs(box, handle=handle)
    return side.send_sequence, side.receive_sequence


def send(box, handle, *bodies):
    with box.session() as tx:
        tx.send_many([(handle, "AddItem", body) for body in bodies])


def test_what_waits_to_be_delivered_has_not_come(talk):
    talk.define(sq.Queue("inventory", group="conversation_group", max_messages=2))
    handle = begun(talk, b"0", b"1")
    far = far_of(talk, handle)
    assert (sequences(talk, handle), sequences(talk, far)) == ((2, 0), (0, 2))
    send(talk, handle, b"2", b"3", b"4")
    assert (sequences(talk, handle), sequences(talk, far)) == ((5, 0), (0, 2))
    assert taken(talk, "inventory", limit=1) == [("AddItem", b"0")]
    assert taken(talk, "inventory", limit=1) == [("AddItem", b"1")]
    with talk.session() as tx:
        came = [one.dialog.sequence for one in tx.receive("inventory", limit=10)]
    assert sequences(talk, far) == (0, came[-1] + 1)
    with talk.session() as tx:
        tx.end(handle)
    sent, _ = sequences(talk, handle)
    while taken(talk, "inventory", limit=10):
        assert sequences(talk, far)[1] <= sent
    assert (sent, sequences(talk, far)) == (6, (0, 6))


def test_a_side_whose_other_side_is_gone_keeps_its_numbers(talk):
    handle = begun(talk, b"0", b"1", b"2")
    far = far_of(talk, handle)
    with talk.session() as tx:
        tx.end(handle, cleanup=True)
    with psycopg.connect(talk.dsn) as connection:
        connection.execute(f"DELETE FROM {talk.schema}.endpoints WHERE handle = %s", [handle])
    assert sequences(talk, far) == (0, 3)


def test_each_listener_of_a_monolog_has_a_number_of_its_own(talk):
    talk.define(
        sq.Queue("inventory", group="conversation_group", max_messages=1),
        sq.Service("Archive", queue="archive", contracts=["AddItem"]),
    )
    with talk.session() as tx:
        handle = tx.begin_monolog("Orders", ["Inventory", "Archive"], contract="AddItem")
        tx.send_many([(handle, "AddItem", b"0"), (handle, "AddItem", b"1")])
    send(talk, handle, b"2")
    numbers = {one.service: one.receive_sequence for one in dialogs.dialogs(talk) if not one.is_initiator}
    assert numbers == {"Inventory": 2, "Archive": 3}
    assert sequences(talk, handle) == (3, 0)
