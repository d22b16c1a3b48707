"""Whether a box is what its migrations make, where nobody has written down what these were.

All of it is asked of PostgreSQL, and compared with what it says of a box that is made for that, under the same name and by
the same server, in a savepoint that is rolled back. What somebody has added is left out of it, such as an index or the day
of a history; what is in a table is not.
"""

from __future__ import annotations

from collections.abc import Iterable

from seriatim.box.postgres.statements import Statements

__all__ = ["differing"]

#: What a migration writes down and nobody changes.
_RULES = "dialog_rules"


def differing(statements: Statements, scripts: Iterable[bytes]) -> list[str]:
    """The things of a box that aren't there, or not as they are made: kind and name of each; none, if it is the same.

    Args:
        statements: on a connection of a role that owns the box; a transaction of it goes on.
        scripts: what makes one.
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
