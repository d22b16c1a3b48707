"""Makes the schema of a box and brings it up to date; knows which version this seriatim works with.

A box is made by all migrations, in order; an older one goes through those that it lacks; in one transaction, one process
at a time. There is no way back: a newer schema is for a newer seriatim.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

import psycopg
from psycopg import sql
from psycopg.rows import tuple_row

from seriatim.box.statements import checked_schema, script, statement
from seriatim.errors import EnvironmentProblem, SchemaMismatch

__all__ = ["LEAST_POSTGRESQL", "Migration", "check", "fresh_sql", "migrate", "migrations", "version_of"]

LEAST_POSTGRESQL = 16
_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step forward: its `number`, and its `name`."""

    number: int
    name: str

    @property
    def path(self) -> str:
        """Its file, from the package."""
        return f"migrations/{self.number:04}_{self.name}.sql"


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations, in order."""
    names = (_NAME.fullmatch(file.name) for file in resources.files("seriatim.box").joinpath("migrations").iterdir())
    return tuple(sorted((Migration(int(n[1]), n[2]) for n in names if n), key=lambda one: one.number))


def version_of(connection: psycopg.Connection, schema: str) -> int | None:
    """The version of the box in a schema; None if there is no such schema.

    Raises:
        SchemaMismatch: there is a schema of that name that isn't a box.
    """
    with connection.cursor(row_factory=tuple_row) as cursor:
        is_there, is_box = cursor.execute(statement("find_schema", schema), {"schema": schema}).fetchall()[0]
        if not is_there:
            return None
        if not is_box:
            raise SchemaMismatch(
                f"the schema {schema} is there, but it is no message box",
                remedy="give another schema to the box, or drop that one",
            )
        (version,) = cursor.execute(statement("schema_version", schema)).fetchall()[0]
        return version or 0


def check(connection: psycopg.Connection, schema: str, found: int | None) -> None:
    """Refuse a box that this seriatim can't work with; `found` is the version that it has, as of `version_of`.

    Raises:
        SchemaMismatch: there is none, or an older or a newer one; names the command that helps.
        EnvironmentProblem: PostgreSQL is too old.
    """
    _check_server(connection)
    known = migrations()[-1].number
    if found is None:
        raise SchemaMismatch(f"there is no message box in the schema {schema}", remedy="seriatim box migrate")
    if found < known:
        raise SchemaMismatch(
            f"the schema {schema} has version {found}, and this seriatim works with {known}",
            remedy="seriatim box migrate",
        )
    _refuse_newer(found, schema)


def migrate(connection: psycopg.Connection, schema: str) -> list[Migration]:
    """Make a box, or bring it up to date, in the transaction of this connection.

    Returns:
        what was applied; empty if it was up to date.

    Raises:
        SchemaMismatch: the schema is newer than this seriatim, or no box.
        EnvironmentProblem: PostgreSQL is too old.
    """
    _check_server(connection)
    connection.execute(statement("lock_schema", schema), {"schema": schema})
    found = version_of(connection, schema)
    _refuse_newer(found or 0, schema)
    missing = [one for one in migrations() if one.number > (found or 0)]
    for one in missing:
        connection.execute(script(one.path, schema))
        connection.execute(statement("record_migration", schema), {"number": one.number, "name": one.name})
    if missing:
        connection.execute(statement("shut_all_out", schema))
        connection.execute(statement("let_in_again", schema))
    return missing


def fresh_sql(schema: str) -> str:
    """The SQL that makes a box, as one transaction; the same as `migrate` does where there is none."""
    steps = "\n".join(script(one.path, schema).decode() for one in migrations())
    applied = ",\n    ".join(f"({one.number}, '{one.name}')" for one in migrations())
    target = sql.Identifier(checked_schema(schema), "migrations").as_string(None)
    record = f"INSERT INTO {target} (number, name) VALUES\n    {applied};"
    rights = statement("shut_all_out", schema).decode().strip()
    return f"BEGIN;\n\n{steps}\n{rights};\n\n{record}\n\nCOMMIT;"


def _refuse_newer(found: int, schema: str) -> None:
    known = migrations()[-1].number
    if found > known:
        raise SchemaMismatch(
            f"the schema {schema} has version {found}, and this seriatim knows {known} at most",
            remedy="a newer seriatim migrated it: pip install --upgrade seriatim",
        )


def _check_server(connection: psycopg.Connection) -> None:
    found = connection.info.server_version // 10000
    if found < LEAST_POSTGRESQL:
        raise EnvironmentProblem(
            f"PostgreSQL {found} is too old for a message box", remedy=f"use {LEAST_POSTGRESQL} or newer"
        )
