"""Unrouted messages: no subscription matched, or they don't fit their type."""

from __future__ import annotations

from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import messages
from seriatim.operations.tables.messages import MESSAGES

__all__ = ["PAGE"]

_TEMPLATE = "unrouted.html"


def _read(asked: Asked) -> Answer:
    after = asked.number("after"), asked.number("at")
    page = messages.page(
        asked.box, status="unrouted", limit=asked.limit, after=None if after[0] is None else (after[0], after[1] or 0)
    )
    rows = asked.unnamed(page.rows)
    following = None if page.following is None else {"after": str(page.following[0]), "at": str(page.following[1])}
    return Answer(
        MESSAGES.objects_of(rows),
        listing=Listing(
            MESSAGES.only("message", "type", "ticket", "reason", "parts"),
            rows,
            "Unrouted messages",
            links={"message": lambda one: ("messages", one.message_id)},
            nothing="Nothing is unrouted.",
            hint="Each message was matched by a subscription, or named its queue.",
            following=following,
        ),
    )


PAGE = Page(("unrouted",), "Unrouted", _read, _TEMPLATE, section="Messages")
