"""A statement, the commit and another transaction's first statement, sent at once on a real connection."""

from __future__ import annotations

import gc
import itertools
import select
import weakref

import psycopg
import pytest
from psycopg.pq import TransactionStatus

import seriatim as sq
from seriatim.box.connection.round_trip import (
    NotCommitted,
    OwnConnection,
    begin_with,
    can_flush,
    commit_alone,
    commit_between,
    commit_with,
    is_unbegun,
    transact,
)
from seriatim.box.connection.settings import set_for_transactions
from tests.box.shop import define, left, publish, see, seen

WRITE = b"INSERT INTO pg_temp.done (n) VALUES (%(n)s)"
#: A literal %, a parameter that comes twice and one that is null.
ASK = b"""
SELECT '5 %%', %(word)s::text, %(number)s::bigint + 1, %(number)s::bigint, %(nothing)s::text, 'ab'::bytea,
    (SELECT count(*) FROM pg_temp.done)
"""


@pytest.fixture
def connection(postgresql):
    with OwnConnection.connect(postgresql) as one:
        one.execute("CREATE TEMPORARY TABLE done (n int UNIQUE)")
        one.commit()
        yield one


def ask(connection, n, number=41, word="it's $1 é"):
    return commit_between(connection, (WRITE, {"n": n}), (ASK, {"word": word, "number": number, "nothing": None}))


def done(connection):
    return [n for (n,) in connection.execute("SELECT n FROM pg_temp.done ORDER BY n").fetchall()]


def begin(connection):
    connection.execute("SELECT")


def prepared(connection):
    found = connection.execute("SELECT name FROM pg_prepared_statements WHERE name LIKE 'seriatim%'", prepare=False)
    return [name for (name,) in found.fetchall()]


def test_the_first_is_committed_and_the_second_is_in_another_transaction(connection):
    begin(connection)
    for n in range(5):
        assert ask(connection, n) == [("5 %", "it's $1 é", 42, 41, None, b"ab", n + 1)]
        assert connection.info.transaction_status == TransactionStatus.INTRANS
        connection.execute("INSERT INTO pg_temp.done VALUES (100)")
        connection.execute("DELETE FROM pg_temp.done WHERE n = 100")
    assert len(prepared(connection)) == 2
    connection.execute("INSERT INTO pg_temp.done VALUES (100)")
    connection.rollback()
    assert done(connection) == [0, 1, 2, 3, 4]


def test_values_may_change_their_kind_of_row(connection):
    begin(connection)
    assert ask(connection, 1, number=2**40, word="")[0][1:4] == ("", 2**40 + 1, 2**40)
    assert ask(connection, 2, number=-1, word=None)[0][1:4] == (None, 0, -1)


def test_a_rollback_has_the_server_forget_the_statement_and_nothing_else_is_lost(connection):
    connection.prepare_threshold = 0  # the driver prepares as well: then it forgets, too
    begin(connection)
    ask(connection, 1)
    with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
        connection.execute("SELECT 1 / 0")
    assert prepared(connection) == []
    assert ask(connection, 2)[0][-1] == 2
    connection.rollback()
    assert done(connection) == [1, 2]
    assert ask(connection, 3)[0][-1] == 3
    assert ask(connection, 4)[0][-1] == 4
    assert len(prepared(connection)) == 2


@pytest.mark.parametrize(
    "forget",
    [
        lambda connection: connection.execute("DEALLOCATE ALL"),
        lambda connection: psycopg.Cursor(connection).execute("DEALLOCATE ALL"),
        lambda connection: connection.cursor(binary=True).executemany("DEALLOCATE ALL", [()]),
    ],
)
def test_the_last_statement_of_a_transaction_needs_no_name_that_an_application_may_have_dropped(connection, forget):
    begin(connection)
    for n in range(3):
        assert ask(connection, n)[0][-1] == n + 1
    assert len(prepared(connection)) == 2
    forget(connection)
    assert ask(connection, 3)[0][-1] == 4
    assert ask(connection, 4)[0][-1] == 5
    connection.rollback()
    assert done(connection) == [0, 1, 2, 3, 4]


