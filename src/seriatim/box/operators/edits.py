"""Retry the failed messages of many groups of a queue, each with its own edits of body and properties.

An edit is a message as it was exported, with another body or other properties. It is compared with the message as it
would be handed out next. The number of statements doesn't depend on the number of messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal, InvalidOperation
from hashlib import sha256
from typing import Any

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue, Definitions
from seriatim.box.definitions.route import router_of
from seriatim.box.messages.received import context_of, dialog_of
from seriatim.box.operators.actions import require_of, unlocked, why_refused
from seriatim.box.operators.failed_message import (
    EditedEntry,
    Stopping,
    failed_of,
    retry_now,
    see_now,
    stopped_messages,
    write_edits,
)
from seriatim.box.operators.operator_log import Operator, log_each
from seriatim.box.publishing.batch import distinct, stored_context
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.turns import Turns
from seriatim.box.views.exported import ExportedMessage
from seriatim.box.views.groups import GroupFilter, GroupView, groups_of
from seriatim.errors import ActionRefused, UsageError
from seriatim.kernel.groups.policy import UnitOfWork
from seriatim.kernel.groups.state import State
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import Action
from seriatim.kernel.operators import actions
from seriatim.kernel.resequence import Outcome
from seriatim.pipeline.filters.syntax import named
from seriatim.pipeline.types.box_properties import OWN
from seriatim.pipeline.types.message import Message, Property

#: A group that stands still is locked only by turns that judge it; so long is waited for each.
_BRIEFLY_MS = 250
#: For a property that says what orders the message, or where it is from.
_ANEW = "leave it as it was exported; to change it, publish the message anew, and skip this one"
#: The only property of every message that may be edited: it orders nothing.
_FREE = "correlation_id"


@dataclass(frozen=True, slots=True)
class NotRetried:
    """A message that isn't retried now, and the reason: it is gone, or doesn't stop its group any more."""

    queue: str
    group: str
    message_id: str
    why: str


@dataclass(frozen=True, slots=True)
class PlannedRetry:
    """A message that will be retried.

    Args:
        queue: the queue's name.
        group: the group's key.
        message_id: its id.
        changed: the changed fields: ``"body"``, and properties as ``"context.NAME"``; empty: it is retried as it is.
        edit: the edit.
        was_waiting: whether it waits for its next attempt; otherwise the group is faulted.
    """

    queue: str
    group: str
    message_id: str
    changed: tuple[str, ...]
    edit: EditedEntry
    was_waiting: bool = False


@dataclass(frozen=True, slots=True)
class Retried:
    """A message that was retried.

    Args:
        queue: the queue's name.
        group: the group's key.
        message_id: its id.
        changed: the changed fields: ``"body"``, and properties as ``"context.NAME"``; empty: it was retried as it was.
        operation_id: the number of the group's row in the operator log.
        before: the group's state before.
        after: the group's state now.
        released: the number of messages that the group released.
        more: whether the group releases the rest of a long run in its next turns.
    """

    queue: str
    group: str
    message_id: str
    changed: tuple[str, ...]
    operation_id: int
    before: GroupState
    after: GroupState
    released: int
    more: bool


def plan(
    transaction: Transaction,
    definitions: Definitions,
    name: str,
    wanted: Sequence[ExportedMessage],
    *,
    locked: bool = False,
) -> list[PlannedRetry | NotRetried | UsageError]:
    """Compare edited messages of one queue with the messages of the box; changes nothing."""
    queue = definitions.queue(name)
    entry_ids = [one.entry_id for one in wanted if one.entry_id is not None]
    rows = transaction.rows("entries_to_edit", queue_id=queue.queue_id, entry_ids=entry_ids)
    facts = {row.entry_id: row for row in rows}
    keys = sorted({row.group for row in rows if row.is_here})
    views = {one.group: one for one in groups_of(transaction, GroupFilter(name, limit=len(keys) or 1), keys)}
    if locked:
        views = {key: replace(view, state=unlocked(view)) for key, view in views.items()}
    stopping = failed_of(transaction, queue, keys)
    fixed = _fixed(definitions, queue)
    alone = (
        {one.entry_id: one for one in stopped_messages(transaction, queue, entry_ids=entry_ids)}
        if queue.numbers
        else {}
    )
    found: list[PlannedRetry | NotRetried | UsageError] = []
    for one in wanted:
        fact = None if one.entry_id is None else facts.get(one.entry_id)
        if fact is None:
            why = f"message {one.message_id!r} is not in the queue any more"
            found.append(NotRetried(name, one.group or "", one.message_id, why))
            continue
        try:
            changed, edit = _edit(definitions, fixed, one, fact)
        except UsageError as error:
            found.append(UsageError(error.what, where=one.where, remedy=error.remedy))
            continue
        if queue.numbers:
            refused = (
                None
                if fact.entry_id in alone
                else f"message {one.message_id!r} is not faulted or postponed, and waits for no attempt"
            )
        else:
            refused = _why_not(one, views.get(fact.group), stopping.get(fact.group))
        if refused is not None:
            found.append(NotRetried(name, fact.group, one.message_id, refused))
            continue
        waits = (
            not alone[fact.entry_id].is_faulted if queue.numbers else views[fact.group].state is not GroupState.FAULTED
        )
        found.append(PlannedRetry(name, fact.group, one.message_id, changed, edit, waits))
    return found


def retry_edited(
    transaction: Transaction, definitions: Definitions, name: str, wanted: Sequence[ExportedMessage], by: Operator
) -> list[Retried | NotRetried]:
    """Edit and retry messages of one queue, in the transaction, and log it: a row for each group."""
    queue, turns = definitions.queue(name), Turns(transaction)
    if queue.numbers:
        return _retry_alone(transaction, definitions, queue, wanted, by)
    locked = turns.lock_many(queue, sorted({one.group or "" for one in wanted}), _BRIEFLY_MS)
    have = set(locked.keys)
    mine = [one for one in wanted if one.group in have]
    planned = dict(zip(map(id, mine), plan(transaction, definitions, name, mine, locked=True), strict=True))
    goes = [one for one in planned.values() if isinstance(one, PlannedRetry)]
    done = _done(transaction, turns, queue, locked, goes, by) if goes else {}
    return [_result(queue, one, planned.get(id(one)), done) for one in wanted]


def _retry_alone(
    transaction: Transaction, definitions: Definitions, queue: BoxQueue, wanted: Sequence[ExportedMessage], by: Operator
) -> list[Retried | NotRetried]:
    """Like `retry_edited`, for messages that stop themselves alone; the log has a row for each."""
    name = queue.declared.name
    planned = plan(transaction, definitions, name, wanted)
    free = retry_now(transaction, queue, [one.edit.entry_id for one in planned if isinstance(one, PlannedRetry)])
    goes = [one for one in planned if isinstance(one, PlannedRetry) and one.edit.entry_id in free]
    if edited := [one.edit for one in goes if one.changed]:
        write_edits(transaction, queue, edited, by.actor)
    states = [GroupState.READY if one.was_waiting else GroupState.FAULTED for one in goes]
    details = [{"obeyed": True, "before": state} | _logged([one]) for one, state in zip(goes, states, strict=True)]
    numbers = log_each(transaction, by, Action.RETRY, queue=name, groups=[one.group for one in goes], details=details)
    done = {
        one.edit.entry_id: Retried(
            name, one.group, one.message_id, one.changed, number, state, GroupState.READY, 0, more=False
        )
        for one, state, number in zip(goes, states, numbers, strict=True)
    }
    results: list[Retried | NotRetried] = []
    for one, each in zip(wanted, planned, strict=True):
        match each:
            case NotRetried():
                results.append(each)
            case UsageError():
                results.append(NotRetried(name, one.group or "", one.message_id, why_refused(each)))
            case PlannedRetry():
                gone = NotRetried(name, each.group, one.message_id, "somebody else has retried it, or has it in hand")
                results.append(done.get(each.edit.entry_id, gone))
    return results


def _done(
    transaction: Transaction,
    turns: Turns,
    queue: BoxQueue,
    locked: LockedGroups,
    goes: Sequence[PlannedRetry],
    by: Operator,
) -> dict[str, Retried | ActionRefused]:
    of_group: dict[str, list[PlannedRetry]] = {}
    for one in goes:
        of_group.setdefault(one.group, []).append(one)
    stopping = failed_of(transaction, queue, list(of_group))
    see_now(transaction, queue, [entry_id for one in stopping.values() for entry_id in one.entry_ids])
    action_of = {key: _action(queue, key, each[0], locked.now_us) for key, each in of_group.items()}
    acted = turns.act_each(queue, locked._replace(keys=[key for key in locked.keys if key in of_group]), action_of)
    refused = {key: one for key, one in acted.items() if isinstance(one, ActionRefused)}
    fine = {key: one for key, one in acted.items() if not isinstance(one, ActionRefused)}
    edited = [one.edit for key in fine for one in of_group[key] if one.changed]
    if edited:
        write_edits(transaction, queue, edited, by.actor)
    transaction.do("call_all_waiters", of_queues=[queue.queue_id])
    details = [
        {"obeyed": True, "before": one.before, "after": one.after, "released": one.released, "set_aside": 0}
        | _logged(of_group[key])
        for key, one in fine.items()
    ]
    numbers = log_each(transaction, by, Action.RETRY, queue=queue.declared.name, groups=list(fine), details=details)
    turns.record_caused(queue, fine, numbers)
    return refused | {
        key: Retried(queue.declared.name, key, "", (), number, one.before, one.after, one.released, one.more)
        for (key, one), number in zip(fine.items(), numbers, strict=True)
    }


def _result(
    queue: BoxQueue,
    one: ExportedMessage,
    planned: PlannedRetry | NotRetried | UsageError | None,
    done: Mapping[str, Retried | ActionRefused],
) -> Retried | NotRetried:
    match planned:
        case None:
            why = "another session has the lock of the group (try again after that session has ended)"
        case NotRetried():
            return planned
        case UsageError():
            why = why_refused(planned)
        case PlannedRetry():
            found = done[planned.group]
            if isinstance(found, Retried):
                return replace(found, message_id=one.message_id, changed=planned.changed)
            why = why_refused(found)
    return NotRetried(queue.declared.name, one.group or "", one.message_id, why)


def _action(queue: BoxQueue, group: str, planned: PlannedRetry, now_us: int) -> Callable[[State], Outcome] | None:
    """The kernel's action; None if the message waits for its next attempt, and only has to be seen now."""
    if planned.was_waiting:
        return None
    return lambda state: actions.retry(queue.declared.policy_of(group), state, now_us, group)


