"""Sessions in transactions that SQLAlchemy began."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest
from sqlalchemy import Column, Integer, create_engine, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import Session, declarative_base, scoped_session, sessionmaker

import seriatim as sq
from tests.databases import box_with

Base = declarative_base()


class Row(Base):
    __tablename__ = "joined"
    id = Column(Integer, primary_key=True)


def _prepared(box):
    box.define(
        sq.MessageType("order"),
        sq.Queue("orders", sq.Fifo(), group=sq.WHOLE_QUEUE),
        sq.Subscription("orders", where="type = 'order'", to="orders"),
    )
    with box.session() as tx:
        tx.connection.execute("CREATE TABLE joined (id int PRIMARY KEY)")


box = box_with(_prepared)


def address(box):
    return box.dsn.replace("postgresql://", "postgresql+psycopg://")


@pytest.fixture
def engine(box):
    made = create_engine(address(box))
    yield made
    made.dispose()


def there(box):
    with box.session() as tx:
        rows = tx.connection.execute("SELECT id FROM joined ORDER BY id").fetchall()
    return [row[0] for row in rows], len(box.peek("orders"))


def publish(box, connection):
    with box.session(connection) as tx:
        tx.publish(sq.Message(type="order"))


@pytest.mark.parametrize("commits", [True, False])
def test_a_session_commits_or_rolls_back_both(box, engine, commits):
    with Session(engine) as session:
        session.add(Row(id=1))
        publish(box, sq.join(session))
        session.commit() if commits else session.rollback()
    assert there(box) == (([1], 1) if commits else ([], 0))


@pytest.mark.parametrize("commits", [True, False])
def test_so_does_a_connection_in_which_nothing_has_begun(box, engine, commits):
    with engine.connect() as connection:
        publish(box, sq.join(connection))
        connection.execute(text("INSERT INTO joined VALUES (1)"))
        connection.commit() if commits else connection.rollback()
    assert there(box) == (([1], 1) if commits else ([], 0))


def test_and_one_that_has_begun(box, engine):
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO joined VALUES (1)"))
        publish(box, sq.join(connection))
    assert there(box) == ([1], 1)


def test_a_row_that_can_not_be_written_fails_before_its_message(box, engine):
    with Session(engine) as session:
        session.add_all([Row(id=1)])
        session.commit()
        session.add(Row(id=1))
        with pytest.raises(IntegrityError):
            sq.join(session)
    assert there(box) == ([1], 0)


@pytest.mark.parametrize("commits", [True, False])
def test_with_asyncio(box, commits):
    async def use():
        engine = create_async_engine(address(box))
        face = sq.AsyncMessageBox(box)
        async with AsyncSession(engine) as session:
            session.add(Row(id=1))
            async with face.session(await sq.join(session)) as tx:
                await tx.publish(sq.Message(type="order"))
            await (session.commit() if commits else session.rollback())
        async with engine.connect() as connection:
            async with face.session(await sq.join(connection)) as tx:
                await tx.publish(sq.Message(type="order"))
            await (connection.commit() if commits else connection.rollback())
        await engine.dispose()

    asyncio.run(use())
    assert there(box) == (([1], 2) if commits else ([], 0))


def test_scoped_sessions(box, engine):
    scoped = scoped_session(sessionmaker(engine))
    scoped.add(Row(id=1))
    publish(box, sq.join(scoped))
    scoped.commit()
    scoped.remove()

    async def use():
        engine = create_async_engine(address(box))
        scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        scoped.add(Row(id=2))
        async with sq.AsyncMessageBox(box).session(await sq.join(scoped)) as tx:
            await tx.publish(sq.Message(type="order"))
        await scoped.commit()
        await scoped.remove()
        await engine.dispose()

    asyncio.run(use())
    assert there(box) == ([1, 2], 2)


def test_another_driver_is_told():
    engine = create_engine("sqlite://")
    with engine.connect() as connection, pytest.raises(sq.UsageError) as told:
        sq.join(connection)
    engine.dispose()
    assert str(told.value).startswith("the driver of this engine is sqlite3 (create_engine('postgresql+psycopg://…')")


@pytest.mark.parametrize("given", [None, "postgresql://…"])
def test_what_is_no_session_is_told(given):
    with pytest.raises(sq.UsageError, match="can't be joined"):
        sq.join(given)


def test_a_connection_of_another_library_is_told():
    with sqlite3.connect(":memory:") as connection, pytest.raises(sq.UsageError, match="Connection can't be joined"):
        sq.join(connection)