def test_a_name_that_may_be_lost_is_replaced_between_exchanges(connection):
    begin(connection)
    ask(connection, 1)
    (first, second) = sorted(prepared(connection))  # which is no exchange
    for n in (2, 3, 4):
        assert ask(connection, n)[0][-1] == n
    after = prepared(connection)
    assert len(after) == 2
    assert len({first, second} & set(after)) == 1
    connection.rollback()
    assert done(connection) == [1, 2, 3, 4]


def test_a_statement_that_has_its_name_anew_says_nothing_of_the_names_of_others(connection):
    begin(connection)
    for n in (1, 2):
        ask(connection, n)
    connection.rollback()
    connection.execute("DEALLOCATE ALL")
    connection.rollback()
    assert begin_with(connection, (b"SELECT 7", {})) == [(7,)]
    assert ask(connection, 3)[0][-1] == 3
    connection.rollback()
    assert done(connection) == [1, 2, 3]


def test_where_the_first_fails_nothing_is_committed_and_the_second_is_not_done(connection):
    begin(connection)
    ask(connection, 1)
    connection.execute("INSERT INTO pg_temp.done VALUES (7)")
    with pytest.raises(NotCommitted) as caught:
        ask(connection, 1)
    assert isinstance(caught.value.cause, psycopg.errors.UniqueViolation)
    assert connection.info.transaction_status == TransactionStatus.INERROR
    connection.rollback()
    assert done(connection) == [1]
    assert ask(connection, 2)[0][-1] == 2


def test_where_the_second_fails_the_first_is_committed(connection):
    begin(connection)
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        ask(connection, 1, number=2**63 - 1)
    connection.rollback()
    assert done(connection) == [1]
    begin(connection)
    assert ask(connection, 2)[0][-1] == 2


def test_a_connection_that_the_server_ends(connection, postgresql):
    begin(connection)
    ask(connection, 1)
    with psycopg.connect(postgresql, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
    with pytest.raises(NotCommitted) as caught:
        ask(connection, 2)
    assert isinstance(caught.value.cause, psycopg.errors.AdminShutdown)
    assert connection.closed


def test_a_connection_that_ends_in_the_midst(connection):
    begin(connection)
    leaves = b"SELECT pg_terminate_backend(pg_backend_pid())"
    with pytest.raises(psycopg.errors.AdminShutdown):
        commit_between(connection, (b"SELECT", {}), (leaves, {}))
    assert connection.closed


def test_a_connection_that_the_server_has_ended_says_why(connection):
    begin(connection)
    # What comes before this is read, libpq takes for a notice.
    connection.execute("SET idle_in_transaction_session_timeout = 250")
    select.select([connection], [], [])
    with pytest.raises(NotCommitted) as caught:
        ask(connection, 1)
    assert isinstance(caught.value.cause, psycopg.errors.IdleInTransactionSessionTimeout)


KEEP = b"""
INSERT INTO pg_temp.done (n) VALUES (%(n)s) RETURNING n < 2 AND %(body)b = '\\x610025'::bytea
    AND %(bodies)b::bytea[] = ARRAY['', '\\xff'::bytea] AND %(nothing)s::text IS NULL
"""


def keep(connection, n, **options):
    parameters = {"n": n, "body": b"a\0%", "bodies": [b"", b"\xff"], "nothing": None}
    return transact(connection, (KEEP, parameters), **options)


@pytest.mark.parametrize("flush", [False, True])
def test_a_transaction_that_is_one_statement(connection, flush):
    assert can_flush(connection) is (connection.info.server_version >= 170000)
    for n in range(3):
        assert keep(connection, n, flush=flush) is (n < 2)
        assert connection.info.transaction_status == TransactionStatus.IDLE
    with pytest.raises(psycopg.errors.UniqueViolation):
        keep(connection, 2, flush=flush)
    assert connection.info.transaction_status == TransactionStatus.IDLE
    keep(connection, 3, flush=flush)
    assert done(connection) == [0, 1, 2, 3]


@pytest.mark.parametrize("flush", [False, True])
def test_a_transaction_that_is_one_statement_after_the_server_forgot_it(connection, flush):
    connection.prepare_threshold = 0
    keep(connection, 1, flush=flush)
    connection.execute("SELECT")
    connection.rollback()
    assert prepared(connection) == []
    connection.rollback()
    keep(connection, 2, flush=flush)
    assert len(prepared(connection)) == (4 if flush else 1)
    assert done(connection) == [1, 2]


def test_a_transaction_whose_connection_ends_in_the_midst(connection):
    leaves = b"SELECT pg_terminate_backend(pg_backend_pid())"
    with pytest.raises(psycopg.errors.AdminShutdown):
        transact(connection, (leaves, {}), flush=True)
    assert connection.closed


def test_a_connection_that_is_closed_is_forgotten(postgresql):
    connection = OwnConnection.connect(postgresql)
    begin(connection)
    commit_between(connection, (b"SELECT", {}), (b"SELECT 1", {}))
    connection.close()
    forgotten = weakref.ref(connection)
    del connection
    gc.collect()
    assert forgotten() is None


def test_another_encoding_meanwhile(connection):
    begin(connection)
    assert ask(connection, 1, word="é")[0][1] == "é"
    connection.execute("SET client_encoding = 'LATIN1'")
    assert ask(connection, 2, word="é")[0][1] == "é"


def test_a_plan_that_no_longer_fits(connection):
    connection.execute("CREATE TEMPORARY TABLE fits AS SELECT 1 AS one")
    whole = b"SELECT * FROM pg_temp.fits", {}
    assert commit_between(connection, (b"SELECT", {}), whole) == [(1,)]
    connection.execute("ALTER TABLE pg_temp.fits ADD two text DEFAULT 'b'")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match="cached plan"):
        commit_between(connection, (b"SELECT", {}), whole)
    connection.rollback()
    begin(connection)
    assert commit_between(connection, (b"SELECT", {}), whole) == [(1, "b")]


