"""What a box knows of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from seriatim.operations.tables.faults import FAULTS
from seriatim.operations.tables.groups import GROUPS
from seriatim.operations.tables.messages import MESSAGES
from seriatim.operations.tables.table import Column, Table, json_only

if TYPE_CHECKING:
    from seriatim.box.views.find import Found, FoundMessage

__all__ = ["FOUND", "FOUND_MESSAGES"]

FOUND_MESSAGES: Table[FoundMessage] = Table(
    "A found message",
    *cast("tuple[Column[FoundMessage], ...]", MESSAGES.columns),
    Column("matched", after="reason"),
    row="seriatim.box.views.find:FoundMessage",
)
FOUND: Table[Found] = Table(
    "What a box knows of a text",
    *json_only("text"),
    Column("groups", None, rows=GROUPS),
    Column("messages", None, rows=FOUND_MESSAGES),
    Column("faults", None, rows=FAULTS),
    *json_only("published", "keeps"),
    row="seriatim.box.views.find:Found",
)
