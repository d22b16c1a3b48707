"""What an application executes on a connection neither loses what was received on it nor has it done twice.

On a connection of the box's own it is refused where the box would not see it; in a transaction of an application's what has
become of it is found.
"""

from __future__ import annotations

from contextlib import suppress

import psycopg
import pytest
from psycopg import sql

import seriatim as sq
from tests.box.turns.test_delivery_ends import Failed, left, seen

pytestmark = pytest.mark.dear

POLICIES = {"fifo": sq.Fifo(), "standard": sq.Standard(), "unordered": sq.Unordered(), "kept": sq.Fifo()}


@pytest.fixture(params=list(POLICIES))
def queued(box, request):
    """A box with three messages in one group; the first two of them were released together before."""
    policy = POLICIES[request.param]
    box.define(
        sq.MessageType("order", properties={"customer": "string", "version": "long"}),
        sq.Queue(
            "q", policy=policy, group=None if request.param == "unordered" else "customer",
            sequence="version" if request.param == "standard" else None,
            keep="everything" if request.param == "kept" else "nothing",
        ),
        sq.Subscription("all", where="type = 'order'", to="q"),
    )  # fmt: skip
    box.publish([sq.Message(type="order", context={"customer": "c", "version": n}) for n in (1, 2, 3)])
    return box


def versions(found):
    """What is left, by its versions; without ordinals, which a queue without order doesn't have."""
    return sorted(version for version, _ in found)


REFUSED = [
    "COMMIT", "END", "ROLLBACK", "ABORT", "ROLLBACK TO before", "ROLLBACK TO SAVEPOINT before", "COMMIT AND CHAIN",
    "START TRANSACTION", "PREPARE TRANSACTION 'x'", "/* a */ -- b\n ROLLBACK", "SELECT 1; COMMIT; BEGIN",
    b"COMMIT", sql.SQL("{}").format(sql.SQL("ROLLBACK; BEGIN")),
]  # fmt: skip


def ways_to_execute(connection, statement):
    """Every way of the driver to send a statement on a connection, one after another."""
    yield lambda: connection.execute(statement)
    yield lambda: connection.cursor().execute(statement)
    yield lambda: connection.cursor().executemany(statement, [()])
    yield lambda: list(connection.cursor().stream(statement))
    yield lambda: connection.cursor().copy(statement).__enter__()
    with connection.cursor("named") as named:
        yield lambda: named.execute(statement)
    connection.cursor_factory = psycopg.ClientCursor
    yield lambda: connection.execute(statement)
    with connection.pipeline():
        yield lambda: connection.execute(statement)


@pytest.mark.parametrize("ends", ["not yet", "done"])
def test_statements_that_end_the_transaction_are_refused(queued, ends):
    with queued.session() as tx:
        tx.connection.execute("SAVEPOINT before")
        tx.connection.execute("SELECT 'nothing was received: all of this is the application''s'; ROLLBACK TO before")
        delivery = tx.receive("q")
        if ends == "done":
            delivery.done()
        for statement in REFUSED:
            for execute in ways_to_execute(tx.connection, statement):
                with pytest.raises(sq.UsageError, match="can't be ended, or taken back, by a statement"):
                    execute()
        tx.connection.execute("SELECT 'COMMIT'; SAVEPOINT behind; RELEASE behind")
        delivery.done()
    assert versions(left(queued)) == [2, 3]


def test_a_session_commits_at_its_end_only(queued):
    with queued.session() as tx:
        for change in (
            lambda: setattr(tx.connection, "autocommit", True),
            lambda: tx.connection.set_autocommit(True),
            lambda: tx.connection.tpc_begin("x"),
        ):
            with pytest.raises(sq.UsageError):
                change()
        with queued.session() as other:
            delivery, elsewhere = tx.receive("q"), other.receive("q")
            assert elsewhere is None or seen(elsewhere) != seen(delivery)
            delivery.done()
    assert len(left(queued)) == 2


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
def test_a_cursor_that_was_made_by_hand(queued, statement):
    """It isn't seen; what was received is found to be no more in hand, and put back where that is needed."""
    with queued.session() as tx:
        delivery = tx.receive("q")
        psycopg.ClientCursor(tx.connection).execute(statement)
        with pytest.raises(sq.UsageError, match="a statement has ended its transaction"):
            delivery.done()
    assert versions(left(queued)) == [1, 2, 3]


