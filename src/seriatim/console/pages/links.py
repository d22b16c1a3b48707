"""Links to other boxes: whether each is up, and what is on the road."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.lists import list_page
from seriatim.operations import links
from seriatim.operations.tables.links import LINKS

PAGE = list_page(
    "links",
    "Links",
    links.status,
    LINKS,
    about="The links to other boxes. Follow one to its streams: what is on the way, and why it waits.",
    links={"link": lambda one: ("transmission", {"link": one.link})},
    nothing="This box has no links to other boxes.",
    hint=Markup("Define one with <code>sq.Link</code>: <code>seriatim docs tutorials/two-boxes</code>."),
    section="Box",
)
