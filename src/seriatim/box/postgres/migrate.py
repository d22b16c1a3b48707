"""Create the schema of a box, or migrate it to the version that this seriatim works with.

All migrations, in order, create a box; an older box gets the migrations that it lacks. This runs in one transaction,
and one process at a time. There is no way back: a newer schema needs a newer seriatim. A migration is never edited. A
box stores the checksum of each applied migration, so a box of a different build is detected. The source calls functions of
the schema by their names, so a box that lacks one of them is refused when it is opened.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import psycopg
from psycopg import errors, sql

from seriatim.box.postgres.schema_comparison import differing
from seriatim.box.postgres.statements import Statements, checked_schema, script, statement, template
from seriatim.errors import EnvironmentProblem, SchemaMismatch, Unavailable

__all__ = [
    "LEAST_POSTGRESQL",
    "AppliedMigrations",
    "Migration",
    "check",
    "find",
    "fresh_sql",
    "functions",
    "migrate",
    "migrations",
]

LEAST_POSTGRESQL = 16
_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_FUNCTION = re.compile(r"^(CREATE|CREATE OR REPLACE|DROP) FUNCTION \{schema\}\.(\w+)", re.MULTILINE)
#: Whoever makes a box takes a while; others of the same box wait for that. Everybody who uses it waits behind a migration.
_OTHERS, _USERS = "60s", "10s"
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration: its `number` and its `name`. Numbers ascend, and may have gaps."""

    number: int
    name: str

    @property
    def path(self) -> str:
        """The path of its file in the package."""
        return f"migrations/{self.number:04}_{self.name}.sql"

    @property
    def checksum(self) -> str:
        """The SHA-256 of its text, in hexadecimal digits."""
        return _checksum(self.path)


