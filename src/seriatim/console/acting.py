"""Everything that the console changes goes through `act`: it checks the role, and takes the actor's name from who asks."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seriatim.box.box import MessageBox
from seriatim.box.definitions.queue_settings import SETTINGS
from seriatim.box.views.groups import new_group
from seriatim.console.filters import QUEUE, check_values, whole_number
from seriatim.console.guard import Refusal
from seriatim.console.pipelines import Pipelines
from seriatim.console.seen import MOST_SEEN, seen_number, token_of, tokens_in
from seriatim.console.who import Actor
from seriatim.errors import Unavailable, UsageError, shown
from seriatim.kernel.groups.verbs import ON_GROUPS, VERBS, Action, ParameterKind, refusal
from seriatim.operations import (
    bulk,
    bulk_operations,
    connections,
    dead_letters,
    groups,
    instances,
    messages,
    queues,
    schedules,
    set_aside,
    subscriptions,
)
from seriatim.operations.bulk_operations import BulkOperation
from seriatim.operations.places import BoxGroups, Groups
from seriatim.operations.tables.bulk import BULK_OPERATIONS
from seriatim.operations.tables.dead_letters import REQUEUED
from seriatim.operations.tables.queues import SETTINGS as QUEUE_SETTINGS
from seriatim.pipeline.declared.work_limits import rate_of
from seriatim.pipeline.text.counted import counted

_LONGEST_REASON = 4096
_DIGITS = re.compile(r"\d+([.:]\d+)*")
#: The most groups that are acted on one by one; and the seconds that a page waits for the end of a bulk operation, which more groups need.
_FEW, _PATIENCE_S = 20, 20.0
#: The longest time that a page waits for the answer of a pipeline; then its command stays queued.
_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class Done:
    """What was done: `told`, in words; `back`, the parts of the address of the page that shows it, and its query. `wakes`: whether there is
    work on bulk operations now.
    """

    told: str
    back: Sequence[str]
    query: Mapping[str, object]
    twin: object = None
    wakes: bool = False


def role_of(action: str) -> str:
    if action in _NAMED:
        return _NAMED[action][0]
    if action in ON_GROUPS:
        return VERBS[Action(action)].role
    raise Refusal(400, f"there is no action {shown(action, 60)}")


def act(
    box: MessageBox,
    actor: Actor,
    form: Mapping[str, str],
    *,
    pipelines: Pipelines | None = None,
    reads_only: bool = False,
) -> Done:
    """Do what a form says, for an actor. It is one transaction, and written to the operator log."""
    action = form.get("action", "")
    if action in ("bulk.begin", "bulk.cancel"):
        return _on_bulk(box, actor, action, form, reads_only=reads_only)
    by = _allowed(actor, role_of(action), form, reads_only=reads_only)
    if action in _NAMED:
        return _NAMED[action][1](box, form, by)
    if "pipeline" not in form:
        return _on_group(BoxGroups(box), (), actor, Action(action), form, by)
    found = (pipelines or Pipelines()).find(form["pipeline"])
    from seriatim.operations.pipelines.groups import PipelineGroups  # noqa: PLC0415 -- Spark is slow to import

    place = PipelineGroups(found, wait=_ANSWER_S)
    return _on_group(place, ("pipelines", found.name), actor, Action(action), form, by)


def gather(box: MessageBox, actor: Actor, form: Mapping[str, str], *, reads_only: bool = False) -> Done:
    """Gather all groups that a filter finds for a bulk operation, which does nothing before it is begun."""
    action = form.get("do", "")
    if form.get("what") != "groups" or action not in bulk.BULK:
        raise Refusal(400, f"there is no bulk operation {shown(action, 60)} on {shown(form.get('what', ''), 60)}")
    by = _allowed(actor, role_of(action), form, reads_only=reads_only)
    given: dict[str, Any] = {name: form[name] for name in _GROUP_FILTERS if form.get(name)}
    told = dict(given)
    found = bulk_operations.gather_chosen(box, Action(action), _group_filter(box, given), chosen_by=told, **by)
    return Done("gathered", ("bulk-operations", str(found.bulk_id)), {}, BULK_OPERATIONS.object_of(found))


def _on_bulk(box: MessageBox, actor: Actor, action: str, form: Mapping[str, str], *, reads_only: bool) -> Done:
    number = whole_number("the bulk operation", form.get("name", ""))
    found = bulk_operations.bulk_operation(box, number)
    by = _allowed(actor, role_of(found.action), form, reads_only=reads_only)
    if action == "bulk.begin":
        if found.actor != actor.name:
            raise Refusal(403, f"{found.actor} has gathered these groups", "who gathers them begins it")
        found = bulk_operations.begin(box, number)
    else:
        found = bulk_operations.cancel(box, number, **by)
    back, twin = ("bulk-operations", str(number)), BULK_OPERATIONS.object_of(found)
    return Done(f"bulk operation {number}: {found.state}", back, {}, twin, wakes=action == "bulk.begin")


def _allowed(actor: Actor, role: str, form: Mapping[str, str], *, reads_only: bool) -> dict[str, str]:
    if reads_only:
        raise Refusal(403, "this console is read-only, and nothing was done", "start one without --read-only")
    if role not in actor.roles:
        raise Refusal(403, f"{actor.name} may not do that", f"it needs the role {role}")
    reason = form.get("reason", "").strip()
    if not reason:
        raise UsageError("the reason is missing", remedy="say why: it is written to the operator log")
    if len(reason) > _LONGEST_REASON:
        raise UsageError("the reason is too long", remedy=f"at most {_LONGEST_REASON:,} characters")
    return {"actor": actor.name, "reason": reason}


def _on_group(
    place: Groups, at: Sequence[str], actor: Actor, action: Action, form: Mapping[str, str], by: dict[str, Any]
) -> Done:
    """Act on a group of a box; or write a command for a group of a pipeline, and wait a moment for the answer."""
    queue, group = form.get("queue", ""), form.get("group", "")
    given: dict[str, Any] = {}
    for one in VERBS[action].takes:
        if one.kind is ParameterKind.NUMBER and form.get(one.name):
            given[one.name] = whole_number(one.name, form[one.name])
        elif one.kind is ParameterKind.BODY and "body" in form and form["body"] != form.get("body_before"):
            if "see-bodies" not in actor.roles:
                raise Refusal(403, f"{actor.name} may not edit a body", "it needs the role see-bodies")
            given[one.name] = form["body"].encode()
    seen = groups.seen_of(new_group(queue, group)) if "begins" in form else form.get("seen", "")
    done = place.act(action, queue, group, seen=seen, **given, **by)
    back = (*at, "groups", queue, group)
    return Done(action.words, back, {"done": done.operation_id}, place.operation.object_of(done))


_Form = Mapping[str, str]


def _named(does: Callable[..., Any], told: str, *back: str, number: str = "") -> Callable[..., Done]:
    """An action on what has a name of its own, or is a `number`; in `told` and `back` its name is {name}."""

    def act(box: MessageBox, form: _Form, by: dict[str, Any]) -> Done:
        name = form.get("name", "")
        does(box, whole_number(number, name) if number else name, **by)
        return Done(told.format(name=name), [one.format(name=name) for one in back], {})

    return act


def _retry(box: MessageBox, form: _Form, by: dict[str, Any]) -> Done:
    """A message that stands still by itself in a queue."""
    name = form.get("name", "")
    (retried,) = messages.retry(box, name, queue=form.get("queue", ""), **by)
    return Done(f"message {name}: retry", ("messages", name), {"done": retried.operation_id})


def _skip(box: MessageBox, form: _Form, by: dict[str, Any]) -> Done:
    """A message that was faulted by itself: its group goes on behind it."""
    name = form.get("name", "")
    done = groups.skip_message(box, form.get("queue", ""), form.get("group", ""), message=name, **by)
    return Done(f"message {name}: skip", ("messages", name), {"done": done.operation_id})


def _requeue(box: MessageBox, form: _Form, by: dict[str, Any]) -> Done:
    number = whole_number("the dead letter", form.get("name", ""))
    done = dead_letters.requeue(box, number, **by)
    back = ("messages", done.letter.message_id)
    return Done(f"dead letter {number}: {done.place}", back, {"done": done.operation_id}, REQUEUED.object_of(done))


def _resubmit(box: MessageBox, _: _Form, by: dict[str, Any]) -> Done:
    done = messages.resubmit(box, **by)
    return Done(f"{done.routed:,} routed, {done.left:,} left", ("unrouted",), {})


def _set_queue(box: MessageBox, form: _Form, by: dict[str, Any]) -> Done:
    """Set how a queue is worked on: what a field has; an empty one unsets."""
    name = form.get("name", "")
    given: dict[str, Any] = {}
    for one in SETTINGS:
        text = form.get(one, "").strip()
        given[one] = None if not text else rate_of(text) if one == "rate" else whole_number(one.replace("_", " "), text)
    found = queues.set_queue(box, name, **given, **by)
    return Done(f"queue {name}: {found}", ("queues", name), {}, QUEUE_SETTINGS.object_of(found))


def _delete(box: MessageBox, number: int, **by: Any) -> None:
    dead_letters.delete(box, [number], **by)


#: Actions on what has a name or a number of its own: the role that each needs, and what does it.
_NAMED: Mapping[str, tuple[str, Callable[..., Done]]] = {
    "queue.on": ("switch", _named(queues.turn_on, "queue {name!r} is on", "queues", "{name}")),
    "queue.off": ("switch", _named(queues.turn_off, "queue {name!r} is off", "queues", "{name}")),
    "queue.set": ("switch", _set_queue),
    "subscription.start": ("switch", _named(subscriptions.start, "subscription {name!r}: start", "subscriptions")),
    "subscription.stop": ("switch", _named(subscriptions.stop, "subscription {name!r}: stop", "subscriptions")),
    "schedule.pause": ("switch", _named(schedules.pause, "schedule {name!r}: pause", "schedules")),
    "schedule.resume": ("switch", _named(schedules.resume, "schedule {name!r}: resume", "schedules")),
    "connection.end": ("switch", _named(connections.end, "connection {name}: ended", "connections", number="the connection")),
    "unrouted.resubmit": ("mend", _resubmit),
    "message.retry": ("mend", _retry),
    "message.skip": (VERBS[Action.SKIP_MESSAGE].role, _skip),
    "letter.requeue": ("mend", _requeue),
    "letter.delete": ("discard", _named(_delete, "dead letter {name}: deleted", "dead-letters", number="the dead letter")),
    "instance.suspend": ("mend", _named(instances.suspend, "instance {name}: suspend", "instances", number="the instance")),
    "instance.resume": ("mend", _named(instances.resume, "instance {name}: resume", "instances", number="the instance")),
    "instance.terminate": (
        "discard", _named(instances.terminate, "instance {name}: terminate", "instances", number="the instance")
    ),
}  # fmt: skip


# ---- many at once


@dataclass(frozen=True, slots=True)
class Lot:
    """What many are acted on by one action: how they are found, told apart, and acted on."""

    noun: str
    #: The actions, each with the role that it needs.
    roles: Mapping[str, str]
    filters: Sequence[str]
    #: Those that the filter finds and that can be acted on, and those that can't, each with the reason.
    find: Callable[[MessageBox, str, dict[str, Any]], tuple[list[Any], list[tuple[Any, str]]]]
    seen: Callable[[Any], str]
    #: The queue and the group or id of one, for people.
    name: Callable[[Any], tuple[str | None, str | None, str]]
    #: Acts on them; yields for each what was done or why it wasn't.
    run: Callable[[MessageBox, str, list[Any], dict[str, str]], list[Any]]


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action on many would do: `found`, and those `left_out` with the reason; `token` of what was seen."""

    lot: Lot
    action: str
    found: list[Any]
    left_out: list[tuple[Any, str]]
    token: str
    is_cut: bool

    def errors(self) -> list[tuple[str, int]]:
        """The errors of those found, the most frequent first, with their numbers: texts that differ in digits only are one."""
        return Counter(_DIGITS.sub("…", one.error) for one in self.found if getattr(one, "error", None)).most_common()


