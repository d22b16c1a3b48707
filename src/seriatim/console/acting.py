"""Everything that the console changes goes through `act`: it checks the role, and takes the actor's name from who asks."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from seriatim.box.box import MessageBox
from seriatim.console.actions import ON_GROUPS
from seriatim.console.filters import QUEUE, check_values
from seriatim.console.guard import Refusal
from seriatim.console.pipelines import Pipelines
from seriatim.console.seen import MOST_SEEN, seen_in_pipeline, seen_number, token_of, tokens_in
from seriatim.console.who import Actor
from seriatim.errors import Unavailable, UsageError, shown
from seriatim.kernel.groups.states import refusal
from seriatim.operations import (
    bulk,
    bulk_operations,
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
from seriatim.operations.groups import Action
from seriatim.operations.tables.acted import OPERATION
from seriatim.operations.tables.bulk import BULK_OPERATIONS
from seriatim.operations.tables.dead_letters import REQUEUED
from seriatim.operations.tables.pipelines import OPERATION as OF_PIPELINE
from seriatim.pipeline.text.counted import counted

__all__ = ["Done", "Lot", "Many", "Preview", "act", "gather", "lot_of", "many", "preview", "role_of", "told"]

_LONGEST_REASON = 4096
_DIGITS = re.compile(r"\d+([.:]\d+)*")
#: More groups than that are acted on together, as a bulk operation; so long a page waits for its end.
_FEW, _PATIENCE_S = 20, 20.0
#: So long a page waits for the answer of a pipeline; then its command is queued.
_ANSWER_S = 5.0
#: What an action on a group takes further, and what it is called in the form.
_NUMBERS = {"next": "next", "through": "through"}


@dataclass(frozen=True, slots=True)
class Done:
    """What was done: `told`, in words; `back`, the parts of the address of the page that shows it, and its query.

    `wakes`: whether there is work on bulk operations now.
    """

    told: str
    back: Sequence[str]
    query: Mapping[str, object]
    twin: object = None
    wakes: bool = False


_ROLES = {
    "queue.on": "switch", "queue.off": "switch", "subscription.start": "switch", "subscription.stop": "switch",
    "schedule.pause": "switch", "schedule.resume": "switch", "unrouted.resubmit": "mend",
    "letter.requeue": "mend", "letter.delete": "discard", "message.retry": "mend",
    "instance.suspend": "mend", "instance.resume": "mend", "instance.terminate": "discard",
}  # fmt: skip


def role_of(action: str) -> str:
    """The role that an action needs."""
    if action in _ROLES:
        return _ROLES[action]
    if action in list(Action) and Action(action) in ON_GROUPS:
        return ON_GROUPS[Action(action)].role
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
    if action in _ROLES:
        return _on_named(box, action, form, by)
    if "pipeline" in form:
        return _in_pipeline(pipelines or Pipelines(), Action(action), form, by)
    return _on_group(box, actor, Action(action), form, by)


def _in_pipeline(pipelines: Pipelines, action: Action, form: Mapping[str, str], by: dict[str, Any]) -> Done:
    """Write a command for a group of a pipeline, and wait a moment for the answer."""
    found = pipelines.find(form["pipeline"])
    from seriatim.operations.pipelines import groups as of_pipelines  # noqa: PLC0415 -- Spark is slow to import

    queue, group = form.get("queue", ""), form.get("group", "")
    view = of_pipelines.group_reported(found, queue, group) or of_pipelines.group_view(
        found, queue, group, wait=_ANSWER_S, starts_spark=False
    )
    if form.get("seen") != seen_in_pipeline(view):
        raise Refusal(
            409,
            f"group {group!r} has changed since you looked: it is {str(view.state).replace('_', ' ')} now. Nothing was done",
            "look at it again",
        )
    given: dict[str, Any] = {
        argument: _number(name, form[name]) for name, argument in _NUMBERS.items() if form.get(name)
    }
    done = of_pipelines.act(found, action, queue, group, wait=_ANSWER_S, **given, **by)
    back = ("pipelines", found.name, "groups", queue, group)
    return Done(f"{action.replace('_', ' ')}", back, {"done": done.operation_id}, OF_PIPELINE.object_of(done))


def gather(box: MessageBox, actor: Actor, form: Mapping[str, str], *, reads_only: bool = False) -> Done:
    """Gather all groups that a filter finds for a bulk operation, which does nothing before it is begun."""
    action = form.get("do", "")
    if form.get("what") != "groups" or action not in bulk.BULK:
        raise Refusal(400, f"there is no bulk operation {shown(action, 60)} on {shown(form.get('what', ''), 60)}")
    by = _allowed(actor, role_of(action), form, reads_only=reads_only)
    given: dict[str, Any] = {name: form[name] for name in _GROUP_FILTERS if form.get(name)}
    told = dict(given)
    found = bulk_operations.gather_chosen(box, Action(action), _group_filter(box, given), chosen_by=told, **by)
    return Done(
        "gathered", ("bulk-operations", str(found.bulk_id)), {}, BULK_OPERATIONS.object_of(found)
    )  # fmt: skip


def _on_bulk(box: MessageBox, actor: Actor, action: str, form: Mapping[str, str], *, reads_only: bool) -> Done:
    number = _number("the bulk operation", form.get("name", ""))
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
    """The actor and the reason, if the actor may act."""
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


def _on_group(box: MessageBox, actor: Actor, action: Action, form: Mapping[str, str], by: dict[str, Any]) -> Done:
    queue, group = form.get("queue", ""), form.get("group", "")
    given: dict[str, Any] = {}
    for name, argument in _NUMBERS.items():
        if form.get(name):
            given[argument] = _number(name, form[name])
    if action is Action.RETRY and "body" in form and form["body"] != form.get("body_before"):
        if "see-bodies" not in actor.roles:
            raise Refusal(403, f"{actor.name} may not edit a body", "it needs the role see-bodies")
        given["body"] = form["body"].encode()
    if action is Action.RESET and "next" not in given:
        raise UsageError("the next number is missing", remedy="give the number with which the group goes on")
    done = groups.act(box, action, queue, group, seen=form.get("seen", ""), **(given | by))
    told = f"{action.replace('_', ' ')}: {done.before} → {done.after}"

    return Done(told, ("groups", queue, group), {"done": done.operation_id}, OPERATION.object_of(done))


def _number(name: str, text: str) -> int:
    if not text.strip().removeprefix("-").isdecimal() or len(text) > 19:
        raise UsageError(f"{name} can't be {shown(text, 60)}", remedy="a whole number")
    return int(text)


def _on_named(box: MessageBox, action: str, form: Mapping[str, str], by: dict[str, Any]) -> Done:
    """Actions on what has a name or a number of its own."""
    noun, _, verb = action.partition(".")
    name = form.get("name", "")
    match noun:
        case "queue":
            (queues.turn_on if verb == "on" else queues.turn_off)(box, name, **by)
            return Done(f"queue {name!r} is {verb}", ("queues", name), {})
        case "subscription":
            (subscriptions.start if verb == "start" else subscriptions.stop)(box, name, **by)
            return Done(f"subscription {name!r}: {verb}", ("subscriptions",), {})
        case "schedule":
            (schedules.pause if verb == "pause" else schedules.resume)(box, name, **by)
            return Done(f"schedule {name!r}: {verb}", ("schedules",), {})
        case "letter" | "message":
            return _on_message(box, action, name, form.get("queue", ""), by)
        case "instance":
            does = {"suspend": instances.suspend, "resume": instances.resume, "terminate": instances.terminate}[verb]
            does(box, _number("the instance", name), **by)
            return Done(f"instance {name}: {verb}", ("instances",), {})
        case _:
            done = messages.resubmit(box, **by)
            return Done(f"{done.routed:,} routed, {done.left:,} left", ("unrouted",), {})


def _on_message(box: MessageBox, action: str, name: str, queue: str, by: dict[str, Any]) -> Done:
    """Actions on one message: a dead letter by its number, or one that stands still by itself in a queue."""
    if action == "message.retry":
        (retried,) = messages.retry(box, name, queue=queue, **by)
        return Done(f"message {name}: retry", ("messages", name), {"done": retried.operation_id})
    number = _number("the dead letter", name)
    if action == "letter.delete":
        dead_letters.delete(box, [number], **by)
        return Done(f"dead letter {number}: deleted", ("dead-letters",), {})
    done = dead_letters.requeue(box, number, **by)
    back = ("messages", done.letter.message_id)
    return Done(f"dead letter {number}: {done.place}", back, {"done": done.operation_id}, REQUEUED.object_of(done))


# ---- many at once


@dataclass(frozen=True, slots=True)
class Lot:
    """What many are acted on by one action: how they are found, told apart, and acted on."""

    noun: str
    role: str
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
    """What an action on many has done."""

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
    """What many are acted on."""
    if what == "groups" and action in bulk.BULK:
        role = role_of(action)
        return Lot(
            "group",
            role,
            _GROUP_FILTERS,
            _find_groups,
            groups.seen_of,
            lambda one: (one.queue, one.group, one.state),
            _act_on_groups,
        )
    if what == "dead-letters" and action in ("requeue", "delete"):
        role = "mend" if action == "requeue" else "discard"
        return Lot(
            "dead letter", role, _LETTER_FILTERS, _find_letters, lambda one: seen_number(one.entry_id),
            lambda one: (one.queue, one.group, one.message_id), _act_on_letters,
        )  # fmt: skip
    if what == "set-aside" and action in ("requeue", "delete"):
        role = "mend" if action == "requeue" else "discard"
        return Lot(
            "message", role, _ASIDE_FILTERS, _find_aside, lambda one: seen_number(one.message_id, one.queue, one.status),
            lambda one: (one.queue, one.group, one.message_id), _act_on_aside,
        )  # fmt: skip
    raise Refusal(400, f"there is no action {shown(action, 60)} on many {shown(what, 60)}")


_GROUP_FILTERS = ("queue", "state", "key", "older_than", "error_class", "error", "since", "until")
_LETTER_FILTERS = ("queue", "key", "error_class", "error", "older_than", "since", "until")
_ASIDE_FILTERS = ("queue", "group", "status", "type", "older_than")


def preview(box: MessageBox, actor: Actor, what: str, action: str, given: Mapping[str, str]) -> Preview:
    """What an action on many would do; changes nothing."""
    lot = lot_of(what, action)
    if lot.role not in actor.roles:
        raise Refusal(403, f"{actor.name} may not do that", f"it needs the role {lot.role}")
    chosen = {name: given[name] for name in lot.filters if given.get(name)}
    check_values(box, [QUEUE], chosen)
    found, left_out = lot.find(box, action, chosen)
    some = found[:MOST_SEEN]
    return Preview(lot, action, some, left_out, token_of(map(lot.seen, some)), len(found) > MOST_SEEN)


def many(
    box: MessageBox, actor: Actor, what: str, action: str, form: Mapping[str, str], *, reads_only: bool = False
) -> Many:
    """Act on those that a preview has shown and that are as they were; each in a transaction of its own."""
    by = _allowed(actor, lot_of(what, action).role, form, reads_only=reads_only)
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


def _act_on_letters(box: MessageBox, action: str, found: list[Any], by: dict[str, str]) -> list[Any]:
    if action == "requeue":
        return list(dead_letters.requeue_each(box, found, **by))
    if found:
        dead_letters.delete(box, [one.entry_id for one in found], **by)
    return found


def _find_aside(box: MessageBox, action: str, given: dict[str, Any]) -> tuple[list[Any], list[tuple[Any, str]]]:
    kind = given.pop("type", None)
    found = set_aside.set_aside(box, message_type=kind, limit=MOST_SEEN + 1, **given)
    if action == "delete":
        return list(found), []
    fits = [one for one in found if one.status in set_aside.REQUEUED]
    return fits, [
        (one, f"what is {one.status} isn't put back") for one in found if one.status not in set_aside.REQUEUED
    ]


def _act_on_aside(box: MessageBox, action: str, found: list[Any], by: dict[str, str]) -> list[Any]:
    if action == "requeue":
        return list(set_aside.requeue_each(box, found, **by))
    if found:
        set_aside.delete(box, found, **by)
    return found


def told(done: Many) -> str:
    """What was done to many, in a sentence."""
    action, noun = done.preview.action, done.preview.lot.noun
    verb = ON_GROUPS[Action(action)].button if noun == "group" else action.replace("_", " ").capitalize()
    return f"{verb}: {counted(done.done, noun)}"
