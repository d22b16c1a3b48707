"""Dialogs, a line for each side; and what waits for transmission."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from markupsafe import Markup

from seriatim.console.filters import Field, older_than
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.errors import UsageError, shown
from seriatim.kernel.dialog import LABELS, DialogState
from seriatim.operations import dialogs
from seriatim.operations.tables.dialogs import DIALOGS
from seriatim.operations.tables.table import text_only

__all__ = ["PAGE"]

_FIELDS = (
    Field("service", "Service"),
    Field(
        "state", "State", tuple(map(str, DialogState)), words={str(one): label for one, (label, *_) in LABELS.items()}
    ),
    older_than("Began longer ago than", "7d"),
    Field("waiting", "Only with messages that can't be delivered yet", ("yes",)),
)


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen("service", "state", "older_than", "handle")
    rows = dialogs.dialogs(
        asked.box, waits=asked.text("waiting") is not None, after=_after(asked), limit=asked.limit, **given
    )
    return Answer(
        DIALOGS.objects_of(rows),
        about="Two services of this box that exchange messages: a line for each side, oldest first. "
        "A message whose other side isn't there yet waits.",
        listing=Listing(
            _TABLE,
            rows,
            "Dialogs",
            links={"unread": lambda one: ("groups", one.queue, str(one.group_id)) if one.unread else None},
            nothing="There are no dialogs.",
            hint=Markup(
                "An application begins one with <code>tx.begin_dialog</code>: <code>seriatim docs how-to/dialogs</code>."
            ),
            following=None
            if len(rows) < asked.limit
            else dict(asked.query) | {"after": f"{rows[-1].began_at.isoformat()},{rows[-1].handle}"},
        ),
    )


def _after(asked: Asked) -> tuple[datetime, UUID] | None:
    """The side behind which the page begins."""
    text = asked.text("after")
    if text is None:
        return None
    try:
        at, _, handle = text.partition(",")
        return datetime.fromisoformat(at), UUID(handle)
    except ValueError:
        raise UsageError(f"after can't be {shown(text, 60)}", remedy="begin the list anew") from None


def _why(one: dialogs.DialogView) -> str | None:
    """Why its messages wait, and the error with which it was ended."""
    told = [f"waits: {one.transmission_status}"] if one.waiting and one.transmission_status else []
    if one.error_code is not None:
        told.append(f"error {one.error_code}: {one.error or 'without a text'}")
    return "; ".join(told) or None


_TABLE = DIALOGS.extended(
    "A side of a dialog", text_only("why", _why, "why its messages wait, or the error with which it was ended")
)


PAGE = Page(("dialogs",), "Dialogs", _read, section="Box", fields=_FIELDS, takes=("handle", "after"))