@pytest.mark.dear
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("how", ["ROLLBACK", "ROLLBACK TO before", "COMMIT", "COMMIT; BEGIN", "prepared"])
def test_what_an_application_ends_unseen_is_found(queued, how, begun):
    """As statements on a connection of its own, with a message that was released before or that is judged now."""
    if begun:
        with queued.session() as tx:
            tx.receive("q", limit=2).put_back()
    with psycopg.connect(queued.dsn) as connection:
        connection.execute("SAVEPOINT before")
        with suppress(sq.UsageError), queued.session(connection=connection) as tx:
            delivery = tx.receive("q")
            if how == "prepared":
                with suppress(
                    psycopg.Error
                ):  # where the server has no room for prepared transactions it is rolled back
                    connection.execute("PREPARE TRANSACTION 'x'")
            else:
                connection.execute(how)
            with pytest.raises(sq.UsageError, match="cannot complete the delivery"):
                delivery.done()
            raise sq.UsageError("as from done")
        connection.rollback()
    assert versions(left(queued)) == [1, 2, 3]


@pytest.mark.parametrize("begun", [False, True])
def test_what_somebody_else_has_done_meanwhile_is_not_done_twice(queued, begun):
    if begun:
        with queued.session() as tx:
            tx.receive("q", limit=2).put_back()
    with psycopg.connect(queued.dsn) as connection, queued.session(connection=connection) as tx:
        delivery = tx.receive("q")
        connection.execute("ROLLBACK")
        with queued.session() as other:
            assert seen(other.receive("q", limit=1)) == seen(delivery)
            other.delivery.done()
        connection.execute("CREATE TABLE pg_temp.worked_on (version int)")
        with pytest.raises(sq.UsageError, match="rolled back"):
            delivery.done()
    assert versions(left(queued)) == [2, 3]


@pytest.mark.parametrize("how", ["done", "done_through", "put_back"])
def test_an_end_that_an_application_rolls_back_by_a_statement(queued, how):
    with psycopg.connect(queued.dsn) as connection:
        with queued.session(connection=connection) as tx:
            delivery = tx.receive("q", limit=2)
            connection.execute("SAVEPOINT behind")
            delivery.done_through(1) if how == "done_through" else getattr(delivery, how)()
            connection.execute("ROLLBACK TO behind")
        connection.commit()
    assert versions(left(queued)) == [1, 2, 3]


def test_an_application_that_commits_within_the_session(queued):
    """What it has committed without ending it is put back, whatever becomes of its next transaction."""
    with psycopg.connect(queued.dsn) as connection:
        with suppress(Failed), queued.session(connection=connection) as tx:
            tx.receive("q")
            connection.commit()
            raise Failed
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        with queued.session(connection=connection) as tx:
            assert versions(seen(tx.receive("q"))) == [1]
            connection.commit()
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert versions(left(queued)) == [1, 2, 3]


@pytest.mark.parametrize("whose", ["application", "box"])
def test_two_sessions_on_one_connection_never_get_the_same_message(queued, whose):
    with (
        psycopg.connect(queued.dsn) as connection,
        queued.session(connection=connection) if whose == "application" else queued.session() as first,
    ):
        with queued.session(connection=first.connection) as second:
            delivery = first.receive("q")
            with pytest.raises(sq.UsageError, match="another session on this connection has a delivery"):
                second.receive("q")
            assert delivery.is_open
            delivery.done()
            assert second.delivery is None
            assert versions(seen(second.receive("q"))) == [2]
            with pytest.raises(sq.UsageError, match="another session on this connection has a delivery"):
                first.receive("q")
        assert versions(seen(first.receive("q"))) == [2]
        first.delivery.done()
    assert versions(left(queued)) == [3]


def test_a_session_that_was_left_open_on_a_connection_keeps_nobody_out(queued):
    with psycopg.connect(queued.dsn) as connection:
        forgotten = queued.session(connection=connection)
        forgotten.__enter__().receive("q")
        connection.rollback()
        with queued.session(connection=connection) as tx:
            assert versions(seen(tx.receive("q"))) == [1]
            tx.delivery.done()
        connection.commit()
    assert versions(left(queued)) == [2, 3]
