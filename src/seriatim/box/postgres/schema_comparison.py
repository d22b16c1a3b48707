"""Compare a box with a box that its migrations create, if the box has no checksums of its migrations.

A new box of the same name is created by the same server in a savepoint, both are described by PostgreSQL's catalogue,
and the savepoint is rolled back. Additions such as an index or a day of the history are ignored; a table's data isn't.
"""

from __future__ import annotations

from collections.abc import Iterable

from seriatim.box.postgres.statements import Statements

__all__ = ["differing"]

#: What a migration writes down and nobody changes.
_RULES = "dialog_rules"


def differing(statements: Statements, scripts: Iterable[bytes]) -> list[str]:
    """The objects of a box that are missing or differ, each with its kind and name; empty if there are none.

    Args:
        statements: the statements of the owner's connection, within a transaction.
        scripts: the SQL that makes a box.
    """
    with statements.connection.transaction(force_rollback=True):
        statements.do("qualify_names")
        found = _catalog(statements)
        statements.do("set_schema_aside")
        for script in scripts:
            statements.connection.execute(script)
        made = _catalog(statements)
    return sorted(" ".join(key) for key, definition in made.items() if found.get(key) != definition)


def _catalog(statements: Statements) -> dict[tuple[str, str], str]:
    rows = statements.rows("catalog", schema=statements.schema)
    found = {(kind, name): definition for kind, name, definition in rows}
    if ("table", f"{statements.schema}.{_RULES}") in found:
        (found["rows of", _RULES],) = statements.one("written_rules")
    return found
