"""Messages that were set aside as late, duplicate, invalid or rejected, and unrouted ones: all but dead letters."""

from __future__ import annotations

from seriatim.console.lists import TO_GROUP, TO_MESSAGE, list_page
from seriatim.console.page import Asked
from seriatim.operations import set_aside
from seriatim.operations.tables.messages import SET_ASIDE

PAGE = list_page(
    "set-aside",
    "Late or invalid",
    set_aside.set_aside,
    SET_ASIDE,
    caption="Late or invalid messages",
    rows=Asked.unnamed,
    links={**TO_MESSAGE, **TO_GROUP},
    nothing="No message is late or invalid.",
    hint="A queue sets a message aside if its number came already or was given up, or if it has no number.",
    template="set_aside.html",
    section="Messages",
)
