"""Links to other boxes, and their streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seriatim.operations.tables.table import Column, Table, json_only

if TYPE_CHECKING:
    from seriatim.box.links.transmission import LinkRound
    from seriatim.box.views.links import LinkView, StreamView

__all__ = ["LINKS", "ROUNDS", "STREAMS"]

LINKS: Table[LinkView] = Table(
    "A link",
    Column("link"),
    Column("state"),
    Column("box", value=lambda one: None if one.box is None else str(one.box)),
    *json_only("role", "public_key", "has_address", "queues"),
    Column("waiting"),
    Column("unacknowledged", "on the way"),
    Column("streams_out", "streams out"),
    Column("streams_in", "streams in"),
    Column("ending", optional=True, shown=lambda one: one.ending or None),
    Column("sent"),
    Column("received"),
    Column("replayed", optional=True, shown=lambda one: one.replayed or None),
    Column("restored", optional=True, shown=lambda one: one.restored or None),
    Column("oldest", optional=True),
    *json_only("last_sent", "last_received"),
    Column("last_error", "error", optional=True),
    Column("warnings", optional=True, shown=lambda one: "; ".join(one.warnings) or None),
    row="seriatim.box.views.links:LinkView",
    nothing="there are no links",
)
STREAMS: Table[StreamView] = Table(
    "A stream",
    Column("link"),
    Column("direction"),
    Column("queue"),
    Column("key"),
    *json_only("incarnation"),
    Column("number"),
    Column("state"),
    Column("sent", optional=True),
    Column("acknowledged"),
    Column("attempts", optional=True),
    Column("next_try_at", "next try", optional=True),
    Column("last_error", "waits because", optional=True),
    Column("last_used", "last used"),
    row="seriatim.box.views.links:StreamView",
    nothing="there are no streams",
)
ROUNDS: Table[LinkRound] = Table(
    "A round over a link",
    Column("link"),
    Column("sent"),
    Column("acknowledged"),
    Column("received"),
    *json_only("more"),
    Column("error", optional=True),
    row="seriatim.box.links.transmission:LinkRound",
    nothing="this box has no link with an address",
)
