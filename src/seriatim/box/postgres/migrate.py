"""Create the schema of a box, or migrate it to the version that this seriatim works with.

The tables of a box are made by the baseline, the files of ``schema/tables/``, and by migrations, which change tables and rows only; a
migration is never edited, and calls no function that it doesn't bring along. Functions and views have one present text each
(`routines`): each migration of a box replaces all of them. Everything runs in one transaction, one process at a time, while nobody
else publishes or has messages in hand: no transaction sees two versions. A superuser or a member of the owner migrates a box as its
owner, which has to own all functions. There is no way back: a newer schema needs a newer seriatim. A box stores the checksums of its
migrations, and of each set of functions and views that it has had, so a box of a different build is detected.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import psycopg

from seriatim.box.postgres.migration_locks import SETTINGS, MigrationLocks
from seriatim.box.postgres.replacement import Replacement
from seriatim.box.postgres.routines import by_name, checksum, of_tables, routines, rules
from seriatim.box.postgres.statements import Statements
from seriatim.box.postgres.template import for_schema, template, with_constants
from seriatim.errors import BoxMigrated, EnvironmentProblem, SchemaMismatch, SeriatimError

LEAST_POSTGRESQL = 16
_PACKAGE = "seriatim.box.postgres"
_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_RELATION = re.compile(r"(?:CREATE (?:UNLOGGED )?(?:TABLE|SEQUENCE) \{schema\}\.|RENAME TO )(\w+)")
#: The last version before the baseline, from which a box is upgraded in place; the SHA-256 of its migrations' checksums, and the last
#: commit that upgrades an older box to it.
_FORMER = 89
_FORMER_CHECKSUM = "d2f5e086bde1a484dd2addcfcfadd520efea44eb34229558b97f1dd847326790"
_FORMER_COMMIT = "8473f540"
_SHOWN = 5
_PATIENCE_S = 5


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration: its `number` and its `name`. Numbers ascend, and may have gaps."""

    number: int
    name: str

    @property
    def text(self) -> str:
        """Its SQL, a template of the schema's name."""
        if self == BASELINE:
            return "\n".join(template(_PACKAGE, f"schema/tables/{name}") for name in _tables())
        return template(_PACKAGE, f"migrations/{self.number:04}_{self.name}.sql")

    @property
    def checksum(self) -> str:
        """The SHA-256 of its text, in hexadecimal digits."""
        return _checksum(self)


@cache
def _checksum(migration: Migration) -> str:
    return hashlib.sha256(with_constants(migration.text).encode()).hexdigest()


#: The tables of a new box.
BASELINE = Migration(_FORMER + 1, "baseline")


@dataclass(frozen=True, slots=True)
class Applied:
    version: int
    checksums: Mapping[int, str | None]
    #: The checksums of all sets of functions and views that it has had; the last one is the present one.
    function_sets: Sequence[str]
    names: Sequence[str]
    #: The functions and views of this seriatim that the box lacks.
    missing: Sequence[str]

    @property
    def is_present(self) -> bool:
        """Whether it is the schema that this seriatim works with."""
        return self.version == _newest() and self.function_sets[-1:] == (checksum(),) and not self.missing


@cache
def migrations() -> tuple[Migration, ...]:
    """All migrations, in order; the first one is the baseline."""
    files = resources.files(_PACKAGE).joinpath("migrations").iterdir()
    every = (Migration(int(name[1]), name[2]) for name in (_NAME.fullmatch(file.name) for file in files) if name)
    return BASELINE, *sorted(every, key=lambda migration: migration.number)


