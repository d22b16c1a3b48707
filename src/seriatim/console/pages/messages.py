"""Messages with the queues that have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from seriatim.console.lists import TO_GROUP, TO_MESSAGE, list_page
from seriatim.console.page import Answer, Asked
from seriatim.operations import messages
from seriatim.operations.tables.messages import MESSAGES


def _rows(asked: Asked, rows: Sequence[Any]) -> Sequence[Any]:
    if asked.text("error") and not asked.may("see-bodies"):
        rows = [one for one in rows if one.status != "unrouted"]  # whose reason names values of properties
    return asked.unnamed(rows)


def _read(asked: Asked) -> Answer:
    of_group = asked.text("group") and asked.text("queue")  # a group's messages have an index
    return (_OF_GROUP if of_group else _OF_ALL).read(asked)


_WORDS: dict[str, Any] = {
    "about": "Oldest first. A message has a line for each queue that has it.",
    "rows": _rows,
    "links": {**TO_MESSAGE, **TO_GROUP, "queue": lambda one: None if one.queue is None else ("queues", one.queue)},
    "section": "Messages",
}
_OF_GROUP = list_page("Messages", messages.messages, MESSAGES, **_WORDS)
_OF_ALL = list_page("Messages", messages.page, MESSAGES, **_WORDS)
PAGE = replace(_OF_ALL, read=_read)
