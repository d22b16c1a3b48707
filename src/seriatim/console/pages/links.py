"""Links to other boxes: whether each is up, and what is on the road."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import links
from seriatim.operations.tables.links import LINKS

__all__ = ["PAGE"]


def _read(asked: Asked) -> Answer:
    rows = links.status(asked.box)
    return Answer(
        LINKS.objects_of(rows),
        about="The links to other boxes. Follow one to its streams: what is on the way, and why it waits.",
        listing=Listing(
            LINKS,
            rows,
            "Links",
            links={"link": lambda one: ("transmission", {"link": one.link})},
            nothing="This box has no links to other boxes.",
            hint=Markup("Define one with <code>sq.Link</code>: <code>seriatim docs tutorials/two-boxes</code>."),
        ),
    )


PAGE = Page(("links",), "Links", _read, section="Box")
