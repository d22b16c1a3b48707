"""Whether a box is what its migrations make, where nobody has written down what these were.

All of it is asked of PostgreSQL, and compared with what it says of a box that is made for that, under the same name and by
the same server, in a savepoint that is rolled back. What somebody has added is left out of it, such as an index or the day
of a history; what is in a table is not.
"""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
from psycopg.rows import tuple_row

from seriatim.box.statements import statement

__all__ = ["differing"]

#: What a migration writes down and nobody changes.
_RULES = "dialog_rules"


def differing(connection: psycopg.Connection, schema: str, scripts: Iterable[bytes]) -> list[str]:
    """The things of a box that aren't there, or not as they are made: kind and name of each; none, if it is the same.

    Args:
        connection: of a role that owns the box; a transaction of it goes on.
        schema: that of the box.
        scripts: what makes one.
    """
    with connection.transaction(force_rollback=True), connection.cursor(row_factory=tuple_row) as cursor:
        cursor.execute(statement("qualify_names", schema))
        found = _catalog(cursor, schema)
        cursor.execute(statement("set_schema_aside", schema))
        for script in scripts:
            cursor.execute(script)
        made = _catalog(cursor, schema)
    return sorted(" ".join(key) for key, definition in made.items() if found.get(key) != definition)


def _catalog(cursor: psycopg.Cursor[tuple[str, ...]], schema: str) -> dict[tuple[str, str], str]:
    rows = cursor.execute(statement("catalog", schema), {"schema": schema}).fetchall()
    found = {(kind, name): definition for kind, name, definition in rows}
    if ("table", f"{schema}.{_RULES}") in found:
        ((found["rows of", _RULES],),) = cursor.execute(statement("written_rules", schema)).fetchall()
    return found