def test_a_value_that_cannot_be_sent_leaves_the_connection_as_it_was(connection):
    begin(connection)
    with pytest.raises(UnicodeEncodeError):
        ask(connection, 1, word="\ud800")
    assert ask(connection, 1)[0][-1] == 1


def test_two_connections_have_names_of_their_own(connection, postgresql):
    with OwnConnection.connect(postgresql) as other:
        other.execute("CREATE TEMPORARY TABLE done (n int UNIQUE)")
        for n, one in itertools.product(range(3), (connection, other)):
            begin(one)
            assert ask(one, n)[0][-1] == n + 1
        assert len(prepared(connection)) == len(prepared(other)) == 2


def test_a_handler_that_rolls_a_part_back_goes_on_from_turn_to_turn(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, *range(1, 9))
    with box.session() as tx:
        delivery = tx.receive("shop")
        while delivery is not None:
            see(box, delivery.messages[0], tx)
            with tx.connection.transaction():
                see(box, delivery.messages[0], tx)
                raise psycopg.Rollback
            delivery = tx.commit_and_receive()
    assert seen(box) == [("c1", n) for n in range(1, 9)]
    assert left(box) == 0


def test_in_a_pipeline_of_the_driver_it_goes_one_after_another(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1, 2)
    with box.session() as tx:
        tx.receive("shop")
        with tx.connection.pipeline():
            see(box, tx.delivery.messages[0], tx)
            assert tx.commit_and_receive().messages[0].context["version"] == 2
    assert seen(box) == [("c1", 1)]
    assert left(box) == 1


def test_an_application_that_commits_by_itself_goes_on(box):
    define(box, policy=sq.Fifo(), sequence=None)
    publish(box, 1, 2, 3)
    with box.session() as tx:
        delivery, versions = tx.receive("shop"), []
        while delivery is not None:
            versions.append(delivery.messages[0].context["version"])
            delivery.done()
            tx.connection.commit()
            delivery = tx.commit_and_receive()
    assert versions == [1, 2, 3]
    assert left(box) == 0


COUNT = b"SELECT count(*) + %(more)s::bigint FROM pg_temp.done"


def begin_and_ask(connection):
    return begin_with(connection, (ASK, {"word": "w", "number": 1, "nothing": None}))


