"""What an operator does to a group: in one transaction it is locked, judged, changed, and written down.

Owns when a lock is waited for; what an action does is the kernel's. On a group that somebody works on, `suspend` and
`resume` are written down as requests, which the group's next turn obeys before anything else: so nothing leaves after
what is in hand, and nobody waits for a handler. Until then the group shows what it was asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import psycopg

from seriatim.box.definitions import BoxQueue, Known
from seriatim.box.groups import GroupView, group_of
from seriatim.box.lease import fence_off
from seriatim.box.mend import edit, failed, see_now, set_dead
from seriatim.box.operator_log import Operator, log
from seriatim.box.resequence import Acted
from seriatim.box.statements import statement
from seriatim.box.turns import Locked, Turns
from seriatim.errors import ActionRefused, Unavailable, UsageError, shown
from seriatim.kernel import actions
from seriatim.kernel.outcome import EventKind, Events
from seriatim.kernel.policy import Policy
from seriatim.kernel.resequence import Outcome
from seriatim.kernel.sequencer import Event
from seriatim.kernel.state import State
from seriatim.kernel.states import Action, GroupState, refusal

__all__ = ["Asked", "Operation", "act", "require_of"]

#: A turn that only judges ends within that; a handler may take as long as it likes.
_BRIEFLY_MS = 250
#: A group that is stopped is worked on only by turns that judge it, in whatever transactions these are.
_STOPPED_MS = 10_000
#: A group goes on at no number beyond that, or below its negative.
_LAST_NEXT = 2**62
#: Obeyed at the end of the turn of a group that is locked.
_REQUESTED = (Action.SUSPEND, Action.RESUME)
#: After these something may be handed out that nobody was called for.
_FREEING = frozenset(Action) - {Action.SUSPEND, Action.ABORT, Action.CLOSE}
_PLAIN: Mapping[Action, Callable[[Policy, State, int, str], Outcome]] = {
    Action.SUSPEND: actions.suspend,
    Action.RESUME: actions.resume,
    Action.RETRY: actions.retry,
    Action.SKIP_MESSAGE: actions.skip_message,
    Action.ABORT: actions.abort,
    Action.CLOSE: actions.close,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What an operator asks.

    Args:
        action: what to do.
        queue: the queue's name.
        group: the group's key.
        actor: who asks, at most 256 characters.
        reason: why, at most 4,096 characters.
        through: of `skip_hole`: the last number to skip; None: all of the hole.
        following: of `reset`: the number to go on at.
        body: of `retry`: what to put in the place of the body of the message that failed; None: it stays.

    Raises:
        UsageError: no actor or reason, a text that can't be kept, or a number to go on at that is out of range.
    """

    action: Action
    queue: str
    group: str
    actor: str
    reason: str
    through: int | None = None
    following: int | None = None
    body: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        Operator(self.actor, self.reason)
        if isinstance(self.following, int) and not -_LAST_NEXT <= self.following <= _LAST_NEXT:
            what = f"{shown(self.following)} is out of range"
            raise UsageError(what, where=f"group {self.group!r}", remedy=f"at most {_LAST_NEXT:,}, and its negative")


