"""Diagnose one group: the message that blocks it, the backlog, the actions that help. Reads without locks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, assert_never

from seriatim.box.connection.access import Transaction
from seriatim.box.definitions.definition import BoxQueue
from seriatim.box.definitions.known import read_definitions
from seriatim.box.turns.failed_turns import FAILED_TURN
from seriatim.box.views.at_work import ready_work
from seriatim.box.views.connections import FORGOTTEN_S
from seriatim.box.views.events import EventView, events_of_group
from seriatim.box.views.groups import GroupView, group_of, postponement_of
from seriatim.box.views.open_places import OpenPlace, first_open_place
from seriatim.box.views.operations_done import LogFilter, Logged, logged
from seriatim.kernel.groups.policy import BestEffort, Standard, UnitOfWork
from seriatim.kernel.groups.states import GroupState
from seriatim.kernel.groups.verbs import Action, helping
from seriatim.pipeline.text.command import command
from seriatim.pipeline.text.counted import counted, numbers_text
from seriatim.pipeline.text.moment import local

#: Actions on messages, which have commands of their own.
_ELSEWHERE = frozenset({Action.REQUEUE})
#: Policies that may hold arrivals, which isn't known before they are judged.
_HOLDING = (Standard, BestEffort, UnitOfWork)
#: An idle transaction is reported after this time. A queue whose work has waited longer, without a receiver in sight, has no receiver.
_MOMENT_S = 5.0
#: How many entries of the operator log are shown.
_LOGGED = 10
#: How many events are shown.
_EVENTS = 10


@dataclass(frozen=True, slots=True)
class Head:
    """A message at the head of a group.

    Args:
        message_id: its id.
        type: its type.
        status: ``"queued"``, ``"held"`` or ``"arrived"``.
        sequence: its position in its group, as its producer numbered it; where numbers turn over, once it is judged, through all turns.
        ordinal: its position among the released messages of the group; None before it is released.
        late: whether it is out of order.
        attempt: the number of times it was handed out, as far as the box knows.
        visible_at: the earliest time at which it is handed out.
        postponed: how many times it was postponed; None: never.
        postponed_until: the earliest time at which it is handed out, if it was postponed until then.
        received_at: when it was published.
        entry_id: its number in the queue.
        failed: whether its handler failed at it last.
        stopped: the names of the subscriptions that collected it, if none of them is started: it waits for one of them.
        given: its producer's number, where numbers turn over; None: they don't.
    """

    message_id: str
    type: str
    status: str
    sequence: int | None
    ordinal: int | None
    late: bool
    attempt: int
    visible_at: datetime | None
    postponed: int | None
    postponed_until: datetime | None
    received_at: datetime
    entry_id: int
    failed: bool
    stopped: list[str] = field(default_factory=list)
    given: int | None = None

    @property
    def postponement(self) -> str | None:
        """Until when it is postponed, and how many times it was; None if it isn't postponed."""
        return postponement_of(self.postponed_until, self.postponed)


@dataclass(frozen=True, slots=True)
class Processed:
    """The last processed message of a group, as far as the box keeps that.

    Args:
        ordinal: its ordinal: the released messages through this one have been completed, or are dead letters.
        sequence: its position as its producer numbered it, as `GroupView.last_released` has it; None if the box doesn't keep it.
        at: when it was completed, if the queue keeps it; else the time at which the group was last handed out or judged,
            which isn't earlier.
        by: the process that completed it, by the name of its connection, if the queue keeps it.
        is_kept: whether the queue keeps it, so that the time is exact.
    """

    ordinal: int
    sequence: int | str | None
    at: datetime | None
    by: str | None
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Standing:
    """The diagnosis of a group.

    Args:
        view: its state and counts.
        why: the reason why it waits, in words.
        blocks: the message that blocks it, if a message does.
        following: the message that is processed next, when nothing blocks the group any more.
        behind: the number of waiting messages without the blocking message.
        allowed: the actions that are allowed now.
        helps: the actions that let it go on, best first.
        commands: the commands that let it go on, or say what does, best first; those of `helps` among them.
        operations: the operators' newest actions on it, newest first.
        processed: the last processed message; None: none has been processed.
        events: the newest events of the group, newest first.
        place: of a gate: the first open place, and the messages that it waits for; None: no place is open.
    """

    view: GroupView
    why: str
    blocks: Head | None
    following: Head | None
    behind: int
    allowed: tuple[Action, ...]
    helps: tuple[Action, ...]
    commands: tuple[str, ...]
    operations: tuple[Logged, ...] = field(default=())
    processed: Processed | None = None
    events: tuple[EventView, ...] = field(default=())
    place: OpenPlace | None = None


