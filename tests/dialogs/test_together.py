"""Several sessions at once: who waits for whom, and who doesn't."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import invariants
from tests.dialogs.talking import begun, far_of, states, taken


def impatient(box):
    """A session of a connection that waits for no lock."""
    return psycopg.connect(box.dsn, options="-c lock_timeout=100")


def test_both_sides_send_at_once_and_sending_waits_for_no_receiver(talk):
    handle = begun(talk, b"1")
    with talk.session() as tx:
        (message,) = tx.receive("inventory")
        tx.send(message.dialog.handle, "Note", b"a")  # not committed: the receiver has its group, and its row
        with impatient(talk) as other, talk.session(other) as sender:
            sender.send(handle, "AddItem", b"2")
    assert taken(talk, "inventory") == [("AddItem", b"2")]
    assert taken(talk, "orders") == [("Note", b"a")]


def test_who_sends_in_a_group_waits_for_who_has_it(talk):
    handle = begun(talk, b"1")
    far = far_of(talk, handle)
    with talk.session() as tx:
        tx.receive("inventory")
        with impatient(talk) as other, talk.session(other) as sender:
            with pytest.raises(sq.Unavailable):
                sender.send(far, "Note", b"b")
            other.rollback()
    assert taken(talk, "inventory") == [("AddItem", b"1")]


def test_an_end_waits_for_who_sends_and_takes_what_was_sent(talk):
    handle = begun(talk, b"1")
    far = far_of(talk, handle)
    sent, ending = threading.Event(), threading.Event()

    def send():
        with talk.session() as tx:
            tx.send(handle, "AddItem", b"2")
            sent.set()
            assert ending.wait(120)
            waits_for_a_lock(talk)

    def end():
        assert sent.wait(120)
        with talk.session() as tx:
            ending.set()
            tx.end(far)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(send), threads.submit(end)]:
            done.result(120)
    assert taken(talk, "inventory") == []
    with talk.session() as tx, pytest.raises(sq.ActionRefused, match="the other side has ended"):
        tx.send(handle, "AddItem", b"3")


def waits_for_a_lock(box):
    """Until another process of the server waits for a lock of this one."""
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        while not connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0]:
            pass


def test_both_sides_end_at_once(talk):
    handles = [begun(talk, b"1") for _ in range(10)]
    pairs = [(one, far_of(talk, one)) for one in handles]
    both = threading.Barrier(2)

    def end(which):
        for pair in pairs:
            both.wait(120)
            with talk.session() as tx:
                tx.end(pair[which])

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(end, which) for which in range(2)]:
            done.result(120)
    assert set(states(talk).values()) == {"CD"}
    assert invariants.broken(talk) == []


def test_many_senders_of_one_dialog_leave_no_gap_and_no_repetition(talk):
    handle = begun(talk)

    def send(number):
        for each in range(10):
            with talk.session() as tx:
                tx.send_many([(handle, "AddItem", b"%d.%d" % (number, each))] * 2)

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(send, number) for number in range(4)]:
            done.result(120)
    with talk.session() as tx:
        found = list(tx.receive("inventory", limit=1000))
    assert [one.dialog.sequence for one in found] == list(range(80))
    for number in range(4):
        mine = [one.body for one in found if one.body.startswith(b"%d." % number)]
        assert mine == [b"%d.%d" % (number, each) for each in range(10) for _ in range(2)]


def test_a_definition_waits_for_who_sends_to_what_is_not_there_yet(talk):
    with talk.session() as tx:
        tx.send(tx.begin_dialog("Orders", "Later", contract="AddItem"), "AddItem", b"1")
        with ThreadPoolExecutor(1) as threads:
            defined = threads.submit(talk.define, sq.Service("Later", queue="later", contracts=["AddItem"]))
            waits_for_a_lock(talk)
            tx.connection.commit()
            defined.result(120)
    assert taken(talk, "later") == [("AddItem", b"1")]


def test_priority_goes_first_and_nobody_starves(talk):
    low = begun(talk, b"low", priority=1)
    high = begun(talk, b"high", priority=10)
    assert low != high
    assert [taken(talk, "inventory") for _ in range(2)] == [[("AddItem", b"high")], [("AddItem", b"low")]]
    begun(talk, b"old", priority=1)
    with talk.session() as tx:
        tx.connection.execute(f"UPDATE {talk.schema}.entries SET rank = rank - 91000000")  # it has waited 91 s
    begun(talk, b"new", priority=10)
    assert [taken(talk, "inventory") for _ in range(2)] == [[("AddItem", b"old")], [("AddItem", b"new")]]


def test_who_waits_looks_again_when_a_dialog_is_due_and_not_before(talk):
    queue_id = talk.definitions().queues["orders"].queue_id

    def due():
        with talk.session() as tx:
            return tx.connection.execute(f"SELECT {talk.schema}.next_due(%s)", [queue_id]).fetchone()[0]

    handle = begun(talk)
    assert due() is None
    with talk.session() as tx:
        tx.set_timer(handle, 100)
    assert 90 < due() <= 100
    with talk.session() as tx:
        tx.set_timer(handle, 0)
    assert due() == 0.05  # as long as somebody has it
