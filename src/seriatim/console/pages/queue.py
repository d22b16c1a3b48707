"""A queue: its counts, what is set for it, who works on it, and the switch that turns it on and off."""

from __future__ import annotations

from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.errors import NotFound, shown
from seriatim.operations import workers
from seriatim.operations.tables.queues import COUNTS
from seriatim.operations.tables.workers import WORKER

__all__ = ["PAGE"]


def _read(asked: Asked) -> Answer:
    name = asked.named.get("queue") or asked.query.get("name", "")
    known = asked.box.definitions().queues.get(name)
    counted = asked.looks.counted()
    one = next((one for one in counted.rows or () if one.queue == name), None)
    is_new = counted.rows is None or counted.age_s > 1  # it may have been defined since they were counted
    if known is None or (one is None and not is_new):  # a role sees some queues, and knows the names of all
        raise NotFound(f"there is no queue {shown(name)}", remedy="the overview has all queues")
    at_work = Rows(
        WORKER.without("longest"), workers.workers(asked.box, name), "Processes", nothing="No process works on it."
    )
    twin = {"queue": name, "enabled": known.enabled} if one is None else COUNTS.object_of(one)
    values = {
        "name": name, "enabled": known.enabled, "one": one, "table": COUNTS.without("age"), "at_work": at_work, "counted": counted,
    }  # fmt: skip
    return Answer(twin, title=f"Queue {name}", values=values)


PAGE = Page(("queues/{queue}", "queue"), "Queue", _read, "queue.html")
