"""A group: why it stands still, the message that blocks it, what is next, and the one button that helps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from seriatim.console.page import Answer, Asked, Page
from seriatim.errors import EnvironmentProblem
from seriatim.kernel.groups.verbs import ON_GROUPS, VERBS, refusal
from seriatim.operations import edits, groups, messages, trace
from seriatim.operations.groups import Action, GroupView, Standing
from seriatim.operations.tables.standing import STANDING

__all__ = ["PAGE"]

#: A body may be edited in the page up to this size.
_EDITABLE = 256 * 1024
#: A body that is no longer is seen at once, and a line of it has so many characters.
_SHORT, _WIDE = 2_000, 100
_STEPS = 80
#: So many messages that wait for the same reason have a step each.
_ALIKE = 3
_HELD = 500

_TEMPLATE = """
{% extends "base.html" %}
{% from "parts.html" import act_form, message_link, refused, step_word with context %}
{% set view = it.view %}
{% block main %}
<h1><span class="unseen">Group </span>{{ view.group | plain }} {{ view.state | badge }}</h1>
<p class="about">in queue <a href="{{ url('queues', view.queue) }}">{{ view.queue | plain }}</a>{% if view.since %}, in this state for {{ view.since | age }}{% endif %}</p>
{% if done %}<p class="done" role="status">{{ done.action | words | capitalize }} is done{% if done.details.get("after") %}: {{ done.details.get("before", "") | words }} → {{ done.details["after"] | words }}{% endif %}. It is in the operator log as number {{ done.operation_id }}.</p>{% endif %}
<section class="why {{ view.state }}" aria-labelledby="why"><h2 id="why">Why</h2>
<div class="why-text">{{ it.why | folded(240) }}</div>
<dl class="facts">
{% if it.blocks %}<div><dt>The message that blocks</dt><dd>{{ message_link(it.blocks.message_id) }}<br><small>{{ it.blocks.type | plain }}{% if it.blocks.sequence is not none %}, sequence {{ it.blocks.sequence }}{% endif %}{% if it.blocks.attempt %}, handed out {{ it.blocks.attempt | counted("time") }}{% endif %}</small></dd></div>{% endif %}
{% if it.following %}<div><dt>Next message</dt><dd>{{ message_link(it.following.message_id) }}<br><small>{{ it.following.type | plain }}{% if it.following.sequence is not none %}, sequence {{ it.following.sequence }}{% endif %}</small></dd></div>{% endif %}
<div><dt>{{ "Messages behind it" if it.blocks else "Messages" }}</dt><dd class="big">{{ it.behind | number }}</dd></div>
{% if holes %}<div><dt>Missing numbers</dt><dd>{% for first, last, since in holes %}<strong>{{ first }}{% if last != first %}..{{ last }}{% endif %}</strong>{% if since %} for {{ since | age }}{% endif %}{% if not loop.last %}<br>{% endif %}{% endfor %}</dd></div>{% endif %}
{% if view.due_at %}<div><dt>Due</dt><dd>{{ view.due_at | ago }}</dd></div>{% endif %}
<div><dt>Last processed</dt><dd>{% if it.processed %}{% if it.processed.sequence is not none %}sequence {{ it.processed.sequence }}, {% endif %}ordinal {{ it.processed.ordinal | number }}{% else %}nothing yet{% endif %}</dd></div>
{% if it.place %}<div><dt>First open place</dt><dd>{{ it.place.number }}, waits for {{ it.place.messages | counted("message") }}{% for one in it.place.waits_for %}<br><small>{{ message_link(one.message_id) }} in {{ one.queue | plain }}: {{ one.reason | plain }}</small>{% endfor %}</dd></div>{% endif %}
</dl>
</section>
{% if best or more %}
<section class="acts" aria-labelledby="acts"><h2 id="acts">{{ "What helps" if best else "What can be done" }}</h2>
{% if best %}{{ act_form(best, view, seen, body=body, is_best=true, blocks=it.blocks) }}{% endif %}
<details{% if not best or rejected and rejected.action != best %} open{% endif %}><summary>Other actions</summary>
{% for action in more %}{{ act_form(action, view, seen, blocks=it.blocks) }}{% endfor %}
{% for action, why in refusals %}{{ refused(action, view, why) }}{% endfor %}
</details>
</section>
{% elif asked.reads_only %}<p class="about">This console is read-only: nothing can be changed here.</p>
{% elif not asked.may("mend") %}<p class="about">You may look, but not act here.</p>
{% endif %}
{% for one in commands %}<p class="about">What helps: <code>{{ one | plain }}</code></p>{% endfor %}
<section aria-labelledby="timeline"><h2 id="timeline">Timeline</h2>
{% if cut %}<p class="about">The newest {{ cut }} steps, oldest first.</p>{% endif %}
<ol class="timeline">
{% for one in steps %}<li class="{{ one.kind }}"><span class="at">{{ one.at | ago }}</span> <span class="kind">{{ step_word(one.kind) }}</span>
<span class="told">{{ one.text | timed if one.kind in ("held", "waits") else one.text | again if one.kind == "fault" else one.text | cell }}{% if one.message_id %} · {{ message_link(one.message_id, true) }}{% endif %}</span></li>
{% endfor %}
{% if alike %}<li class="waits"><span class="at"></span> <span class="kind">waits</span> <span class="told">and {{ alike | counted("message") }} more for the same reason: <a href="{{ url('messages', queue=view.queue, group=view.group) }}">all its messages</a></span></li>
{% endif %}
</ol></section>
<p><a href="{{ url('messages', queue=view.queue, group=view.group) }}">Its messages</a> · <a href="{{ url('faults', queue=view.queue, group=view.group) }}">its faults</a> ·
<a href="{{ url('events', queue=view.queue, group=view.group) }}">its events</a> · <a href="{{ url('log', queue=view.queue, group=view.group) }}">its operator log</a></p>
{% endblock %}
"""


def _read(asked: Asked) -> Answer:
    queue = asked.named.get("queue") or asked.query.get("queue", "")
    key = asked.named.get("group") if "group" in asked.named else asked.query.get("key", "")
    it = groups.standing(asked.box, queue, str(key))
    return Answer(STANDING.object_of(it), title=f"Group {key}", values=_values(asked, it))


def _values(asked: Asked, it: Standing) -> dict[str, Any]:
    view = it.view
    able = [one for one in it.allowed if one in ON_GROUPS and asked.may(VERBS[one].role)]
    best = next((one for one in it.helps if one in able), None)
    steps = trace.trace_group(asked.box, view.queue, view.group, limit=20)
    seen, alike = _without_alike(steps[-_STEPS:])
    number = asked.number("done")
    return {
        "it": it,
        "best": best,
        "more": [one for one in ON_GROUPS if one in able and one is not best],
        "refusals": _refusals(it) if asked.may("mend") else [],
        "commands": it.commands if best is None else (),
        "seen": groups.seen_of(view),
        "holes": _holes(asked, view),
        "steps": seen,
        "alike": alike,
        "cut": len(seen) if len(steps) > _STEPS else 0,
        "body": _body(asked, it) if best is Action.RETRY else None,
        "done": next((one for one in it.operations if one.operation_id == number), None),
    }


def _without_alike(steps: list[trace.Step]) -> tuple[list[trace.Step], int]:
    """Steps without the last of them that only repeat for one message after another why it waits; and how many these are."""
    alike = 0
    for one, before in pairwise(reversed(steps)):
        if not (one.kind is before.kind is trace.StepKind.WAITS and one.text == before.text):
            break
        alike += 1
    alike = max(alike - (_ALIKE - 1), 0)
    return steps[: len(steps) - alike], alike


def _refusals(it: Standing) -> list[tuple[Action, str]]:
    """The actions that the group doesn't allow now, with the reason."""
    found = []
    for action in ON_GROUPS:
        if it.view.regions is not None and VERBS[action].decides:
            found.append((action, f"the journal of the regions {it.view.regions} decides for both: seriatim journal"))
        elif action not in it.allowed:
            *others, last = sorted(one.replace("_", " ") for one in VERBS[action].states)
            states = f"{', '.join(others)} or {last}" if others else last
            if it.view.state not in VERBS[action].states:
                found.append((action, f"{refusal(action, it.view.state)}: it has to be {states}"))
            else:
                found.append((action, VERBS[action].misses))
    return found


