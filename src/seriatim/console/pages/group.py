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

#: A body may be edited in the page up to this size.
_EDITABLE = 256 * 1024
#: The longest body that is shown unfolded, and the characters of a line of it.
_SHORT, _WIDE = 2_000, 100
_STEPS = 80
#: The most messages with one reason to wait that have a step each.
_ALIKE = 3
_HELD = 500


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


PAGE = Page(("groups/{queue}/{group}", "group"), "Group", _read, "group.html")
