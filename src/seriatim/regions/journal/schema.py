"""The journal's schema: made at first use, and brought up to date; it has a version of its own.

Two processes may make it at once, and there is no lock for that in all databases: whoever comes second finds what the first has made.
"""

from __future__ import annotations

from uuid import uuid4

import psycopg
from psycopg import errors, sql

from seriatim.errors import EnvironmentProblem, SchemaMismatch
from seriatim.regions.journal.statements import Statements, version_script

__all__ = ["DEFAULT_SCHEMA", "VERSION", "bring_up_to_date", "check"]

DEFAULT_SCHEMA = "seriatim_journal"
_VERSIONS = ("0001_journal.sql", "0002_pipelines.sql", "0003_indexes_of_sessions.sql")
#: The version that this seriatim works with.
VERSION = len(_VERSIONS)
#: What whoever comes second is told, of a schema, a table or a row.
_THERE_ALREADY = (errors.DuplicateSchema, errors.DuplicateTable, errors.UniqueViolation, errors.SerializationFailure)
_TRIES = 5


def check(statements: Statements) -> None:
    """Refuse a schema that this seriatim can't work with.

    Raises:
        SchemaMismatch: there is no journal in it, or an older or a newer one.
    """
    version = _version(statements)
    if version is None:
        raise SchemaMismatch(
            f"there is no journal in the schema {statements.schema}",
            remedy="is it the right database and schema? it is made at first use by a process that may make it",
        )
    _refuse_newer(version, statements.schema)
    if version < VERSION:
        raise SchemaMismatch(
            f"the journal in the schema {statements.schema} has version {version}, and this seriatim works with {VERSION}",
            remedy="open it by a role that may change it",
        )


def bring_up_to_date(statements: Statements) -> None:
    """Make the journal, or bring it to the present version; does nothing if it has that.

    Raises:
        SchemaMismatch: the schema is newer, or isn't a journal.
        EnvironmentProblem: the role may not make it.
    """
    for _ in range(_TRIES):
        version = _version(statements)
        if version is not None:
            _refuse_newer(version, statements.schema)
            if version == VERSION:
                statements.connection.rollback()
                return
        try:
            _make(statements, version or 0)
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


def _make(statements: Statements, version: int) -> None:
    connection = statements.connection
    if version == 0:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(statements.schema)))
    for file in _VERSIONS[version:]:
        connection.execute(version_script(file, statements.schema))
    if version == 0:
        statements.do("begin_journal", id=str(uuid4()), version=VERSION)
    else:
        statements.do("set_version", version=VERSION)


def _version(statements: Statements) -> int | None:
    found = statements.rows("find_schema", schema=statements.schema)[0]
    if not found.is_there:
        return None
    if not found.is_journal:
        raise SchemaMismatch(
            f"the schema {statements.schema} is there, but it is no journal",
            remedy="give another schema to the journal, or drop that one",
        )
    try:
        row = statements.maybe("read_version")
    except psycopg.errors.InsufficientPrivilege as error:
        raise EnvironmentProblem(
            f"this role may not read the journal: {error.diag.message_primary}", where=f"schema {statements.schema}",
            remedy="GRANT USAGE ON SCHEMA, and SELECT, INSERT, UPDATE, DELETE on its tables",
        ) from error  # fmt: skip
    return None if row is None else int(row.version)


def _refuse_newer(version: int, schema: str) -> None:
    if version > VERSION:
        raise SchemaMismatch(
            f"the journal in the schema {schema} has version {version}, and this seriatim knows {VERSION} at most",
            remedy="a newer seriatim has changed it: pip install --upgrade seriatim",
        )
