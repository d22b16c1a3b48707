"""The status of a box: version, sizes, next numbers, changes. Reads without locks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from seriatim.box.connection.access import Transaction
from seriatim.box.postgres.migrate import find
from seriatim.box.postgres.statements import Statements


@dataclass(frozen=True, slots=True)
class Dispenser:
    """The ticket counter of a `location`: `next_number` in `epoch`; after `last_number` a new epoch begins at 1.

    `in_queue`: the number of its messages in queues, or still to be routed. All messages up to `last_sent` of
    `last_sent_epoch` have left their queues (None: no message has); a message that was never routed to a queue
    counts as left.
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
    """A table of a box: its `rows` and `dead_rows`, as PostgreSQL estimates them, and its bytes with all indexes.

    `more_rows` and `more_bytes`: the growth since the status's `since`; negative if the table shrank.
    """

    name: str
    rows: int
    dead_rows: int
    size_bytes: int
    more_rows: int = 0
    more_bytes: int = 0


@dataclass(frozen=True, slots=True)
class BoxStatus:
    """The status of a box at one moment.

    Args:
        place: host, database and schema.
        version: the version of the schema.
        postgresql: the version of the server.
        size_bytes: the bytes of all tables and indexes.
        locations: the locations' ticket counters, by name.
        tables: the tables and sequences, largest first.
        since: the time from which growth is counted: a day ago, or the first clean-up after that, which recorded the
            sizes; None: no clean-up did.
    """

    place: str
    schema: str
    version: int
    postgresql: str
    size_bytes: int
    locations: tuple[Dispenser, ...]
    tables: tuple[TableSize, ...]
    since: datetime | None = None

    @property
    def more_bytes(self) -> int:
        """The growth in bytes since the time `since`."""
        return sum(table.more_bytes for table in self.tables)


def read_status(statements: Statements, place: str) -> BoxStatus:
    """Read the status of a box of the present version, in the transaction."""
    tables = tuple(statements.rows("sizes", TableSize, schema=statements.schema))
    noted = statements.rows("earlier_sizes")
    since = noted[0].taken_at if noted else None
    applied = find(statements)
    earlier = {table.name: (table.rows, table.size_bytes) for table in noted}
    if since is not None:
        tables = tuple(
            replace(table, more_rows=table.rows - rows, more_bytes=table.size_bytes - size_bytes)
            for table in tables
            for rows, size_bytes in [earlier.get(table.name, (0, 0))]
        )
    dispensers = tuple(statements.rows("dispensers", Dispenser))
    return BoxStatus(
        place=place,
        schema=statements.schema,
        version=0 if applied is None else applied.version,
        postgresql=statements.connection.info.parameter_status("server_version") or "",
        size_bytes=sum(table.size_bytes for table in tables),
        locations=dispensers,
        tables=tables,
        since=since,
    )


def changes_of(transaction: Transaction) -> dict[str, int]:
    """How often each table was changed, by its name; PostgreSQL reports it within about a second. Reads none of them."""
    rows = transaction.rows("table_changes", schema_name=transaction.schema)
    return {str(row.name): int(row.changes) for row in rows}