@dataclass(frozen=True, slots=True)
class Many:
    preview: Preview
    done: int
    refused: list[tuple[str, str, str]]
    #: Those that the filter finds now, and that weren't there, or were otherwise, when the preview was made.
    changed: list[Any]
    #: How many of the preview the filter doesn't find any more.
    gone: int
    #: The bulk operation that did it, or still does; None: it was done one after another.
    operation: BulkOperation | None = None


def lot_of(what: str, action: str) -> Lot:
    lot = _LOTS.get(what)
    if lot is None or action not in lot.roles:
        raise Refusal(400, f"there is no action {shown(action, 60)} on many {shown(what, 60)}")
    return lot


def preview(box: MessageBox, actor: Actor, what: str, action: str, given: Mapping[str, str]) -> Preview:
    """What an action on many would do; changes nothing."""
    lot = lot_of(what, action)
    role = lot.roles[action]
    if role not in actor.roles:
        raise Refusal(403, f"{actor.name} may not do that", f"it needs the role {role}")
    chosen = {name: given[name] for name in lot.filters if given.get(name)}
    check_values(box, [QUEUE], chosen)
    found, left_out = lot.find(box, action, chosen)
    some = found[:MOST_SEEN]
    return Preview(lot, action, some, left_out, token_of(map(lot.seen, some)), len(found) > MOST_SEEN)


