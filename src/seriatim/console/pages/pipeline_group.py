"""A group of a pipeline: its state, the numbers that it misses, and the buttons, each a command to the pipeline."""

from __future__ import annotations

from typing import Any

from seriatim.console.page import Answer, Asked, Page
from seriatim.console.pages.pipeline import WAIT_S
from seriatim.kernel.groups.verbs import IN_PIPELINES, ON_GROUPS, VERBS, refusal
from seriatim.kernel.operators.held_groups import missing_numbers
from seriatim.operations.tables.pipelines import GROUP

_EVENTS = 50


def _read(asked: Asked) -> Answer:
    name = asked.named.get("pipeline") or asked.query.get("name", "")
    queue = asked.named.get("queue") or asked.query.get("queue", "")
    key = asked.named.get("group") if "group" in asked.named else asked.query.get("key", "")
    found = asked.pipelines.find(name)
    from seriatim.operations.pipelines.events import events  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.operations.pipelines.groups import group_reported, group_view, helps, seen_of  # noqa: PLC0415
    from seriatim.operations.pipelines.log import operator_log  # noqa: PLC0415

    reported = group_reported(found, queue, str(key))
    view = reported or group_view(found, queue, str(key), wait=WAIT_S, starts_spark=False)
    told = events(found, queue, group=view.group, limit=_EVENTS)
    log = operator_log(found, queue, group=view.group, limit=_EVENTS)
    able = [one for one in IN_PIPELINES if view.allows(one) and asked.may(VERBS[one].role)]
    best = next((one for one in helps(view) if one in able), None)
    values = {
        "pipeline": found.name,
        "view": view,
        "running": found.place.is_running(),
        "missing": missing_numbers(view.missing_first, view.missing_last),
        "best": best,
        "more": [one for one in ON_GROUPS if one in able and one is not best],
        "refusals": [
            (one, refusal(one, str(view.state).replace("_", " ")))
            for one in ON_GROUPS
            if one in IN_PIPELINES and not view.allows(one)
        ]
        if asked.may("mend")
        else [],
        "seen": seen_of(view),
        "steps": _steps(told, log),
        "done": next((one for one in log if one.operation_id == asked.query.get("done")), None),
        # What asks the run has a batch made of that, after which a live page would ask again.
        "is_live": reported is not None,
    }
    return Answer(GROUP.object_of(view), title=f"Group {key}", values=values)


def _steps(events: list[Any], log: list[Any]) -> list[dict[str, Any]]:
    found = [
        {"at": one.at, "kind": "waits", "what": one.kind, "told": " ".join(filter(None, (one.numbers, one.by)))}
        for one in events
    ]
    found += [
        {"at": one.at, "kind": "operation", "what": one.action, "told": f"{one.result} · {one.actor}: {one.reason}"}
        for one in log
    ]
    return sorted(found, key=lambda one: one["at"])


PAGE = Page(("pipelines/{pipeline}/groups/{queue}/{group}", "pipeline"), "Group", _read, "pipeline_group.html")