def _holes(asked: Asked, view: GroupView) -> list[tuple[int, int, Any]]:
    """The missing numbers as ranges: the first hole with the time from which it is there, and those between held messages."""
    if view.next is None or view.hole_through is None:
        return []
    found: list[tuple[int, int, Any]] = [(view.next, view.hole_through, view.hole_since)]
    if view.held > 1:
        policy = asked.box.definitions().queue(view.queue).declared.policy_of(view.group)
        step = getattr(policy, "increment", 1)
        held = messages.messages(asked.box, queue=view.queue, group=view.group, status="held", limit=_HELD)
        numbers = sorted(one.sequence for one in held if one.sequence is not None and one.sequence > view.hole_through)
        found += [(first + step, last - step, None) for first, last in pairwise(numbers) if last - first > step]
    return found[:20]


def _body(asked: Asked, it: Standing) -> dict[str, Any] | None:
    """The body of the message that blocks, to be edited; None if it can't be, or the user doesn't see bodies."""
    if it.blocks is None or not asked.may("see-bodies"):
        return None
    try:
        found = next(
            iter(edits.export(asked.box, queue=it.view.queue, group=it.view.group, state=edits.RETRIED_IN)), None
        )
    except EnvironmentProblem:
        return None
    if found is None or len(found.body) > _EDITABLE:
        return None
    try:
        text = found.body.decode()
    except UnicodeDecodeError:
        return None
    if not all(one.isprintable() or one in "\n\t" for one in text):
        return None  # a field of a form would change it
    lines = text.count("\n") + 1 + len(text) // _WIDE
    return {
        "text": text,
        "message_id": found.message_id,
        "lines": min(max(lines, 2), 12),
        "is_short": len(text) <= _SHORT,
    }


PAGE = Page(("groups/{queue}/{group}", "group"), "Group", _read, _TEMPLATE)
