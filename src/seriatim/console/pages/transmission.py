"""The streams between this box and others, those that wait first, each with its reason."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.filters import Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import links
from seriatim.operations.tables.links import STREAMS

__all__ = ["PAGE"]

_MOST = 1000
_FIELDS = (Field("link", "Link"), Field("waiting", "Only those on which something isn't acknowledged", ("yes",)))


def _read(asked: Asked) -> Answer:
    rows = links.transmission(
        asked.box, asked.text("link"), waiting=asked.text("waiting") is not None, limit=asked.limit
    )
    following = None
    if len(rows) == asked.limit < _MOST:  # what waits comes first, so that a longer list begins as this one
        following = dict(asked.query) | {"limit": str(min(asked.limit * 4, _MOST))}
    return Answer(
        STREAMS.objects_of(rows),
        about="What goes over links: a stream for each group and direction, those that wait first. "
        "Messages of dialogs that wait are on the page of dialogs.",
        listing=Listing(
            STREAMS,
            rows,
            "Streams",
            links={"link": lambda _: ("links",)},
            nothing="No message has gone over a link yet.",
            hint=Markup(
                "Messages for a queue with <code>at</code> go to another box: <code>seriatim docs tutorials/two-boxes</code>."
            ),
            following=following,
        ),
    )


PAGE = Page(("transmission",), "Transmission", _read, section="Box", fields=_FIELDS)
