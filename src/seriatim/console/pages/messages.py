"""Messages with the queues that have them."""

from __future__ import annotations

from typing import Any

from seriatim.console.page import Answer, Asked, Field, Listing, Page
from seriatim.operations import messages
from seriatim.operations.tables.messages import MESSAGES

__all__ = ["PAGE"]

_STATUSES = (
    *("arrived", "held", "queued", "in_hand", "faulted"),
    *("late", "duplicate", "invalid", "rejected", "dead", "done", "unrouted"),
)
_FIELDS = (
    Field("queue", "Queue"),
    Field("group", "Group"),
    Field("status", "Status", _STATUSES),
    Field("type", "Type"),
    Field("error", "Error text"),
    Field("since", "Published since", hint="2h, or 2026-03-01 14:30"),
    Field("until", "Until"),
)


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen("queue", "group", "status", "error", "since", "until")
    rows = messages.messages(asked.box, message_type=asked.text("type"), limit=asked.limit, **given)
    return Answer(
        MESSAGES.objects_of(rows),
        about="Oldest first. A message has a line for each queue that has it.",
        fields=_FIELDS,
        listing=Listing(
            MESSAGES,
            rows,
            "Messages",
            links={
                "message": lambda one: ("messages", one.message_id),
                "group": lambda one: None if one.group is None else ("groups", one.queue, one.group),
                "queue": lambda one: None if one.queue is None else ("queues", one.queue),
            },
            following=None
            if len(rows) < asked.limit
            else dict(asked.query) | {"limit": str(min(asked.limit * 4, 1000))},
        ),
    )


PAGE = Page(("messages",), "Messages", _read, section="Messages")
