"""Whatever a role, a database or an application sets as its default: the box works, or says clearly what is in the way."""

from __future__ import annotations

import itertools

import psycopg
import pytest
from psycopg import sql

import seriatim as sq
from seriatim.operations import dialogs, invariants, messages, retention
from seriatim.operations.box_status import box_status

NUMBERS = itertools.count(1)
#: What a role may have as its default, and most of which breaks what reads values or keeps transactions apart.
DEFAULTS = {
    "client_encoding": "SQL_ASCII",
    "DateStyle": "German, DMY",
    "IntervalStyle": "sql_standard",
    "TimeZone": "Asia/Kathmandu",
    "extra_float_digits": "-5",
    "bytea_output": "escape",
    "array_nulls": "off",
    "transform_null_equals": "on",
    "row_security": "off",
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "search_path": "nowhere, pg_catalog",
    "default_transaction_isolation": "serializable",
    "default_transaction_read_only": "on",
    "default_transaction_deferrable": "on",
    "plan_cache_mode": "force_custom_plan",
}
PROPERTIES = {"customer": "string", "at": "timestamp", "share": "double", "amount": "decimal(12,2)"}
TEXT = "öß 語 \\ ' \x01"


def order(customer=TEXT):
    return sq.Message(
        type="order",
        body=b"\0\\'\xff",
        context={"customer": customer, "share": 0.1 + 0.2},
        parts=[sq.Part(TEXT, "text/plain", b"\\000")],
    )


def define(box):
    box.define(
        sq.MessageType("order", properties=PROPERTIES),
        sq.Queue("q", group="customer", keep="everything"),
        sq.Subscription("all", where="type = 'order' AND share > 0.3", to="q"),
        sq.Contract("Note", {"Note": "any"}),
        sq.Service("Orders", queue="orders", contracts=["Note"]),
    )


@pytest.fixture(scope="module")
def role(postgresql):
    """The DSN of a role whose defaults are those above, and who may make a schema."""
    name = f"defaults_{next(NUMBERS)}"
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(name)))
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE postgres TO {}").format(sql.Identifier(name)))
        for setting, value in DEFAULTS.items():
            change = sql.SQL("ALTER ROLE {} SET {} = {}")
            listed = sql.SQL(", ").join(sql.Literal(one) for one in value.split(", "))
            connection.execute(change.format(sql.Identifier(name), sql.Identifier(setting), listed))
    yield postgresql.replace("postgresql://seriatim@", f"postgresql://{name}@")
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute(sql.SQL("DROP OWNED BY {} CASCADE").format(sql.Identifier(name)))
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(name)))


@pytest.fixture(scope="module")
def shop(role):
    with sq.MessageBox.open(role, schema="defaults") as opened:
        define(opened)
        yield opened


def check(message):
    assert message.body == b"\0\\'\xff"
    assert message.context == {"customer": TEXT, "share": 0.1 + 0.2}
    assert [(part.name, part.body) for part in message.parts] == [(TEXT, b"\\000")]
    assert message.received_at.tzinfo is not None


def test_the_box_sets_what_it_relies_on(shop):
    (published,) = shop.publish(order())
    with shop.session() as tx:
        tx.publish([order(), order()])
        assert tx.dispense("till", 3).first == 1
    shop.publish([order(), order()], delay=1e-3)
    with shop.session() as tx:
        for message in tx.receive("q", limit=2):
            check(message)
        for message in tx.commit_and_receive():
            check(message)
    with shop.session() as tx:
        handle = tx.begin_dialog("Orders", "Orders", contract="Note", lifetime="3h")
        tx.send(handle, "Note", b"\0")
    with shop.session() as tx:
        assert [one.body for one in tx.receive("orders")] == [b"\0"]
    (side, _) = sorted(dialogs.dialogs(shop), key=lambda one: not one.is_initiator)
    assert side.expires_at > side.began_at
    stored, _ = messages.message(shop, published)
    assert (stored.body, stored.context["share"]) == (b"\0\\'\xff", 0.1 + 0.2)
    assert box_status(shop).locations
    retention.purge(shop)
    shop.tick()
    assert sq.MessageBox.check(shop.dsn, schema="defaults").schema == "defaults"
    assert invariants.broken(shop) == []