def _logged(planned: Sequence[PlannedRetry]) -> dict[str, object]:
    """What the operator log says of the messages of a group; of a set, several were retried."""
    details: dict[str, object] = {"message_id": planned[0].message_id}
    if len(planned) > 1:
        details["message_ids"] = [one.message_id for one in planned]
    bodies = [one.edit.body for one in planned if one.edit.body is not None]
    if bodies:
        details["edited_bytes"] = sum(map(len, bodies))
    names = [name for one in planned for name in one.changed if name != "body"]
    if names:
        details["edited_properties"] = sorted({name.removeprefix("context.") for name in names})
    return details


def _why_not(one: ExportedMessage, view: GroupView | None, stopping: Stopping | None) -> str | None:
    """Why a message can't be retried: it doesn't stop its group, or the group may not be retried; None: it can."""
    if view is None:
        return "the queue has no groups, so no message stops one"
    try:
        require_of(view, Action.RETRY)
    except ActionRefused as error:
        return why_refused(error)
    if stopping is None or one.entry_id not in stopping.entry_ids:
        return f"message {one.message_id!r} is not the one that stops the group"
    return None


# ---- what an edit changes


def _fixed(definitions: Definitions, queue: BoxQueue) -> dict[str, str]:
    """The properties that an edit can't change, with the reason."""
    declared = queue.declared
    found = dict.fromkeys(OWN, "the box or its publisher says with it where the message is from")
    del found[_FREE]
    numbers = [("sequence", name) for name in declared.says.names]
    for what, name in (("group", declared.group.by), *numbers, ("priority", declared.priority)):
        if name is not None:
            found[name] = f"queue {declared.name!r} takes the {what} of messages from it"
    for policy in declared.all_policies():
        if isinstance(policy, UnitOfWork):
            names = {policy.size} if isinstance(policy.size, str) else set()
            names |= named(policy.last) if isinstance(policy.last, str) else set()
            found |= dict.fromkeys(names, f"queue {declared.name!r} takes the size of sets from it")
    for what, text in (("opens", declared.group.opens), ("closes", declared.group.closes)):
        if text is not None:
            found |= dict.fromkeys(named(text), f"queue {declared.name!r} tells from it which message {what} its group")
    for text in declared.says.filters.values():
        found |= dict.fromkeys(named(text), f"queue {declared.name!r} tells from it what a number means")
    led = dict.fromkeys(router_of(definitions).leading(declared.name), "it leads to the instance of the message")
    return found | {name: why for name, why in led.items() if name not in found}


