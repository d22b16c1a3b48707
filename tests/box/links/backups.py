"""A backup of a box, and its restore in place: the box is as it was then, and nothing else notices."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg import sql

__all__ = ["back_up", "restore"]

#: Only added to: what operators and boxes have noted stays readable for the test.
_STAYS = ("operator_log",)
_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    AND relname <> ALL (%s) ORDER BY 1
"""


def back_up(box: Any) -> None:
    """Keep all that the box remembers; one backup a box."""
    with psycopg.connect(box.dsn) as connection:
        connection.execute("DROP SCHEMA IF EXISTS backup CASCADE")
        connection.execute("CREATE SCHEMA backup")
        for table in _tables(connection, box):
            connection.execute(
                sql.SQL("CREATE TABLE {} AS SELECT * FROM {}").format(
                    sql.Identifier("backup", table), sql.Identifier(box.schema, table)
                )
            )


def restore(box: Any) -> None:
    """Let the box be what it was when it was backed up. Sequences go on: no number was given twice by them."""
    with psycopg.connect(box.dsn) as connection:
        tables = _tables(connection, box)
        connection.execute("SET session_replication_role = replica")
        connection.execute(
            sql.SQL("TRUNCATE {} CASCADE").format(sql.SQL(", ").join(sql.Identifier(box.schema, one) for one in tables))
        )
        for table in tables:
            columns = sql.SQL(", ").join(map(sql.Identifier, _columns(connection, box, table)))
            connection.execute(
                sql.SQL("INSERT INTO {} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM {}").format(
                    sql.Identifier(box.schema, table), sql.Identifier("backup", table), columns=columns
                )
            )


def _tables(connection: psycopg.Connection, box: Any) -> list[str]:
    return [name for (name,) in connection.execute(_TABLES, [box.schema, list(_STAYS)])]


def _columns(connection: psycopg.Connection, box: Any, table: str) -> list[str]:
    """What isn't computed from other columns."""
    rows = connection.execute(
        "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''",
        [f"{box.schema}.{table}"],
    )
    return [name for (name,) in rows]