@dataclass(frozen=True, slots=True)
class Operation:
    """What came of an action.

    Args:
        operation_id: its number in the operator log.
        action: what was done.
        queue: the queue's name.
        group: the group's key.
        obeyed: False where the group is locked: it will be at the end of the turn.
        before: what the group showed.
        after: what it shows now.
        released: how many messages the action has let go.
        set_aside: how many it has set aside (late or dead).
        events: what happened to the group, in order; before the action, too, what was due.
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


def act(connection: psycopg.Connection, schema: str, asked: Asked, now_us: int | None = None) -> Operation:
    """Do what an operator asks, in the transaction of the connection.

    Args:
        connection: in whose transaction.
        schema: the schema of the box.
        asked: what to do.
        now_us: microseconds, in place of the database's clock.

    Raises:
        UsageError: there is no such queue or group.
        ActionRefused: the state of the group doesn't allow it; the remedy lists the allowed actions.
        Unavailable: a stopped group is judged by a transaction that doesn't end.
    """
    queue = Known(schema).read(connection).queue(asked.queue)
    turns = Turns(connection, schema, now_us)
    found = group_of(connection, schema, asked.queue, asked.group)
    locked = turns.lock(queue, 1, asked.group, _BRIEFLY_MS)
    if not locked.keys and asked.action is Action.ABORT and fence_off(connection, schema, queue, asked.group):
        locked = turns.lock(queue, 1, asked.group, _BRIEFLY_MS)
    if not locked.keys:
        found = group_of(connection, schema, asked.queue, asked.group)
        # Somebody had it a moment ago: a state that doesn't say so is younger than that, or stops the group as well.
        require_of(found, asked.action)
        if asked.action in _REQUESTED:
            return _requested(connection, schema, queue, asked, found)
        locked = turns.lock(queue, 1, asked.group, _STOPPED_MS)
        if not locked.keys:
            raise Unavailable(
                "another session keeps the lock of the group",
                where=f"queue {asked.queue!r}, group {asked.group!r}",
                remedy="try again after that session has ended",
            )
    return _done(connection, schema, turns, queue, locked, asked)


def require_of(found: GroupView, action: Action) -> None:
    """Let an action pass that fits the group.

    Raises:
        ActionRefused: names the state, and the actions that are allowed; from a worker's lease a group is aborted.
    """
    if found.allows(action):
        return
    state = found.state if found.obeyed else f"{GroupState.LOCKED}, and {found.state} when the turn ends"
    raise ActionRefused(
        refusal(action, state),
        where=f"queue {found.queue!r}, group {found.group!r}",
        remedy=f"allowed: {', '.join(one for one in Action if found.allows(one))}",
    )


def _requested(
    connection: psycopg.Connection, schema: str, queue: BoxQueue, asked: Asked, found: GroupView
) -> Operation:
    parameters = {"queue_id": queue.queue_id, "group_key": asked.group, "action": asked.action}
    connection.execute(statement("request", schema), parameters)
    after = group_of(connection, schema, asked.queue, asked.group).state
    number = _log(connection, schema, asked, {"obeyed": False, "before": found.state})
    return Operation(
        number, asked.action, asked.queue, asked.group, obeyed=False, before=found.state, after=after, released=0,
        set_aside=0,
    )  # fmt: skip


def _done(
    connection: psycopg.Connection, schema: str, turns: Turns, queue: BoxQueue, locked: Locked, asked: Asked
) -> Operation:
    mended = _mended(connection, schema, queue, asked)
    if mended.early is not None:
        judged = turns.judge(queue, locked, 0)
        after = group_of(connection, schema, asked.queue, asked.group)
        acted = Acted(judged, mended.early, _unlocked(after), 0, 0)
    else:
        effect = _effect(asked, queue.declared.policy_of(asked.group), locked.now_us)
        try:
            acted = turns.act(queue, locked, effect, empties=asked.action is Action.ABORT)
        except ActionRefused as error:
            where = f"queue {asked.queue!r}, {error.where}"
            raise ActionRefused(error.what, where=where, remedy=error.remedy) from None
    if asked.action in _FREEING:
        connection.execute(statement("call_waiters", schema), {"queue_ids": [queue.queue_id]})
    details = {
        "obeyed": True, "before": acted.before, "after": acted.after, "released": acted.released,
        "set_aside": acted.set_aside + mended.set_aside, **mended.details,
    }  # fmt: skip
    number = _log(connection, schema, asked, details)
    return Operation(
        number,
        asked.action,
        asked.queue,
        asked.group,
        obeyed=True,
        before=acted.before,
        after=acted.after,
        released=acted.released,
        set_aside=acted.set_aside + mended.set_aside,
        events=_told(acted.judged.events, asked.group),
    )


@dataclass(frozen=True, slots=True)
class _Mended:
    """What was done to the message of a faulted group before the kernel is asked.

    `early`: what a group shows that isn't faulted: its message waited for its next attempt, and that it is tried now
    is all.
    """

    set_aside: int = 0
    early: GroupState | None = None
    details: Mapping[str, object] = field(default_factory=dict)


def _mended(connection: psycopg.Connection, schema: str, queue: BoxQueue, asked: Asked) -> _Mended:
    """What the kernel doesn't have: the message of a group that failed was released before.

    Raises:
        UsageError: a body that can't be put in its place.
    """
    if asked.action not in (Action.RETRY, Action.SKIP_MESSAGE):
        return _Mended()
    found = failed(connection, schema, queue, asked.group)
    if found is None:
        return _Mended()
    state = _unlocked(group_of(connection, schema, asked.queue, asked.group))
    retries = asked.action is Action.RETRY
    waits = retries and found.waits and state in (GroupState.READY, GroupState.WAITING, GroupState.TIMED_OUT)
    if state is not GroupState.FAULTED and not waits:
        return _Mended()
    details: dict[str, object] = {"message_id": found.message.message_id}
    if not retries:
        set_dead(connection, schema, queue, asked.group, found)
        return _Mended(len(found.entry_ids), details=details)
    see_now(connection, schema, found)
    if asked.body is not None:
        edit(connection, schema, Known(schema).read(connection), found, asked.body, asked.actor)
        details["edited_bytes"] = len(asked.body)
    return _Mended(early=state if waits else None, details=details)


def _unlocked(view: GroupView) -> GroupState:
    """What a group shows to the one who has locked it."""
    if view.state is not GroupState.LOCKED:
        return view.state
    return GroupState.READY if view.hole_since is None else GroupState.WAITING


def _told(events: Events, group: str) -> tuple[Event, ...]:
    events = events.take(np.argsort(events.at, kind="stable"))
    rows = zip(events.kind.tolist(), events.first.tolist(), events.last.tolist(), strict=True)
    return tuple(
        Event(EventKind(kind).word, group, *((None, None) if kind == EventKind.CLOSED else (first, last)))
        for kind, first, last in rows
    )


def _effect(asked: Asked, policy: Policy, now: int) -> Callable[[State], Outcome]:
    """What the kernel does."""
    group, following = asked.group, asked.following
    if asked.action is Action.SKIP_HOLE:
        return lambda state: actions.skip_hole(policy, state, now, group, asked.through)
    if asked.action is Action.RESET and following is not None:
        return lambda state: actions.reset(policy, state, now, group, following)
    if asked.action not in _PLAIN:
        raise UsageError(f"cannot {asked.action} such a group")
    return lambda state: _PLAIN[asked.action](policy, state, now, group)


def _log(connection: psycopg.Connection, schema: str, asked: Asked, details: dict[str, object]) -> int:
    arguments = {"through": asked.through, "next": asked.following}
    said = {name: value for name, value in arguments.items() if value is not None} | details
    by = Operator(asked.actor, asked.reason)
    return log(connection, schema, by, asked.action, queue=asked.queue, group=asked.group, details=said)
