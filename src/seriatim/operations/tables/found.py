"""What a box knows of a text."""

from __future__ import annotations

from typing import cast

from seriatim.box.views.find import FoundMessage, SearchResult, Similar
from seriatim.operations.tables.faults import FAULTS
from seriatim.operations.tables.groups import GROUPS
from seriatim.operations.tables.messages import MESSAGES
from seriatim.operations.tables.table import Column, Table, columns

FOUND_MESSAGES: Table[FoundMessage] = Table(
    "A found message",
    *cast("tuple[Column[FoundMessage], ...]", MESSAGES.columns),
    Column("matched", after="reason"),
    row=FoundMessage,
)
SIMILAR: Table[Similar] = Table(
    "A message or group that has a text in part",
    Column("matched"),
    Column("message_id", "message"),
    *columns("queue", "group", "at"),
    row=Similar,
)
FOUND: Table[SearchResult] = Table(
    "What a box knows of a text",
    Column("groups", None, rows=GROUPS),
    Column("messages", None, rows=FOUND_MESSAGES),
    Column("faults", None, rows=FAULTS),
    Column("similar", None, rows=SIMILAR, optional=True),
    row=SearchResult,
)
