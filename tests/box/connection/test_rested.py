"""A connection that was idle and was dropped meanwhile: the call that comes next works, by another connection."""

from __future__ import annotations

import threading

import psycopg
import pytest

import seriatim as sq
from seriatim import rested
from seriatim.rested import RestedConnection, Restedness
from tests.box.cutting import Cutting
from tests.dropping import LOSSES, asked_at_once  # noqa: F401 -- a fixture

pytestmark = pytest.mark.usefixtures("asked_at_once")


@pytest.fixture
def road(box):
    box.define(
        sq.MessageType("order", properties={"customer": "string"}),
        sq.Queue("work", sq.Fifo(), group="customer"),
        sq.Subscription("all", where="type = 'order'", to="work"),
    )
    with Cutting(box.dsn) as opened:
        yield opened


def order(customer):
    return sq.Message(type="order", context={"customer": customer})


@pytest.mark.parametrize("loss", LOSSES)
def test_a_box_uses_another_connection(box, road, loss):
    with sq.MessageBox.open(road.dsn, schema=box.schema) as far:
        far.publish(order("c1"))
        LOSSES[loss](road)
        far.publish(order("c2"))
        LOSSES[loss](road)
        with far.session() as session:
            delivery = session.receive("work")
            assert [one.context["customer"] for one in delivery.messages] == ["c1"]
            delivery.done()
    with box.session() as session:
        assert session.receive("work").group == "c2"


def test_many_that_were_forgotten_are_asked_once(box, road):
    with sq.MessageBox.open(road.dsn, schema=box.schema, connections=6) as far:
        meet = threading.Barrier(6, timeout=120)

        def use():
            with far.access.connect() as connection:
                connection.execute("SELECT 1")
                meet.wait()

        threads = [threading.Thread(target=use) for _ in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        asked = []
        ask = RestedConnection.ask

        def count(connection, within_s):
            asked.append(connection)
            ask(connection, within_s)

        road.forget()
        RestedConnection.ask = count
        try:
            far.publish(order("c1"))
        finally:
            RestedConnection.ask = ask
        # The one that didn't answer tells of the others, which are dropped without a question.
        assert sum(one.closed for one in asked) == 1


def test_a_connection_that_broke_in_use_has_the_others_asked(monkeypatch, box):
    monkeypatch.setattr(rested, "RESTED_S", 1000.0)
    with sq.MessageBox.open(box.dsn, schema=box.schema, connections=2) as far:
        with far.access.connect() as one, far.access.connect() as other:
            pids = [each.execute("SELECT pg_backend_pid()").fetchone()[0] for each in (one, other)]
        with box.access.connect() as own:
            own.execute("SELECT pg_terminate_backend(pid, 10000) FROM unnest(%s::int[]) AS pid", [pids])
        with pytest.raises(psycopg.OperationalError), far.access.connect() as connection:
            connection.execute("SELECT 1")
        with far.access.connect() as connection:
            assert connection.execute("SELECT pg_backend_pid()").fetchone()[0] not in pids


def test_an_idle_connection_is_asked_and_one_in_use_is_not(box, monkeypatch):
    with RestedConnection.connect(box.dsn) as connection:
        checks = Restedness()
        asked: list[RestedConnection] = []

        def ask(one: RestedConnection, _: float) -> None:
            asked.append(one)

        monkeypatch.setattr(RestedConnection, "ask", ask)
        monkeypatch.setattr(rested, "RESTED_S", 1000.0)
        checks.check(connection)
        assert asked == []
        monkeypatch.setattr(rested, "RESTED_S", 0.0)
        checks.check(connection)
        assert asked == [connection]


def test_the_question_begins_no_transaction(box):
    with RestedConnection.connect(box.dsn) as connection:
        connection.ask()
        assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
        assert connection.execute("SELECT 1").fetchone() == (1,)
        connection.rollback()
        connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="lost"):  # it isn't idle
            connection.ask()
