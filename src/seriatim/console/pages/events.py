"""Events of groups, newest first."""

from __future__ import annotations

from markupsafe import Markup

from seriatim.console.lists import TO_GROUP, list_page
from seriatim.operations import events
from seriatim.operations.tables.events import EVENTS

PAGE = list_page(
    "events",
    "Events",
    events.events_and_holes,
    EVENTS,
    about=Markup(
        "What happened to groups besides the delivery of their messages, newest first. Holes are missing numbers, a conflict is a number "
        "that came again with another content, and void is a number that passed without a message; "
        "all words: <code>seriatim docs reference/events</code>. Failures of handlers are among the faults, and what operators did is in "
        "the operator log."
    ),
    links=TO_GROUP,
    nothing="There are no events.",
    hint="A group that waits for a missing number, is closed or suspended, or gets a number twice, has one.",
    section="Box",
)
