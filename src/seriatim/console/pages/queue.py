"""A queue: its state in words and what helps, its groups, its counts, what is set for it, and the processes at work."""

from __future__ import annotations

from seriatim.box.definitions.queue_settings import SETTINGS as NAMES
from seriatim.console.causes import filter_of
from seriatim.console.findings import row
from seriatim.console.lists import TO_GROUP
from seriatim.console.page import Answer, Asked, Page, Rows
from seriatim.errors import NotFound, shown
from seriatim.kernel.groups.verbs import ON_GROUPS, VERBS
from seriatim.operations import groups, queues, workers
from seriatim.operations.queue_standing import QueueStanding
from seriatim.operations.tables.groups import GROUPS
from seriatim.operations.tables.queues import COUNTS, SETTINGS
from seriatim.operations.tables.workers import WORKER
from seriatim.pipeline.declared.work_limits import rate_text

_GROUPS = 10
_MEANINGS = {
    "workers": "threads in each process of seriatim work; readers of seriatim serve, at most",
    "in_flight": "groups that all processes together work on at once, at most",
    "rate": "messages a second of all processes together, such as 100/s or 30/m",
    "run_length": "messages of a group in one transaction, at most",
}


def _read(asked: Asked) -> Answer:
    name = asked.named.get("queue") or asked.query.get("name", "")
    known = asked.box.definitions().queues.get(name)
    if known is None or not queues.is_seen(asked.box, name):  # a role sees some queues, and knows the names of all
        raise NotFound(f"there is no queue {shown(name)}", remedy="the overview has all queues")
    look = asked.looks.standing(name)
    it: QueueStanding | None = look.seen
    settings = queues.settings(asked.box, name)
    standing, causes = [], []
    if known.has_groups:
        standing = groups.groups(asked.box, name, state=groups.STOPPED, standing=True, limit=_GROUPS)
        counts = groups.groups_by_error(asked.box, name, standing=True) if standing else []
        causes = [(one, {"queue": name} | filter_of(one)) for one in counts]
    values = {
        "name": name, "it": it, "look": look, "enabled": known.enabled, "table": COUNTS.without("age"), "causes": causes,
        "found": [row(asked, one, name) for one in it.findings] if it else [], "has_groups": known.has_groups,
        "at_work": Rows(
            WORKER.without("longest"), workers.workers(asked.box, name), "Processes", nothing="No process works on it."
        ),
        "groups": Rows(
            GROUPS.without("queue", "touched", "arrived"), standing, "Groups that stand still", TO_GROUP,
            nothing="No group of it stands still.",
        ),
        "begins": [one for one in ON_GROUPS if VERBS[one].begins and known.has_groups and asked.may(VERBS[one].role)],
        "settings": settings,
        "settable": [(one, one.replace("_", " ").capitalize(), _shown(settings, one), _MEANINGS[one]) for one in NAMES],
    }  # fmt: skip
    counted = {"queue": name, "enabled": known.enabled} if it is None else COUNTS.object_of(it.counts)
    twin = counted | {"settings": SETTINGS.object_of(settings)}
    return Answer(twin, title=f"Queue {name}", values=values)


def _shown(settings: queues.QueueSettings, name: str) -> str:
    value = getattr(settings, name)
    return "" if value is None else rate_text(value) if name == "rate" else str(value)


PAGE = Page(("queues/{queue}", "queue"), "Queue", _read, "queue.html")