@pytest.mark.parametrize(
    "statement",
    [
        "SET client_encoding = 'SQL_ASCII'",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
        "SET DateStyle = 'German'; SET IntervalStyle = 'iso_8601'",
        "SET ROLE pg_monitor",
        "SELECT set_config('array_nulls', 'off', FALSE), set_config('search_path', 'nowhere', FALSE)",
        "SET statement_timeout = 123456; SET idle_in_transaction_session_timeout = 123456",
        "LISTEN jobs",
        psycopg.IsolationLevel.SERIALIZABLE,
    ],
)
def test_what_one_session_sets_is_not_the_next_ones(box, statement):
    define(box)
    with box.session() as tx:
        kept = tx.connection
        if isinstance(statement, psycopg.IsolationLevel):
            kept.isolation_level = statement
        else:
            kept.execute(statement)
    box.publish(order())
    with box.session() as tx:
        tx.publish([order(), order()])
    with box.session() as tx:
        assert tx.connection is kept
        assert tx.connection.execute("SELECT pg_listening_channels()").fetchall() == []
        assert ("123456",) not in tx.connection.execute("SELECT setting FROM pg_settings").fetchall()
        for message in tx.receive("q", limit=3):
            check(message)


def test_a_session_says_what_is_in_its_way(box):
    define(box)
    box.publish(order())
    with box.session() as tx:
        tx.connection.execute("SET LOCAL client_encoding = 'SQL_ASCII'")
        with pytest.raises(sq.UsageError, match="client_encoding is SQL_ASCII"):
            tx.receive("q")
    with box.session() as tx:
        tx.connection.execute("SET TRANSACTION READ ONLY")
        with pytest.raises(sq.EnvironmentProblem, match="default_transaction_read_only = off"):
            tx.publish(order())
        tx.connection.rollback()


#: What a connection of an application's needs to have, if its role has it otherwise.
FINE = "-c array_nulls=on -c transform_null_equals=off -c extra_float_digits=1 -c client_encoding=utf8"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("", "client_encoding is SQL_ASCII"),
        (
            "-c client_encoding=utf8",
            "SET array_nulls = on; SET transform_null_equals = off; SET extra_float_digits = 1",
        ),
        (f"{FINE} -c array_nulls=off", "SET array_nulls = on"),
        (FINE, "default_transaction_read_only = off"),
    ],
)
def test_a_connection_of_an_applications_says_what_it_needs(shop, role, options, told):
    with psycopg.connect(role, options=options) as connection, shop.session(connection=connection) as tx:
        with pytest.raises(sq.SeriatimError, match=told):
            tx.publish([order(), order()])
        connection.rollback()


def test_a_connection_of_an_applications_works_with_all_else(shop, role):
    with psycopg.connect(role, options=FINE) as connection:
        connection.read_only = False
        with shop.session(connection=connection) as tx:
            tx.publish([order("again"), order("again")])
            with pytest.raises(sq.UsageError, match="in a transaction that is serializable"):
                tx.receive("q")
    with psycopg.connect(role, options=FINE) as connection:
        connection.read_only, connection.isolation_level = False, psycopg.IsolationLevel.READ_COMMITTED
        with shop.session(connection=connection) as tx:
            assert tx.dispense("till").first > 0
            handle = tx.begin_dialog("Orders", "Orders", contract="Note", lifetime="3h")
            assert tx.history(handle) == []
        connection.commit()
        with shop.session(connection=connection) as tx:
            for message in tx.receive("q", group="again", limit=2):
                assert message.context["share"] == 0.1 + 0.2
                assert message.body == b"\0\\'\xff"
        connection.commit()
    assert invariants.broken(shop) == []


@pytest.fixture
def hurried(box):
    """The DSN of a role whose transactions PostgreSQL ends soon."""
    name = f"hurried_{box.schema}_{next(NUMBERS)}"
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        if connection.info.server_version < 170_000:
            pytest.skip("there is no transaction_timeout before PostgreSQL 17")
        connection.execute(f"CREATE ROLE {name} SUPERUSER LOGIN; ALTER ROLE {name} SET transaction_timeout = '1s'")
    yield psycopg.conninfo.make_conninfo(box.dsn, user=name)
    with psycopg.connect(box.dsn, autocommit=True) as connection:
        connection.execute(f"DROP ROLE {name}")


def test_a_handler_may_take_longer_than_a_transaction_of_its_role(box, hurried):
    box.define(sq.MessageType("order", properties=PROPERTIES), sq.Queue("q", group="customer"))
    box.publish(sq.Message(type="order", context={"customer": "c", "to": "q"}))
    done = []

    def handle(message, tx):
        tx.connection.execute("SELECT pg_sleep(1.2)")
        done.append(message.attempt)

    with sq.MessageBox.open(hurried, schema=box.schema) as theirs:
        sq.Worker(theirs, "q", handle, workers=1).run(until_idle=True)
    assert done == [1]


def test_an_application_is_told_which_setting_ended_its_transaction(box, hurried):
    with box.session() as holder, psycopg.connect(hurried) as own:
        holder.dispense("crm")
        with pytest.raises(sq.Unavailable, match="transaction timeout") as caught, box.session(connection=own) as tx:
            tx.dispense("crm")
    assert "set transaction_timeout higher" in caught.value.remedy
