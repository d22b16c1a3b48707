"""Nobody waits without end for a lock that any role can take: it is told who has it."""

from __future__ import annotations

from functools import partial

import psycopg
import pytest

import seriatim as sq
from seriatim.box.connection.chore import alone
from seriatim.box.workers.reader_slots import Slots
from seriatim.operations import invariants, queues, retention, subscriptions
from seriatim.operations.grants import grant
from tests.box.shop import define, rows
from tests.databases import box_with

DENIED = psycopg.errors.InsufficientPrivilege


box = box_with(define)


@pytest.fixture
def stranger(box):
    """The DSN and the name of a role that has no right but to log in."""
    rows(box, "CREATE ROLE stranger LOGIN")
    return box.dsn.replace("seriatim@", "stranger@"), "stranger"


@pytest.fixture
def impatient(box):
    """The box, in sessions that wait for no lock longer than a moment."""
    with sq.MessageBox.open(f"{box.dsn}&options=-clock_timeout%3D50ms", schema=box.schema) as opened:
        yield opened


def named(box, what):
    """The key of a lock that there is once in a box."""
    return rows(box, "SELECT hashtextextended('seriatim ' || %s, '{schema}'::regnamespace::oid::bigint)", what)[0][0]


def order(version=1, **more):
    return sq.Message(type="order", context={"customer": "c1", "version": version, **more})


def test_a_role_that_may_only_log_in_holds_nobody_up(box, impatient, stranger):
    dsn, name = stranger
    box.define(sq.Service("Orders", queue="orders"))
    with box.session() as tx:
        handle = tx.begin_dialog("Orders", "Nowhere")
        ((group,),) = tx.connection.execute(f"SELECT group_id FROM {box.schema}.endpoints").fetchall()
        ((dialog,),) = tx.connection.execute(
            f"SELECT {box.schema}.group_lock(queue_id, group_id::text) FROM {box.schema}.endpoints"
        ).fetchall()
        ((location,),) = tx.connection.execute(f"SELECT {box.schema}.location_lock('box')").fetchall()
        tx.connection.execute(f"SELECT {box.schema}.publish('order', '')")

    def in_session(does):
        with impatient.session() as tx:
            does(tx)

    publishes = [
        lambda: impatient.publish(order()),
        lambda: impatient.publish([order(1), order(2)]),
        lambda: in_session(lambda tx: tx.publish(order())),
    ]
    cases = [
        (named(box, "publishers"), "publishing", publishes),
        (location, 'the location "box"', [*publishes, lambda: in_session(lambda tx: tx.dispense("box"))]),
        (named(box, "definitions"), "the definitions", [
            lambda: impatient.define(sq.Location("erp")), lambda: subscriptions.stop(impatient, "shop"), lambda: queues.turn_off(impatient, "shop"),
        ]),
        (named(box, "routing"), "routing", [impatient.tick]),
        (dialog, "a conversation group", [
            lambda: in_session(lambda tx: tx.send(handle, "DEFAULT", b"")),
            lambda: in_session(lambda tx: tx.end(handle)),
            lambda: in_session(lambda tx: tx.set_timer(handle, 5)),
            lambda: in_session(lambda tx: tx.move(handle, group)),
            lambda: in_session(lambda tx: tx.begin_dialog("Orders", "Nowhere", related_to=handle)),
            lambda: in_session(lambda tx: tx.begin_dialog("Orders", "Nowhere", group=group)),
        ]),
        (named(box, "purge"), "the clean-up", [partial(retention.purge, impatient)]),
    ]  # fmt: skip
    with psycopg.connect(dsn, autocommit=True) as holder:
        who = f'held by process {holder.info.backend_pid} of the role "{name}"'
        for key, told, calls in cases:
            holder.execute("SELECT pg_advisory_lock(%s)", [key])
            for call in calls:
                with pytest.raises(sq.Unavailable, match=f"waited 50ms for the lock on {told}, held") as caught:
                    call()
                assert who in caught.value.what
            holder.execute("SELECT pg_advisory_unlock(%s)", [key])
    impatient.publish(order())
    assert invariants.broken(box) == []


