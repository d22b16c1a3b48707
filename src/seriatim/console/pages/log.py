"""The operator log: who did what, when and why. What one did to many groups is one line, which unfolds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from seriatim.console.filters import QUEUE, check_values
from seriatim.console.lists import fields_of, given, takes_of
from seriatim.console.page import Answer, Asked, Page
from seriatim.operations import operator_log
from seriatim.operations.tables.standing import LOG
from seriatim.operations.tables.table import shown_value

_FIELDS = fields_of(operator_log.operator_log)
#: Details that say nothing further to people, or stand in the first of them. An id is as long as that.
_PASSED_OVER = ("before", "after", "obeyed", "entry_id", "since", "status")
_UUID = 36


def _read(asked: Asked) -> Answer:
    arguments = given(asked, operator_log.operator_log)
    reads = operator_log.operator_log if asked.is_twin else operator_log.operator_log_runs
    found: Sequence[Any] = reads(asked.box, **arguments)
    if not found:  # a queue that was dropped is in the log
        check_values(asked.box, (QUEUE,), asked.query)
    if asked.is_twin:
        return Answer(LOG.objects_of(found))
    more = None
    if found and (len(found) == asked.limit or found[-1].is_cut):
        more = dict(asked.query) | {"before": str(found[-1].first_id)}
    kept = asked.chosen(*(one.name for one in _FIELDS))
    return Answer(None, values={"runs": found, "following": more, "kept": kept, "details": _details})


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


PAGE = Page(
    ("log",),
    "Operator log",
    _read,
    "log.html",
    section="Box",
    fields=_FIELDS,
    takes=takes_of(operator_log.operator_log),
)
