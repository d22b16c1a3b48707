"""Dialogs, a line for each side; and what waits for transmission."""

from __future__ import annotations

from typing import Any

from seriatim.console.page import Answer, Asked, Field, Listing, Page
from seriatim.kernel.dialog import DialogState
from seriatim.operations import dialogs
from seriatim.operations.tables.dialogs import DIALOGS
from seriatim.operations.tables.table import text_only

__all__ = ["PAGE"]

_FIELDS = (
    Field("service", "Service"),
    Field("state", "State", tuple(map(str, DialogState))),
    Field("older_than", "Began longer ago than", hint="7d"),
    Field("waiting", "Only with messages that can't be delivered yet", ("yes",)),
)


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen("service", "state", "older_than", "handle")
    rows = dialogs.dialogs(asked.box, limit=asked.limit, **given)
    if asked.text("waiting"):
        rows = [one for one in rows if one.waiting]
    table = DIALOGS if not any(one.waiting for one in rows) else _WITH_STATUS
    return Answer(
        DIALOGS.objects_of(rows),
        fields=_FIELDS,
        about="Oldest first. Messages that can't be delivered yet wait in the transmission queue.",
        listing=Listing(
            table,
            rows,
            "Dialogs",
            nothing="There are no dialogs.",
            following=None
            if len(rows) < asked.limit
            else dict(asked.query) | {"limit": str(min(asked.limit * 4, 1000))},
        ),
    )


_WITH_STATUS = DIALOGS.extended("A side", text_only("why they wait", lambda one: one.transmission_status, "why"))


PAGE = Page(("dialogs",), "Dialogs", _read, section="Box")