def test_without_a_limit_of_its_own_a_session_has_that_of_the_box(box, stranger):
    dsn, _ = stranger
    assert rows(box, "SELECT {schema}.lock_patience()") == [("10s",)]
    rows(box, "CREATE OR REPLACE FUNCTION {schema}.lock_patience() RETURNS text LANGUAGE sql RETURN '30ms'")
    with psycopg.connect(dsn, autocommit=True) as holder:
        holder.execute("SELECT pg_advisory_lock(%s)", [named(box, "publishers")])
        with pytest.raises(sq.Unavailable, match="waited 30ms for the lock on publishing"):
            box.publish(order())
        with psycopg.connect(box.dsn) as connection, box.session(connection) as tx:  # the application's
            with pytest.raises(sq.Unavailable, match="waited 30ms"), connection.transaction():
                tx.publish(order())
            assert connection.execute("SHOW lock_timeout").fetchone() == ("0",)


def test_who_waited_in_vain_leaves_the_limit_as_it_was_and_so_does_who_did_not(box):
    with psycopg.connect(box.dsn) as first, psycopg.connect(box.dsn) as second:
        with box.session(first) as tx:
            tx.dispense("crm")
        second.execute("SET lock_timeout = '20ms'")
        second.commit()
        with box.session(second) as tx, pytest.raises(sq.Unavailable, match='the location "crm"'):
            tx.dispense("crm")
        second.rollback()
        first.commit()
        with box.session(second) as tx:
            assert tx.dispense("crm").first == 2
        assert second.execute("SHOW lock_timeout").fetchone() == ("20ms",)


def test_nothing_that_a_role_does_needs_the_functions_that_may_be_revoked(databases):
    """What docs/how-to/roles.md says to take from everybody, in a database whose owner is no superuser."""
    owner, name = "owner_of_the_box", "stranger"
    with databases.clone() as own:
        owners, theirs = (own.replace("seriatim@", f"{role}@") for role in (owner, name))
        with psycopg.connect(own) as connection:
            connection.execute(f"CREATE ROLE {owner} LOGIN; CREATE ROLE {name} LOGIN")
            connection.execute(f"ALTER DATABASE {connection.info.dbname} OWNER TO {owner}")
        with psycopg.connect(own) as connection:
            for (function,) in connection.execute(
                "SELECT oid::regprocedure::text FROM pg_proc WHERE proname ~ '^pg_(try_)?advisory_'"
            ).fetchall():
                connection.execute(f"REVOKE EXECUTE ON FUNCTION {function} FROM PUBLIC")
                connection.execute(f"GRANT EXECUTE ON FUNCTION {function} TO {owner}")
        with sq.MessageBox.open(owners) as box:
            define(box, activation=sq.Activation("orders:handle"))
            box.define(sq.Location("crm"))
            grant(
                box,
                name,
                publish=["shop"],
                receive=["shop"],
                subscribe=["shop"],
                types=["order"],
                dispense=["crm"],
                route=True,
            )
        with psycopg.connect(theirs) as connection, pytest.raises(DENIED):
            connection.execute("SELECT pg_advisory_lock(1)")
        with sq.MessageBox.open(theirs) as box:
            box.publish([order(1), order(2)])
            with box.session() as tx:
                assert tx.dispense("crm").first == 1
                assert len(list(tx.receive("shop", limit=10))) == 2
            box.define(sq.Subscription("mine", where="customer = 'c2'", to="shop"))
            with alone(box.access, "looking").transaction(), Slots(box) as slots:
                ((queue,),) = [(one.queue_id,) for one in slots.look()]
                assert slots.fill(queue, 2) == 2
                slots.leave(queue, 1)
