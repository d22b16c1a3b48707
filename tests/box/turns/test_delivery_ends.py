"""What was received ends in its transaction, whatever an application does to that: done, put back, or rolled back."""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest
from psycopg.rows import dict_row

import seriatim as sq
from seriatim.operations import invariants

pytestmark = pytest.mark.dear


class Failed(Exception):
    """An application's."""


@pytest.fixture(params=["fifo", "standard", "kept"])
def queued(box, request):
    """A box with three messages in one group."""
    policy = sq.Standard() if request.param == "standard" else sq.Fifo()
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue(
            "q", policy=policy, group="customer", sequence="version" if request.param == "standard" else None,
            keep="everything" if request.param == "kept" else "nothing",
        ),
        sq.Subscription("all", where="type = 'order'", to="q"),
    )  # fmt: skip
    box.publish([sq.Message(type="order", context={"customer": "c", "version": n}) for n in (1, 2, 3)])
    return box


def seen(delivery):
    return [] if delivery is None else [(one.context["version"], one.ordinal) for one in delivery.messages]


def left(box):
    """The versions and ordinals that are received one after another, until there are none."""
    found = []
    while True:
        with box.session() as tx:
            delivery = tx.receive("q")
            if delivery is None:
                assert invariants.broken(box) == []
                return found
            found += seen(delivery)
            delivery.done()


ALL = [(1, 1), (2, 2), (3, 3)]


def test_what_was_put_back_is_not_done_by_going_on(queued):
    with queued.session() as tx:
        tx.receive("q").put_back()
        delivery = tx.commit_and_receive()
        assert seen(delivery) == [(1, 1)]
        delivery.put_back()
    assert left(queued) == ALL


def test_what_is_left_of_a_delivery_is_received_next_by_going_on(queued):
    with queued.session() as tx:
        tx.receive("q", limit=3).done_through(1)
        delivery = tx.commit_and_receive(limit=3)
        assert seen(delivery) == [(2, 2), (3, 3)]
        delivery.done()
    assert left(queued) == []


def test_what_was_put_back_cannot_be_done(queued):
    with queued.session() as tx:
        first = tx.receive("q")
        tx.receive("q").put_back()
        with pytest.raises(sq.UsageError, match="put back"):
            first.done()
    with pytest.raises(sq.UsageError, match="put back"):
        list(first)
    assert left(queued) == ALL


def test_an_error_in_a_joined_session_puts_back_for_a_caller_who_commits(queued):
    with psycopg.connect(queued.dsn) as connection:
        with suppress(Failed), queued.session(connection=connection) as tx:
            tx.receive("q")
            raise Failed
        connection.commit()
    assert left(queued) == ALL


@pytest.mark.parametrize("where", ["behind a savepoint", "before a savepoint", "with what it did"])
def test_a_joined_session_and_a_savepoint_that_is_rolled_back(queued, where):
    with psycopg.connect(queued.dsn) as connection, queued.session(connection=connection) as tx:
        connection.execute("SELECT 1")
        if where == "before a savepoint":
            tx.receive("q")
        with suppress(Failed), connection.transaction():
            if where == "behind a savepoint":
                tx.receive("q")
            if where == "with what it did":
                tx.receive("q").done()
            raise Failed
    assert left(queued) == ALL


def test_what_an_application_has_rolled_back_cannot_be_done(queued):
    with psycopg.connect(queued.dsn) as connection, queued.session(connection=connection) as tx:
        delivery = tx.receive("q")
        connection.rollback()
        with pytest.raises(sq.UsageError, match="rolled back"):
            delivery.done()
        with connection.transaction():
            with suppress(Failed), connection.transaction():
                delivery = tx.receive("q")
                raise Failed
            with pytest.raises(sq.UsageError, match="rolled back"):
                delivery.done()
    assert left(queued) == ALL


def test_nothing_is_committed_while_something_is_in_hand(queued):
    with queued.session() as tx:
        delivery = tx.receive("q")
        with pytest.raises(sq.UsageError, match="neither done nor put back"):
            tx.connection.commit()
        delivery.done()
        tx.connection.commit()
        with pytest.raises(sq.UsageError, match="neither done nor put back"), tx.connection.transaction():
            lost = tx.receive("q")
        with pytest.raises(sq.UsageError, match="rolled back"):
            lost.done()
    assert left(queued) == ALL[1:]


def test_a_transaction_of_the_driver_that_is_rolled_back_takes_along_what_was_received(queued):
    with queued.session() as tx:
        with suppress(Failed), tx.connection.transaction():
            tx.receive("q")
            raise Failed
        assert tx.delivery is None
        with tx.connection.transaction(force_rollback=True):
            tx.receive("q").done()
    assert left(queued) == ALL


@pytest.mark.parametrize("ends", ["nothing", "done", "another"])
def test_a_savepoint_that_is_rolled_back_leaves_in_hand_what_was_before(queued, ends):
    queued.publish(sq.Message(type="order", context={"customer": "d", "version": 1}))
    with queued.session() as tx:
        delivery = tx.receive("q", group="c")
        with suppress(Failed), tx.connection.transaction():
            if ends == "done":
                delivery.done()
            if ends == "another":
                tx.receive("q", group="d")
            raise Failed
        assert tx.delivery is delivery
        assert delivery.is_open
        delivery.done()
    assert sorted(left(queued)) == sorted([*ALL[1:], (1, 1)])


@pytest.mark.parametrize("ends", ["nothing", "done", "another"])
def test_what_was_in_hand_before_a_savepoint_is_put_back_at_the_end(queued, ends):
    with queued.session() as tx:
        delivery = tx.receive("q")
        with suppress(Failed), tx.connection.transaction():
            if ends == "done":
                delivery.done()
            if ends == "another":
                tx.receive("q")
            raise Failed
    assert left(queued) == ALL


def test_a_savepoint_of_ones_own_that_is_rolled_back_around_a_receive(queued):
    with queued.session() as tx:
        tx.connection.execute("SELECT 1")
        with suppress(Failed), tx.connection.transaction():
            tx.receive("q")
            raise Failed
    assert left(queued) == ALL


def test_what_was_rolled_back_cannot_be_done(queued):
    with queued.session() as tx:
        delivery = tx.receive("q")
        tx.connection.rollback()
        with pytest.raises(sq.UsageError, match="rolled back"):
            delivery.done()
        with pytest.raises(sq.UsageError, match="commit_and_receive needs a delivery"):
            tx.commit_and_receive()
    assert left(queued) == ALL


def test_what_one_session_sets_on_its_connection_is_not_the_next_ones(queued):
    with queued.session() as tx:
        with pytest.raises(sq.UsageError, match="a session is one transaction"):
            tx.connection.autocommit = True
        tx.connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        tx.connection.read_only = True
        tx.connection.row_factory = dict_row
        tx.connection.cursor_factory = psycopg.ClientCursor
        kept = tx.connection
    with suppress(Failed), queued.session() as tx:
        assert tx.connection is kept
        tx.publish(sq.Message(type="order", context={"customer": "c", "version": 4}))
        tx.receive("q").done()
        raise Failed
    assert left(queued) == ALL
