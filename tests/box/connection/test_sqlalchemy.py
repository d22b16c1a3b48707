"""Taking part in a transaction that SQLAlchemy began."""

from __future__ import annotations

import pytest
from sqlalchemy import Column, Integer, MetaData, Table, create_engine, insert, select
from sqlalchemy.orm import Session as OrmSession
from sqlalchemy.pool import NullPool

import seriatim as sq
from tests.box.given_up import given_up


@pytest.fixture
def shop(box):
    """A box, an engine of the same database, and a table."""
    box.define(
        sq.MessageType("order", properties={"id": "long"}),
        sq.Queue("orders", policy=sq.Fifo(), group="id"),
        sq.Subscription("all", where="TRUE", to="orders"),
    )
    engine = create_engine(box.dsn.replace("postgresql://", "postgresql+psycopg://"), poolclass=NullPool)
    orders = Table("orders", MetaData(schema=box.schema), Column("id", Integer, primary_key=True))
    with engine.begin() as connection:
        orders.create(connection)
    yield box, engine, orders
    engine.dispose()


def order(number):
    return sq.Message(type="order", context={"id": number})


def waiting(box):
    return [one.message.context["id"] for one in box.peek("orders")]


def test_what_is_written_and_what_is_published_commit_together(shop):
    box, engine, orders = shop
    for begun in (engine.begin(), given_up(engine.begin())):
        with begun as connection:
            count = len(connection.execute(select(orders)).all())
            connection.execute(insert(orders).values(id=count))
            with box.session(connection=connection.connection.driver_connection) as tx:
                tx.publish(order(count))
            assert waiting(box) == list(range(count))  # the box commits nothing
    with engine.begin() as connection:
        assert connection.execute(select(orders.c.id)).scalars().all() == [0]
    assert waiting(box) == [0]


def test_the_same_through_the_orm(shop):
    box, engine, orders = shop
    for ends in (OrmSession.rollback, OrmSession.commit):
        with OrmSession(engine) as session:
            session.execute(insert(orders).values(id=1))
            with box.session(connection=session.connection().connection.driver_connection) as tx:
                tx.publish(order(1))
            ends(session)
    assert waiting(box) == [1]


def test_a_worker_writes_through_it(shop):
    box, engine, orders = shop
    with box.session() as tx:
        tx.publish([order(1), order(2)])
    for begun in (given_up(engine.begin()), engine.begin(), engine.begin()):
        with begun as connection, box.session(connection=connection.connection.driver_connection) as tx:
            for message in tx.receive("orders"):
                connection.execute(insert(orders).values(id=message.context["id"]))
    with engine.begin() as connection:
        assert connection.execute(select(orders.c.id)).scalars().all() == [1, 2]


def test_the_connection_of_sqlalchemy_itself_is_refused_with_what_to_give(shop):
    box, engine, _ = shop
    with (
        engine.connect() as connection,
        pytest.raises(sq.UsageError, match=r"connection\.connection\.driver_connection"),
        box.session(connection=connection),
    ):
        pytest.fail("entered")