def standing_of(transaction: Transaction, queue: str, group: str) -> Standing:
    definitions = read_definitions(transaction)
    found = definitions.queue(queue)
    view = group_of(transaction, queue, group)
    parameters = {"queue_id": found.queue_id, "group_key": group}
    heads = transaction.rows("group_heads", Head, **parameters)
    if (modulus := found.declared.says.modulus) is not None:
        heads = [one if one.sequence is None else replace(one, given=one.sequence % modulus) for one in heads]
    blocks = _blocking(view, heads)
    closing = "; it is closing: new messages are late, and it is closed when it holds nothing" if view.closing else ""
    anew = "" if view.restart is None else f"; {view.restart}"
    off = "" if found.enabled else f"; and the queue is off: {command('queue', 'on', queue)}"
    following = next((head for head in heads if head is not blocks and not head.late), None)
    place = first_open_place(
        transaction, found.queue_id, view, lambda *where: next(iter(standing_of(transaction, *where).commands), None)
    )
    has_next = isinstance(found.declared.policy_of(group), Standard)
    others = _ELSEWHERE if has_next else _ELSEWHERE | {Action.RESET, Action.RESTART}
    if found.origin_id is not None:
        others |= {Action.RESTART}  # a gate's group begins anew with that of its origin queue
    allowed = tuple(action for action in Action if view.allows(action) and action not in others)
    again = view.tries_again or view.is_postponed or view.clock_was_ahead
    helping = (
        *((Action.RETRY,) if again else ()),
        *((Action.RESTART,) if view.restart_suspected else ()),
        *_helping(view, place),
    )
    helps = tuple(action for action in helping if action in allowed)
    return Standing(
        view,
        _why(transaction, found, view, following, place) + closing + anew + off,
        blocks,
        following,
        view.waiting - (blocks is not None),
        allowed,
        helps,
        tuple(_commands(view, helps, place)),
        tuple(logged(transaction, LogFilter(queue, group=group, limit=_LOGGED))),
        _processed(transaction.one("group_processed", **parameters), found, view, heads),
        tuple(events_of_group(transaction, found.queue_id, group, _EVENTS)),
        place,
    )


def _commands(view: GroupView, helps: Sequence[Action], place: OpenPlace | None) -> Iterator[str]:
    if (view.locked_idle_s or 0) >= FORGOTTEN_S:
        yield command("connection", "end", str(view.locked_by))
    if place is not None and place.helps is not None:
        yield place.helps
    for action in helps:
        yield command("group", action.replace("_", "-"), of=view.group, queue=view.queue)
    if view.regions is not None and view.state in (GroupState.WAITING, GroupState.TIMED_OUT):
        yield command("journal", "show", of=view.group, queue=view.queue, name=view.regions)


def _processed(row: Any, queue: BoxQueue, view: GroupView, heads: Sequence[Head]) -> Processed | None:
    """Return the last processed message: as kept, or derived from the first unprocessed message."""
    ordinal = view.ordinal if row.first_left is None else row.first_left - 1
    dead = set(row.dead)
    while ordinal in dead:
        ordinal -= 1
    if ordinal <= 0:
        return None
    if row.ordinal == ordinal:
        return Processed(ordinal, row.sequence, row.done_at, row.done_by, is_kept=True)
    sequence: int | str | None = None
    if ordinal == view.ordinal:
        sequence = view.last_released
    elif not dead:
        sequence = _before(next((one for one in heads if one.ordinal == ordinal + 1), None), queue, view, row.skipped)
    return Processed(ordinal, sequence, view.touched_at, None, is_kept=False)


def _before(head: Head | None, queue: BoxQueue, view: GroupView, skipped: Sequence[int]) -> int | None:
    """Return the number that left before the first queued one: the one below, unless that was skipped."""
    policy = queue.declared.policy_of(view.group)
    if head is None or head.sequence is None or head.late or not isinstance(policy, Standard):
        return None
    number = head.sequence - policy.increment
    for first, last in sorted(zip(skipped[::2], skipped[1::2], strict=True), reverse=True):
        if first <= number <= last:
            number = first - policy.increment
    return number


def _blocking(view: GroupView, heads: Sequence[Head]) -> Head | None:
    if view.state is GroupState.FAULTED:
        queued = [head for head in heads if head.status == "queued"]
        return next((head for head in queued if head.failed), queued[0] if queued else None)
    if view.state is GroupState.SUSPENDED and view.suspended_by is None:
        return next((head for head in heads if head.status == "held" and head.late), None)
    return None


def _why(
    transaction: Transaction, queue: BoxQueue, view: GroupView, following: Head | None, place: OpenPlace | None
) -> str:
    if view.is_postponed and view.postponement is not None:
        hole = "" if view.hole_since is None else f"; {_what_stops(view, GroupState.WAITING)}"
        return f"its receiver said not now: {view.postponement}{hole}"
    if view.tries_again and view.retry_at is not None:
        return f"the handler failed, and tries it again at {local(view.retry_at)}: {view.error}"
    open_place = "" if place is None else place.told
    if view.state is not GroupState.READY:
        is_hole = open_place and view.state in (GroupState.WAITING, GroupState.TIMED_OUT)
        return _what_stops(view, view.state) + (f"; {open_place}" if is_hole else "")
    return _why_ready(transaction, queue, view, following, open_place)


