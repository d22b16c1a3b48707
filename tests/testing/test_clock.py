"""A test's clock that is moved: what the box does by time follows it."""

from __future__ import annotations

import pytest

import seriatim as sq
from seriatim.operations import groups, retention
from seriatim.testing import Clock


@pytest.fixture(scope="session")
def seriatim_define():
    def define(box):
        box.define(
            sq.MessageType("order", properties={"customer": "string", "version": "long"}),
            sq.Queue(
                "orders",
                policy=sq.Standard(hole_timeout="1h", on_hole="skip"),
                group="customer",
                sequence="version",
                retry=sq.Retry(3, delay="10m", jitter=0),
            ),
            sq.Subscription("orders", where="type = 'order'", to="orders"),
        )
        with box.session() as tx:
            tx.connection.execute("CREATE TABLE mine (at timestamptz DEFAULT now())")

    return define


def order(version):
    return sq.Message(type="order", context={"customer": "c1", "version": version})


def received(box):
    with box.session() as tx:
        delivery = tx.receive("orders", limit=10)
        return [] if delivery is None else [message.sequence for message in delivery]


def test_it_moves_on(seriatim_box, seriatim_clock):
    before = seriatim_clock.now()
    seriatim_clock.move("1d")
    seriatim_clock.move(3600)
    assert 90_000 <= (seriatim_clock.now() - before).total_seconds() < 90_060
    with seriatim_box.session() as tx:
        tx.connection.execute("INSERT INTO mine DEFAULT VALUES")
        (ours,) = tx.connection.execute("SELECT now() - at FROM mine").fetchone()
        (now,) = tx.connection.execute("SELECT now()").fetchone()
        tx.publish(order(1))
    assert ours.total_seconds() == 0
    assert (now - before).total_seconds() >= 90_000
    assert (seriatim_box.peek("orders")[0].message.received_at - before).total_seconds() >= 90_000


def test_a_delay_is_over(seriatim_box, seriatim_clock):
    seriatim_box.publish(order(1), delay="5m")
    assert received(seriatim_box) == []
    seriatim_clock.move("5m")
    assert received(seriatim_box) == [1]


def test_a_hole_times_out(seriatim_box, seriatim_clock):
    seriatim_box.publish(order(2))
    assert received(seriatim_box) == []
    seriatim_clock.move("59m")
    assert received(seriatim_box) == []
    seriatim_clock.move("2m")
    assert received(seriatim_box) == [2]


def test_what_is_old_is_found_and_purged(seriatim_box, seriatim_clock):
    message = order(2)
    seriatim_box.publish(message)
    assert received(seriatim_box) == []
    seriatim_clock.move("8d")
    assert [one.group for one in groups.groups(seriatim_box, "orders", older_than="7d")] == ["c1"]
    retention.purge(seriatim_box)
    assert not seriatim_box.publish(message).left_out  # its id is forgotten after seven days


def test_every_function_of_the_box_goes_by_it(seriatim_box, seriatim_clock):
    """None has the clock of PostgreSQL bound, and each that says where to look for functions finds ours."""
    with seriatim_box.session() as tx:
        bound = tx.connection.execute(
            "SELECT DISTINCT classid::regclass::text, objid FROM pg_depend WHERE refclassid = 'pg_proc'::regclass"
            " AND refobjid IN ('pg_catalog.now'::regproc, 'pg_catalog.clock_timestamp'::regproc)"
        ).fetchall()
        # PostgreSQL itself is pinned, so nothing depends on its functions by name: what is bound is read as text.
        pinned = tx.connection.execute(
            "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'seriatim'::regnamespace"
            " AND proconfig::text ~ 'search_path' AND proconfig::text !~ 'seriatim_clock'"
        ).fetchall()
        told = tx.connection.execute(
            "SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef JOIN pg_class ON pg_class.oid = adrelid"
            " WHERE relnamespace = 'seriatim'::regnamespace AND pg_get_expr(adbin, adrelid) ~ 'pg_catalog'"
        ).fetchall()
        bodies = tx.connection.execute(
            "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'seriatim'::regnamespace"
            " AND prosqlbody IS NOT NULL AND pg_get_functiondef(oid) ~ 'pg_catalog\\.(now|clock_timestamp)'"
        ).fetchall()
    assert (bound, pinned, told, bodies) == ([], [], [], [])


def test_a_clock_never_goes_back(seriatim_clock):
    with pytest.raises(sq.UsageError, match="time never goes back"):
        seriatim_clock.move(-1)


def test_a_box_of_no_fixture_has_none(box):
    with pytest.raises(sq.UsageError, match="can't be moved"):
        Clock(box)
