"""Unrouted messages: no subscription matched, or they don't fit their type."""

from __future__ import annotations

from seriatim.console.lists import TO_MESSAGE, list_page
from seriatim.console.page import Asked
from seriatim.operations import messages
from seriatim.operations.tables.messages import MESSAGES

PAGE = list_page(
    "unrouted",
    "Unrouted",
    messages.unrouted,
    MESSAGES,
    shown=MESSAGES.only("message", "type", "ticket", "reason", "parts"),
    caption="Unrouted messages",
    rows=Asked.unnamed,
    links=TO_MESSAGE,
    nothing="Nothing is unrouted.",
    hint="Each message was matched by a subscription, or named its queue.",
    template="unrouted.html",
    section="Messages",
)