def _why_ready(
    transaction: Transaction, queue: BoxQueue, view: GroupView, following: Head | None, open_place: str
) -> str:
    """Return the reason why a group waits that nothing stops."""
    if view.places and (following is None or following.status == "held"):
        judges = _who_gets_it(transaction, queue, "the next receiver does that")
        unseen = f"nobody has looked yet at what has ended before the gate: {judges}"
        return open_place or unseen
    if following is None:
        return "nothing waits"
    if (before := _before_it_is_ready(queue, view, following)) is not None:
        return before
    if following.status == "arrived" and isinstance(queue.declared.policy_of(view.group), _HOLDING):
        judges = _who_gets_it(transaction, queue, "the next receiver does that")
        return (
            f"{counted(view.arrived, 'message')} of it {'is' if view.arrived == 1 else 'are'} not judged yet: {judges}"
        )
    return _who_gets_it(transaction, queue, "the next receiver gets it")


def _what_stops(
    view: GroupView,
    state: Literal[
        GroupState.CLOSED, GroupState.SUSPENDED, GroupState.FAULTED, GroupState.LOCKED, GroupState.TIMED_OUT,
        GroupState.WAITING,
    ],
) -> str:  # fmt: skip
    match state:
        case GroupState.CLOSED:
            return "it is closed: new messages are late" + (", and what it holds stays" if view.held else "")
        case GroupState.SUSPENDED:
            said = f"{view.suspended_by} suspended it: {view.suspended_because}"
            return f"suspended by {view.suspended_because}" if view.suspended_by is None else said
        case GroupState.FAULTED:
            return f"the handler failed for good: {view.error}" if view.error else "the handler failed for good"
        case GroupState.LOCKED:
            return _who_has(view)
        case GroupState.WAITING if view.unopened or view.gathers is not None:
            return _what_begins(view)
        case GroupState.TIMED_OUT | GroupState.WAITING:
            missing = numbers_text(view.next, view.hole_through)
            over = ", and its time is over" if view.state is GroupState.TIMED_OUT else ""
            over += f"; {view.clock_was_ahead}" if view.clock_was_ahead else ""
            return f"{missing} {'is' if view.next == view.hole_through else 'are'} missing{over}"
    assert_never(state)


def _what_begins(view: GroupView) -> str:
    if view.gathers is not None:
        return f"it {view.gathering}: until then it doesn't know its first number"
    due = "" if view.due_at is None else f"; what waits is late at {local(view.due_at)}"
    return f"it is not opened: it waits for a message that opens it{due}"


def _who_has(view: GroupView) -> str:
    if view.leased_by == FAILED_TURN and view.leased_until is not None:
        return f"a turn of it failed, and is tried again at {local(view.leased_until)}: seriatim doctor has the error"
    if view.leased_by is not None and view.leased_until is not None:
        return f"the worker {view.leased_by} works on it, in a lease until {local(view.leased_until)}"
    name = view.locked_name or "a connection without a name"
    address = "" if view.locked_host is None else f" at {view.locked_host}"
    if view.locked_idle_s is not None and view.locked_idle_s >= _MOMENT_S:
        return f"an idle transaction has held it for {view.locked_idle_s:,.0f} s (process {view.locked_by}, {name}{address})"
    return f"{name}{address} works on it (process {view.locked_by} of the database)"


def _before_it_is_ready(queue: BoxQueue, view: GroupView, following: Head) -> str | None:
    """Return the condition for handing out the next message; None: there is none."""
    if following.visible_at is not None and view.due_at is not None:
        return f"its next message may not be seen before {local(following.visible_at)}"
    if following.stopped:
        started = command("subscription", "start", *following.stopped)
        return f"its next message waits for a subscription that isn't started: {started}"
    if following.status != "held":
        return None
    if view.clock_was_ahead is not None:
        return f"what it has waits to be complete: {view.clock_was_ahead}"
    if view.due_at is not None and isinstance(queue.declared.policy_of(view.group), BestEffort):
        return f"its window runs: what it has is released at {local(view.due_at)}"
    return "what it has waits to be complete"


def _who_gets_it(transaction: Transaction, queue: BoxQueue, receiver: str) -> str:
    """Return the receiver of the next message, if there is any; `receiver`: the next step of a receiver."""
    name = queue.declared.name
    if queue.owner is not None:
        return f"the queue belongs to the pipeline {queue.owner}, which gets it"
    ready = ready_work(transaction).get(name)
    if ready is not None and ready.is_left_alone(_MOMENT_S):
        return f"nobody receives from the queue: {ready.helps}"
    return receiver


def _helping(view: GroupView, place: OpenPlace | None) -> tuple[Action, ...]:
    # A place whose messages are worked on needs no operator.
    is_on_way = place is not None and place.waits_for and place.helps is None
    if is_on_way and view.state in (GroupState.TIMED_OUT, GroupState.WAITING):
        return ()
    if view.gathers is not None and view.state is GroupState.WAITING:
        return (Action.RESET,)
    return helping(view.state, holds=view.held > 0)
