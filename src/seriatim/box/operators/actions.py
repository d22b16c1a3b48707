"""An operator's action on a group: one transaction locks the group, judges it, changes it, and logs the action.

The kernel decides what an action does; this module decides when to wait for a lock. If a receiver has the group locked,
`suspend` and `resume` are stored as requests, which the group's next turn carries out first. So no message leaves after
the messages in hand, and the operator doesn't wait for a handler. Until then the group shows the request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.known import read_definitions
from seriatim.box.faults.lease import fence_off
from seriatim.box.notice import EntriesSetAside
from seriatim.box.operators.failed_message import (
    StoppedMessage,
    edit,
    failed,
    retry_now,
    see_now,
    set_dead,
    stopped_messages,
)
from seriatim.box.operators.gate_groups import check_passed, refuse_own
from seriatim.box.operators.operator_log import Operator, log, log_each
from seriatim.box.operators.regional import check_not_regional
from seriatim.box.operators.seen import seen_of
from seriatim.box.operators.take_out import (
    TAKE_OUT,
    WaitingMessage,
    take_out_of_group,
    take_out_unordered,
    waiting_message,
)
from seriatim.box.turns.locked_groups import LockedGroups
from seriatim.box.turns.turn_result import ActionResult
from seriatim.box.turns.turns import Turns
from seriatim.box.views.groups import GroupView, group_of, new_group
from seriatim.errors import ActionRefused, GroupChanged, NotFound, SeriatimError, Unavailable, UsageError, shown
from seriatim.kernel.groups.policy import Policy, Standard
from seriatim.kernel.groups.state import State
from seriatim.kernel.groups.states import TRIED_AGAIN, GroupState
from seriatim.kernel.groups.verbs import VERBS, Action, checked, of_rule, require
from seriatim.kernel.operators import actions
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.sequencer import Event
from seriatim.kernel.values.outcome import EventKind
from seriatim.pipeline.text.command import command

#: A turn that only judges ends within that; a handler may take as long as it likes.
_BRIEFLY_MS = 250
#: A group that is stopped is worked on only by turns that judge it, in whatever transactions these are.
_STOPPED_MS = 10_000


@dataclass(frozen=True, slots=True)
class ActionRequest:
    action: Action
    queue: str
    group: str
    actor: str
    reason: str
    #: What is given of the action's parameters (see `VERBS`), by their names. The body of a message is for few eyes.
    given: Mapping[str, Any] = field(default_factory=dict, repr=False)
    #: What the operator has seen of the group, as `seen_of` gives it; None: they take it as it is.
    seen: str | None = None

    def __post_init__(self) -> None:
        Operator(self.actor, self.reason)
        object.__setattr__(self, "given", checked(self.action, self.given))

    @property
    def message(self) -> str | None:
        return self.given.get("message")

    @property
    def body(self) -> bytes | None:
        return self.given.get("body")


@dataclass(frozen=True, slots=True)
class Operation:
    """The result of an action.

    Args:
        operation_id: its number in the operator log.
        action: the action.
        queue: the queue's name.
        group: the group's key.
        obeyed: False if the group is locked: the action takes effect at the end of the turn.
        before: the group's state before.
        after: the group's state now.
        released: the number of released messages; of a long run, its beginning.
        set_aside: the number of messages set aside (late or dead).
        events: the group's events, in order, including timers that were due before the action.
        more: True if the rest of a long run follows in the group's next turns; `released` doesn't count it.
    """

    operation_id: int
    action: Action
    queue: str
    group: str
    obeyed: bool
    before: GroupState
    after: GroupState
    released: int
    set_aside: int
    events: tuple[Event, ...] = ()
    more: bool = False


def act(transaction: Transaction, asked: ActionRequest, now_us: int | None = None) -> Operation:
    queue = read_definitions(transaction).queue(asked.queue)
    check_not_regional(transaction, queue, asked.action, asked.group)
    if queue.numbers:
        return _of_message(transaction, queue, asked)
    if asked.action is Action.RETRY and asked.message is not None:
        raise _stops_group(asked.queue)
    turns = Turns(transaction, now_us)
    locked = turns.lock(queue, 1, asked.group, _BRIEFLY_MS)
    if not locked.keys and asked.action is Action.ABORT and fence_off(transaction, queue, asked.group):
        locked = turns.lock(queue, 1, asked.group, _BRIEFLY_MS)
    found = _found(transaction, queue, asked)
    _check_seen(asked, found)
    if not locked.keys:
        # Somebody had it a moment ago: a state that doesn't say so is younger than that, or stops the group as well.
        require_of(found, asked.action, named=asked.message is not None)
        if VERBS[asked.action].waits:
            return _requested(transaction, queue, asked, found)
        locked = turns.lock(queue, 1, asked.group, _STOPPED_MS)
        if not locked.keys:
            raise Unavailable(
                "another session keeps the lock of the group",
                where=f"queue {asked.queue!r}, group {asked.group!r}",
                remedy="try again after that session has ended",
            )
        found = _found(transaction, queue, asked)  # as that session has left it
        _check_seen(asked, found)
    return _done(transaction, turns, queue, locked, asked, found)


def _found(transaction: Transaction, queue: BoxQueue, asked: ActionRequest) -> GroupView:
    """The group; one of which no message has come yet, for an action with which it can begin."""
    try:
        return group_of(transaction, asked.queue, asked.group)
    except NotFound:
        if not (queue.has_groups and VERBS[asked.action].begins):
            raise
        return new_group(asked.queue, asked.group)


def take_out(transaction: Transaction, queue: BoxQueue, message_id: str, by: Operator) -> Operation:
    """Take a waiting message out of a queue, in the transaction: it becomes a dead letter."""
    found, name = waiting_message(transaction, queue, message_id), queue.declared.name
    if queue.has_groups:
        named = {"message": message_id}
        return act(transaction, ActionRequest(Action.SKIP_MESSAGE, name, found.group, by.actor, by.reason, named))
    return _taken_out(transaction, queue, found, message_id, by)


def retry_messages(
    transaction: Transaction, queue: BoxQueue, message_ids: Sequence[str], by: Operator, *, body: bytes | None = None
) -> dict[str, Operation | ActionRefused]:
    """Retry messages of an `Unordered` queue that are faulted, postponed or wait for their next attempt, in as many statements as one."""
    name = queue.declared.name
    if queue.has_groups:
        raise _stops_group(name)
    found: dict[str, list[StoppedMessage]] = {}
    for one in stopped_messages(transaction, queue, message_ids=message_ids):
        found.setdefault(one.message_id, []).append(one)
    free = retry_now(transaction, queue, [each[0].entry_id for each in found.values() if len(each) == 1])
    goes = [each[0] for each in found.values() if len(each) == 1 and each[0].entry_id in free]
    details = [{"obeyed": True, "message_id": one.message_id, "before": _state_of(one)} for one in goes]
    if body is not None and goes:
        edit(transaction, read_definitions(transaction), queue, goes[0].failed(), body, by.actor)
        details[0]["edited_bytes"] = len(body)
    numbers = log_each(transaction, by, Action.RETRY, queue=name, groups=[one.group for one in goes], details=details)
    done: dict[str, Operation | ActionRefused] = {}
    for one, number in zip(goes, numbers, strict=True):
        done[one.message_id] = _of_one(number, Action.RETRY, name, one.group, _state_of(one))
    for message_id in message_ids:
        if message_id not in done:
            several = len(found.get(message_id, ())) > 1
            done[message_id] = ActionRefused(
                f"messages of several id spaces have the id {shown(message_id)}"
                if several
                else f"message {shown(message_id)} is not faulted or postponed, and waits for no attempt",
                where=f"queue {name!r}",
                remedy="retry them with --edits" if several else f"see {command('messages', 'show', of=message_id)}",
            )
    return done


def _taken_out(
    transaction: Transaction, queue: BoxQueue, found: WaitingMessage, message_id: str, by: Operator
) -> Operation:
    number = take_out_unordered(transaction, queue, found, message_id, by)
    before = GroupState.FAULTED if found.status == "faulted" else GroupState.READY
    return _of_one(number, Action.SKIP_MESSAGE, queue.declared.name, found.group, before, set_aside=1)


def _of_one(number: int, action: Action, queue: str, group: str, before: GroupState, set_aside: int = 0) -> Operation:
    """The result for a message that stopped by itself."""
    return Operation(number, action, queue, group, True, before, GroupState.READY, released=0, set_aside=set_aside)


def _state_of(one: StoppedMessage) -> GroupState:
    return GroupState.FAULTED if one.is_faulted else GroupState.READY


def _stops_group(queue: str) -> UsageError:
    return UsageError(f"a message of queue {queue!r} stops its group", remedy="retry the group")


def _of_message(transaction: Transaction, queue: BoxQueue, asked: ActionRequest) -> Operation:
    """Perform an action on one message of a queue in which messages stop by themselves."""
    if asked.action not in (Action.RETRY, Action.SKIP_MESSAGE):
        what = f"cannot {asked.action.words} in queue {asked.queue!r}: it is Unordered, and its groups have no state"
        raise UsageError(what, remedy="retry or take out its messages, by their ids")
    if asked.message is None:
        raise UsageError(
            f"a message of queue {asked.queue!r} stops by itself", remedy='name it: message="…", or --message ID'
        )
    by = Operator(asked.actor, asked.reason)
    found = waiting_message(transaction, queue, asked.message, asked.group)
    if asked.action is Action.RETRY:
        done = retry_messages(transaction, queue, [asked.message], by, body=asked.body)[asked.message]
        if isinstance(done, ActionRefused):
            raise done
        return done
    return _taken_out(transaction, queue, found, asked.message, by)


def _check_seen(asked: ActionRequest, found: GroupView) -> None:
    if asked.seen is not None and asked.seen != seen_of(found):
        raise GroupChanged(
            f"group {asked.group!r} has changed since you looked: it is {unlocked(found).replace('_', ' ')} now. Nothing was done",
            where=f"queue {asked.queue!r}",
            remedy="look at it again",
        )


def require_of(found: GroupView, action: Action, *, named: bool = False) -> None:
    require(action, found.situation, f"queue {found.queue!r}, group {found.group!r}", named=named)


def why_refused(error: SeriatimError) -> str:
    """The reason and the remedy in one line, for a list of what was refused."""
    return f"{error.what}{f' ({error.remedy})' if error.remedy else ''}"


def _requested(transaction: Transaction, queue: BoxQueue, asked: ActionRequest, found: GroupView) -> Operation:
    transaction.do("request", of_queue=queue.queue_id, of_group=asked.group, its_action=asked.action)
    after = _found(transaction, queue, asked).state
    number = _log(transaction, asked, {"obeyed": False, "before": found.state})
    return Operation(number, asked.action, asked.queue, asked.group, False, found.state, after, released=0, set_aside=0)


def _done(
    transaction: Transaction,
    turns: Turns,
    queue: BoxQueue,
    locked: LockedGroups,
    asked: ActionRequest,
    found: GroupView,
) -> Operation:
    """Perform the action on the group, which is locked, and was found so under the lock."""
    verb, policy = VERBS[asked.action], queue.declared.policy_of(asked.group)
    before = _prepared(transaction, turns, queue, locked, asked, found)
    if before.acted is not None:
        acted = before.acted
    elif before.early is not None:
        acted = replace(turns.act(queue, locked, Outcome.unchanged), before=before.early)
    else:
        effect = _at_gate(turns, queue, locked, asked) or effect_of(asked, policy, locked.now_us)
        restarts = asked.action is Action.RESTART
        try:
            acted = turns.act(
                queue,
                locked,
                effect,
                empties=asked.action is Action.ABORT,
                all_arrived=not (verb.waits or restarts),
                none_arrived=restarts,
                all_held=verb.of_all_held,
            )
        except ActionRefused as error:
            where = f"queue {asked.queue!r}, {error.where}"
            raise ActionRefused(error.what, where=where, remedy=error.remedy) from None
    transaction.notice(*acted.judged.notices(queue, [asked.group], noticed_holes(asked.action)))
    if before.entry_ids:
        transaction.notice(EntriesSetAside(before.entry_ids))
    if verb.frees:
        transaction.do("call_all_waiters", of_queues=[queue.queue_id])
    result: dict[str, Any] = {
        "obeyed": True, "before": acted.before, "after": acted.after, "released": acted.released,
        "set_aside": acted.set_aside + len(before.entry_ids),
    }  # fmt: skip
    number = _log(transaction, asked, {**result, **_passed_over(asked, policy, acted), **before.details})
    turns.record(queue, [asked.group], acted.caused, number)
    events = tuple(
        Event(one.kind.word, asked.group, one.first, one.last, one.count) for one in acted.judged.events.rows()
    )
    return Operation(number, asked.action, asked.queue, asked.group, **result, events=events, more=acted.more)


def _brought_back(
    transaction: Transaction, turns: Turns, queue: BoxQueue, locked: LockedGroups, found: GroupView
) -> int:
    """Judge what has arrived, and take the messages that count as the producer's new ones back from those set aside."""
    situation = replace(found.situation, state=unlocked(found))
    require(Action.RESTART, situation, f"queue {found.queue!r}, group {found.group!r}")
    if not isinstance(queue.declared.policy_of(found.group), Standard):
        return 0  # refused by the kernel, which changes nothing
    refuse_own(queue, found.group, "restarted")
    check_passed(transaction, queue, found.group)
    judged = turns.act(queue, locked, Outcome.unchanged, all_arrived=True).judged
    transaction.notice(*judged.notices(queue, locked.keys))
    return int(transaction.value("bring_back", of_queue=queue.queue_id, of_group=found.group))


