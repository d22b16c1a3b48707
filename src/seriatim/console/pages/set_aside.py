"""Messages that were set aside as late, duplicate, invalid or rejected, and unrouted ones: all but dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from seriatim.console.filters import OLDER_THAN, QUEUE, Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.errors import UsageError, shown
from seriatim.operations import set_aside
from seriatim.operations.tables.messages import SET_ASIDE

__all__ = ["PAGE"]

_FILTERS = ("queue", "group", "status", "type", "older_than")
_FIELDS = (
    QUEUE,
    Field("group", "Group"),
    Field("status", "Status", set_aside.SET_ASIDE),
    Field("type", "Type"),
    OLDER_THAN,
)
_TEMPLATE = "set_aside.html"


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen("queue", "group", "status", "older_than")
    rows = set_aside.set_aside(
        asked.box, message_type=asked.text("type"), after=_place(asked), limit=asked.limit, **given
    )
    rows = asked.unnamed(rows)
    return Answer(
        SET_ASIDE.objects_of(rows),
        listing=Listing(
            SET_ASIDE,
            rows,
            "Late or invalid messages",
            links={
                "message": lambda one: ("messages", one.message_id),
                "group": lambda one: (
                    None if one.group is None or one.queue is None else ("groups", one.queue, one.group)
                ),
            },
            nothing="No message is late or invalid.",
            hint="A queue sets a message aside if its number came already or was given up, or if it has no number.",
            following=None if len(rows) < asked.limit else dict(asked.query) | {"after": _text_of(rows[-1].place)},
        ),
        values={"where": asked.chosen(*_FILTERS)},
    )


def _place(asked: Asked) -> set_aside.ListPlace | None:
    """The place behind which the page begins."""
    text = asked.text("after")
    if text is None:
        return None
    try:
        since, *numbers = text.split(",")
        arrival_id, position, entry_id = (int(one) for one in numbers if len(one) < 20)
        return datetime.fromisoformat(since), arrival_id, position, entry_id
    except ValueError:
        raise UsageError(f"after can't be {shown(text, 60)}", remedy="begin the list anew") from None


def _text_of(place: set_aside.ListPlace) -> str:
    since, *numbers = place
    return ",".join([since.isoformat(), *map(str, numbers)])


PAGE = Page(("set-aside",), "Late or invalid", _read, _TEMPLATE, section="Messages", fields=_FIELDS, takes=("after",))
