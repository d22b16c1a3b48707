"""What is in a box, for people and programs that ask; reads without locks."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row, tuple_row

from seriatim.box.migrate import version_of
from seriatim.box.statements import statement

__all__ = ["BoxStatus", "Dispenser", "read_status"]


@dataclass(frozen=True, slots=True)
class Dispenser:
    """What a `location` gives next: `next_number` in `epoch`; after `last_number` it turns over."""

    location: str
    epoch: int
    next_number: int
    last_number: int


@dataclass(frozen=True, slots=True)
class BoxStatus:
    """A box at one moment.

    Args:
        place: host, database and schema.
        schema: its schema.
        version: the version of the schema.
        postgresql: the version of the server.
        size_bytes: all of its tables and indexes.
        locations: their dispensers, by name.
    """

    place: str
    schema: str
    version: int
    postgresql: str
    size_bytes: int
    locations: tuple[Dispenser, ...]


def read_status(connection: psycopg.Connection, schema: str, place: str) -> BoxStatus:
    """Look at a box of the present version, in the transaction of the connection."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        postgresql, size_bytes = cursor.execute(statement("sizes", schema), {"schema": schema}).fetchall()[0]
    with connection.cursor(row_factory=class_row(Dispenser)) as places:
        dispensers = tuple(places.execute(statement("dispensers", schema)))
    return BoxStatus(
        place=place,
        schema=schema,
        version=version_of(connection, schema) or 0,
        postgresql=postgresql,
        size_bytes=size_bytes,
        locations=dispensers,
    )
