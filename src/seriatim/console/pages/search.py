"""Search: a message id, a group's key or the value of a property, wherever the box has it; or what is similar to that."""

from __future__ import annotations

from dataclasses import replace

from seriatim.console.filters import Field
from seriatim.console.lists import TO_GROUP, TO_MESSAGE, fields_of, given
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.operations.find import find
from seriatim.operations.tables.faults import FAULTS
from seriatim.operations.tables.found import FOUND, FOUND_MESSAGES, SIMILAR
from seriatim.operations.tables.groups import GROUPS

#: Of so many of the newest messages the properties are read.
_NEWEST = 100_000
_FIELDS = (
    Field("text", "Message id, group key, or value of a property"),
    *(one for one in fields_of(find) if one.name != "similar"),
)


def _read(asked: Asked) -> Answer:
    text = (asked.text("text") or "").strip()
    if not text:
        return Answer({}, values={"lists": [], "text": "", "similar": False})
    more = {"newest": _NEWEST, "similar": True, "properties": asked.may("see-bodies")}
    found = find(asked.box, text, **given(asked, find) | more)
    found = replace(found, messages=tuple(asked.unnamed(found.messages)))
    to_both = {**TO_GROUP, **TO_MESSAGE}
    lists = [
        Rows(
            GROUPS.only("queue", "group", "state", "since", "next number", "held", "queued", "reason"),
            found.groups,
            "Groups",
            TO_GROUP,
        ),
        Rows(FOUND_MESSAGES, found.messages, "Messages", to_both),
        Rows(FAULTS, found.faults, "Faults", to_both),
        Rows(SIMILAR, found.similar or (), "Groups and messages", to_both),
    ]
    values = {"lists": [one for one in lists if one.rows], "text": text, "similar": bool(found.similar)}
    return Answer(FOUND.object_of(found), values=values)


PAGE = Page(("search",), "Search", _read, "search.html", section="Work", place=2, fields=_FIELDS)