def find(statements: Statements) -> Applied | None:
    """Read the versions that have made the box in a schema; None if there is no such schema."""
    schema = statements.schema
    row = statements.one("find_schema", schema=schema, names=list(by_name()))
    if not row.is_there:
        return None
    if not row.is_box:
        raise SchemaMismatch(
            f"the schema {schema} is there, but it is no message box",
            remedy="give another schema to the box, or drop that one",
        )
    checksums = dict(statements.rows("applied_migrations" if row.has_checksums else "recorded_migrations"))
    sets = (
        statements.rows("applied_functions" if row.has_function_sets else "recorded_functions")
        if row.keeps_function_sets
        else []
    )
    return Applied(
        max(checksums, default=0), checksums, tuple(one_set.checksum for one_set in sets), sets[-1].names if sets else (),
        tuple(row.missing),
    )  # fmt: skip


def check(statements: Statements, applied: Applied | None) -> None:
    """Refuse a box that this seriatim can't work with; `applied` is the result of `find`."""
    _check_server(statements.connection)
    schema = statements.schema
    if applied is None:
        raise SchemaMismatch(f"there is no message box in the schema {schema}", remedy="seriatim box migrate")
    _refuse(applied, schema)
    if applied.version < _newest():
        raise SchemaMismatch(
            f"the schema {schema} has version {applied.version}, and this seriatim works with {_newest()}",
            remedy="seriatim box migrate",
        )
    if applied.missing:
        raise SchemaMismatch(
            f"the schema {schema} lacks functions or views of its version {applied.version}: {_listed(applied.missing)}",
            remedy="seriatim box migrate, which makes them again",
        )
    if not applied.is_present:
        raise SchemaMismatch(
            f"the functions of the schema {schema} are of an earlier seriatim of the same version {applied.version}",
            remedy="seriatim box migrate",
        )


def migrate(statements: Statements) -> list[Migration]:
    """Make a box, or bring it up to date, in the transaction of the statements' connection."""
    connection, schema = statements.connection, statements.schema
    _check_server(connection)
    locks = MigrationLocks(statements)
    locks.hold_schema()
    # Before anything else: where the owner lacks a function, no other one can be called.
    for row in statements.rows("made_by_others", schema=schema, names=[*by_name(), *_relations()]):
        connection.execute(row.given)
    applied = find(statements)
    if applied is None:
        connection.execute(for_schema(_everything(), schema))
        return list(migrations())
    _refuse(applied, schema)
    statements.do("become_owner", schema=schema)
    pending = [migration for migration in migrations() if migration.number > applied.version]
    if not applied.is_present:
        locks.lock_out()
    replacement = Replacement(statements, applied.names)
    replacement.make_table_functions()
    if pending:
        replacement.take_down_parsed()
    for migration in pending:
        former = migration == BASELINE  # it has these tables
        text = template(_PACKAGE, "schema/take_over.sql") if former else migration.text
        connection.execute(for_schema(text, schema))
    replacement.make_all()
    connection.execute(for_schema("\n".join([*rules(), _rights(), _records(pending)]), schema))
    return pending


def fresh_sql(schema: str) -> str:
    """The SQL that makes a box, as one transaction, as `migrate` does in an empty database."""
    settings = "\n".join(f"SET LOCAL {name} = '{value}';" for name, value in SETTINGS.items())
    return f"BEGIN;\n\n{settings}\n\n{for_schema(_everything(), schema).decode()}\nCOMMIT;"


def _everything() -> str:
    steps = [
        "CREATE SCHEMA {schema};", *(routine.text for routine in of_tables()), *(migration.text for migration in migrations()),
        *(routine.text for routine in routines()), *rules(), _rights(), _records(migrations()),
    ]  # fmt: skip
    return "\n".join(steps)


def _rights() -> str:
    """Return the template that gives each role the functions that it needs, and no others."""
    return "".join(
        f"{template(_PACKAGE, f'sql/schema/{name}.sql').strip()};\n" for name in ("shut_all_out", "set_access_again")
    )


def _records(applied: Sequence[Migration]) -> str:
    rows = ",\n    ".join(f"({migration.number}, '{migration.name}', '{migration.checksum}')" for migration in applied)
    names = ", ".join(f"'{name}'" for name in by_name())
    migrated = f"INSERT INTO {{schema}}.migrations (number, name, checksum) VALUES\n    {rows};\n" if rows else ""
    return (
        f"{migrated}INSERT INTO {{schema}}.function_sets (checksum, names)\n"
        f"VALUES ('{checksum()}', ARRAY[{names}]) ON CONFLICT (checksum) DO NOTHING;\n"
    )


