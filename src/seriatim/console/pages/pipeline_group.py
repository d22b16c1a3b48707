"""A group of a pipeline: its state, the numbers that it misses, and the buttons, each a command to the pipeline."""

from __future__ import annotations

from typing import Any

from seriatim.console.page import Answer, Asked, Page
from seriatim.console.pages.pipeline import WAIT_S
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import IN_PIPELINES, ON_GROUPS, VERBS, Action, refusal
from seriatim.kernel.operators.held_groups import missing_numbers
from seriatim.operations.tables.pipelines import GROUP

__all__ = ["PAGE"]

_EVENTS = 50
_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import act_form, refused with context %}
{% block main %}
<h1><span class="unseen">Group </span>{{ view.group | plain }} {{ view.state | badge }}</h1>
<p class="about">in destination {{ view.queue | plain }} of pipeline <a href="{{ url('pipelines', pipeline) }}">{{ pipeline | plain }}</a>{% if view.since %}, in this state for {{ view.since | age }}{% endif %}</p>
{% if done %}<p class="done" role="status">{{ done.action | words | capitalize }}: {{ done.result | words }}{% if done.details.get("after") %}: {{ done.details.get("before", "") | words }} → {{ done.details["after"] | words }}{% endif %}{% if done.result == "queued" %}. The pipeline obeys it in its next batch{% if not running %}, when it runs{% endif %}{% endif %}.</p>{% endif %}
<section class="why {{ view.state }}" aria-labelledby="why"><h2 id="why">Why</h2>
<p class="why-text">{{ view.reason | plain | capitalize if view.reason else "It holds nothing." }}</p>
<dl class="facts">
{% if missing %}<div><dt>Missing numbers</dt><dd><strong>{{ missing | plain }}</strong></dd></div>{% endif %}
{% if view.next is not none %}<div><dt>Next number</dt><dd class="big">{{ view.next }}</dd></div>{% endif %}
<div><dt>Held messages</dt><dd class="big">{{ view.held | number }}</dd></div>
{% if view.late %}<div><dt>Of these late</dt><dd class="big">{{ view.late | number }}</dd></div>{% endif %}
{% if view.due_at %}<div><dt>Due</dt><dd>{{ view.due_at | ago }}</dd></div>{% endif %}
<div><dt>Released</dt><dd>{{ view.ordinal | counted("message") }}{% if view.last_released is not none %}, last sequence {{ view.last_released }}{% endif %}</dd></div>
</dl>
</section>
{% if best or more %}
<section class="acts" aria-labelledby="acts"><h2 id="acts">{{ "What helps" if best else "What can be done" }}</h2>
{% if not running %}<p class="law">The pipeline isn't running: its next run obeys.</p>{% endif %}
{% if best %}{{ act_form(best, view, seen, is_best=true, pipeline=pipeline) }}{% endif %}
<details{% if not best or rejected and rejected.action != best %} open{% endif %}><summary>Other actions</summary>
{% for action in more %}{{ act_form(action, view, seen, pipeline=pipeline) }}{% endfor %}
{% for action, why in refusals %}{{ refused(action, view, why) }}{% endfor %}
</details>
</section>
{% elif asked.reads_only %}<p class="about">This console is read-only: nothing can be changed here.</p>
{% elif not asked.may("mend") %}<p class="about">You may look, but not act here.</p>
{% endif %}
<section aria-labelledby="timeline"><h2 id="timeline">Events and commands</h2>
{% if not steps %}<p class="nothing">Nothing has happened to it but messages.</p>{% else %}<ol class="timeline">
{% for one in steps %}<li class="{{ one.kind }}"><span class="at">{{ one.at | ago }}</span> <span class="kind">{{ one.what | words }}</span>
<span class="told">{{ one.told | plain }}</span></li>
{% endfor %}
</ol>{% endif %}</section>
<p><a href="{{ url('pipelines', pipeline, 'events', group=view.group) }}">All its events</a> · <a href="{{ url('pipelines', pipeline, 'log', group=view.group) }}">its operator log</a></p>
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    name = asked.named.get("pipeline") or asked.query.get("name", "")
    queue = asked.named.get("queue") or asked.query.get("queue", "")
    key = asked.named.get("group") if "group" in asked.named else asked.query.get("key", "")
    found = asked.pipelines.find(name)
    from seriatim.operations.pipelines.events import events  # noqa: PLC0415 -- Spark is slow to import
    from seriatim.operations.pipelines.groups import group_reported, group_view, seen_of  # noqa: PLC0415
    from seriatim.operations.pipelines.log import operator_log  # noqa: PLC0415

    reported = group_reported(found, queue, str(key))
    view = reported or group_view(found, queue, str(key), wait=WAIT_S, starts_spark=False)
    told = events(found, queue, group=view.group, limit=_EVENTS)
    log = operator_log(found, queue, group=view.group, limit=_EVENTS)
    able = [one for one in IN_PIPELINES if view.allows(one) and asked.may(VERBS[one].role)]
    best = next((one for one in _helps(view) if one in able), None)
    values = {
        "pipeline": found.name,
        "view": view,
        "running": found.place.is_running(),
        "missing": missing_numbers(view.missing_first, view.missing_last),
        "best": best,
        "more": [one for one in ON_GROUPS if one in able and one is not best],
        "refusals": [(one, refusal(one, str(view.state).replace("_", " "))) for one in ON_GROUPS if one in IN_PIPELINES and not view.allows(one)]
        if asked.may("mend")
        else [],
        "seen": seen_of(view),
        "steps": _steps(told, log),
        "done": next((one for one in log if one.operation_id == asked.query.get("done")), None),
        # What asks the run has a batch made of that, after which a live page would ask again.
        "is_live": reported is not None,
    }  # fmt: skip
    return Answer(GROUP.object_of(view), title=f"Group {key}", values=values)


def _helps(view: Any) -> list[Action]:
    """What usually helps a group that stands still."""
    match view.state:
        case GroupState.SUSPENDED:
            return [Action.RESUME] if view.by_operator or not view.late else [Action.RESUME, Action.SKIP_MESSAGE]
        case GroupState.WAITING | GroupState.TIMED_OUT:
            return [Action.SKIP_HOLE]
    return []


def _steps(events: list[Any], log: list[Any]) -> list[dict[str, Any]]:
    """Events and commands, oldest first."""
    found = [
        {"at": one.at, "kind": "waits", "what": one.kind, "told": " ".join(filter(None, (one.numbers, one.by)))}
        for one in events
    ]
    found += [
        {"at": one.at, "kind": "operation", "what": one.action, "told": f"{one.result} · {one.actor}: {one.reason}"}
        for one in log
    ]
    return sorted(found, key=lambda one: one["at"])


PAGE = Page(("pipelines/{pipeline}/groups/{queue}/{group}", "pipeline"), "Group", _read, _TEMPLATE)
