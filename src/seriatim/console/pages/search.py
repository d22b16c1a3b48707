"""Search: a message id, a group's key or the value of a property, wherever the box has it; or what is similar to that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from seriatim.console.filters import SINCE, UNTIL, Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations.find import find
from seriatim.operations.tables.faults import FAULTS
from seriatim.operations.tables.found import FOUND, FOUND_MESSAGES, SIMILAR
from seriatim.operations.tables.groups import GROUPS

__all__ = ["PAGE"]

#: Of so many of the newest messages the properties are read.
_NEWEST = 100_000
_FIELDS = (Field("text", "Message id, group key, or value of a property"), SINCE, UNTIL)
_TEMPLATE = "search.html"


def _read(asked: Asked) -> Answer:
    text = (asked.text("text") or "").strip()
    if not text:
        return Answer({}, values={"lists": [], "text": "", "similar": False})
    given: dict[str, Any] = asked.chosen("since", "until")
    found = find(
        asked.box, text, limit=asked.limit, newest=_NEWEST, similar=True, properties=asked.may("see-bodies"), **given
    )
    found = replace(found, messages=tuple(asked.unnamed(found.messages)))
    to_group: dict[str, Any] = {
        "group": lambda one: None if one.group is None or one.queue is None else ("groups", one.queue, one.group)
    }
    to_message: dict[str, Any] = {
        "message": lambda one: None if one.message_id is None else ("messages", one.message_id)
    }
    lists = [
        Listing(
            GROUPS.only("queue", "group", "state", "since", "next number", "held", "queued", "reason"),
            found.groups,
            "Groups",
            to_group,
        ),
        Listing(FOUND_MESSAGES, found.messages, "Messages", to_group | to_message),
        Listing(FAULTS, found.faults, "Faults", to_group | to_message),
        Listing(SIMILAR, found.similar or (), "Groups and messages", to_group | to_message),
    ]
    values = {"lists": [one for one in lists if one.rows], "text": text, "similar": bool(found.similar)}
    return Answer(FOUND.object_of(found), values=values)


PAGE = Page(("search",), "Search", _read, _TEMPLATE, section="Work", place=2, fields=_FIELDS)
