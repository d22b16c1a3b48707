"""What is in a box, for people and programs that ask; reads without locks."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from seriatim.box.migrate import version_of
from seriatim.box.statements import statement

__all__ = ["BoxStatus", "Dispenser", "TableSize", "read_status"]


@dataclass(frozen=True, slots=True)
class Dispenser:
    """What a `location` gives next: `next_number` in `epoch`; after `last_number` it turns over.

    `in_queue` of its messages are in queues, or will be when they are routed. Through `last_sent` of `last_sent_epoch`
    none is any more (None: before the first number); what was never routed to a queue counts like what has left it.
    """

    location: str
    epoch: int
    next_number: int
    last_number: int
    last_sent_epoch: int | None
    last_sent: int | None
    in_queue: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table of a box: its `rows` and `dead_rows`, as PostgreSQL estimates them, and its bytes with all indexes."""

    name: str
    rows: int
    dead_rows: int
    size_bytes: int


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
        tables: the tables and sequences, the largest first.
    """

    place: str
    schema: str
    version: int
    postgresql: str
    size_bytes: int
    locations: tuple[Dispenser, ...]
    tables: tuple[TableSize, ...]


def read_status(connection: psycopg.Connection, schema: str, place: str) -> BoxStatus:
    """Look at a box of the present version, in the transaction of the connection."""
    with connection.cursor(row_factory=class_row(TableSize)) as sizes:
        tables = tuple(sizes.execute(statement("sizes", schema), {"schema": schema}))
    with connection.cursor(row_factory=class_row(Dispenser)) as places:
        dispensers = tuple(places.execute(statement("dispensers", schema)))
    return BoxStatus(
        place=place,
        schema=schema,
        version=version_of(connection, schema) or 0,
        postgresql=connection.info.parameter_status("server_version") or "",
        size_bytes=sum(one.size_bytes for one in tables),
        locations=dispensers,
        tables=tables,
    )
