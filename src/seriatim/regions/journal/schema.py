"""The journal's schema: made at first use, and brought up to date; it has a version of its own.

``schema/tables.sql`` is the baseline; a later version is a file behind it, which is never edited: ``schema/0005_name.sql`` brings a
journal to version 5. Two processes may make it at once, and there is no lock for that in all databases: the second one finds what the
first one has made.
"""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from uuid import uuid4

import psycopg
from psycopg import errors, sql

from seriatim.box.postgres.template import for_schema, template
from seriatim.errors import BoxMigrated, EnvironmentProblem, SchemaMismatch
from seriatim.regions.journal.statements import JournalStatements

DEFAULT_SCHEMA = "seriatim_journal"
_PACKAGE = "seriatim.regions.journal"
#: The version of the baseline. A journal of the version before it has the same tables, and is used unchanged; an older one is first
#: upgraded by this commit.
BASELINE = 4
_FORMER_COMMIT = "8473f540"
_STEP = re.compile(r"(\d{4})_[a-z0-9_]+\.sql")
#: The errors of the second process, for a schema, a table or a row.
_THERE_ALREADY = (errors.DuplicateSchema, errors.DuplicateTable, errors.UniqueViolation, errors.SerializationFailure)
_TRIES = 5


@cache
def scripts() -> dict[int, str]:
    """Return the SQL that brings a journal to each version, from none or from the version before it; templates of the schema's name."""
    names = (file.name for file in resources.files(_PACKAGE).joinpath("schema").iterdir())
    steps = {
        int(match[1]): template(_PACKAGE, f"schema/{match[0]}")
        for match in map(_STEP.fullmatch, sorted(names))
        if match
    }
    return {BASELINE: template(_PACKAGE, "schema/tables.sql"), **steps}


def newest() -> int:
    return max(scripts())


def check(statements: JournalStatements) -> None:
    """Refuse a schema that this seriatim can't work with."""
    version = _version(statements)
    if version is None:
        raise SchemaMismatch(
            f"there is no journal in the schema {statements.schema}",
            remedy="is it the right database and schema? it is made at first use by a process that may make it",
        )
    _refuse(version, statements.schema)
    if version < newest():
        raise SchemaMismatch(
            f"the journal in the schema {statements.schema} has version {version}, and this seriatim works with {newest()}",
            remedy="open it by a role that may change it",
        )


def bring_up_to_date(statements: JournalStatements) -> None:
    """Make the journal, or bring it to the present version; does nothing if it has that."""
    for _ in range(_TRIES):
        version = _version(statements)
        if version is not None:
            _refuse(version, statements.schema)
            if version == newest():
                statements.connection.rollback()
                return
        try:
            _make(statements, version)
            statements.connection.commit()
        except _THERE_ALREADY:
            statements.connection.rollback()
        except errors.InsufficientPrivilege as error:
            statements.connection.rollback()
            raise EnvironmentProblem(
                f"this role may not make the journal: {error.diag.message_primary}",
                where=f"schema {statements.schema}",
                remedy="GRANT CREATE ON DATABASE … to it, or open the journal once by a role that may",
            ) from error
    check(statements)


def _make(statements: JournalStatements, version: int | None) -> None:
    connection = statements.connection
    if version is None:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(statements.schema)))
    reached = (
        BASELINE - 1 if version is None else max(version, BASELINE)
    )  # the version before has the baseline's tables
    for number, text in scripts().items():
        if number > reached:
            connection.execute(for_schema(text, statements.schema))
    if version is None:
        statements.do("begin_journal", id=str(uuid4()), version=newest())
    else:
        statements.do("set_version", version=newest())


def _version(statements: JournalStatements) -> int | None:
    schema_row = statements.one("find_schema", schema=statements.schema)
    if not schema_row.is_there:
        return None
    if not schema_row.is_journal:
        raise SchemaMismatch(
            f"the schema {statements.schema} is there, but it is no journal",
            remedy="give another schema to the journal, or drop that one",
        )
    try:
        row = statements.maybe("read_version")
    except psycopg.errors.InsufficientPrivilege as error:
        raise EnvironmentProblem(
            f"this role may not read the journal: {error.diag.message_primary}",
            where=f"schema {statements.schema}",
            remedy="GRANT USAGE ON SCHEMA, and SELECT, INSERT, UPDATE, DELETE on its tables",
        ) from error
    return None if row is None else int(row.version)


def _refuse(version: int, schema: str) -> None:
    if version > newest():
        raise BoxMigrated(
            f"the journal in the schema {schema} has version {version}, and this seriatim knows {newest()} at most",
            remedy="a newer seriatim has changed it: pip install --upgrade seriatim",
        )
    if version < BASELINE - 1:
        raise SchemaMismatch(
            f"the journal in the schema {schema} has version {version}, and this seriatim upgrades those from {BASELINE - 1} on",
            remedy=f"upgrade it with the commit {_FORMER_COMMIT} of seriatim first, and then with this one",
        )