def test_a_transaction_begins_with_its_first_statement(connection):
    set_for_transactions(connection)
    for _ in range(3):
        assert is_unbegun(connection)
        assert begin_and_ask(connection) == [("5 %", "w", 2, 1, None, b"ab", 0)]
        assert connection.info.transaction_status == TransactionStatus.INTRANS
        assert not is_unbegun(connection)
        connection.execute("INSERT INTO pg_temp.done VALUES (1)")
        connection.rollback()
    assert len(prepared(connection)) == 1
    connection.rollback()
    with pytest.raises(psycopg.errors.UndefinedTable):
        begin_with(connection, (b"SELECT * FROM nothing_of_this_name", {}))
    connection.rollback()
    assert begin_and_ask(connection)[0][-1] == 0


def test_names_that_are_forgotten_lose_no_first_statement(connection):
    connection.prepare_threshold = 0
    begin_and_ask(connection)
    connection.execute("SELECT")
    with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
        connection.execute("SELECT 1 / 0")
    assert prepared(connection) == []
    connection.commit()
    assert begin_and_ask(connection)[0][-1] == 0
    assert connection.info.transaction_status == TransactionStatus.INTRANS


def test_a_transaction_that_is_to_begin_otherwise_begins_as_the_driver_does(connection):
    connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
    assert not is_unbegun(connection)
    connection.isolation_level = psycopg.IsolationLevel.READ_COMMITTED
    connection.read_only = False
    assert is_unbegun(connection)
    connection.read_only = True
    assert not is_unbegun(connection)
    connection.read_only = False
    with connection.pipeline():
        assert not is_unbegun(connection)


@pytest.mark.parametrize("chain", [False, True])
def test_the_last_statement_commits_what_went_before(connection, chain):
    begin(connection)
    connection.execute("INSERT INTO pg_temp.done VALUES (1)")
    assert (
        commit_with(connection, (COUNT, {"more": 10}), ahead=b"INSERT INTO pg_temp.done VALUES (2)", chain=chain) == 12
    )
    assert connection.info.transaction_status == (TransactionStatus.INTRANS if chain else TransactionStatus.IDLE)
    connection.rollback()
    assert commit_with(connection, (COUNT, {"more": 0}), chain=chain) == 2  # alone: there was no transaction
    connection.rollback()
    assert done(connection) == [1, 2]


def test_an_error_commits_nothing(connection):
    begin(connection)
    connection.execute("INSERT INTO pg_temp.done VALUES (1)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        commit_with(connection, (COUNT, {"more": 0}), ahead=b"INSERT INTO pg_temp.done VALUES (1)")
    connection.rollback()
    assert done(connection) == []


def test_the_last_statement_is_executed_alone_where_its_name_was_forgotten(connection):
    connection.prepare_threshold = 0
    assert commit_with(connection, (COUNT, {"more": 0})) == 0
    begin(connection)
    with pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
        connection.execute("SELECT 1 / 0")
    connection.execute("INSERT INTO pg_temp.done VALUES (1)")
    assert prepared(connection) == []
    assert commit_with(connection, (COUNT, {"more": 5})) == 5
    assert done(connection) == []


def test_a_notification_that_comes_along_with_an_answer_is_heard(connection, postgresql):
    assert commit_with(connection, (COUNT, {"more": 0}), ahead=b"LISTEN told", chain=True) == 0
    with psycopg.connect(postgresql, autocommit=True) as other:
        other.execute("NOTIFY told, 'first'")
    commit_with(connection, (COUNT, {"more": 0}))
    assert [one.payload for one in connection.notifies(timeout=0)] == ["first"]
    commit_alone(connection, b"UNLISTEN told")
    assert connection.info.transaction_status == TransactionStatus.INTRANS
    assert connection.execute("SELECT pg_listening_channels()").fetchall() == []
    connection.rollback()
    assert connection.execute("SELECT pg_listening_channels()").fetchall() == []
    connection.rollback()
    with pytest.raises(psycopg.errors.SyntaxError):
        commit_alone(connection, b"UNLISTEN told, and more")
