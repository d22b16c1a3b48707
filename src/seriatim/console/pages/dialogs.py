"""Dialogs, a line for each side; and what waits for transmission."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from seriatim.console.filters import Field, older_than
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.errors import UsageError, shown
from seriatim.kernel.dialog import DialogState
from seriatim.operations import dialogs
from seriatim.operations.tables.dialogs import DIALOGS
from seriatim.operations.tables.table import text_only

__all__ = ["PAGE"]

_FIELDS = (
    Field("service", "Service"),
    Field("state", "State", tuple(map(str, DialogState))),
    older_than("Began longer ago than", "7d"),
    Field("waiting", "Only with messages that can't be delivered yet", ("yes",)),
)


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen("service", "state", "older_than", "handle")
    rows = dialogs.dialogs(
        asked.box, waits=asked.text("waiting") is not None, after=_after(asked), limit=asked.limit, **given
    )
    table = DIALOGS if not any(one.waiting for one in rows) else _WITH_STATUS
    return Answer(
        DIALOGS.objects_of(rows),
        about="Oldest first. Messages that can't be delivered yet wait in the transmission queue.",
        listing=Listing(
            table,
            rows,
            "Dialogs",
            nothing="There are no dialogs.",
            following=None
            if len(rows) < asked.limit
            else dict(asked.query) | {"after": f"{rows[-1].began_at.isoformat()},{rows[-1].handle}"},
        ),
    )


def _after(asked: Asked) -> tuple[datetime, UUID] | None:
    """The side behind which the page begins.

    Raises:
        UsageError: it is none.
    """
    text = asked.text("after")
    if text is None:
        return None
    try:
        at, _, handle = text.partition(",")
        return datetime.fromisoformat(at), UUID(handle)
    except ValueError:
        raise UsageError(f"after can't be {shown(text, 60)}", remedy="begin the list anew") from None


_WITH_STATUS = DIALOGS.extended("A side", text_only("why they wait", lambda one: one.transmission_status, "why"))


PAGE = Page(("dialogs",), "Dialogs", _read, section="Box", fields=_FIELDS, takes=("handle", "after"))
