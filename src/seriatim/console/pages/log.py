"""The operator log: who did what, when and why."""

from __future__ import annotations

from seriatim.console.page import Answer, Asked, Field, Listing, Page
from seriatim.operations import operator_log
from seriatim.operations.tables.standing import LOG
from seriatim.operations.tables.table import text_only

__all__ = ["PAGE"]

_FIELDS = (Field("queue", "Queue"), Field("group", "Group"))
_TABLE = LOG.extended(
    "An entry",
    first=[
        text_only("queue", lambda one: one.queue, "the queue's name"),
        text_only("group", lambda one: one.group, "the group's key"),
    ],
)


def _read(asked: Asked) -> Answer:
    rows = operator_log.operator_log(
        asked.box, asked.text("queue"), group=asked.text("group"), before=asked.number("before"), limit=asked.limit
    )
    return Answer(
        LOG.objects_of(rows),
        fields=_FIELDS,
        about="Newest first. Entries are only added, never changed.",
        listing=Listing(
            _TABLE,
            rows,
            "Operator log",
            links={
                "group": lambda one: ("groups", one.queue, one.group) if one.queue and one.group is not None else None
            },
            nothing="No operator has done anything.",
            following=None if len(rows) < asked.limit else dict(asked.query) | {"before": str(rows[-1].operation_id)},
        ),
    )


PAGE = Page(("log",), "Operator log", _read, section="Box")
