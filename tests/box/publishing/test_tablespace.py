"""A whole box lies in a tablespace, if the connections of its owner say so."""

from __future__ import annotations

import psycopg
import pytest

import seriatim as sq
from seriatim.operations import retention


@pytest.fixture
def tablespace(postgresql):
    """A tablespace of the server; it is inside of its folder, which no real one would be."""
    with psycopg.connect(postgresql, autocommit=True) as connection:
        connection.execute("SET allow_in_place_tablespaces = on")
        connection.execute("CREATE TABLESPACE fast LOCATION ''")
        yield "fast"
        connection.execute("DROP SCHEMA IF EXISTS fast_box CASCADE")
        connection.execute("DROP TABLESPACE fast")


def test_a_box_in_a_tablespace(postgresql, tablespace):
    dsn = f"{postgresql}&options=-c%20default_tablespace%3D{tablespace}"
    with sq.MessageBox.open(dsn, schema="fast_box") as box:
        retention.purge(box)  # makes the days of the history
        with box.session() as tx:
            elsewhere = tx.connection.execute(
                """
                SELECT class.relname FROM pg_class AS class
                LEFT JOIN pg_tablespace AS space ON space.oid = class.reltablespace
                WHERE class.relnamespace = 'fast_box'::regnamespace AND class.relkind IN ('r', 'i')
                    AND space.spcname IS DISTINCT FROM %s
                """,
                [tablespace],
            ).fetchall()
            days = tx.connection.execute("SELECT count(*) FROM fast_box.history_days()").fetchone()
    assert elsewhere == []
    assert days == (8,)


def test_a_queue_has_none():
    with pytest.raises(sq.UsageError, match="Queue: unknown argument 'tablespace'"):
        sq.Queue("q", policy=sq.Unordered(), tablespace="fast")
