"""Messages with the queues that have them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from seriatim.console.filters import QUEUE, SINCE, UNTIL, Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import messages
from seriatim.operations.tables.messages import MESSAGES

__all__ = ["PAGE"]

_STATUSES = (
    *("arrived", "held", "queued", "in_hand", "faulted"),
    *("late", "duplicate", "invalid", "rejected", "dead", "done", "unrouted"),
)
_FIELDS = (
    QUEUE,
    Field("group", "Group"),
    Field("status", "Status", _STATUSES),
    Field("type", "Type"),
    Field("error", "Error text"),
    replace(SINCE, label="Published since"),
    UNTIL,
)


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen("queue", "group", "status", "error", "since", "until")
    if given.get("group") and given.get("queue"):  # a group's messages have an index
        rows = messages.messages(asked.box, message_type=asked.text("type"), limit=asked.limit, **given)
        following = None if len(rows) < asked.limit else {"limit": str(min(asked.limit * 4, 1000))}
        nothing = "There are none."
    else:
        after = asked.number("after"), asked.number("at")
        page = messages.page(
            asked.box, message_type=asked.text("type"), limit=asked.limit,
            after=None if after[0] is None else (after[0], after[1] or 0), **given,
        )  # fmt: skip
        rows, following = page.rows, None
        if page.following is not None:
            following = {"after": str(page.following[0]), "at": str(page.following[1])}
        nothing = "There are none." if following is None else f"None among {page.read:,} messages; there are more."
    if given.get("error") and not asked.may("see-bodies"):
        rows = [one for one in rows if one.status != "unrouted"]  # whose reason names values of properties
    rows = asked.unnamed(rows)
    return Answer(
        MESSAGES.objects_of(rows),
        about="Oldest first. A message has a line for each queue that has it.",
        listing=Listing(
            MESSAGES,
            rows,
            "Messages",
            links={
                "message": lambda one: ("messages", one.message_id),
                "group": lambda one: None if one.group is None else ("groups", one.queue, one.group),
                "queue": lambda one: None if one.queue is None else ("queues", one.queue),
            },
            nothing=nothing,
            following=None if following is None else dict(asked.query) | following,
        ),
    )


PAGE = Page(("messages",), "Messages", _read, section="Messages", fields=_FIELDS, takes=("after", "at"))
