"""A message: its properties, its body as text, JSON or hexadecimal digits, its way, and what operators have edited."""

from __future__ import annotations

import difflib
from typing import Any

from seriatim.console.html import pretty
from seriatim.console.mending import mending_of
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.errors import EnvironmentProblem, UsageError
from seriatim.operations import edits, messages, trace
from seriatim.operations.messages import Placed, Stored
from seriatim.operations.operator_log import Logged, operator_log
from seriatim.operations.tables.messages import MESSAGE, MESSAGES

_DIFFED = 64 * 1024
#: What results from a message is looked for among so many that came after it.
_WITHIN = 20_000
_STEPS = 200


def _read(asked: Asked) -> Answer:
    message_id = asked.named.get("id") if "id" in asked.named else asked.query.get("id", "")
    space = asked.query.get("id_space")
    found, places = messages.message(asked.box, str(message_id), id_space=space)
    sees, places = asked.may("see-bodies"), asked.unnamed(places)
    twin = MESSAGE.object_of(found, places=places)
    if not sees:
        twin |= {"body": None, "context": None, "parts": []}
    steps = trace.trace_message(asked.box, found.message_id, id_space=found.id_space, within=_WITHIN, over_links=False)
    listing = Rows(
        MESSAGES.only("queue", "group", "status", "sequence", "ticket", "reason"),
        places,
        "Where it is",
        links={
            "group": lambda one: None if one.group is None else ("groups", one.queue, one.group),
            "queue": lambda one: None if one.queue is None else ("queues", one.queue),
        },
        nothing="no queue has it any more",
    )
    return Answer(
        twin,
        title=f"Message {message_id}",
        values={
            "one": found,
            "places": listing,
            "mends": mending_of(asked, found, places),
            "done": _done(asked),
            "size": len(found.body),
            "body": pretty(found.body, found.content_type) if sees else None,
            "edited": _edited(asked, found, places) if sees else [],
            "steps": asked.unnamed(steps[:_STEPS], field="text", kind="kind"),
        },
    )


def _done(asked: Asked) -> Logged | None:
    number = asked.number("done")
    if number is None or number < 0:
        return None
    return next(
        (one for one in operator_log(asked.box, before=number + 1, limit=1) if one.operation_id == number), None
    )


def _edited(asked: Asked, found: Stored, places: list[Placed]) -> list[tuple[str, list[tuple[str, str]]]]:
    """For each queue in which an operator has edited the message: the lines that are gone and those that came."""
    told = []
    for place in places:
        if place.queue is None or len(found.body) > _DIFFED:
            continue
        try:
            now: Any = next(
                iter(edits.export(asked.box, queue=place.queue, group=place.group, message_id=found.message_id)), None
            )
        except (EnvironmentProblem, UsageError):
            continue
        if now is None:
            continue
        before, after = _lines(found.body, found.context), _lines(now.body, now.context)
        if before != after:
            told.append((place.queue, [*_diff(before, after)]))
    return told


def _lines(body: bytes, context: Any) -> list[str]:
    shown = [f"{name}: {value}" for name, value in sorted(dict(context).items())]
    return [*shown, "", *pretty(body, None)["text"].splitlines()]


def _diff(before: list[str], after: list[str]) -> list[tuple[str, str]]:
    kinds = {"+": "added", "-": "gone", "@": "place"}
    lines = [*difflib.unified_diff(before, after, "published", "now", lineterm="", n=3)][2:]
    return [(kinds.get(one[:1], "same"), one) for one in lines]


PAGE = Page(("messages/{id}", "message"), "Message", _read, "message.html")
