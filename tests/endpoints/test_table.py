"""The table port, in the box's own database and in another one."""

from __future__ import annotations

from contextlib import closing

import pytest
from psycopg import sql

import seriatim as sq
from seriatim.endpoints import TablePort
from tests.box.cutting import Cutting
from tests.box.shop import define, left, publish, rows
from tests.dropping import LOSSES, asked_at_once  # noqa: F401 -- a fixture
from tests.endpoints.handed import hand, message
from tests.runtime.workers.test_worker import work

COLUMNS = {"who": "customer", "n": "version", "place": "ordinal", "said": "body_text", 'odd "name"; --': "type"}


@pytest.fixture
def table(box):
    """A table with a name that has to be quoted, and what is in it."""
    name = f'{box.schema} "t"'
    with box.session() as tx:
        statement = 'CREATE TABLE public.{} (who text, n bigint, place bigint, said text, "odd ""name""; --" text, PRIMARY KEY (who))'
        tx.connection.execute(sql.SQL(statement).format(sql.Identifier(name)))

    def found():
        with box.session() as tx:
            query = sql.SQL("SELECT * FROM {} ORDER BY who, n").format(sql.Identifier(name))
            return tx.connection.execute(query).fetchall()

    yield name, found
    with box.session() as tx:
        tx.connection.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))


@pytest.mark.parametrize("batch", [False, True])
def test_the_newest_of_each_group_is_there(box, table, batch):
    define(box)
    name, found = table
    for customer in ("a", "b"):
        with box.session() as tx:
            tx.publish([
                sq.Message(type="order", body=f"{n} é".encode(), context={"customer": customer, "version": n})
                for n in (3, 1, 2)
            ])  # fmt: skip
    work(box, TablePort(f"public.{name}", COLUMNS, key=["who"]), batch=batch)
    assert found() == [(customer, 3, 3, "3 é", "order") for customer in ("a", "b")]


def test_what_fails_leaves_nothing_behind(box, table):
    define(box, retry=sq.Retry(1))
    name, found = table
    publish(box, 1, 2)
    work(box, TablePort(name, COLUMNS), done=lambda: rows(box, "SELECT FROM {schema}.faults"))
    assert found() == [("c1", 1, 1, "", "order")]  # and not twice
    (fault,) = rows(box, "SELECT * FROM {schema}.faults")
    assert (fault.kind, fault.error_class) == ("unexpected", "UniqueViolation")
    assert left(box) == 1


def test_a_body_that_is_no_text_is_a_fault(box, table):
    define(box)
    box.publish(sq.Message(type="order", body=b"\xff", context={"customer": "c1", "version": 1}))
    work(box, TablePort(table[0], COLUMNS), done=lambda: rows(box, "SELECT FROM {schema}.faults"))
    assert "isn't UTF-8" in rows(box, "SELECT error FROM {schema}.faults")[0].error
    assert table[1]() == []


def test_over_a_connection_of_its_own_each_row_is_there_once_by_its_key(box):
    define(box, retry=sq.Retry(delay=0.05))
    publish(box, *range(1, 21))
    table = f"{box.schema}_orders"
    rows(box, f"CREATE TABLE {table} (message_id text PRIMARY KEY, n bigint)")
    columns, failed = {"message_id": "message_id", "n": "version"}, []
    with closing(TablePort(table, columns, key=["message_id"], dsn=box.dsn)) as port:

        def handle(message, tx):
            port(message, tx)
            if message.sequence == 7 and not failed:  # after it was written there, and before it is done here
                failed.append(len(rows(box, f"SELECT FROM {table}")))
                raise sq.Transient

        work(box, handle)
    assert failed == [7]  # nothing of that was rolled back
    assert [row.n for row in rows(box, f"SELECT n FROM {table} ORDER BY n")] == list(range(1, 21))
    rows(box, f"DROP TABLE {table}")


def test_a_database_that_is_not_there_is_tried_again(box):
    define(box)
    publish(box, 1)
    with closing(TablePort("orders", {"n": "version"}, dsn="postgresql://u:hush@127.0.0.1:1/x")) as port:
        port._pool.timeout = 0.5
        work(box, port, done=lambda: rows(box, "SELECT FROM {schema}.faults"))
    (fault,) = rows(box, "SELECT * FROM {schema}.faults")
    assert fault.kind == "transient"
    assert "hush" not in fault.error + fault.traceback


def test_a_port_tells_in_words_of_its_own_that_its_server_is_away(box):
    define(box)
    publish(box, 1)
    port = TablePort("orders", {"n": "version"}, dsn="postgresql://u:hush@127.0.0.1:1/x")
    port._pool.timeout = 0.2
    with closing(port), box.session() as tx:
        with pytest.raises(sq.Transient, match=r"127\.0\.0\.1:1/x: no connection could be made") as away:
            port(tx.receive("shop").messages[0], tx)
        assert "hush" not in str(away.value)
        port.close()
        with pytest.raises(sq.UsageError, match="the port is closed"):
            port(tx.delivery.messages[0], tx)
    with pytest.raises(sq.UsageError, match="the DSN of the port can't be read") as unread:
        TablePort("orders", {"n": "version"}, dsn="postgresql://u:hush@[")
    assert "hush" not in str(unread.value)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"table": "a.b.c"}, "is not the name of a table"),
        ({"table": ""}, "is not a name of a table"),
        ({"columns": {}}, "writes no columns"),
        ({"columns": {"a": ""}}, "is not a name of a table, a column or a property"),
        ({"key": ["b"]}, "must be a list of columns"),
        ({"key": "a"}, "key can't be a str"),
        ({"dsn": "postgresql://u:hush@\0"}, r"dsn can't be a str \(text without NUL\)"),
    ],
)
def test_what_cannot_be_is_refused(given, told):
    with pytest.raises(sq.UsageError, match=told):
        TablePort(**{"table": "t", "columns": {"a": "x"}} | given)


@pytest.mark.usefixtures("asked_at_once")
@pytest.mark.parametrize("loss", LOSSES)
def test_an_idle_connection_that_was_dropped_costs_no_attempt(box, loss):
    table = f"{box.schema}_rows"
    rows(box, f"CREATE TABLE {table} (message_id text PRIMARY KEY)")
    columns = {"message_id": "message_id"}
    with Cutting(box.dsn) as road, closing(TablePort(table, columns, dsn=road.dsn)) as port:
        for ordinal in (1, 2, 3):
            assert hand(port, message(ordinal)) is None
            LOSSES[loss](road)
    assert [row.message_id for row in rows(box, f"SELECT message_id FROM {table} ORDER BY 1")] == ["m1", "m2", "m3"]
    rows(box, f"DROP TABLE {table}")
