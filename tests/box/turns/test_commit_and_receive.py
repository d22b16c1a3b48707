"""Going from one delivery to the next within a session: each is a transaction, and all is as in sessions of their own."""

from __future__ import annotations

import gc
import weakref

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import groups, invariants, queues
from tests.box.shop import define, left, publish, rows, see, seen

pytestmark = pytest.mark.dear

POLICIES = [sq.Fifo(), sq.Standard(), sq.Unordered(), sq.UnitOfWork(size=2)]


def in_sessions(box, limit):
    """What comes, each delivery in a session of its own."""
    while True:
        with box.session() as tx:
            if (delivery := tx.receive("shop", limit=limit)) is None:
                return
            yield [(delivery.group, one.context["version"], one.ordinal) for one in delivery]


def in_one(box, limit):
    """The same in one session."""
    with box.session() as tx:
        delivery = tx.receive("shop", limit=limit)
        while delivery is not None:
            yield [(delivery.group, one.context["version"], one.ordinal) for one in delivery.messages]
            delivery = tx.commit_and_receive(limit=limit)


@pytest.mark.parametrize("keep", ["nothing", "everything"])
@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: type(one).__name__)
def test_what_comes_is_what_sessions_of_their_own_would_get(box, policy, limit, keep):
    define(box, policy=policy, keep=keep, **({"group": None} if isinstance(policy, sq.Unordered) else {}))

    def fill():
        for number in (1, 2, 3, 4):
            for customer in ("a", "b", "c"):
                publish(box, number, customer=customer)

    fill()
    expected = list(in_sessions(box, limit))
    for group in () if isinstance(policy, sq.Unordered) else ("a", "b", "c"):
        groups.forget(box, "shop", group)
    fill()
    assert list(in_one(box, limit)) == expected
    assert expected
    assert left(box) == 0
    assert invariants.broken(box) == []
    kept = rows(box, "SELECT count(*) AS n FROM {schema}.history")[0].n
    assert kept == (2 * sum(map(len, expected)) if keep == "everything" else 0)


def test_what_was_written_before_is_committed_whatever_comes_after(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1, customer="a")
    publish(box, 2, customer="b")

    def fails_at_the_second():
        with box.session() as tx:
            see(box, tx.receive("shop").messages[0], tx)
            second = tx.commit_and_receive()
            assert second.group == "b"
            assert seen(box) == [("a", 1)]
            assert left(box) == 1
            see(box, second.messages[0], tx)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails_at_the_second()
    assert seen(box) == [("a", 1)]
    with box.session() as tx:
        assert tx.receive("shop").group == "b"


def test_a_delivery_that_was_done_already_counts_once(box):
    define(box, policy=sq.Fifo(), sequence=None, keep="everything")
    publish(box, 1, 2)
    with box.session() as tx:
        first = tx.receive("shop")
        first.done()
        second = tx.commit_and_receive()
        assert second.messages[0].context["version"] == 2
        assert tx.commit_and_receive() is None
        assert first.is_done
        assert second.is_done
    assert rows(box, "SELECT count(*) AS n FROM {schema}.history")[0].n == 2


def test_where_nothing_is_left_the_session_goes_on(box):
    define(box)
    publish(box, 1)
    with box.session() as tx:
        tx.receive("shop")
        assert tx.commit_and_receive() is None
        assert tx.delivery is None
        publish(box, 2)
        assert [one.sequence for one in tx.receive("shop")] == [2]
    assert left(box) == 0