def many(
    box: MessageBox, actor: Actor, what: str, action: str, form: Mapping[str, str], *, reads_only: bool = False
) -> Many:
    """Act on those that a preview has shown and that are as they were; each in a transaction of its own."""
    by = _allowed(actor, lot_of(what, action).roles[action], form, reads_only=reads_only)
    seen = tokens_in(form.get("seen", ""))
    now = preview(box, actor, what, action, form)
    same = [one for one in now.found if now.lot.seen(one) in seen]
    changed = [one for one in now.found if now.lot.seen(one) not in seen]
    gone = len(seen) - len(same)
    if what == "groups" and len(same) > _FEW:
        return _together(box, now, same, changed=changed, gone=gone, by=by, form=form)
    results = now.lot.run(box, action, same, by)
    refused = [(one.queue, one.group, one.why) for one in results if isinstance(one, bulk.Refused)]
    return Many(now, len(same) - len(refused), refused, changed, gone)


def _together(
    box: MessageBox, now: Preview, same: list[Any], *, changed: list[Any], gone: int, by: dict[str, Any], form: Mapping[str, str]
) -> Many:  # fmt: skip
    """Act on groups as a bulk operation, which does portions of them at once, and wait for its end, or for a while."""
    chosen = {name: form[name] for name in now.lot.filters if form.get(name)}
    number = bulk_operations.gather(box, Action(now.action), same, chosen_by=chosen, **by).bulk_id
    found = bulk_operations.begin(box, number)
    ends = time.monotonic() + _PATIENCE_S
    try:
        for one in bulk_operations.follow(box, number, ends=lambda: time.monotonic() >= ends):
            found = one
    except Unavailable:  # it goes on later, as one that is left
        found = bulk_operations.bulk_operation(box, number)
    rows = bulk_operations.bulk_groups(box, number, result="not done", limit=MOST_SEEN)
    refused = [(str(one.queue), one.group, str(one.why)) for one in rows]
    return Many(now, found.done, refused, changed, gone, found)