@dataclass(frozen=True, slots=True)
class _Prepared:
    """What an action did before the kernel is called. `early`: the state of a group that isn't faulted. `acted`: all is done."""

    entry_ids: Sequence[int] = ()
    early: GroupState | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    acted: ActionResult | None = None


def _prepared(
    transaction: Transaction, turns: Turns, queue: BoxQueue, locked: LockedGroups, asked: ActionRequest, view: GroupView
) -> _Prepared:
    """Change what the kernel doesn't have: messages that were set aside, or the failed message of a group, which was released before."""
    if asked.action is Action.RESTART:
        return _Prepared(details={"brought_back": _brought_back(transaction, turns, queue, locked, view)})
    if asked.message is not None:
        taken = take_out_of_group(transaction, turns, queue, locked, asked.message)
        acted = replace(taken.acted, before=taken.before)
        return _Prepared(taken.entry_ids, details={"message_id": asked.message}, acted=acted)
    return (
        _mended(transaction, queue, asked, view) if asked.action in (Action.RETRY, Action.SKIP_MESSAGE) else _Prepared()
    )


def _mended(transaction: Transaction, queue: BoxQueue, asked: ActionRequest, view: GroupView) -> _Prepared:
    """Let the failed message of a group be handed out again, or make it a dead letter."""
    retries = asked.action is Action.RETRY
    if retries and asked.body is None and view.due_in_s is not None and unlocked(view) in TRIED_AGAIN:
        transaction.do("put_right", of_queue=queue.queue_id, named=asked.group, after=None)
        return _Prepared(early=unlocked(view), details={"due_in_s": view.due_in_s})
    found = failed(transaction, queue, asked.group)
    if found is None:
        return _Prepared()
    state = unlocked(view)
    waits = retries and found.waits and state in (GroupState.READY, GroupState.WAITING, GroupState.TIMED_OUT)
    if state is not GroupState.FAULTED and not waits:
        return _Prepared()
    details: dict[str, object] = {"message_id": found.message.message_id}
    if not retries:
        set_dead(transaction, queue, asked.group, found)
        return _Prepared(found.entry_ids, details=details)
    if found.postponed is not None:
        details["postponed"] = found.postponed
    see_now(transaction, queue, found.entry_ids)
    if asked.body is not None:
        edit(transaction, read_definitions(transaction), queue, found, asked.body, asked.actor)
        details["edited_bytes"] = len(asked.body)
    return _Prepared(early=state if waits else None, details=details)