def _relations() -> list[str]:
    """Return the names of all tables and sequences that a box has, or has had."""
    texts = [template(_PACKAGE, "schema/take_over.sql"), *(migration.text for migration in migrations())]
    return _RELATION.findall("\n".join(texts))


def _newest() -> int:
    return migrations()[-1].number


@cache
def _tables() -> tuple[str, ...]:
    return tuple(sorted(file.name for file in resources.files(_PACKAGE).joinpath("schema/tables").iterdir()))


def _refuse(applied: Applied, schema: str) -> None:
    """Refuse a box that can't be brought up to date."""
    newest = _newest()
    if applied.version > newest:
        raise BoxMigrated(
            f"the schema {schema} has version {applied.version}, and this seriatim knows {newest} at most",
            remedy="a newer seriatim migrated it: pip install --upgrade seriatim",
        )
    if checksum() in applied.function_sets[:-1]:
        raise BoxMigrated(
            f"the functions of the schema {schema} are of a newer seriatim of the same version {applied.version}",
            remedy="a newer seriatim migrated it: pip install --upgrade seriatim",
        )
    if applied.version < _FORMER:
        raise SchemaMismatch(
            f"the schema {schema} has version {applied.version}, and this seriatim upgrades those from {_FORMER} on",
            remedy=f"upgrade it with the commit {_FORMER_COMMIT} of seriatim first, and then with this one",
        )
    if applied.version == _FORMER:
        marks = "".join(f"{number} {mark}\n" for number, mark in sorted(applied.checksums.items()))
        if hashlib.sha256(marks.encode()).hexdigest() != _FORMER_CHECKSUM:
            raise _of_another_build(schema, f"its migrations up to {_FORMER} were other texts there")
        return
    ours = {migration.number: migration for migration in migrations() if migration.number <= applied.version}
    for number in sorted(ours.keys() | applied.checksums.keys()):
        migration = ours.get(number)
        if migration is None or number not in applied.checksums:
            which = "which this one hasn't" if migration is None else "which was not applied there"
            raise _of_another_build(schema, f"there is a migration {number:04}, {which}")
        if applied.checksums[number] != migration.checksum:
            raise _of_another_build(schema, f"migration {number:04} ({migration.name}) was another text there")


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def _of_another_build(schema: str, problem: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"another build of seriatim has made the schema {schema}: {problem}",
        remedy="use the build that made it; or make a new box, in another schema, or in this one after "
        f"DROP SCHEMA {schema} CASCADE, which deletes all that is in it",
    )


def _check_server(connection: psycopg.Connection) -> None:
    version = connection.info.server_version // 10000
    if version < LEAST_POSTGRESQL:
        raise EnvironmentProblem(
            f"PostgreSQL {version} is too old for a message box", remedy=f"use {LEAST_POSTGRESQL} or newer"
        )


class BoxVersion:
    __slots__ = ("__weakref__", "_dsn", "_found", "_schema")

    def __init__(self, dsn: str, schema: str, applied: Applied | None) -> None:
        self._dsn, self._schema, self._found = dsn, schema, applied

    def changed_to(self) -> str | None:
        """Return the box's present state in words; None: it is unchanged, or can't be read now. Makes a separate connection."""
        if self._found is None:
            return None
        try:
            with psycopg.connect(self._dsn, connect_timeout=_PATIENCE_S) as connection:
                now = find(Statements(connection, self._schema))
        except (psycopg.Error, SeriatimError):
            return None
        if now is None or (
            now.function_sets[-1:] == self._found.function_sets[-1:] and now.version == self._found.version
        ):
            return None
        if now.version != self._found.version:
            return f"it has version {now.version}, and had {self._found.version} when this process opened it"
        return f"its functions are others of version {now.version} than when this process opened it"
