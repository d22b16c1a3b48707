"""The streams between this box and others, those that wait first, each with its reason."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.lists import list_page
from seriatim.operations import links
from seriatim.operations.tables.links import STREAMS

_ABOUT = (
    "What goes over links: a stream for each group and direction, those that wait first. "
    "Messages of dialogs that wait are on the page of dialogs."
)
PAGE = list_page(
    "transmission",
    "Transmission",
    links.transmission,
    STREAMS,
    caption="Streams",
    about=_ABOUT,
    links={"link": lambda _: ("links",)},
    nothing="No message has gone over a link yet.",
    hint=Markup(
        "Messages for a queue with <code>at</code> go to another box: <code>seriatim docs tutorials/two-boxes</code>."
    ),
    section="Box",
)
