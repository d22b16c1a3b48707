"""Workers on the queues of services: what their handlers do in dialogs is theirs alone, and dialogs that end are ended."""

from __future__ import annotations

import logging
import re
from dataclasses import replace

import pytest

import seriatim as sq
from seriatim.operations import edits, groups, invariants
from seriatim.testing.work import work_off
from tests.dialogs.talking import begun, far_of, states, taken
from tests.runtime.workers.test_worker import work


def nothing(message, tx):
    pass


def ended_by(box, handle, **options):
    """A dialog whose initiator ends it."""
    with box.session() as tx:
        tx.end(handle, **options)
    return far_of(box, handle)


def test_what_a_handler_sent_is_taken_back_when_it_fails(talk):
    handle = begun(talk, b"1")
    tried = []

    def fails_once(message, tx):
        tried.append(message.body)
        tx.send(message.dialog.handle, "ItemAdded", b"%d" % len(tried))
        if len(tried) == 1:
            raise sq.Transient("once", retry_after=0)

    work(talk, fails_once, queue="inventory")
    assert tried == [b"1", b"1"]
    assert taken(talk, "orders") == [("ItemAdded", b"2")]
    assert states(talk)[handle] == "CO"


@pytest.mark.parametrize(
    ("handlers", "options"),
    [({"AddItem": nothing}, {}), ({"*": nothing}, {}), (nothing, {}), (nothing, {"batch": True})],
    ids=["by type", "all others", "one", "batch"],
)
def test_a_side_whose_end_has_no_case_is_ended(talk, handlers, options, caplog):
    caplog.set_level(logging.WARNING, "seriatim.worker")
    handle = begun(talk, b"1", b"2")
    side = ended_by(talk, handle)
    work(talk, handlers, queue="inventory", **options)
    assert states(talk) == {handle: "CD", side: "CD"}
    assert caplog.messages == []
    assert invariants.broken(talk) == []


def test_what_handlers_return_leaves_in_order_where_the_worker_ends_the_dialog(talk):
    talk.define(sq.Queue("notes", policy=sq.Unordered()), sq.Subscription("notes", where="type = 'note'", to="notes"))
    handle = begun(talk, b"1", b"2", b"3", b"4")
    side = ended_by(talk, handle)

    def handler(message, tx):
        if message.body == b"3":
            list(tx.history(message.dialog.handle))
        return sq.Message(type="note", body=message.body or message.type.encode())

    work_off(talk, "inventory", handler)
    with talk.session() as tx:
        found = tx.connection.execute(
            f"SELECT body FROM {talk.schema}.messages WHERE type = 'note' ORDER BY number"
        ).fetchall()
    assert found == [(b"1",), (b"2",), (b"3",), (b"4",), (b"EndDialog",)]
    assert states(talk) == {handle: "CD", side: "CD"}
    assert invariants.broken(talk) == []


def test_an_error_that_has_no_case_is_ended_and_logged(talk, caplog):
    handle = begun(talk, b"1")
    side = ended_by(talk, handle, error=(7, "no credit"))
    work(talk, {"AddItem": nothing}, queue="inventory")
    assert states(talk) == {handle: "CD", side: "CD"}
    (told,) = [record for record in caplog.records if record.name == "seriatim.worker"]
    assert told.levelno == logging.WARNING
    assert f"the dialog {side} of 'Inventory' with 'Orders' has failed: 7, no credit" in told.getMessage()


def test_a_named_case_decides_by_itself(talk, caplog):
    seen = []
    handle, other = begun(talk, b"1"), begun(talk, b"1")
    side, failed = ended_by(talk, handle), ended_by(talk, other, error=(7, "no credit"))
    handlers = {"*": nothing, "EndDialog": lambda message, tx: seen.append(message.type), "Error": nothing}
    work(talk, handlers, queue="inventory")
    assert seen == ["EndDialog"]
    assert (states(talk)[side], states(talk)[failed]) == ("DI", "ER")
    (told,) = caplog.messages
    assert re.match(
        r"a receiver of queue 'inventory' completes the (EndDialog|Error) of a dialog and doesn't end its", told
    )


def test_who_ends_it_himself_does(talk, caplog):
    handle, other = begun(talk, b"1"), begun(talk, b"1")
    ended_by(talk, handle)
    ended_by(talk, other, error=(7, "no credit"))

    def ends(message, tx):
        if message.type in ("EndDialog", "Error"):
            tx.end(message.dialog.handle)

    work(talk, ends, queue="inventory")
    assert set(states(talk).values()) == {"CD"}
    assert caplog.messages == []


def test_a_type_without_a_handler_is_a_fault_as_ever(talk):
    begun(talk, b"1")
    with talk.session() as tx:
        (message,) = tx.receive("inventory", limit=1)
        tx.send(message.dialog.handle, "Note", b"?")
    work(talk, {"ItemAdded": nothing}, queue="orders", done=lambda: faults_of(talk))
    assert faults_of(talk) == [("business", "there is no handler for messages of type 'Note'")]


def faults_of(box):
    with box.session() as tx:
        return tx.connection.execute(f"SELECT kind, error FROM {box.schema}.faults").fetchall()


def test_a_message_of_a_dialog_is_edited_and_stays_in_its_dialog(talk):
    handle = begun(talk, b"1", b"2", b"3")
    seen = []

    def wants(message, tx):
        if message.body not in (b"one", b"two"):
            raise sq.Business("not in words")
        seen.append((message.body, message.dialog.conversation_id, dict(message.context)))

    why = {"actor": "ann", "reason": "in words"}
    work(talk, wants, queue="inventory", done=lambda: groups.stopped(talk))
    (stopped,) = groups.stopped(talk, "inventory")
    groups.retry(talk, "inventory", stopped.group, body=b"one", **why)
    work(talk, wants, queue="inventory", done=lambda: groups.stopped(talk))
    (one,) = edits.export(talk, state="faulted")
    assert (one.body, dict(one.context)) == (b"2", {})
    edited = replace(one, body=b"two", context={"note": "by hand"})
    (done,) = edits.retry(talk, edits.plan(talk, [edited]), **why)
    assert done.changed == ("body", "context.note")
    work(talk, wants, queue="inventory", done=lambda: groups.stopped(talk))
    (conversation,) = {each[1] for each in seen}
    assert seen == [(b"one", conversation, {}), (b"two", conversation, {"note": "by hand"})]
    assert states(talk)[handle] == "CO"
    assert invariants.broken(talk) == []
