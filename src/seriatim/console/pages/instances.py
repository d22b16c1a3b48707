"""Instances that run or are suspended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from markupsafe import Markup

from seriatim.console.lists import TO_GROUP, list_page
from seriatim.console.page import Answer, Asked, Rows
from seriatim.operations import instances
from seriatim.operations.tables.instances import INSTANCES


def _read(asked: Asked) -> Answer:
    number = asked.named.get("instance")
    if number is None:
        found = _LIST.read(asked)
        twin: Any = found.twin
    else:
        one = instances.instance_view(asked.box, int(number) if number.isdecimal() and len(number) < 19 else 0)
        twin = INSTANCES.objects_of([one])
        found = Answer(twin, listing=Rows(INSTANCES, [one], "Instances", _LINKS))
    if not asked.may("see-bodies"):  # values of properties, and what a handler has kept of them
        twin = [one | {"correlations": {}, "state": {}} for one in twin]
    return replace(found, twin=twin)


_LINKS = {"instance": lambda one: ("instances", str(one.instance_id)), **TO_GROUP}
_LIST = list_page(
    "Instances",
    instances.instances,
    INSTANCES,
    links=_LINKS,
    nothing="There are no instances.",
    hint=Markup("A subscription with <code>starts</code> begins one: <code>seriatim docs how-to/instances</code>."),
    template="instances.html",
    section="Box",
)
PAGE = replace(_LIST, paths=("instances", "instances/{instance}"), read=_read)