def test_a_commit_that_fails_leaves_all_as_it_was(box):
    define(box, policy=sq.Fifo(), sequence=None)
    rows(box, "CREATE TABLE {schema}_bills (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
    publish(box, 1, customer="a")
    publish(box, 2, customer="b")

    def writes_twice():
        with box.session() as tx:
            tx.receive("shop")
            tx.connection.execute(f"INSERT INTO {box.schema}_bills VALUES (1), (1)")
            tx.commit_and_receive()

    with pytest.raises(sq.Unavailable, match="bills_n_key"):  # and not a turn that failed
        writes_twice()
    assert left(box) == 2
    with box.session() as tx:
        assert tx.receive("shop").group == "a"


def test_it_commits_nothing_within_a_block_of_the_driver(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1, customer="a")

    def goes_on():
        with box.session() as tx:
            tx.receive("shop")
            with tx.connection.transaction():
                tx.commit_and_receive()

    with pytest.raises(sq.SeriatimError, match="within a Transaction context"):
        goes_on()
    assert left(box) == 1


def test_a_queue_that_was_turned_off_meanwhile(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1, customer="a")
    publish(box, 2, customer="b")

    def goes_on():
        with box.session() as tx:
            tx.receive("shop")
            with sq.MessageBox.open(box.dsn, schema=box.schema) as another:
                queues.turn_off(another, "shop")
            tx.commit_and_receive()

    with pytest.raises(sq.ActionRefused, match="the queue is off"):
        goes_on()
    assert left(box) == 1


@pytest.mark.parametrize("key", ["it's", 'a "b"', "back\\slash", "%s %(n)s %%", "{}", "; COMMIT; --", "öß 語", " "])
def test_keys_are_values_whatever_is_in_them(box, key):
    define(box, policy=sq.Fifo(), sequence=None, keep="everything")
    publish(box, 1, 2, customer=key)
    assert list(in_one(box, 1)) == [[(key, 1, 1)], [(key, 2, 2)]]
    assert [one.group_key for one in rows(box, "SELECT group_key FROM {schema}.history")] == [key, key]


@pytest.mark.parametrize("style", ["German, DMY", "SQL, MDY", "ISO, DMY"])
def test_all_of_a_message_comes_whatever_the_form_of_dates(box, style):
    define(box, policy=sq.Fifo(), sequence=None)
    body = bytes(range(256)) * 8192
    box.publish([sq.Message(type="order", body=body, context={"customer": "c1"}) for _ in range(2)])
    dsn = psycopg.conninfo.make_conninfo(box.dsn, options=f"-c DateStyle={style.replace(' ', '')}")
    with sq.MessageBox.open(dsn, schema=box.schema) as styled, styled.session() as tx:
        first = tx.receive("shop").messages[0]
        second = tx.commit_and_receive().messages[0]
    assert second.body == first.body == body
    assert second.received_at == first.received_at
    assert second.ticket.number == first.ticket.number + 1


def test_it_is_one_round_trip(box, monkeypatch):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, *range(1, 11))
    with box.session() as tx:
        tx.receive("shop")
        tx.commit_and_receive()  # judges what comes next
        trips = []
        wait = psycopg.Connection.wait
        monkeypatch.setattr(psycopg.Connection, "wait", lambda self, *a, **k: trips.append(1) or wait(self, *a, **k))
        for version in range(3, 8):
            assert tx.commit_and_receive().messages[0].context["version"] == version
        monkeypatch.undo()
    assert len(trips) == 5


def test_refused(box):
    define(box)
    publish(box, 1)
    with box.session() as tx, pytest.raises(sq.UsageError, match="commit_and_receive needs a delivery"):
        tx.commit_and_receive()
    with psycopg.connect(box.dsn) as connection, box.session(connection) as tx:
        tx.receive("shop")
        with pytest.raises(sq.UsageError, match="commit_and_receive needs a delivery"):
            tx.commit_and_receive()
    with box.session() as tx:
        tx.receive("shop")
        with pytest.raises(sq.UsageError, match="cannot receive"):
            tx.commit_and_receive(limit=0)


@pytest.mark.parametrize("policy", POLICIES, ids=lambda one: type(one).__name__)
def test_a_delivery_is_freed_when_nobody_has_it_any_more(box, policy):
    """Its bodies may be large, and the collector of cycles takes longer the more a process has."""
    define(box, policy=policy, **({"group": None} if isinstance(policy, sq.Unordered) else {}))
    for customer in ("a", "b", "c"):
        for number in (1, 2):
            publish(box, number, customer=customer)
    gc.disable()
    try:
        with box.session() as tx:
            first = weakref.ref(tx.receive("shop"))
            assert first() is not None
            assert tx.commit_and_receive() is not None
            assert first() is None
        with box.sessions() as sessions:
            last, session = weakref.ref(sessions.session.receive("shop")), weakref.ref(sessions.session)
            assert last() is not None
            sessions.next(limit=1)
            assert (last(), session()) == (None, None)
    finally:
        gc.enable()
