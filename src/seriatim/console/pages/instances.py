"""Instances that run or are suspended."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from seriatim.console.filters import QUEUE, Field
from seriatim.console.page import Answer, Asked, Listing, Page
from seriatim.operations import instances
from seriatim.operations.tables.instances import INSTANCES

__all__ = ["PAGE"]

_FIELDS = (QUEUE, Field("group", "Group"), Field("status", "Status", tuple(map(str, instances.InstanceStatus))))
_TEMPLATE = "instances.html"


def _read(asked: Asked) -> Answer:
    given: dict[str, Any] = asked.chosen("queue", "group", "status")
    number = asked.named.get("instance")
    if number is None:
        rows = instances.instances(asked.box, after=asked.number("after") or 0, limit=asked.limit, **given)
    else:
        rows = [instances.instance_view(asked.box, int(number) if number.isdecimal() and len(number) < 19 else 0)]
    twin = INSTANCES.objects_of(rows)
    if not asked.may("see-bodies"):  # values of properties, and what a handler has kept of them
        twin = [one | {"correlations": {}, "state": {}} for one in twin]
    return Answer(
        twin,
        listing=Listing(
            INSTANCES,
            rows,
            "Instances",
            links={
                "instance": lambda one: ("instances", str(one.instance_id)),
                "group": lambda one: ("groups", one.queue, one.group),
            },
            nothing="There are no instances.",
            hint=Markup(
                "A subscription with <code>starts</code> begins one: <code>seriatim docs how-to/instances</code>."
            ),
            following=None if len(rows) < asked.limit else dict(asked.query) | {"after": str(rows[-1].instance_id)},
        ),
    )


PAGE = Page(
    ("instances", "instances/{instance}"),
    "Instances",
    _read,
    _TEMPLATE,
    section="Box",
    fields=_FIELDS,
    takes=("after",),
)