def _group_filter(box: MessageBox, given: dict[str, Any]) -> groups.GroupFilter:
    """The filter of a form; its queue is taken out of it."""
    queue = given.pop("queue", None)
    if queue is not None:
        box.definitions().queue(queue)
    given["standing"] = bool(given.get("standing"))
    if given.get("state") == "all":
        given["state"] = list(groups.GroupState)
    given.setdefault("state", groups.STOPPED)  # as the list, so that the number on a button is that of the list
    return groups.GroupFilter(queue, **given)


def _find_groups(box: MessageBox, action: str, given: dict[str, Any]) -> tuple[list[Any], list[tuple[Any, str]]]:
    where = _group_filter(box, given)
    found, others = bulk.sorted_out(box, Action(action), where, limit=MOST_SEEN + 1, others=MOST_SEEN)
    return found, [(one, refusal(Action(action), one.state)) for one in others]


def _act_on_groups(box: MessageBox, action: str, found: list[Any], by: dict[str, Any]) -> list[Any]:
    return list(bulk.each(box, Action(action), found, **by))


def _find_letters(box: MessageBox, action: str, given: dict[str, Any]) -> tuple[list[Any], list[tuple[Any, str]]]:
    return list(dead_letters.dead_letters(box, limit=MOST_SEEN + 1, **given)), []