def noticed_holes(action: Action) -> tuple[EventKind, ...]:
    """The holes to notice after an action, except holes that the operator has skipped."""
    passed_over = action in (Action.SKIP_HOLE, Action.RESET)
    return (EventKind.TIMED_OUT,) if passed_over else (EventKind.TIMED_OUT, EventKind.HOLE_SKIPPED)


def unlocked(view: GroupView) -> GroupState:
    """The state of a group apart from this transaction's own lock."""
    if view.state is not GroupState.LOCKED:
        return view.state
    waits = view.hole_since is not None or view.postponed_until is not None or view.gathers is not None
    return GroupState.WAITING if waits else GroupState.READY


def effect_of(asked: ActionRequest, policy: Policy, now: int) -> Callable[[State], Outcome]:
    return lambda state: actions.apply(policy, state, now, asked.group, asked.action, asked.given)


def _at_gate(
    turns: Turns, queue: BoxQueue, locked: LockedGroups, asked: ActionRequest
) -> Callable[[State], Outcome] | None:
    """The kernel's action that skips a hole of a gate, where messages may wait between its numbers; None: it is another one."""
    policy = queue.declared.policy_of(asked.group)
    if asked.action is not Action.SKIP_HOLE or queue.origin_id is None or not isinstance(policy, Standard):
        return None
    forced = turns.force_places(queue, locked, asked.given.get("through"))
    if forced is None:
        return None
    return lambda state: actions.skip_holes(policy, state, locked.now_us, asked.group, *forced)


def _passed_over(asked: ActionRequest, policy: Policy, acted: ActionResult) -> dict[str, object]:
    """The first and the last skipped number, for the operator log; empty if none was skipped."""
    if asked.action is Action.SKIP_HOLE:
        events = acted.judged.events
        skipped = np.flatnonzero(events.kind == EventKind.HOLE_SKIPPED)
        if not len(skipped):  # of a gate, where results were there under all numbers of the hole
            return {}
        at = skipped[-1]  # others before it were due before the action
        return {"skipped": [int(events.first[at]), int(events.last[at])]}
    following = asked.given.get("next")
    if following is not None and isinstance(policy, Standard) and following > acted.next:
        return {"skipped": [acted.next, following - policy.increment]}
    return {}


def _log(transaction: Transaction, asked: ActionRequest, details: dict[str, object]) -> int:
    said = of_rule(asked.action, asked.given) | details
    action = asked.action if asked.message is None else TAKE_OUT
    by = Operator(asked.actor, asked.reason)
    return log(transaction, by, action, queue=asked.queue, group=asked.group, details=said)