def _edit(
    definitions: Definitions, fixed: Mapping[str, str], one: ExportedMessage, fact: Any
) -> tuple[tuple[str, ...], EditedEntry]:
    if fact.message_id != one.message_id:
        what = f"entry {one.entry_id} is message {fact.message_id!r}, and not {one.message_id!r}"
        raise UsageError(what, remedy="export the messages again")
    if not fact.is_here:
        raise UsageError("queue can't be changed by an edit", remedy=_ANEW)
    for name in ("group", "type", "content_type", "sequence"):
        if getattr(one, name) != getattr(fact, name):
            raise UsageError(f"{name} can't be changed by an edit", remedy=_ANEW)
    original = context_of(fact.context, fact.property_types)
    dialog_of(original, fact.type)  # which is no property
    properties = {name: _as_before(value, original.get(name)) for name, value in one.context.items()}
    other_body = sha256(one.body).digest() != fact.digest
    if not other_body and not _differing(original, properties):
        return (), EditedEntry(fact.entry_id, None, None, None)
    message = Message(
        message_id=one.message_id, type=one.type, content_type=one.content_type, context=properties, body=one.body
    )
    distinct([message])  # a body that can be one at all
    typed = router_of(definitions).typed([message], carried=True)
    (context,), (problem,) = typed.contexts, typed.problems
    if problem is not None:
        raise UsageError(f"the message is not what type {one.type!r} says: {problem}")
    names = _differing(original, context)
    for name in names:
        if name in fixed:
            raise UsageError(f"property {name!r} can't be changed by an edit: {fixed[name]}", remedy=_ANEW)
    stored, types = stored_context(message, context) if names else (None, None)
    changed = (*(["body"] if other_body else []), *(f"context.{name}" for name in names))
    return changed, EditedEntry(fact.entry_id, stored, types, one.body if other_body else None)


def _differing(before: Mapping[str, Property], after: Mapping[str, Property]) -> list[str]:
    missing = object()
    names = before.keys() | after.keys()
    return sorted(name for name in names if before.get(name, missing) != after.get(name, missing))


def _as_before(value: Any, before: Property) -> Any:
    """A value from JSON, of the type that the property had before if that is one that JSON doesn't have."""
    try:
        match before:
            case bool():
                return value
            case datetime() if isinstance(value, str):
                return datetime.fromisoformat(value)
            case Decimal() if isinstance(value, str | int) and not isinstance(value, bool):
                return Decimal(value)
            case float() if isinstance(value, int | Decimal) and not isinstance(value, bool):
                return float(value)
    except (ValueError, InvalidOperation, OverflowError):
        pass  # the message's type says what is wrong with it
    return value
