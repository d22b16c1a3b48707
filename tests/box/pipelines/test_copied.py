"""Columns become rows of PostgreSQL's COPY, and rows columns."""

from __future__ import annotations

import numpy as np
import psycopg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seriatim.box.pipelines.copied import BEGIN, END, columns_of, rows_of, written
from seriatim.box.postgres.statements import received

TEXTS, NUMBERS = st.text(st.characters(blacklist_characters="\0", codec="utf-8")), st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(
    st.tuples(st.none() | TEXTS, st.none() | st.binary(), st.none() | NUMBERS, NUMBERS), min_size=1, max_size=20
)


def portions_of(cursor, query):
    with cursor.copy(query):
        yield from received(cursor.connection)


def copied(cursor, query):
    return [row for rows in rows_of(portions_of(cursor, query)) for row in rows]


def test_they_come_back_as_they_were(box):
    with psycopg.connect(box.dsn, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE TEMPORARY TABLE kept (at bigint, t text, b bytea, n bigint, m bigint, c text, x int, y boolean, z timestamptz)"
        )

        @given(ROWS)
        def goes_there_and_back(rows):
            texts, bodies, numbers, others = zip(*rows, strict=True)
            n = len(rows)
            columns = {
                "t": pa.array(texts, pa.string()),
                "b": pa.array(bodies, pa.binary()),
                "n": pa.array(numbers, pa.int64()),
                "m": pa.array(others, pa.int64()),
            }
            cursor.execute("TRUNCATE kept")
            with cursor.copy("COPY kept FROM STDIN (FORMAT binary)") as copy:
                copy.write(BEGIN)
                fields = [np.arange(n), columns["t"], columns["b"], columns["n"], np.array(others, np.int64)]
                copy.write(written(n, [*fields, b"same", np.arange(n, dtype=np.int32), b"\1", None]))
                copy.write(END)
            assert cursor.execute("SELECT t, b, n, m, c, x, y, z FROM kept ORDER BY at").fetchall() == [
                (*row, "same", at, True, None) for at, row in enumerate(rows)
            ]
            query = "COPY (SELECT t, b, n, m, y, z, to_timestamp(x) FROM kept ORDER BY at) TO STDOUT (FORMAT binary)"
            found = copied(cursor, query)
            moment = pa.timestamp("us", "UTC")
            kinds = {name: column.type for name, column in columns.items()} | {
                "y": pa.bool_(),
                "z": moment,
                "s": moment,
            }
            read = columns_of(found, kinds)
            assert {name: read[name] for name in columns} == columns
            assert read["y"].to_pylist() == [True] * n
            assert read["z"].null_count == n
            assert read["s"].cast(pa.int64()).to_pylist() == [at * 1_000_000 for at in range(n)]

        goes_there_and_back()
        cursor.execute("TRUNCATE kept")
        assert copied(cursor, "COPY kept TO STDOUT (FORMAT binary)") == []


def test_an_error_amid_the_rows_is_raised_and_the_connection_goes_on(box):
    with psycopg.connect(box.dsn) as connection, connection.cursor() as cursor:
        divided = "COPY (SELECT 1 / (5000 - n) FROM generate_series(1, 10000) AS n) TO STDOUT (FORMAT binary)"
        with pytest.raises(psycopg.errors.DivisionByZero):
            copied(cursor, divided)
        connection.rollback()
        portions = portions_of(cursor, "COPY (SELECT generate_series(1, 1000000)) TO STDOUT")
        assert next(portions)
        portions.close()
        connection.rollback()
        assert cursor.execute("SELECT 1").fetchone() == (1,)
