"""Working a queue off in a test, and databases on a server that has others."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

import seriatim as sq
from seriatim.operations import faults
from seriatim.testing import work_off
from seriatim.testing.databases import Databases, fresh_box


@pytest.fixture(scope="session")
def seriatim_define():
    def define(box):
        box.define(
            sq.MessageType("order", properties={"customer": "string", "version": "long"}),
            sq.Queue(
                "orders",
                policy=sq.Standard(),
                group="customer",
                sequence="version",
                retry=sq.Retry(3, delay="10m", jitter=0),
            ),
            sq.Subscription("orders", where="type = 'order'", to="orders"),
        )

    return define


def order(version, customer="c1"):
    return sq.Message(type="order", context={"customer": customer, "version": version})


def test_it_ends_when_nothing_can_be_handed_out(seriatim_box):
    seriatim_box.publish([order(version, f"c{n}") for n in range(5) for version in (3, 1, 2, 5)])
    got = []
    assert work_off(seriatim_box, "orders", lambda message, tx: got.append(message.sequence)) == 15
    assert sorted(got) == sorted([1, 2, 3] * 5)
    assert work_off(seriatim_box, "orders", lambda message, tx: got.append(message.sequence)) == 0

    async def handle(message, tx):
        got.append(message.sequence)

    seriatim_box.publish(order(4))
    assert work_off(seriatim_box, "orders", handle, workers=2) == 2
    assert got[-2:] == [4, 5]


def test_a_handler_that_fails_is_told(seriatim_box, seriatim_clock):
    def handle(message, tx):
        raise sq.Transient("the mail server is away")

    seriatim_box.publish(order(1))
    with pytest.raises(AssertionError, match="Transient: the mail server is away") as raised:
        work_off(seriatim_box, "orders", handle)
    assert "in handle" in str(raised.value)
    assert work_off(seriatim_box, "orders", handle) == 0  # it waits
    for _ in range(2):
        seriatim_clock.move("1h")
        assert work_off(seriatim_box, "orders", handle, fails=True) == 1
    assert [one.attempt for one in faults.faults(seriatim_box, "orders")] == [3, 2, 1]
    with pytest.raises(sq.UsageError, match="there is no queue 'nowhere'"):
        work_off(seriatim_box, "nowhere", handle)


def test_what_is_made_on_another_server_is_gone_at_the_end(postgresql):
    def names():
        with psycopg.connect(postgresql) as connection:
            return {name for (name,) in connection.execute("SELECT datname FROM pg_database")}

    before = names()
    with Databases(postgresql, is_own=False) as databases:
        for _ in range(2):
            with fresh_box(databases, lambda box: box.define(sq.MessageType("note"))) as box:
                assert "note" in box.definitions().types
                assert len(names() - before) >= 3
    assert names() == before


def test_a_role_that_may_make_no_databases_is_told(databases):
    with databases.clone() as dsn, psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE ROLE plain LOGIN")
        with (
            Databases(make_conninfo(dsn, user="plain"), is_own=False) as limited,
            pytest.raises(sq.EnvironmentProblem, match="the role of the tests' server can't create databases"),
            limited.clone(),
        ):
            pass