def _find_aside(box: MessageBox, action: str, given: dict[str, Any]) -> tuple[list[Any], list[tuple[Any, str]]]:
    kind = given.pop("type", None)
    found = set_aside.set_aside(box, message_type=kind, limit=MOST_SEEN + 1, **given)
    if action == "delete":
        return list(found), []
    fits = [one for one in found if one.status in set_aside.REQUEUED]
    return fits, [
        (one, f"what is {one.status} isn't put back") for one in found if one.status not in set_aside.REQUEUED
    ]


def _requeue_or_delete(requeue: Callable[..., Any], delete: Callable[..., Any]) -> Callable[..., list[Any]]:
    def run(box: MessageBox, action: str, found: list[Any], by: dict[str, Any]) -> list[Any]:
        if action == "requeue":
            return list(requeue(box, found, **by))
        if found:
            delete(box, found, **by)
        return found

    return run


def _delete_letters(box: MessageBox, found: list[Any], **by: Any) -> None:
    dead_letters.delete(box, [one.entry_id for one in found], **by)


_GROUP_FILTERS = ("queue", "state", "standing", "key", "older_than", "error_class", "error", "since", "until")
_OF_MESSAGES = {"requeue": "mend", "delete": "discard"}
_LOTS = {
    "groups": Lot(
        "group", {one: VERBS[one].role for one in bulk.BULK}, _GROUP_FILTERS, _find_groups, groups.seen_of,
        lambda one: (one.queue, one.group, one.state), _act_on_groups,
    ),
    "dead-letters": Lot(
        "dead letter", _OF_MESSAGES, ("queue", "key", "error_class", "error", "older_than", "since", "until"), _find_letters,
        lambda one: seen_number(one.entry_id), lambda one: (one.queue, one.group, one.message_id),
        _requeue_or_delete(dead_letters.requeue_each, _delete_letters),
    ),
    "set-aside": Lot(
        "message", _OF_MESSAGES, ("queue", "group", "status", "type", "older_than"), _find_aside,
        lambda one: seen_number(one.message_id, one.queue, one.status), lambda one: (one.queue, one.group, one.message_id),
        _requeue_or_delete(set_aside.requeue_each, set_aside.delete),
    ),
}  # fmt: skip


def told(done: Many) -> str:
    action, noun = done.preview.action, done.preview.lot.noun
    verb = VERBS[Action(action)].button if noun == "group" else action.replace("_", " ").capitalize()
    return f"{verb}: {counted(done.done, noun)}"
