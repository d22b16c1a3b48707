"""A fault: the error with its traceback, where the message is now, and what helps it."""

from __future__ import annotations

from typing import Any

from seriatim.console.mending import mending_of
from seriatim.console.page import Answer, Asked, Page
from seriatim.errors import EnvironmentProblem, NotFound, UsageError, shown
from seriatim.operations import faults, messages
from seriatim.operations.tables.faults import FAULTS


def _read(asked: Asked) -> Answer:
    text = asked.named["id"]
    if not text.isdecimal() or len(text) > 18:
        raise NotFound(f"there is no fault {shown(text, 60)}", remedy="see the faults")
    one = faults.fault_view(asked.box, int(text))
    try:
        message, places = messages.message(asked.box, one.message_id)
    except (UsageError, EnvironmentProblem):  # it is gone, several have its id, or the role doesn't see it
        values: dict[str, Any] = {"one": one, "places": None, "mends": None}
    else:
        here = [place for place in places if place.queue == one.queue]
        values = {"one": one, "places": here, "mends": mending_of(asked, message, here)}
    return Answer(FAULTS.object_of(one), title=f"Fault {text}", values=values)


PAGE = Page(("faults/{id}",), "Fault", _read, "fault.html")