@dataclass(frozen=True, slots=True)
class AppliedMigrations:
    """The migrations that have made a box.

    Args:
        version: the number of the last applied migration.
        checksums: the checksums of all applied migrations, by number; None for a migration without one. None: the box
            was made by a build that stored no checksums.
        missing: the functions of these migrations that the box lacks.
    """

    version: int
    checksums: Mapping[int, str | None] | None
    missing: Sequence[str]

    @property
    def is_known(self) -> bool:
        """Whether every migration has a checksum."""
        return self.checksums is not None and None not in self.checksums.values()


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations, in order."""
    names = (
        _NAME.fullmatch(file.name) for file in resources.files("seriatim.box.postgres").joinpath("migrations").iterdir()
    )
    return tuple(sorted((Migration(int(n[1]), n[2]) for n in names if n), key=lambda one: one.number))


@cache
def functions() -> tuple[str, ...]:
    """The names of all functions that exist after the migrations."""
    found: dict[str, None] = {}
    for one in migrations():
        for what, name in _FUNCTION.findall(template(one.path)):
            if what == "DROP":
                found.pop(name, None)
            else:
                found[name] = None
    return tuple(found)


def find(statements: Statements) -> AppliedMigrations | None:
    """Read which migrations have made the box in a schema; None if there is no such schema.

    Raises:
        SchemaMismatch: the schema isn't a box.
    """
    schema = statements.schema
    found = statements.one("find_schema", schema=schema, functions=list(functions()))
    if not found.is_there:
        return None
    if not found.is_box:
        raise SchemaMismatch(
            f"the schema {schema} is there, but it is no message box",
            remedy="give another schema to the box, or drop that one",
        )
    if not found.has_checksums:
        version = statements.value("schema_version")
        return AppliedMigrations(version or 0, None, found.missing)
    checksums: dict[int, str | None] = dict(statements.rows("applied_migrations"))
    return AppliedMigrations(max(checksums, default=0), checksums, found.missing)


def check(statements: Statements, found: AppliedMigrations | None) -> None:
    """Refuse a box that this seriatim can't work with; `found` is the result of `find`.

    Raises:
        SchemaMismatch: there is no box, or the box is older, newer, of another build, or lacks functions; names the
            remedy.
        EnvironmentProblem: PostgreSQL is too old.
    """
    _check_server(statements.connection)
    schema, known = statements.schema, migrations()[-1].number
    if found is None:
        raise SchemaMismatch(f"there is no message box in the schema {schema}", remedy="seriatim box migrate")
    if found.version < known:
        raise SchemaMismatch(
            f"the schema {schema} has version {found.version}, and this seriatim works with {known}",
            remedy="seriatim box migrate",
        )
    _refuse_newer(found.version, schema)
    _refuse_edited(found, schema)
    if not found.is_known:
        raise SchemaMismatch(
            f"the schema {schema} doesn't say what its migrations were", remedy="seriatim box migrate, which looks"
        )
    _refuse_incomplete(found, schema)


def migrate(statements: Statements) -> list[Migration]:
    """Make a box, or bring it up to date, in the transaction of the statements' connection.

    Returns:
        the applied migrations; empty if the box was up to date.

    Raises:
        SchemaMismatch: the schema is newer than this seriatim, of another build, lacks functions, or is no box.
        EnvironmentProblem: PostgreSQL is too old.
        Unavailable: other transactions use the box, or migrate it, for too long.
    """
    connection, schema = statements.connection, statements.schema
    _check_server(connection)
    _lock(statements)
    found = find(statements)
    if found is not None:
        _refuse_newer(found.version, schema)
        _refuse_edited(found, schema)
        if not found.is_known:
            _refuse_differing(statements, found)
        if found.version == migrations()[-1].number:
            _refuse_incomplete(found, schema)
    version = 0 if found is None else found.version
    missing = [one for one in migrations() if one.number > version]
    for one in missing:
        connection.execute(script(one.path, schema))
    if missing or (found is not None and not found.is_known):
        statements.do("record_migrations", **_columns())
    if missing:
        statements.do("shut_all_out")
        statements.do("let_in_again")
    return missing


def fresh_sql(schema: str) -> str:
    """The SQL that makes a box, as one transaction, as `migrate` does in an empty database."""
    steps = "\n".join(script(one.path, schema).decode() for one in migrations())
    applied = ",\n    ".join(f"({one.number}, '{one.name}', '{one.checksum}')" for one in migrations())
    target = sql.Identifier(checked_schema(schema), "migrations").as_string(None)
    record = f"INSERT INTO {target} (number, name, checksum) VALUES\n    {applied};"
    rights = statement("shut_all_out", schema).decode().strip()
    return f"BEGIN;\n\n{steps}\n{rights};\n\n{record}\n\nCOMMIT;"


@cache
def _checksum(path: str) -> str:
    return hashlib.sha256(template(path).encode()).hexdigest()


def _columns() -> dict[str, list[int] | list[str]]:
    known = migrations()
    return {
        "numbers": [one.number for one in known],
        "names": [one.name for one in known],
        "checksums": [one.checksum for one in known],
    }


def _lock(statements: Statements) -> None:
    """Lock the schema against other migrations; wait for its users only as long as others can wait behind this lock."""
    schema = statements.schema
    own, _ = statements.one("wait_at_most", most=_OTHERS)
    if own != "0":
        statements.do("wait_at_most", most=own)
    try:
        with statements.connection.transaction():
            statements.do("lock_schema", schema=schema)
    except errors.LockNotAvailable as error:
        holders = statements.rows("holders_of_schema", schema=schema)
        who = ", ".join(f"process {pid} of the role {role!r}" for pid, role in holders) or "somebody"
        raise Unavailable(
            f"{who} has the lock of those who make the schema {schema}", remedy="try again when that has ended"
        ) from error
    if own == "0":
        statements.do("wait_at_most", most=_USERS)


def _refuse_newer(found: int, schema: str) -> None:
    known = migrations()[-1].number
    if found > known:
        raise SchemaMismatch(
            f"the schema {schema} has version {found}, and this seriatim knows {known} at most",
            remedy="a newer seriatim migrated it: pip install --upgrade seriatim",
        )


def _refuse_edited(found: AppliedMigrations, schema: str) -> None:
    """Refuse a box whose checksums show that another build has made it."""
    if found.checksums is None:
        return
    ours = {one.number: one for one in migrations() if one.number <= found.version}
    for number in sorted(ours.keys() | found.checksums.keys()):
        one, mark = ours.get(number), found.checksums.get(number)
        if one is None or number not in found.checksums:
            which = "which this one hasn't" if one is None else "which was not applied there"
            raise _of_another_build(schema, f"there is a migration {number:04}, {which}")
        if mark is not None and mark != one.checksum:
            raise _of_another_build(schema, f"migration {number:04} ({one.name}) was another text there")


def _refuse_differing(statements: Statements, found: AppliedMigrations) -> None:
    """Refuse a box without checksums that differs from the result of its migrations."""
    scripts = [script(one.path, statements.schema) for one in migrations() if one.number <= found.version]
    if others := differing(statements, scripts):
        what = f"of its version {found.version} these are not what they are here: {_listed(others)}"
        raise _of_another_build(statements.schema, what)


def _refuse_incomplete(found: AppliedMigrations, schema: str) -> None:
    """Refuse a box of the newest version that lacks functions."""
    if found.missing:
        raise SchemaMismatch(
            f"the schema {schema} lacks functions of its version {found.version}: {_listed(found.missing)}",
            remedy="restore the box from a backup, with all its functions; or make a new one, in another schema",
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _of_another_build(schema: str, what: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"another build of seriatim has made the schema {schema}: {what}",
        remedy="use the build that made it; or make a new box, in another schema, or in this one after "
        f"DROP SCHEMA {schema} CASCADE, which deletes all that is in it",
    )


def _check_server(connection: psycopg.Connection) -> None:
    found = connection.info.server_version // 10000
    if found < LEAST_POSTGRESQL:
        raise EnvironmentProblem(
            f"PostgreSQL {found} is too old for a message box", remedy=f"use {LEAST_POSTGRESQL} or newer"
        )
