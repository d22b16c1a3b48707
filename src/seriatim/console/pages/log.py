"""The operator log: who did what, when and why. What one did to many groups is one line, which unfolds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seriatim.console.filters import QUEUE, SINCE, UNTIL, Field, check_values
from seriatim.console.page import Answer, Asked, Page
from seriatim.operations import operator_log
from seriatim.operations.tables.standing import LOG
from seriatim.operations.tables.table import shown_value

__all__ = ["PAGE"]

_FIELDS = (
    Field("queue", "Queue"),
    Field("group", "Group"),
    Field("actor", "Actor"),
    Field("action", "Action", hint="skip_message"),
    SINCE,
    UNTIL,
)
#: Details that say nothing further to people, or stand in the first of them. An id is as long as that.
_PASSED_OVER = ("before", "after", "obeyed", "entry_id", "since", "status")
_UUID = 36
_TEMPLATE = "log.html"


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen("queue", "group", "actor", "action", "since", "until")
    before = asked.number("before")
    if asked.is_twin:
        rows = operator_log.operator_log(asked.box, before=before, limit=asked.limit, **given)
        if not rows:
            check_values(asked.box, (QUEUE,), given)
        return Answer(LOG.objects_of(rows))
    runs = operator_log.operator_log_runs(asked.box, before=before, limit=asked.limit, **given)
    if not runs:  # a queue that was dropped is in the log
        check_values(asked.box, (QUEUE,), given)
    following = None
    if runs and (len(runs) == asked.limit or runs[-1].is_cut):
        following = dict(asked.query) | {"before": str(runs[-1].first_id)}
    return Answer(None, values={"runs": runs, "following": following, "kept": given, "details": _details})


def _details(found: Mapping[str, Any] | None) -> str:
    """What one entry did, in words: from which state to which, and what further it says."""
    if not found:
        return ""
    before, after = found.get("before"), found.get("after")
    told = [f"{before} → {after}".replace("_", " ")] if before and after else []
    told += [
        f"{name.removesuffix('_id').replace('_', ' ')} {_words(value)}"
        for name, value in found.items()
        if name not in _PASSED_OVER and value not in (None, 0, "", [], {})
    ]
    return ", ".join(told)


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {one}" for name, one in value.items())
    text = shown_value(value)
    return f"…{text[-8:]}" if len(text) == _UUID else text


PAGE = Page(("log",), "Operator log", _read, _TEMPLATE, section="Box", fields=_FIELDS, takes=("before",))
