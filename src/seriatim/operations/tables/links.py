"""Links to other boxes, and their streams."""

from __future__ import annotations

from seriatim.box.links.transmission import LinkExchange
from seriatim.box.views.links import LinkView, StreamView
from seriatim.operations.tables.table import Column, Table, columns, if_any

LINKS: Table[LinkView] = Table(
    "A link",
    *columns("link", "state", "box", "waiting"),
    Column("unacknowledged", "on the way"),
    *columns("streams_out", "streams_in"),
    if_any("ending"),
    *columns("sent", "received"),
    if_any("replayed"),
    if_any("restored"),
    Column("oldest", optional=True),
    Column("last_error", "error", optional=True),
    Column("warnings", optional=True, shown=lambda one: "; ".join(one.warnings) or None),
    Column("older_at", "refused an older one", optional=True),
    row=LinkView,
    nothing="there are no links",
)
STREAMS: Table[StreamView] = Table(
    "A stream",
    *columns("link", "direction", "queue", "key", "number", "state"),
    Column("sent", optional=True),
    Column("acknowledged"),
    Column("attempts", optional=True),
    Column("next_try_at", "next try", optional=True),
    Column("last_error", "waits because", optional=True),
    Column("last_used"),
    row=StreamView,
    nothing="there are no streams",
)
EXCHANGES: Table[LinkExchange] = Table(
    "An exchange over a link",
    *columns("link", "sent", "acknowledged", "received"),
    Column("error", optional=True),
    row=LinkExchange,
    nothing="this box has no link with an address",
)
