"""What `MessageBox.define` does: writes declarations into the box, again and again with the same result."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg

from seriatim.box.statements import statement
from seriatim.errors import ActionRefused, UsageError
from seriatim.pipeline.location import Location

__all__ = ["Definition", "define"]

#: What can be defined.
Definition = Location


def define(connection: psycopg.Connection, schema: str, definitions: Iterable[Definition]) -> None:
    """Define each, in the transaction of the connection.

    Raises:
        UsageError: something that can't be defined.
        ActionRefused: a change that doesn't fit what is there.
    """
    for one in definitions:
        match one:
            case Location():
                _define_location(connection, schema, one)
            case _:
                raise UsageError(f"{type(one).__name__} can't be defined in a message box")


def _define_location(connection: psycopg.Connection, schema: str, location: Location) -> None:
    cursor = connection.cursor().execute(
        statement("define_location", schema), {"location": location.name, "last_number": location.last_number}
    )
    if cursor.fetchone() is None:
        raise ActionRefused(
            f"the last number of location {location.name} can't become {location.last_number:,}: "
            "it has given numbers under another one",
            remedy="tickets are compared by it; begin a new location instead",
        )
